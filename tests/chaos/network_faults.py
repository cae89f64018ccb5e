"""Faults of the connections between clients and servers."""
from fault_table import LONG, NONE, SHORT, fault, network, proxies
from lease import LEASE_SECONDS


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
