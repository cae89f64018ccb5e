"""A decorator for tasks of which only one may run at a time, in all processes."""
from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from ._native import lib
from .client import Client, open
from .errors import Contended, MisuseError

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def runs_later(function: Callable[..., object]) -> bool:
    """Whether a call only makes an object, whose use runs the function."""
    return (inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function)
            or inspect.isasyncgenfunction(function))


def exclusive(name: str, *, store: Client | str | None = None, timeout: float = 0,
              otherwise: Callable[[], Result] | None = None
              ) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Runs the function under the mutex `name`. If that is not free within `timeout` seconds, the result is that of
    `otherwise`, or Contended is raised. `store` is a client or a URL; None: SIMBA_URL. A URL is opened for each call, so
    that the decorator suits processes that fork, such as Celery's workers."""

    def decorate(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        if runs_later(function):
            raise MisuseError(f"exclusive takes plain functions; '{name}' would be released before a coroutine or a "
                              "generator runs: use 'async with client.lock(...)' or 'with client.lock(...)' in it",
                              lib.SIMBA_EMISUSE)

        @functools.wraps(function)
        def call(*arguments: Parameters.args, **named: Parameters.kwargs) -> Result:
            if isinstance(store, Client):
                return under(store, *arguments, **named)
            with open(store) as client:
                return under(client, *arguments, **named)

        def under(client: Client, *arguments: Parameters.args, **named: Parameters.kwargs) -> Result:
            lock = client.lock(name)
            try:
                if timeout > 0:
                    lock.acquire(timeout)
                elif not lock.try_acquire():
                    raise Contended(f"'{name}' is owned by another contender")
            except Contended:
                if otherwise is None:
                    raise
                return otherwise()
            with lock.releasing():
                return function(*arguments, **named)

        return call

    return decorate

