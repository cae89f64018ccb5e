"""What a fault is: whom it strikes, on which stores, for how long, and how it is healed.

A fault is a function of the world and the dice. It strikes, and returns whom it struck and what heals it
(None where nothing has to be). Two faults of one group are never under way together.
"""
import dataclasses
import typing

BRIEF = (0.05, 0.3)   # in leases: an owner leads through it
SHORT = (0.2, 0.8)
LONG = (1.3, 2.2)     # past the lease
ANY = (0.1, 2.2)
NONE = (0.0, 0.0)

NOBODY = ("nobody", None)
LATER = "later"  # what a healing returns that another fault holds up


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
        return "the clocks of these servers cannot be set"
    return None


def network(world):
    if not world.store.is_proxied:
        return "clients are told addresses by the servers"
    return None if world.networks else "network namespaces are not allowed here"


def lan(world):
    if not hasattr(world.store, "lay_lan"):
        return "not on this store"
    return None if world.store.lan else "network namespaces are not allowed here"


def small_disk(world):
    store = world.store
    if store.name != "sqlite" and not store.has_small_disk:
        return "not on this store"
    disks = store.servers or [store]
    return None if all(disk.has_disk for disk in disks) else "mounting is not allowed here"


# ---- What several strike with ---------------------------------------------------------------------

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
