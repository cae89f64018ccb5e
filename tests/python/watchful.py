"""Sees every call into the library, and notes each that is given a handle that was closed, or closes one that is in use
by another thread."""
import collections
import random
import threading
import time

import simba_lock
from simba_lock import client, contest, lock, watch
from simba_lock._native import ffi, lib

MODULES = [client, contest, lock, watch]
KINDS = {f"struct simba_{kind} *" for kind in ("client", "locker", "contender", "observer")}


def _address(value):
    if isinstance(value, ffi.CData) and ffi.typeof(value).cname in KINDS and value != ffi.NULL:
        return int(ffi.cast("uintptr_t", value))
    return None


class WatchfulLib:
    def __init__(self):
        self.faults = []
        self.calls = collections.Counter()
        self._closed = set()
        self._inside = collections.defaultdict(collections.Counter)
        self._lock = threading.RLock()
        self._draw = random.Random(1)

    def __getattr__(self, name):
        found = getattr(lib, name)
        if not name.startswith("simba_") or not callable(found):
            return found

        def call(*arguments):
            return self._call(name, found, arguments)

        setattr(self, name, call)
        return call

    def _call(self, name, function, arguments):
        handle = _address(arguments[0]) if arguments else None
        with self._lock:
            self.calls[name] += 1
            if handle is not None and handle in self._closed:
                self.faults.append(f"{name} was given a handle that is closed")
                return -1
            if name.endswith("_close") and handle is not None:
                for other, count in self._inside[handle].items():
                    if count > 0:
                        self.faults.append(f"{name} while a thread is in {other}")
                self._closed.add(handle)  # before the call: afterwards the address may be that of a new one
            if handle is not None:
                self._inside[handle][name] += 1
        if self._draw.random() < 0.1:
            time.sleep(0.002)  # so that a close can come in between
        result = function(*arguments)
        with self._lock:
            if handle is not None:
                self._inside[handle][name] -= 1
            if name == "simba_client_close" and result != 0:
                self._closed.discard(handle)
                self.faults.append(f"{name}: {result}")
            for argument in arguments:
                if isinstance(argument, ffi.CData) and ffi.typeof(argument).cname in {kind + " *" for kind in KINDS}:
                    made = _address(argument[0])
                    self._closed.discard(made)
                    self._inside.pop(made, None)
        return result


def install(monkeypatch):
    watchful = WatchfulLib()
    for module in MODULES:
        monkeypatch.setattr(module, "lib", watchful)
    assert simba_lock.Client is client.Client
    return watchful
