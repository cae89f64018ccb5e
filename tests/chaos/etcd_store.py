"""etcd: one server, and a cluster of three.

The members and the workers of a cluster stand on a network of their own where that is allowed, so that any way between
two of them can be cut.
"""
import json
import os
import subprocess

from clock import wait_until
from fault_table import LATER
from lan import make_lan
from server import Server, Store
import servers
from workers import LIBRARY_NAMES, PROGRAM_NAMES

PREFIX = "chaos/"
QUOTA_BYTES = 24 << 20  # a run needs a small part of it
FILL_BYTES = 1 << 20    # what etcd takes in one value
REVIVAL_SECONDS = 5
GONE_SECONDS = 8        # keys of the dead go with their leases: at the latest 3 s after a leader was elected


class EtcdServer(Server, servers.Etcd):
    more = ("--quota-backend-bytes", str(QUOTA_BYTES))

    def stand_at(self, lan, place):
        if lan is not None:
            self.address = lan.address(place)
            self.prefix = lan.prefix(place)

    def prepare(self, *command, **more):
        return super().prepare(*self.prefix, *command, **more)

    def answers(self, *arguments):
        """What etcdctl says, or None where that is an error."""
        try:
            return self.ctl("--command-timeout=2s", *arguments)
        except subprocess.SubprocessError:
            return None

    def serves(self):
        """By itself: others may be cut off."""
        return self.answers("get", "none", "--consistency=s") is not None

    def has_leader(self):
        return self.answers("get", "none") is not None

    def status(self):
        """None where it does not answer."""
        told = self.answers("endpoint", "status", "-w", "json") if self.is_up() else None
        return json.loads(told)[0]["Status"] if told else None

    def compact(self):
        """All that has been replaced, also what a watch would like to know."""
        status = self.status()
        if status is not None:
            self.answers("compaction", str(status["header"]["revision"]))

    def fill(self):
        """Until the alarm is on, and it takes no writes."""
        for index in range(2 * QUOTA_BYTES // FILL_BYTES):
            try:
                self.prepare("sh", "-c", f"head -c {FILL_BYTES} /dev/zero | tr '\\0' x | etcdctl --endpoints={self.endpoint()}"
                             f" --command-timeout=2s put filler/{index}")
            except subprocess.SubprocessError:
                return

    def revive(self):
        """A member without a majority does not serve."""
        if not self.is_up():
            self.launch()
        try:
            wait_until(self.serves, "it serves", REVIVAL_SECONDS)
            return None
        except TimeoutError:
            return LATER


class Etcd(Store):
    """The wall clocks of its servers cannot be set: they ask the kernel without the library that could be replaced."""
    name = "etcd"
    has_lease_clock = False
    heals_within = 40

    def __init__(self, folder, wallclock=None):
        super().__init__(folder)
        self.servers = [EtcdServer(os.path.join(folder, "server"))]

    missing = staticmethod(servers.Etcd.missing)

    def form(self, places):
        return f"etcd://{','.join(places)}/{PREFIX}?{self.lease}&connect-timeout=1s"

    def serving(self):
        return next(server for server in self.servers if server.has_leader())

    def make_room(self):
        """As an operator does. A member that is cut off would raise the alarm again when it has applied what it missed."""
        asked = self.servers[0]
        if not all(server.has_leader() for server in self.servers):
            return LATER
        asked.answers("del", "--prefix", "filler/")
        asked.compact()
        if any(server.answers("--command-timeout=10s", "defrag") is None for server in self.servers):
            return LATER
        asked.answers("alarm", "disarm")
        return LATER if asked.answers("put", "filler/room", "x") is None else None

    def values(self):
        """{key: value} of all contenders. What is remembered of mutexes stays."""
        words = self.serving().ctl("get", "--prefix", PREFIX).split("\n")
        found = dict(zip(words[::2], words[1::2]))
        return {key: value for key, value in found.items() if key and not key.startswith(PREFIX + ".simba/")}

    def left_behind(self):
        try:
            wait_until(lambda: not self.values(), "the leases of the dead have ended", GONE_SECONDS)
        except TimeoutError:
            pass
        return [f"{key} {value}" for key, value in self.values().items()]

    def waiters(self):
        return list(self.values().values())


class EtcdCluster(Etcd):
    name = "etcd-cluster"
    is_proxied = False

    def excuses(self, fault):
        """A leader that stood still may revoke leases that its successor has renewed: until 3.4.31 and 3.5.13."""
        return ("overlap",) if fault.startswith("freeze-server") and self.revokes_late() else ()

    def revokes_late(self):
        words = next(status["version"] for status in (server.status() for server in self.servers) if status)
        version = tuple(int(word) for word in words.split("."))
        return version < (3, 4, 31) or (3, 5) <= version[:2] and version < (3, 5, 13)

    def __init__(self, folder, wallclock=None):
        super().__init__(folder)
        self.servers = [EtcdServer(os.path.join(folder, f"server{i}")) for i in range(3)]
        self.lay_lan({f"e{i}": server for i, server in enumerate(self.servers)})

    def lay_lan(self, members):
        """`members`: {place: server}."""
        self.lan = make_lan([*members, *LIBRARY_NAMES, *PROGRAM_NAMES])
        self.members = members
        for place, server in members.items():
            server.cluster = self.servers
            server.stand_at(self.lan, place)

    def start(self):
        for server in self.servers:
            server.launch()
        for server in self.servers:
            wait_until(server.has_leader, "the members have a leader")

    def url(self, places=None, first=0):
        """Clients that are sent to all begin with different ones."""
        entrances = [(server.address, server.port) for server in self.entrances()]
        return super().url(entrances[first:] + entrances[:first])

    def place_of(self, server):
        return next(place for place, one in self.members.items() if one is server)

    def leader(self):
        """Of the newest term that a member tells."""
        found = [(status["header"]["raft_term"], status.get("leader"), status["header"]["member_id"], server)
                 for server in self.servers for status in [server.status()] if status is not None]
        return next((server for term, leader, member, server in found
                     if leader == member and term == max(one[0] for one in found)), None)

    def master_of(self, _mutex):
        return self.leader() or self.servers[0]

    def is_settled(self):
        return self.leader() is not None

    def settle(self):
        """A member that was cut off comes back with a later term, which makes the others elect again."""
        def agree():
            told = [server.status() for server in self.servers]
            return None not in told and len({(one["header"]["raft_term"], one.get("leader", 0)) for one in told}) == 1
        wait_until(agree, "all members follow one leader")

    def move_leader(self, dice):
        """Whom it struck, or None."""
        leader = self.leader()
        others = [server for server in self.servers if server is not leader]
        status = dice.choice(others).status()
        if leader is None or status is None:
            return None
        return leader if leader.answers("move-leader", f"{status['header']['member_id']:x}") is not None else None
