#!/usr/bin/env python3
"""What hostile commands and hostile users of the same machine can do to a mutex on SQLite. The user is nobody (65534),
which root becomes for the attack; tests that need two users say so where they are not run by root.
"""
import ctypes
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path += [os.path.join(TESTS, "lib"), os.path.join(TESTS, "cli")]
from program import Simba, case, contains, equal, is_alive, main, now, number, read, run, true, url, wait_until, write

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


# ---- Files that another user has planted ----

NOBODY = 65534


def needs_two_users():
    """Whether a case cannot be shown here."""
    if os.getuid() != 0:
        print("# only root can become another user to plant a file")
    return os.getuid() != 0


def as_nobody(statement):
    """Runs a line of the shell as the hostile user."""
    subprocess.run(["sh", "-ec", statement], check=True, user=NOBODY, group=NOBODY, extra_groups=[])


def make_folder(name, mode, user=0):
    os.chmod(".", 0o755)
    os.mkdir(name)
    os.chown(name, user, user)
    os.chmod(name, mode)


def lock_on(path, **more):
    return run("-u", f"sqlite:{path}?ttl=10s&transition=6s", "lock", "-n", "m", "--", "true", **more)


def make_store(path):
    """A database of root's, with nothing beside it."""
    store = sqlite3.connect(path)
    store.execute("CREATE TABLE precious (x)")
    store.close()
    os.chmod(path, 0o600)


def expect_refusal(path, word):
    program = lock_on(path)
    equal(program.code, 77)
    contains(program.said(), word)


def content(path):
    with open(path, "rb") as file:
        return file.read()


@case
def a_link_that_another_user_has_planted_is_not_followed():
    if needs_two_users():
        return
    make_folder("private", 0o700)
    make_store("private/victim.db")
    before = content("private/victim.db")
    for name, mode, user in (("sticky", 0o1777, 0), ("open", 0o777, 0), ("theirs", 0o755, NOBODY)):
        make_folder(name, mode, user)
        as_nobody(f"ln -s ../private/victim.db {name}/jobs.db; ln -s ../private {name}/folder")
        expect_refusal(f"{name}/jobs.db", f"{name}/jobs.db")
        expect_refusal(f"{name}/folder/new.db", f"{name}/folder")
    equal(os.listdir("private"), ["victim.db"])
    equal(content("private/victim.db"), before)


@case
def links_that_no_other_user_can_have_placed_are_followed():
    make_folder("private", 0o700, os.getuid())
    make_folder("sticky", 0o1777, os.getuid())
    for folder in ("private", "sticky"):
        os.mkdir(f"{folder}/real")
        os.symlink("real/jobs.db", f"{folder}/jobs.db")
        os.symlink(os.path.realpath(f"{folder}/real"), f"{folder}/folder")
        equal(lock_on(f"{folder}/folder/jobs.db").code, 0)
        equal(lock_on(f"{folder}/jobs.db").code, 0)
        equal(lock_on(f"{folder}/real/../folder/./jobs.db").code, 0)
        true("jobs.db" in os.listdir(f"{folder}/real"), "one file for all names")


@case
def files_that_another_user_has_planted_beside_the_database_are_not_used():
    if needs_two_users():
        return
    for suffix in ("-wal", "-shm", "-journal"):
        make_folder("sticky", 0o1777)
        make_store("sticky/jobs.db")
        as_nobody(f": >sticky/jobs.db{suffix}")
        before = content("sticky/jobs.db")
        expect_refusal("sticky/jobs.db", f"jobs.db{suffix}")
        equal(content("sticky/jobs.db"), before)
        shutil.rmtree("sticky")


@case
def links_planted_beside_the_database_lead_nobody_to_another_file():
    if needs_two_users():
        return
    for suffix in ("-wal", "-shm", "-journal", "-wake", "-life"):
        make_folder("sticky", 0o1777)
        make_folder("private", 0o700)
        write("private/victim", "precious")
        make_store("sticky/jobs.db")
        as_nobody(f"ln -s ../private/victim sticky/jobs.db{suffix}; ln -s ../private/new sticky/new.db{suffix}")
        refused = lock_on("sticky/jobs.db").code == 77 and lock_on("sticky/new.db").code == 77
        equal(refused, suffix not in ("-wake", "-life"))  # those the store can do without
        equal(os.listdir("private"), ["victim"])
        equal(read("private/victim"), "precious")
        shutil.rmtree("sticky")
        shutil.rmtree("private")


@case
def another_name_of_a_file_is_not_taken_for_the_database_of_a_shared_folder():
    make_folder("sticky", 0o1777, os.getuid())
    make_folder("private", 0o700, os.getuid())
    make_store("private/victim.db")
    os.link("private/victim.db", "sticky/jobs.db")  # as others can where fs.protected_hardlinks is off
    expect_refusal("sticky/jobs.db", "more than one name")
    equal(lock_on("private/victim.db").code, 0)


@case
def users_who_share_a_database_by_its_group_are_not_kept_from_it():
    if needs_two_users():
        return
    make_folder("shared", 0o2770, 0)
    os.chown("shared", 0, NOBODY)
    os.chmod("shared", 0o2770)
    write("shared/jobs.db", "")
    os.chown("shared/jobs.db", 0, NOBODY)
    os.chmod("shared/jobs.db", 0o660)
    os.chmod(".", 0o777)
    member = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    equal(lock_on("shared/jobs.db", **member).code, 0)
    equal(lock_on("shared/jobs.db").code, 0)
    equal(lock_on("shared/jobs.db", **member).code, 0)


if __name__ == "__main__":
    sys.exit(main())
