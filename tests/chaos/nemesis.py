"""Draws a schedule of faults from a seed, and carries it out. The same seed is the same schedule; who holds a
mutex at that moment, and so whom a fault strikes, is decided by the run."""
import dataclasses
import heapq
import itertools
import random
import time

from clock import now
from fault_table import LATER
from faults import FAULTS, NOBODY
from lease import LEASE_SECONDS

FIRST_SECONDS = 0.3
GAP_SECONDS = (0.1, 1.2)
RETRIES = 60         # of a healing that another fault holds up, one each second
REST_SECONDS = 0.05  # between two faults of one group
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


def draw(seed, faults, seconds):
    """A schedule of so many seconds."""
    dice = random.Random(f"schedule {seed}")
    table = {fault.name: fault for fault in faults}
    plan = _Planner(dice)
    while table and plan.at < seconds:
        fault = table[dice.choice(sorted(table))]
        plan.add(fault)
        if fault.once:
            del table[fault.name]
    return plan.schedule


def draw_each(seed, faults):
    """A schedule in which each of them strikes once."""
    dice = random.Random(f"schedule {seed}")
    plan = _Planner(dice)
    for fault in dice.sample(faults, len(faults)):
        plan.add(fault)
    return plan.schedule


class _Planner:
    def __init__(self, dice):
        self.dice = dice
        self.at = FIRST_SECONDS
        self.schedule = []
        self._busy = {}  # group: until when one of it strikes

    def add(self, fault):
        self.at = max(self.at, self._busy.get(fault.group, 0))
        length = self.dice.uniform(*fault.span) * LEASE_SECONDS
        self.schedule.append(Strike(self.at, fault.name, length))
        self._busy[fault.group] = self.at + length + REST_SECONDS
        self.at += self.dice.uniform(*GAP_SECONDS)


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
        fault = dataclasses.replace(fault, excuses=fault.excuses + self.world.store.excuses(fault.name))
        for what in fault.excuses:
            self.world.note("excuse", what)
        victim, heal = fault.strike(self.world, self.dice)
        if victim != NOBODY[0]:
            self.world.struck.add(strike.name)
        self.world.note("fault", strike.name, f"{strike.seconds:.3f}", victim.replace(" ", ","))
        at = strike.at + strike.seconds  # before the next one of its group
        self._at(at, lambda: self._heal(at, fault, heal, RETRIES))

    def _heal(self, at, fault, heal, retries):
        if heal is not None and heal() is LATER:
            if retries == 0:
                raise TimeoutError(f"{fault.name} cannot be healed")
            self._at(at + 1, lambda: self._heal(at + 1, fault, heal, retries - 1))
            return
        self.world.note("healed", fault.name)
        if fault.excuses:
            self._at(at + AFTERMATH_SECONDS, lambda: self._end_excuse(fault))

    def _end_excuse(self, fault):
        if "tokens" in fault.excuses and not self.world.store.keeps_tokens:
            self.world.vault.forget_tokens()
        for what in fault.excuses:
            self.world.note("unexcuse", what)
