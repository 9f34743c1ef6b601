"""Time, passed in: wall clock for what is written down, monotonic clock for what is waited for.

Two clocks because they answer different questions. Deadlines, backoffs and leases are measured on the monotonic one, as
the wall clock of a node jumps when it is corrected; timestamps in the API are wall time, as other machines read them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar, runtime_checkable

from scavenger_runtime.tasks import seen

T = TypeVar("T")


@runtime_checkable
class Clock(Protocol):
    """What everything that waits or writes a timestamp is given."""

    def now(self) -> datetime:
        """Wall time in UTC, for timestamps that others read."""
        ...

    def monotonic(self) -> float:
        """Seconds since an arbitrary start; never goes back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after that many seconds; at once (but after one turn of the event loop) for zero or less."""
        ...


class SystemClock:
    """The real clock."""

    def now(self) -> datetime:
        """Wall time in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds on the system's monotonic clock."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Sleep on the event loop."""
        await asyncio.sleep(max(0.0, seconds))


async def changed_or_after(changed: asyncio.Event, clock: Clock, seconds: float) -> bool:
    """Wait until the event is set, or for so long; whether it is set."""
    waiting = asyncio.ensure_future(changed.wait())
    sleeping = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait([waiting, sleeping], return_when=asyncio.FIRST_COMPLETED)
        return changed.is_set()
    finally:
        waiting.cancel()
        sleeping.cancel()


async def within(clock: Clock, seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, which is cancelled when it takes longer than `seconds` on that clock.

    `asyncio.timeout` knows only the event loop's clock; this one works on a virtual clock as well. Raises TimeoutError,
    or whatever the work raises.
    """
    task = asyncio.ensure_future(work)
    task.add_done_callback(seen)
    timer = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait({task, timer}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
        if task.cancelled():
            raise TimeoutError(f"not done within {seconds:.3g} s")
        return task.result()
    finally:
        timer.cancel()
        task.cancel()
        del task  # what it failed with knows this frame, which would keep both until all objects are looked through
