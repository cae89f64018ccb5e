"""All faults, as a table by their names: each of these files puts its own into it."""
from fault_table import FAULTS, NOBODY
import lock_faults
import network_faults
import server_faults
import split_faults
import worker_faults

__all__ = ["FAULTS", "NOBODY", "lock_faults", "network_faults", "server_faults", "split_faults", "worker_faults"]
