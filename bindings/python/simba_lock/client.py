"""The client: one store, one thread of the library, and everything made from it."""
from __future__ import annotations

import asyncio
import atexit
import os
import select
import threading
import weakref
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from . import _log
from ._native import ffi, lib
from .errors import ConfigError, SimbaError, check, make_error
from .usage import Usage
from .values import MutexStatus, Owner, Waiter, encode, text

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


# So that the end of the interpreter releases what is held, while everything is still there.
_open_clients: weakref.WeakSet[Client] = weakref.WeakSet()


def _close_all() -> None:
    for client in list(_open_clients):
        try:
            client.close()
        except SimbaError as error:
            _log.logger.warning("a client was not closed at the end of the process: %s", error)


atexit.register(_close_all)


def _pump(client: weakref.ref[Client]) -> None:
    found = client()
    if found is not None:
        found.pump()


def call_in(loop: asyncio.AbstractEventLoop, function: Callable[..., object], *arguments: Any) -> bool:
    """Has the loop call it. False: the loop is closed, and nobody waits there."""
    try:
        loop.call_soon_threadsafe(function, *arguments)
    except RuntimeError:
        return False
    return True


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _drop_reader(loop: asyncio.AbstractEventLoop, fd: int) -> None:
    loop.remove_reader(fd)
    os.close(fd)


def _remove_reader(loop: asyncio.AbstractEventLoop, fd: int) -> None:
    """On the loop's thread: only there is nobody inside its selector."""
    if _running_loop() is loop:
        _drop_reader(loop, fd)
    elif not call_in(loop, _drop_reader, loop, fd):
        os.close(fd)


class Client:
    """The connection to one store. Threads may share it; a process that was forked opens its own."""

    def __init__(self, url: str | None = None, *, config: str | os.PathLike[str] | None = None, ttl: float | None = None,
                 transition: float | None = None, allow_store_down: bool = False) -> None:
        self._made = ffi.new("simba_client **")  # the library writes it, so that no interrupt can lose a client
        self.usage = Usage("client")
        self._closing = threading.RLock()  # a signal's handler may close, too
        self._handlers: dict[int, EventHandler] = {}
        self._next_user = 1
        self._objects: weakref.WeakSet[Any] = weakref.WeakSet()
        self._held: set[_Object] = set()  # so that none is collected while it holds a mutex
        self._lock = threading.RLock()  # guards the event loops and the thread; __del__ may run inside
        self._pump_lock = threading.Lock()
        self._readers: dict[asyncio.AbstractEventLoop, int] = {}  # each with a descriptor of its own
        self._thread: threading.Thread | None = None
        self._thread_end = (-1, -1)
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
        error, result = ffi.new("struct simba_error *"), self._made
        if url is not None:
            check(lib.simba_client_open(encode(url), options, result, error), error)
        else:
            assert config is not None
            check(lib.simba_client_open_config(os.fsencode(config), options, result, error), error)
        self._fd = int(lib.simba_client_event_fd(self._handle))
        _open_clients.add(self)

    # ---- Life ---------------------------------------------------------------------------------

    @property
    def _handle(self) -> Any:
        return self._made[0]

    @property
    def handle(self) -> Any:
        """For the other modules of this package, inside of `with client.usage.inside()`."""
        return self._handle

    def close(self) -> None:
        """Releases what is held, and closes everything made from the client."""
        if self.usage.is_forked:
            return
        with self._closing:
            if self._handle != ffi.NULL:
                self._close()

    def _close(self) -> None:
        for made in list(self._objects):
            if isinstance(usage := getattr(made, "usage", None), Usage):
                usage.refuse_end()
        self.usage.begin_end()
        self.usage.end()
        for made in list(self._objects):
            made.close()
        self._end_thread()
        with self._lock:
            readers, self._readers = self._readers, {}
        for loop, fd in readers.items():
            _remove_reader(loop, fd)
        error = ffi.new("struct simba_error *")
        with self._pump_lock:
            handle, self._made[0] = self._handle, ffi.NULL
            code = lib.simba_client_close(handle, error)
            if code != lib.SIMBA_OK:
                self._made[0] = handle
                raise make_error(code, error)
        self._handlers.clear()
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
            pass  # a thread is inside, or it was not made: the leases run out by themselves

    # ---- For what is made from a client --------------------------------------------------------

    def add(self, made: _Object) -> None:
        self._objects.add(made)

    def hold(self, made: _Object) -> None:
        self._held.add(made)

    def let_go(self, made: _Object) -> None:
        self._held.discard(made)

    def listen(self, handler: EventHandler) -> Any:
        """Has the handler called with the events of an object whose `user` is the result."""
        self.usage.refuse()
        with self._lock:
            user = self._next_user
            self._next_user += 1
            self._handlers[user] = handler
        return ffi.cast("void *", user)

    def forget(self, user: Any) -> None:
        """Of an object that could not be made."""
        self._handlers.pop(int(ffi.cast("uintptr_t", user)), None)

    def pump(self) -> None:
        """Takes all events there are. A handler passes on what it is told, and does not wait."""
        if self.usage.is_forked:
            return
        with self._pump_lock:
            self._take_events()

    def pump_if_free(self) -> None:
        """Takes what a closed object has left, for programs without an event loop. Also inside of __del__, so it waits
        for nobody: a thread that pumps takes these, too."""
        if not self.usage.is_forked and self._pump_lock.acquire(blocking=False):
            try:
                self._take_events()
            finally:
                self._pump_lock.release()

    def _take_events(self) -> None:
        if self._handle == ffi.NULL:
            return
        event = ffi.new("struct simba_event *")
        error = ffi.new("struct simba_error *")
        lib.simba_python_init_event(event)
        while True:
            check(lib.simba_client_next_event(self._handle, event, error), error)
            if event.type == lib.SIMBA_EVENT_NONE:
                return
            user = int(ffi.cast("uintptr_t", event.user))
            if event.type == lib.SIMBA_EVENT_CLOSED:
                self._handlers.pop(user, None)
                continue
            handler = self._handlers.get(user)
            if handler is not None:
                handler(event)

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Lets an event loop take the events, for as long as both live. Called on its thread."""
        if loop in self._readers:
            return
        self.usage.refuse()
        with self._lock:
            self.usage.refuse()
            for other in [other for other in self._readers if other.is_closed()]:
                os.close(self._readers.pop(other))
            fd = os.dup(self._fd)
            self._readers[loop] = fd
        loop.add_reader(fd, _pump, weakref.ref(self))

    def _run_thread(self, end: int) -> None:
        while True:
            ready, _, _ = select.select([self._fd, end], [], [])
            if end in ready:
                return
            self.pump()

    def start_thread(self) -> None:
        """Lets a thread take the events, for those who wait outside an event loop."""
        self.usage.refuse()
        with self._lock:
            self.usage.refuse()
            if self._thread is not None:
                return
            self._thread_end = os.pipe()
            self._thread = threading.Thread(target=self._run_thread, args=[self._thread_end[0]], name="simba-events",
                                            daemon=True)
            self._thread.start()

    def _end_thread(self) -> None:
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is None:
            return
        os.write(self._thread_end[1], b"x")
        thread.join()
        for end in self._thread_end:
            os.close(end)

    # ---- What it is for ------------------------------------------------------------------------

    def lock(self, name: str, *, timeout: float | None = None, id: str | None = None) -> Lock:
        """A lock; `with` or `async with` acquires it, within `timeout` seconds if that is given."""
        from .lock import Lock

        return Lock(self, name, timeout=timeout, id=id)

    def semaphore(self, name: str, slots: int, *, timeout: float | None = None, id: str | None = None) -> Lock:
        """A lock that `slots` users can hold at a time; lock.slot tells which of them this one is."""
        from .lock import Lock

        return Lock(self, name, timeout=timeout, id=id, slots=slots)

    def lock_all(self, *names: str, timeout: float | None = None, id: str | None = None) -> Lock:
        """A lock of several mutexes, all or none; lock.fence_of tells the token of each."""
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
        mutex = encode(name) if name is not None else ffi.NULL
        with self.usage.inside():
            self.usage.refuse()
            check(lib.simba_client_status(self._handle, mutex, milliseconds(timeout, 0), result, count, error), error)
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
        with self.usage.inside():
            self.usage.refuse()
            check(lib.simba_client_queue(self._handle, encode(name), milliseconds(timeout, 0), result, count, error),
                  error)
        try:
            return [Waiter(text(entry.id), int(entry.since_ms) / 1000 if entry.since_ms != 0 else None)
                    for entry in (result[0][i] for i in range(count[0]))]
        finally:
            lib.simba_free(result[0])

    def force_release(self, name: str, *, timeout: float = 10.0) -> Owner | None:
        """Takes a mutex from an owner that hangs; returns that owner, None if the mutex was free."""
        owner, error = ffi.new("struct simba_owner *"), ffi.new("struct simba_error *")
        with self.usage.inside():
            self.usage.refuse()
            check(lib.simba_client_force_release(self._handle, encode(name), milliseconds(timeout, 0), owner, error),
                  error)
        return Owner.read(owner)


def open(url: str | None = None, *, config: str | os.PathLike[str] | None = None, ttl: float | None = None,
         transition: float | None = None, allow_store_down: bool = False) -> Client:
    """Opens a client of the store that the URL names, SIMBA_URL if there is none, or a configuration file."""
    return Client(url, config=config, ttl=ttl, transition=transition, allow_store_down=allow_store_down)

