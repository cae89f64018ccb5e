#!/usr/bin/env python3
"""A store that cannot be reached: the command dies before anybody else could own, measured.

    others could own  -  the command was seen dead     =  the margin, which must be positive

Both sides are taken so that they make the margin smaller: a death counts from when the test has noticed it, a
lease from the last renewal that the test knows of. The command ignores SIGTERM, so that it lives until it is
killed. Each store and verb is tried a few times, and UNREACHABLE_RUNS times where that is set; the
distribution is printed. UNREACHABLE_STORES names the stores, with spaces between; "all" is each that is here.
"""
import os
import random
import select
import signal
import subprocess
import sys
import time

from cuts import CUTS
from program import LEASE, PATIENCE, Simba, case, equal, main, now, number, true, wait_until

STORES = os.environ.get("UNREACHABLE_STORES", "sqlite redis").replace("all", " ".join(CUTS)).split()
RUNS = int(os.environ.get("UNREACHABLE_RUNS", "3"))
STUBBORN = "trap '' TERM; echo $$ >pid.new; mv pid.new pid; while :; do sleep 0.02; done"
VERBS = {"lock": ["lock", "m"], "lead": ["lead", "--stop-timeout", "0", "m"],
         "schedule": ["schedule", "--every", "1h", "--stop-timeout", "0", "m"]}


def take_precedence():
    """A busy machine must not make the test notice late. What it starts is scheduled as usual."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    except PermissionError:
        pass


def death(pidfd):
    """When the process was seen dead."""
    ready, _, _ = select.select([pidfd], [], [], PATIENCE)
    true(ready, "the command has not died")
    return now()


def margin(store, verb):
    """One run: cuts the store off at a random moment of the lease."""
    if os.path.exists("pid"):
        os.remove("pid")
    program = Simba(*VERBS[verb], "--", "bash", "-c", STUBBORN)
    pidfd = os.pidfd_open(number("pid"))
    time.sleep(random.uniform(0, LEASE))  # which moment it is does not matter, but that they differ
    lease_end = store.cut()
    died = death(pidfd)
    os.close(pidfd)
    store.heal()
    equal(program.wait() if verb == "lock" else program.end(), 70 if verb == "lock" else 0)
    return lease_end - died


def report(name, verb, margins):
    margins.sort()
    print(f"# {name} {verb}: {sum(m > 0 for m in margins)} of {len(margins)} positive;"
          f" min {margins[0] * 1000:.0f}, median {margins[len(margins) // 2] * 1000:.0f},"
          f" max {margins[-1] * 1000:.0f} ms of a lease of {LEASE * 1000:.0f} ms", flush=True)


def measure(name, verb):
    store = CUTS[name]()
    try:
        margins = [margin(store, verb) for _ in range(RUNS)]
    finally:
        store.stop()
    report(name, verb, margins)
    true(all(m > 0 for m in margins), f"margins: {margins}")


def add_cases(name):
    for verb in VERBS:
        def tried(verb=verb):
            measure(name, verb)
        tried.__name__ = f"the_command_of_{verb}_dies_before_the_lease_on_{name}_can_pass_on"
        case(tried)


for chosen in STORES:
    if CUTS[chosen].exists():
        add_cases(chosen)


@case
def the_measure_can_fail():
    """What the command has not started is not killed, and outlives the lease."""
    store = CUTS["sqlite"]()
    program = Simba("lock", "m", "--", "bash", "-c", "echo $$ >pid.new; mv pid.new pid; sleep 100")
    number("pid")
    stranger = subprocess.Popen(["sleep", "100"])
    pidfd = os.pidfd_open(stranger.pid)
    lease_end = store.cut()
    equal(program.wait(), 70)
    wait_until(lambda: now() > lease_end)
    stranger.kill()
    died = death(pidfd)
    os.close(pidfd)
    stranger.wait()
    store.heal()
    true(lease_end - died < 0, "the measure says that it died in time")


if __name__ == "__main__":
    take_precedence()
    sys.exit(main())
