"""The clock of all journals, and bounded waits on it."""
import time

PATIENCE = 60


def now():
    """Seconds on the boot clock, which all processes of a host share."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def now_ns():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def wait_until(condition, what, patience=PATIENCE):
    """Waits for a condition and returns what it came to."""
    end = now() + patience
    while True:
        value = condition()
        if value:
            return value
        if now() > end:
            raise TimeoutError(f"did not come true within {patience:.0f} s: {what}")
        time.sleep(0.005)
