"""Plain values that the library tells."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ._native import ffi, lib
from .errors import ConfigError


def encode(name: str) -> bytes:
    """As the library takes it. It would end at a zero byte: then two names could be one."""
    if "\0" in name:
        raise ConfigError(f"{name!r} has a zero byte")
    return name.encode()


def text(chars: Any) -> str:
    raw: bytes = ffi.string(chars)
    return raw.decode("utf-8", "backslashreplace")


def seconds(milliseconds: int) -> float | None:
    """None for a time that never comes."""
    return None if milliseconds == lib.SIMBA_INFINITE else milliseconds / 1000


def now() -> float:
    """The library's clock, in seconds: it counts during suspend, and steps of the wall clock do not move it."""
    return int(lib.simba_now_ms()) / 1000


@dataclass(frozen=True)
class Owner:
    """The owner of a mutex. Times are those of now(); None never comes."""

    id: str
    fence: int
    acquired_at: float | None
    lease_ends_at: float | None

    @classmethod
    def read(cls, owner: Any) -> Owner | None:
        """None: nobody owns."""
        name = text(owner.id)
        if not name:
            return None
        return cls(name, int(owner.fence), seconds(owner.acquired_at_ms), seconds(owner.transition_at_ms))


@dataclass(frozen=True)
class Change:
    """A change of owner."""

    mutex: str
    before: Owner | None
    after: Owner | None


@dataclass(frozen=True)
class MutexStatus:
    """What the store knows of a mutex. `waiters` and `since` are None where it does not know."""

    mutex: str
    owner: Owner | None
    waiters: int | None
    since: float | None


@dataclass(frozen=True)
class Waiter:
    """A waiter in the store's queue, the next one first."""

    id: str
    since: float | None
