"""Processes that the harness starts, stops, freezes and kills: by their ids, never by a name."""
import contextlib
import ctypes
import glob
import os
import signal
import subprocess

from clock import wait_until
from servers import as_user

PR_SET_CHILD_SUBREAPER = 36
END_SECONDS = 45  # without a store contenders, slots and sets of a worker take 10 s each, one after the other

DIE_WITH_PARENT = ["setpriv", "--pdeathsig", "KILL", "--"]  # it becomes the command


def adopt_orphans():
    """What loses its parent below the harness becomes its child, so that nothing can hide."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)


@contextlib.contextmanager
def inherited_block(number):
    """A process that is started meanwhile is not ended by the signal before it is ready to take it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {number})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def children_of(pid):
    found = []
    for path in glob.glob(f"/proc/{pid}/task/*/children"):
        try:
            with open(path, encoding="ascii") as file:
                found += [int(word) for word in file.read().split()]
        except OSError:  # it went while it was looked at
            pass
    return found


def tree_of(pid):
    """A process and all below it."""
    found = [pid]
    for child in children_of(pid):
        found += tree_of(child)
    return found


def send(pid, number):
    """To a process that may have gone meanwhile."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def reap(pid):
    """Buries an orphan that ended; whether it is gone. Children of its own somebody else waits for."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass
    return not os.path.exists(f"/proc/{pid}")


class Process:
    """One process, with what it says in a file."""

    def __init__(self, command, log, user=None, environment=None, folder=None):
        with open(log, "ab") as output:
            self.handle = subprocess.Popen(
                [*DIE_WITH_PARENT, *command], stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                cwd=folder, env={**os.environ, **(environment or {})}, start_new_session=True,
                **as_user(user))
        self.pid = self.handle.pid

    def is_up(self):
        return self.handle.poll() is None

    def freeze(self):
        """With all below it; what was started meanwhile is caught by the second round."""
        for _ in range(2):
            for pid in tree_of(self.pid):
                send(pid, signal.SIGSTOP)

    def go_on(self):
        for pid in tree_of(self.pid):
            send(pid, signal.SIGCONT)

    def kill(self):
        """With all below it, until all are gone: processes of a server may share memory and files."""
        first, *others = tree_of(self.pid)
        for pid in (first, *others):
            send(pid, signal.SIGKILL)
        self.handle.wait()
        wait_until(lambda: all(reap(pid) for pid in others), "its processes are gone")

    def ask_to_end(self):
        self.go_on()
        send(self.pid, signal.SIGTERM)

    def end(self):
        """Waits until it has ended as asked; returns its exit code, or None when it had to be killed."""
        try:
            return self.handle.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            return None
