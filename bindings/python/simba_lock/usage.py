"""Who is inside the calls of a handle, so that a handle is destroyed only when nobody is."""
from __future__ import annotations

import os
import threading
import weakref
from typing import Any

from ._native import lib
from .errors import MisuseError


class Usage:
    """`with usage.inside(): usage.refuse()` begins each call that may wait. Calls that cannot wait hold `lock` instead,
    and look whether the handle is still there.

    All locks are RLocks: their `with` is one step for the interpreter, so that no KeyboardInterrupt leaves one held; and
    a signal's handler or __del__ may come inside."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._pid = os.getpid()
        self._ended = False
        self._mine = threading.local()
        self._all: weakref.WeakSet[Any] = weakref.WeakSet()  # the lock of each thread
        self.lock = threading.RLock()

    @property
    def is_forked(self) -> bool:
        """In a child of fork, where the locks may be held for good."""
        return self._pid != os.getpid()

    def refuse(self) -> None:
        """Raises MisuseError if it is closed or forked."""
        if self.is_forked:
            raise MisuseError(f"the {self._what} belongs to the parent process", lib.SIMBA_EFORKED)
        if self._ended:
            raise MisuseError(f"the {self._what} is closed", lib.SIMBA_ECLOSED)

    def inside(self) -> Any:
        """The lock that this thread holds while it is inside."""
        self.refuse()  # before a lock that a fork has left held
        lock = getattr(self._mine, "lock", None)
        if lock is None:
            lock = threading.RLock()
            with self.lock:
                self._all.add(lock)
            self._mine.lock = lock
        return lock

    def refuse_end(self) -> None:
        """Raises MisuseError in a signal's handler that has interrupted a call."""
        lock = getattr(self._mine, "lock", None)
        if lock is not None and lock._is_owned():
            raise MisuseError(f"the {self._what} cannot be closed by a signal's handler inside of its call: "
                              "raise an exception there", lib.SIMBA_EBUSY)

    def begin_end(self) -> None:
        """Refuses new calls."""
        self.refuse_end()
        self._ended = True

    def end(self) -> None:
        """Waits for the calls of other threads."""
        with self.lock:
            locks = list(self._all)
        for lock in locks:
            with lock:
                pass
