"""ZooKeeper: one server, and an ensemble of three."""
import os

from clock import wait_until
from proxy import Proxy
from server import Server, Store
import servers

FOLLOW_SECONDS = 1


class ZookeeperServer(Server, servers.Zookeeper):
    tick_ms = 500

    def __init__(self, folder, number=0):
        super().__init__(folder)
        self.number = number
        self.quorum_port = servers.free_port()
        self.election_port = servers.free_port()

    def create_files(self):
        super().create_files()
        os.makedirs(os.path.join(self.folder, "data"))
        if self.number:
            self.write("data/myid", f"{self.number}\n")


class Zookeeper(Store):
    name = "zookeeper"
    has_small_disk = True
    has_lease_clock = False
    heals_within = 40

    def __init__(self, folder, wallclock=None):
        super().__init__(folder)
        self.servers = [ZookeeperServer(os.path.join(folder, "server"))]

    missing = staticmethod(servers.Zookeeper.missing)

    def form(self, places):
        return f"zookeeper://{','.join(places)}?{self.lease}"

    def left_behind(self):
        """A server that follows another one learns of the last deletions a moment after the client, but before a
        session could end by itself."""
        try:
            wait_until(lambda: not self._participants(), "the server has followed", FOLLOW_SECONDS)
        except TimeoutError:
            pass
        return self._participants()

    def _participants(self):
        """Their nodes, as the server that answers lists the ephemeral ones."""
        serving = next(server for server in self.servers if server.serves())
        return [line.strip() for line in serving.say("dump").splitlines() if "-latch-" in line]


class ZookeeperEnsemble(Zookeeper):
    """Sessions have little more than two ticks, so that the leader hears of them as seldom as it may. A proxy stands
    where a server follows another one: `links` has them by (follower, leader)."""
    name = "zookeeper-ensemble"
    has_small_disk = False
    tick_ms = 1000

    def __init__(self, folder, wallclock=None):
        super().__init__(folder)
        self.servers = [ZookeeperServer(os.path.join(folder, f"server{i}"), i) for i in (1, 2, 3)]
        self.links = {(one, other): Proxy(other.quorum_port)
                      for one in self.servers for other in self.servers if one is not other}
        for server in self.servers:
            server.tick_ms = self.tick_ms
            server.more = "initLimit=20\nsyncLimit=4\n" + "".join(map(self._line(server), self.servers))

    def _line(self, server):
        """Of the configuration of that server, about another one or itself."""
        def line(other):
            port = other.quorum_port if other is server else self.links[server, other].port
            return f"server.{other.number}=127.0.0.1:{port}:{other.election_port}\n"
        return line

    def start(self):
        for server in self.servers:
            server.create_files()
            server.launch()
        for server in self.servers:
            server.await_service()

    def leader(self):
        return next((server for server in self.servers if "Mode: leader" in server.say("srvr")), None)

    def left_behind(self):
        wait_until(self.leader, "there is a leader")
        return super().left_behind()

    def stop(self):
        super().stop()
        for link in self.links.values():
            link.stop()
