"""One run: a store, workers, the fenced resource and a nemesis, from the first leader to the last trace.

    start ... first leaders ... faults ... all healed ... a leader again ... all stop ... nothing is left
"""
import os
import subprocess

from clock import PATIENCE, now, now_ns, wait_until
from lease import GROUP_MUTEXES, LEASE_SECONDS, MUTEXES, SEMAPHORE, SET_NAMES, SLOTS
from nemesis import Nemesis
from network import make_network
from process import children_of, reap
from proxy import Proxy
from vault import Vault
from workers import EqualWorker, LIBRARY_NAMES, LibraryWorker, PROGRAM_NAMES, ProgramWorker

FRESH_SECONDS = LEASE_SECONDS  # a worker that wrote within this time is taken for the holder
GONE_SECONDS = 10
PASS_OVER_WAIT = "10s"
HOLD_SECONDS = "0.5"


class World:
    def __init__(self, folder, store, seed, programs, has_groups=False):
        self.folder = folder
        self.has_groups = has_groups  # workers take slots and sets as well
        self.mutexes = MUTEXES + (GROUP_MUTEXES if has_groups else [])
        self.store = store
        self.seed = seed
        self.programs = programs
        self.networks = {}  # worker: its own network
        self.proxies = []
        self.workers = []
        self.library_workers = []
        self.equal_workers = []  # that have one id, while a fault wants it so
        self._journal = open(os.path.join(folder, "nemesis.journal"), "w", encoding="utf-8")
        self.vault = Vault(folder)
        self.home = os.path.join(folder, "home")  # of the workers
        os.makedirs(self.home)
        self.struck = set()  # names of faults
        self.dead = set()    # pids of workers that were killed, or crashed

    def note(self, *words):
        self._journal.write(" ".join(map(str, (now_ns(), *words))) + "\n")
        self._journal.flush()

    # ---- Whom a fault may strike ----

    def pick(self, whom, dice):
        """By what it does: "holder", "waiter", "server"."""
        return getattr(self, "pick_" + whom)(dice)

    def holder_of(self, mutex):
        """The worker that wrote last, if that was just now, or None."""
        at, who = self.vault.holder(mutex)
        if now() - at >= FRESH_SECONDS:
            return None
        return next((worker for worker in self.workers if worker.is_holder(who)), None)

    def holders(self):
        found = [self.holder_of(mutex) for mutex in MUTEXES]
        return [worker for worker in self.workers if worker in found]

    def pick_holder(self, dice):
        return self.holder_of(dice.choice(self.mutexes)) or dice.choice(self.workers)

    def pick_waiter(self, dice):
        holders = [self.vault.holder(mutex)[1] for mutex in MUTEXES]
        waiters = [worker for worker in self.workers
                   if not any(worker.is_holder(who) for who in holders)]
        return dice.choice(waiters or self.workers)

    def pick_settled(self, dice):
        """A worker on the library that takes part, or None."""
        settled = [worker for worker in self.library_workers if worker.is_settled()]
        return dice.choice(settled) if settled else None

    def pick_settled_waiter(self, dice):
        """The same, which does not hold a mutex."""
        holders = self.holders()
        settled = [worker for worker in self.library_workers if worker.is_settled() and worker not in holders]
        return dice.choice(settled) if settled else None

    def pick_server(self, dice):
        """One that leads, where servers do, or any."""
        leader = self.store.leader() if dice.random() < 0.6 else None
        return leader or dice.choice([server for server in self.store.servers if server.is_up()])

    # ---- Life ----

    def proxies_for(self, name):
        """Where a worker finds the store: on the loopback, or at the end of its cable."""
        address = self.networks[name].address if name in self.networks else "127.0.0.1"
        made = [Proxy(server.port, address) for server in self.store.entrances()] if self.store.is_proxied else []
        self.proxies += made
        return made

    def prefix_for(self, name):
        """What runs a command where that worker stands."""
        if self.store.lan is not None and name in self.store.lan.places:
            return self.store.lan.prefix(name)
        return self.networks[name].prefix() if name in self.networks else []

    def _lay_cable(self):
        """To the first worker; the others stay on the loopback."""
        network = make_network("w0", 0) if self.store.is_proxied else None
        if network is not None:
            self.networks["w0"] = network

    def start(self):
        self.store.start()
        self._lay_cable()
        self.library_workers = [LibraryWorker(self, name) for name in LIBRARY_NAMES]
        programs = [ProgramWorker(self, name) for name in PROGRAM_NAMES]
        self.workers = self.library_workers + programs
        self.equal_workers = [EqualWorker(self, f"e{name[1]}", name) for name in LIBRARY_NAMES[1:]]
        for worker in self.workers:
            worker.start()
        if self.store.loses_leases:
            self.note("excuse", "split")
        if self.has_groups:
            self.note("semaphore", SEMAPHORE, SLOTS)
            self.note("sets", *SET_NAMES)
        self.await_leaders(now())

    def run(self, schedule):
        Nemesis(self, schedule, self.seed).run()
        for worker in self.library_workers:
            worker.revive()
        healed = now() + LEASE_SECONDS
        self.await_leaders(healed)
        self._await_turns(healed)
        self.store.settle()

    def await_leaders(self, since):
        """The leader has its writes accepted. A lease after all has healed, it has been renewed or won since; how
        much longer that took is written down."""
        for mutex in MUTEXES:
            try:
                wait_until(lambda one=mutex: self.vault.holder(one)[0] > since, mutex,
                           since - now() + self.store.heals_within)
                self.note("led", mutex, f"{max(now() - since, 0):.3f}")
            except TimeoutError:
                self.note("unled", mutex, self.store.heals_within)

    def _await_turns(self, since):
        """Each member that takes slots or sets gets its turn: none waits for another in a circle."""
        for who in [who for worker in self.library_workers for who in worker.group_members()]:
            try:
                wait_until(lambda one=who: self.vault.last_turn_of(one) > since, who,
                           since - now() + self.store.heals_within)
                self.note("served", who)
            except TimeoutError:
                self.note("unserved", who, self.store.heals_within)

    def stop(self):
        """All stop in good order, and what is left is looked for. One that waits goes first: a release by the last
        owner may pass over the places of the dead, and forget them."""
        holders = self.holders()
        first = next((one for one in self.library_workers if one not in holders), self.library_workers[0])
        self._end([first])
        self._end([one for one in self.workers if one is not first])
        self._look_for_traces()
        self._look_for_processes()

    def _end(self, workers):
        for worker in workers:
            worker.begin_end()
        for worker in workers:
            worker.end()
        self._look_for_places([one for one in workers if one in self.library_workers])

    def _look_for_traces(self):
        """What a server carries out later than the release behind it ends with its lease, and so does what a worker held
        that was killed: others get the mutex then."""
        failed = any(worker.has_failed_to_leave() for worker in self.workers)
        left = self.store.left_behind()
        for trace in left:
            if not failed and not any(f":{pid}@" in trace for pid in self.dead):
                self.note("remains", trace)
        if left:
            self._pass_over()
            for trace in self.store.left_behind():
                self.note("remains", trace)

    def _look_for_places(self, workers):
        """A place may be left where the store did not serve the worker that left it. Those that come later pass over
        it."""
        left = self._places_of(workers)
        if any(worker.has_failed_to_leave() for worker, _ in left):
            self._pass_over()
            left = self._places_of(workers)
        for worker, waiter in left:
            self.note("remains", "the place of", worker.title, waiter)

    def _places_of(self, workers):
        return [(worker, waiter) for waiter in self.store.waiters() for worker in workers
                if f":{worker.pid}@" in waiter]

    def _pass_over(self):
        """Of two contenders for each mutex, the one that waits comes when the reservation for a place that is left is
        over."""
        command = [*self.prefix_for(PROGRAM_NAMES[0]), self.programs.simba, "-u", self.store.url(), "lock", "-w",
                   PASS_OVER_WAIT]
        contenders = [subprocess.Popen([*command, mutex, "--", "sleep", HOLD_SECONDS],
                                       env={**os.environ, "HOME": self.home}) for mutex in self.mutexes * 2]
        codes = [one.wait(PATIENCE) for one in contenders]
        if any(codes):
            self.note("remains", "a place that keeps others from a mutex:", *codes)

    def _look_for_processes(self):
        servers = {server.process.pid for server in self.all_servers()}
        strangers = []

        def are_gone():
            strangers[:] = [pid for pid in children_of(os.getpid())
                            if pid not in servers and not reap(pid)]
            return not strangers
        try:
            wait_until(are_gone, "no process is left", GONE_SECONDS)
        except TimeoutError:
            for pid in strangers:
                self.note("remains", "process", pid, command_of(pid))

    def all_servers(self):
        return self.store.servers + getattr(self.store, "sentinels", [])

    def close(self):
        """Ends whatever still runs; after a failure that can be everything."""
        for worker in self.workers + self.equal_workers:
            worker.abandon()
        for proxy in self.proxies:
            proxy.stop()
        for network in self.networks.values():
            network.remove()
        self.vault.stop()
        self.store.stop()
        self._journal.close()


def command_of(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().replace(b"\0", b"_").decode(errors="replace")
    except OSError:
        return "?"
