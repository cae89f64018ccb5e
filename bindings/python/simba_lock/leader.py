"""A leader: a coroutine that runs in one process at a time."""
from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from ._native import lib
from .client import Client
from .contest import Contest
from .errors import LockLost
from .values import now

Result = TypeVar("Result")
logger = logging.getLogger("simba_lock")

# The part of the time for renewals that is left for the coroutine to end in, when no renewal succeeds.
GRACE = 0.25


class Term:
    """One term of a leader."""

    def __init__(self, contest: Contest, name: str) -> None:
        self._contest = contest
        self.name = name
        self.fence = contest.fence
        self.id = contest.id

    @property
    def is_leader(self) -> bool:
        """Whether the term goes on at this instant."""
        return self._contest.is_owner() and self._contest.fence == self.fence

    def check(self) -> None:
        """Raises LockLost when the term is over."""
        if not self.is_leader:
            raise LockLost(f"the lead of '{self.name}' was lost", lib.SIMBA_ELOST)


class Leader(Generic[Result]):
    """Runs `main` while this process leads. When the lead is lost, or cannot be renewed, `main` is cancelled before
    another can lead, and runs again when the lead is won again. When `main` returns, the lead is given up."""

    def __init__(self, client: Client, name: str, main: Callable[[Term], Awaitable[Result]], *,
                 id: str | None = None) -> None:
        self._client = client
        self._name = name
        self._main = main
        self._id = id
        self._contest: Contest | None = None
        client.add(self)

    @property
    def is_leader(self) -> bool:
        return self._contest is not None and self._contest.is_owner()

    def close(self) -> None:
        if self._contest is not None:
            self._contest.close()
            self._contest = None

    async def run(self) -> Result:
        """Competes, leads, and returns what `main` returns or raises what it raises."""
        contest = Contest(self._client, self._name, self._id)
        self._contest = contest
        self._client.hold(self)
        try:
            while True:
                await contest.acquire()
                ended, result = await self._lead(contest)
                try:
                    await contest.release()
                except LockLost:
                    if ended:
                        raise
                if ended:
                    return result  # type: ignore[return-value]
        finally:
            contest.begin_stop()
            await asyncio.to_thread(self.close)
            self._client.let_go(self)

    async def _lead(self, contest: Contest) -> tuple[bool, Result | None]:
        """Returns whether `main` has ended by itself, and with what."""
        over = asyncio.Event()
        contest.on_change = lambda: over.set() if contest.lost else None
        task = asyncio.ensure_future(self._main(Term(contest, self._name)))
        guard = asyncio.ensure_future(self._guard(contest, over))
        try:
            await asyncio.wait({task, guard}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return True, task.result()
            logger.error("the lead of '%s' was lost: its work is cancelled", self._name)
            task.cancel()
            await asyncio.wait({task})
            if not task.cancelled() and task.exception() is not None:
                raise task.exception()  # type: ignore[misc]
            return False, None
        finally:
            contest.on_change = None
            guard.cancel()
            if not task.done():
                task.cancel()
                await asyncio.wait({task})

    async def _guard(self, contest: Contest, over: asyncio.Event) -> None:
        """Returns when the term is over, or when too little is left of the lease without a renewal."""
        while contest.is_owner() and not over.is_set():
            left = (contest.deadline_ms() - GRACE * contest.window_ms()) / 1000 - now()
            if left <= 0:
                return
            ended = asyncio.ensure_future(over.wait())
            try:
                await asyncio.wait({ended}, timeout=left)
            finally:
                ended.cancel()

