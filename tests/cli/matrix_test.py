#!/usr/bin/env python3
"""The program over the stores: exit codes, signals, terminals, a simba that is killed, a store that stands still.

    matrix_test.py STORE       sqlite, redis, postgres, mariadb, zookeeper or etcd
"""
import json
import os
import pty
import re
import signal
import subprocess
import sys

import stores
from cuts import Relay
from program import (LEASE, PATIENCE, PROGRAM, Simba, Skipped, contains, equal, is_alive, lines, now, number, read, run, true,
                     wait_until, write)

ONE = stores.OneStore(sys.argv[1])
LONG = ["--ttl", "20s"]  # a lease that a busy machine cannot lose, where its end is not what is tried
HOLD = "echo $$ >pid.new; mv pid.new pid; exec sleep 100"

FAULTS = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP, signal.SIGSYS}
UNCAUGHT = {signal.SIGKILL, signal.SIGSTOP}
OWN = {signal.SIGCHLD, signal.SIGCONT}  # these tell simba of its child, or to go on with it
STOPPING = {signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}
HARMLESS = {signal.SIGWINCH, signal.SIGURG}
FORWARDED = sorted(set(signal.valid_signals()) - FAULTS - UNCAUGHT - OWN)

# Writes the number of every signal that it gets, and ends after the last.
LISTENER = """
import os, signal, sys
got = open("got", "w", buffering=1)
for number in map(int, sys.argv[1:]):
    signal.signal(number, lambda number, frame: got.write(f"{number}\\n"))
open("pid", "w").write(f"{os.getpid()}\\n")
while not os.path.exists("enough"):
    signal.sigtimedwait([], 0.02)
sys.exit(5)
"""


def run_with_descriptors(count, *arguments):
    """A build with the address sanitizer needs some of its own to look for leaks."""
    program = subprocess.run(["prlimit", f"--nofile={count}", PROGRAM, *arguments], stdin=subprocess.DEVNULL,
                             capture_output=True, text=True, check=False, timeout=PATIENCE,
                             env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"})
    return program.returncode, program.stderr


@ONE.case
def too_few_descriptors_are_the_fault_of_the_system_at_every_number():
    equal(run("lock", "m", "--", "true").code, 0)
    for arguments in (["status", "m"], ["lock", "m", "--", "true"]):
        done = [(count, *run_with_descriptors(count, *arguments)) for count in range(6, 32)]
        wrong = [one for one in done if one[1] not in (0, 71)]
        true(not wrong, f"{arguments}: {wrong}")
        codes = [one[1] for one in done]
        equal(codes, sorted(codes, reverse=True))  # more of them never do harm
        equal((codes[0], codes[-1]), (71, 0))


@ONE.case
def the_exit_codes_are_those_of_the_table():
    for code, arguments in ((0, ["lock", "m", "--", "true"]),
                            (7, ["lock", "m", "--", "sh", "-c", "exit 7"]),
                            (128 + 9, ["lock", "m", "--", "sh", "-c", "kill -KILL $$"]),
                            (124, ["lock", "--hold-at-most", "50ms", "m", "--", "sleep", "10"]),
                            (126, ["lock", "m", "--", "/"]),
                            (127, ["lock", "m", "--", "no-such-command"]),
                            (3, ["lead", "--restart", "never", "m", "--", "sh", "-c", "exit 3"]),
                            (64, ["lock", "m"]), (64, ["schedule", "m", "true"]),
                            (78, ["lock", "x" * 265, "--", "true"]),
                            (78, ["--ttl", "1ms", "--transition", "1ms", "lock", "m", "true"])):
        program = run(*arguments)
        true(program.code == code, f"{arguments}: {program.code}, {program.said()}")


@ONE.case
def waiters_know_their_place():
    holder = Simba(*LONG, "lock", "m", "--", "bash", "-c", "touch held; until [ -e go ]; do sleep 0.02; done")
    wait_until(lambda: os.path.exists("held"), "it is held")
    waiters = []
    for place in ("1st", "2nd", "3rd"):
        waiters.append(Simba(*LONG, "lock", "m", "--", "true"))
        wait_until(lambda at=place: f"{at} in line" in waiters[-1].said(), "it is told its place")
    write("go", "")
    equal([contender.wait() for contender in (holder, *waiters)], [0, 0, 0, 0])


@ONE.case
def three_waiters_that_hang_in_front_cost_no_lease():
    if ONE.name in ("zookeeper", "etcd"):
        raise Skipped("there the order is strict, and a waiter that hangs keeps its place until its session ends")

    def has_waiters(count):
        return json.loads(read(run("status", "--json", "m").out))[0]["waiters"] == count

    def wait_as(name, count):
        waiter = Simba(*LONG, "lock", "m", "--", "touch", name)
        wait_until(lambda: has_waiters(count), f"{count} wait")
        return waiter

    holder = Simba(*LONG, "lock", "m", "--", "bash", "-c", "touch held; until [ -e go ]; do sleep 0.02; done")
    wait_until(lambda: os.path.exists("held"), "it is held")
    hung = [wait_as(f"late{i}", i + 1) for i in range(3)]
    alive = [wait_as("ran1", 4), wait_as("ran2", 5)]  # two, because the first of them owns for a few ms only
    for waiter in hung:
        waiter.stop()
    begin = now()
    write("go", "")
    equal([waiter.wait() for waiter in [holder, *alive]], [0, 0, 0])
    took = now() - begin
    for waiter in hung:
        waiter.send(signal.SIGCONT)
    equal([waiter.wait() for waiter in hung], [0, 0, 0])
    true(took < 5, f"it took {took}")


@ONE.case
def a_mutex_that_is_held_is_75_and_its_owner_is_named():
    holder = Simba(*LONG, "--exact-id", "holder", "lock", "m", "--", "bash", "-c", HOLD)
    number("pid")
    for options in (["-n"], ["-w", "1500ms"], ["-n"]):
        program = run("lock", *options, "m", "--", "touch", "ran")
        equal(program.code, 75)
        contains(program.said(), "held by holder")
    if json.loads(read(run("status", "--json", "m").out))[0]["held_ms"] is not None:
        true(re.search(r"held by holder for \d+s(; lease ends in \d+s unless renewed)?\n", program.said()), program.said())
        said = run("--ttl", "25s", "lock", "-n", "m", "--", "touch", "ran").said()
        true(re.search(r"held by holder for \d+s\n", said), f"a lease that is shorter than ours is no old one: {said}")
    equal(run("lock", "-n", "-E", "9", "m", "--", "touch", "ran").code, 9)
    equal(holder.end(), 128 + signal.SIGTERM)
    equal(run("lock", "-n", "m", "--", "true").code, 0)
    true(not os.path.exists("ran"), "it ran without the mutex")


@ONE.case
def a_command_that_asks_for_the_mutex_that_it_runs_under_is_refused():
    for inner in (["lock", "m"], ["lead", "m"]):
        program = run(*LONG, "lock", "m", "--", PROGRAM, *inner, "--", "touch", "ran")
        equal(program.code, 64)
        contains(program.said(), "it would wait for itself for ever")
    true(not os.path.exists("ran"), "it ran")


@ONE.case
def a_command_that_asks_for_a_slot_is_refused_if_it_runs_under_all_of_them():
    program = run(*LONG, "lock", "--slots", "1", "s", "--", PROGRAM, "lock", "--slots", "1", "s", "--", "touch", "ran")
    equal(program.code, 64)
    contains(program.said(), "it would wait for itself for ever")
    true(not os.path.exists("ran"), "it ran")
    program = run(*LONG, "lock", "--slots", "2", "two", "--", PROGRAM, "lock", "--slots", "2", "two", "--", "touch", "ran")
    equal(program.code, 0)
    true(os.path.exists("ran"), "there is another slot")


@ONE.case
def a_leader_whose_command_keeps_failing_lets_another_lead():
    """If one waits: that is asked of the store."""
    first = Simba(*LONG, "--exact-id", "a", "lead", "--restart-delay", "50ms", "--restart-delay-max", "2s", "--yield-after", "2",
                  "m", "--", "sh", "-c", "echo a >>log; exit 3")
    wait_until(lambda: len(lines("log")) >= 4, "alone it goes on")
    true("so that another can lead" not in first.said(), first.said())
    second = Simba(*LONG, "--exact-id", "b", "lead", "m", "--", "sh", "-c", "echo b >>log; exec sleep 100")
    wait_until(lambda: "b" in lines("log"), "the other one leads")
    contains(first.said(), "so that another can lead")
    equal(second.end(), 0)
    equal(first.end(), 0)


@ONE.case
def a_status_takes_patterns():
    holders = [Simba(*LONG, "lock", name, "--", "sh", "-c", f"touch held-{place}; exec sleep 100")
               for place, name in enumerate(("nightly-a", "nightly-b", "nightly-[b]", "daily"))]
    wait_until(lambda: all(os.path.exists(f"held-{place}") for place in range(len(holders))), "they hold")
    for patterns, expected in ((["nightly-*"], ["nightly-[b]", "nightly-a", "nightly-b"]), (["nightly-?"], ["nightly-a", "nightly-b"]),
                               (["nightly-[b]"], ["nightly-[b]", "nightly-b"]), (["none-*"], []),
                               (["daily", "*-a"], ["daily", "nightly-a"])):
        program = run("status", "--json", "--held", *patterns)
        equal((patterns, program.code, sorted(one["mutex"] for one in json.loads(read(program.out)))), (patterns, 0, expected))
    waiter = Simba(*LONG, "lock", "nightly-a", "--", "true")
    wait_until(lambda: json.loads(read(run("status", "--json", "nightly-a").out))[0]["waiters"] == 1, "one waits")
    counts = {one["mutex"]: one["waiters"] for one in json.loads(read(run("status", "--json", "--held", "nightly-?").out))}
    equal(counts, {"nightly-a": 1, "nightly-b": 0})
    for holder in holders:
        holder.end()
    equal(waiter.wait(), 0)


@ONE.case
def every_signal_that_can_be_caught_reaches_the_command():
    write("listener.py", LISTENER)
    program = Simba(*LONG, "lock", "m", "--", sys.executable, "listener.py",
                    *map(str, map(int, FORWARDED)))
    number("pid")
    for number_of in FORWARDED:
        program.send(number_of)
        wait_until(lambda: str(int(number_of)) in lines("got"), f"signal {int(number_of)} arrives")
    write("enough", "")
    equal(program.wait(), 5)
    equal(len(lines("got")), len(FORWARDED))


@ONE.case
def every_signal_that_ends_programs_ends_the_wait():
    holder = Simba(*LONG, "lock", "m", "--", "bash", "-c", HOLD)
    number("pid")
    for number_of in sorted(set(FORWARDED) - STOPPING - HARMLESS):
        waiter = Simba(*LONG, "lock", "-q", "m", "--", "touch", "ran")
        wait_until(waiter.takes_signals)
        interrupt = number_of in (signal.SIGINT, signal.SIGQUIT)
        if number_of == signal.SIGPIPE:  # client libraries drop one that comes while they are loaded
            wait_until(lambda: waiter.send(number_of) or waiter.process.poll() is not None)
        equal(waiter.end(number_of), -number_of if interrupt else 128 + number_of)
    equal(holder.end(), 128 + signal.SIGTERM)
    equal(run("lock", "-w", "5s", "m", "--", "true").code, 0)
    true(not os.path.exists("ran"), "it ran without the mutex")


@ONE.case
def a_megabyte_goes_through_standard_input_and_output():
    write("input", "x" * (1 << 20))
    for verb in (["lock"], ["lead", "--restart", "never"]):
        with open("input", "rb") as stdin:
            program = run(*verb, "m", "--", "cat", stdin=stdin)
        equal(program.code, 0)
        equal(os.path.getsize(program.out), 1 << 20)


class Terminal:
    """The program on a terminal of its own, as a person has it."""

    def __init__(self, *arguments):
        self.shown = ""
        self.pid, self.keys = pty.fork()
        if self.pid == 0:
            os.execv(PROGRAM, [PROGRAM, *arguments])

    def type(self, text):
        os.write(self.keys, text.encode())

    def await_text(self, text):
        """Output never ends a wait that it does not satisfy: a program that ends closes the terminal."""
        while text not in self.shown:
            try:
                self.shown += os.read(self.keys, 4096).decode()
            except OSError as end:
                raise AssertionError(f"{text!r} is not in: {self.shown}") from end

    def wait(self):
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self.keys)
        return code


@ONE.case
def an_interactive_program_has_the_terminal():
    script = "test -t 0 && test -t 1 && stty -echo; trap 'echo interrupted; exit 5' INT;" \
             "read -p 'name? ' name; echo hello $name; while :; do sleep 0.02; done"
    terminal = Terminal(*LONG, "lock", "m", "--", "bash", "-c", script)
    terminal.await_text("name? ")
    terminal.type("you\n")
    terminal.await_text("hello you")
    terminal.type("\x03")
    terminal.await_text("interrupted")
    equal(terminal.wait(), 5)


@ONE.case
def a_simba_that_is_killed_takes_its_command_along_and_the_lease_runs_out():
    holder = Simba("lock", "m", "--", "bash", "-c", "sleep 100 & echo $! >inner; " + HOLD)
    inner, command = number("inner"), number("pid")
    begin = now()
    equal(holder.end(signal.SIGKILL), -signal.SIGKILL)
    wait_until(lambda: not is_alive(command) and not is_alive(inner))
    equal(run("lock", "-w", "20s", "m", "--", "true").code, 0)
    true(now() - begin < LEASE + 5, f"it took {now() - begin}")


@ONE.case
def a_leader_hands_over_when_it_is_told_to_end():
    script = "trap 'echo end >>log; exit' TERM; echo start $SIMBA_CONTENDER_ID >>log; " \
             "while :; do sleep 0.02; done"
    first = Simba(*LONG, "--exact-id", "a", "lead", "m", "--", "bash", "-c", script)
    wait_until(lambda: lines("log"))
    second = Simba(*LONG, "--exact-id", "b", "lead", "m", "--", "bash", "-c", script)
    wait_until(lambda: "held by a" in second.said())
    equal(first.end(), 0)
    wait_until(lambda: len(lines("log")) == 3)
    equal(second.end(), 0)
    equal(lines("log"), ["start a", "end", "start b", "end"])


@ONE.case
def a_schedule_runs_at_its_intervals():
    program = Simba(*LONG, "schedule", "m", "--every", "100ms", "--", "sh", "-c", "echo run >>log")
    wait_until(lambda: len(lines("log")) >= 5)
    equal(program.end(), 0)
    equal(program.said().count("failed"), 0)


def a_store_that_stands_still_is_70_and_the_command_is_dead():
    holder = Simba("lock", "m", "--", "bash", "-c", "trap '' TERM; echo $$ >pid.new; mv pid.new pid;"
                   "while :; do sleep 0.02; done")
    command = number("pid")
    begin = now()
    ONE.store.pause()
    wait_until(lambda: not is_alive(command))
    true(now() - begin < LEASE, f"it took {now() - begin}")
    equal(holder.wait(), 70)
    ONE.store.go_on()
    contains(read(holder.err), "killing the command")


def a_server_that_is_not_there_is_69():
    address = ONE.store.url.replace(str(ONE.store.port), str(stores.free_port()))
    verbs = (["lock", "m"], ["lock", "-w", "1s", "-E", "0", "m"], ["lead", "-w", "0s", "m"],
             ["schedule", "-w", "1s", "--every", "1s", "m"])
    begin = now()
    programs = [Simba("-u", address, *verb, "--", "true") for verb in verbs]
    for program in programs:
        equal(program.wait(), 69)
        true("refused" in program.said() or "111" in program.said(), program.said())
    true(now() - begin < 4, f"it took {now() - begin}")


def a_leader_waits_for_a_store_that_is_down_at_its_start():
    port = stores.free_port()
    address = ONE.store.url.replace(str(ONE.store.port), str(port))
    programs = [Simba("-u", address, *verb, "--", "sh", "-c", "echo ran >>log; exec sleep 100")
                for verb in (["lead", "a"], ["schedule", "-w", "1m", "--every", "1h", "b"])]
    for program in programs:
        wait_until(lambda: "waiting for the store: " in program.said(), "it says so")
    true(not os.path.exists("log"), "it ran without a store")
    relay = Relay(ONE.store.port, port)
    wait_until(lambda: len(lines("log")) == 2, "both run")
    for program in programs:
        equal(program.end(), 0)
        contains(program.said(), "the store was reached after ")
    relay.stop()


def credentials_that_are_refused_are_77():
    verbs = [["lock", "m"], ["lead", "m"], ["schedule", "--every", "1s", "m"]]
    if ONE.name == "zookeeper":  # which refuses a node, not a client: who leads goes on trying
        equal(run("-u", ONE.store.owned_url(), "lock", "m", "--", "true").code, 0)
        verbs = verbs[:1]
    for verb in verbs:
        program = run("-u", ONE.store.denied_url, *verb, "--", "touch", "ran")
        true(program.code == 77, f"{verb}: {program.code}, {program.said()}")
        true("wr0ng" not in program.said(), program.said())
    true(not os.path.exists("ran"), "it ran without the mutex")


if ONE.name != "sqlite":
    ONE.case(a_store_that_stands_still_is_70_and_the_command_is_dead)
    ONE.case(a_server_that_is_not_there_is_69)
    ONE.case(a_leader_waits_for_a_store_that_is_down_at_its_start)
    ONE.case(credentials_that_are_refused_are_77)


if __name__ == "__main__":
    sys.exit(ONE.main())
