#!/usr/bin/env python3
"""`simba schedule`: runs at intervals, one at a time, on the leader only.

    schedule_test.py SET_CLOCK    the library of set_clock.c, or empty where nothing can be preloaded
"""
import json
import os
import re
import signal
import sqlite3
import sys
import time

import program
from program import (Blocked, Simba, case, contains, equal, is_alive, is_free, lines, main, now,
                     number, read, run, stays_taken, steal, true, url, wait_until)


def schedule(*options, script, identity="a", env=None):
    return Simba("--exact-id", identity, "schedule", "m", *options, "--", "bash", "-c", script, env=env)


def stamp(word):
    return f"echo {word} $(date +%s.%N) $SIMBA_CONTENDER_ID >>log"


def times(word):
    return [float(line.split()[1]) for line in lines("log") if line.startswith(word)]


def await_runs(count, word="start"):
    wait_until(lambda: len(times(word)) >= count, f"{count} runs")


def are_on_beat(count, seconds):
    """Whether so many runs in a row, of all so far, have begun that far from each other: a machine may be slow for
    a while."""
    starts = times("start")

    def follow_each_other(some):
        return all(abs(start - some[0] - place * seconds) < 0.15 for place, start in enumerate(some))
    return any(follow_each_other(starts[first:first + count]) for first in range(len(starts) - count + 1))


@case
def fixed_rate_keeps_the_rhythm_whatever_a_run_takes():
    """With the interval after each run the sixth would be a second late."""
    program = schedule("--every", "500ms", script=f"{stamp('start')}; sleep 0.2")
    wait_until(lambda: are_on_beat(6, 0.5), "six runs in a row are on the beat")
    equal(program.end(), 0)


@case
def fixed_delay_waits_for_the_interval_after_each_run():
    program = schedule("--every", "300ms", "--strategy", "fixed-delay",
                       script=f"{stamp('start')}; sleep 0.2; {stamp('end')}")
    await_runs(5)
    equal(program.end(), 0)
    pauses = [start - end for end, start in zip(times("end"), times("start")[1:])]
    true(0.295 <= min(pauses) < 1, f"{pauses} s between two runs")


@case
def runs_that_fall_due_during_a_run_are_skipped_and_none_overlap():
    """Each run is longer than the interval, so that every second one is skipped and the others keep the rhythm."""
    program = schedule("--every", "400ms", script=f"{stamp('start')}; sleep 0.5; {stamp('end')}")
    wait_until(lambda: are_on_beat(4, 0.8), "four runs in a row are on the beat")
    equal(program.end(), 0)
    words = [line.split()[0] for line in lines("log")]
    equal(words[:6], ["start", "end"] * 3)
    true(re.search(r"a run of 'm' was skipped: it fell due|\d+ runs of 'm' were skipped: they fell due",
                   program.said()), program.said())


def failures(program):
    """How many it has told of."""
    told = re.findall(r"(\S+) runs? of 'm' failed.* with exit code 9\n", program.said())
    return sum(1 if count == "a" else int(count) for count in told)


@case
def runs_that_fail_are_told_of_and_the_schedule_goes_on():
    program = schedule("--every", "100ms", script=f"{stamp('start')}; exit 9")
    await_runs(4)
    equal(program.end(), 0)
    true(failures(program) >= 3, program.said())


@case
def what_comes_with_every_run_is_told_of_once_a_second():
    begin = now()
    program = schedule("--every", "1ms", script=stamp("start") + "; exit 9")
    await_runs(40)
    equal(program.end(), 0)
    most = now() - begin + 2  # the first at once, the rest at the end
    for part in ("skipped: ", "failed"):
        told = [line for line in lines(program.err) if part in line]
        true(1 <= len(told) <= most, f"{len(told)} lines for 40 runs: {told[:5]}")
    true(failures(program) >= 38, f"some are missing: {program.said()}")


@case
def a_failure_is_told_of_while_the_next_run_is_under_way():
    program = schedule("--every", "100ms", script=f"{stamp('start')}; [ $(wc -l <log) -lt 3 ] || exec sleep 100;"
                       " exit 9")
    await_runs(3)
    wait_until(lambda: failures(program) == 2, "both are told of")
    equal(len(times("start")), 3)
    equal(program.end(), 0)


@case
def skipped_runs_are_counted_in_words_that_fit():
    program = schedule("--every", "100ms", script=f"{stamp('start')}; [ $(wc -l <log) -gt 1 ] || sleep 0.55")
    await_runs(2)
    equal(program.end(), 0)
    true(re.search(r"simba: ([5-9]|[1-9]\d+) runs of 'm' were skipped: they fell due during another\n", program.said()),
         program.said())


@case
def the_first_run_waits_for_the_initial_delay():
    begin = now()
    program = schedule("--every", "10s", "--initial-delay", "700ms", script="touch ran")
    wait_until(lambda: os.path.exists("ran"))
    true(now() - begin >= 0.7, f"it ran after {now() - begin}")
    equal(program.end(), 0)


@case
def only_the_leader_runs_and_the_next_one_takes_over():
    script = f"{stamp('start')}; sleep 0.05; {stamp('end')}"
    programs = {name: schedule("--every", "150ms", script=script, identity=name) for name in "ab"}
    await_runs(4)
    first = lines("log")[0].split()[2]
    second = "b" if first == "a" else "a"
    true(all(line.endswith(first) for line in lines("log")), read("log"))
    equal(programs[first].end(), 0)
    wait_until(lambda: second in read("log"))
    equal(programs[second].end(), 0)
    owners = "".join(line.split()[2] for line in lines("log"))
    true(first not in owners.lstrip(first), f"they take turns: {owners}")


@case
def a_run_under_way_is_stopped_when_the_lease_is_lost():
    program = schedule("--every", "100ms", "-k", "100ms", "--stop-timeout", "100ms",
                       script="trap '' TERM; echo $$ >>pids; while :; do sleep 0.02; done")
    command = int(wait_until(lambda: lines("pids"))[0])
    with Blocked() as store:
        lease_end = store.lease_end()
        wait_until(lambda: not is_alive(command))
        true(now() < lease_end, "it died after the lease")
    wait_until(lambda: len(lines("pids")) == 2)
    equal(program.end(), 0)


@case
def sigterm_stops_the_run_hands_over_and_is_0():
    program = schedule("--every", "1h", script="echo $$ >pid; exec sleep 100")
    command = number("pid")
    equal(program.end(), 0)
    true(not is_alive(command), "it is alive")
    true(is_free(), "it was not handed over")


@case
def sigterm_between_two_runs_ends_it_at_once():
    program = schedule("--every", "1h", script="touch ran")
    wait_until(lambda: os.path.exists("ran"))
    begin = now()
    equal(program.end(), 0)
    true(now() - begin < 3, f"it took {now() - begin}")
    true(is_free(), "it was not handed over")


@case
def a_run_that_takes_too_long_is_stopped_and_the_schedule_goes_on():
    program = schedule("--every", "300ms", "--hold-at-most", "200ms", "-k", "50ms",
                       script=f"trap '' TERM; {stamp('start')}; while :; do sleep 0.02; done")
    await_runs(3)
    begin = now()
    equal(program.end(), 0)
    true(now() - begin < 5, "the limit does not hold for a run that was told to end")
    contains(program.said(), "the time of --hold-at-most for 'm' is over: stopping the command")
    contains(program.said(), "killing it")


@case
def the_mutex_is_kept_for_the_minimum_after_sigterm_and_a_second_signal_ends_that():
    begin = now()
    program = schedule("--every", "4s", "--hold-at-least", "2s", script=stamp("start"))
    await_runs(1)
    program.send(signal.SIGTERM)
    stays_taken(begin + 2)  # longer than the lease: it is renewed meanwhile
    equal(program.wait(), 0)
    true(is_free(), "it was not handed over")
    program = schedule("--every", "4s", "--hold-at-least", "1h", script=stamp("start"))
    await_runs(2)
    program.send(signal.SIGTERM)
    wait_until(lambda: "another signal ends that" in program.said())
    wait_until(program.insist, "it ends")
    equal(program.wait(), 0)
    true(is_free(), "it was not handed over")


@case
def a_lease_that_is_lost_during_the_minimum_is_70():
    program = schedule("--every", "1h", "--hold-at-least", "1h", script=stamp("start"))
    await_runs(1)
    program.send(signal.SIGTERM)
    wait_until(lambda: "another signal ends that" in program.said())
    steal()
    equal(program.wait(), 70)
    contains(program.said(), "was lost before its minimum was over")


@case
def a_command_that_cannot_be_executed_ends_the_schedule():
    equal(run("schedule", "m", "--every", "1s", "--", "no-such-command").code, 127)
    true(is_free(), "it was not handed over")


@case
def what_is_wrong_with_the_command_line_is_64():
    for arguments in (["m", "--", "true"], ["m", "--every", "0", "--", "true"],
                      ["m", "--every", "1s"], ["--every", "1s"], ["m", "--every", "x", "true"],
                      ["m", "--every", "1s", "--strategy", "often", "--", "true"],
                      ["m", "--every", "1s", "--hold-at-least", "2s", "--hold-at-most", "1s", "true"]):
        equal(run("schedule", *arguments).code, 64)
    os.environ["SIMBA_URL"] = url(ttl="1s", transition="1s")
    equal(run("schedule", "m", "--every", "1s", "-k", "1s", "true").code, 78)


class Past:
    """The last run of 'm' began so long ago."""

    def __init__(self, ago, value="ended 0 1000 a"):
        with sqlite3.connect("store.db") as database:
            database.execute("UPDATE simba_property SET value = ?, written_at = written_at - ? WHERE name = 'last-run'",
                             (value, int(ago * 1000)))
        database.close()


def run_once():
    """Leaves a run of 'm' in the store."""
    program = schedule("--every", "1h", script=stamp("start"))
    await_runs(len(times("start")) + 1)
    wait_until(lambda: "last_run\":{" in read(run("status", "--json", "m").out), "it is known that the run has ended")
    equal(program.end(), 0)


LOOK = 6 * program.TTL  # from one look at the store's clock to the next


def leads(program):
    wait_until(lambda: "leading 'm'" in program.said(), "it leads")
    return program


def seconds_to_the_next_run():
    """As the store knows it."""
    status = json.loads(read(run("status", "--json", "m").out))[0]
    return None if status["next_run_ms"] is None else status["next_run_ms"] / 1000 - time.time()


@case
def a_new_leader_goes_on_where_the_last_one_was():
    run_once()
    program = leads(schedule("--every", "1h", script=stamp("start"), identity="b"))
    wait_until(lambda: 3500 < (seconds_to_the_next_run() or 0) < 3601, "the next run is an hour behind the last")
    equal(len(times("start")), 1)
    equal(program.end(), 0)


@case
def a_run_that_fell_due_while_nobody_led_is_made_up_for_once_or_skipped():
    run_once()
    Past(5 * 3600 + 60)
    program = leads(schedule("--every", "1h", "--missed", "skip", script=stamp("start")))
    wait_until(lambda: 3400 < (seconds_to_the_next_run() or 0) < 3541, "the next one is on the beat")
    equal(program.end(), 0)
    equal(len(times("start")), 1)
    program = schedule("--every", "1h", script=stamp("start"))
    await_runs(2)
    wait_until(lambda: 3500 < (seconds_to_the_next_run() or 0), "it is an hour to the next")
    equal(program.end(), 0)
    equal(len(times("start")), 2)


@case
def a_run_whose_machine_died_or_was_stopped_is_repeated():
    run_once()
    for count, value in ((2, "running 0 0 a"), (3, "stopped 143 500 a")):
        Past(60, value)
        program = schedule("--every", "1h", script=stamp("start"))
        await_runs(count)
        equal(program.end(), 0)


@case
def a_clock_of_the_store_that_was_set_back_delays_no_run_for_longer_than_the_interval():
    run_once()
    Past(-1000 * 3600)
    program = leads(schedule("--every", "1h", script=stamp("start")))
    wait_until(lambda: 3500 < (seconds_to_the_next_run() or 0) < 3601, "it is an hour to the next run")
    equal(program.end(), 0)


@case
def a_last_run_that_lies_in_the_future_suppresses_no_run():
    """Whoever may write the property could otherwise stop a job for ever."""
    run_once()
    Past(-1000 * 24 * 3600)
    program = leads(schedule("--at", clock(7200), "--timezone", "UTC", script=stamp("start")))
    wait_until(lambda: 7000 < (seconds_to_the_next_run() or 0) <= 7200, "it is two hours to the next run")
    equal(program.end(), 0)
    equal(len(times("start")), 1)
    for count, options in ((2, ["--every", "1h"]), (3, ["--at", clock(7200), "--timezone", "UTC"])):
        Past(-1000 * 24 * 3600, "running 0 0 a")
        program = schedule(*options, script=stamp("start"))
        await_runs(count)
        equal(program.end(), 0)


def clock(seconds):
    """The time of the day, that far from now, in UTC."""
    return time.strftime("%H:%M", time.gmtime(time.time() + seconds))


@case
def times_of_the_calendar_are_those_of_the_zone():
    """A leader without a past waits; one that finds a day missed runs at once, or skips it."""
    program = leads(schedule("--at", clock(7200), "--timezone", "UTC", script=stamp("start")))
    wait_until(lambda: 7000 < (seconds_to_the_next_run() or 0) <= 7200, "it is two hours to the first run")
    equal(program.end(), 0)
    equal(len(times("start")), 0)
    run_once()
    Past(2 * 86400)
    program = leads(schedule("--at", clock(7200), "--timezone", "UTC", "--missed", "skip", script=stamp("start")))
    wait_until(lambda: 7000 < (seconds_to_the_next_run() or 0) <= 7200, "it is two hours to the next run")
    equal(program.end(), 0)
    equal(len(times("start")), 1)
    minute, hour = clock(7200)[3:], clock(7200)[:2]
    program = schedule("--cron", f"{minute} {hour} * * *", "--timezone", "UTC", script=stamp("start"))
    await_runs(2)
    wait_until(lambda: 7000 < (seconds_to_the_next_run() or 0) <= 7200, "it is two hours to the next run")
    equal(program.end(), 0)
    equal(len(times("start")), 2)


def set_clock(ahead_s):
    return program.clock(sys.argv[1], ahead_s)


@case
def a_clock_that_is_set_forward_and_back_while_a_run_is_waited_for_runs_it_once():
    """As after a pause of a virtual machine, which stops the clock that waits are counted by."""
    leader = leads(schedule("--at", clock(7200), "--timezone", "UTC", script=stamp("start"), env=set_clock(0)))
    wait_until(lambda: 7000 < (seconds_to_the_next_run() or 0) <= 7200, "it is two hours to the run")
    set_clock(7300)
    await_runs(1)
    wait_until(lambda: 86000 < seconds_to_the_next_run() <= 7200 + 86400, "the next one is that of tomorrow")
    set_clock(0)
    time.sleep(1.2 * LOOK)  # nothing is to happen
    true(86000 < seconds_to_the_next_run() <= 7200 + 86400, "it stays that of tomorrow")
    equal(leader.end(), 0)
    equal(len(times("start")), 1)


@case
def a_clock_that_was_years_ahead_at_first_delays_no_run():
    """As that of a machine before it has asked for the time."""
    leader = leads(schedule("--at", clock(7200), "--timezone", "UTC", script=stamp("start"), env=set_clock(1000 * 86400)))
    wait_until(lambda: (seconds_to_the_next_run() or 0) > 999 * 86400, "it waits for years")
    set_clock(0)
    wait_until(lambda: 7000 < seconds_to_the_next_run() <= 7200, "it is two hours to the run")
    equal(leader.end(), 0)
    equal(len(times("start")), 0)


@case
def a_time_of_the_calendar_comes():
    """It takes a minute at most."""
    program = leads(schedule("--cron", "* * * * *", script=f"echo $TZ >>zone; {stamp('start')}"))
    wait_until(lambda: times("start"), "a minute begins", patience=90)
    true(times("start")[0] % 60 < 5, f"{times('start')[0] % 60} s after the minute")
    equal(program.end(), 0)
    equal(read("zone"), os.environ.get("TZ", "") + "\n")


@case
def what_is_no_time_is_refused():
    for options in ([], ["--every", "1h", "--at", "02:30"], ["--at", "25:00"], ["--cron", "* * * *"],
                    ["--cron", "0 0 30 2 *"], ["--at", "02:30", "--timezone", "Europe/Nowhere"],
                    ["--at", "02:30", "--timezone", "Europe"], ["--at", "02:30", "--timezone", "."],
                    ["--at", "02:30", "--timezone", "right/UTC"], ["--cron", "*/4294967297 * * * *"],
                    ["--every", "1h", "--timezone", "UTC"], ["--every", "1h", "--missed", "all"]):
        program = run("schedule", *options, "m", "--", "touch", "ran")
        equal(program.code, 64)
    true(not os.path.exists("ran"), "it ran")


@case
def a_store_that_does_not_remember_runs_is_warned_of_once():
    """The rest works."""
    run("init")
    with sqlite3.connect("store.db") as database:
        database.execute("CREATE VIEW simba_property AS SELECT 1 AS mutex, 2 AS name, 3 AS value, 4 AS written_at")
    database.close()
    program = schedule("--every", "100ms", script=stamp("start"))
    await_runs(4)
    equal(program.end(), 0)
    equal(program.said().count("does not remember the runs of 'm'"), 1)


if __name__ == "__main__":
    sys.exit(main())
