"""Work too long for a reconcile: runs beside the workers, one at a time per key.

A reconcile submits the work, returns, and is asked again by `on_done` when there is a result to look at.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Hashable)

Factory = Callable[[], Coroutine[Any, Any, Any]]
"""Makes the coroutine when its turn has come, so that nothing is left un-awaited when it never comes."""

log = logging.getLogger(__name__)


class BackgroundTasks(Generic[K]):
    """Runs submitted work with bounded concurrency, first come, first served, and keeps each result until it
    is read.

    dirty: keys with a request that has not started. queue: the dirty ones that wait for a place. in_progress:
    keys whose work runs. A key that is dirty and in progress runs again as soon as it has finished, never
    beside itself. concurrency: how many keys run at once. on_done: called with the key each time its work has
    ended, well or not.
    """

    def __init__(self, *, concurrency: int = 4, on_done: Callable[[K], None] | None = None) -> None:
        if concurrency < 1:
            raise ValueError("concurrency must be at least 1")
        self.dirty: set[K] = set()
        self.queue: set[K] = set()
        self.in_progress: set[K] = set()
        self._order: deque[K] = deque()
        self._factories: dict[K, Factory] = {}
        self._results: dict[K, Any] = {}
        self._failures: dict[K, Exception] = {}
        self._runners: set[asyncio.Task[None]] = set()
        self._concurrency = concurrency
        self._on_done = on_done
        self._closed = False

    def submit(self, key: K, coroutine_factory: Factory) -> bool:
        """Ask for the work to run; False where a request for that key already waits (this one is dropped).

        Needs a running event loop. Raises RuntimeError after `close()`.
        """
        if self._closed:
            raise RuntimeError("background tasks are closed")
        if key in self.dirty:
            return False
        self.dirty.add(key)
        self._factories[key] = coroutine_factory
        if key not in self.in_progress:
            self._enqueue(key)
        return True

    def result(self, key: K) -> Any:
        """The value of the last finished work of that key, once; None where there is none (yet).

        Re-raises what the work raised, once as well.
        """
        if key in self._failures:
            raise self._failures.pop(key)
        return self._results.pop(key, None)

    def discard(self, key: K) -> None:
        """Drop the waiting request and the unread result of a key that is no longer of interest."""
        self._drop_request(key)
        self._results.pop(key, None)
        self._failures.pop(key, None)

    async def close(self, *, timeout: float = 0.0) -> None:
        """Start nothing more, give what runs `timeout` seconds to end, then cancel it."""
        self._closed = True
        for key in list(self.dirty):
            self._drop_request(key)
        if self._runners and timeout > 0:
            await asyncio.wait(self._runners, timeout=timeout)
        runners = list(self._runners)
        for runner in runners:
            runner.cancel()
        await asyncio.gather(*runners, return_exceptions=True)
        for key, failure in self._failures.items():
            log.error("background work for %s failed, and no caller waits for it: %r", key, failure)

    def _drop_request(self, key: K) -> None:
        self.dirty.discard(key)
        self.queue.discard(key)
        self._factories.pop(key, None)
        if key in self._order:
            self._order.remove(key)

    def _enqueue(self, key: K) -> None:
        self.queue.add(key)
        self._order.append(key)
        if len(self._runners) < self._concurrency:
            runner = asyncio.get_running_loop().create_task(self._run())
            self._runners.add(runner)
            runner.add_done_callback(self._runners.discard)

    async def _run(self) -> None:
        try:
            while self._order:
                await self._run_next(self._order.popleft())
        finally:
            # Here and not only in the done callback, which comes a turn later: a key submitted in between
            # would find all places taken and no task to run it.
            runner = asyncio.current_task()
            assert runner is not None
            self._runners.discard(runner)

    async def _run_next(self, key: K) -> None:
        self.queue.discard(key)
        self.dirty.discard(key)
        self.in_progress.add(key)
        try:
            await self._run_one(key, self._factories.pop(key))
        finally:
            self.in_progress.discard(key)
            if key in self.dirty:
                self._enqueue(key)
        self._report(key)

    async def _run_one(self, key: K, factory: Factory) -> None:
        self._results.pop(key, None)
        self._failures.pop(key, None)
        try:
            self._results[key] = await factory()
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if current is not None and current.cancelling():
                raise
            self._failures[key] = RuntimeError(f"background work for {key} was cancelled")
        except Exception as failure:
            self._failures[key] = failure

    def _report(self, key: K) -> None:
        if self._on_done is None:
            return
        try:
            self._on_done(key)
        except Exception:
            log.exception("on_done failed for %s", key)
