"""A clock that stands still until a test moves it."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, Final, TypeVar

T = TypeVar("T")

START = datetime(2026, 1, 5, 8, 0, tzinfo=UTC)
"""Wall time at which virtual clocks start: a Monday morning."""

SETTLE_TURNS = 25
"""Turns of the event loop given to what a moved clock has woken."""


class VirtualClock:
    """Implements `scavenger_runtime.clock.Clock`. Sleepers wake in the order of their deadlines, ties as they lay
    down.

    start: wall time at monotonic 0. skew: seconds by which the wall clock is wrong; the monotonic one is not
    affected.
    """

    def __init__(self, start: datetime = START, *, skew: float = 0.0) -> None:
        self._start = start
        self._elapsed = 0.0
        self.skew = skew
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = count()

    def now(self) -> datetime:
        """Wall time in UTC."""
        return self._start + timedelta(seconds=self._elapsed + self.skew)

    def monotonic(self) -> float:
        """Seconds since the start."""
        return self._elapsed

    async def sleep(self, seconds: float) -> None:
        """Return once the clock has been moved that far."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._elapsed + seconds, next(self._order), future))
        await future

    @property
    def next_deadline(self) -> float | None:
        """When the next sleeper wakes (monotonic), None where no task sleeps."""
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)
        return self._sleepers[0][0] if self._sleepers else None

    def jump(self, seconds: float) -> None:
        """Move the clock at once, as for a process that was frozen: every task that is due wakes afterwards, late."""
        self._elapsed += seconds
        while (deadline := self.next_deadline) is not None and deadline <= self._elapsed:
            self._wake_next()

    async def advance(self, seconds: float) -> None:
        """Move the clock step by step: each sleeper wakes at its own time and gets to run before the clock goes on."""
        until = self._elapsed + seconds
        await settle()
        while (deadline := self.next_deadline) is not None and deadline <= until:
            self._elapsed = max(self._elapsed, deadline)
            self._wake_next()
            await settle()
        self._elapsed = until
        await settle()

    async def run_until(self, condition: Callable[[], bool], *, limit: float = 3600.0) -> float:
        """Move the clock from sleeper to sleeper until `condition` holds; returns the seconds that took.

        Raises TimeoutError when it does not hold within `limit` (virtual) seconds, or no task sleeps any more.
        """
        began = self._elapsed
        while not condition():
            await settle()
            if condition():
                break
            deadline = self.next_deadline
            if deadline is None or deadline > began + limit:
                raise TimeoutError(f"the condition does not hold {self._elapsed - began:.1f} s later")
            self._elapsed = max(self._elapsed, deadline)
            self._wake_next()
        return self._elapsed - began

    async def run(self, work: Coroutine[Any, Any, T], *, limit: float = 3600.0) -> T:
        """The result of `work`, moving the clock on whenever all tasks sleep."""
        task = asyncio.ensure_future(work)
        try:
            await self.run_until(task.done, limit=limit)
            return task.result()
        finally:
            task.cancel()

    def _wake_next(self) -> None:
        _, _, future = heapq.heappop(self._sleepers)
        if not future.done():
            future.set_result(None)


async def settle(turns: int = SETTLE_TURNS) -> None:
    """Let all tasks that can run do so, for some turns of the event loop; fewer where no task is left that can.

    Most of the time of the unit tests would be spent in turns in which nothing happens. What asyncio's own loops have
    ready to run is asked, where they say so (they have no public word for it); other loops get all the turns.
    """
    ready = getattr(asyncio.get_running_loop(), "_ready", None)
    for _ in range(turns):
        await asyncio.sleep(0)
        if ready is not None and not ready:
            # No task can run now. One that waits for a socket or a timer of the loop is seen by the loop's next turn.
            await asyncio.sleep(0)
            if not ready:
                return


PATIENCE: Final = 50.0
"""Seconds for what comes at once where nothing else has to be done: less than a unit test may take as a whole."""


async def eventually(condition: Callable[[], bool], *, timeout: float = PATIENCE, poll: float = 0.002) -> None:
    """Wait in real time until `condition` holds, where sockets are involved. Raises TimeoutError."""
    async with asyncio.timeout(timeout):
        while not condition():  # noqa: ASYNC110 - any condition, not one that an Event stands for
            await asyncio.sleep(poll)


__all__ = ["PATIENCE", "START", "VirtualClock", "eventually", "settle"]
