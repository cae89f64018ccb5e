"""Distributed locks and leader election on the database you already run.

    import simba_lock as simba

    with simba.open("redis://localhost") as client:
        with client.lock("backup", timeout=30) as lock:
            write(data, token=lock.fence)
"""
from .client import Client, open
from .errors import (AccessDenied, ConfigError, Contended, LockLost, MisuseError, OutcomeUnknown, OutOfResources,
                     SimbaError, StoreUnavailable, Timeout)
from .leader import Leader, Term
from .lock import Lock
from .tasks import exclusive
from .values import Change, MutexStatus, Owner, Waiter, now
from .watch import Watch

__version__ = "0.1.0"

__all__ = [
    "AccessDenied", "Change", "Client", "ConfigError", "Contended", "Leader", "Lock", "LockLost", "MisuseError",
    "MutexStatus", "OutOfResources", "OutcomeUnknown", "Owner", "SimbaError", "StoreUnavailable", "Term", "Timeout",
    "Waiter", "Watch", "exclusive", "now", "open",
]
