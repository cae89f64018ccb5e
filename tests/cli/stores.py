"""Private servers of all stores, for tests of the program.

Each store has a `url`, `pause` and `go_on` (it stands still meanwhile, as an unreachable one does), and `stop`.
Those with users have a `denied_url`, with credentials that the server refuses.
"""
import contextlib
import os
import shutil
import signal

import program
from program import read
import servers
from servers import free_port  # for who imports it from here

LEASE_OPTIONS = "ttl=400ms&transition=600ms&jitter=0ms..50ms"


class Store(servers.Server):
    """It serves when it has been made."""

    def __init__(self):
        super().__init__()
        self.start()

    @classmethod
    def exists(cls):
        return cls.missing() is None

    def signal_all(self, number):
        pid = self.process.pid
        for one in [pid, *map(int, read(f"/proc/{pid}/task/{pid}/children").split())]:
            with contextlib.suppress(ProcessLookupError):  # a process of the server may have ended
                os.kill(one, number)

    def pause(self):
        self.signal_all(signal.SIGSTOP)

    def go_on(self):
        self.signal_all(signal.SIGCONT)

    def stop(self):
        self.go_on()
        super().stop()


class Redis(Store, servers.Redis):
    def __init__(self):
        super().__init__()
        self.socket = self.connect()
        self.socket.settimeout(30)
        self.url = f"redis://127.0.0.1:{self.port}?{LEASE_OPTIONS}"
        self.denied_url = f"redis://nobody:wr0ng@127.0.0.1:{self.port}"

    def last_look(self, command, pause_ms):
        """The number that a command answers, which is the last one to be served for so long."""
        commands = ["MULTI", command, f"CLIENT PAUSE {pause_ms:.0f} ALL", "EXEC", ""]
        self.socket.sendall("\r\n".join(commands).encode())
        answer = ""
        while not answer.endswith("+OK\r\n") or "*2\r\n" not in answer:
            answer += self.socket.recv(4096).decode()
        return int(answer.partition("*2\r\n:")[2].split("\r\n")[0])

    def stop(self):
        self.socket.close()
        super().stop()


class Postgres(Store, servers.Postgres):
    def __init__(self):
        super().__init__()
        self.url = f"postgres://simba@127.0.0.1:{self.port}/simba?{LEASE_OPTIONS}"
        self.denied_url = f"postgres://nobody:wr0ng@127.0.0.1:{self.port}/simba"


class Mariadb(Store, servers.Mariadb):
    def __init__(self):
        super().__init__()
        self.url = f"mysql://root@127.0.0.1:{self.port}/simba?{LEASE_OPTIONS}"
        self.denied_url = f"mysql://root:wr0ng@127.0.0.1:{self.port}/simba"


class Zookeeper(Store, servers.Zookeeper):
    """Its lease is the session, of which 5/12 are what an owner believes: here as long as on the others."""

    SESSION = 2.4  # seconds: 12/5 of the lease, the library's default
    tick_ms = 400

    def __init__(self):
        super().__init__()
        self.url = f"zookeeper://127.0.0.1:{self.port}?{LEASE_OPTIONS}"
        self.denied_url = f"zookeeper://nobody:wr0ng@127.0.0.1:{self.port}/private?acl=creator"

    def owned_url(self):
        """Whose nodes are closed to all others. Digest accepts every password: rights are what refuses."""
        return self.denied_url.replace("nobody:wr0ng", "owner:r1ght")


class Etcd(Store, servers.Etcd):
    """It has a user, as the others have. The server makes at least this of a lease."""

    SESSION = 2.0

    def __init__(self):
        super().__init__()
        for words in ("user add root:r1ght", "user grant-role root root", "auth enable"):
            self.ctl(*words.split())
        self.url = f"etcd://root:r1ght@127.0.0.1:{self.port}/tests?{LEASE_OPTIONS}"
        self.denied_url = f"etcd://nobody:wr0ng@127.0.0.1:{self.port}/tests"


class Sqlite(Store):
    """A file; there is no server that could stand still."""

    def start(self):
        self.url = f"sqlite:{self.folder}/store.db?{LEASE_OPTIONS}"

    def stop(self):
        shutil.rmtree(self.folder, ignore_errors=True)


BY_NAME = {"sqlite": Sqlite, "redis": Redis, "postgres": Postgres, "mariadb": Mariadb, "zookeeper": Zookeeper,
           "etcd": Etcd}


class OneStore:
    """The one server of all cases of a test file, and a prefix of mutexes for each case. `kinds`: the classes of the stores,
    where the file has its own."""

    def __init__(self, name, kinds=None):
        self.name = name
        self.kind = (kinds or BY_NAME)[name]
        self.store = None
        self.cases = 0

    def case(self, function):
        """Registers a case. It gets its prefix if it takes a parameter."""
        def wrapped():
            os.environ["SIMBA_URL"] = self.store.url
            self.cases += 1
            if function.__code__.co_argcount == 0:
                function()
            else:
                function(f"case-{self.cases}-")
        wrapped.__name__ = f"{self.name}_{function.__name__}"
        return program.case(wrapped)

    def main(self):
        if not self.kind.exists():
            print(f"1..0 # SKIP there is no {self.name} here")
            return 77
        self.store = self.kind()
        try:
            return program.main()
        finally:
            self.store.stop()
