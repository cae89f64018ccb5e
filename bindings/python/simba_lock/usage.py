"""Who is inside the calls of a handle, so that a handle is destroyed only when nobody is."""
from __future__ import annotations

import os
import threading
from collections.abc import Callable

from ._native import lib
from .errors import MisuseError


class Usage:
    """`with` stands around each call that may wait. It refuses what is closed, and what belongs to the parent process.
    Calls that cannot wait hold `lock` instead, and look whether the handle is still there."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._pid = os.getpid()
        self._inside: dict[int, int] = {}  # thread -> how many calls
        self._ended = False
        self.lock = threading.RLock()  # a signal's handler and __del__ may run inside
        self._changed = threading.Condition(self.lock)

    @property
    def is_forked(self) -> bool:
        """In a child of fork, where the locks may be held for good."""
        return self._pid != os.getpid()

    def refuse(self) -> None:
        """Raises MisuseError if it is closed or forked."""
        if self.is_forked:
            raise MisuseError(f"the {self._what} belongs to the parent process", lib.SIMBA_EFORKED)
        if self._ended:
            raise MisuseError(f"the {self._what} is closed", lib.SIMBA_EMISUSE)

    def __enter__(self) -> None:
        self.refuse()  # in a child of fork, before the lock
        with self.lock:
            self.refuse()
            thread = threading.get_ident()
            self._inside[thread] = self._inside.get(thread, 0) + 1

    def __exit__(self, *ignored: object) -> None:
        with self.lock:
            thread = threading.get_ident()
            if self._inside[thread] == 1:
                del self._inside[thread]
            else:
                self._inside[thread] -= 1
            self._changed.notify_all()

    def refuse_end(self) -> None:
        """Raises MisuseError in a signal's handler that has interrupted a call."""
        if threading.get_ident() in self._inside:
            raise MisuseError(f"the {self._what} cannot be closed by a signal's handler inside of its call: "
                              "raise an exception there", lib.SIMBA_EBUSY)

    def end(self, cancel: Callable[[], None] | None = None) -> None:
        """Refuses new calls, and waits for those of other threads, which `cancel` ends sooner."""
        with self.lock:
            self.refuse_end()
            self._ended = True
            while self._inside:
                if cancel is not None:
                    cancel()
                self._changed.wait(0.1)
