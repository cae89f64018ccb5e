"""Private servers of all stores for measurements: as durable as their packages make them, each on a free port
of the loopback and in a temporary folder, which goes with it.
"""
import glob
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time

PATIENCE = 60


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until(condition, what):
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise RuntimeError(f"did not come true: {what}")
        time.sleep(0.05)


class Server:
    """`url` is the store's for the library. `user` is who runs it when root measures."""

    user = None

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="simba-bench-")
        self.port = free_port()
        self.process = None
        if self.user is not None and os.geteuid() == 0:
            shutil.chown(self.folder, self.user, pwd.getpwnam(self.user).pw_gid)

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *unused):
        self.stop()

    def as_user(self):
        if self.user is None or os.geteuid() != 0:
            return {}
        return {"user": self.user, "group": pwd.getpwnam(self.user).pw_gid, "extra_groups": []}

    def run(self, *command):
        subprocess.run(command, cwd=self.folder, check=True, stdin=subprocess.DEVNULL,
                       capture_output=True, **self.as_user())

    def spawn(self, *command):
        with open(self.folder + "/log", "wb") as log:
            self.process = subprocess.Popen(command, cwd=self.folder, stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, **self.as_user())
        wait_until(self.listens, f"{command[0]} listens")

    def listens(self):
        if self.process.poll() is not None:
            with open(self.folder + "/log", encoding="utf-8", errors="replace") as log:
                raise RuntimeError("the server ended: " + log.read())
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=5).close()
            return True
        except OSError:
            return False

    def stop(self):
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def first_line(*command):
    """What a program says of its version; "" where there is none."""
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    except OSError:
        return ""
    return (done.stdout or done.stderr).partition("\n")[0].strip()


class Sqlite(Server):
    """A file; no server."""

    def start(self):
        self.url = f"sqlite:{self.folder}/store.db"

    @staticmethod
    def version():
        import sqlite3  # the same library, as a rule
        return "SQLite " + sqlite3.sqlite_version


class Redis(Server):
    def start(self):
        self.spawn("redis-server", "--bind", "127.0.0.1", "--port", str(self.port), "--save", "",
                   "--appendonly", "no")
        self.url = f"redis://127.0.0.1:{self.port}"

    @staticmethod
    def version():
        return " ".join(first_line("redis-server", "--version").split()[:3])


class Postgres(Server):
    user = "postgres"

    @staticmethod
    def program(name):
        found = sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{name}"))
        return found[-1] if found else name

    def create_database(self):
        done = subprocess.run([self.program("createdb"), "-h", "127.0.0.1", "-p", str(self.port),
                               "-U", "simba", "simba"], check=False, capture_output=True)
        return done.returncode == 0

    def start(self):
        self.run(self.program("initdb"), "-D", "data", "-U", "simba", "-A", "trust",
                 "-E", "UTF8", "--locale=C.UTF-8")
        self.spawn(self.program("postgres"), "-D", "data", "-p", str(self.port),
                   "-c", "listen_addresses=127.0.0.1",
                   "-c", "unix_socket_directories=" + self.folder)
        wait_until(self.create_database, "the database can be created")
        self.url = f"postgres://simba@127.0.0.1:{self.port}/simba"

    @staticmethod
    def version():
        return first_line(Postgres.program("postgres"), "--version")


class Mariadb(Server):
    user = "mysql"

    def start(self):
        where = ["--no-defaults", f"--datadir={self.folder}/data", f"--tmpdir={self.folder}"]
        self.run("mariadb-install-db", *where, "--auth-root-authentication-method=normal",
                 "--skip-test-db", "--skip-name-resolve")
        with open(self.folder + "/init.sql", "w", encoding="utf-8") as file:
            file.write("CREATE DATABASE IF NOT EXISTS simba;\n")
        self.spawn("/usr/sbin/mariadbd", *where, f"--port={self.port}",
                   f"--socket={self.folder}/sock", f"--pid-file={self.folder}/pid",
                   f"--init-file={self.folder}/init.sql", "--bind-address=127.0.0.1",
                   "--skip-name-resolve")
        self.url = f"mariadb://root@127.0.0.1:{self.port}/simba"

    @staticmethod
    def version():
        return first_line("/usr/sbin/mariadbd", "--version").partition("for")[0].split("Ver ")[-1]


class Zookeeper(Server):
    JARS = "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-nop.jar"

    def start(self):
        with open(self.folder + "/zoo.cfg", "w", encoding="utf-8") as file:
            file.write(f"tickTime=2000\ndataDir={self.folder}/data\nclientPort={self.port}\n"
                       "clientPortAddress=127.0.0.1\nmaxClientCnxns=0\n"
                       "admin.enableServer=false\n")
        self.spawn("java", "-Xmx512m", "-cp", self.JARS,
                   "org.apache.zookeeper.server.quorum.QuorumPeerMain", "zoo.cfg")
        self.hosts = f"127.0.0.1:{self.port}"
        self.url = f"zookeeper://{self.hosts}"
        wait_until(self.serves, "ZooKeeper serves")

    def serves(self):
        with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
            try:
                connection.sendall(b"srvr")
                return b"Mode: " in connection.makefile("rb").read()
            except OSError:
                return False

    @staticmethod
    def version():
        done = first_line("dpkg-query", "-W", "-f=${Version}", "libzookeeper-java")
        return "ZooKeeper " + done.partition("-")[0]


class Etcd(Server):
    def start(self):
        peer = f"http://127.0.0.1:{free_port()}"
        self.url = f"http://127.0.0.1:{self.port}"
        self.spawn("etcd", "--data-dir", self.folder + "/data", "--listen-client-urls", self.url,
                   "--advertise-client-urls", self.url, "--listen-peer-urls", peer,
                   "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}")

    @staticmethod
    def version():
        return first_line("etcd", "--version")


STORES = {"sqlite": Sqlite, "redis": Redis, "postgres": Postgres, "mariadb": Mariadb,
          "zookeeper": Zookeeper}
