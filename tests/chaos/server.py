"""What the servers of all stores share: a folder, a port, a process that can be killed, frozen and revived."""
import os
import shutil
import socket
import subprocess

from clock import wait_until
from process import Process, as_user, create_clock, free_port, step_clock, wallclock_environment

LEASE = "ttl=300ms&transition=700ms&jitter=0ms..50ms"
LEASE_SECONDS = 1.0
PRISTINE = "pristine"  # a copy of what a new server's files are, where making them takes long


def listens(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
        return True
    except OSError:
        return False


class Server:
    """One server. A subclass says how its files are made, how it is started and when it serves."""

    user = None

    def __init__(self, folder, wallclock=None):
        self.folder = folder
        self.port = free_port()
        self.process = None
        os.makedirs(folder)
        if self.user is not None and os.geteuid() == 0:
            shutil.chown(folder, self.user)
        self.wallclock = wallclock  # the library that lets its clock be stepped
        self.clock = os.path.join(folder, "clock")
        create_clock(self.clock)

    def create_files(self):
        pass

    def command(self):
        raise NotImplementedError

    def serves(self):
        return listens(self.port)

    def remove_data(self):
        """Folders hold data; files hold configurations and what the server said."""
        for name in os.listdir(self.folder):
            path = os.path.join(self.folder, name)
            if os.path.isdir(path) and name != PRISTINE:
                shutil.rmtree(path)

    def prepare(self, *command):
        """Runs a program that makes files or speaks to the server."""
        return subprocess.run(command, cwd=self.folder, check=True, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60, **as_user(self.user)).stdout

    def launch(self):
        environment = wallclock_environment(self.wallclock, self.clock) if self.wallclock else None
        self.process = Process(self.command(), os.path.join(self.folder, "log"), self.user,
                               environment, self.folder)

    def start(self):
        self.create_files()
        self.revive()

    def revive(self):
        self.launch()
        self.await_service()

    def restart_empty(self):
        self.remove_data()
        self.start()

    def await_service(self):
        wait_until(self._serves_or_fails, f"the server in {self.folder} serves")

    def _serves_or_fails(self):
        if not self.process.is_up():
            with open(os.path.join(self.folder, "log"), encoding="utf-8", errors="replace") as log:
                raise RuntimeError(f"the server ended: {log.read()[-2000:]}")
        return self.serves()

    def is_up(self):
        return self.process is not None and self.process.is_up()

    def kill(self):
        if self.is_up():
            self.process.kill()

    def freeze(self):
        self.process.freeze()

    def go_on(self):
        self.process.go_on()

    def step_clock(self, seconds):
        step_clock(self.clock, seconds)


class Store:
    """One or several servers, and the URL that leads to them."""

    name = None
    keeps_tokens = False    # tokens grow also when all data is lost
    has_lease_clock = True  # leases follow the wall clock of the server
    is_proxied = True       # clients go where the URL says, so that a proxy can stand there
    heals_within = 20       # seconds: a generous bound for a leader to come after all faults have healed

    def __init__(self, folder, wallclock=None):
        self.folder = folder
        self.servers = []
        os.makedirs(folder)
        os.chmod(folder, 0o755)  # servers run as users of their own

    @staticmethod
    def missing():
        """Why it cannot be run here, or None."""
        return None

    def start(self):
        for server in self.servers:
            server.start()

    def ports(self):
        """Where clients are sent to."""
        return [server.port for server in self.servers]

    def url(self, places=None):
        """For clients that go to these (address, port), or to the servers themselves."""
        return self.form([f"{address}:{port}" for address, port in
                          places or [("127.0.0.1", port) for port in self.ports()]])

    def form(self, places):
        raise NotImplementedError

    def leader(self):
        """The server that leads the others, where one does."""
        return None

    def left_behind(self):
        """What is on the store beyond what may stay, as the store itself lists it."""
        return []

    def stop(self):
        for server in self.servers:
            if server.process is not None:
                server.go_on()
                server.kill()
