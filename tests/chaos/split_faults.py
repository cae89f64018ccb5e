"""Faults of the ways between servers, sentinels and workers that tell each other their addresses.

A way leads from one place to another; the way back is another one. A server that was cut off from its peers may go on
serving the workers that still reach it, so that a mutex has an owner on either side: for at most a lease where leases
count at once ("async"), and never where they count when a replica has them.
"""
import itertools

from fault_table import fault, lan
from lease import MUTEXES

SPLIT = (2.0, 7.0)  # in leases: long enough for a fail-over
ISOLATED = (8.0, 10.0)


def both_ways(some, others):
    return {way for one in some for other in others for way in ((one, other), (other, one))}


def cut(world, ways, victim):
    world.store.lan.set_cuts(ways)
    return victim, world.store.lan.heal


def sides(places, dice):
    """Each place on one of two sides, or on both: {place: set}."""
    return {place: set(dice.choice(("a", "b", "ab"))) for place in places}


@fault("split-network", "net", SPLIT, lan)
def split_network(world, dice):
    """Two sides, which those that are on both reach; one time in three only one way is cut."""
    found = sides(world.store.lan.places, dice)
    master = world.store.place_of(world.store.leader() or world.store.servers[0])
    found[master] = {"a"}
    ways = {way for way in itertools.permutations(found, 2) if not found[way[0]] & found[way[1]]}
    if dice.random() < 0.33:
        ways = {way for way in ways if found[way[0]] == {"a"}}
    return cut(world, ways, "+".join(sorted(place for place, side in found.items() if side == {"a"})))


@fault("cut-ways", "net", SPLIT, lan)
def cut_ways(world, dice):
    """Any of them, each for itself."""
    share = dice.uniform(0.1, 0.6)
    ways = {way for way in itertools.permutations(world.store.lan.places, 2) if dice.random() < share}
    return cut(world, ways, f"{len(ways)} ways")


@fault("isolate-master", "net", ISOLATED, lan)
def isolate_master(world, dice):
    """From its peers only: all workers reach it and all others. So they also reach whatever takes its place; where a lease
    counts when a replica has it, that grants nothing, because it has none."""
    master = world.store.place_of(world.store.master_of(dice.choice(MUTEXES)))
    peers = [place for place in world.store.members if place != master]
    was_settled = world.store.is_settled()
    victim, mend = cut(world, both_ways([master], peers), master)
    if not world.store.loses_leases or not was_settled:
        return victim, mend
    world.note("demand", "reach")

    def heal():
        world.note("undemand", "reach")
        mend()
    return victim, heal
