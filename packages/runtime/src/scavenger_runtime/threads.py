"""Work that would hold up the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from typing import ParamSpec, TypeVar

from scavenger_runtime.tasks import seen

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What a function returns that is run in a thread.

    Cancelled, it ends no sooner than the thread does, so that what it works on is never half done.
    """
    work = asyncio.ensure_future(asyncio.to_thread(function, *args, **kwargs))
    work.add_done_callback(seen)
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        while not work.done():  # also where a second cancellation follows
            with suppress(asyncio.CancelledError):
                await asyncio.wait([work])
        raise


async def in_turns(items: Iterable[T], at_a_time: int) -> AsyncIterator[T]:
    """Items as they come, between which the event loop turns.

    Args:
        items: what is cheap to take, one by one.
        at_a_time: how many are taken between two turns.
    """
    for count, item in enumerate(items, 1):
        yield item
        if count % at_a_time == 0:
            await asyncio.sleep(0)
