#!/usr/bin/env python3
"""What a command left behind ends before the mutex is given back, and what the guardian keeps open.

    sweep_test.py LATE_REAP

LATE_REAP is the library of late_reap.c, or empty where nothing can be preloaded.
"""
import ctypes
import os
import resource
import signal
import struct
import subprocess
import sys

from program import (PROGRAM, Simba, case, contains, equal, is_alive, is_free, main, number, own_mounts, read, run,
                     Skipped, true, url, wait_until, write)
from stores import Redis

LATE_REAP = sys.argv[1]
CLOSE_RANGE = 436  # on every architecture
ENOSYS, EPERM = 38, 1
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, FILTER = 38, 22, 2


def refuse_close_range(failure):
    """For preexec_fn: the kernel answers close_range(2) with that error from now on, as an old kernel or the
    filter of a container does."""
    load, jump_equal, give = 0x20, 0x15, 0x06
    allow, refuse = 0x7FFF0000, 0x00050000 | failure
    program = b"".join(struct.pack("=HBBI", *one) for one in (
        (load, 0, 0, 0), (jump_equal, 0, 1, CLOSE_RANGE), (give, 0, 0, refuse), (give, 0, 0, allow)))
    memory = ctypes.create_string_buffer(program)  # install keeps it alive
    header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(memory))
    libc = ctypes.CDLL(None, use_errno=True)

    def install(memory=memory):
        if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(PR_SET_SECCOMP, FILTER, header):
            os._exit(99)
    return install


@case
def the_child_of_an_orphan_that_ends_during_the_sweep_ends_too():
    if not LATE_REAP:
        return
    daemon = ("setsid bash -c 'echo $$ >parent.new; sleep 100 & echo $! >child.new; mv child.new child; wait' & "
              "until [ -e child ]; do sleep 0.01; done; mv parent.new parent")
    program = run("lock", "m", "--", "bash", "-c", daemon, env={"LD_PRELOAD": LATE_REAP, "LATE_REAP": "parent"})
    equal(program.code, 0)
    true(not is_alive(number("child")), "it outlived the mutex")


# ---- Children that were there before ------------------------------------------------------------

DAEMON = "setsid bash -c 'echo $$ >left.new; mv left.new left; exec sleep 100' & until [ -e left ]; do sleep 0.01; done"


@case
def daemons_are_swept_where_the_program_had_children_before():
    script = 'exec "$0" lock m -- bash -c "$1" > >(cat >log; exec sleep 100)'
    with open("err", "wb") as err:
        done = subprocess.run(["bash", "-c", "sleep 100 & echo $! >old; " + script, PROGRAM, DAEMON + "; echo said"],
                              check=False, stderr=err)
    equal(done.returncode, 0)
    true(not is_alive(number("left")), "the daemon outlived the mutex")
    contains(read("err"), "the command has left processes running: killing them")
    true(is_alive(number("old")), "a process that was there before was killed")
    wait_until(lambda: read("log") == "said\n", "the output is written")
    old = number("old")
    others = [pid for pid in read(f"/proc/self/task/{os.getpid()}/children").split() if int(pid) != old]
    equal(len(others), 1)  # the reader of the output goes on as well
    for pid in [old, *map(int, others)]:
        os.kill(pid, signal.SIGKILL)


@case
def the_guardian_spares_what_was_there_before():
    script = 'sleep 100 & echo $! >old; exec "$0" lock m -- bash -c "$1"'
    program = subprocess.Popen(["bash", "-c", script, PROGRAM, DAEMON + "; echo $$ >pid; wait"])
    command, daemon = number("pid"), number("left")
    program.send_signal(signal.SIGSTOP)
    wait_until(lambda: not is_alive(command) and not is_alive(daemon), "the guardian ends the command")
    true(is_alive(number("old")), "a process that was there before was killed")
    program.send_signal(signal.SIGCONT)
    equal(program.wait(), 70)
    true(is_alive(number("old")), "a process that was there before was killed")
    os.kill(number("old"), signal.SIGKILL)


@case
def the_first_process_of_a_container_sweeps():
    container = ["unshare", "--pid", "--fork", "--mount-proc"] + (["--map-root-user"] if os.getuid() != 0 else [])
    if subprocess.run([*container, "true"], check=False, stderr=subprocess.DEVNULL).returncode != 0:
        return  # no namespaces here
    done = subprocess.run([*container, PROGRAM, "lock", "m", "--", "bash", "-c", "echo $PPID >parent; " + DAEMON],
                          check=False, stderr=subprocess.PIPE, text=True)
    equal((done.returncode, read("parent")), (0, "1\n"))
    contains(done.stderr, "the command has left processes running: killing them")


# ---- Where nobody can look ----------------------------------------------------------------------

@case
def a_sweep_that_cannot_look_for_want_of_descriptors_keeps_the_mutex():
    os.environ["SIMBA_URL"] = url(ttl="60s", transition="60s")
    program = Simba("lock", "m", "--", "bash", "-c", DAEMON + "; until [ -e end ]; do sleep 0.01; done")
    daemon = number("left")
    _, most = resource.prlimit(program.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(program.pid, resource.RLIMIT_NOFILE, (3, most))
    write("end", "")
    wait_until(lambda: program.said() or not is_alive(program.pid), "it says that it cannot look")
    true(is_alive(daemon) and not is_free(), "the mutex was given back before its daemon was found")
    resource.prlimit(program.pid, resource.RLIMIT_NOFILE, (most, most))
    equal(program.wait(), 0)
    true(not is_alive(daemon), "the daemon outlived the mutex")
    contains(program.said(), "cannot be listed, because descriptors or memory are short: trying again")
    equal(len(program.said().splitlines()), 1)


# ---- Where close_range is refused ---------------------------------------------------------------

NEAR = "sleep 100 & echo $! >near; echo $$ >pid; wait"


def start(preexec=None, command=(PROGRAM,)):
    """A program that has its guardian; returns it, its guardian and a process of its command. The lease is long: at its
    end the guardian kills without being asked."""
    os.environ["SIMBA_URL"] = url(ttl="60s", transition="60s")
    for name in ("near", "pid"):
        if os.path.exists(name):
            os.remove(name)
    program = subprocess.Popen([*command, "lock", "m", "--", "bash", "-c", NEAR], preexec_fn=preexec,
                               start_new_session=True)
    shell = number("pid")  # once it is there, nothing is left of what came before the program
    pids = wait_until(lambda: {int(pid) for pid in read(f"/proc/{program.pid}/task/{program.pid}/children").split()}
                      - {shell}, "there is a guardian")
    return program, pids.pop(), number("near")


def link_of(path):
    """Where it leads; None where it is gone."""
    try:
        return os.readlink(path)
    except FileNotFoundError:
        return None


def open_files(pid):
    """What a process keeps open, without the numbers that differ from run to run. It may close some meanwhile."""
    folder = f"/proc/{pid}/fd"
    links = [link_of(f"{folder}/{fd}") for fd in os.listdir(folder)]
    return sorted(link.split(":")[0] for link in links if link is not None)


def end_by_kill(program, inner):
    program.send_signal(signal.SIGKILL)
    program.wait()
    wait_until(lambda: not is_alive(inner), "the guardian notices the end of the program", patience=10)


def keeps_open(guardian, expected):
    """It closes the rest right after its start."""
    wait_until(lambda: open_files(guardian) == expected, f"the guardian keeps {expected} open", patience=10)


@case
def the_guardian_notices_the_end_of_the_program_where_close_range_is_refused():
    for failure in (None, ENOSYS, EPERM):
        program, guardian, inner = start(refuse_close_range(failure) if failure else None)
        keeps_open(guardian, [os.path.realpath("store.db-life"), "anon_inode", "pipe"])
        end_by_kill(program, inner)


@case
def the_guardian_notices_the_end_of_the_program_where_there_is_no_proc_either():
    """In a mount namespace of its own; this test still sees the processes. SQLite needs /proc."""
    hidden = [*own_mounts(), "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh"]
    if not Redis.exists():
        raise Skipped("there is no Redis here")
    server = Redis()
    try:
        program, guardian, inner = start(refuse_close_range(ENOSYS), (*hidden, PROGRAM, "-u", server.url))
        keeps_open(guardian, ["anon_inode", "pipe"])  # its timer and its end of the pipe
        end_by_kill(program, inner)
    finally:
        server.stop()


if __name__ == "__main__":
    sys.exit(main())
