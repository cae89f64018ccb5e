"""A contender as a coroutine waits for it. All of it runs on one event loop, but for questions and close()."""
from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from ._native import ffi, lib
from .client import Client, call_in
from .errors import AccessDenied, ConfigError, LockLost, MisuseError, SimbaError, Timeout, check, make_error
from .values import encode, text

# How often a wait asks whether the store refuses for good, in seconds.
LOOK_EVERY = 1.0
# How long a wait that has run out may take to leave the queue, in seconds.
CLEAN_UP = 0.2


class Contest:
    """Competes for a mutex, from acquire to release."""

    def __init__(self, client: Client, name: str, id: str | None = None, pull: int = 0) -> None:
        options = ffi.new("struct simba_contender_options *")
        lib.simba_python_init_contender_options(options)
        mutex = ffi.new("char[]", encode(name))
        given = ffi.new("char[]", encode(id)) if id is not None else ffi.NULL
        options.mutex, options.id, options.pull = mutex, given, pull
        options.user = client.listen(self._pass_on)
        result, error = ffi.new("simba_contender **"), ffi.new("struct simba_error *")
        self._lock = threading.RLock()  # guards the handle
        with client.usage.inside():
            client.usage.refuse()
            code = lib.simba_contender_create(client.handle, options, result, error)
            if code != lib.SIMBA_OK:
                client.forget(options.user)
                raise make_error(code, error)
            self.handle: Any = result[0]
            self.id = text(lib.simba_contender_id(self.handle))
            client.add(self)
        self._client = client
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._running = False  # between a start and its STOPPED
        self._leaving = False  # a stop was begun
        self._retired = False  # to be closed when it has stopped
        self._code = int(lib.SIMBA_OK)  # of the last stop
        self.fence = 0  # of the term that was won; 0: none
        self.lost = False
        self.on_change: Callable[[], None] | None = None
        self._waiters: list[asyncio.Future[None]] = []

    # ---- Events --------------------------------------------------------------------------------

    def _pass_on(self, event: Any) -> None:
        if self._loop is not None:
            call_in(self._loop, self._take, int(event.type), int(event.fence), int(event.code))

    def _take(self, kind: int, fence: int, code: int) -> None:
        if kind == lib.SIMBA_EVENT_ACQUIRED and not self._leaving:
            self.fence = fence
        elif kind == lib.SIMBA_EVENT_RELEASED and not self._leaving:
            self.lost = True
        elif kind == lib.SIMBA_EVENT_STOPPED and self._running:  # not closed meanwhile
            self._code = code
            self._running = False
            self._leaving = False
            if self._retired:
                self.close()
        self._wake()
        if self.on_change is not None:
            self.on_change()

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()

    async def _until(self, done: Callable[[], bool], deadline: float | None) -> bool:
        """Waits; False: the deadline came first."""
        assert self._loop is not None
        while not done():
            left = None if deadline is None else deadline - self._loop.time()
            if left is not None and left <= 0:
                return False
            waiter = self._loop.create_future()
            self._waiters.append(waiter)
            try:
                await asyncio.wait({waiter}, timeout=left)  # wait_for of 3.11 can swallow a cancellation
            finally:
                if waiter in self._waiters:
                    self._waiters.remove(waiter)
        return True

    # ---- Acquire and release -------------------------------------------------------------------

    def is_owner(self) -> bool:
        if self.fence == 0 or self.lost or self._client.usage.is_forked:
            return False
        with self._lock:
            return self.handle != ffi.NULL and self.fence == int(lib.simba_contender_fence(self.handle))

    def begin_stop(self) -> None:
        """Leaves the contest, or releases; STOPPED tells the end."""
        with self._lock:
            if self._running and not self._leaving and self.handle != ffi.NULL:
                self._leaving = True
                lib.simba_contender_begin_stop(self.handle, ffi.NULL)

    def _start(self) -> None:
        assert self._loop is not None
        error = ffi.new("struct simba_error *")
        self._client.attach(self._loop)
        with self._lock:
            if self.handle == ffi.NULL:
                raise self._closed()
            self.fence, self.lost = 0, False
            check(lib.simba_contender_start(self.handle, error), error)
            self._running = True

    def _closed(self) -> SimbaError:
        return MisuseError(f"the lock '{self._name}' is closed", lib.SIMBA_ECLOSED)

    def _last_error(self) -> SimbaError | None:
        error = ffi.new("struct simba_error *")
        with self._lock:
            if self.handle == ffi.NULL:
                return self._closed()
            code = lib.simba_contender_last_error(self.handle, error)
        return make_error(code, error) if code != lib.SIMBA_OK else None

    def _refusal(self) -> SimbaError | None:
        """Why waiting will not help."""
        found = self._last_error()
        return found if isinstance(found, (AccessDenied, ConfigError, MisuseError)) else None

    def _timeout(self) -> SimbaError:
        return self._last_error() or Timeout(f"'{self._name}' was not acquired in time", lib.SIMBA_ETIMEDOUT)

    async def _wait_win(self, deadline: float | None) -> SimbaError | None:
        assert self._loop is not None
        while True:
            look = self._loop.time() + LOOK_EVERY
            first = look if deadline is None else min(look, deadline)
            if await self._until(lambda: self.fence != 0 or not self._running, first):
                if self.is_owner():
                    return None
                self.fence, self.lost = 0, False  # won and lost before it was seen: go on
            refusal = self._refusal()
            if refusal is not None:
                return refusal
            if deadline is not None and self._loop.time() >= deadline:
                return self._timeout()

    async def acquire(self, timeout: float | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        deadline = None if timeout is None else self._loop.time() + timeout
        if not await self._until(lambda: not self._running, deadline):
            raise self._timeout()
        self._start()
        try:
            failure = await self._wait_win(deadline)
        except BaseException:
            self.begin_stop()
            raise
        if failure is not None:
            self.begin_stop()
            await self._until(lambda: not self._running, self._loop.time() + CLEAN_UP)
            raise failure

    async def release(self) -> None:
        lost = not self.is_owner()  # known by the clock before the event comes
        self.begin_stop()
        await self._until(lambda: not self._running, None)
        self.fence = 0
        if lost or self._code == lib.SIMBA_ELOST:
            raise LockLost(f"'{self._name}' was lost before it was released", lib.SIMBA_ELOST)
        if self._code != lib.SIMBA_OK:
            raise make_error(self._code)

    def deadline_ms(self) -> int:
        with self._lock:
            return int(lib.simba_contender_deadline_ms(self.handle)) if self.handle != ffi.NULL else 0

    def window_ms(self) -> int:
        """How long before the deadline the renewals begin."""
        with self._lock:
            return int(lib.simba_contender_window_ms(self.handle)) if self.handle != ffi.NULL else 0

    def retire(self) -> None:
        """Closes without waiting for the store: what was left or released before may still be on its way."""
        self._retired = True
        if self._running and self._loop is not None and not self._loop.is_closed():
            self.begin_stop()
        else:
            self.close()

    def close(self) -> None:
        """Stops and destroys; waits for the store."""
        if self._client.usage.is_forked:
            return
        with self._lock:
            handle, self.handle = self.handle, ffi.NULL
            self._running = False
        if handle == ffi.NULL:
            return
        lib.simba_contender_close(handle)
        self._client.pump_if_free()
        if self._loop is not None:
            call_in(self._loop, self._wake)
