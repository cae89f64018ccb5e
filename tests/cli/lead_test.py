#!/usr/bin/env python3
"""`simba lead`: a command runs on exactly one machine, is restarted, stopped, handed over."""
import os
import signal
import sys
import time

from program import (LEASE, Blocked, Simba, case, contains, equal, is_alive, is_free, lines, main,
                     now, number, read, run, stays_taken, steal, true, url, wait_until, write)

# Writes a line for its start and one for its end, and takes a moment to end.
SERVICE = ("trap 'sleep 0.3; echo end $SIMBA_CONTENDER_ID >>log; exit 0' TERM;"
           "echo start $SIMBA_CONTENDER_ID $SIMBA_FENCE >>log; echo $$ >pid.$SIMBA_CONTENDER_ID.new;"
           "mv pid.$SIMBA_CONTENDER_ID.new pid.$SIMBA_CONTENDER_ID;"
           "while :; do sleep 0.02; done")


def lead(identity, *options, script=SERVICE, **more):
    return Simba("--exact-id", identity, "lead", *options, "m", "--", "bash", "-c", script, **more)


def stamp(path="starts"):
    return f"date +%s.%N >>{path}"


def gaps(path="starts"):
    times = [float(line) for line in lines(path)]
    return [after - before for before, after in zip(times, times[1:])]


@case
def the_command_runs_while_leading_and_ends_before_the_next_leader_starts():
    first = lead("a")
    number("pid.a")
    second = lead("b")
    wait_until(lambda: "waiting for 'm', 1st in line, held by a" in second.said())
    true(not os.path.exists("pid.b"), "the second one runs, too")
    equal(first.end(), 0)
    number("pid.b")
    equal(second.end(), 0)
    words = [line.split()[:2] for line in lines("log")]
    equal(words, [["start", "a"], ["end", "a"], ["start", "b"], ["end", "b"]])
    fences = [int(line.split()[2]) for line in lines("log") if line.startswith("start")]
    true(fences[0] < fences[1], f"the fence does not grow: {fences}")


@case
def sigint_ends_it_as_well_and_sigquit_is_what_it_ends_by():
    program = lead("a", script="echo $$ >pid; exec sleep 100")
    number("pid")
    equal(program.end(signal.SIGINT), 0)
    program = lead("a", script="echo $$ >pid2; exec sleep 100")
    number("pid2")
    equal(program.end(signal.SIGQUIT), -signal.SIGQUIT)
    true(is_free(), "it was not handed over")


@case
def a_command_that_ends_is_started_again_with_growing_delays():
    program = lead("a", "--restart-delay", "100ms", script=f"{stamp()}; exit 3")
    wait_until(lambda: len(lines("starts")) >= 5)
    equal(program.end(), 0)
    for place, (expected, gap) in enumerate(zip([0.1, 0.2, 0.4, 0.8], gaps())):
        true(expected <= gap < expected + 2, f"delay {place} is {gap}")
    contains(program.said(), "the command ended with exit code 3: it starts again in 100ms")


@case
def delays_grow_to_their_maximum_and_no_further():
    program = lead("a", "--restart-delay", "500ms", "--restart-delay-max", "1s", script="exit 0")
    wait_until(lambda: program.said().count("in 1s") >= 2)
    equal(program.end(), 0)
    equal(program.said().count("in 500ms"), 1)
    true("in 2s" not in program.said(), program.said())


@case
def a_command_that_ran_well_for_a_while_begins_with_the_first_delay_again():
    program = lead("a", "--restart-delay", "50ms", "--restart-delay-max", "300ms",
                   script=f"{stamp()}; sleep 0.4; exit 1")
    wait_until(lambda: len(lines("starts")) >= 4)
    equal(program.end(), 0)
    true(program.said().count("in 50ms") >= 3, program.said())
    true("in 100ms" not in program.said(), program.said())


@case
def never_ends_with_the_code_of_the_command():
    equal(lead("a", "--restart", "never", script="exit 4").wait(), 4)
    equal(lead("a", "--restart", "never", script="exit 0").wait(), 0)
    equal(lead("a", "--restart", "never", script="kill -KILL $$").wait(), 128 + signal.SIGKILL)
    true(is_free(), "it was not handed over")


@case
def on_failure_starts_again_until_it_succeeds():
    script = f"{stamp()}; [ $(wc -l <starts) -ge 3 ]"
    equal(lead("a", "--restart", "on-failure", "--restart-delay", "20ms", script=script).wait(), 0)
    equal(len(lines("starts")), 3)


@case
def a_command_that_cannot_be_executed_hands_over():
    equal(run("lead", "m", "--", "no-such-command").code, 127)
    write("plain", "text")
    equal(run("lead", "m", "--", "./plain").code, 126)
    true(is_free(), "it was not handed over")


@case
def a_command_that_exits_with_127_by_itself_is_restarted():
    program = lead("a", "--restart-delay", "20ms", script=f"{stamp()}; exit 127")
    wait_until(lambda: len(lines("starts")) >= 3)
    equal(program.end(), 0)


@case
def a_command_that_does_not_end_is_killed_after_the_stop_timeout():
    program = lead("a", "--stop-timeout", "1500ms",
                   script="trap '' TERM; echo $$ >pid; while :; do sleep 0.02; done")
    command = number("pid")
    begin = now()
    program.send(signal.SIGTERM)
    stays_taken(begin + 1.5)  # longer than the lease: it is renewed meanwhile
    equal(program.wait(), 0)
    true(not is_alive(command), "it is alive")
    true(1.4 < now() - begin < 8, f"it took {now() - begin}")
    contains(program.said(), "the command has not ended in time: killing it")
    true(is_free(), "it was not handed over")


@case
def a_command_that_is_stopped_can_still_be_told_to_end():
    program = lead("a", script="echo $$ >pid; exec sleep 100")
    os.kill(number("pid"), signal.SIGSTOP)
    equal(program.end(), 0)


@case
def signals_for_the_command_do_not_end_it():
    script = ("for s in HUP USR1 USR2 WINCH; do trap \"echo $s >>got\" $s; done; echo $$ >pid;"
              "while :; do sleep 0.02; done")
    program = lead("a", script=script)
    number("pid")
    for name in ("USR1", "USR2", "WINCH"):
        program.send(getattr(signal, "SIG" + name))
        wait_until(lambda: name in read("got"), name)
    true(is_alive(program.pid), "it has ended")
    equal(program.end(), 0)


@case
def sighup_without_a_terminal_is_for_the_command():
    script = "trap 'echo again >>got' HUP; echo $$ >pid; while :; do sleep 0.02; done"
    holder = Simba("lead", "m", "--", "bash", "-c", script)
    number("pid")
    waiter = Simba("lead", "m", "--", "touch", "ran")
    wait_until(waiter.takes_signals)
    for program in (holder, waiter):
        program.send(signal.SIGHUP)
        program.send(signal.SIGHUP)
    wait_until(lambda: "again" in read("got"))
    true(is_alive(holder.pid) and is_alive(waiter.pid), "it has ended")
    equal(waiter.end(), 0)
    equal(holder.end(), 0)
    true(not os.path.exists("ran"), "the waiter's command ran")


@case
def a_signal_ends_the_wait_and_leaves_nothing_behind():
    os.environ["SIMBA_URL"] = url(ttl="20s", transition="20s")
    holder = lead("a")
    number("pid.a")
    for delay in (0, 0.05, 0.2, 1.2):
        waiter = Simba("lead", "m", "--", "touch", "ran")
        wait_until(waiter.takes_signals)
        time.sleep(delay)  # each a little further on its way; none of these is waited for
        begin = now()
        equal(waiter.end(), 0)
        true(now() - begin < 3, f"it took {now() - begin}")
    equal(holder.end(), 0)
    true(is_free(), "somebody still owns")
    true(not os.path.exists("ran"), "the waiter's command ran")


@case
def a_lost_lease_stops_the_command_and_it_runs_again_when_the_store_is_back():
    program = lead("a", script="echo $SIMBA_FENCE >>fences; echo $$ >>pids; exec sleep 100")
    command = int(wait_until(lambda: lines("pids"))[0])
    with Blocked() as store:
        lease_end = store.lease_end()
        wait_until(lambda: not is_alive(command))
        true(now() < lease_end, "it died after the lease")
        wait_until(lambda: "not leading 'm' any more" in program.said())
        equal(len(lines("pids")), 1)
    wait_until(lambda: len(lines("pids")) == 2)
    fences = [int(line) for line in lines("fences")]
    true(fences[0] < fences[1], f"the fence does not grow: {fences}")
    equal(program.end(), 0)


@case
def the_command_is_stopped_soon_when_the_store_gives_the_mutex_away():
    os.environ["SIMBA_URL"] = url(ttl="300ms", transition="60s")
    program = lead("a", "-k", "300ms",
                   script="trap '' TERM; echo $$ >pid; while :; do sleep 0.02; done")
    command = number("pid")
    begin = now()
    steal()
    wait_until(lambda: not is_alive(command))
    true(now() - begin < 8, f"it took {now() - begin}")
    contains(program.said(), "the lease of 'm' is lost: stopping the command")
    wait_until(lambda: "not leading" in program.said())
    equal(program.end(), 0)


@case
def killing_simba_kills_all_of_the_command_and_another_takes_over():
    program = lead("a", script="sleep 100 & echo $! >inner; echo $$ >pid; wait")
    inner, command = number("inner"), number("pid")
    other = lead("b")
    wait_until(lambda: "waiting" in other.said())
    begin = now()
    equal(program.end(signal.SIGKILL), -signal.SIGKILL)
    wait_until(lambda: not is_alive(inner) and not is_alive(command))
    number("pid.b")
    true(now() - begin < LEASE + 4, f"it took {now() - begin}")
    equal(other.end(), 0)


@case
def what_the_command_leaves_running_ends_with_it():
    program = lead("a", "--restart-delay", "50ms",
                   script="sleep 100 & echo $! >>inner; exit 1")
    wait_until(lambda: len(lines("inner")) >= 3)
    equal(program.end(), 0)
    true(not any(is_alive(int(pid)) for pid in lines("inner")), "something is left")


@case
def the_command_gets_the_descriptors_that_simba_was_given_and_that_of_its_life():
    reader, writer = os.pipe()
    program = Simba("lead", "m", "--restart", "never", "--", "ls", "/proc/self/fd",
                    pass_fds=[writer])
    equal(program.wait(), 0)
    # ls has one more, for the folder.
    equal(len(read(program.out).split()), 6)
    contains(read(program.out).split(), str(writer))
    os.close(reader)
    os.close(writer)


@case
def a_pause_before_a_restart_ends_with_the_lease():
    program = lead("a", "--restart-delay", "60s", script=f"{stamp()}; exit 1")
    wait_until(lambda: "starts again" in program.said())
    with Blocked():
        wait_until(lambda: "not leading 'm' any more" in program.said())
    wait_until(lambda: len(lines("starts")) == 2)
    equal(program.end(), 0)


CRASH = f"{stamp()}; exit 3"
QUICK = ["--restart-delay", "50ms", "--restart-delay-max", "2s"]


@case
def a_leader_whose_command_keeps_failing_lets_another_lead():
    broken = lead("broken", *QUICK, script=CRASH)
    wait_until(lambda: len(lines("starts")) >= 5, "it goes on while nobody else waits")
    healthy = lead("healthy")
    number("pid.healthy")
    contains(broken.said(), "the command keeps failing: giving 'm' up for 2s, so that another can lead")
    tries = len(lines("starts"))
    wait_until(lambda: "held by healthy" in broken.said(), "it competes again")
    equal(healthy.end(), 0)
    wait_until(lambda: len(lines("starts")) > tries, "it leads again")
    equal(broken.end(), 0)


@case
def the_failures_that_make_a_leader_yield_can_be_chosen_and_good_runs_do_not_count():
    for options, script, yielded in ((["--yield-after", "1"], CRASH, 1), (["--yield-after", "0"], CRASH, None),
                                     (["--restart-delay-max", "100ms"], f"{stamp()}; sleep 0.2; exit 3", None),
                                     ([], f"{stamp()}; exit 0", None)):
        waiter = Simba("--exact-id", "first", "lock", "m", "--", "sh", "-c", "echo $$ >held; exec sleep 100")
        number("held")
        program = lead("broken", *QUICK, *options, script=script)
        wait_until(lambda: "held by first" in program.said())
        standby = lead("standby")
        wait_until(lambda: "held by first" in standby.said())
        waiter.end()
        if yielded is None:
            wait_until(lambda: len(lines("starts")) >= 5, "it goes on")
            true("giving 'm' up" not in program.said(), program.said())
        else:
            number("pid.standby")
            equal(len(lines("starts")), yielded)
        equal(program.end(), 0)
        equal(standby.end(), 0)
        for name in ("starts", "held", "pid.standby"):
            os.path.exists(name) and os.remove(name)


@case
def a_leader_that_stands_back_ends_when_it_is_told_to():
    holder = lead("holder")
    number("pid.holder")
    program = lead("a", "--restart-delay", "10ms", "--yield-after", "1", script=CRASH)
    wait_until(lambda: "held by holder" in program.said())
    third = lead("third")
    wait_until(lambda: "held by holder" in third.said())
    equal(holder.end(), 0)
    wait_until(lambda: "giving 'm' up for 1m" in program.said())
    number("pid.third")
    equal(program.end(), 0)
    equal(third.end(), 0)


@case
def a_command_that_is_not_well_is_stopped_and_another_leads():
    healthy = "echo $SIMBA_MUTEX $SIMBA_CONTENDER_ID >>checks; [ $SIMBA_CONTENDER_ID = b ]"
    options = [*QUICK, "--health", healthy, "--health-every", "100ms"]
    first = lead("a", *options)
    number("pid.a")
    second = lead("b", *options)
    number("pid.b")
    wait_until(lambda: lines("checks")[-3:] == ["m b"] * 3, "the second one stays well")
    contains(first.said(), "simba: the health check failed with exit code 1\n")
    contains(first.said(), "simba: the health check of 'm' failed: stopping the command\n")
    contains(first.said(), "giving 'm' up for 2s")
    equal(second.end(), 0)
    equal(first.end(), 0)


@case
def a_health_check_that_hangs_or_dies_is_a_failure_and_leaves_nothing():
    for check, said in (("sleep 54321", "has not ended in 100ms"), ("sh -c 'kill -9 $$'", "failed with exit code 137"),
                        ("kill -9 $PPID; sleep 54321", "was killed"), ("no-such-check", "failed with exit code 127")):
        program = lead("a", "--restart", "never", "--health", check, "--health-every", "100ms")
        equal(program.wait(), 1)
        contains(program.said(), f"simba: the health check {said}\n")
    for check, every in (("sleep 54321", "100s"), ("", "1ms")):
        program = lead("a", "--restart", "never", "--health", check, "--health-every", every, script="sleep 0.1; exit 4")
        equal(program.wait(), 4)


@case
def failures_have_exit_codes_of_their_own():
    equal(run("lead").code, 64)
    equal(run("lead", "m").code, 64)
    equal(run("lead", "--restart", "sometimes", "m", "--", "true").code, 64)
    equal(run("lead", "--restart-delay", "-1s", "m", "--", "true").code, 64)
    equal(run("lead", "--yield-after", "-1", "m", "--", "true").code, 64)
    equal(run("lead", "--health-every", "0s", "m", "--", "true").code, 64)
    equal(run("lead", "-k", "10s", "m", "--", "true").code, 78)
    equal(run("-u", "redis://127.0.0.1:1", "lead", "-w", "0s", "m", "--", "true").code, 69)
    equal(run("lead", "", "--", "true").code, 78)
    equal(run("lead", "--help").code, 0)


if __name__ == "__main__":
    sys.exit(main())
