"""Faults of the processes under test: stopped, killed, starved, out of memory and descriptors, with a wrong clock."""
import os
import resource
import signal
import subprocess

from fault_table import BRIEF, LONG, NOBODY, NONE, SHORT, fault, freeze, kill
from process import DIE_WITH_PARENT

HOGS_PER_CORE = 3
MEMORY_TO_SPARE = 1 << 20
EQUAL = (3.0, 5.0)  # in leases: some renewals
WORKER_CLOCK_STEPS = (-3600, 3600, 86400)


fault("freeze-holder-briefly", "worker", BRIEF)(freeze("holder"))
fault("freeze-holder-past-lease", "worker", LONG)(freeze("holder"))
fault("freeze-waiter-past-lease", "worker", LONG)(freeze("waiter"))
fault("kill-holder", "worker", SHORT)(kill("holder"))
fault("kill-waiter", "worker", SHORT)(kill("waiter"))


@fault("stop-waiter", "worker", SHORT)
def stop_waiter(world, dice):
    """In good order, and another comes in its place."""
    victim = world.pick_settled_waiter(dice)
    if victim is None:
        return NOBODY
    victim.begin_end()

    def heal():
        victim.end()
        victim.start()
    return victim.name, heal


@fault("fork-in-worker", "worker", NONE)
def fork_in_worker(world, dice):
    victim = world.pick_settled(dice)
    if victim is None:
        return NOBODY
    os.kill(victim.pid, signal.SIGUSR1)
    return victim.name, None


def schedule_threads(victim, policy):
    for thread in os.listdir(f"/proc/{victim.pid}/task"):
        try:
            os.sched_setscheduler(int(thread), policy, os.sched_param(0))
        except ProcessLookupError:  # it was for a moment only
            pass


@fault("starve-of-cpu", "worker", LONG)
def starve_of_cpu(world, dice):
    """The victim runs when nobody else wants to, and others always want to."""
    victim = world.pick_settled(dice)
    if victim is None:
        return NOBODY
    schedule_threads(victim, os.SCHED_IDLE)
    hogs = [subprocess.Popen([*DIE_WITH_PARENT, "sh", "-c", "while :; do :; done"])
            for _ in range(HOGS_PER_CORE * os.cpu_count())]

    def heal():
        for hog in hogs:
            hog.kill()
            hog.wait()
        if victim.process.is_up():
            schedule_threads(victim, os.SCHED_OTHER)
    return victim.name, heal


def limit(victim, kind, most):
    """Returns what lifts the limit again."""
    before = resource.prlimit(victim.pid, kind)
    pid = victim.pid
    resource.prlimit(pid, kind, (min(most, before[1]), before[1]))

    def lift():
        try:
            resource.prlimit(pid, kind, before)
        except ProcessLookupError:
            pass
        victim.revive()
    return lift


@fault("no-descriptors", "worker", LONG)
def no_descriptors(world, dice):
    """What is open stays, until its connections are cut; then no new ones can be had."""
    victim = world.pick_settled(dice)
    if victim is None:
        return NOBODY
    heal = limit(victim, resource.RLIMIT_NOFILE, len(os.listdir(f"/proc/{victim.pid}/fd")))
    for proxy in victim.proxies:
        proxy.reset()
    return victim.name, heal


@fault("no-memory", "worker", LONG, excuses=("crash",))
def no_memory(world, dice):
    victim = world.pick_settled(dice)
    if victim is None:
        return NOBODY
    with open(f"/proc/{victim.pid}/statm", encoding="ascii") as file:
        size = int(file.read().split()[0]) * resource.getpagesize()
    return victim.name, limit(victim, resource.RLIMIT_AS, size + MEMORY_TO_SPARE)


@fault("step-worker-clock", "clock", LONG)
def step_worker_clock(world, dice):
    victim = dice.choice(world.library_workers)
    seconds = dice.choice(WORKER_CLOCK_STEPS)
    victim.clock.step(seconds)
    return victim.name, lambda: victim.clock.step(-seconds)


@fault("equal-ids", "equal", EQUAL)
def equal_ids(world, _dice):
    """Each of them may take the mutex of the other, and knows it at its next renewal; nobody else is concerned, and a
    fenced resource loses nothing."""
    for worker in world.equal_workers:
        worker.start()

    def heal():
        for worker in world.equal_workers:
            worker.begin_end()
        for worker in world.equal_workers:
            worker.end()
    return " ".join(worker.name for worker in world.equal_workers), heal
