#!/usr/bin/env python3
"""What another client wrote to the store does not keep an operator's verbs from the rest of it: names that nobody can
have, tokens near the end of the numbers, times at both ends of them.
"""
import json
import os
import sqlite3
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../cli"))
from program import Simba, case, contains, equal, main, read, run, true, url, wait_until

OK, CONFIG = 0, 78
ENDS = [-2**63, -1, 0, 2**63 - 1]
HOSTILE = ["a\x01b", "\x7f", " "]  # of which one comes before all others


def change(statement, *values):
    store = sqlite3.connect("store.db")
    with store:
        store.execute(statement, values)
    store.close()


def plant(*names):
    """As a client could that writes to the store without asking this library."""
    equal(run("lock", "m", "--", "true").code, OK)
    store = sqlite3.connect("store.db")
    columns = ", ".join(row[1] for row in store.execute("PRAGMA table_info(simba_mutex)") if row[1] != "mutex")
    with store:
        for name in names:
            store.execute(f"INSERT INTO simba_mutex (mutex, {columns}) SELECT ?, {columns} FROM simba_mutex"
                          " WHERE mutex = 'm'", (name,))
    store.close()


def actions(*arguments):
    program = run(*arguments, "--json")
    equal(program.code, OK)
    return program, {one["mutex"]: one.get("action") or one["state"] for one in json.loads(read(program.out))}


@case
def a_name_that_nobody_can_have_does_not_stop_prune():
    plant(*HOSTILE)
    program, done = actions("prune", "--unused-for", "0s")
    equal(done, {"m": "removed"})
    contains(program.said(), "left out 3 of 4 names, which no contender can have")


@case
def nor_migrate():
    plant(*HOSTILE)
    program, done = actions("migrate", url(), url("to.db"))
    equal(done, {"m": "moved"})
    contains(program.said(), "left out 3 of 4 names, which no contender can have")


@case
def nor_watch():
    plant(*HOSTILE)
    watch = Simba("watch")
    for name in ("m", "later"):
        owner = Simba("lock", name, "--", "sleep", "100")
        wait_until(lambda one=name: f"{one}  owned by" in read(watch.out), "it tells of the others, and of new ones")
        owner.end()
    watch.end()


@case
def a_forged_token_uses_up_those_of_no_store_that_it_is_migrated_to():
    """The floor of SQLite is one for all names."""
    for forged in (2**63 - 3, 2**62):
        plant()
        change("UPDATE simba_mutex SET fence = ?1, version = ?1", forged)
        program = run("migrate", url(), url("to.db"))
        equal(program.code, CONFIG)
        contains(program.said(), "more than half of what the column `version` can hold")
        for name in ("m", "another", "m"):
            equal(run("-u", url("to.db"), "lock", "-n", name, "--", "true").code, OK)
        os.remove("store.db")


@case
def forged_times_do_not_keep_prune_from_its_work():
    plant()
    equal(run("lock", "--once-per", "1h", "m", "--", "true").code, OK)
    for name in ("last-run", "next-run", "unused-since"):
        for at in ENDS:
            change("INSERT OR REPLACE INTO simba_property VALUES ('m', ?, '7', ?)", name, at)
            true(actions("prune", "--unused-for", "1h")[1]["m"] in ("kept", "noted"), (name, at))
        change("DELETE FROM simba_property WHERE name = ?", name)
    equal(actions("prune", "--unused-for", "0s")[1], {"m": "removed"})

@case
def a_forged_size_of_a_semaphore_lets_waiters_in_or_nobody_and_is_set_right_by_its_operator():
    equal(run("lock", "--slots", "1", "s", "--", "true").code, OK)
    for size in ("", "0", "-1", "257", "99999999999999999999", "1x", "a\x1b[2J"):
        change("UPDATE simba_property SET value = ? WHERE name = 'slots'", size or "none")
        program = run("lock", "-w", "1s", "--slots", "1", "s", "--", "true")
        equal((size, program.code), (size, CONFIG))
        contains(program.said(), "simba semaphore resize writes it anew")
        true("\x1b" not in program.said(), program.said())
        equal(run("semaphore", "resize", "s", "1").code, OK)
        equal(run("lock", "-w", "10s", "--slots", "1", "s", "--", "true").code, OK)
    holders = [Simba("lock", "--slots", "1", "s", "--", "sleep", "100") for _ in range(2)]
    wait_until(lambda: "waiting for" in holders[0].said() + holders[1].said(), "one waits")
    change("UPDATE simba_property SET value = '256' WHERE name = 'slots'")
    wait_until(lambda: sum(one["state"] == "held" for one in json.loads(read(run("status", "--json").out))
                           if "#" in one["mutex"]) == 2, "both hold, each a slot of its own")
    contains(run("lock", "--slots", "1", "s", "--", "true").said(), "'s' has 256 slots, not 1")
    for holder in holders:
        holder.end()



if __name__ == "__main__":
    sys.exit(main())
