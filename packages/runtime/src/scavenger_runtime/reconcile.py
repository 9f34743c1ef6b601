"""The loop around a reconcile: takes keys off the queue, and decides when each is due again.

Reconciles are level-triggered: they get a key, read what is, and bring it closer to what should be. Whatever one raises
is an answer to "when is it due again", never the end of the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from scavenger_kube.errors import ApiError, Conflict, NotFound

from scavenger_runtime import metrics
from scavenger_runtime.clock import Clock, SystemClock
from scavenger_runtime.logging import get_logger
from scavenger_runtime.queue import PriorityQueue, ShutDown

DRAIN_SECONDS = 20.0
"""How long reconciles under way may go on after the loop was told to stop."""

OUTCOMES = metrics.counter("reconciles", "Reconciles, by outcome.", ["loop", "outcome"])
DEPTH = metrics.gauge("reconcile_queue_depth", "Keys waiting, ready or not.", ["loop"])

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Result:
    """What a reconcile that went well may ask for. requeue_after: seconds until the key is due again."""

    requeue_after: float | None = None


Reconcile = Callable[[str], Awaitable[Result | None]]


class ReconcileLoop:
    """Runs `reconcile(key)` for every key added, with `workers` at a time and never twice at once for one key.

    name: in logs and metrics. queue: to share or to configure one. drain_seconds: how long a reconcile under
    way may go on after `run` was cancelled; a second cancellation ends it at once. patience: a reconcile that takes
    longer than so many seconds hangs, and another worker takes the place of its own; the groups of the queue are to
    bound how many there can be.
    """

    def __init__(
        self,
        name: str,
        reconcile: Reconcile,
        *,
        workers: int = 4,
        queue: PriorityQueue[str] | None = None,
        clock: Clock | None = None,
        drain_seconds: float = DRAIN_SECONDS,
        patience: float | None = None,
    ) -> None:
        if workers < 1:
            raise ValueError("workers must be at least 1")
        self.name = name
        self._clock = clock or SystemClock()
        self.queue: PriorityQueue[str] = queue if queue is not None else PriorityQueue(clock=self._clock)
        self._reconcile = reconcile
        self._workers = workers
        self._drain_seconds = drain_seconds
        self._patience = patience
        self._at_work: dict[asyncio.Task[None], float] = {}
        """When the reconcile of a worker began, on the monotonic clock; without those that were relieved."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._log = log.bind(loop=name)
        DEPTH.labels(name).set_function(lambda: len(self.queue))

    def add(self, key: str, *, after: float = 0.0, priority: int = 0) -> None:
        """Have a key reconciled, after `after` seconds. See `PriorityQueue.add`."""
        self.queue.add(key, after=after, priority=priority)

    async def run(self) -> None:
        """Work until cancelled, then drain: nothing new is started, and what runs has `drain_seconds` to end."""
        for _ in range(self._workers):
            self._hire()
        relieving = asyncio.create_task(self._relieve(), name=f"{self.name}-relief")
        try:
            while self._tasks:
                done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
                self._tasks -= done
                await asyncio.gather(*done)
        finally:
            relieving.cancel()
            self.queue.shutdown()
            try:
                await self._drain()
            finally:
                for task in (relieving, *self._tasks):
                    task.cancel()
                await asyncio.gather(relieving, *self._tasks, return_exceptions=True)

    def _hire(self) -> None:
        self._tasks.add(asyncio.create_task(self._work(), name=self.name))

    async def _relieve(self) -> None:
        """Have other workers take the places of those whose reconcile hangs."""
        while self._patience is not None:
            await self._clock.sleep(self._patience / 2)
            slow = self._clock.monotonic() - self._patience
            for task in [task for task, began in self._at_work.items() if began <= slow]:
                del self._at_work[task]
                self._hire()

    async def _drain(self) -> None:
        deadline = asyncio.ensure_future(self._clock.sleep(self._drain_seconds))
        pending = set(self._tasks)
        try:
            while pending and not deadline.done():
                await asyncio.wait({*pending, deadline}, return_when=asyncio.FIRST_COMPLETED)
                pending = {worker for worker in pending if not worker.done()}
        finally:
            deadline.cancel()
        if pending:
            self._log.warning("reconciles cut off: not done in time", count=len(pending))

    async def _work(self) -> None:
        me = asyncio.current_task()
        assert me is not None
        while True:
            try:
                key, priority = await self.queue.get()
            except ShutDown:
                return
            self._at_work[me] = self._clock.monotonic()
            try:
                await self._handle(key, priority)
            finally:
                self.queue.done(key)
            if self._at_work.pop(me, None) is None:  # another one has its place
                return
            # A reconcile that waits for nothing, for one key after the other, would leave no turn to probes and leases.
            await asyncio.sleep(0)

    async def _handle(self, key: str, priority: int) -> None:
        try:
            result = await self._reconcile(key)
        except Exception as error:
            outcome = self._failed(key, priority, error)
        else:
            outcome = "success"
            self.queue.forget(key)
            if result is not None and result.requeue_after is not None:
                outcome = "requeue"
                self.queue.add(key, after=result.requeue_after, priority=priority)
        OUTCOMES.labels(self.name, outcome).inc()

    def _failed(self, key: str, priority: int, error: Exception) -> str:
        """Log a failure as loudly as it deserves, and say when it is due again."""
        retries = self.queue.retries(key)
        if isinstance(error, NotFound):
            self._log.debug("object is gone", key=key, error=str(error))
            self.queue.forget(key)
            return "not_found"
        if isinstance(error, Conflict):
            self._log.debug("object has changed, looking again", key=key, error=str(error))
        elif isinstance(error, ApiError):
            self._log.warning("reconcile failed", key=key, retries=retries, reason=error.reason, error=str(error))
        else:
            self._log.error("reconcile failed", key=key, retries=retries, exc_info=error)
        after = (error.retry_after or 0.0) if isinstance(error, ApiError) else 0.0
        self.queue.add(key, after=after, rate_limited=True, priority=priority)
        return type(error).__name__ if isinstance(error, ApiError) else "error"
