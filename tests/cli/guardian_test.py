#!/usr/bin/env python3
"""The guardian of a program that stands still ends all that the command has started, however it is related.

    guardian_test.py CROWD

CROWD is the program of crowd.c.
"""
import os
import platform
import signal
import sys

from program import Simba, case, contains, is_alive, lines, main, url, wait_until

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


def runs(pid):
    """Whether any thread of it does."""
    try:
        return is_alive(pid) or len(os.listdir(f"/proc/{pid}/task")) > 1
    except FileNotFoundError:
        return False


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


if __name__ == "__main__":
    sys.exit(main())
