#!/usr/bin/env python3
"""What hostile commands and hostile users of the same machine can do to a mutex on SQLite. The user is nobody (65534),
which root becomes for the attack; tests that need two users say so where they are not run by root.
"""
import ctypes
import os
import signal
import sys
import time

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path += [os.path.join(TESTS, "lib"), os.path.join(TESTS, "cli")]
from program import Simba, case, equal, is_alive, main, now, number, read, run, true, url, wait_until, write

AT_ONCE = 0.8  # seconds; what a waiter does without being told takes longer

# Does to the descriptor of its owner's life whatever can be done to one, and tells what came of it.
ATTACK = """
import fcntl, os, struct, sys, time
fd = next(int(fd) for fd in os.listdir("/proc/self/fd") if os.path.realpath("/proc/self/fd/" + fd).endswith("-life"))
if sys.argv[1] == "drop" and os.getuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
def lock(kind, fd):
    fcntl.fcntl(fd, 37, struct.pack("hhqqixxxx", kind, 0, 0, 0, 0))  # F_OFD_SETLK, the whole file
told = []
try:
    os.write(fd, b"x")
    told.append("written")
except OSError:
    pass
try:
    lock(fcntl.F_WRLCK, fd)
    told.append("locked")
except OSError:
    pass
lock(fcntl.F_UNLCK, fd)
os.close(fd)
with open("told.new", "w") as file:
    print("done", *told, file=file)
os.rename("told.new", "told")
time.sleep(100)
"""


def store():
    return url(ttl="10s", transition="6s")


def attack(*how):
    write("attack.py", ATTACK)
    os.chmod(".", 0o777)  # for who has dropped its rights
    owner = Simba("-u", store(), "lock", "m", "--", "python3", "attack.py", *how)
    wait_until(lambda: os.path.exists("told"), "the attack has been tried")
    return owner


def is_taken():
    return run("-u", store(), "lock", "-n", "m", "--", "true").code == 75


@case
def a_command_cannot_give_up_the_mutex_of_its_owner():
    for how in ("keep", "drop"):
        owner = attack(how)
        true(is_taken(), "the mutex was given away under its owner")
        equal(read("told"), "done\n")
        equal(owner.end(), 128 + signal.SIGTERM)
        os.remove("told")


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(child) for child in file.read().split()]


def guardian_of(owner, command):
    return next(pid for pid in children_of(owner.pid) if pid != command)


class Held:
    """A process that a debugger has stopped: the kernel continues others when their parent ends."""

    SEIZE, INTERRUPT, DETACH = 0x4206, 0x4207, 17

    def __init__(self, pid):
        self.pid = pid
        self.ptrace = ctypes.CDLL(None, use_errno=True).ptrace
        self.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]

    def ask(self, request):
        if self.ptrace(request, self.pid, None, None) != 0:
            raise OSError(ctypes.get_errno(), "ptrace")

    def __enter__(self):
        self.ask(self.SEIZE)
        self.ask(self.INTERRUPT)
        os.waitpid(self.pid, 0)

    def __exit__(self, *unused):
        self.ask(self.DETACH)


@case
def the_guardian_keeps_the_mutex_until_a_command_is_dead_that_has_given_up_its_part():
    """What the command has started is the guardian's to kill, once the program is gone."""
    write("attack.py", ATTACK)
    owner = Simba("-u", store(), "lock", "m", "--", "sh", "-c", "python3 attack.py keep & echo $! >left; echo $$ >pid; wait")
    wait_until(lambda: os.path.exists("told"), "the attack has been tried")
    left, guardian = number("left"), guardian_of(owner, number("pid"))
    with Held(guardian):
        owner.end(signal.SIGKILL)
        true(is_alive(left), "the guardian stands still")
        true(is_taken(), "the mutex was given away under what the command has started")
    wait_until(lambda: not is_alive(left), "the guardian has killed it")
    wait_until(lambda: not is_taken(), "the mutex is free")


@case
def what_a_command_has_started_keeps_the_mutex_while_it_lives():
    """Nobody is left to kill it."""
    owner = Simba("-u", store(), "lock", "m", "--", "sh", "-c",
                  "setsid sh -c 'echo $$ >left; exec sleep 100' & echo $$ >pid; wait")
    left, guardian = number("left"), guardian_of(owner, number("pid"))
    os.kill(guardian, signal.SIGSTOP)
    os.kill(owner.pid, signal.SIGSTOP)
    os.kill(guardian, signal.SIGKILL)
    owner.end(signal.SIGKILL)
    waiter = Simba("-u", store(), "lock", "m", "--", "sh", "-c", "echo $$ >began")
    wait_until(lambda: any("inotify" in link for link in links(waiter.pid)), "the waiter watches")
    end = now() + 0.5
    while now() < end:
        true(not os.path.exists("began"), "the mutex was given away")
        time.sleep(0.02)
    os.kill(left, signal.SIGKILL)
    killed = now()
    wait_until(lambda: os.path.exists("began"), "the waiter's command runs")
    true(now() - killed < AT_ONCE, f"it took {now() - killed:.3f} s")
    equal(waiter.wait(), 0)


def links(pid):
    try:
        return [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
    except OSError:
        return []


if __name__ == "__main__":
    sys.exit(main())
