#!/usr/bin/env python3
"""Locks without a command: `simba acquire`, `renew` and `release` as a script and a CI job use them.

    acquire_test.py STORE LATE_INTERRUPT    sqlite, redis, postgres, mariadb, zookeeper or etcd; "" where nothing is preloaded
"""
import json
import os
import re
import signal
import subprocess
import sys

import stores
from program import (PATIENCE, PROGRAM, Simba, Skipped, case, contains, equal, is_alive, is_free, now, number, read,
                     run, stays_taken, true, wait_until)

ONE = stores.OneStore(sys.argv[1])
LATE_INTERRUPT = sys.argv[2]
HAS_LEASES = sys.argv[1] not in ("zookeeper", "etcd")
WORDS = ["SIMBA_MUTEX", "SIMBA_CONTENDER_ID", "SIMBA_FENCE", "SIMBA_DEADLINE", "SIMBA_FOR", "SIMBA_KEEPER"]


def on_every_store(function):
    def wrapped():
        for word in WORDS:
            os.environ.pop(word, None)
        function()
    wrapped.__name__ = function.__name__
    return ONE.case(wrapped)


def on_store(function):
    """On a store whose leases outlive their clients."""
    return on_every_store(function) if HAS_LEASES else function


def script(text, **more):
    """Runs a script of a user; $simba is the program."""
    return subprocess.run(["sh", "-c", text], env={**os.environ, "simba": PROGRAM}, capture_output=True, text=True,
                          check=False, timeout=PATIENCE, stdin=subprocess.DEVNULL, **more)


def acquire(*arguments):
    """What it printed, as JSON."""
    program = run("acquire", "m", "--json", *arguments)
    equal(program.code, 0)
    return json.loads(read(program.out))


def named(term):
    return ["--id", term["id"], "--fence", str(term["fence"])]


def owner():
    program = run("status", "--json", "m")
    equal(program.code, 0)
    return json.loads(read(program.out))[0]["owner"]


@on_store
def a_script_holds_it_after_the_program_has_left_and_releases_it():
    done = script('words=$("$simba" acquire m --for 1m -n) && eval "$words" || exit 9\n'
                  'test "$SIMBA_DEADLINE" -gt "$(($(date +%s) + 50))" && test "$SIMBA_DEADLINE" -lt "$(($(date +%s) + 61))" || exit 8\n'
                  '"$simba" -q lock -n other -- true || exit 7\n'
                  '"$simba" -q lock -n m -- true; test $? = 75 || exit 6\n'
                  'eval "$("$simba" renew m --for 2m)"\n'
                  'test "$SIMBA_DEADLINE" -gt "$(($(date +%s) + 100))" || exit 5\n'
                  '"$simba" release m && echo "$SIMBA_MUTEX $SIMBA_FENCE $SIMBA_FOR"')
    equal((done.returncode, done.stderr), (0, ""))
    contains(done.stdout, "m is released, fence ")
    contains(done.stdout, " 2m\n")
    true(is_free(), "somebody owns it")


@on_store
def the_lease_is_as_long_as_asked_and_then_another_gets_it():
    begin = now()
    term = acquire("--for", "2s", "-n")
    stays_taken(begin + term["left_ms"] / 1000)
    won = run("lock", "-w", "10s", "m", "--", "true")
    equal(won.code, 0)
    true(1.9 < now() - begin < 5, f"another got it after {now() - begin} s")


@on_store
def a_term_that_is_gone_is_70_and_nothing_of_another_is_touched():
    term = acquire("--for", "300ms", "-n")
    wait_until(lambda: owner() == "", "the lease has ended")
    next_term = acquire("--for", "1m", "-n")
    said = run("lock", "-n", "m", "--", "true").said()
    true(re.search(r"; lease ends in (59s|1m) unless renewed\n", said), said)
    for verb in ["renew", "release"]:
        late = run(verb, "m", *named(term), *(["--for", "1m"] if verb == "renew" else []))
        equal(late.code, 70)
        contains(late.said(), f"with token {term['fence']} is gone: it is owned by {next_term['id']}")
        equal(owner(), next_term["id"])
    equal(run("release", "m", *named(next_term)).code, 0)
    again = run("release", "m", *named(next_term))
    equal(again.code, 70)
    contains(again.said(), "nobody owns it now")
    true(next_term["fence"] > term["fence"], "the token did not grow")


@on_store
def another_token_of_the_same_id_is_not_renewed():
    run("lock", "m", "--", "true")
    term = acquire("--for", "1m", "-n")
    for verb in ["renew", "release"]:
        late = run(verb, "m", "--id", term["id"], "--fence", str(term["fence"] - 1), *(["--for", "2m"] if verb == "renew" else []))
        equal((verb, late.code), (verb, 70))
    equal(run("release", "m", *named(term)).code, 0)


@on_store
def a_renewal_makes_it_last_longer():
    begin = now()
    term = acquire("--for", "2s", "-n")
    renewed = run("renew", "m", *named(term), "--for", "4s", "--json")
    equal(renewed.code, 0)
    told = json.loads(read(renewed.out))
    equal((told["id"], told["fence"], told["keeper"]), (term["id"], term["fence"], None))
    true(3000 < told["left_ms"] < 4000, told)
    true(abs(told["deadline_ms"] - term["deadline_ms"] - 2000) < 1500, told)
    stays_taken(begin + 3.5)
    equal(run("release", "m", *named(term)).code, 0)


@on_store
def a_release_wakes_a_waiter():
    term = acquire("--for", "1m", "-n")
    waiter = Simba("lock", "m", "--", "true")
    wait_until(lambda: "waiting" in waiter.said(), "the waiter waits")
    begin = now()
    equal(run("release", "m", *named(term)).code, 0)
    equal(waiter.wait(), 0)
    true(now() - begin < 10, f"the waiter came after {now() - begin} s")


@on_store
def an_interrupted_wait_leaves_nothing():
    term = acquire("--for", "1m", "-n")
    waiting = Simba("acquire", "m", "--for", "1m")
    wait_until(lambda: "waiting" in waiting.said(), "it waits")
    equal(waiting.end(signal.SIGTERM), 128 + signal.SIGTERM)
    equal(read(waiting.out), "")
    equal(run("acquire", "m", "--for", "1m", "-w", "300ms").code, 75)
    equal(run("acquire", "m", "--for", "1m", "-n", "-E", "3").code, 3)
    equal(run("release", "m", *named(term)).code, 0)
    true(is_free(), "somebody owns it")


@on_store
def an_environment_of_simba_lock_is_not_taken_for_a_term_of_its_own():
    done = script('"$simba" lock m -- sh -c \'"$simba" renew m --for 1m; a=$?; "$simba" release m; echo $a $?\'')
    equal((done.returncode, done.stdout), (0, "64 64\n"))
    contains(done.stderr, "which term?")


@on_every_store
def a_keeper_renews_until_its_process_ends_and_leaves_no_output_open():
    """communicate() would wait for a keeper that has the ends of the pipes."""
    begin = now()
    done = script('sleep 100 >/dev/null 2>&1 & "$simba" acquire m --json -n --keep $! && echo $!')
    equal((done.returncode, done.stderr), (0, ""))
    told, kept = done.stdout.split("\n")[:2]
    term = json.loads(told)
    equal((term["deadline_ms"], term["left_ms"]), (None, None))
    true(is_alive(term["keeper"]), "there is no keeper")
    stays_taken(begin + 3)  # three leases
    equal(owner(), term["id"])
    os.kill(int(kept), signal.SIGKILL)
    begin = now()
    wait_until(is_free, "the keeper has released it")
    true(now() - begin < 5, f"it was free after {now() - begin} s")
    wait_until(lambda: not is_alive(term["keeper"]), "the keeper has ended")


@on_every_store
def an_interrupt_with_the_mutex_tells_of_none():
    """Ctrl-C reaches both processes. What is printed must be held."""
    if not LATE_INTERRUPT:
        raise Skipped("nothing can be preloaded before a sanitizer")
    with subprocess.Popen(["sleep", "100"]) as sleeper:
        program = run("acquire", "m", "-n", "--keep", str(sleeper.pid), env={"LD_PRELOAD": LATE_INTERRUPT})
        sleeper.kill()
    equal((program.code, read(program.out)), (128 + signal.SIGINT, ""))
    wait_until(is_free, "it is free")


@on_every_store
def a_keeper_that_is_killed_leaves_the_mutex_to_the_end_of_its_lease():
    with subprocess.Popen(["sleep", "100"]) as sleeper:
        term = acquire("-n", "--keep", str(sleeper.pid))
        os.kill(term["keeper"], signal.SIGKILL)
        next_owner = run("lock", "-w", "30s", "m", "--", "true")
        goes_on = sleeper.poll() is None
        sleeper.kill()
    equal((next_owner.code, goes_on), (0, True))


@on_every_store
def a_keeper_obeys_no_request_to_hand_over():
    """Its process would work on beside the next owner."""
    with subprocess.Popen(["sleep", "100"]) as sleeper:
        term = acquire("-n", "--keep", str(sleeper.pid))
        waiting = Simba("lock", "m", "--", "true")
        wait_until(lambda: "in line" in waiting.said() or "held by" in waiting.said(), "it waits")
        equal(run("handover", "m", "--anyway", "-w", "3s").code, 75)
        true(is_alive(term["keeper"]), "the keeper has ended")
        sleeper.kill()
    equal(waiting.wait(), 0)


@on_every_store
def a_keeper_ends_by_a_signal_and_after_a_release():
    sleeper = subprocess.Popen(["sleep", "100"])
    term = acquire("-n", "--keep", str(sleeper.pid))
    os.kill(term["keeper"], signal.SIGTERM)
    wait_until(lambda: not is_alive(term["keeper"]), "the keeper has ended")
    equal(owner(), "")
    term = acquire("-n", "--keep", str(sleeper.pid))
    equal(run("release", "m", *named(term)).code, 0)
    wait_until(lambda: not is_alive(term["keeper"]), "the keeper has ended")
    true(is_free(), "somebody owns it")
    sleeper.kill()
    sleeper.wait()


@on_every_store
def a_keeper_that_has_to_wait_is_ended_with_the_program():
    sleeper = subprocess.Popen(["sleep", "100"])
    holder = Simba("lock", "m", "--", "sh", "-c", "echo $$ >holds; exec sleep 100")
    number("holds")
    for number_of in [signal.SIGTERM, signal.SIGKILL]:
        waiting = Simba("acquire", "m", "--keep", str(sleeper.pid))
        wait_until(lambda: "waiting" in waiting.said(), "it waits")
        waiting.end(number_of)
    interrupted = Simba("acquire", "m", "--keep", str(sleeper.pid))
    wait_until(lambda: "waiting" in interrupted.said(), "it waits")
    os.killpg(interrupted.pid, signal.SIGINT)
    true(interrupted.wait() in (-signal.SIGINT, 128 + signal.SIGINT), "it ended otherwise")
    equal(run("acquire", "m", "-n", "--keep", str(sleeper.pid)).code, 75)
    holder.end()
    wait_until(is_free, "it is free")
    sleeper.kill()
    sleeper.wait()


@on_every_store
def a_process_that_does_not_exist_is_not_followed():
    gone = subprocess.Popen(["true"])
    gone.wait()
    program = run("acquire", "m", "--keep", str(gone.pid))
    equal(program.code, 64)
    contains(program.said(), "there is no such process")
    true(is_free(), "somebody owns it")


def where_the_session_is_the_lease_only_a_process_can_hold_it():
    program = run("acquire", "m", "--for", "10m")
    equal(program.code, 69)
    contains(program.said(), "a mutex cannot be held without a process; use --keep")
    equal(run("renew", "m", "--id", "x", "--fence", "1", "--for", "1m").code, 69)
    true(is_free(), "somebody owns it")


if not HAS_LEASES:
    on_every_store(where_the_session_is_the_lease_only_a_process_can_hold_it)


@case
def what_is_asked_for_must_make_sense():
    for arguments, message in [
            (["acquire", "m"], "for how long?"),
            (["acquire", "m", "--for", "1m", "--keep", "1"], "exclude each other"),
            (["acquire", "m", "--for", "1ms"], "--for can be from 100ms to 366d"),
            (["acquire", "m", "--for", "1m", "-n", "-w", "1s"], "exclude each other"),
            (["renew", "m", "--for", "1m"], "which term?"),
            (["renew", "m", "--fence", "x"], "is not a fencing token"),
            (["renew", "m", "--id", "x", "--fence", "7"], "for how long?"),
            (["release", "m"], "add --force"),
            (["release", "m", "--force", "--fence", "3"], "exclude each other")]:
        program = run(*arguments)
        equal((arguments, program.code), (arguments, 64))
        contains(program.said(), message)


@case
def words_for_the_shell_are_quoted():
    name = "it's $(touch bad) `touch bad` \\\"x"
    os.environ["NAME"] = name
    done = script('words=$("$simba" acquire "$NAME" --for 1m) && eval "$words"; test "$SIMBA_MUTEX" = "$NAME" && '
                  'test ! -e bad && "$simba" release "$NAME"')
    equal((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    sys.exit(ONE.main())
