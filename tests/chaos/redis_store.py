"""Redis: one server, a master with a replica and sentinels, and a cluster."""
import os
import socket

from clock import wait_until
from server import LEASE, Server, Store
import servers

WAITING = LEASE + "&connect-timeout=1s&wait-replicas=1&wait-timeout=200ms"
SLOTS = ["0 5460", "5461 10922", "10923 16383"]


class RedisError(Exception):
    pass


def ask(port, command):
    """Sends one inline command and returns its reply; lists become lists."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(command.encode() + b"\r\n")
        with connection.makefile("rb") as reply:
            return read_reply(reply)


def read_reply(reply):
    line = reply.readline().decode().rstrip("\r\n")
    if not line:
        raise RedisError("the server closed the connection")
    kind, rest = line[0], line[1:]
    if kind == "-":
        raise RedisError(rest)
    if kind == ":":
        return int(rest)
    if kind == "$":
        return None if rest == "-1" else reply.read(int(rest) + 2)[:-2].decode()
    if kind == "*":
        return [read_reply(reply) for _ in range(int(rest))]
    return rest


class RedisServer(Server, servers.Redis):
    """Writes everything to its log before it answers, so that a kill loses nothing."""

    def __init__(self, folder, wallclock=None, *options):
        super().__init__(folder, wallclock)
        self.options = ["--appendonly", "yes", "--appendfsync", "no",
                        "--repl-diskless-sync-delay", "0", *options]

    def serves(self):
        try:
            return ask(self.port, "PING") == "PONG"
        except (OSError, RedisError):
            return False

    def ask(self, command):
        return ask(self.port, command)

    def cut_clients(self):
        self.ask("CLIENT KILL TYPE normal")

    def set_read_only(self, on):
        """As a replica, of a master that is not there."""
        self.ask("REPLICAOF 127.0.0.1 1" if on else "REPLICAOF NO ONE")

    def role(self):
        try:
            return self.ask("ROLE")[0]
        except (OSError, RedisError):
            return None


def keys_left(server):
    """Tokens stay for good; owners and waiters must not."""
    return [key for key in server.ask("KEYS simba:*") if not key.endswith(":fence")]


class Redis(Store):
    name = "redis"
    keeps_tokens = True

    def __init__(self, folder, wallclock=None):
        super().__init__(folder)
        self.servers = [RedisServer(os.path.join(folder, "server"), wallclock)]

    missing = staticmethod(servers.Redis.missing)

    def form(self, places):
        return f"redis://{places[0]}?{LEASE}&connect-timeout=1s"

    def left_behind(self):
        return keys_left(self.servers[0])


class Sentinel(Server):
    def __init__(self, folder, master_port):
        super().__init__(folder)
        self.master_port = master_port

    def create_files(self):
        self.write("sentinel.conf", f"bind 127.0.0.1\nport {self.port}\ndir {self.folder}\n"
                   f"sentinel monitor main 127.0.0.1 {self.master_port} 2\n"
                   "sentinel down-after-milliseconds main 700\n"
                   "sentinel failover-timeout main 2000\n")

    def command(self):
        return ["redis-server", os.path.join(self.folder, "sentinel.conf"), "--sentinel"]

    def knows_all(self):
        fields = ask(self.port, "SENTINEL MASTER main")
        told = dict(zip(fields[::2], fields[1::2]))
        return told["num-other-sentinels"] == "2" and told["num-slaves"] == "1"


class RedisSentinel(Store):
    """A lease counts when the replica has it, so that a fail-over loses none."""

    name = "redis-sentinel"
    keeps_tokens = True
    is_proxied = False
    heals_within = 40

    def __init__(self, folder, wallclock=None):
        super().__init__(folder)
        master = RedisServer(os.path.join(folder, "first"))
        replica = RedisServer(os.path.join(folder, "second"), None, "--replicaof", "127.0.0.1",
                              str(master.port))
        self.servers = [master, replica]
        self.sentinels = [Sentinel(os.path.join(folder, f"sentinel{i}"), master.port)
                          for i in range(3)]

    missing = staticmethod(servers.Redis.missing)

    def start(self):
        super().start()
        for sentinel in self.sentinels:
            sentinel.start()
        for sentinel in self.sentinels:
            wait_until(sentinel.knows_all, "the sentinels know all")

    def ports(self):
        return [sentinel.port for sentinel in self.sentinels]

    def form(self, places):
        return f"redis+sentinel://{','.join(places)}/main?{WAITING}"

    def leader(self):
        return next((server for server in self.servers if server.role() == "master"), None)

    def left_behind(self):
        return keys_left(wait_until(self.leader, "there is a master"))

    def stop(self):
        super().stop()
        for sentinel in self.sentinels:
            sentinel.kill()


class ClusterNode(RedisServer):
    def __init__(self, folder):
        self.bus = servers.free_port()
        super().__init__(folder, None, "--cluster-enabled", "yes", "--cluster-port", str(self.bus),
                         "--cluster-node-timeout", "1000", "--cluster-replica-validity-factor", "0")

    def knows(self, count):
        return (f"cluster_known_nodes:{count}" in self.ask("CLUSTER INFO")
                and "cluster_state:ok" in self.ask("CLUSTER INFO"))


class RedisCluster(Store):
    """Three masters with a replica each."""

    name = "redis-cluster"
    keeps_tokens = True
    is_proxied = False
    heals_within = 40

    def __init__(self, folder, wallclock=None):
        super().__init__(folder)
        self.servers = [ClusterNode(os.path.join(folder, f"node{i}")) for i in range(6)]

    missing = staticmethod(servers.Redis.missing)

    def start(self):
        super().start()
        first = self.servers[0]
        for master, slots in zip(self.servers, SLOTS):
            master.ask(f"CLUSTER ADDSLOTSRANGE {slots}")
        for node in self.servers[1:]:
            first.ask(f"CLUSTER MEET 127.0.0.1 {node.port} {node.bus}")
        for node in self.servers:
            wait_until(lambda one=node: one.knows(6), "the nodes know each other")
        for master, replica in zip(self.servers, self.servers[3:]):
            replica.ask("CLUSTER REPLICATE " + master.ask("CLUSTER MYID"))
        for replica in self.servers[3:]:
            wait_until(lambda one=replica: one.ask("ROLE")[3] == "connected", "a replica is in step")

    def form(self, places):
        return f"redis+cluster://{','.join(places[:3])}?{WAITING}"

    def masters(self):
        return [server for server in self.servers if server.role() == "master"]

    def leader(self):
        return next(iter(self.masters()), None)

    def left_behind(self):
        return [key for master in self.masters() for key in keys_left(master)]
