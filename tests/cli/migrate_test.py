#!/usr/bin/env python3
"""`simba migrate`: names move to another store, and at no time have two owners.

    migrate_test.py FROM TO     each sqlite, redis, postgres, mariadb, zookeeper or etcd
"""
import json
import os
import re
import signal
import subprocess
import sys
import time

import stores
from program import Simba, case, contains, equal, lines, main, read, run, true, wait_until

FROM_NAME, TO_NAME = sys.argv[1:3]
FROM_LEASES = FROM_NAME not in ("zookeeper", "etcd")  # which have sessions
FROM = TO = None
PREFIX = [0]

# It has an flock while it works, and tells if another has it. Two owners would work at the same time.
WORK = """exec 9>>work.lock
flock -n 9 || { echo overlap >>log; exit 1; }
echo "$SIDE $SIMBA_FENCE" >>log
"""
HOLD = WORK + "sleep 1000"
SHORT = WORK + "sleep 0.02"
LOOP = 'while ! [ -e stop ]; do "$SIMBA_PROGRAM" -q lock -w 1 "$0" -- sh -c "$1"; done'


def pair(function):
    def wrapped():
        PREFIX[0] += 1
        function(f"case-{PREFIX[0]}-")
    wrapped.__name__ = f"{FROM_NAME}_to_{TO_NAME}_{function.__name__}"
    return case(wrapped)


def side(store):
    return {"SIMBA_URL": store.url, "SIDE": "from" if store is FROM else "to"}


def on(store, *arguments, code=0):
    program = run(*arguments, env=side(store))
    equal((program.code, program.said() if program.code != code else ""), (code, ""))
    return program


def token(store, mutex):
    return int(read(on(store, "lock", mutex, "--", "sh", "-c", "echo $SIMBA_FENCE").out))


def owner(store, mutex):
    return json.loads(read(on(store, "status", "--json", mutex).out))[0]["owner"]


def moving(*arguments):
    """It has ended, unless FROM has sessions: then it holds the marks until it is ended."""
    program = Simba("migrate", *arguments)
    wait_until(lambda: program.process.poll() is not None or "leave it running" in program.said(), "it has moved")
    return program


def over(program, code=0):
    if program.process.poll() is None and "leave it running" in program.said():
        program.send(signal.SIGTERM)
    equal((program.wait(), program.said() if program.process.returncode != code else ""), (code, ""))


def rows(text):
    return {one["mutex"]: one for one in json.loads(text)}


def migrate(*arguments, code=0):
    program = moving(*arguments, "--json")
    over(program, code)
    return {name: one["state"] for name, one in rows(read(program.out)).items()}


def loop(store, mutex):
    return subprocess.Popen(["sh", "-c", LOOP, mutex, SHORT], env={**os.environ, **side(store)},
                            stdin=subprocess.DEVNULL)


def ended(*loops):
    with open("stop", "w", encoding="utf-8"):
        pass
    for one in loops:
        one.wait(30)


def hold(store, mutex):
    holder = Simba("lead", mutex, "--", "sh", "-c", HOLD, env=side(store))
    wait_until(lambda: lines("log"), "it leads")
    return holder


def said_of(store):
    return [line.split()[1] for line in lines("log") if line.startswith("from" if store is FROM else "to")]


@pair
def a_running_fleet_never_has_two_owners(prefix):
    mutex = prefix + "m"
    on(TO, "init")  # the file of SQLite exists
    leader = hold(FROM, mutex)
    move = Simba("migrate", FROM.url, TO.url, mutex)
    wait_until(lambda: owner(TO, mutex).startswith("migrate~"), "it has the mutex on TO and waits for the other")
    loops = loop(FROM, mutex), loop(TO, mutex)
    wait_until(lambda: "held by" in move.said(), "it says whom it waits for")
    equal(leader.end(), 0)
    wait_until(lambda: len(said_of(TO)) > 5, "contenders own on TO")
    before = len(said_of(FROM))
    wait_until(lambda: len(said_of(TO)) > 15, "they go on")
    equal(len(said_of(FROM)), before)
    ended(*loops)
    over(move)
    log = lines("log")
    true("overlap" not in log, f"nobody works at the same time: {log}")
    tokens = [int(line.split()[1]) for line in log]
    true(all(a < b for a, b in zip(tokens, tokens[1:])), f"tokens grow across the move: {log}")


@pair
def without_a_move_the_log_shows_two_owners(prefix):
    """The twin: the check above can fail."""
    loops = [loop(store, prefix + "m") for store in (FROM, TO)]
    wait_until(lambda: "overlap" in lines("log"), "both work")
    ended(*loops)


@pair
def what_is_remembered_comes_along_and_a_second_run_does_no_harm(prefix):
    on(FROM, "lock", "--once-per", "1h", prefix + "job", "--", "sh", "-c", "sleep 0.1")
    last = 0 if not FROM_LEASES else token(FROM, prefix + "job")
    job = prefix + "job"
    planned = moving(FROM.url, TO.url, job, "--dry-run")
    over(planned)
    contains(read(planned.out), "would move")
    equal(owner(FROM, job), "")
    leader = hold(FROM, prefix + "led")
    planned = moving(FROM.url, TO.url, prefix + "led", "--dry-run")
    equal(leader.end(), 0)
    over(planned)
    true(re.search(rf"{prefix}led .* would move: held by \S+$", read(planned.out), re.M), read(planned.out))
    first = moving(FROM.url, TO.url, job)
    contains(read(first.out), "1 moved, 0 moved before, 0 held")
    mark = owner(FROM, job)
    shown = re.escape(TO.url.partition("?")[0])
    true(re.fullmatch(rf"moved~\w{{6}} \(moved to {shown}\)", mark), mark)
    contains(on(FROM, "lock", "-w", "0.2", job, "--", "true", code=75).said(), "(moved to ")
    contains(on(TO, "lock", "--once-per", "1h", job, "--", "echo", "ran").said(), "once per 1h")
    contains(read(on(TO, "status", job).out), "with exit code 0")
    true(token(TO, job) > last, "tokens go on")
    again = moving(FROM.url, TO.url, job)
    over(again, 0 if FROM_LEASES else 75)
    contains(read(again.out), "0 moved, 1 moved before, 0 held" if FROM_LEASES else "0 moved before, 1 held")
    equal(owner(FROM, job), mark)
    over(first)


@pair
def what_is_held_is_left_or_waited_for(prefix):
    free, held = prefix + "free", prefix + "held"
    on(FROM, "lock", free, "--", "true")
    leader = hold(FROM, held)
    equal(migrate(FROM.url, TO.url, free, held, "-n", code=75), {free: "moved", held: "held"})
    equal(migrate(FROM.url, TO.url, held, "-w", "0.3", code=75), {held: "held"})
    true(owner(FROM, held) != "" and owner(TO, held) == "", "it is as it was")
    equal(leader.end(), 0)
    equal(migrate(FROM.url, TO.url, held), {held: "moved"})


@pair
def a_signal_gives_back_what_is_held(prefix):
    mutex = prefix + "m"
    leader = hold(FROM, mutex)
    for number, code in ((signal.SIGTERM, 143), (signal.SIGKILL, -9)):
        move = Simba("migrate", FROM.url, TO.url, mutex)
        wait_until(lambda: owner(TO, mutex).startswith("migrate~"), "it waits")
        equal(move.end(number), code)
    wait_until(lambda: owner(TO, mutex) == "", "the lease of the killed one ends")
    equal(leader.end(), 0)
    if not FROM_LEASES:  # a waiter that is dead owns until its session ends
        equal(migrate(FROM.url, TO.url, mutex, code=75), {mutex: "held"})
        wait_until(lambda: owner(FROM, mutex) == "", "the session ends")
    equal(owner(FROM, mutex), "")
    equal(migrate(FROM.url, TO.url, mutex), {mutex: "moved"})


def on_stores_with_leases(function):
    return pair(function) if FROM_LEASES and TO_NAME != "zookeeper" else function


@on_stores_with_leases
def the_way_back_is_the_same(prefix):
    mutex = prefix + "m"
    tokens = [token(FROM, mutex)]
    equal(migrate(FROM.url, TO.url, mutex), {mutex: "moved"})
    tokens.append(token(TO, mutex))
    waiter = Simba("lock", mutex, "--", "sh", "-c", SHORT, env=side(FROM))
    wait_until(lambda: "moved to" in waiter.said(), "it waits")
    leader = hold(TO, mutex)
    equal(migrate(TO.url, FROM.url, mutex, "-w", "0.3", code=75), {mutex: "held"})
    contains(owner(FROM, mutex), "(moved to ")
    move = Simba("migrate", TO.url, FROM.url, mutex)
    wait_until(lambda: "waiting for" in move.said(), "it waits")
    equal(move.end(signal.SIGKILL), -9)
    contains(owner(FROM, mutex), "(moved to ")
    equal(leader.end(), 0)
    back = run("migrate", TO.url, FROM.url, mutex)
    equal((back.code, back.said()), (0, ""))
    equal(waiter.wait(), 0)
    log = lines("log")
    equal([line.split()[0] for line in log], ["to", "from"])
    tokens += [int(line.split()[1]) for line in log]
    true(all(a < b for a, b in zip(tokens, tokens[1:])), f"tokens grow: {tokens}")
    contains(owner(TO, mutex), "(moved to ")


@on_stores_with_leases
def a_mark_of_a_move_that_was_killed_is_none(prefix):
    """It has an ordinary lease: contenders would own on FROM when that ends."""
    mutex = prefix + "m"
    killed = Simba("--exact-id", "moved~k1lled (moved to x)", "lock", mutex, "--", "sh", "-c", HOLD, env=side(FROM))
    wait_until(lambda: lines("log"), "it holds")
    equal(migrate(FROM.url, TO.url, mutex, "-n", code=75), {mutex: "held"})
    killed.end(signal.SIGKILL)
    equal(migrate(FROM.url, TO.url, mutex), {mutex: "moved"})
    equal(migrate(FROM.url, TO.url, mutex), {mutex: "moved before"})


@pair
def wrong_stores_are_refused_and_passwords_are_not_shown(prefix):
    on(FROM, "lock", prefix + "m", "--", "true")
    equal(run("migrate", FROM.url).code, 64)
    equal(run("migrate", FROM.url, FROM.url).code, 64)
    alias = run("migrate", FROM.url, FROM.url.partition("?")[0], prefix + "m")
    equal(alias.code, 78)
    contains(alias.said(), "the same store")
    equal(owner(FROM, prefix + "m"), "")
    if hasattr(TO, "denied_url"):
        denied = run("migrate", FROM.url, TO.denied_url, prefix + "m")
        if TO_NAME != "zookeeper":  # which takes every password
            equal(denied.code, 77)
        true("wr0ng" not in denied.said() + read(denied.out), "no password is shown")


def sql(statement):
    subprocess.run(["mariadb", "--no-defaults", "-uroot", "-h127.0.0.1", f"-P{TO.port}", "simba", "-e", statement],
                   check=True, timeout=60)


def narrow(function):
    return pair(function) if (FROM_NAME, TO_NAME) == ("redis", "mariadb") else function


@narrow
def a_narrow_column_is_refused_with_what_widens_it(prefix):
    mutex = prefix + "m"
    last = token(FROM, mutex)
    on(TO, "lock", mutex, "--", "true")
    sql("DELETE FROM simba_mutex WHERE version > 2000000000; ALTER TABLE simba_mutex MODIFY version int unsigned NOT NULL")
    refused = run("migrate", FROM.url, TO.url, mutex)
    equal(refused.code, 78)
    statement = re.search(r"run: (ALTER TABLE [^\n]*)", refused.said())
    true(statement, refused.said())
    equal((owner(FROM, mutex), owner(TO, mutex)), ("", ""))
    true(token(FROM, mutex) > last, "FROM goes on")
    sql(statement.group(1))
    equal(migrate(FROM.url, TO.url, mutex), {mutex: "moved"})
    true(token(TO, mutex) > last, "tokens go on")
    sql("ALTER TABLE simba_mutex MODIFY owner_id char(32) NOT NULL")  # that of the JVM library
    equal(migrate(TO.url, FROM.url, mutex), {mutex: "moved"})
    true(re.fullmatch(r"moved~\w{6}", owner(TO, mutex)), "the mark fits")


def with_floors(function):
    return pair(function) if FROM_LEASES else function  # ZooKeeper's tokens are its own


@with_floors
def tokens_go_on_above_high_ones_or_the_move_is_refused(prefix):
    mutex = prefix + "m"
    raise_program = sys.argv[3]
    high = max(token(FROM, mutex), int(time.time() * 1e6)) + 10**12  # the next million seconds
    subprocess.run([raise_program, FROM.url, mutex, str(high)], check=True, stdout=subprocess.DEVNULL)
    move = run("migrate", FROM.url, TO.url, mutex)
    if TO_NAME == "zookeeper":
        equal(move.code, 69)
        contains(move.said(), "numbers of its own")
        equal(owner(FROM, mutex), "")
    else:
        equal((move.code, move.said(), owner(TO, mutex)), (0, "", ""))
        true(token(TO, mutex) > high, "tokens go on")


def with_servers():
    global FROM, TO
    if not all(stores.BY_NAME[name].exists() for name in (FROM_NAME, TO_NAME)):
        print("1..0 # SKIP a server is missing")
        return 77
    FROM = stores.BY_NAME[FROM_NAME]()
    try:
        TO = stores.BY_NAME[TO_NAME]()
        try:
            return main()
        finally:
            TO.stop()
    finally:
        FROM.stop()


if __name__ == "__main__":
    sys.exit(with_servers())
