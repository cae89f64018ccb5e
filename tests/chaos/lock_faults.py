"""Faults of the tables: other programs lock them, or alter them, while the workers' statements wait in the server."""
import time

from fault_table import ANY, NOBODY, fault, only
from lease import LEASE_SECONDS

TABLES = ("mariadb", "postgres", "postgres-standby")
AS_LONG_AS_A_REQUEST = (0.55, 1.0)  # in leases: a statement has been given up, the next one waits as well
SETTLE_SECONDS = 0.1
STANDSTILL_SECONDS = 0.9 * LEASE_SECONDS


def locked_server(world):
    return world.store.leader() or world.store.servers[0]


def lock_with(method):
    """The server's method returns what gives the lock back."""
    def strike(world, dice):
        server = locked_server(world)
        unlock = getattr(server, method)(dice)
        return (server.name, unlock) if unlock else NOBODY
    return strike


fault("lock-table", "server", ANY, only(*TABLES))(lock_with("lock_table"))
fault("lock-all-tables", "server", ANY, only("mariadb"))(lock_with("lock_all"))
fault("alter-table", "server", ANY, only(*TABLES))(lock_with("alter_table"))


@fault("lock-then-freeze-holders", "server", AS_LONG_AS_A_REQUEST, only(*TABLES))
def lock_then_freeze_holders(world, dice):
    """Those that win when the lock ends stand still at once: nothing but what the server has recorded keeps others away.
    So a statement that waited for long, and is carried out last, must not have shortened their leases."""
    server = locked_server(world)
    unlock = dice.choice(server.locks())(dice)
    if unlock is None:
        return NOBODY

    def heal():
        unlock()
        time.sleep(SETTLE_SECONDS)
        holders = world.holders()
        for holder in holders:
            holder.freeze()
        time.sleep(STANDSTILL_SECONDS)
        for holder in holders:
            holder.go_on()
    return server.name, heal
