"""The clock that all processes of a host share, and bounded waits on it."""
import time

PATIENCE = 60  # seconds for what should happen soon; long, because machines can be slow


def now():
    """Seconds on the boot clock, which leases are counted on."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def now_ns():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def wait_until(condition, what=None, patience=PATIENCE):
    """Waits for a condition and returns what it came to."""
    end = now() + patience
    while not (value := condition()):
        if now() > end:
            raise TimeoutError(f"did not come true within {patience:.0f} s: {what or condition.__name__}")
        time.sleep(0.005)
    return value
