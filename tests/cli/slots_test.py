#!/usr/bin/env python3
"""Semaphores and sets on the command line: lock and lead --slots, semaphore resize, lock --all.

    slots_test.py STORE       sqlite, redis, postgres, mariadb, zookeeper or etcd
"""
import json
import os
import sys

import stores
from program import Simba, contains, equal, is_free, lines, now, read, run, true, wait_until, write

ONE = stores.OneStore(sys.argv[1])
LONG = ["--ttl", "20s"]  # a lease that a busy machine cannot lose
HOLD = 'echo "$SIMBA_SLOT" >$0.new; mv $0.new $0; exec sleep 100'


def hold(verb, file, *arguments):
    return Simba(*LONG, verb, *arguments, "--", "sh", "-c", HOLD, file)


def slot_in(file):
    return int(wait_until(lambda: lines(file), f"{file} is written")[0])


def status_of(name):
    return json.loads(read(run("status", "--json", name).out))[0]


@ONE.case
def as_many_commands_run_as_there_are_slots_and_the_rest_wait_in_line(name):
    holders = [hold("lock", f"held-{number}", "--slots", "2", name) for number in range(2)]
    equal(sorted(slot_in(f"held-{number}") for number in range(2)), [0, 1])
    program = run("lock", "-n", "--slots", "2", name, "--", "touch", "ran")
    equal(program.code, 75)
    contains(program.said(), "all 2 slots")
    began = now()
    equal(run("lock", "-w", "500ms", "--slots", "2", name, "--", "touch", "ran").code, 75)
    true(0.5 <= now() - began < 5, f"-w 500ms lasted {now() - began} s")
    waiter = hold("lock", "held-2", "--slots", "2", name)
    wait_until(lambda: "in line" in waiter.said() or status_of(name)["owner"], "it waits")
    freed = slot_in("held-0")
    holders[0].end()
    equal(slot_in("held-2"), freed)
    true(not os.path.exists("ran"), "it ran without a slot")
    waiter.end()
    holders[1].end()


@ONE.case
def another_number_is_refused_and_a_resize_changes_it_in_use(name):
    equal(run("semaphore", "resize", name, "2").code, 75)  # the store knows none
    holder = hold("lock", "held-0", "--slots", "1", name)
    slot_in("held-0")
    waiter = hold("lock", "held-1", "--slots", "1", name)
    wait_until(lambda: status_of(name)["owner"], "it is the first in line")
    for verb in ("lock", "lead"):
        program = run(verb, "--slots", "2", name, "--", "touch", "ran")
        equal(program.code, 78)
        contains(program.said(), f"'{name}' has 1 slot, not 2")
    program = run("semaphore", "resize", name, "2")
    equal((program.code, read(program.out)), (0, f"{name} has 2 slots now; it had 1\n"))
    equal(slot_in("held-1"), 1)
    equal(len(status_of(name)["slots"]), 2)
    equal(run("semaphore", "resize", name, "1").code, 0)
    waiter.end()  # its slot is no more
    equal(run("lock", "-w", "1s", "--slots", "1", name, "--", "touch", "ran").code, 75)
    true(not os.path.exists("ran"), "it ran without a slot")
    holder.end()
    equal(run("lock", "--slots", "1", name, "--", "true").code, 0)


@ONE.case
def a_daemon_runs_on_as_many_hosts_as_there_are_slots(name):
    hosts = [hold("lead", f"host-{number}", "--slots", "2", name) for number in range(3)]
    led = wait_until(lambda: [number for number in range(3) if lines(f"host-{number}")][1:] and
                     [number for number in range(3) if lines(f"host-{number}")], "two lead")
    equal((len(led), sorted(slot_in(f"host-{number}") for number in led)), (2, [0, 1]))
    rest, = {0, 1, 2} - set(led)
    slot = slot_in(f"host-{led[0]}")
    equal(hosts[led[0]].end(), 0)
    equal(slot_in(f"host-{rest}"), slot)
    for number in (led[1], rest):
        equal(hosts[number].end(), 0)
    true(not any(slot["owner"] for slot in status_of(name)["slots"]), "a slot is left")
    equal(run("lead", "--slots", "2", "--restart", "never", name, "--", "sh", "-c", "exit 3").code, 3)
    equal(run("lead", "--slots", "2", "--priority", "1", name, "--", "true").code, 64)


@ONE.case
def a_slot_that_is_taken_away_ends_the_command(name):
    leader = Simba("lead", "--slots", "1", name, "--", "sh", "-c", 'echo "$SIMBA_FENCE" >>fences; exec sleep 100')
    wait_until(lambda: lines("fences"), "it leads")
    equal(run("release", "--force", f"{name}#0").code, 0)
    wait_until(lambda: len(lines("fences")) == 2, "it leads again")
    first, second = map(int, lines("fences"))
    true(second > first, f"{second} after {first}")
    equal(leader.end(), 0)


@ONE.case
def a_set_is_held_as_a_whole_in_the_order_of_the_names(name):
    names = [f"{name}-{letter}" for letter in "cab"]
    write("look", 'echo "$SIMBA_FENCES" >fences\nexec sleep 100\n')
    holder = Simba(*LONG, "lock", "--all", *names, "--", "sh", "look")
    told = wait_until(lambda: lines("fences"), "it holds")[0].split()
    equal(sorted(one.split("=")[0] for one in told), sorted(names))
    true(all(int(one.split("=")[1]) > 0 for one in told), f"{told}")
    true(not any(is_free(one) for one in names), "one of them is free")
    began = now()
    program = run("lock", "--all", "-w", "700ms", f"{name}-d", f"{name}-b", "--", "touch", "ran")
    equal(program.code, 75)
    true(0.7 <= now() - began < 5, f"-w 700ms lasted {now() - began} s")
    true(is_free(f"{name}-d"), "a part is left")
    equal(run("lock", "--all", "-n", f"{name}-0", f"{name}-a", "--", "touch", "ran").code, 75)
    true(is_free(f"{name}-0"), "a part is left")
    holder.end()
    true(all(is_free(one) for one in names), "a part is left")
    true(not os.path.exists("ran"), "it ran without all")


@ONE.case
def a_set_keeps_what_it_has_while_it_waits_or_not(name):
    first, second = f"{name}-a", f"{name}-b"
    holder = hold("lock", "held", second)
    wait_until(lambda: lines("held"), "it holds")
    for options, kept in ((["--all"], True), (["--all", "--no-hold"], False)):
        waiter = Simba(*LONG, "lock", *options, first, second, "--", "true")
        wait_until(lambda: status_of(second)["waiters"] == 1, "it waits")
        wait_until(lambda kept=kept: bool(status_of(first)["owner"]) == kept, f"{options}: it keeps {kept}")
        if kept:
            waiter.end()
    holder.end()
    equal(waiter.wait(), 0)


@ONE.case
def a_set_that_loses_one_of_its_mutexes_ends_its_command(name):
    holder = Simba("lock", "--all", f"{name}-a", f"{name}-b", "--", "sh", "-c", "touch held; exec sleep 100")
    wait_until(lambda: os.path.exists("held"), "it holds")
    equal(run("release", "--force", f"{name}-b").code, 0)
    equal(holder.wait(), 70)
    true(is_free(f"{name}-a"), "a part is left")


@ONE.case
def without_the_option_the_second_word_begins_the_command(name):
    program = run("lock", name, "echo", "a", "--", "b")
    equal((program.code, read(program.out)), (0, "a -- b\n"))
    program = run("lock", "--all", name, "--", "echo", "a", "--", "b")
    equal((program.code, read(program.out)), (0, "a -- b\n"))
    for words, hinted in (([name, "b", "c", "--", "true"], True), ([name, "--", "not-found"], False),
                          (["--all", name, "--", "not-found", "--", "a"], False)):
        program = run("lock", *words)
        equal((words, program.code, "simba lock --all" in program.said()), (words, 127, hinted))
    for wrong in (["--all", name, "true"], ["--no-hold", name, "--", "true"],
                  ["--all", "--slots", "2", name, "--", "true"], ["--slots", "0", name, "--", "true"],
                  ["--slots", "257", name, "--", "true"]):
        equal((wrong, run("lock", *wrong).code), (wrong, 64))
    equal(run("lock", "--slots", "2", f"{name}#1", "--", "true").code, 78)


if __name__ == "__main__":
    sys.exit(ONE.main())
