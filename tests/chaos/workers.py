"""Workers of a run: processes on the library, and loops that run the program."""
import os
import random
import signal
import threading

from process import END_SECONDS, Process, inherited_block, send
from wallclock import WallClock

PROGRAM_WAIT = "1s"
LIBRARY_NAMES = ["w0", "w1", "w2"]
ALL_MEMBERS = "cls"              # a contender, a locker and a scheduler
MEMBERS = {"w2": "c"}            # a client with one contender needs no thread on some stores, and shares nothing
GROUP_MEMBERS = "nm"             # a slot and a set, where the run has groups
PROGRAM_NAMES = ["p0", "p1"]
COMMAND_MS = (50, 200, 400, 800, 2500)  # how long a command lives; the longest for longer than its lease


class LibraryWorker:
    """One process on the library, started anew under a new name after a kill."""

    def __init__(self, world, name):
        self.world = world
        self.name = name
        self.lives = 0
        self.process = None
        self.proxies = world.proxies_for(self.name)
        self.url = world.store.url([(proxy.address, proxy.port) for proxy in self.proxies], int(name[1]))
        self.prefix = world.prefix_for(name)
        self.clock = WallClock(os.path.join(world.folder, self.name + ".clock"))

    def start(self):
        self.lives += 1
        self.title = f"{self.name}-{self.lives}"
        path = os.path.join(self.world.folder, self.title)
        with inherited_block(signal.SIGTERM):
            self.process = Process(
                [*self.prefix, self.world.programs.worker, self.title, self.url, path + ".journal",
                 self.world.vault.path, *self.arguments()], path + ".log",
                environment={"HOME": self.world.home,
                             **self.clock.environment(self.world.programs.wallclock)})

    def arguments(self):
        return [MEMBERS.get(self.name, ALL_MEMBERS) + (GROUP_MEMBERS if self.world.has_groups else "")]

    def group_members(self):
        """As they sign what they write."""
        return [f"{self.title}/{letter}" for letter in GROUP_MEMBERS] if self.world.has_groups else []

    @property
    def pid(self):
        return self.process.pid

    def is_settled(self):
        """It has opened its client, and takes part."""
        try:
            with open(os.path.join(self.world.folder, self.title + ".journal"), encoding="utf-8") as file:
                return self.process.is_up() and any(line.endswith(" opened\n") for line in file)
        except FileNotFoundError:
            return False

    def has_failed_to_leave(self):
        """Whether a request has failed while it stopped, or the last stop of one of its contenders was given up."""
        with open(os.path.join(self.world.folder, self.title + ".journal"), encoding="utf-8") as file:
            words = [line.split() for line in file]
        errors = {one[1]: one[2] for one in words if len(one) > 2 and one[1] in ("ending", "ended")}
        last_stops = {one[3]: int(one[4]) for one in words if len(one) > 4 and one[1] == "stopped"}
        return errors.get("ending") != errors.get("ended") or any(last_stops.values())

    def is_holder(self, who):
        return who is not None and who.split("/")[0] == self.title

    def freeze(self):
        self.process.freeze()

    def go_on(self):
        self.process.go_on()

    def kill(self):
        self.world.note("killed", self.title)  # first: the kernel tells a waiter, which succeeds at once
        self.process.kill()

    def revive(self):
        """After a kill; or when it ended by itself, which is written down."""
        if self.process.is_up():
            return
        self.world.dead.add(self.pid)
        if self.process.handle.returncode not in (-9, 0):
            self.world.note("exit", self.title, self.process.handle.returncode)
            self.world.note("crashed", self.title)
        self.start()

    def begin_end(self):
        self.process.ask_to_end()

    def end(self):
        """Lets it stop in good order. A worker that hangs is a breach: it is killed, and its code tells."""
        code = self.process.end()
        self.world.note("exit", self.title, 999 if code is None else code)

    def abandon(self):
        if self.process is not None and self.process.is_up():
            self.process.kill()


class EqualWorker(LibraryWorker):
    """One of several with one id: what nobody should do. It comes and goes, and stands where another worker does."""

    def __init__(self, world, name, neighbour):
        super().__init__(world, name)
        self.prefix = world.prefix_for(neighbour)

    def arguments(self):
        return [ALL_MEMBERS, "equal"]

    def start(self):
        self.world.note("equal", f"{self.name}-{self.lives + 1}")
        super().start()


class ProgramWorker(threading.Thread):
    """Runs `simba lock` over and over, with a command that tells that it is alive."""

    def __init__(self, world, name):
        super().__init__(daemon=True)
        self.world = world
        self.name = name
        self.lives = 0
        self.title = None
        self.process = None
        self.proxies = world.proxies_for(self.name)
        self.url = world.store.url([(proxy.address, proxy.port) for proxy in self.proxies], int(name[1]))
        self.prefix = world.prefix_for(name)
        self.dice = random.Random(f"{world.seed} {self.name}")
        self.is_stopping = threading.Event()
        self.was_killed = False

    def run(self):
        while not self.is_stopping.is_set():
            self._run_once()
            self.is_stopping.wait(self.dice.uniform(0.0, 0.2))

    def _run_once(self):
        self.lives += 1
        self.title = f"{self.name}-{self.lives}"
        self.was_killed = False
        path = os.path.join(self.world.folder, self.title)
        self.process = Process(
            [*self.prefix, self.world.programs.simba, "-u", self.url, "lock", "-w", PROGRAM_WAIT, "lock", "--",
             self.world.programs.child, self.title, "lock", path + ".journal", self.world.vault.path,
             str(self.dice.choice(COMMAND_MS))], path + ".log", environment={"HOME": self.world.home})
        code = self.process.handle.wait()
        if not self.was_killed:
            self.world.note("exit", self.title, code)

    @property
    def pid(self):
        return self.process.pid

    def has_failed_to_leave(self):
        with open(os.path.join(self.world.folder, self.title + ".log"), encoding="utf-8") as file:
            return "cannot" in file.read()

    def is_holder(self, who):
        return who is not None and who.split("/")[0] == self.title

    def freeze(self):
        """The program alone: its command runs on, and must not outlive the lease."""
        send(self.pid, signal.SIGSTOP)

    def go_on(self):
        send(self.pid, signal.SIGCONT)

    def kill(self):
        self.was_killed = True
        self.world.dead.add(self.pid)
        self.world.note("killed", self.title)
        send(self.pid, signal.SIGKILL)

    def revive(self):
        pass  # the loop does

    def begin_end(self):
        self.is_stopping.set()

    def end(self):
        self.join(END_SECONDS)
        if self.is_alive():
            self.world.note("remains", self.title)

    def abandon(self):
        self.is_stopping.set()
        if self.process is not None and self.process.is_up():
            self.was_killed = True
            self.process.kill()
        if self.is_alive():
            self.join()

