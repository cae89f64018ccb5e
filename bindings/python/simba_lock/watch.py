"""The changes of a mutex's owner."""
from __future__ import annotations

import asyncio
import queue
from typing import Any

from ._native import ffi, lib
from .client import Client
from .errors import check
from .values import Change, Owner, text


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
        mutex = ffi.new("char[]", name.encode())
        options.mutex = mutex
        options.user = client.listen(self._take)
        result, error = ffi.new("simba_observer **"), ffi.new("struct simba_error *")
        check(lib.simba_observer_create(client.handle, options, result, error), error)
        self._observer = result[0]
        client.add(self)
        check(lib.simba_observer_start(self._observer, error), error)

    def _take(self, event: Any) -> None:
        if event.type != lib.SIMBA_EVENT_NOTIFIED:
            return
        self._put(Change(text(event.mutex), Owner.read(event.state.before), Owner.read(event.state.after)))

    def _put(self, change: Change | None) -> None:
        self._changes.put(change)
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._changed.set)

    def close(self) -> None:
        if self._observer != ffi.NULL:
            lib.simba_observer_close(self._observer)
            self._observer = ffi.NULL
            if self._loop is not None and not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._client.detach, self._loop)
            self._put(None)

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *ignored: object) -> None:
        self.close()

    def __iter__(self) -> Watch:
        return self

    def __next__(self) -> Change:
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
            self._client.attach(self._loop)
        while True:
            self._changed.clear()
            try:
                change = self._changes.get_nowait()
            except queue.Empty:
                await self._changed.wait()
                continue
            if change is None:
                self._changes.put(None)
                raise StopAsyncIteration
            return change

    def __del__(self) -> None:
        if getattr(self, "_observer", ffi.NULL) != ffi.NULL:
            self.close()
