"""Draws a schedule of faults from a seed, and carries it out. The same seed is the same schedule; who holds a
mutex at that moment, and so whom a fault strikes, is decided by the run."""
import dataclasses
import heapq
import itertools
import random
import time

from clock import now
from faults import FAULTS
from server import LEASE_SECONDS

FIRST_SECONDS = 0.3
GAP_SECONDS = (0.1, 1.2)
AFTERMATH_SECONDS = 1.3 * LEASE_SECONDS  # until what a healed fault excuses has come to its end


@dataclasses.dataclass
class Strike:
    at: float
    name: str
    seconds: float


def possible(world):
    return [fault for fault in FAULTS.values() if fault.missing(world) is None]


def skipped(world):
    """What cannot strike here for want of a right or a program, with the reason."""
    return {fault.name: fault.missing(world) for fault in FAULTS.values()
            if fault.missing(world) is not None}


def draw(seed, faults, seconds, names=None):
    """A schedule. With names these strike, each once, in a drawn order; otherwise any, until the time is over."""
    dice = random.Random(f"schedule {seed}")
    table = {fault.name: fault for fault in faults}
    order = list(names) if names else []
    dice.shuffle(order)
    schedule, at, busy, struck = [], FIRST_SECONDS, {}, set()
    while order or (not names and at < seconds):
        name = order.pop() if order else dice.choice(sorted(table.keys() - struck))
        fault = table[name]
        if fault.once:
            struck.add(name)
        at = max(at, busy.get(fault.group, 0))
        if not names and at >= seconds:
            break
        length = dice.uniform(*fault.span) * LEASE_SECONDS
        schedule.append(Strike(at, name, length))
        busy[fault.group] = at + length + 0.05
        at += dice.uniform(*GAP_SECONDS)
    return schedule


class Nemesis:
    def __init__(self, world, schedule, seed):
        self.world = world
        self.dice = random.Random(f"victims {seed}")
        self.begin = 0.0
        self._actions = []
        self._order = itertools.count()
        for strike in schedule:
            self._at(strike.at, lambda one=strike: self._strike(one))

    def _at(self, seconds, action):
        heapq.heappush(self._actions, (seconds, next(self._order), action))

    def run(self):
        self.begin = now()
        while self._actions:
            at, _, action = heapq.heappop(self._actions)
            self.begin = max(self.begin, now() - at)  # what was held up holds up all that follows
            time.sleep(max(0, self.begin + at - now()))
            action()

    def _strike(self, strike):
        fault = FAULTS[strike.name]
        for what in fault.excuses:
            self.world.note("excuse", what)
        victim, heal = fault.strike(self.world, self.dice)
        self.world.note("fault", strike.name, f"{strike.seconds:.3f}", victim.replace(" ", ","))
        at = strike.at + strike.seconds  # before the next one of its group
        self._at(at, lambda: self._heal(at, fault, heal))

    def _heal(self, at, fault, heal):
        if heal is not None:
            heal()
        self.world.note("healed", fault.name)
        if fault.excuses:
            self._at(at + AFTERMATH_SECONDS, lambda: self._end_excuse(fault))

    def _end_excuse(self, fault):
        if "tokens" in fault.excuses and not self.world.store.keeps_tokens:
            self.world.vault.forget_tokens()
        for what in fault.excuses:
            self.world.note("unexcuse", what)
