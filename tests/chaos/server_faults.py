"""Faults of the servers and of what they keep."""
import os
import time

from clock import now_ns
from fault_table import (BRIEF, LONG, NOBODY, NONE, SHORT, fault, freeze, kill, only, server_clock, servers,
                         small_disk)
from lease import LEASE_SECONDS
from redis_store import RedisError
from server import empty, fill

REDIS = ("redis", "redis-sentinel", "redis-sentinel-async", "redis-cluster", "redis-cluster-async")
ETCD = ("etcd", "etcd-cluster")
CLOCK_STEPS = (-4, 5)  # seconds; several leases
SLEW = (1.5, 4.0)      # in leases
SLEW_LIMIT_PPM = 10000
SLEW_BEYOND_PPM = (83333, 300000)  # from what chrony does by default


fault("freeze-server-briefly", "server", BRIEF, servers)(freeze("server"))
fault("freeze-server-past-lease", "server", LONG, servers)(freeze("server"))
fault("kill-server", "server", LONG, servers)(kill("server"))


@fault("lose-data", "server", SHORT, only("redis", "mariadb", "postgres", "zookeeper", "etcd"),
       excuses=("overlap", "tokens"))
def lose_data(world, _dice):
    server = world.store.servers[0]
    server.kill()
    return server.name, server.restart_empty


@fault("stall-quorum", "server", SHORT, only("zookeeper-ensemble"))
def stall_quorum(world, dice):
    """No ping of the leader reaches a server for most of a session, because the leader or its bytes stand still. When
    they go on, nothing of that server reaches the leader."""
    leader = world.store.leader()
    if leader is None:
        return NOBODY
    victim = dice.choice([server for server in world.store.servers if server is not leader])
    link = world.store.links[victim, leader]
    of_leader = dice.random() < 0.5
    if of_leader:
        leader.freeze()
    else:
        link.set_mode("hold-replies")
    time.sleep(dice.uniform(0.5, 2.0) * LEASE_SECONDS)
    link.set_mode("mute")
    if of_leader:
        leader.go_on()
    return f"{victim.name} behind {'the leader' if of_leader else 'its link'}", link.heal


@fault("promote-standby", "server", NONE, only("postgres-standby"), once=True)
def promote_standby(world, _dice):
    world.store.promote()
    return "the primary", None


@fault("step-server-clock", "server", LONG, only("redis", "mariadb", "postgres"), excuses=("overlap",))
def step_server_clock(world, dice):
    server = world.store.servers[0]
    if "evict" in world.struck:
        return NOBODY
    seconds = dice.choice(CLOCK_STEPS)
    server.clock.step(seconds)
    return server.name, lambda: server.clock.step(-seconds)


def slew(world, ppm):
    """All servers alike, so that a fail-over is no step."""
    def set_rate(rate):
        at_ns = now_ns()
        for server in world.store.servers:
            server.clock.slew(rate, at_ns)
    set_rate(ppm)
    return f"{ppm} ppm", lambda: set_rate(0)


@fault("slew-server-clock", "clock", SLEW, server_clock)
def slew_server_clock(world, dice):
    """Up to the limit that the documents state: nothing is excused."""
    return slew(world, dice.randint(-SLEW_LIMIT_PPM, SLEW_LIMIT_PPM))


@fault("slew-server-clock-beyond-limit", "clock", SLEW, server_clock, excuses=("overlap",))
def slew_server_clock_beyond_limit(world, dice):
    return slew(world, dice.choice((-1, 1, 1)) * dice.randint(*SLEW_BEYOND_PPM))


@fault("cut-clients", "server", NONE, only(*REDIS, "mariadb", "postgres", "postgres-standby"))
def cut_clients(world, dice):
    server = world.pick_server(dice)
    server.cut_clients()
    return server.name, None


@fault("read-only", "server", LONG, only("redis", "mariadb", "postgres"))
def read_only(world, _dice):
    server = world.store.servers[0]
    server.set_read_only(True)
    return server.name, lambda: server.set_read_only(False)


# ---- What only Redis has -------------------------------------------------------------------------

@fault("flush-scripts", "server", NONE, only(*REDIS))
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


# ---- What only etcd has ---------------------------------------------------------------------------

@fault("move-leader", "server", NONE, only("etcd-cluster"))
def move_leader(world, dice):
    server = world.store.move_leader(dice)
    return (server.name, None) if server else NOBODY


@fault("compact", "server", NONE, only(*ETCD))
def compact(world, dice):
    server = world.pick_server(dice)
    server.compact()
    return server.name, None


@fault("space-alarm", "server", LONG, only(*ETCD))
def space_alarm(world, dice):
    server = world.pick_server(dice)
    server.fill()
    return server.name, world.store.make_room


# ---- The file of SQLite --------------------------------------------------------------------------

@fault("lock-file", "server", LONG, only("sqlite"))
def lock_file(world, _dice):
    world.store.lock()
    return "the file", world.store.unlock


@fault("full-disk", "server", LONG, small_disk)
def full_disk(world, _dice):
    if not world.store.servers:
        fill(world.store.folder)
        return "the disk", lambda: empty(world.store.folder)
    server = world.store.servers[0]
    server.fill_disk()
    return server.name, server.empty_disk


@fault("remove-file", "server", NONE, only("sqlite"), excuses=("overlap", "tokens"))
def remove_file(world, _dice):
    world.store.remove_file()
    return "the file", None


# ---- What clients read about themselves ----------------------------------------------------------

@fault("rotate-credentials", "server", NONE, only("redis", "mariadb", "postgres", "postgres-standby"),
       excuses=("denied",))
def rotate_credentials(world, dice):
    """The file and the server in any order, then all have to connect anew; what they knew is worth nothing any more."""
    server = world.store.leader() or world.store.servers[0]
    steps = [world.store.secret.write, server.change_password]
    world.store.secret.renew()
    for step in dice.sample(steps, 2):
        step()
        time.sleep(dice.uniform(0, 0.3) * LEASE_SECONDS)
    server.cut_clients()
    return server.name, None


@fault("option-file", "client", NONE, only("mariadb", "postgres"))
def option_file(world, dice):
    """Of the client's library, with other hosts, users, passwords and TLS than the URL. It stays: all goes on with it."""
    name, text = dice.choice(world.store.option_files())
    path = os.path.join(world.home, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="ascii") as file:
        file.write(text)
    os.chmod(path, 0o600)
    for proxy in world.proxies:
        proxy.reset()
    return name, None
