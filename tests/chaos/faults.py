"""The faults, as a table: what is struck, on which stores, for how long, and how it is healed.

A fault is a function of the world and the dice. It strikes, and returns whom it struck and what heals it
(None where nothing has to be). Two faults of one group are never under way together.
"""
import dataclasses
import os
import resource
import signal
import subprocess
import typing

from process import DIE_WITH_PARENT
from redis_store import RedisError
from server import LEASE_SECONDS

BRIEF = (0.05, 0.3)   # in leases: an owner leads through it
SHORT = (0.2, 0.8)
LONG = (1.3, 2.2)     # past the lease
NONE = (0.0, 0.0)

HOGS_PER_CORE = 3
MEMORY_TO_SPARE = 1 << 20
CLOCK_STEPS = (-4, 5)  # seconds; several leases
WORKER_CLOCK_STEPS = (-3600, 3600, 86400)


NOBODY = ("nobody", None)


@dataclasses.dataclass
class Fault:
    name: str
    group: str
    span: tuple
    strike: typing.Callable
    missing: typing.Callable  # of a world: why it cannot strike there, or None
    excuses: tuple = ()       # what cannot be demanded meanwhile
    once: bool = False


FAULTS = {}


def anywhere(_world):
    return None


def fault(name, group, span, missing=anywhere, excuses=(), once=False):
    """Puts a function into the table."""
    def register(function):
        FAULTS[name] = Fault(name, group, span, function, missing, excuses, once)
        return function
    return register


# ---- Where a fault can strike --------------------------------------------------------------------

def only(*names):
    return lambda world: None if world.store.name in names else "not on this store"


def servers(world):
    return None if world.store.servers else "there is no server"


def proxies(world):
    return None if world.store.is_proxied else "clients are told addresses by the servers"


def server_clock(world):
    if not world.store.has_lease_clock:
        return "leases do not follow a server's wall clock"
    if not all(server.wallclock for server in world.store.servers):
        return "the clocks of these servers are not stepped"
    return None


def network(world):
    if not world.store.is_proxied:
        return "clients are told addresses by the servers"
    return None if world.networks else "network namespaces are not allowed here"


def small_disk(world):
    if world.store.name != "sqlite":
        return "not on this store"
    return None if world.store.is_mounted else "mounting is not allowed here"


# ---- Processes -----------------------------------------------------------------------------------

def freeze(whom):
    """For as long as the fault goes on; `whom`: a holder, a waiter, a server."""
    def strike(world, dice):
        victim = world.pick(whom, dice)
        victim.freeze()
        return victim.name, victim.go_on
    return strike


def kill(whom):
    def strike(world, dice):
        victim = world.pick(whom, dice)
        victim.kill()
        return victim.name, victim.revive
    return strike


fault("freeze-holder-briefly", "worker", BRIEF)(freeze("holder"))
fault("freeze-holder-past-lease", "worker", LONG)(freeze("holder"))
fault("freeze-waiter-past-lease", "worker", LONG)(freeze("waiter"))
fault("kill-holder", "worker", SHORT)(kill("holder"))
fault("kill-waiter", "worker", SHORT)(kill("waiter"))


@fault("fork-in-worker", "worker", NONE)
def fork_in_worker(world, dice):
    victim = world.pick_settled(dice)
    if victim is None:
        return NOBODY
    os.kill(victim.pid, signal.SIGUSR1)
    return victim.name, None


def schedule_threads(victim, policy):
    for thread in os.listdir(f"/proc/{victim.pid}/task"):
        try:
            os.sched_setscheduler(int(thread), policy, os.sched_param(0))
        except ProcessLookupError:  # it was for a moment only
            pass


@fault("starve-of-cpu", "worker", LONG)
def starve_of_cpu(world, dice):
    """The victim runs when nobody else wants to, and others always want to."""
    victim = world.pick_settled(dice)
    if victim is None:
        return NOBODY
    schedule_threads(victim, os.SCHED_IDLE)
    hogs = [subprocess.Popen([*DIE_WITH_PARENT, "sh", "-c", "while :; do :; done"])
            for _ in range(HOGS_PER_CORE * os.cpu_count())]

    def heal():
        for hog in hogs:
            hog.kill()
            hog.wait()
        if victim.process.is_up():
            schedule_threads(victim, os.SCHED_OTHER)
    return victim.name, heal


def limit(victim, kind, most):
    """Returns what lifts the limit again."""
    before = resource.prlimit(victim.pid, kind)
    pid = victim.pid
    resource.prlimit(pid, kind, (min(most, before[1]), before[1]))

    def lift():
        try:
            resource.prlimit(pid, kind, before)
        except ProcessLookupError:
            pass
        victim.revive()
    return lift


@fault("no-descriptors", "worker", LONG)
def no_descriptors(world, dice):
    """What is open stays, until its connections are cut; then no new ones can be had."""
    victim = world.pick_settled(dice)
    if victim is None:
        return NOBODY
    heal = limit(victim, resource.RLIMIT_NOFILE, len(os.listdir(f"/proc/{victim.pid}/fd")))
    for proxy in victim.proxies:
        proxy.reset()
    return victim.name, heal


@fault("no-memory", "worker", LONG, excuses=("crash",))
def no_memory(world, dice):
    victim = world.pick_settled(dice)
    if victim is None:
        return NOBODY
    with open(f"/proc/{victim.pid}/statm", encoding="ascii") as file:
        size = int(file.read().split()[0]) * resource.getpagesize()
    return victim.name, limit(victim, resource.RLIMIT_AS, size + MEMORY_TO_SPARE)


@fault("step-worker-clock", "clock", LONG)
def step_worker_clock(world, dice):
    victim = dice.choice(world.library_workers)
    victim.step_clock(dice.choice(WORKER_CLOCK_STEPS))
    return victim.name, lambda: victim.step_clock(0)


# ---- Servers -------------------------------------------------------------------------------------

fault("freeze-server-briefly", "server", BRIEF, servers)(freeze("server"))
fault("freeze-server-past-lease", "server", LONG, servers)(freeze("server"))
fault("kill-server", "server", LONG, servers)(kill("server"))


@fault("lose-data", "server", SHORT, only("redis", "mariadb", "postgres", "zookeeper"),
       excuses=("overlap", "tokens"))
def lose_data(world, _dice):
    server = world.store.servers[0]
    server.kill()
    return server.name, server.restart_empty


@fault("promote-standby", "server", NONE, only("postgres-standby"), once=True)
def promote_standby(world, _dice):
    world.store.promote()
    return "the primary", None


@fault("step-server-clock", "server", LONG, server_clock, excuses=("overlap",))
def step_server_clock(world, dice):
    server = world.store.servers[0]
    if "evict" in world.struck:
        return NOBODY
    server.step_clock(dice.choice(CLOCK_STEPS))
    return server.name, lambda: server.step_clock(0)


@fault("cut-clients", "server", NONE, only("redis", "redis-sentinel", "redis-cluster", "mariadb",
                                           "postgres", "postgres-standby"))
def cut_clients(world, dice):
    server = world.pick_server(dice)
    server.cut_clients()
    return server.name, None


@fault("read-only", "server", LONG, only("redis", "mariadb", "postgres"))
def read_only(world, _dice):
    server = world.store.servers[0]
    server.set_read_only(True)
    return server.name, lambda: server.set_read_only(False)


@fault("flush-scripts", "server", NONE, only("redis", "redis-sentinel", "redis-cluster"))
def flush_scripts(world, dice):
    server = world.pick_server(dice)
    try:
        server.ask("SCRIPT FLUSH")
    except RedisError:  # a replica that has just become one
        pass
    return server.name, None


@fault("evict", "server", SHORT, only("redis"), excuses=("overlap",))
def evict(world, _dice):
    """A server that forgot its tokens and whose clock went back, too, has nothing left to count them by: a run has
    one of the two."""
    server = world.store.servers[0]
    if "step-server-clock" in world.struck:
        return NOBODY
    server.ask("CONFIG SET maxmemory-policy allkeys-random")
    server.ask("CONFIG SET maxmemory 1")

    def heal():
        server.ask("CONFIG SET maxmemory 0")
        server.ask("CONFIG SET maxmemory-policy noeviction")
    return server.name, heal


@fault("full-server", "server", LONG, only("redis"))
def full_server(world, _dice):
    server = world.store.servers[0]
    server.ask("CONFIG SET maxmemory 1")
    return server.name, lambda: server.ask("CONFIG SET maxmemory 0")


# ---- The file of SQLite --------------------------------------------------------------------------

@fault("lock-file", "server", LONG, only("sqlite"))
def lock_file(world, _dice):
    world.store.lock()
    return "the file", world.store.unlock


@fault("full-disk", "server", LONG, small_disk)
def full_disk(world, _dice):
    world.store.fill()
    return "the disk", world.store.empty


@fault("remove-file", "server", NONE, only("sqlite"), excuses=("overlap", "tokens"))
def remove_file(world, _dice):
    world.store.remove_file()
    return "the file", None


# ---- Connections ---------------------------------------------------------------------------------

def misbehave(world, dice, mode, delay=0.0):
    """The proxies of one worker, or of all."""
    victims = world.workers if dice.random() < 0.3 else [dice.choice(world.workers)]
    chosen = [proxy for victim in victims for proxy in victim.proxies]
    for proxy in chosen:
        proxy.set_mode(mode, delay)

    def heal():
        for proxy in chosen:
            proxy.heal()
    return " ".join(victim.name for victim in victims), heal


@fault("delay", "net", LONG, proxies)
def delay_pieces(world, dice):
    return misbehave(world, dice, "delay", dice.uniform(0.02, 0.6) * LEASE_SECONDS)


@fault("late-replies", "net", LONG, proxies)
def late_replies(world, dice):
    """Of an owner: what the server has granted is heard of late, and must not be believed in for longer."""
    victim = world.pick_holder(dice)
    seconds = dice.uniform(0.05, 0.22) * LEASE_SECONDS
    for proxy in victim.proxies:
        proxy.set_mode("lag", seconds)

    def heal():
        for proxy in victim.proxies:
            proxy.heal()
    return victim.name, heal


@fault("hold", "net", LONG, proxies)
def hold(world, dice):
    return misbehave(world, dice, "hold")


@fault("drop", "net", LONG, proxies)
def drop(world, dice):
    return misbehave(world, dice, "drop")


@fault("swallow-replies", "net", LONG, proxies)
def swallow_replies(world, dice):
    return misbehave(world, dice, "swallow")


@fault("half-open", "net", LONG, proxies)
def half_open(world, dice):
    return misbehave(world, dice, "half-open")


@fault("refuse", "net", LONG, proxies)
def refuse(world, dice):
    return misbehave(world, dice, "refuse")


@fault("reset", "net", NONE, proxies)
def reset(world, _dice):
    for proxy in world.proxies:
        proxy.reset()
    return "all", None


@fault("reset-mid-command", "net", SHORT, proxies)
def reset_mid_command(world, _dice):
    for proxy in world.proxies:
        proxy.cut_mid_command()

    def heal():
        for proxy in world.proxies:
            proxy.heal()
    return "all", heal


@fault("partition", "net", LONG, network)
def partition(world, dice):
    """The cable of one worker is pulled out; nothing is told to anybody."""
    network = world.networks[dice.choice(sorted(world.networks))]
    network.pull_out()
    return network.owner, network.plug_in
