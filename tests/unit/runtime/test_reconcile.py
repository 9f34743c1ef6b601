"""The reconcile loop: what each way to end means for when the key is looked at again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any

import pytest
from scavenger_kube.errors import Conflict, Invalid, NotFound, Unavailable
from scavenger_runtime.queue import LOW_PRIORITY, PriorityQueue
from scavenger_runtime.reconcile import OUTCOMES, ReconcileLoop, Result
from scavenger_testing import VirtualClock, settle

Logs = list[MutableMapping[str, Any]]
Run = Callable[..., ReconcileLoop]


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
async def run(clock: VirtualClock) -> AsyncIterator[Run]:
    tasks: list[asyncio.Task[None]] = []

    def run(reconcile: Callable[[str], Awaitable[Result | None]], **options: Any) -> ReconcileLoop:
        loop = ReconcileLoop("test", reconcile, clock=clock, **options)
        tasks.append(asyncio.create_task(loop.run()))
        return loop

    yield run
    for task in tasks:
        task.cancel()
    await settle()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def failing(errors: list[Exception], seen: list[float], clock: VirtualClock) -> Callable[[str], Awaitable[None]]:
    async def reconcile(key: str) -> None:
        seen.append(clock.monotonic())
        if errors:
            raise errors.pop(0)

    return reconcile


async def test_success_is_not_looked_at_again_until_asked(clock: VirtualClock, run: Run) -> None:
    seen: list[float] = []
    loop = run(failing([], seen, clock))
    loop.add("a")
    await clock.advance(3600)
    assert seen == [0.0]
    assert len(loop.queue) == 0


async def test_keys_that_are_due_at_once_leave_others_their_turns(run: Run) -> None:
    seen: list[str] = []

    async def reconcile(key: str) -> Result | None:
        seen.append(key)
        return Result(requeue_after=0.0) if len(seen) < 1000 else None

    loop = run(reconcile, workers=2)
    loop.add("a")
    loop.add("b")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(seen) < 10


async def test_requeue_after_is_kept_unless_something_happens_before(clock: VirtualClock, run: Run) -> None:
    seen: list[float] = []

    async def reconcile(key: str) -> Result:
        seen.append(clock.monotonic())
        return Result(requeue_after=60)

    loop = run(reconcile)
    loop.add("a")
    await clock.advance(70)
    assert seen == [0.0, 60.0]
    loop.add("a")
    await clock.advance(49)
    assert seen == [0.0, 60.0, 70.0]


@pytest.mark.parametrize(
    ("error", "outcome", "level"),
    [
        (Conflict(409, "Conflict"), "Conflict", "debug"),
        (Unavailable(0, "Timeout"), "Unavailable", "warning"),
        (Invalid(422, "Invalid"), "Invalid", "warning"),
        (ValueError("a bug"), "error", "error"),
    ],
)
async def test_failures_are_counted_logged_and_tried_again(
    clock: VirtualClock, run: Run, logs: Logs, error: Exception, outcome: str, level: str
) -> None:
    before = OUTCOMES.labels("test", outcome)._value.get()
    seen: list[float] = []
    loop = run(failing([error] * 3, seen, clock))
    loop.add("a")
    await clock.advance(1)
    assert seen == pytest.approx([0.0, 0.005, 0.015, 0.035])
    assert OUTCOMES.labels("test", outcome)._value.get() == before + 3
    assert [(entry["log_level"], entry["key"]) for entry in logs] == [(level, "a")] * 3
    assert loop.queue.retries("a") == 0, "success is forgiven"


async def test_not_found_is_forgotten(clock: VirtualClock, run: Run) -> None:
    seen: list[float] = []
    loop = run(failing([ValueError(), NotFound(404)], seen, clock))
    loop.add("a")
    await clock.advance(100)
    assert seen == pytest.approx([0.0, 0.005])
    assert loop.queue.retries("a") == 0


async def test_retry_after_is_respected(clock: VirtualClock, run: Run) -> None:
    seen: list[float] = []
    run(failing([Unavailable(503, retry_after=7.0)], seen, clock)).add("a")
    await clock.advance(10)
    assert seen == [0.0, 7.0]


async def test_a_failure_keeps_its_priority(clock: VirtualClock, run: Run) -> None:
    seen: list[str] = []

    async def reconcile(key: str) -> None:
        seen.append(key)
        if key == "low" and seen.count("low") == 1:
            loop.queue.add("high", after=0.005)
            raise ValueError
        await clock.sleep(0.01)

    loop = run(reconcile, workers=1)
    loop.add("low", priority=LOW_PRIORITY)
    await settle()
    loop.add("first")
    await clock.advance(1)
    assert seen == ["low", "first", "high", "low"]


async def test_one_key_never_runs_twice_at_once(clock: VirtualClock, run: Run) -> None:
    at_once = most = 0

    async def reconcile(key: str) -> None:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await clock.sleep(1)
        at_once -= 1

    loop = run(reconcile, workers=4)
    for _ in range(5):
        loop.add("a")
        await clock.advance(0.5)
    await clock.advance(10)
    assert most == 1


async def test_stopping_lets_what_runs_end_and_starts_nothing_more(clock: VirtualClock) -> None:
    ended: list[str] = []

    async def reconcile(key: str) -> None:
        await clock.sleep(5)
        ended.append(key)

    loop = ReconcileLoop("test", reconcile, workers=1, clock=clock, drain_seconds=10)
    task = asyncio.create_task(loop.run())
    loop.add("a")
    loop.add("b")
    await settle()
    task.cancel()
    await clock.advance(4)
    assert not task.done()
    await clock.advance(1)
    assert task.cancelled()
    assert ended == ["a"]


async def test_stopping_cuts_off_what_takes_too_long(clock: VirtualClock, logs: Logs) -> None:
    async def reconcile(key: str) -> None:
        await clock.sleep(1000)

    loop = ReconcileLoop("test", reconcile, clock=clock, drain_seconds=10)
    task = asyncio.create_task(loop.run())
    loop.add("a")
    await settle()
    task.cancel()
    await clock.advance(10)
    assert task.cancelled()
    assert [entry["event"] for entry in logs] == ["reconciles cut off: not done in time"]


async def test_a_second_cancellation_ends_it_at_once(clock: VirtualClock) -> None:
    async def reconcile(key: str) -> None:
        await clock.sleep(1000)

    loop = ReconcileLoop("test", reconcile, clock=clock, drain_seconds=900)
    task = asyncio.create_task(loop.run())
    loop.add("a")
    await settle()
    task.cancel()
    await settle()
    task.cancel()
    await settle()
    assert task.cancelled()


async def test_a_reconcile_that_hangs_gives_up_its_place_and_comes_back_to_none(clock: VirtualClock, run: Run) -> None:
    seen: list[str] = []
    hanging = asyncio.Event()

    async def reconcile(key: str) -> None:
        seen.append(key)
        if key.startswith("slow"):
            await hanging.wait()

    queue: PriorityQueue[str] = PriorityQueue(clock=clock, group=lambda key: key.partition("/")[0], most=2)
    loop = run(reconcile, workers=2, queue=queue, patience=2.0)
    for number in range(5):
        loop.add(f"slow/{number}")
    loop.add("quick/a")
    await clock.advance(1)
    assert seen == ["slow/0", "slow/1"]
    for _ in range(4):
        await clock.advance(1)
    assert seen == ["slow/0", "slow/1", "quick/a"], "no more of those that hang are begun"
    hanging.set()
    await settle()
    assert sorted(seen) == ["quick/a", *(f"slow/{number}" for number in range(5))]
    busy = 0
    most = 0

    async def together(key: str) -> None:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        await asyncio.sleep(0)
        busy -= 1

    loop._reconcile = together
    for number in range(10):
        loop.add(f"{number}/a")
    await settle()
    assert most == 2
