"""The client: one store, one thread of the library, and everything made from it."""
from __future__ import annotations

import asyncio
import os
import select
import threading
import weakref
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from . import _log
from ._native import ffi, lib
from .errors import ConfigError, MisuseError, SimbaError, check
from .values import MutexStatus, Owner, Waiter, text

if TYPE_CHECKING:
    from .leader import Leader, Term
    from .lock import Lock
    from .watch import Watch

Result = TypeVar("Result")
EventHandler = Callable[[Any], None]


class _Object(Protocol):
    """What is made from a client and closed with it."""

    def close(self) -> None: ...


def milliseconds(value: float | None, unset: int) -> int:
    """Seconds as the library takes them; None is `unset`."""
    if value is None:
        return unset
    if not value >= 0:
        raise ConfigError(f"{value!r} is not a number of seconds")
    return min(round(value * 1000), int(lib.SIMBA_INFINITE) - 1)


class Client:
    """The connection to one store. Threads may share it; a process that was forked opens its own."""

    def __init__(self, url: str | None = None, *, config: str | os.PathLike[str] | None = None, ttl: float | None = None,
                 transition: float | None = None, allow_store_down: bool = False) -> None:
        self._handle: Any = ffi.NULL
        self._handlers: dict[int, EventHandler] = {}
        self._next_user = 1
        self._objects: weakref.WeakSet[Any] = weakref.WeakSet()
        self._held: set[_Object] = set()  # so that none is collected while it holds a mutex
        self._lock = threading.Lock()
        self._pump_lock = threading.Lock()
        self._readers: dict[asyncio.AbstractEventLoop, int] = {}
        self._thread: threading.Thread | None = None
        self._thread_end = (-1, -1)
        self._pid = os.getpid()
        options = ffi.new("struct simba_client_options *")
        lib.simba_python_client_options(options)
        options.ttl_ms = milliseconds(ttl, lib.SIMBA_UNSET)
        options.transition_ms = milliseconds(transition, lib.SIMBA_UNSET)
        options.allow_store_down = allow_store_down
        options.log_level = _log.level_wanted()
        _log.start()
        if url is None and config is None:
            url = os.environ.get("SIMBA_URL")
            if url is None:
                raise ConfigError("no store is named: pass a URL or a configuration file, or set SIMBA_URL")
        if url is not None and config is not None:
            raise ConfigError("pass a URL or a configuration file, not both")
        error, result = ffi.new("struct simba_error *"), ffi.new("simba_client **")
        if url is not None:
            check(lib.simba_client_open(url.encode(), options, result, error), error)
        else:
            assert config is not None
            check(lib.simba_client_open_config(os.fsencode(config), options, result, error), error)
        self._handle = result[0]
        self._fd = int(lib.simba_client_event_fd(self._handle))

    # ---- Life ---------------------------------------------------------------------------------

    @property
    def handle(self) -> Any:
        """For the other modules of this package."""
        if self._handle == ffi.NULL:
            raise MisuseError("the client is closed", lib.SIMBA_EMISUSE)
        return self._handle

    def close(self) -> None:
        """Releases what is held, and closes everything made from the client."""
        if self._handle == ffi.NULL or self._pid != os.getpid():
            return
        for made in list(self._objects):
            made.close()
        self._end_thread()
        for loop in list(self._readers):
            if not loop.is_closed():
                loop.call_soon_threadsafe(loop.remove_reader, self._fd)
        self._readers.clear()
        error = ffi.new("struct simba_error *")
        with self._pump_lock:
            check(lib.simba_client_close(self._handle, error), error)
            self._handle = ffi.NULL
        self._held.clear()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, value: BaseException | None,
                        trace: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        try:
            self.close()
        except (SimbaError, AttributeError):
            pass  # a thread is inside, or the interpreter ends: the leases run out by themselves

    # ---- For what is made from a client --------------------------------------------------------

    def add(self, made: _Object) -> None:
        self._objects.add(made)

    def hold(self, made: _Object) -> None:
        self._held.add(made)

    def let_go(self, made: _Object) -> None:
        self._held.discard(made)

    def listen(self, handler: EventHandler) -> Any:
        """Has the handler called with the events of an object whose `user` is the result."""
        with self._lock:
            user = self._next_user
            self._next_user += 1
            self._handlers[user] = handler
        return ffi.cast("void *", user)

    def pump(self) -> None:
        """Takes all events there are. A handler passes on what it is told, and does not wait."""
        with self._pump_lock:
            if self._handle == ffi.NULL:
                return
            while True:
                event = ffi.new("struct simba_event *")
                error = ffi.new("struct simba_error *")
                lib.simba_python_init_event(event)
                check(lib.simba_client_next_event(self._handle, event, error), error)
                if event.type == lib.SIMBA_EVENT_NONE:
                    return
                user = int(ffi.cast("uintptr_t", event.user))
                handler = self._handlers.get(user)
                if event.type == lib.SIMBA_EVENT_CLOSED:
                    self._handlers.pop(user, None)
                elif handler is not None:
                    handler(event)

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Lets an event loop take the events, until as many calls of detach."""
        with self._lock:
            count = self._readers.get(loop, 0)
            self._readers[loop] = count + 1
        if count == 0:
            loop.add_reader(self._fd, self.pump)

    def detach(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._lock:
            count = self._readers.get(loop, 0)
            if count == 0:
                return
            self._readers[loop] = count - 1
            if count > 1:
                return
            del self._readers[loop]
        loop.remove_reader(self._fd)

    def _run_thread(self) -> None:
        while True:
            ready, _, _ = select.select([self._fd, self._thread_end[0]], [], [])
            if self._thread_end[0] in ready:
                return
            self.pump()

    def start_thread(self) -> None:
        """Lets a thread take the events, for those who wait outside an event loop."""
        with self._lock:
            if self._thread is not None:
                return
            self._thread_end = os.pipe()
            self._thread = threading.Thread(target=self._run_thread, name="simba-events", daemon=True)
            self._thread.start()

    def _end_thread(self) -> None:
        if self._thread is None:
            return
        os.write(self._thread_end[1], b"x")
        self._thread.join()
        for end in self._thread_end:
            os.close(end)
        self._thread = None

    # ---- What it is for ------------------------------------------------------------------------

    def lock(self, name: str, *, timeout: float | None = None, id: str | None = None) -> Lock:
        """A lock; `with` or `async with` acquires it, within `timeout` seconds if that is given."""
        from .lock import Lock

        return Lock(self, name, timeout=timeout, id=id)

    def semaphore(self, name: str, slots: int, *, timeout: float | None = None, id: str | None = None) -> Lock:
        """A lock that `slots` users can hold at a time; lock.slot tells which of them this one is. For threads."""
        from .lock import Lock

        return Lock(self, name, timeout=timeout, id=id, slots=slots)

    def lock_all(self, *names: str, timeout: float | None = None, id: str | None = None) -> Lock:
        """A lock of several mutexes, all or none; lock.fence_of tells the token of each. For threads."""
        from .lock import Lock

        return Lock(self, " ".join(names), timeout=timeout, id=id, names=names)

    def leader(self, name: str, *, id: str | None = None) -> Callable[[Callable[[Term], Awaitable[Result]]], Leader[Result]]:
        """A decorator for `async def main(term)`, which runs while this process leads; see Leader."""
        from .leader import Leader

        return lambda main: Leader(self, name, main, id=id)

    def watch(self, name: str) -> Watch:
        """The changes of the owner, one by one, for `for` or `async for`; the first is the owner of now."""
        from .watch import Watch

        return Watch(self, name)

    def status(self, name: str | None = None, *, timeout: float = 10.0) -> list[MutexStatus]:
        """What the store knows of one mutex or of all."""
        result, count, error = ffi.new("struct simba_mutex_status **"), ffi.new("size_t *"), ffi.new("struct simba_error *")
        mutex = name.encode() if name is not None else ffi.NULL
        check(lib.simba_client_status(self.handle, mutex, milliseconds(timeout, 0), result, count, error), error)
        try:
            return [MutexStatus(text(entry.mutex), Owner.read(entry.owner),
                                int(entry.waiters) if entry.waiters >= 0 else None,
                                int(entry.since_ms) / 1000 if entry.since_ms != 0 else None)
                    for entry in (result[0][i] for i in range(count[0]))]
        finally:
            lib.simba_free(result[0])

    def queue(self, name: str, *, timeout: float = 10.0) -> list[Waiter]:
        """The waiters of a mutex, the next one first."""
        result, count, error = ffi.new("struct simba_waiter **"), ffi.new("size_t *"), ffi.new("struct simba_error *")
        check(lib.simba_client_queue(self.handle, name.encode(), milliseconds(timeout, 0), result, count, error), error)
        try:
            return [Waiter(text(entry.id), int(entry.since_ms) / 1000 if entry.since_ms != 0 else None)
                    for entry in (result[0][i] for i in range(count[0]))]
        finally:
            lib.simba_free(result[0])

    def force_release(self, name: str, *, timeout: float = 10.0) -> Owner | None:
        """Takes a mutex from an owner that hangs; returns that owner, None if the mutex was free."""
        owner, error = ffi.new("struct simba_owner *"), ffi.new("struct simba_error *")
        check(lib.simba_client_force_release(self.handle, name.encode(), milliseconds(timeout, 0), owner, error), error)
        return Owner.read(owner)


def open(url: str | None = None, *, config: str | os.PathLike[str] | None = None, ttl: float | None = None,
         transition: float | None = None, allow_store_down: bool = False) -> Client:
    """Opens a client of the store that the URL names, SIMBA_URL if there is none, or a configuration file."""
    return Client(url, config=config, ttl=ttl, transition=transition, allow_store_down=allow_store_down)

