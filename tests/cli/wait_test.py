#!/usr/bin/env python3
"""How `simba lock` bears a store that is down, slow or closed to it when the wait begins, and how it says so."""
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys

from program import (PROGRAM, Blocked, Simba, as_nobody, case, contains, equal, main, now, own_mounts, read,
                     run, true, url, wait_until)
from stores import Redis, free_port

DOWN = "'m' was not acquired in {}: the store could not be reached"


def said_lines(program):
    return program.said().splitlines()


@case
def a_bounded_wait_ends_in_time_when_the_store_is_down():
    begin = now()
    program = run("-u", f"redis://127.0.0.1:{free_port()}", "lock", "-w", "700ms", "m", "--", "touch", "ran")
    true(0.7 <= now() - begin < 5, f"it took {now() - begin}")
    equal(program.code, 69)
    contains(program.said(), DOWN.format("700ms") + ": the server at 127.0.0.1:")
    equal(len(said_lines(program)), 1)
    true(not os.path.exists("ran"), "it ran")


@case
def a_code_for_contention_does_not_hide_a_store_that_is_down():
    program = run("-u", f"redis://127.0.0.1:{free_port()}", "lock", "-w", "300ms", "-E", "0", "m", "--", "true")
    equal(program.code, 69)
    contains(program.said(), DOWN.format("300ms"))


@case
def a_wait_is_written_as_flock_takes_it_or_as_a_duration():
    for wait, shown in (("0.3", "300ms"), ("0.3s", "300ms"), ("0.2504", "250ms"), ("1", "1s"), ("200ms", "200ms")):
        for verb in (["lock"], ["lead"]):
            program = run("-u", f"redis://127.0.0.1:{free_port()}", *verb, "-w", wait, "m", "--", "true")
            equal(program.code, 69)
            contains(program.said(), f"in {shown}: ")
    for wait in ("", ".", "1.", ".5", "1.5m", "1.5 s", "-1", "1e3", "9999999999"):
        equal((wait, run("lock", "-w", wait, "m", "--", "true").code), (wait, 64))


@case
def a_bounded_wait_ends_in_time_when_connecting_hangs():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        begin = now()
        program = run("-u", f"redis://127.0.0.1:{server.getsockname()[1]}", "lock", "-w", "500ms", "m",
                      "--", "true")
    true(0.5 <= now() - begin < 4, f"it took {now() - begin}")
    equal(program.code, 69)
    contains(program.said(), DOWN.format("500ms"))


@case
def a_mutex_is_held_in_time_namespaces_whose_clocks_differ():
    holder = Simba("lock", "m", "--", "sh", "-c", "touch held; exec sleep 60")
    wait_until(lambda: os.path.exists("held"), "it is held")
    for offset in ("100000", "-30"):
        taken = subprocess.run(["unshare", "--time", "--boottime", offset, "--fork", PROGRAM, "-u", url(),
                                "lock", "-n", "m", "--", "true"], capture_output=True, text=True, check=False)
        if "unshare failed" in taken.stderr:
            print("# not shown here:", taken.stderr.strip())
            break
        equal((offset, taken.returncode, "held by" in taken.stderr), (offset, 75, True))
    equal(holder.end(), 128 + signal.SIGTERM)


@case
def a_store_that_comes_up_within_the_wait_is_used():
    program = Simba("-u", f"sqlite:{os.getcwd()}/later/store.db", "lock", "-w", "20s", "m", "--", "true")
    wait_until(lambda: "waiting for 'm'; store: sqlite:" in program.said(), "it waits")
    os.mkdir("later")
    equal(program.wait(), 0)


@case
def without_a_wait_a_store_that_is_down_is_69_at_once():
    for option in ([], ["-n"]):
        begin = now()
        program = run("-u", f"redis://127.0.0.1:{free_port()}", "lock", *option, "m", "--", "true")
        true(now() - begin < 3, f"it took {now() - begin}")
        equal(program.code, 69)
        equal(len(said_lines(program)), 1)


@case
def what_waiting_cannot_heal_ends_the_wait_at_once():
    os.mkdir("closed")
    os.chmod("closed", 0)
    os.chmod(".", 0o755)
    for arguments in ([], ["-w", "20s"], ["-n"]):
        begin = now()
        program = run("-u", f"sqlite:{os.getcwd()}/closed/x.db", "lock", *arguments, "m", "--", "true",
                      **as_nobody())
        equal(program.code, 77)
        true(now() - begin < 5, f"it took {now() - begin}")
        equal(len(said_lines(program)), 1)


@case
def no_wait_on_a_slow_store_does_not_speak_of_waiting():
    os.environ["SIMBA_URL"] = url(more="&busy-timeout=1500ms")
    equal(run("lock", "m", "--", "true").code, 0)
    with Blocked():
        program = run("lock", "-n", "m", "--", "true")
    true(program.code in (69, 75), f"{program.code}: {program.said()}")
    true("waiting" not in program.said(), program.said())
    equal(len(said_lines(program)), 1)


@case
def a_state_folder_that_may_not_be_created_is_77():
    os.mkdir("closed")
    os.chmod("closed", 0)
    os.chmod(".", 0o755)
    env = {"SIMBA_URL": "", "SIMBA_CONFIG": "", "HOME": "", "XDG_CONFIG_HOME": "",
           "XDG_STATE_HOME": os.getcwd() + "/closed/state"}
    for verb in (["lock", "m", "--", "true"], ["init"]):
        program = run(*verb, env=env, **as_nobody())
        equal(program.code, 77)
        contains(program.said(), "cannot create the folder")


@case
def what_the_system_refuses_is_71_at_once_whatever_the_wait():
    enough = 16  # for none of these: an event loop alone takes ten
    for store, most in ((url(), 25), ("redis://127.0.0.1:1", enough)):
        for descriptors in range(5, most):
            for options in ((), ("-n", "-E", "5"), ("-w", "1h", "-E", "5")):
                program = run("-u", store, "lock", *options, "m", "--", "true", preexec_fn=lambda: resource.setrlimit(
                    resource.RLIMIT_NOFILE, (descriptors, descriptors)))
                true(program.code == 71 or (program.code == 0 and descriptors > enough),
                     f"with {descriptors} descriptors {options}: {program.code}, {program.said()}")


FILL = """
mount -t tmpfs -o size=256k,mode=0700 none disk || exit 1
[ $1 = new ] || "$0" -u sqlite:disk/x.db lock m -- true || exit 98
shift
dd if=/dev/zero of=disk/fill bs=1k 2>dd
exec timeout 20 "$0" -u sqlite:disk/x.db "$@"
"""


def lock_on_full_disk(store, *arguments):
    os.makedirs("disk", exist_ok=True)
    return subprocess.run([*own_mounts(), "sh", "-c", FILL, PROGRAM, store, "lock", *arguments, "n", "--", "true"],
                          capture_output=True, text=True, check=False, timeout=60)


@case
def a_full_disk_is_69_at_once_for_a_new_store_and_an_outage_to_a_bounded_wait():
    for arguments in ([], ["-n"], ["-w", "400ms"], ["-w", "400ms", "-E", "0"]):
        begin = now()
        done = lock_on_full_disk("new", "-q", *arguments)
        equal(done.returncode, 69)
        true(now() - begin >= 0.4 or "-w" not in arguments, "it has not waited")
        equal(len(done.stderr.splitlines()), 1)
        contains(done.stderr, "disk/x.db")
        done = lock_on_full_disk("old", *arguments)
        equal((done.returncode, done.stderr), (0, ""))


def files_up_to(size):
    """For run: a write past that size is an I/O error to SQLite."""
    return {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))}


@case
def a_log_that_cannot_be_written_is_69_at_once_and_an_outage_to_a_bounded_wait():
    os.environ["SIMBA_URL"] = url(ttl="20s", transition="20s")
    while not os.path.exists("store.db-wal") or os.path.getsize("store.db-wal") < 50000:
        equal(run("lock", "m", "--", "true").code, 0)
    for arguments, code in (([], 69), (["-n"], 69), (["-w", "700ms"], 69), (["-w", "700ms", "-E", "0"], 69)):
        begin = now()
        program = run("lock", *arguments, "m", "--", "touch", "ran", **files_up_to(os.path.getsize("store.db-wal")))
        equal(program.code, code)
        true(now() - begin < 5, f"it took {now() - begin}")
        true(now() - begin >= 0.7 or "-w" not in arguments, "it has not waited")
        contains(said_lines(program)[-1], "had an I/O error")
        true(len(said_lines(program)) == 1 or "-w" in arguments, program.said())
        true(program.said().count("connecting again") <= 1, program.said())
    true(not os.path.exists("ran"), "it ran")
    begin = now()
    equal(run("lock", "-w", "10s", "m", "--", "true").code, 0)
    true(now() - begin < 5, "something was left behind")


@case
def a_new_store_that_cannot_be_written_is_69_at_once_and_an_outage_to_a_bounded_wait():
    for arguments, code in (([], 69), (["-n"], 69), (["-w", "700ms"], 69)):
        begin = now()
        program = run("-u", url("new.db"), "lock", *arguments, "m", "--", "true", **files_up_to(8192))
        equal(program.code, code)
        true(now() - begin >= 0.7 or "-w" not in arguments, "it has not waited")
        contains(said_lines(program)[-1], "had an I/O error")


def a_store_that_dies_during_a_wait_is_blamed_and_not_the_owner():
    redis = Redis()
    try:
        store = f"redis://127.0.0.1:{redis.port}"
        holder = Simba("-u", store, "lock", "m", "--", "sleep", "100")
        wait_until(lambda: '"held"' in read(run("-u", store, "status", "--json", "m").out), "it holds")
        waiter = Simba("-u", store, "lock", "-w", "3s", "-E", "0", "m", "--", "true")
        wait_until(lambda: "waiting for 'm'" in waiter.said() or "held by" in waiter.said(), "it waits")
        redis.process.kill()
        equal(waiter.wait(), 69)
        last = said_lines(waiter)[-1]
        contains(last, DOWN.format("3s"))
        true("held by" not in last, last)
        true("cannot release" not in waiter.said(), "it has nothing to release")
        holder.send(signal.SIGKILL)
        holder.wait()
    finally:
        redis.stop()


def a_right_that_is_missing_is_told_once_and_ends_every_kind_of_wait():
    redis = Redis()
    try:
        redis.socket.sendall(b"ACL SETUSER half on >p4ss ~* &* +@all -eval -evalsha\r\n")
        contains(redis.socket.recv(4096).decode(), "OK")
        for arguments in ([], ["-w", "20s"], ["-n"]):
            program = run("-u", f"redis://half:p4ss@127.0.0.1:{redis.port}", "lock", *arguments, "m",
                          "--", "true")
            equal(program.code, 77)
            equal(len(said_lines(program)), 1)
            contains(program.said(), "simba: cannot acquire 'm': ")
    finally:
        redis.stop()


if shutil.which("redis-server") is not None:
    case(a_right_that_is_missing_is_told_once_and_ends_every_kind_of_wait)
    case(a_store_that_dies_during_a_wait_is_blamed_and_not_the_owner)

@case
def a_command_that_asks_for_the_mutex_that_it_runs_under_is_refused():
    said = "simba: 'm' is held by outer, whose command runs this simba: it would wait for itself for ever\n"
    outer = ["-q", "--exact-id", "outer", "lock", "m", "--"]
    between = [PROGRAM, "lock", "other", "--", "env", "-u", "SIMBA_MUTEX"]
    for inner in (["lock", "m"], ["lock", "-w", "1m", "m"], ["-q", "lead", "m"], ["-q", "schedule", "--every", "1s", "m"]):
        for way in ([], between, between + [PROGRAM, "-q", "lead", "--restart", "never", "third", "--"]):
            program = run(*outer, *way, PROGRAM, *inner, "--", "touch", "ran")
            equal((program.code, program.said()), (64, said))
    true(not os.path.exists("ran"), "it ran")


@case
def a_command_may_ask_for_other_mutexes_and_for_its_own_without_waiting_or_on_another_store():
    outer = ["--exact-id", "outer", "lock", "m", "--", PROGRAM]
    for inner in (["lock", "other"], ["lock", "-n", "other"], ["-u", url("another.db"), "lock", "m"]):
        program = run(*outer, *inner, "--", "true")
        equal((program.code, program.said()), (0, ""))
    program = run(*outer, "lock", "-n", "m", "--", "true")
    equal(program.code, 75)
    contains(program.said(), "simba: 'm' was not acquired: held by outer (under which this runs)")


if __name__ == "__main__":
    sys.exit(main())
