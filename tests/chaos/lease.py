"""The mutexes, the semaphore, the sets and the leases of a run. How a lease is divided is drawn from the seed."""
import random

MUTEXES = ["lead", "lock", "tick"]
SEMAPHORE, SLOTS = "seats", 2     # with these names groups are made, in lock.c
SET_NAMES = ["a", "b", "c", "d"]
GROUP_MUTEXES = [SEMAPHORE, *(f"{SEMAPHORE}#{slot}" for slot in range(SLOTS)), *SET_NAMES]
LEASE_SECONDS = 1.0  # of all, so that all bounds are the same

# With a short transition there is less time to renew than to work.
_LEASES = [f"ttl={ttl}ms&transition={1000 - ttl}ms&jitter=0ms..50ms" for ttl in (300, 500, 700)]


def draw_lease(seed):
    """Parameters of a URL."""
    return random.Random(f"lease {seed}").choice(_LEASES)
