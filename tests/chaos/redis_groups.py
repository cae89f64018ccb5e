"""Redis servers that tell clients where the others are: a master with a replica and sentinels, and a cluster.

Both stand on a network of their own where that is allowed, so that any way between servers, sentinels and workers
can be cut. Each comes twice: a lease counts when a replica has it, so that a fail-over loses none; or (async) it
counts at once, and what a fail-over loses is bounded.
"""
import os

from clock import wait_until
from lan import make_lan
from redis_store import LanServer, RedisError, RedisServer, ask, keys_left, waiters_of
from server import Store
import servers
from workers import LIBRARY_NAMES, PROGRAM_NAMES

WORKERS = LIBRARY_NAMES + PROGRAM_NAMES
WAITING = "&wait-replicas=1&wait-timeout=200ms"
SLOTS = ["0 5460", "5461 10922", "10923 16383"]


class RedisGroup(Store):
    keeps_tokens = True
    is_proxied = False
    heals_within = 40
    waiting = WAITING

    missing = staticmethod(servers.Redis.missing)

    def lay_lan(self, members):
        """`members`: {place: server}."""
        self.lan = make_lan([*members, *WORKERS])
        self.members = members
        for place, server in members.items():
            server.stand_at(self.lan, place)

    def parameters(self):
        return f"{self.lease}&connect-timeout=1s{self.waiting}"

    def url(self, places=None, first=0):
        """Clients that are sent to all begin with different ones."""
        entrances = [(server.address, server.port) for server in self.entrances()]
        return super().url(entrances[first:] + entrances[:first])

    def is_settled(self):
        """Every server has its part: replicas follow their masters, and could take over."""
        roles = [server.describe_role() for server in self.servers]
        followers = [role for role in roles if role[0] == "slave" and role[3] == "connected"]
        return len(followers) * 2 == len(roles) and sum(role[0] == "master" for role in roles) * 2 == len(roles)

    def place_of(self, server):
        return next(place for place, one in self.members.items() if one is server)


# ---- Sentinels -----------------------------------------------------------------------------------

class Sentinel(LanServer):
    def __init__(self, folder, master):
        super().__init__(folder)
        self.master = master

    def create_files(self):
        self.write("sentinel.conf", f"bind {self.address}\nport {self.port}\ndir {self.folder}\n"
                   f"unixsocket {self.local_socket}\nprotected-mode no\n"
                   f"sentinel monitor main {self.master.address} {self.master.port} 2\n"
                   "sentinel down-after-milliseconds main 700\n"
                   "sentinel failover-timeout main 2000\n")

    def command(self):
        return ["redis-server", os.path.join(self.folder, "sentinel.conf"), "--sentinel"]

    def knows_all(self):
        fields = ask(self, "SENTINEL MASTER main")
        told = dict(zip(fields[::2], fields[1::2]))
        return told["num-other-sentinels"] == "2" and told["num-slaves"] == "1"

    def names(self):
        """The address of the master."""
        try:
            address, port = ask(self, "SENTINEL GET-MASTER-ADDR-BY-NAME main")
            return address, int(port)
        except (OSError, RedisError):
            return None


class RedisSentinel(RedisGroup):
    name = "redis-sentinel"

    def __init__(self, folder, wallclock=None):
        super().__init__(folder)
        self.servers = [RedisServer(os.path.join(folder, name), wallclock) for name in ("first", "second")]
        self.sentinels = [Sentinel(os.path.join(folder, f"sentinel{i}"), self.servers[0]) for i in range(3)]
        self.lay_lan({"r0": self.servers[0], "r1": self.servers[1],
                      **{f"s{i}": sentinel for i, sentinel in enumerate(self.sentinels)}})

    def start(self):
        master, replica = self.servers
        replica.options += ["--replicaof", master.address, str(master.port)]
        super().start()
        for sentinel in self.sentinels:
            sentinel.start()
        for sentinel in self.sentinels:
            wait_until(sentinel.knows_all, "the sentinels know all")

    def entrances(self):
        return self.sentinels

    def form(self, places):
        return f"redis+sentinel://{','.join(places)}/main?{self.parameters()}"

    def leader(self):
        """The one that most sentinels name, when it is a master."""
        named = [sentinel.names() for sentinel in self.sentinels]
        return next((server for server in self.servers
                     if named.count((server.address, server.port)) > 1 and server.role() == "master"), None)

    def master_of(self, _mutex):
        return self.leader() or self.servers[0]

    def left_behind(self):
        return keys_left(wait_until(self.leader, "there is a master"))

    def waiters(self):
        return waiters_of(wait_until(self.leader, "there is a master"))

    def stop(self):
        for sentinel in self.sentinels:
            sentinel.kill()
        super().stop()


class RedisSentinelAsync(RedisSentinel):
    name = "redis-sentinel-async"
    waiting = ""
    loses_leases = True


# ---- Cluster -------------------------------------------------------------------------------------

class ClusterNode(RedisServer):
    def __init__(self, folder, wallclock):
        self.bus = servers.free_port()
        super().__init__(folder, wallclock, "--cluster-enabled", "yes", "--cluster-port", str(self.bus),
                         "--cluster-node-timeout", "1000", "--cluster-replica-validity-factor", "0")

    def knows(self, count):
        return (f"cluster_known_nodes:{count}" in self.ask("CLUSTER INFO")
                and "cluster_state:ok" in self.ask("CLUSTER INFO"))


class RedisCluster(RedisGroup):
    """Three masters with a replica each."""

    name = "redis-cluster"

    def __init__(self, folder, wallclock=None):
        super().__init__(folder)
        self.servers = [ClusterNode(os.path.join(folder, f"node{i}"), wallclock) for i in range(6)]
        self.lay_lan({f"r{i}": server for i, server in enumerate(self.servers)})

    def start(self):
        super().start()
        first = self.servers[0]
        for master, slots in zip(self.servers, SLOTS):
            master.ask(f"CLUSTER ADDSLOTSRANGE {slots}")
        for node in self.servers[1:]:
            first.ask(f"CLUSTER MEET {node.address} {node.port} {node.bus}")
        for node in self.servers:
            wait_until(lambda one=node: one.knows(6), "the nodes know each other")
        for master, replica in zip(self.servers, self.servers[3:]):
            replica.ask("CLUSTER REPLICATE " + master.ask("CLUSTER MYID"))
        for replica in self.servers[3:]:
            wait_until(lambda one=replica: one.ask("ROLE")[3] == "connected", "a replica is in step")

    def form(self, places):
        return f"redis+cluster://{','.join(places)}?{self.parameters()}"

    def entrances(self):
        return self.servers[:3]

    def masters(self):
        return [server for server in self.servers if server.role() == "master"]

    def master_of(self, mutex):
        """By the map of a node that serves."""
        node = next(server for server in self.servers if server.role() == "master")
        slot = node.ask(f"CLUSTER KEYSLOT simba:{{{mutex}}}")
        place = next(master for begin, end, master, *_ in node.ask("CLUSTER SLOTS") if begin <= slot <= end)
        return next(server for server in self.servers if server.port == place[1])

    def leader(self):
        return next(iter(self.masters()), None)

    def left_behind(self):
        return [key for master in self.masters() for key in keys_left(master)]

    def waiters(self):
        return [waiter for master in self.masters() for waiter in waiters_of(master)]


class RedisClusterAsync(RedisCluster):
    name = "redis-cluster-async"
    waiting = ""
    loses_leases = True
