"""ZooKeeper: one server, and an ensemble of three."""
import os
import shutil
import socket

from clock import wait_until
from process import free_port
from server import LEASE, Server, Store

JARS = ["/usr/share/java/zookeeper.jar", "/usr/share/java/slf4j-nop.jar"]
TICK_MS = 500


class ZookeeperServer(Server):
    def __init__(self, folder, number=0):
        super().__init__(folder)
        self.number = number
        self.peers = []  # "server.N=..." lines
        self.place = f"127.0.0.1:{free_port()}:{free_port()}"

    def create_files(self):
        with open(os.path.join(self.folder, "zoo.cfg"), "w", encoding="ascii") as file:
            file.write(f"tickTime={TICK_MS}\ndataDir={self.folder}/data\nclientPort={self.port}\n"
                       "clientPortAddress=127.0.0.1\nmaxClientCnxns=0\nadmin.enableServer=false\n"
                       "4lw.commands.whitelist=*\ninitLimit=20\nsyncLimit=4\n"
                       + "".join(line + "\n" for line in self.peers))
        os.makedirs(os.path.join(self.folder, "data"))
        if self.number:
            with open(os.path.join(self.folder, "data", "myid"), "w", encoding="ascii") as file:
                file.write(f"{self.number}\n")

    def command(self):
        return ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
                "-Dzookeeper.forceSync=no", "-cp", ":".join(JARS),
                "org.apache.zookeeper.server.quorum.QuorumPeerMain", self.folder + "/zoo.cfg"]

    def say(self, word):
        """The answer to a command of four letters; empty when there is none."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=2) as connection:
                connection.sendall(word.encode())
                with connection.makefile("r", encoding="utf-8") as answer:
                    return answer.read()
        except OSError:
            return ""

    def serves(self):
        return "Mode: " in self.say("srvr")


class Zookeeper(Store):
    name = "zookeeper"
    has_lease_clock = False
    heals_within = 40

    def __init__(self, folder, wallclock=None):
        super().__init__(folder)
        self.servers = [ZookeeperServer(os.path.join(folder, "server"))]

    @staticmethod
    def missing():
        if not all(map(os.path.exists, JARS)) or shutil.which("java") is None:
            return "there is no ZooKeeper"
        return None

    def form(self, places):
        return f"zookeeper://{','.join(places)}?{LEASE}"

    def left_behind(self):
        """Nodes of participants, as the server that answers lists the ephemeral ones."""
        serving = next(server for server in self.servers if server.serves())
        return [line.strip() for line in serving.say("dump").splitlines() if "-latch-" in line]


class ZookeeperEnsemble(Zookeeper):
    name = "zookeeper-ensemble"

    def __init__(self, folder, wallclock=None):
        super().__init__(folder)
        self.servers = [ZookeeperServer(os.path.join(folder, f"server{i}"), i) for i in (1, 2, 3)]
        for server in self.servers:
            server.peers = [f"server.{one.number}={one.place}" for one in self.servers]

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
