"""What the servers of all stores share under faults: a process that can be killed, frozen and revived, and a wall
clock that can be set."""
import os
import pwd
import shutil
import subprocess

from lease import draw_lease
from process import Process
import servers
from wallclock import WallClock

DISK_BYTES = 512 << 20
FILLER = "filler"
PRISTINE = "pristine"  # a copy of what a new server's files are, where making them takes long


def fill(folder):
    """The file system of that folder."""
    with open(os.path.join(folder, FILLER), "wb", buffering=0) as file:
        for size in (1 << 20, 4096, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                pass


def empty(folder):
    os.unlink(os.path.join(folder, FILLER))


class Server(servers.Server):
    """One server; what it is comes from a class of `servers`."""

    def __init__(self, folder, wallclock=None):
        super().__init__(folder)
        self.wallclock = wallclock  # the library that lets its clock be stepped and slewed
        self.clock = WallClock(os.path.join(folder, "clock"))
        self.has_disk = False
        self.prefix = []  # what runs a command where the server stands

    @property
    def name(self):
        return f"port {self.port}"

    def remove_data(self):
        """Folders hold data; files hold configurations and what the server said."""
        for name in os.listdir(self.folder):
            path = os.path.join(self.folder, name)
            if os.path.isdir(path) and name != PRISTINE:
                shutil.rmtree(path)

    def launch(self):
        environment = self.clock.environment(self.wallclock) if self.wallclock else None
        self.process = Process([*self.prefix, *self.command()], os.path.join(self.folder, "log"), self.user,
                               environment, self.folder)

    def mount_disk(self):
        """A small file system of its own for all that it writes; whether that is allowed here."""
        owner = pwd.getpwnam(self.user or "root")
        options = f"size={DISK_BYTES},uid={owner.pw_uid},gid={owner.pw_gid},mode=755"
        self.has_disk = shutil.which("mount") is not None and \
            subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", self.folder], check=False,
                           capture_output=True).returncode == 0
        self.clock.create()

    def fill_disk(self):
        fill(self.folder)

    def empty_disk(self):
        """It may have ended meanwhile, rather than go on without writing."""
        empty(self.folder)
        if not self.is_up():
            self.revive()

    def revive(self):
        self.launch()
        self.await_service()

    def restart_empty(self):
        self.remove_data()
        self.start()

    def is_up(self):
        return self.process is not None and self.process.is_up()

    def kill(self):
        if self.is_up():
            self.process.kill()

    def freeze(self):
        self.process.freeze()

    def go_on(self):
        self.process.go_on()


class Secret:
    """The password of the workers' user, in the file that their URLs name."""

    def __init__(self, path):
        self.path = path
        self.number = 0
        self.write()

    @property
    def word(self):
        return f"secret{self.number}"

    def renew(self):
        self.number += 1

    def write(self):
        with open(self.path + ".new", "w", encoding="ascii") as file:
            file.write(self.word + "\n")
        os.chmod(self.path + ".new", 0o600)
        os.rename(self.path + ".new", self.path)


class Store:
    """One or several servers, and the URL that leads to them."""

    name = None
    keeps_tokens = False    # tokens grow also when all data is lost
    loses_leases = False    # a fail-over may lose those that no replica had
    has_lease_clock = True  # leases follow the wall clock of the server
    lan = None              # where servers and workers stand, when not on the loopback
    is_proxied = True       # clients go where the URL says, so that a proxy can stand there
    has_small_disk = False  # the servers have disks that can be filled
    heals_within = 20       # seconds: a generous bound for a leader to come after all faults have healed

    def __init__(self, folder, wallclock=None):
        os.makedirs(folder)
        os.chmod(folder, 0o755)  # servers run as users of their own
        self.folder = folder
        self.lease = draw_lease(0)
        self.secret = Secret(os.path.join(folder, "secret"))
        self.servers = []

    @staticmethod
    def missing():
        """Why it cannot be run here, or None."""
        return None

    def excuses(self, _fault):
        """What cannot be demanded of this version of the servers after a fault, besides what its table says."""
        return ()

    def start(self):
        for server in self.servers:
            if self.has_small_disk:
                server.mount_disk()
            server.start()

    def entrances(self):
        """The servers that clients are sent to."""
        return self.servers

    def url(self, places=None, first=0):
        """For clients that go to these (address, port), or to the servers themselves. `first` is for stores
        whose clients begin with different servers."""
        return self.form([f"{address}:{port}" for address, port in
                          places or [(server.address, server.port) for server in self.entrances()]])

    def form(self, places):
        raise NotImplementedError

    def leader(self):
        """The server that leads the others, where one does."""
        return None

    def settle(self):
        """Waits until the servers have got over the last fault."""

    def left_behind(self):
        """What is on the store beyond what may stay, as the store itself lists it."""
        return []

    def waiters(self):
        """The ids of all that count as waiters in a queue, dead ones included; [] where the store forgets them by
        itself."""
        return []

    def stop(self):
        for server in self.servers:
            if server.process is not None:
                server.go_on()
                server.kill()
            if server.has_disk:
                subprocess.run(["umount", "-l", server.folder], check=True)
        if self.lan is not None:
            self.lan.remove()
