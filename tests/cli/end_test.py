#!/usr/bin/env python3
"""How a run ends: the mutex is given back, and nothing of the command goes on without it."""
import os
import re
import signal
import sqlite3
import subprocess
import sys

from program import (PROGRAM, Blocked, Simba, case, contains, equal, is_alive, is_free, lines, main,
                     now, number, own_mounts, read, run, steal, true, url, wait_until, write)
from stores import Redis

GIVEN_UP = "warning: 'm' was not released; it becomes free when its lease ends"


class Releasing:
    """A program that gives its mutex back on a store that hangs."""

    def __enter__(self):
        os.environ["SIMBA_URL"] = url(ttl="10s", transition="6s")
        equal(run("lock", "m", "--", "true").code, 0)
        self.program = Simba("lock", "m", "--", "bash", "-c",
                             "touch began; until [ -e blocked ]; do sleep 0.01; done")
        wait_until(lambda: os.path.exists("began"))
        self.blocked = Blocked()
        self.blocked.__enter__()
        with open("blocked", "wb"):
            pass
        wait_until(self.command_has_ended, "the command ends")
        return self.program

    def command_has_ended(self):
        """Then the guardian has been dismissed as well."""
        pid = self.program.pid
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return file.read() == ""

    def __exit__(self, *unused):
        self.blocked.__exit__()


def has_taken_signals(program):
    """Or it has ended."""
    return re.search("ShdPnd:\t0*[1-9a-f]", read(f"/proc/{program.pid}/status")) is None


@case
def a_signal_that_tells_nobody_to_end_does_not_cut_the_release_short():
    with Releasing() as program:
        for number_of in (signal.SIGUSR1, signal.SIGHUP, signal.SIGUSR2):
            program.send(number_of)
        wait_until(lambda: has_taken_signals(program))
        true(program.process.poll() is None, "it has ended")
    equal((program.wait(), program.said()), (0, ""))
    true(is_free(), "it was not given back")


@case
def the_first_signal_that_tells_to_end_does_not_cut_the_release_short():
    with Releasing() as program:
        program.send(signal.SIGTERM)
        wait_until(lambda: has_taken_signals(program))
        pause = now() + 0.2
        wait_until(lambda: program.process.poll() is not None or now() > pause)
        true(program.process.poll() is None, "it has ended")
    equal((program.wait(), program.said()), (0, ""))
    true(is_free(), "it was not given back")


@case
def a_release_that_is_cut_short_is_told_of():
    with Releasing() as program:
        wait_until(program.insist)
        equal(program.wait(), 0)
        contains(program.said(), GIVEN_UP)


def tell_twice(verb):
    """What a program says that is told to end as timeout(1) does it, on a store that hangs for the moment; None where
    the machine was too slow for that."""
    program = Simba("-q", verb, "m", "--", "bash", "-c", "echo $$ >pid; exec sleep 100")
    command = number("pid")
    with Blocked():
        begin = now()
        program.send(signal.SIGTERM)
        wait_until(lambda: not os.path.exists(f"/proc/{command}"), "the command ends")
        wait_until(lambda: repeated(program) or now() - begin > 0.2)
        slow = now() - begin > 0.3
    program.wait()
    os.remove("pid")
    return None if slow else program.said()


def repeated(program):
    program.send(signal.SIGTERM)
    return program.process.poll() is not None


@case
def a_signal_that_comes_twice_does_not_cut_the_release_short():
    os.environ["SIMBA_URL"] = url(ttl="10s", transition="6s")
    for verb in ("lock", "lead"):
        said = None
        while said is None:
            said = tell_twice(verb)
        equal(said, "")
        true(is_free(), "it was not given back")


@case
def short_runs_leave_no_log_that_all_others_have_to_read():
    for _ in range(120):  # each adds two pages
        equal(run("lock", "m", "--", "true").code, 0)
    store = sqlite3.connect("store.db")
    pages = store.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()[1]
    store.close()
    true(0 < pages < 150, f"there are {pages} pages in the log")


# ---- What the command leaves running ------------------------------------------------------------

DAEMON = "setsid bash -c 'echo $$ >left.new; mv left.new left; exec sleep 100' & "


@case
def what_a_command_leaves_running_ends_before_the_next_owner_begins():
    for verb in (("lock",), ("lead", "--restart", "never"), ("schedule", "--every", "1h")):
        program = Simba(*verb, "m", "--", "bash", "-c",
                        "sleep 100 & echo $! >near; " + DAEMON + "until [ -e left ]; do sleep 0.01; done")
        near, far = number("near"), number("left")
        wait_until(lambda: not is_alive(near) and not is_alive(far))
        wait_until(lambda: "the command has left processes running: killing them" in program.said())
        if verb[0] == "schedule":
            program.send(signal.SIGTERM)
        equal(program.wait(), 0)
        os.remove("near")
        os.remove("left")


@case
def what_ends_with_the_command_by_itself_gets_the_time_to():
    program = run("lock", "m", "--", "bash", "-c", "exec > >(sleep 0.05; cat >log); echo last words")
    equal((program.code, program.said()), (0, ""))
    equal(read("log"), "last words\n")


@case
def daemons_end_with_a_lease_that_is_lost():
    program = Simba("lock", "m", "--", "bash", "-c", DAEMON + "wait")
    daemon = number("left")
    steal()
    equal(program.wait(), 70)
    true(not is_alive(daemon), "the daemon goes on")


@case
def what_was_there_before_is_not_touched():
    script = 'sleep 100 & echo $! >old; exec "$0" lock m -- sh -c "sleep 100 & echo \\$! >near"'
    subprocess.run(["bash", "-c", script, PROGRAM], check=True)
    true(is_alive(number("old")), "somebody else's process was killed")
    wait_until(lambda: not is_alive(number("near")))
    os.kill(number("old"), signal.SIGKILL)


def run_without_proc(url_of_store, *arguments):
    """None in a build with the address sanitizer, which neither finds its options there nor looks for leaks, and ends with
    a code of its own."""
    done = subprocess.run([*own_mounts(), "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh", PROGRAM,
                           "-u", url_of_store, *arguments],
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False, timeout=60)
    return None if "LeakSanitizer has encountered" in done.stderr else done


# Leaves a process running outside of the command's group and session, until there is a file `go`.
LEAVES = ("setsid bash -c '>left; until [ -e go ]; do sleep 0.01; done' >/dev/null 2>&1 &"
          " until [ -e left ]; do sleep 0.01; done; ")


@case
def under_what_cannot_be_found_without_proc_the_mutex_is_not_given_back():
    if not Redis.exists():
        return
    server = Redis()
    try:
        for verb in (["lock"], ["lead", "--restart", "never"], ["schedule", "--every", "10ms"]):
            done = run_without_proc(server.url, *verb, f"m-{verb[0]}", "--", "bash", "-c", LEAVES + "exit 3")
            if done is not None:
                equal((verb, done.returncode), (verb, 70))
                contains(done.stderr, "cannot be found without a /proc")
                equal(run("-u", server.url, "lock", "-n", f"m-{verb[0]}", "true").code, 75)
                os.remove("left")
        done = run_without_proc(server.url, "lock", "m", "--", "bash", "-c", "sleep 0.01 & exit 3")
        if done is not None:
            equal((done.returncode, done.stderr), (3, ""))
    finally:
        write("go", "")
        server.stop()


@case
def orphans_are_collected_while_the_command_runs():
    program = Simba("lock", "m", "--", "bash", "-c",
                    "(sleep 0.05 & echo $! >left); echo $$ >pid; exec sleep 100")
    number("pid")
    wait_until(lambda: not os.path.exists(f"/proc/{number('left')}"), "it was collected")
    equal(program.end(), 128 + signal.SIGTERM)


# ---- A program that stands still, and its guardian ----------------------------------------------

def children(program):
    return [int(pid) for pid in read(f"/proc/{program.pid}/task/{program.pid}/children").split()]


@case
def the_command_of_a_program_that_was_stopped_is_dead_before_another_owns():
    program = Simba("lock", "m", "--", "bash", "-c", DAEMON + "echo $$ >pid; wait")
    command, daemon = number("pid"), number("left")
    program.stop()
    begin = now()
    other = Simba("lock", "m", "--", "bash", "-c",
                  f"for pid in {command} {daemon}; do cut -d' ' -f3 /proc/$pid/stat >>seen || echo X >>seen; done")
    equal(other.wait(), 0)
    true(now() - begin < 10, "it took too long")
    true(set(lines("seen")) <= {"Z", "X"}, f"it was alive: {lines('seen')}")
    program.send(signal.SIGCONT)
    equal(program.wait(), 70)
    contains(program.said(), "the lease of 'm' is over")


@case
def a_short_stop_does_no_harm():
    os.environ["SIMBA_URL"] = url(ttl="10s", transition="6s")
    program = Simba("lock", "m", "--", "bash", "-c", "echo $$ >pid; until [ -e go ]; do sleep 0.01; done")
    number("pid")
    program.send(signal.SIGSTOP)
    wait_until(lambda: read(f"/proc/{program.pid}/stat").rpartition(")")[2].split()[0] == "T")
    program.send(signal.SIGCONT)
    write("go", "")
    equal((program.wait(), program.said()), (0, ""))


@case
def a_guardian_that_is_killed_is_replaced():
    program = Simba("lock", "m", "--", "bash", "-c", "sleep 100 & echo $! >left; echo $$ >pid; wait")
    command, inner = number("pid"), number("left")
    guardian = next(pid for pid in children(program) if pid != command)
    os.kill(guardian, signal.SIGKILL)
    wait_until(lambda: set(children(program)) - {command, guardian}, "there is a new one")
    program.send(signal.SIGKILL)
    program.wait()
    wait_until(lambda: not is_alive(inner))


# ---- Signals that tell to end -------------------------------------------------------------------

@case
def a_command_that_was_stopped_ends_when_it_is_told_to():
    program = Simba("lock", "m", "--", "bash", "-c", "echo $$ >pid; exec sleep 100")
    command = number("pid")
    os.kill(command, signal.SIGSTOP)
    wait_until(lambda: read(f"/proc/{command}/stat").rpartition(")")[2].split()[0] == "T")
    equal(program.end(), 128 + signal.SIGTERM)


@case
def a_command_that_left_its_group_gets_the_signals():
    script = ("import os, time; os.setpgid(0, os.getpgid(os.getppid()));"
              "print(os.getpid(), file=open('pid', 'w')); time.sleep(100)")
    program = Simba("lock", "m", "--", sys.executable, "-c", script)
    number("pid")
    equal(program.end(), 128 + signal.SIGTERM)
    equal(program.said(), "")


@case
def a_lock_waits_for_its_command_and_says_so_once():
    program = Simba("lock", "m", "--", "bash", "-c",
                    "trap '' TERM; echo $$ >pid; until [ -e go ]; do sleep 0.01; done")
    number("pid")
    program.send(signal.SIGTERM)
    wait_until(program.said)
    program.send(signal.SIGTERM)
    write("go", "")
    equal((program.wait(), program.said()),
          (0, "simba: waiting for the command, which was told to end\n"))


@case
def a_lock_can_be_told_to_wait_no_longer_than_that():
    program = Simba("lock", "--stop-timeout", "200ms", "m", "--", "bash", "-c",
                    "trap '' TERM; echo $$ >pid; while :; do sleep 0.01; done")
    number("pid")
    equal(program.end(), 128 + signal.SIGKILL)
    contains(program.said(), "the command has not ended in time: killing it")


if __name__ == "__main__":
    sys.exit(main())
