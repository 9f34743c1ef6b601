"""Waiting on a clock that is passed in."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import pytest
from scavenger_runtime.clock import within
from scavenger_testing import VirtualClock, settle
from scavenger_testing.cycles import freed_at_once


async def test_work_that_fails_when_it_is_cancelled_is_not_lost_with_whoever_waits(
    lost: Callable[[], list[str]],
) -> None:
    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("nobody asks for it")

    task = asyncio.ensure_future(within(VirtualClock(), 10, work()))
    await settle()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await settle()
    assert lost() == []


async def test_what_work_fails_with_is_freed_with_whoever_handles_it() -> None:
    async def work() -> None:
        raise LookupError

    with freed_at_once(LookupError), contextlib.suppress(LookupError):
        await within(VirtualClock(), 10, work())
