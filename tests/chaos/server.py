"""What the servers of all stores share under faults: a process that can be killed, frozen and revived, and a wall
clock that can be stepped."""
import os
import shutil

from process import Process, create_clock, step_clock, wallclock_environment
import servers

LEASE = "ttl=300ms&transition=700ms&jitter=0ms..50ms"
LEASE_SECONDS = 1.0
PRISTINE = "pristine"  # a copy of what a new server's files are, where making them takes long


class Server(servers.Server):
    """One server; what it is comes from a class of `servers`."""

    def __init__(self, folder, wallclock=None):
        super().__init__(folder)
        self.wallclock = wallclock  # the library that lets its clock be stepped
        self.clock = os.path.join(folder, "clock")
        create_clock(self.clock)

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
        environment = wallclock_environment(self.wallclock, self.clock) if self.wallclock else None
        self.process = Process(self.command(), os.path.join(self.folder, "log"), self.user,
                               environment, self.folder)

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
