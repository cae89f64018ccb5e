"""The exceptions, by what the caller should do; their texts are the library's sentences."""
from __future__ import annotations

from typing import NoReturn

from ._native import ffi, lib


class SimbaError(Exception):
    """The base of all. `code` is the library's number, `backend_code` the store's own, 0 if it has none."""

    def __init__(self, text: str, code: int = 0, backend_code: int = 0) -> None:
        super().__init__(text)
        self.code = code
        self.backend_code = backend_code


class MisuseError(SimbaError):
    """The program is wrong: fix the call."""


class Contended(SimbaError):
    """Another contender owns the mutex: try later."""


class Timeout(Contended, TimeoutError):
    """The time ran out before the mutex was acquired."""


class LockLost(SimbaError):
    """The lease was held and is lost: stop the work."""


class OutcomeUnknown(SimbaError):
    """The reply was lost: it may or may not have happened."""


class StoreUnavailable(SimbaError, ConnectionError):
    """The store is down or cannot serve."""


class AccessDenied(SimbaError, PermissionError):
    """The store refused the credentials or the permission."""


class ConfigError(SimbaError, ValueError):
    """A name, URL, duration or file is invalid."""


class OutOfResources(SimbaError, MemoryError):
    """Out of memory, threads or descriptors."""


_BY_GROUP = {
    lib.SIMBA_GROUP_MISUSE: MisuseError,
    lib.SIMBA_GROUP_CONTENDED: Contended,
    lib.SIMBA_GROUP_LOST: LockLost,
    lib.SIMBA_GROUP_UNKNOWN: OutcomeUnknown,
    lib.SIMBA_GROUP_UNAVAILABLE: StoreUnavailable,
    lib.SIMBA_GROUP_DENIED: AccessDenied,
    lib.SIMBA_GROUP_CONFIG: ConfigError,
    lib.SIMBA_GROUP_NOMEM: OutOfResources,
}


def _text(chars: object) -> str:
    raw: bytes = ffi.string(chars)
    return raw.decode("utf-8", "backslashreplace")


def make_error(code: int, error: object = None) -> SimbaError:
    """The exception for a code; `error` is a struct simba_error or None."""
    text = _text(error.text) if error is not None else ""  # type: ignore[attr-defined]
    backend_code = int(error.backend_code) if error is not None else 0  # type: ignore[attr-defined]
    kind = Timeout if code == lib.SIMBA_ETIMEDOUT else _BY_GROUP.get(lib.simba_error_group(code), SimbaError)
    return kind(text or _text(lib.simba_strerror(code)), code, backend_code)


def fail(code: int, error: object = None) -> NoReturn:
    raise make_error(code, error)


def check(code: int, error: object = None) -> None:
    """Raises unless the code is SIMBA_OK."""
    if code != lib.SIMBA_OK:
        fail(code, error)
