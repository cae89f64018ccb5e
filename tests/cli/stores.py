"""Private servers of all stores, for tests of the program: each on a free port, in a folder of its own.

Each store has a `url`, `pause` and `go_on` (it stands still meanwhile, as an unreachable one does), and `stop`.
Those with users have a `denied_url`, with credentials that the server refuses.
"""
import glob
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import tempfile

from program import read, wait_until

LEASE_OPTIONS = "ttl=400ms&transition=600ms&jitter=0ms..50ms"


def free_port():
    """Below the ports that the kernel gives to outgoing connections."""
    while True:
        port = random.randrange(15000, 32000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass


class Store:
    """What the servers share. `user` is who runs it when the tests are run by root."""

    user = None

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="simba-store-")
        self.port = free_port()
        self.process = None
        if self.user is not None and os.geteuid() == 0:
            shutil.chown(self.folder, self.user, pwd.getpwnam(self.user).pw_gid)

    def as_user(self):
        if self.user is None or os.geteuid() != 0:
            return {}
        return {"user": self.user, "group": pwd.getpwnam(self.user).pw_gid, "extra_groups": []}

    def start(self, *command):
        with open(self.folder + "/log", "wb") as log:
            self.process = subprocess.Popen(command, cwd=self.folder, stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, **self.as_user())

    def prepare(self, *command):
        subprocess.run(command, cwd=self.folder, check=True, stdin=subprocess.DEVNULL,
                       capture_output=True, **self.as_user())

    def listens(self):
        if self.process.poll() is not None:
            raise AssertionError("the server ended: " + read(self.folder + "/log"))
        try:
            return socket.create_connection(("127.0.0.1", self.port), timeout=30)
        except OSError:
            return None

    def await_server(self):
        wait_until(self.listens, "the server listens", patience=60).close()

    def processes(self):
        pid = self.process.pid
        return [pid, *map(int, read(f"/proc/{pid}/task/{pid}/children").split())]

    def signal_all(self, number):
        for pid in self.processes():
            os.kill(pid, number)

    def pause(self):
        self.signal_all(signal.SIGSTOP)

    def go_on(self):
        self.signal_all(signal.SIGCONT)

    def stop(self):
        self.go_on()
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class Redis(Store):
    @staticmethod
    def exists():
        return shutil.which("redis-server") is not None

    def __init__(self):
        super().__init__()
        self.start("redis-server", "--bind", "127.0.0.1", "--port", str(self.port), "--save", "",
                   "--appendonly", "no")
        self.socket = wait_until(self.listens, "redis-server listens")
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


class Postgres(Store):
    user = "postgres"

    @staticmethod
    def programs():
        found = sorted(glob.glob("/usr/lib/postgresql/*/bin"))
        return found[-1] if found else None

    @staticmethod
    def exists():
        return Postgres.programs() is not None

    def __init__(self):
        super().__init__()
        self.prepare(self.programs() + "/initdb", "-D", "data", "-U", "simba", "-A", "trust", "-N",
                     "-E", "UTF8", "--locale=C.UTF-8")
        self.start(self.programs() + "/postgres", "-D", "data", "-p", str(self.port),
                   "-c", "listen_addresses=127.0.0.1",
                   "-c", "unix_socket_directories=" + self.folder, "-c", "fsync=off")
        self.await_server()
        create = [self.programs() + "/createdb", "-h", "127.0.0.1", "-p", str(self.port),
                  "-U", "simba", "simba"]
        wait_until(lambda: subprocess.run(create, check=False, capture_output=True).returncode == 0,
                   "the database can be created")
        self.url = f"postgres://simba@127.0.0.1:{self.port}/simba?{LEASE_OPTIONS}"
        self.denied_url = f"postgres://nobody:wr0ng@127.0.0.1:{self.port}/simba"


class Mariadb(Store):
    user = "mysql"

    @staticmethod
    def exists():
        return os.path.exists("/usr/sbin/mariadbd") and shutil.which("mariadb-install-db") is not None

    def __init__(self):
        super().__init__()
        where = ["--no-defaults", f"--datadir={self.folder}/data", f"--tmpdir={self.folder}"]
        self.prepare("mariadb-install-db", *where, "--auth-root-authentication-method=normal",
                     "--skip-test-db", "--skip-name-resolve", "--innodb-flush-method=nosync",
                     "--innodb-log-file-size=8M")
        with open(self.folder + "/init.sql", "w", encoding="utf-8") as file:
            file.write("CREATE DATABASE IF NOT EXISTS simba;\n")
        self.start("/usr/sbin/mariadbd", *where, f"--port={self.port}",
                   f"--socket={self.folder}/sock", f"--pid-file={self.folder}/pid",
                   f"--init-file={self.folder}/init.sql", "--bind-address=127.0.0.1",
                   "--skip-name-resolve", "--innodb-log-file-size=8M",
                   "--innodb-buffer-pool-size=32M", "--innodb-flush-method=nosync")
        self.await_server()
        self.url = f"mysql://root@127.0.0.1:{self.port}/simba?{LEASE_OPTIONS}"
        self.denied_url = f"mysql://root:wr0ng@127.0.0.1:{self.port}/simba"


class Zookeeper(Store):
    """Its lease is the session, of which 5/12 are what an owner believes: here as long as on the others."""

    JAR = "/usr/share/java/zookeeper.jar"
    SESSION = 2.4  # seconds: 12/5 of the lease, the library's default
    TICK_MS = 400

    @staticmethod
    def exists():
        return shutil.which("java") is not None and os.path.exists(Zookeeper.JAR)

    def __init__(self):
        super().__init__()
        with open(self.folder + "/zoo.cfg", "w", encoding="utf-8") as file:
            file.write(f"tickTime={self.TICK_MS}\ndataDir={self.folder}/data\n"
                       f"clientPort={self.port}\nclientPortAddress=127.0.0.1\n"
                       "maxClientCnxns=0\nadmin.enableServer=false\n4lw.commands.whitelist=*\n")
        self.start("java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
                   "-Dzookeeper.forceSync=no", "-cp", self.JAR + ":/usr/share/java/slf4j-nop.jar",
                   "org.apache.zookeeper.server.quorum.QuorumPeerMain", "zoo.cfg")
        wait_until(self.serves, "ZooKeeper serves", patience=60)
        self.url = self.url_at(self.port)
        self.denied_url = f"zookeeper://nobody:wr0ng@127.0.0.1:{self.port}/private?acl=creator"

    @staticmethod
    def url_at(port):
        return f"zookeeper://127.0.0.1:{port}?{LEASE_OPTIONS}"

    def serves(self):
        """It listens before it takes sessions; a mode is told only by one that serves."""
        connection = self.listens()
        if connection is None:
            return False
        with connection:
            connection.settimeout(1)  # who asks too early may never be answered
            try:
                connection.sendall(b"srvr")
                return b"Mode: " in connection.makefile("rb").read()
            except OSError:
                return False

    def owned_url(self):
        """Whose nodes are closed to all others. Digest accepts every password: rights are what refuses."""
        return self.denied_url.replace("nobody:wr0ng", "owner:r1ght")


class Sqlite(Store):
    """A file; there is no server that could stand still."""

    @staticmethod
    def exists():
        return True

    def __init__(self):
        super().__init__()
        self.url = f"sqlite:{self.folder}/store.db?{LEASE_OPTIONS}"

    def stop(self):
        shutil.rmtree(self.folder, ignore_errors=True)
