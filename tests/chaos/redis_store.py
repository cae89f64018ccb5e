"""Redis: one server, and what the groups of redis_groups.py are made of."""
import os
import socket

from lease import SEMAPHORE
from server import Server, Store
import servers

SIZE = f"simba:{{{SEMAPHORE}}}:property"


class RedisError(Exception):
    pass


def ask(server, command):
    """Sends one inline command and returns its reply; lists become lists."""
    with server.connect() as connection:
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


class LanServer(Server):
    """The harness speaks to it by a socket in its folder, whatever is cut."""

    def stand_at(self, lan, place):
        """Where it stands, when not on the loopback."""
        if lan is not None:
            self.address = lan.address(place)
            self.prefix = lan.prefix(place)

    @property
    def local_socket(self):
        return os.path.join(self.folder, "socket")

    def connect(self):
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(5)
        connection.connect(self.local_socket)
        return connection


class RedisServer(LanServer, servers.Redis):
    """Writes everything to its log before it answers, so that a kill loses nothing."""

    def __init__(self, folder, wallclock=None, *options, secret=None):
        super().__init__(folder, wallclock)
        self.secret = secret
        self.options = ["--appendonly", "yes", "--appendfsync", "no",
                        "--repl-diskless-sync-delay", "0", "--repl-timeout", "5", "--protected-mode", "no",
                        "--unixsocket", self.local_socket, *options]

    def serves(self):
        try:
            return ask(self, "PING") == "PONG"
        except (OSError, RedisError):
            return False

    def ask(self, command):
        return ask(self, command)

    def command(self):
        return [*super().command(), *(["--user", *self.user_rule()] if self.secret else [])]

    def user_rule(self):
        return ["worker", "on", "resetpass", ">" + self.secret.word, "~*", "&*", "+@all"]

    def change_password(self):
        self.ask("ACL SETUSER " + " ".join(self.user_rule()))

    def cut_clients(self):
        self.ask("CLIENT KILL TYPE normal")

    def set_read_only(self, on):
        """As a replica, of a master that is not there."""
        self.ask("REPLICAOF 127.0.0.1 1" if on else "REPLICAOF NO ONE")

    def role(self):
        return self.describe_role()[0]

    def describe_role(self):
        """What ROLE tells; [None] where it does not answer."""
        try:
            return self.ask("ROLE")
        except (OSError, RedisError):
            return [None]


def keys_left(server):
    """Tokens and the size of a semaphore stay for good, and a reservation for a moment; owners and waiters must not."""
    def may_stay(key):
        return key == SIZE or key.endswith(":fence") or (key.endswith(":reserved") and server.ask(f"PTTL {key}") != -1)
    def describe(key):
        value = server.ask(f"GET {key}") if server.ask(f"TYPE {key}") == "string" else ""
        return f"{key} {value} for {server.ask(f'PTTL {key}')} ms at port {server.port}"
    return [describe(key) for key in server.ask("KEYS simba:*") if not may_stay(key)]


def waiters_of(server):
    return [waiter for key in server.ask("KEYS simba:*:contender") for waiter in server.ask(f"ZRANGE {key} 0 -1")]


class Redis(Store):
    name = "redis"
    keeps_tokens = True
    has_small_disk = True

    def __init__(self, folder, wallclock=None):
        super().__init__(folder)
        self.servers = [RedisServer(os.path.join(folder, "server"), wallclock, secret=self.secret)]

    missing = staticmethod(servers.Redis.missing)

    def form(self, places):
        return f"redis://worker@{places[0]}?{self.lease}&connect-timeout=1s&password-file={self.secret.path}"

    def left_behind(self):
        return keys_left(self.servers[0])

    def waiters(self):
        return waiters_of(self.servers[0])
