"""One run after a plan: played, judged, and kept where it is worth a look."""
import collections
import dataclasses
import os
import shutil
import tempfile
import traceback
import typing

from checker import check_folder, count
from clock import now
from faults import NOBODY
from lease import draw_lease
from nemesis import draw, draw_each, possible, skipped
from stores import STORES
from timeline import draw as draw_timeline
from world import World


class Programs:
    """What is put to the test, in a build folder."""

    def __init__(self, folder):
        self.simba = os.path.join(folder, "simba")
        self.worker = os.path.join(folder, "tests/chaos/chaos-worker")
        self.child = os.path.join(folder, "tests/chaos/chaos-child")
        self.soak = os.path.join(folder, "tests/chaos/chaos-soak")
        self.wallclock = os.path.join(folder, "tests/chaos/libchaos-wallclock.so")


@dataclasses.dataclass
class Plan:
    store: str
    seed: int
    seconds: float
    faults: typing.Optional[list] = None  # the names of those that may strike; None: any
    each_once: bool = False               # each of them, however long it takes
    groups: bool = False                  # slots and sets as well

    def command(self):
        """What plays the same schedule again."""
        length = "EACH=1" if self.each_once else f"SECONDS={self.seconds:g}"
        faults = f" FAULTS={','.join(self.faults)}" if self.faults else ""
        groups = " GROUPS=1" if self.groups else ""
        return f"make chaos STORE={self.store} SEED={self.seed} {length}{faults}{groups}"


class Outcome:
    def __init__(self, plan):
        self.plan = plan
        self.schedule = []
        self.breaches = []
        self.counts = {}
        self.faults = collections.Counter()
        self.skipped = {}     # fault: why it cannot strike here
        self.trouble = None   # what went wrong with the harness
        self.seconds = 0.0
        self.kept = None

    def failed(self):
        return bool(self.breaches or self.trouble)


def play(plan, programs, folder, outcome):
    store = STORES[plan.store](os.path.join(folder, "store"), programs.wallclock)
    store.lease = draw_lease(plan.seed)
    world = World(folder, store, plan.seed, programs, plan.groups)
    try:
        world.start()
        faults = [fault for fault in possible(world)
                  if plan.faults is None or fault.name in plan.faults]
        outcome.skipped = skipped(world)
        outcome.schedule = (draw_each(plan.seed, faults) if plan.each_once
                            else draw(plan.seed, faults, plan.seconds))
        world.run(outcome.schedule)
        world.stop()
    except Exception:  # a harness that fails has shown nothing: that is a failure of the run
        outcome.trouble = traceback.format_exc()
    finally:
        world.close()


def judge(folder, outcome):
    """Returns the picture."""
    history, outcome.breaches = check_folder(folder)
    outcome.counts = count(history)
    outcome.faults = collections.Counter(event.words[0] for event in history.of("fault")
                                         if event.words[2] != NOBODY[0])
    return draw_timeline(history, outcome.breaches)


def keep(plan, folder, place, picture):
    """Journals and picture, for a person who wants to understand the run."""
    place = os.path.join(place, f"simba-chaos-{plan.store}-{plan.seed}")
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(folder, place, ignore=shutil.ignore_patterns("store", "vault"))
    with open(os.path.join(place, "timeline.svg"), "w", encoding="utf-8") as file:
        file.write(picture)
    return place


def run(plan, programs, place, keep_always=False):
    outcome = Outcome(plan)
    begin = now()
    folder = tempfile.mkdtemp(prefix="simba-chaos-")
    os.chmod(folder, 0o755)  # servers run as users of their own
    try:
        play(plan, programs, folder, outcome)
        picture = judge(folder, outcome)
        outcome.seconds = now() - begin
        if outcome.failed() or keep_always:
            outcome.kept = keep(plan, folder, place, picture)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return outcome
