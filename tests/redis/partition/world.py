#!/usr/bin/env python3
"""Three sentinels, a master, a replica and two clients, each in a network namespace of its own, on one switch.

    world.py BELIEVER SHAPE

Runs one shape of partition and prints one line of JSON that tells what came of it. It must have a network of its own
(`unshare --net`, by root or with `--user --map-root-user`), so that addresses are the same everywhere and all of it
goes when the process does.

Every place has fixed link addresses for its neighbours. A cut from one to another exchanges that address for one that
nobody has: packets are lost and nobody is told, and connections that stand stay open.
"""
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../lib"))
from clock import now, wait_until
from shapes import PLACES, SHAPES

NOBODY = "02:00:00:00:00:ff"
DIE_WITH_PARENT = ["setpriv", "--pdeathsig", "KILL", "--"]


def number(place):
    return PLACES.index(place) + 1


def address(place):
    return f"10.77.0.{number(place)}"


def link_address(place):
    return f"02:00:00:00:00:{number(place):02x}"


def ip(*lines):
    subprocess.run(["ip", "-batch", "-"], input="\n".join(lines) + "\n", text=True, check=True)


class Network:
    """The judge stands on the switch, and reaches every place whatever is cut."""

    def __init__(self):
        self.holders = {}
        ip("link add switch type bridge", "addr add 10.77.0.254/24 dev switch", "link set switch up")
        for place in PLACES:
            self.add(place)

    def add(self, place):
        holder = subprocess.Popen([*DIE_WITH_PARENT, "unshare", "--net", "sh", "-c", "echo; exec sleep infinity"],
                                  stdout=subprocess.PIPE)
        holder.stdout.readline()  # it is in its own network by now
        self.holders[place] = holder
        ip(f"link add name {place} type veth peer name port-{place}",
           f"link set dev {place} netns {holder.pid}",
           f"link set dev port-{place} master switch up")
        self.inside(place, f"link set dev {place} address {link_address(place)}",
                    f"addr add {address(place)}/24 dev {place}",
                    f"link set dev {place} up", "link set lo up",
                    *(self.neighbour(place, other, link_address(other)) for other in PLACES if other != place))

    def prefix(self, place):
        return [*DIE_WITH_PARENT, "nsenter", "--net", "-t", str(self.holders[place].pid)]

    def inside(self, place, *lines):
        subprocess.run([*self.prefix(place), "ip", "-batch", "-"], input="\n".join(lines) + "\n", text=True,
                       check=True)

    @staticmethod
    def neighbour(place, other, link):
        return f"neigh replace {address(other)} lladdr {link} nud permanent dev {place}"

    def cut(self, pairs):
        for place in PLACES:
            lines = [self.neighbour(place, to, NOBODY) for here, to in sorted(pairs) if here == place]
            if lines:
                self.inside(place, *lines)

    def heal(self):
        for place in PLACES:
            self.inside(place, *(self.neighbour(place, other, link_address(other))
                                 for other in PLACES if other != place))


class ServerError(Exception):
    pass


def read_reply(stream):
    line = stream.readline().decode().rstrip("\r\n")
    if not line or line[0] == "-":
        raise ServerError(line)
    if line[0] == "$":
        return None if line == "$-1" else stream.read(int(line[1:]) + 2)[:-2].decode()
    if line[0] == "*":
        return [read_reply(stream) for _ in range(int(line[1:]))]
    return int(line[1:]) if line[0] == ":" else line[1:]


def ask(place, port, command):
    """The reply to an inline command; None where there is none."""
    try:
        with socket.create_connection((address(place), port), timeout=2) as connection:
            connection.sendall(command.encode() + b"\r\n")
            with connection.makefile("rb") as stream:
                return read_reply(stream)
    except (OSError, ServerError):
        return None


class World:
    def __init__(self, believer, shape, folder):
        self.believer = believer
        self.shape = shape
        self.lease_ms = 2 * shape.half_ms
        self.folder = folder
        self.network = Network()
        self.processes = []
        self.clients = {}

    def launch(self, place, *command, output=subprocess.DEVNULL):
        process = subprocess.Popen([*self.network.prefix(place), *command], cwd=self.folder, stdout=output,
                                   stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        self.processes.append(process)
        return process

    def start_server(self, place, *more):
        self.launch(place, "redis-server", "--bind", address(place), "--port", "6379", "--protected-mode", "no",
                    "--save", "", "--repl-diskless-sync-delay", "0", "--repl-timeout", "2",
                    "--dir", self.folder, "--dbfilename", f"{place}.rdb", "--logfile", f"{place}.log", *more)
        wait_until(lambda: ask(place, 6379, "PING") == "PONG", f"{place} serves")

    def start_sentinel(self, place):
        path = os.path.join(self.folder, f"{place}.conf")
        with open(path, "w", encoding="ascii") as file:
            file.write(f"bind {address(place)}\nport 26379\ndir {self.folder}\nprotected-mode no\n"
                       f"logfile {place}.log\n"
                       f"sentinel monitor main {address('master')} 6379 2\n"
                       "sentinel down-after-milliseconds main 700\nsentinel failover-timeout main 3000\n")
        self.launch(place, "redis-server", path, "--sentinel")

    def knows_all(self, place):
        fields = ask(place, 26379, "SENTINEL MASTER main") or []
        told = dict(zip(fields[::2], fields[1::2]))
        return told.get("num-other-sentinels") == "2" and told.get("num-slaves") == "1"

    def start(self):
        self.start_server("master")
        self.start_server("replica", "--replicaof", address("master"), "6379")
        wait_until(lambda: (ask("replica", 6379, "ROLE") or [None] * 4)[3] == "connected", "the replica is in step")
        for place in ("s1", "s2", "s3"):
            self.start_sentinel(place)
        for place in ("s1", "s2", "s3"):
            wait_until(lambda one=place: self.knows_all(one), f"{place} knows all")

    def url(self, more):
        hosts = ",".join(f"{address(place)}:26379" for place in ("s1", "s2", "s3"))
        half = f"{self.shape.half_ms}ms"
        return (f"redis+sentinel://{hosts}/main?ttl={half}&transition={half}&jitter=0ms..100ms"
                f"&connect-timeout=1s{more}")

    def start_client(self, place, more):
        path = os.path.join(self.folder, f"{place}.journal")
        with open(path, "wb") as journal:
            self.launch(place, self.believer, self.url(more), place, output=journal)
        self.clients[place] = path

    def beliefs(self, place):
        """(first, last) of each, in milliseconds; the last is None while it lasts."""
        found = []
        with open(self.clients[place], encoding="utf-8") as journal:
            for line in journal.read().split("\n")[:-1]:
                word, _, rest = line.partition(" ")
                if word == "own":
                    found.append((int(rest), None))
                elif word == "end":
                    found[-1] = (found[-1][0], int(rest))
                elif word == "failed":
                    raise ServerError(rest)
        return found

    def owns(self, place):
        beliefs = self.beliefs(place)
        return bool(beliefs) and beliefs[-1][1] is None

    def waits(self, place):
        return place in (ask("master", 6379, "ZRANGE simba:{m}:contender 0 -1") or [])

    def has_one_leader(self):
        return self.owns("a") != self.owns("b")

    def roles(self):
        return {place: (ask(place, 6379, "ROLE") or [None])[0] for place in ("master", "replica")}

    def stop(self):
        for process in self.processes + list(self.network.holders.values()):
            process.kill()
            process.wait()


def overlaps(some, others):
    """How long each belief of one overlaps with one of the other."""
    return [min(a[1], b[1]) - max(a[0], b[0]) for a in some for b in others if min(a[1], b[1]) > max(a[0], b[0])]


def ended(beliefs, at_ms):
    return [(first, at_ms if last is None else last) for first, last in beliefs]


def cut_first(world):
    """Until the replica has forgotten who owns; it still has what is over."""
    if world.shape.first:
        world.network.cut(world.shape.first)
        time.sleep(1.05 * world.lease_ms / 1000)


def hold(world):
    """Long enough for a fail-over, where there is to be one, and for the leases that follow from it."""
    if world.shape.fails_over():
        wait_until(lambda: world.roles()["replica"] == "master", "the sentinels have made the replica the master")
    time.sleep((1.5 if world.shape.first else 2.5) * world.lease_ms / 1000)


def leads_steadily(world, since):
    """One leader for as long as a lease."""
    if not world.has_one_leader():
        since[0] = now()
    return now() - since[0] >= world.lease_ms / 1000


def run(world, more):
    world.start()
    world.start_client("a", more)
    wait_until(lambda: world.owns("a"), "a owns")
    world.start_client("b", more)
    wait_until(lambda: world.waits("b"), "b waits")
    cut_first(world)
    world.network.cut(world.shape.cuts)
    cut_ms = int(now() * 1000)
    hold(world)
    roles = world.roles()
    healed_ms = int(now() * 1000)
    world.network.heal()
    wait_until(lambda since=[now()]: leads_steadily(world, since), "there is one leader after healing")
    end_ms = int(now() * 1000)
    a, b = (ended(world.beliefs(place), end_ms) for place in ("a", "b"))
    return {"lease_ms": world.lease_ms, "overlap_ms": max(overlaps(a, b), default=0), "roles": roles,
            "held_ms": healed_ms - cut_ms, "healing_ms": end_ms - healed_ms - world.lease_ms,
            "a": [(one[0] - cut_ms, one[1] - cut_ms) for one in a],
            "b": [(one[0] - cut_ms, one[1] - cut_ms) for one in b]}


def main():
    believer, name = sys.argv[1:3]
    more = "".join("&" + option for option in sys.argv[3:])
    folder = tempfile.mkdtemp(prefix="simba-partition-")
    world = None
    try:
        world = World(believer, SHAPES[name], folder)
        print(json.dumps(run(world, more)))
        return 0
    except (TimeoutError, ServerError, subprocess.CalledProcessError) as error:
        print(json.dumps({"trouble": str(error)}))
        return 1
    finally:
        if world is not None:
            world.stop()
        if "SIMBA_KEEP" not in os.environ:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
