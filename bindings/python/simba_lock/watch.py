"""The changes of a mutex's owner."""
from __future__ import annotations

import asyncio
import queue
import threading
import weakref
from typing import Any

from ._native import ffi, lib
from .client import Client, EventHandler, call_in
from .errors import check, make_error
from .values import Change, Owner, encode, text


def _weakly(method: weakref.WeakMethod[EventHandler]) -> EventHandler:
    """So that a watch that nobody refers to closes itself."""

    def call(event: Any) -> None:
        found = method()
        if found is not None:
            found(event)

    return call


class Watch:
    """For `for` and `async for`. Changes wait until they are taken; close() ends it."""

    def __init__(self, client: Client, name: str) -> None:
        self._client = client
        self._changes: queue.SimpleQueue[Change | None] = queue.SimpleQueue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._changed = asyncio.Event()
        self._observer: Any = ffi.NULL
        options = ffi.new("struct simba_observer_options *")
        lib.simba_python_init_observer_options(options)
        mutex = ffi.new("char[]", encode(name))
        options.mutex = mutex
        options.user = client.listen(_weakly(weakref.WeakMethod(self._take)))
        self._lock = threading.RLock()
        self._ended = False  # None was put: nothing follows
        result, error = ffi.new("simba_observer **"), ffi.new("struct simba_error *")
        with client.usage.inside():
            client.usage.refuse()
            code = lib.simba_observer_create(client.handle, options, result, error)
            if code != lib.SIMBA_OK:
                client.forget(options.user)
                raise make_error(code, error)
            self._observer = result[0]
            client.add(self)
            check(lib.simba_observer_start(self._observer, error), error)

    def _take(self, event: Any) -> None:
        if event.type != lib.SIMBA_EVENT_NOTIFIED:
            return
        self._put(Change(text(event.mutex), Owner.read(event.state.before), Owner.read(event.state.after)))

    def _put(self, change: Change | None) -> None:
        with self._lock:
            if self._ended:
                return
            self._ended = change is None
            self._changes.put(change)
        loop = self._loop
        if loop is not None:
            call_in(loop, self._changed.set)

    def close(self) -> None:
        if self._client.usage.is_forked:
            return
        with self._lock:
            observer, self._observer = self._observer, ffi.NULL
        if observer == ffi.NULL:
            return
        lib.simba_observer_close(observer)
        self._client.pump_if_free()
        self._put(None)

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *ignored: object) -> None:
        self.close()

    def __iter__(self) -> Watch:
        return self

    def __next__(self) -> Change:
        try:
            change = self._changes.get_nowait()
        except queue.Empty:
            self._client.start_thread()
            change = self._changes.get()
        if change is None:
            self._changes.put(None)
            raise StopIteration
        return change

    def __aiter__(self) -> Watch:
        return self

    async def __anext__(self) -> Change:
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        while True:
            self._changed.clear()
            try:
                change = self._changes.get_nowait()
            except queue.Empty:
                self._client.attach(self._loop)
                await self._changed.wait()
                continue
            if change is None:
                self._changes.put(None)
                raise StopAsyncIteration
            return change

    def __del__(self) -> None:
        try:
            self.close()
        except AttributeError:
            pass  # it was not made
