#!/usr/bin/env python3
"""Three machines, each with a name, a home and a clock of its own, and one store.

    machines_test.py STORE SET_CLOCK     sqlite, redis, postgres, mariadb, zookeeper or etcd; the library of set_clock.c, or
                                         empty where nothing can be preloaded

A machine is a namespace of mounts and of the host name, made anew for each command: its folder is mounted on the home that all
of them have by name.
"""
import json
import os
import signal
import subprocess
import sys

import program
import stores
from program import Simba, Skipped, contains, equal, is_alive, lines, number, own_mounts, read, run, true, wait_until

ONE = stores.OneStore(sys.argv[1])
LONG = ["--ttl", "20s"]  # a lease that a busy machine cannot lose
NAMES = ["first", "second", "third"]
BECOME = 'mount --bind "$0" "$HOME" && hostname "$1" && shift && exec "$@"'
# Two that work at the same time would leave `overlap`.
WORK = """exec 9>>lock; flock -n 9 || echo overlap >>ran
hostname >>ran; echo $$ >pid.new; mv pid.new pid.$(hostname); exec sleep 1000"""


class Machine:
    def __init__(self, name):
        self.name = name
        self.folder = os.path.abspath("disk." + name)
        os.makedirs(self.folder)
        os.makedirs("home", exist_ok=True)
        self.env = {"HOME": os.path.abspath("home")}
        self.within = [*own_mounts(), "--uts", "sh", "-c", BECOME, self.folder, name]
        tried = subprocess.run([*self.within, "true"], env={**os.environ, **self.env}, check=False, capture_output=True)
        if tried.returncode != 0:
            raise Skipped("a machine cannot be made of namespaces here: " + tried.stderr.decode().strip())

    def start(self, *arguments, env=None):
        return Simba("--id", self.name, *arguments, within=self.within, env={**self.env, **(env or {})})


def machines():
    return [Machine(name) for name in NAMES]


def status(mutex):
    return json.loads(read(run("status", "--json", mutex).out))[0]


@ONE.case
def a_job_that_the_cron_of_each_machine_starts_runs_once(mutex):
    """Their clocks are minutes apart. On SQLite the clock of the first is the store's."""
    job = ["lock", "--once-per", "24h", mutex, "--", "sh", "-c", "hostname >>ran"]
    for machine, ahead_s in zip(machines(), (0, 420, -300)):
        clock = program.clock(sys.argv[2], ahead_s, machine.name + ".clock")
        started = machine.start(*LONG, *job, env=clock)
        equal(started.wait(), 0)
        if machine.name != "first":
            contains(started.said(), f"'{mutex}' was run by first~")
    equal(lines("ran"), ["first"])


@ONE.case
def a_daemon_moves_to_the_machine_that_is_named_and_on_when_that_one_dies(mutex):
    leads = {}
    for place, machine in enumerate(machines()):
        leads[machine.name] = machine.start("--ttl", "1s", "--transition", "5s", "lead", mutex, "--", "sh", "-c", WORK)
        if place == 0:
            number("pid.first")
        else:
            wait_until(lambda waits=place: status(mutex)["waiters"] == waits, f"{machine.name} waits")
    moved = run("handover", mutex, "--to", "third", "-w", "60s")
    equal((moved.code, moved.said() if moved.code else ""), (0, ""))
    contains(read(moved.out), f"{mutex} has passed from first~")
    contains(read(moved.out), " to third~")
    pid = number("pid.third")
    equal(lines("ran"), ["first", "third"])
    leads["third"].send(signal.SIGKILL)
    leads["third"].wait()
    wait_until(lambda: len(lines("ran")) == 3, "another machine goes on")
    true(lines("ran")[2] in ("first", "second") and not is_alive(pid), lines("ran"))
    for name in ("first", "second"):
        equal(leads[name].end(), 0)


@ONE.case
def a_forgotten_url_makes_every_machine_the_only_one(mutex):
    """Which each of them says; and a fleet can refuse it."""
    forgotten = {"SIMBA_URL": "", "SIMBA_CONFIG": ""}
    all_run = "echo >runs.$(hostname); while [ $(ls runs.* | wc -l) -lt 3 ]; do sleep 0.05; done"
    fleet = machines()
    started = [one.start("lead", "--restart", "never", mutex, "--", "sh", "-c", all_run, env=forgotten) for one in fleet]
    for one in started:
        equal(one.wait(), 0)
        contains(one.said(), "since none is named: it reaches this host only")
    for one in fleet:
        true(os.path.exists(one.folder + "/.local/state/simba/simba.db"), f"{one.name} has no store of its own")
        refused = one.start("lead", mutex, "--", "true", env={**forgotten, "SIMBA_REQUIRE_URL": "1"})
        equal(refused.wait(), 78)
        contains(refused.said(), "no store is named, and SIMBA_REQUIRE_URL refuses the default one")


if __name__ == "__main__":
    sys.exit(ONE.main())
