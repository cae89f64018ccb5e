"""Private servers of the stores, for tests and measurements: each on a free port of the loopback and in a folder of
its own. A class says how the files of one server are made, how it is started and when it serves; who needs more
of it (clocks, faults, URLs) derives from it.

Those of tests lose what they wrote when the machine goes down, which spares them most of their time; with `durable`
they are as their packages make them.
"""
import glob
import os
import pwd
import random
import shutil
import socket
import subprocess
import tempfile

from clock import PATIENCE, wait_until

JARS = ["/usr/share/java/zookeeper.jar", "/usr/share/java/slf4j-nop.jar"]


_names = []  # of the ports that are taken, each a socket


def _take_name(port):
    """Whether no other test has it. The kernel frees the name with the process; port.c has the same names."""
    name = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        name.bind(f"\0simba-test-port-{port}")
    except OSError:
        name.close()
        return False
    _names.append(name)
    return True


def free_port():
    """One that nobody listens on, and that no other test gets while this process lives: also not before the server
    listens, nor while it is down for a moment. Below the ports that the kernel gives to outgoing connections."""
    while True:
        port = random.randrange(15000, 32000)
        if not _take_name(port):
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass


def as_user(name):
    """For subprocess: who runs a server that refuses to be run by root."""
    if name is None or os.geteuid() != 0:
        return {}
    return {"user": name, "group": pwd.getpwnam(name).pw_gid, "extra_groups": []}


class Server:
    """`user` is who runs it when root starts it."""

    user = None
    durable = False
    address = "127.0.0.1"

    def __init__(self, folder=None):
        self.folder = folder or tempfile.mkdtemp(prefix="simba-server-")
        self.port = free_port()
        self.process = None
        os.makedirs(self.folder, exist_ok=True)
        if self.user is not None and os.geteuid() == 0:
            shutil.chown(self.folder, self.user, pwd.getpwnam(self.user).pw_gid)

    @staticmethod
    def missing():
        """Why it cannot be run here, or None."""
        return None

    def create_files(self):
        pass

    def command(self):
        raise NotImplementedError

    def connect(self):
        return socket.create_connection((self.address, self.port), timeout=5)

    def serves(self):
        try:
            self.connect().close()
            return True
        except OSError:
            return False

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="ascii") as file:
            file.write(text)

    def prepare(self, *command, told=""):
        """Runs a program that makes files or speaks to the server, with what it is told on its standard input."""
        return subprocess.run(command, cwd=self.folder, check=True, input=told, text=True, capture_output=True,
                              timeout=PATIENCE, **as_user(self.user)).stdout

    def launch(self):
        with open(os.path.join(self.folder, "log"), "ab") as log:
            self.process = subprocess.Popen(self.command(), cwd=self.folder, stdout=log, stderr=log,
                                            stdin=subprocess.DEVNULL, **as_user(self.user))

    def is_up(self):
        return self.process is not None and self.process.poll() is None

    def start(self):
        self.create_files()
        self.launch()
        self.await_service()

    def await_service(self):
        wait_until(self._serves_or_fails, f"the server in {self.folder} serves")

    def _serves_or_fails(self):
        if not self.is_up():
            with open(os.path.join(self.folder, "log"), encoding="utf-8", errors="replace") as log:
                raise RuntimeError(f"the server ended: {log.read()[-2000:]}")
        return self.serves()

    def stop(self):
        """Its folder goes with it."""
        if self.is_up():
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class Redis(Server):
    options = ["--appendonly", "no"]

    @staticmethod
    def missing():
        return None if shutil.which("redis-server") else "there is no redis-server"

    def command(self):
        return ["redis-server", "--bind", self.address, "--port", str(self.port), "--dir", self.folder,
                "--save", "", *self.options]


class Mariadb(Server):
    user = "mysql"
    init = "CREATE DATABASE IF NOT EXISTS simba;\n"

    @staticmethod
    def missing():
        found = os.path.exists("/usr/sbin/mariadbd") and shutil.which("mariadb-install-db")
        return None if found else "there is no mariadbd"

    def _options(self):
        fast = ["--innodb-flush-method=nosync", "--innodb-log-file-size=8M"]
        return ["--no-defaults", f"--datadir={self.folder}/data", f"--tmpdir={self.folder}",
                "--skip-name-resolve", *([] if self.durable else fast)]

    def create_files(self):
        self.prepare("mariadb-install-db", *self._options(),
                     "--auth-root-authentication-method=normal", "--skip-test-db")
        self.write("init.sql", self.init)

    def command(self):
        small = [] if self.durable else ["--innodb-buffer-pool-size=32M"]
        return ["/usr/sbin/mariadbd", *self._options(), *small, f"--port={self.port}",
                f"--socket={self.folder}/sock", f"--pid-file={self.folder}/pid",
                f"--init-file={self.folder}/init.sql", "--bind-address=127.0.0.1"]


class Postgres(Server):
    """Its user and its database are called simba."""

    user = "postgres"

    @staticmethod
    def program(name):
        found = sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{name}"))
        return found[-1] if found else name

    @staticmethod
    def missing():
        return None if shutil.which(Postgres.program("postgres")) else "there is no PostgreSQL"

    def create_files(self):
        self.prepare(self.program("initdb"), "-D", "data", "-U", "simba", "-A", "trust",
                     "-E", "UTF8", "--locale=C.UTF-8", *([] if self.durable else ["-N"]))

    def _memory(self):
        """A server that is killed must not leave its memory in /dev/shm; one that is measured is left as it comes."""
        return [] if self.durable else ["-c", "dynamic_shared_memory_type=mmap"]

    def command(self):
        return [self.program("postgres"), "-D", "data", "-p", str(self.port),
                "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=" + self.folder,
                *self._memory(),
                *([] if self.durable else ["-c", "fsync=off"])]

    def sql(self, statement, database="simba"):
        return self.prepare(self.program("psql"), "-h", self.folder, "-p", str(self.port),
                            "-U", "simba", "-X", "-A", "-t", "-q", "-c", statement, database)

    def serves(self):
        try:
            return self.sql("SELECT 1", "postgres") == "1\n"
        except subprocess.SubprocessError:
            return False

    def create_database(self):
        """A server that lost its data has none."""
        if self.sql("SELECT 1 FROM pg_database WHERE datname = 'simba'", "postgres") == "":
            self.sql("CREATE DATABASE simba", "postgres")

    def await_service(self):
        super().await_service()
        self.create_database()


class Zookeeper(Server):
    tick_ms = 2000
    more = ""  # lines of its configuration

    @staticmethod
    def missing():
        found = all(map(os.path.exists, JARS)) and shutil.which("java")
        return None if found else "there is no ZooKeeper"

    def create_files(self):
        self.write("zoo.cfg", f"tickTime={self.tick_ms}\ndataDir={self.folder}/data\n"
                   f"clientPort={self.port}\nclientPortAddress=127.0.0.1\nmaxClientCnxns=0\n"
                   f"admin.enableServer=false\n4lw.commands.whitelist=*\n{self.more}")

    def command(self):
        fast = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
                "-Dzookeeper.forceSync=no"]
        return ["java", *(["-Xmx512m"] if self.durable else fast), "-cp", ":".join(JARS),
                "org.apache.zookeeper.server.quorum.QuorumPeerMain", "zoo.cfg"]

    def say(self, word):
        """The answer to a command of four letters; empty when there is none: who asks too early may never be
        answered."""
        try:
            with self.connect() as connection, \
                    connection.makefile("r", encoding="utf-8") as answer:
                connection.settimeout(2)
                connection.sendall(word.encode())
                return answer.read()
        except OSError:
            return ""

    def serves(self):
        """It listens before it takes sessions; a mode is told only by one that serves."""
        return "Mode: " in self.say("srvr")


class Etcd(Server):
    """One member, or one of those of `cluster`."""

    more = ()  # arguments

    def __init__(self, folder=None):
        super().__init__(folder)
        self.peer_port = free_port()
        self.cluster = [self]

    @staticmethod
    def missing():
        return None if shutil.which("etcd") and shutil.which("etcdctl") else "there is no etcd"

    def member_name(self):
        return f"m{self.peer_port}"

    def endpoint(self):
        return f"http://{self.address}:{self.port}"

    def command(self):
        peer = f"http://{self.address}:{self.peer_port}"
        client = self.endpoint()
        members = ",".join(f"{one.member_name()}=http://{one.address}:{one.peer_port}" for one in self.cluster)
        return ["etcd", "--name", self.member_name(), "--data-dir", f"{self.folder}/data", "--bcrypt-cost", "4",
                "--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer,
                "--initial-advertise-peer-urls", peer, "--initial-cluster", members,
                "--log-level", "error", *([] if self.durable else ["--unsafe-no-fsync"]), *self.more]

    def ctl(self, *arguments, told=""):
        """What etcdctl says."""
        return self.prepare("etcdctl", f"--endpoints={self.endpoint()}", "--command-timeout=20s", *arguments, told=told)

    def serves(self):
        """It listens before it has a leader."""
        if not super().serves():
            return False
        try:
            self.ctl("get", "none", "--command-timeout=2s")
            return True
        except subprocess.CalledProcessError as failure:
            return "user name is empty" in failure.stderr
