"""A lock: acquire, work, release; for threads and for coroutines."""
from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import Any

from ._native import ffi, lib
from .client import Client, milliseconds
from .contest import Contest
from .errors import LockLost, MisuseError, SimbaError, check, make_error
from .values import Owner, now, text

# How long the main thread waits inside the library, where Ctrl-C cannot reach it, before another thread waits for it.
DIRECT_MS = 20


class Lock:
    """Held by one user at a time: while it is held or acquired, another acquire raises MisuseError. The library renews
    the lease; held turns false by the local clock before another contender can own."""

    def __init__(self, client: Client, name: str, *, timeout: float | None = None, id: str | None = None,
                 slots: int | None = None, names: Sequence[str] | None = None) -> None:
        self._client = client
        self._name = name
        self._slots = slots  # of a semaphore
        self._names = names  # of a set
        self._id = id
        self._timeout = timeout
        self._locker: Any = ffi.NULL
        self._contest: Contest | None = None
        self._in_use: Any = None  # the contest, or the locker, that holds or acquires
        self._fence = 0
        self._pid = os.getpid()
        self._free = threading.Condition(threading.RLock())  # guards the handle of the locker
        self._inside = 0  # threads that are in a call with it
        self._closed = False
        client.handle  # raises when it is closed
        client.add(self)

    def __repr__(self) -> str:
        return f"<simba_lock.Lock {self._name!r} {'held, fence ' + str(self._fence) if self.held else 'not held'}>"

    # ---- Questions, which need no store ----------------------------------------------------------

    @property
    def name(self) -> str:
        return self._name

    @property
    def held(self) -> bool:
        """Whether it is held at this instant."""
        if self._in_use is None or self._fence == 0:
            return False
        contest = self._contest
        if contest is not None and self._in_use is contest:
            return contest.is_owner()
        with self._free:
            return self._locker != ffi.NULL and bool(lib.simba_locker_is_held(self._locker))

    @property
    def fence(self) -> int:
        """The token of the term: each later term has a larger one. Raises LockLost when it is not held any more."""
        self.check()
        return self._fence

    @property
    def remaining(self) -> float:
        """Seconds until the lease must have been renewed; 0 when it is not held."""
        if not self.held:
            return 0.0
        contest = self._contest
        if contest is not None and self._in_use is contest:
            deadline = contest.deadline_ms()
        else:
            with self._free:
                deadline = int(lib.simba_locker_deadline_ms(self._locker)) if self._locker != ffi.NULL else 0
        return max(0.0, deadline / 1000 - now())

    @property
    def slot(self) -> int:
        """Of a semaphore that is held: from 0. Otherwise -1."""
        with self._free:
            return int(lib.simba_locker_slot(self._locker)) if self._locker != ffi.NULL and self.held else -1

    def fence_of(self, name: str) -> int:
        """The token of one mutex of a set."""
        self.check()
        with self._free:
            return int(lib.simba_locker_fence_of(self._locker, name.encode())) if self._locker != ffi.NULL else 0

    def check(self) -> None:
        """Raises LockLost unless the lock is held."""
        if not self.held:
            raise LockLost(f"'{self._name}' is not held" if self._fence == 0 else f"the lease of '{self._name}' was lost",
                           lib.SIMBA_ELOST)

    # ---- For threads -----------------------------------------------------------------------------

    def _make_locker(self) -> None:
        options = ffi.new("struct simba_locker_options *")
        lib.simba_python_init_locker_options(options)
        mutex = ffi.new("char[]", self._name.encode())
        id = ffi.new("char[]", self._id.encode()) if self._id is not None else ffi.NULL
        options.mutex, options.id = mutex, id
        options.user = ffi.NULL
        result, error = ffi.new("simba_locker **"), ffi.new("struct simba_error *")
        if self._slots is not None:
            code = lib.simba_semaphore_create(self._client.handle, self._slots, options, result, error)
        elif self._names is not None:
            strings = [ffi.new("char[]", name.encode()) for name in self._names]
            code = lib.simba_locker_create_set(self._client.handle, ffi.new("char *[]", strings), len(strings), options,
                                               result, error)
        else:
            code = lib.simba_locker_create(self._client.handle, options, result, error)
        check(code, error)
        self._locker = result[0]

    @contextmanager
    def _inside_locker(self) -> Iterator[None]:
        """Around calls that may wait: close() waits for their end."""
        with self._free:
            if self._closed:
                raise MisuseError(f"the lock '{self._name}' is closed", lib.SIMBA_EMISUSE)
            if self._locker == ffi.NULL:
                self._make_locker()
            self._inside += 1
        try:
            yield
        finally:
            with self._free:
                self._inside -= 1
                self._free.notify_all()

    def _call_acquire(self, timeout_ms: int, error: Any) -> int:
        return int(lib.simba_locker_acquire_timeout(self._locker, timeout_ms, error))

    def _wait_interruptibly(self, timeout_ms: int, error: Any) -> int:
        """The main thread waits where signals reach it."""
        done = threading.Event()
        codes: list[int] = []

        def run() -> None:
            codes.append(self._call_acquire(timeout_ms, error))
            done.set()

        threading.Thread(target=run, name="simba-acquire", daemon=True).start()
        try:
            done.wait()
        except BaseException:
            lib.simba_locker_cancel(self._locker)
            done.wait()
            if codes[0] == lib.SIMBA_OK:
                lib.simba_locker_release(self._locker, ffi.NULL)
            raise
        return codes[0]

    def _acquire(self, timeout_ms: int, error: Any) -> int:
        if threading.current_thread() is not threading.main_thread() or timeout_ms <= DIRECT_MS:
            return self._call_acquire(timeout_ms, error)
        code = self._call_acquire(DIRECT_MS, error)
        if lib.simba_error_group(code) not in (lib.SIMBA_GROUP_CONTENDED, lib.SIMBA_GROUP_UNAVAILABLE,
                                               lib.SIMBA_GROUP_UNKNOWN):
            return code
        left = timeout_ms if timeout_ms >= int(lib.SIMBA_INFINITE) - 1 else timeout_ms - DIRECT_MS
        return self._wait_interruptibly(left, error)

    def _begin(self, user: Any) -> None:
        self._client.handle  # raises when it is closed
        with self._free:
            if self._in_use is not None:
                raise MisuseError(f"'{self._name}' is already held or acquired by this Lock", lib.SIMBA_EBUSY)
            self._in_use = user

    def _won(self) -> None:
        self._fence = int(lib.simba_locker_fence(self._locker))
        self._client.hold(self)

    def acquire(self, timeout: float | None = None) -> None:
        """Waits until the lock is held, at most `timeout` seconds; raises Timeout then. None: the timeout of the lock."""
        limit = milliseconds(timeout if timeout is not None else self._timeout, int(lib.SIMBA_INFINITE))
        error = ffi.new("struct simba_error *")
        with self._inside_locker():
            self._begin(self._locker)
            try:
                check(self._acquire(limit, error), error)
            except BaseException:
                self._in_use = None
                raise
            self._won()

    def try_acquire(self) -> bool:
        """One attempt; False: another contender owns."""
        error = ffi.new("struct simba_error *")
        with self._inside_locker():
            self._begin(self._locker)
            code = lib.simba_locker_try_acquire(self._locker, error)
            if code == lib.SIMBA_OK:
                self._won()
                return True
            self._in_use = None
            if code == lib.SIMBA_ECONTENDED:
                return False
            raise make_error(code, error)

    def release(self) -> None:
        """Releases; raises LockLost if the lease was lost before. The lock is not held afterwards in any case."""
        if self._in_use is None or self._in_use is self._contest:
            raise MisuseError(f"'{self._name}' was not acquired by acquire()", lib.SIMBA_ESTATE)
        error = ffi.new("struct simba_error *")
        with self._inside_locker():
            try:
                check(lib.simba_locker_release(self._locker, error), error)
            finally:
                self._leave()

    def _leave(self) -> None:
        self._in_use = None
        self._fence = 0
        self._client.let_go(self)

    def owner(self) -> Owner | None:
        """The owner as far as the last acquire() learned it."""
        found = ffi.new("struct simba_owner *")
        with self._free:
            if self._locker == ffi.NULL:
                return None
            lib.simba_locker_owner(self._locker, found)
        return Owner.read(found)

    def releasing(self) -> AbstractContextManager[Lock]:
        """For a lock that try_acquire() or acquire() has acquired: `with` releases it."""
        return _Releasing(self)

    def __enter__(self) -> Lock:
        self.acquire()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        try:
            self.release()
        except SimbaError as error:
            if value is None:
                raise
            value.add_note(f"and the release failed: {error}")

    # ---- For coroutines --------------------------------------------------------------------------

    async def acquire_async(self, timeout: float | None = None) -> None:
        """The same for a coroutine. A cancelled wait leaves the queue by itself."""
        if self._closed:
            raise MisuseError(f"the lock '{self._name}' is closed", lib.SIMBA_EMISUSE)
        if self._slots is not None or self._names is not None:
            raise MisuseError("semaphores and sets are for threads: use asyncio.to_thread", lib.SIMBA_EUNSUPPORTED)
        if self._contest is None:
            self._contest = Contest(self._client, self._name, self._id)
        contest = self._contest
        self._begin(contest)
        try:
            await contest.acquire(timeout if timeout is not None else self._timeout)
        except BaseException:
            self._in_use = None
            raise
        self._fence = contest.fence
        self._client.hold(self)

    async def release_async(self) -> None:
        if self._in_use is None or self._in_use is not self._contest:
            raise MisuseError(f"'{self._name}' was not acquired by acquire_async()", lib.SIMBA_ESTATE)
        try:
            await self._contest.release()
        finally:
            self._leave()

    async def __aenter__(self) -> Lock:
        await self.acquire_async()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, value: BaseException | None,
                        trace: TracebackType | None) -> None:
        try:
            await self.release_async()
        except SimbaError as error:
            if value is None:
                raise
            value.add_note(f"and the release failed: {error}")

    # ---- Life ------------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """The contender's id on the store."""
        contest = self._contest
        if contest is not None and self._in_use is contest:
            return contest.id
        with self._inside_locker():
            return text(lib.simba_locker_id(self._locker))

    def close(self) -> None:
        """Releases if it is held, ends an acquire of another thread, and frees what belongs to it. A lock that is not
        referred to any more closes itself; one that is held is referred to by its client."""
        if self._pid != os.getpid():
            return
        with self._free:
            self._closed = True
            while self._inside > 0:
                lib.simba_locker_cancel(self._locker)
                self._free.wait(0.1)
            locker, self._locker = self._locker, ffi.NULL
        if locker != ffi.NULL:
            lib.simba_locker_close(locker)
        if self._contest is not None:
            self._contest.close()
        self._leave()

    def __del__(self) -> None:
        try:
            self.close()
        except (SimbaError, AttributeError):
            pass  # it was not made, or the interpreter ends


class _Releasing(AbstractContextManager[Lock]):
    def __init__(self, lock: Lock) -> None:
        self._lock = lock

    def __enter__(self) -> Lock:
        return self._lock

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._lock.__exit__(kind, value, trace)
