"""Stores that can be cut off from the program, and when a lease on them ends.

`cut` makes the store unreachable and returns when another contender could own at the earliest, on now(). Nobody
renews between the look at the lease and the cut. `heal` undoes it, `stop` ends the server.
"""
import os
import select
import socket
import subprocess
import threading
import time

from program import LEASE, Blocked, now, true
from stores import Etcd, Mariadb, Postgres, Redis, Zookeeper, free_port


class SqliteCut:
    """A transaction of somebody else that does not end."""

    @staticmethod
    def exists():
        return True

    def cut(self):
        self.blocked = Blocked()
        self.blocked.__enter__()
        return self.blocked.lease_end()

    def heal(self):
        self.blocked.__exit__()

    def stop(self):
        pass


class ServerCut:
    """A server that stands still."""

    make = None

    @classmethod
    def exists(cls):
        return cls.make.exists()

    def __init__(self):
        self.server = self.make()
        os.environ["SIMBA_URL"] = self.server.url

    def heal(self):
        self.server.go_on()

    def stop(self):
        self.server.stop()


class RedisCut(ServerCut):
    make = Redis

    def cut(self):
        asked = now()
        left = self.server.last_look("PTTL simba:{m}", pause_ms=LEASE * 1000)
        self.server.pause()
        true(left > 0, "nobody owns")
        return asked + left / 1000


class SqlCut(ServerCut):
    """The row is locked from the look on. Server and test have one wall clock, that of the lease."""

    def cut(self):
        self.shell = subprocess.Popen(self.shell_command(), stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, text=True, bufsize=1)
        self.shell.stdin.write("BEGIN; SELECT transition_at FROM simba_mutex WHERE mutex = 'm'"
                               " FOR UPDATE;\n")
        transition_at = int(self.shell.stdout.readline())
        self.server.pause()
        true(transition_at > 0, "nobody owns")
        return now() + transition_at / 1000 - time.time()

    def heal(self):
        super().heal()
        self.shell.communicate()  # the end of its input ends the transaction


class PostgresCut(SqlCut):
    make = Postgres

    def shell_command(self):
        return [Postgres.programs() + "/psql", "-qAt", "-h", "127.0.0.1", "-p", str(self.server.port),
                "-U", "simba", "simba"]


class MariadbCut(SqlCut):
    make = Mariadb

    def shell_command(self):
        return ["mariadb", "--no-defaults", "--unbuffered", "--skip-column-names", "--host=127.0.0.1",
                f"--port={self.server.port}", "--user=root", "simba"]


class Relay:
    """A way to a server that can be blocked, and that knows when the server last heard something."""

    def __init__(self, server_port, port=None):
        self.server_port = server_port
        self.port = port or free_port()
        self.listener = socket.create_server(("127.0.0.1", self.port))
        self.to_server = {}  # the other end of each connection, in both directions
        self.clients = set()
        self.heard = now()
        self.blocked = False
        self.lock = threading.Lock()
        self.ended = False
        self.thread = threading.Thread(target=self.work)
        self.thread.start()

    def work(self):
        while not self.ended:
            try:
                ready, _, _ = select.select([self.listener, *self.to_server], [], [], 0.05)
            except (OSError, ValueError):  # a test has closed one of them in this moment
                continue
            with self.lock:
                for end in ready if not self.blocked else []:
                    self.accept() if end is self.listener else self.pass_on(end)
            if self.blocked:
                time.sleep(0.005)  # what waits here stays where it is

    def accept(self):
        client = self.listener.accept()[0]
        server = socket.create_connection(("127.0.0.1", self.server_port))
        self.clients.add(client)
        self.to_server.update({client: server, server: client})

    def pass_on(self, end):
        if end not in self.to_server:  # its other end has closed
            return
        try:
            data = end.recv(65536)
            if end in self.clients:
                self.heard = now()
            if self.passes(data, end in self.clients):
                self.to_server[end].sendall(data)
        except OSError:
            data = b""
        if data == b"":
            self.close(end)

    def passes(self, _data, _to_server):
        """For those that lose something on the way."""
        return True

    def close(self, end):
        for one in (end, self.to_server[end]):
            del self.to_server[one]
            self.clients.discard(one)
            one.close()

    def reset(self):
        with self.lock:
            for end in list(self.clients):
                self.close(end)

    def block(self, blocked):
        with self.lock:
            self.blocked = blocked

    def stop(self):
        self.ended = True
        self.thread.join()
        self.reset()
        self.listener.close()


class RelayCut(ServerCut):
    """The server goes on, and ends what it has not heard of for the timeout."""

    def __init__(self):
        super().__init__()
        self.relay = Relay(self.server.port)
        os.environ["SIMBA_URL"] = self.server.url.replace(str(self.server.port), str(self.relay.port))

    def cut(self):
        self.relay.block(True)
        return self.relay.heard + self.make.SESSION

    def heal(self):
        self.relay.block(False)

    def stop(self):
        self.relay.stop()
        super().stop()


class ZookeeperCut(RelayCut):
    make = Zookeeper


class EtcdCut(RelayCut):
    make = Etcd


CUTS = {"sqlite": SqliteCut, "redis": RedisCut, "postgres": PostgresCut, "mariadb": MariadbCut,
        "zookeeper": ZookeeperCut, "etcd": EtcdCut}
