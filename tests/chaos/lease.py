"""The mutexes and the leases of a run. How a lease is divided is drawn from the seed."""
import random

MUTEXES = ["lead", "lock", "tick"]
LEASE_SECONDS = 1.0  # of all, so that all bounds are the same

# With a short transition there is less time to renew than to work.
_LEASES = [f"ttl={ttl}ms&transition={1000 - ttl}ms&jitter=0ms..50ms" for ttl in (300, 500, 700)]


def draw_lease(seed):
    """Parameters of a URL."""
    return random.Random(f"lease {seed}").choice(_LEASES)
