"""A lock: acquire, work, release; for threads and for coroutines."""
from __future__ import annotations

import _thread
import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, TypeVar

from ._native import ffi, lib
from .client import Client, call_in, milliseconds
from .contest import Contest
from .errors import LockLost, MisuseError, SimbaError, Timeout, check, make_error
from .usage import Usage
from .values import Owner, encode, now, text

Result = TypeVar("Result")

# How long the main thread waits inside the library, where Ctrl-C cannot reach it, before another thread waits for it.
DIRECT_MS = 20


class _Wait:
    """A wait that a thread does for another one, or for a coroutine. Guarded by the lock of the usage."""

    def __init__(self) -> None:
        self.is_begun = False
        self.is_over = False
        self.is_abandoned = False
        self.code = int(lib.SIMBA_OK)


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
        self._made = ffi.new("simba_locker **")  # the library writes it, so that no interrupt can lose a locker
        self._contest: Contest | None = None
        self._in_use: object | None = None  # the contest, or what stands for an acquire of the locker
        self._fence = 0
        self.usage = Usage(f"lock '{name}'")
        self._free = self.usage.lock  # guards the handle of the locker
        self._leaving = threading.Event()  # clear: an abandoned wait gives back what it has won
        self._leaving.set()
        client.usage.refuse()
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
        if self._in_use is None or self._fence == 0 or self.usage.is_forked:
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
        if not self.held:
            return -1
        with self._free:
            return int(lib.simba_locker_slot(self._locker)) if self._locker != ffi.NULL else -1

    def fence_of(self, name: str) -> int:
        """The token of one mutex of a set."""
        self.check()
        with self._free:
            return int(lib.simba_locker_fence_of(self._locker, encode(name))) if self._locker != ffi.NULL else 0

    def check(self) -> None:
        """Raises LockLost unless the lock is held."""
        if not self.held:
            raise LockLost(f"'{self._name}' is not held" if self._fence == 0 else f"the lease of '{self._name}' was lost",
                           lib.SIMBA_ELOST)

    # ---- For threads -----------------------------------------------------------------------------

    @property
    def _locker(self) -> Any:
        return self._made[0]

    def _make_locker(self) -> None:
        options = ffi.new("struct simba_locker_options *")
        lib.simba_python_init_locker_options(options)
        mutex = ffi.new("char[]", encode(self._name))
        id = ffi.new("char[]", encode(self._id)) if self._id is not None else ffi.NULL
        options.mutex, options.id = mutex, id
        result, error = self._made, ffi.new("struct simba_error *")
        with self._client.usage.inside():
            self._client.usage.refuse()
            client = self._client.handle
            if self._slots is not None:
                code = lib.simba_semaphore_create(client, self._slots, options, result, error)
            elif self._names is not None:
                strings = [ffi.new("char[]", encode(name)) for name in self._names]
                code = lib.simba_locker_create_set(client, ffi.new("char *[]", strings), len(strings), options, result,
                                                   error)
            else:
                code = lib.simba_locker_create(client, options, result, error)
            check(code, error)

    def _drop_locker(self) -> None:
        """Releases what it holds. Nobody else is inside of its calls."""
        with self._free:
            locker, self._made[0] = self._locker, ffi.NULL
        if locker != ffi.NULL:
            lib.simba_locker_close(locker)
            self._client.pump_if_free()

    def _call_acquire(self, timeout_ms: int, error: Any) -> int:
        return int(lib.simba_locker_acquire_timeout(self._locker, timeout_ms, error))

    def _wait_interruptibly(self, timeout_ms: int, error: Any) -> int:
        """The main thread waits where signals reach it."""
        done = threading.Lock()  # an Event that is interrupted can stay locked
        done.acquire()
        wait = _Wait()

        def run() -> None:
            with self._free:
                if wait.is_abandoned:
                    return
                wait.is_begun = True
            wait.code = self._call_acquire(timeout_ms, error)
            wait.is_over = True
            done.release()

        try:
            _thread.start_new_thread(run, ())
            done.acquire()
        except BaseException:
            with self._free:
                wait.is_abandoned = True
                lib.simba_locker_cancel(self._locker)
            while wait.is_begun and not wait.is_over:
                try:
                    done.acquire()
                except KeyboardInterrupt:  # the first one is raised
                    pass
            raise
        return wait.code

    def _acquire_locker(self, timeout_ms: int, error: Any) -> int:
        if threading.current_thread() is not threading.main_thread() or timeout_ms <= DIRECT_MS:
            return self._call_acquire(timeout_ms, error)
        code = self._call_acquire(DIRECT_MS, error)
        goes_on = (lib.SIMBA_GROUP_CONTENDED, lib.SIMBA_GROUP_UNAVAILABLE, lib.SIMBA_GROUP_UNKNOWN)
        if code == lib.SIMBA_ECANCELED or lib.simba_error_group(code) not in goes_on:
            return code
        left = timeout_ms if timeout_ms >= int(lib.SIMBA_INFINITE) - 1 else timeout_ms - DIRECT_MS
        return self._wait_interruptibly(left, error)

    def _begin(self, user: object) -> None:
        with self._free:
            self.usage.refuse()
            self._client.usage.refuse()
            if self._in_use is not None or not self._leaving.is_set():
                raise MisuseError(f"'{self._name}' is already held or acquired by this Lock", lib.SIMBA_EBUSY)
            self._in_use = user
            if not isinstance(user, Contest) and self._locker == ffi.NULL:
                try:
                    self._make_locker()
                except BaseException:
                    self._in_use = None
                    raise

    def _won(self) -> None:
        self._fence = int(lib.simba_locker_fence(self._locker))
        self._client.hold(self)

    def _give_back(self, user: object) -> None:
        """After an interrupt or a cancel: whatever it has won, and nothing of another acquire. The next one gets a new
        locker, which no late cancel can end."""
        try:
            with self.usage.inside():
                self.usage.refuse()
                with self._free:
                    mine = self._in_use is user  # if not, another thread has begun to release it
                    if mine:
                        self._fence = 0  # from now on nobody does
                if mine:
                    self._drop_locker()
                    self._leave()
        except MisuseError:
            pass  # closed: that does the same

    def _give_back_whole(self, user: object) -> None:
        """The same; another interrupt ends the wait for it, not the clean-up."""
        over = threading.Lock()
        over.acquire()

        def run() -> None:
            try:
                self._give_back(user)
            finally:
                over.release()

        try:
            _thread.start_new_thread(run, ())
        except RuntimeError:  # threads are short, or the interpreter ends
            self._give_back(user)
        else:
            over.acquire()

    def _too_late(self) -> Timeout:
        return Timeout(f"'{self._name}' was not acquired in time", lib.SIMBA_ETIMEDOUT)

    def _limit(self, timeout: float | None) -> int:
        return milliseconds(timeout if timeout is not None else self._timeout, int(lib.SIMBA_INFINITE))

    def _acquire_as(self, user: object, once: bool, limit_ms: int) -> bool:
        """False: of a single attempt that found another owner."""
        error = ffi.new("struct simba_error *")
        with self.usage.inside():
            self.usage.refuse()
            code = int(lib.simba_locker_try_acquire(self._locker, error) if once
                       else self._acquire_locker(limit_ms, error))
            if code == lib.SIMBA_OK:
                self._won()
                return True
        if once and code == lib.SIMBA_ECONTENDED:
            return False
        raise make_error(code, error)

    def _acquire(self, once: bool, limit_ms: int) -> bool:
        user = object()
        self.usage.refuse()
        if not self._leaving.is_set() and not self._leaving.wait(None if once or limit_ms >= int(lib.SIMBA_INFINITE) - 1 else limit_ms / 1000):
            raise self._too_late()
        try:
            self._begin(user)
            won = self._acquire_as(user, once, limit_ms)
            if not won:
                self._leave()
            return won
        except SimbaError:
            if self._in_use is user:
                self._leave()
            raise
        except BaseException:
            self._give_back_whole(user)
            raise

    def acquire(self, timeout: float | None = None) -> None:
        """Waits until the lock is held, at most `timeout` seconds; raises Timeout then. None: the timeout of the lock."""
        self._acquire(False, self._limit(timeout))

    def try_acquire(self) -> bool:
        """One attempt; False: another contender owns."""
        return self._acquire(True, 0)

    def release(self) -> None:
        """Releases; raises LockLost if the lease was lost before. The lock is not held afterwards in any case."""
        claim = object()
        with self.usage.inside():
            self.usage.refuse()
            error = ffi.new("struct simba_error *")
            try:
                self._claim(claim)
                code = int(lib.simba_locker_release(self._locker, error))
            except SimbaError:
                raise
            except BaseException:
                self._give_back_whole(claim)
                raise
            self._leave()
        check(code, error)

    def _claim(self, claim: object) -> None:
        """The lock belongs to who releases it, also if the acquire of another thread has not returned yet."""
        with self._free:
            user = self._in_use
            if user is None or isinstance(user, Contest) or self._fence == 0 or not self._leaving.is_set():
                raise MisuseError(f"'{self._name}' was not acquired by acquire()", lib.SIMBA_ESTATE)
            self._in_use = claim

    def _leave(self) -> None:
        self._fence = 0
        self._in_use = None
        self._client.let_go(self)

    def owner(self) -> Owner | None:
        """The owner as far as the last acquire() learned it."""
        found = ffi.new("struct simba_owner *")
        if self.usage.is_forked:
            return None
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

    @property
    def _is_one(self) -> bool:
        """One mutex. Semaphores and sets compete for several, as planned by a thread that waits."""
        return self._slots is None and self._names is None

    async def acquire_async(self, timeout: float | None = None) -> None:
        """The same for a coroutine. A cancelled wait leaves the queue by itself."""
        timeout = timeout if timeout is not None else self._timeout
        self.usage.refuse()
        if not self._is_one:
            await self._acquire_by_thread(timeout)
            return
        if self._contest is None:
            self._contest = Contest(self._client, self._name, self._id)
        contest = self._contest
        self._begin(contest)
        try:
            await contest.acquire(timeout)
        except BaseException:
            self._in_use = None
            raise
        self._fence = contest.fence
        self._client.hold(self)

    async def release_async(self) -> None:
        self.usage.refuse()
        if not self._is_one:
            await _in_thread(self.release)
            return
        contest = self._contest
        if contest is None or self._in_use is not contest:
            raise MisuseError(f"'{self._name}' was not acquired by acquire_async()", lib.SIMBA_ESTATE)
        try:
            await contest.release()
        finally:
            self._leave()

    async def _acquire_by_thread(self, timeout: float | None) -> None:
        limit_ms = self._limit(timeout)
        began = now()
        while not self._leaving.is_set():
            left = limit_ms / 1000 - (now() - began)
            if not await _in_thread(lambda: self._leaving.wait(min(left, 3600.0))) and left <= 0:
                raise self._too_late()
        wait, user = _Wait(), object()

        def run() -> None:
            try:
                self._acquire_as(user, False, limit_ms)
            finally:
                with self._free:
                    wait.is_over = True
                    abandoned = wait.is_abandoned
                if abandoned:
                    self._abandon(user)

        self._begin(user)
        try:
            await _in_thread(run)
        except SimbaError:
            if self._in_use is user:
                self._leave()
            raise
        except BaseException:
            with self._free:
                if self._in_use is not user:
                    raise  # another thread has begun to release it
                self._leaving.clear()
                wait.is_abandoned = True
                over = wait.is_over
                if not over:
                    self._cancel()
            if over:
                threading.Thread(target=self._abandon, args=[user], name="simba-release", daemon=True).start()
            raise

    def _abandon(self, user: object) -> None:
        self._give_back(user)
        self._leaving.set()

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
        self.usage.refuse()
        with self._free:
            if self._locker == ffi.NULL:
                self._make_locker()
            return text(lib.simba_locker_id(self._locker))

    def _cancel(self) -> None:
        if self._locker != ffi.NULL:
            lib.simba_locker_cancel(self._locker)

    def close(self) -> None:
        """Releases if it is held, ends an acquire of another thread, and frees what belongs to it. A lock that is not
        referred to any more closes itself; one that is held is referred to by its client."""
        if self.usage.is_forked:
            return
        self.usage.begin_end()
        with self._free:
            self._cancel()
        self.usage.end()
        self._drop_locker()
        if self._contest is not None:
            self._contest.close()
        self._leave()

    def __del__(self) -> None:
        try:
            contest, self._contest = self._contest, None
            if contest is not None and not self.usage.is_forked:
                contest.retire()
            self.close()
        except (SimbaError, AttributeError):
            pass  # it was not made


async def _in_thread(function: Callable[[], Result]) -> Result:
    """In a thread of its own: one that waits must not take the place of one that releases."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Result] = loop.create_future()

    def tell(result: Result | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]

    work = [function]
    del function

    def run() -> None:
        try:
            result = work[0]()
        except BaseException as error:
            work.clear()
            call_in(loop, tell, None, error)
        else:
            work.clear()  # else this thread could be the last to know a lock, and close it while its client closes
            call_in(loop, tell, result, None)

    threading.Thread(target=run, name="simba-wait", daemon=True).start()
    return await future


class _Releasing(AbstractContextManager[Lock]):
    def __init__(self, lock: Lock) -> None:
        self._lock = lock

    def __enter__(self) -> Lock:
        return self._lock

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._lock.__exit__(kind, value, trace)
