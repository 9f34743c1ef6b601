"""Work in threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest
from scavenger_runtime.threads import in_thread


async def test_what_the_function_returns_or_raises() -> None:
    assert await in_thread(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await in_thread(divmod, 7, 0)


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("times", [1, 2])
async def test_whoever_is_cancelled_waits_for_the_thread(
    times: int, lost: Callable[[], list[str]], *, fails: bool
) -> None:
    begun, go_on, done = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        assert go_on.wait(30)
        done.set()
        if fails:
            raise ValueError("nobody asks for it")

    task = asyncio.ensure_future(in_thread(work))
    await asyncio.to_thread(begun.wait, 30)
    for _ in range(times):
        task.cancel()
        await asyncio.sleep(0)
    assert not task.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done.is_set()
    assert lost() == []
