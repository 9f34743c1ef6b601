"""Waiting for what a real event loop brings about, and running what ends with a test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any


async def until(what: str, condition: Callable[[], Any], seconds: float = 50) -> None:
    for _ in range(int(seconds * 100)):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"not within {seconds:g} s: {what}")


@asynccontextmanager
async def running(*work: Any) -> AsyncIterator[None]:
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
