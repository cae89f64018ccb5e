#!/usr/bin/env python3
"""Commands of `simba lock` that leave processes behind which cannot be killed, or not soon: the mutex is not released under
them, and the exit code tells. So it is where /proc does not show them, and its numbers are those of strangers.

    commands_test.py ESCAPE

ESCAPE is the library of escape.c, or empty where nothing can be preloaded.
"""
import os
import shutil
import signal
import sqlite3
import subprocess
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../cli"))
from program import PROGRAM, Simba, Skipped, case, contains, equal, is_alive, is_free, main, now, number, true, url, wait_until, write

ESCAPE = sys.argv[1]
PATIENCE_OF_A_SWEEP = 1  # seconds, after the end of the lease
LEAVE = ("setsid bash -c 'echo $$ >escaped.new; mv escaped.new escaped; exec sleep 100' & "
         "until [ -e escaped ]; do sleep 0.01; done")


def start_escaping(*arguments):
    if not ESCAPE:
        raise Skipped("nothing can be preloaded here")
    program = Simba(*arguments, "m", "--", "bash", "-c", LEAVE, env={"LD_PRELOAD": ESCAPE})
    escaped = number("escaped")
    wait_until(lambda: "killing them" in program.said(), "the command has ended")
    return program, escaped


@case
def a_process_that_is_not_killed_at_once_keeps_the_mutex_until_it_is():
    os.environ["SIMBA_URL"] = url(ttl="1s", transition="2s")
    for verb in (["lock"], ["lead", "--restart", "never"]):
        program, escaped = start_escaping(*verb)
        end = now() + 3 * PATIENCE_OF_A_SWEEP
        wait_until(lambda: now() > end or not is_alive(program.pid), "it goes on")
        true(is_alive(program.pid) and not is_free(), "the mutex was given back while a process of the command works")
        write("caught", "")
        equal(program.wait(), 0)
        true(not is_alive(escaped), "the process outlived the mutex")
        for name in ("escaped", "caught"):
            os.remove(name)


@case
def the_program_gives_up_when_the_lease_is_over_and_exits_with_70():
    program, escaped = start_escaping("lock")
    blocker = sqlite3.connect("store.db", isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    equal(program.wait(), 70)
    true(is_alive(escaped), "the process was killed")
    contains(program.said(), "processes of the command cannot be killed")
    blocker.close()
    os.kill(escaped, signal.SIGKILL)


@case
def a_process_that_may_not_be_killed_is_not_passed_over():
    """As root without the right to kill, which is what every user is to a process of another user."""
    if os.getuid() != 0 or shutil.which("setpriv") is None:
        raise Skipped("only root can set that up")
    os.environ["SIMBA_URL"] = url(ttl="60s", transition="60s")
    leave = ("setpriv --reuid 65534 --clear-groups sleep 100 & "
             "until grep -q '^Uid:.65534' /proc/$!/status; do sleep 0.01; done; echo $! >escaped")
    for verb in (["lock"], ["lead"], ["schedule", "--every", "100s"]):
        with open("err", "w+", encoding="utf-8") as err:
            done = subprocess.run(["setpriv", "--bounding-set", "-kill", PROGRAM, *verb, "m", "--", "sh", "-c", leave],
                                  check=False, stderr=err, timeout=60)
            err.seek(0)
            contains(err.read(), "processes of the command cannot be killed")
        equal((verb, done.returncode), (verb, 70))
        escaped = number("escaped")
        true(is_alive(escaped), "the process was killed")
        true(not is_free(), "the mutex was given back while a process of the command works")
        os.kill(escaped, signal.SIGKILL)
        wait_until(is_free, "on SQLite the end of the process frees it")
        os.remove("escaped")


# ---- A /proc of another pid namespace -------------------------------------------------------------


def run_in_own_pids(*arguments):
    """The command is process 1 of a pid namespace. Without --mount-proc among the arguments /proc shows the outer one."""
    if shutil.which("unshare") is None:
        raise Skipped("there is no unshare here")
    own = ["unshare", "--pid", "--fork", *(["--map-root-user"] if os.getuid() != 0 else [])]
    done = subprocess.run([*own, *arguments], check=False, capture_output=True, text=True, timeout=60)
    if "unshare:" in done.stderr:
        raise Skipped("pid namespaces are not allowed here: " + done.stderr.strip())
    if "LeakSanitizer has encountered" in done.stderr:
        raise Skipped("the sanitizer needs a /proc of its own")
    return done


@case
def what_a_proc_of_another_pid_namespace_does_not_show_keeps_the_mutex():
    os.environ["SIMBA_URL"] = url(ttl="60s", transition="60s")
    script = '"$0" lock m -- bash -c "$1"; echo $?; kill -0 $(cat escaped) && echo lives; "$0" lock -n m true; echo $?'
    done = run_in_own_pids("bash", "-c", script, PROGRAM, LEAVE)
    equal(done.stdout.split(), ["70", "lives", "75"])
    contains(done.stderr, "cannot be found without a /proc of their pid namespace")


@case
def a_command_that_leaves_nothing_ends_as_ever_under_a_proc_of_another_pid_namespace():
    script = '"$0" lock m -- sh -c "sleep 0.01 & exit 3"; echo $?; "$0" lock -n m true; echo $?'
    done = run_in_own_pids("bash", "-c", script, PROGRAM)
    equal((done.stdout.split(), done.stderr), (["3", "0"], ""))


@case
def numbers_of_another_pid_namespace_are_not_killed():
    """`simba` is process 2 of the inner namespace. Process 2 of the outer one, which /proc shows, has children with the
    numbers of the strangers."""
    outer = """bash -c 'for i in {1..60}; do sleep 100 & done; echo >started; wait' &
               read <started; exec unshare --pid --fork bash -c "$1" "$0" """
    inner = """"$0" lock m -- bash -c 'echo >ready; read <go' &
               read <ready; for i in {1..20}; do sleep 100 & done; echo >go; wait %1; echo $?; jobs -r | wc -l"""
    for name in ("started", "ready", "go"):
        os.mkfifo(name)
    done = run_in_own_pids("--mount-proc", "bash", "-c", outer, PROGRAM, inner)
    equal((done.stdout.split(), done.stderr), (["0", "20"], ""))


if __name__ == "__main__":
    sys.exit(main())
