#!/usr/bin/env python3
"""The guardian of a program that stands still ends all that the command has started, however it is related.

    guardian_test.py CROWD

CROWD is the program of crowd.c.
"""
import os
import platform
import re
import resource
import signal
import sys

from program import Simba, case, contains, equal, is_alive, lines, main, number, read, url, wait_until

CROWD = sys.argv[1]
DEPTH = 100
WIDTH = 900  # the kernel tells of fewer at once

# A daemon whose first thread has ended looks like a dead process.
THREADED = f"""
import ctypes, os, signal, threading, time
if os.fork() == 0:
    os.setsid()
    def work():
        os.write(os.open('pids', os.O_WRONLY | os.O_CREAT), b'%d\\n' % os.getpid())
        time.sleep(100)
    threading.Thread(target=work).start()
    ctypes.CDLL(None).syscall({60 if platform.machine() == "x86_64" else 93}, 0)  # exit(2), of this thread only
signal.pause()
"""


def children(program):
    return {int(pid) for pid in read(f"/proc/{program.pid}/task/{program.pid}/children").split()}


def runs(pid):
    """Whether any thread of it does."""
    try:
        return is_alive(pid) or len(os.listdir(f"/proc/{pid}/task")) > 1
    except FileNotFoundError:
        return False


def switches(pid):
    """How often it has gone to sleep."""
    return int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)$", read(f"/proc/{pid}/status"), re.M).group(1))


def end_while_it_stands_still(count, *command):
    program = Simba("lock", "m", "--", *command)
    try:
        pids = wait_until(lambda: len(lines("pids")) == count and [int(pid) for pid in lines("pids")], "all have begun")
        program.stop()
        wait_until(lambda: not any(map(runs, pids)), "the guardian ends them all", patience=15)
    finally:
        program.send(signal.SIGCONT)
    contains((70, 128 + signal.SIGKILL), program.wait())  # a renewal that it was not told of does not hold the guardian


@case
def a_long_line_of_descendants_ends_with_the_lease():
    os.environ["SIMBA_URL"] = url(ttl="2s", transition="1s")
    end_while_it_stands_still(DEPTH, CROWD, "line", str(DEPTH))


@case
def many_children_end_with_the_lease():
    os.environ["SIMBA_URL"] = url(ttl="2s", transition="1s")
    end_while_it_stands_still(WIDTH, CROWD, "row", str(WIDTH))


@case
def a_daemon_whose_first_thread_has_ended_ends_with_the_lease():
    end_while_it_stands_still(1, sys.executable, "-c", THREADED)


@case
def a_guardian_without_descriptors_goes_on_looking():
    daemon = "setsid bash -c 'echo $$ >left; exec sleep 100' & echo $$ >pid; wait"
    os.environ["SIMBA_URL"] = url(ttl="2s", transition="1s")
    program = Simba("lock", "m", "--", "bash", "-c", daemon)
    command, left = number("pid"), number("left")
    guardian = (children(program) - {command}).pop()
    _, most = resource.prlimit(guardian, resource.RLIMIT_NOFILE)
    resource.prlimit(guardian, resource.RLIMIT_NOFILE, (2, most))
    program.stop()
    try:
        wait_until(lambda: not is_alive(command), "the guardian ends the group of the command", patience=15)
        pauses = switches(guardian)
        wait_until(lambda: switches(guardian) > pauses + 5, "the guardian goes on looking")
        resource.prlimit(guardian, resource.RLIMIT_NOFILE, (most, most))
        wait_until(lambda: not is_alive(left), "the guardian ends the daemon")
    finally:
        program.send(signal.SIGCONT)
    contains((70, 128 + signal.SIGKILL), program.wait())


@case
def a_guardian_that_cannot_be_replaced_is_replaced_as_soon_as_it_can():
    os.environ["SIMBA_URL"] = url(ttl="60s", transition="60s")
    program = Simba("lock", "m", "--", "bash", "-c", "sleep 100 & echo $! >left; echo $$ >pid; wait")
    command, inner = number("pid"), number("left")
    guardian = (children(program) - {command}).pop()
    _, most = resource.prlimit(program.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(program.pid, resource.RLIMIT_NOFILE, (3, most))
    os.kill(guardian, signal.SIGKILL)
    wait_until(program.said, "it says that there is none")
    wait_until(lambda: children(program) == {command}, "the dead one is collected")
    resource.prlimit(program.pid, resource.RLIMIT_NOFILE, (most, most))
    wait_until(lambda: children(program) - {command}, "there is a new one", patience=10)
    contains(program.said(), "the guardian of the command has ended, and there is no new one")
    equal(len(program.said().splitlines()), 1)
    program.send(signal.SIGKILL)
    program.wait()
    wait_until(lambda: not is_alive(inner), "the new one does its work", patience=10)


if __name__ == "__main__":
    sys.exit(main())
