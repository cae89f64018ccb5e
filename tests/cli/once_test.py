#!/usr/bin/env python3
"""`simba lock --once-per`: a job that several machines start runs on one of them.

    once_test.py STORE SET_CLOCK     sqlite, redis, postgres, mariadb, zookeeper or etcd; the library of set_clock.c, or
                                     empty where nothing can be preloaded
"""
import os
import signal
import sqlite3
import subprocess
import sys
import time

import program
import stores
from program import Simba, contains, equal, lines, number, read, run, true, wait_until

ONE = stores.OneStore(sys.argv[1])
LONG = ["--ttl", "20s"]  # a lease that a busy machine cannot lose
JOB = ["bash", "-c", "echo $SIMBA_CONTENDER_ID >>ran"]
HANG = "echo $SIMBA_CONTENDER_ID >>ran; echo $$ >pid.new; mv pid.new pid; exec sleep 100"


def cron(machine, mutex, *options, period="24h", command=JOB, env=None):
    """What the cron of a machine starts."""
    return Simba(*LONG, "--exact-id", machine, "lock", "--once-per", period, *options, mutex, "--", *command, env=env)


def ended(program, code=0):
    equal(program.wait(), code)
    return program


@ONE.case
def three_machines_whose_clocks_differ_run_it_once(mutex):
    """Each has a home of its own. The clock of the first is right: on SQLite it is the store's."""
    for machine, ahead_s in (("first", 0), ("second", 420), ("third", -300)):
        os.mkdir(machine)
        env = {"HOME": os.path.abspath(machine), **program.clock(sys.argv[2], ahead_s, machine + ".clock")}
        said = ended(cron(machine, mutex, env=env)).said()
        if machine == "first":
            continue
        contains(said, f"'{mutex}' was run by first")
        contains(said, "ago in")
        contains(said, "with exit code 0: once per 1d")
    equal(lines("ran"), ["first"])


@ONE.case
def machines_that_start_it_together_run_it_once(mutex):
    """The others wait for the one that runs it, and find it done."""
    programs = [cron(f"machine-{i}", mutex, command=["bash", "-c", "echo x >>ran; sleep 0.5"]) for i in range(3)]
    for program in programs:
        ended(program)
    equal(lines("ran"), ["x"])
    equal(sum("was run by" in program.said() for program in programs), 2)


@ONE.case
def it_runs_again_when_the_period_is_over(mutex):
    ended(cron("first", mutex, period="2s"))
    began = time.monotonic()

    def runs_again():
        ended(cron("second", mutex, period="2s"))
        return lines("ran") == ["first", "second"]
    wait_until(runs_again, "the next period")
    true(time.monotonic() - began > 1, "it ran again before nine tenths of the period were over")


@ONE.case
def a_run_that_failed_counts_unless_it_is_to_be_tried_again(mutex):
    ended(cron("first", mutex, command=["bash", "-c", "echo bad >>ran; exit 3"]), 3)
    contains(ended(cron("second", mutex)).said(), "with exit code 3")
    equal(lines("ran"), ["bad"])
    ended(cron("third", mutex, "--retry-failed"))
    ended(cron("fourth", mutex, "--retry-failed"))
    equal(lines("ran"), ["bad", "third"])


@ONE.case
def a_machine_that_dies_has_not_run_it(mutex):
    """Its lease has to end first, so it is a short one."""
    first = Simba("--ttl", "1s", "--transition", "1s", "--exact-id", "first", "lock", "--once-per", "24h", mutex,
                  "--", "bash", "-c", HANG)
    number("pid")
    second = cron("second", mutex)
    first.send(signal.SIGKILL)
    first.wait()
    ended(second)
    equal(lines("ran"), ["first", "second"])


@ONE.case
def a_run_that_is_told_to_end_has_not_done_its_work(mutex):
    first = cron("first", mutex, command=["bash", "-c", HANG])
    number("pid")
    equal(first.end(), 128 + signal.SIGTERM)
    ended(cron("second", mutex))
    ended(cron("third", mutex))
    equal(lines("ran"), ["first", "second"])


@ONE.case
def a_machine_that_cannot_run_it_leaves_it_to_another(mutex):
    ended(cron("first", mutex, command=["no-such-command"]), 127)
    ended(cron("second", mutex))
    equal(lines("ran"), ["second"])


@ONE.case
def without_waiting_a_run_under_way_is_no_failure(mutex):
    first = cron("first", mutex, command=["bash", "-c", HANG])
    number("pid")
    contains(ended(cron("second", mutex, "-n")).said(), "first")
    ended(cron("third", mutex, "-n", "-E", "9"), 9)
    equal(first.end(), 128 + signal.SIGTERM)
    equal(lines("ran"), ["first"])


@ONE.case
def quiet_says_nothing(mutex):
    ended(cron("first", mutex))
    program = ended(Simba("-q", *LONG, "lock", "--once-per", "24h", mutex, "--", *JOB))
    true("was run by" not in program.said(), program.said())


@ONE.case
def what_makes_no_sense_is_refused(mutex):
    for options in (["--once-per", "0"], ["--retry-failed"], ["--once-per", "1h", "--hold-at-least", "1s"]):
        equal(run("lock", *options, mutex, "--", *JOB).code, 64)
    equal(lines("ran"), [])


@ONE.case
def a_schedule_goes_on_with_the_next_leader(mutex):
    """By what the store remembers."""
    for machine in ("first", "second"):
        program = Simba(*LONG, "--exact-id", machine, "schedule", "--every", "1h", mutex, "--", *JOB)
        wait_until(lambda: f"leading '{mutex}'" in program.said() and lines("ran"), "it leads")
        wait_until(lambda: "next_run_ms\":1" in read(run("status", "--json", mutex).out), "the next run is known")
        equal(program.end(), 0)
    equal(lines("ran"), ["first"])
    contains(read(run("status", mutex).out), "Last run: by first")


NONSENSE = ("", "ended", "ended 0", "ended 999 1 x", "ended -1 1 x", "ended 0 99999999999999999 x", "x" * 9000)


def forge(mutex, value):
    """What another program has written over the last run."""
    if ONE.name == "redis":
        subprocess.run(["redis-cli", "-p", str(ONE.store.port), "-x", "HSET", f"simba:{{{mutex}}}:property",
                        "last-run"], input=value.encode(), check=True, stdout=subprocess.DEVNULL)
        return
    path = os.environ["SIMBA_URL"].split(":", 1)[1].split("?")[0]
    with sqlite3.connect(path) as database:
        database.execute("UPDATE simba_property SET value = ? WHERE mutex = ? AND name = 'last-run'", (value, mutex))
    database.close()


def a_record_that_somebody_else_wrote_is_no_run(mutex):
    ended(cron("first", mutex))
    time_of_redis = f"{int(time.time() * 1000)} " if ONE.name == "redis" else ""
    wrong = [time_of_redis + value for value in NONSENSE]
    if time_of_redis:
        wrong += ["x", "99999999999999999999999 ended 0 1 x", "9223372036854775807 ended 0 1 x", "-5 ended 0 1 x",
                  "0 ended 0 1 x", " ended 0 1 x",
                  "x" * 20 * 1024 * 1024]
    for value in wrong:
        forge(mutex, value)
        ended(cron("second", mutex, "-n"))
    equal(len(lines("ran")), 1 + len(wrong))
    forge(mutex, time_of_redis + "ended 0 1 \x1b[31mred\u202e")  # well formed: it counts
    said = ended(cron("second", mutex, "-n")).said()
    said += read(run("status", mutex).out) + read(run("status", "--json", mutex).out)
    true("\x1b" not in said and "\u202e" not in said, repr(said))
    contains(said, "red")
    equal(len(lines("ran")), 1 + len(wrong))


if ONE.name in ("sqlite", "redis"):
    ONE.case(a_record_that_somebody_else_wrote_is_no_run)


if __name__ == "__main__":
    sys.exit(ONE.main())
