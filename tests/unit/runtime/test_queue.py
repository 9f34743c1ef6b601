"""The work queue against a model that is too simple to be wrong, and the promises the model cannot show."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from scavenger_runtime.queue import LOW_PRIORITY, PriorityQueue, ShutDown
from scavenger_testing import VirtualClock, eventually, settle

from tests.unit.effort import examples

ITEMS = st.sampled_from("abcdef")
PRIORITIES = st.sampled_from([LOW_PRIORITY, 0, 7])
WAITS = st.sampled_from([0.0, 0.0, 1.0, 2.0, 5.0])


@dataclass
class Wanted:
    """A request in the model: due None once ready; turn: when it became ready, or was last given its wait."""

    priority: int
    due: float | None
    turn: int


class Model:
    """The queue as a dict that is searched from end to end."""

    def __init__(self) -> None:
        self.now = 0.0
        self.turn = 0
        self.waiting: dict[str, Wanted] = {}
        self.again: dict[str, Wanted] = {}
        self.processing: set[str] = set()
        self.retries: dict[str, int] = {}

    def next_turn(self) -> int:
        self.turn += 1
        return self.turn

    def promote(self) -> None:
        due = [w for w in self.waiting.values() if w.due is not None and w.due <= self.now]
        for wanted in sorted(due, key=lambda w: (w.due, w.turn)):
            wanted.due, wanted.turn = None, self.next_turn()

    def add(self, item: str, after: float, priority: int) -> None:
        self.promote()
        due = self.now + after if after > 0 else None
        place = self.again if item in self.processing else self.waiting
        old = place.get(item)
        if old is None:
            place[item] = Wanted(priority, due, self.next_turn())
            return
        old.priority = max(old.priority, priority)
        if old.due is not None and (due is None or due < old.due):
            old.due, old.turn = due, self.next_turn()

    def get(self) -> tuple[str, int] | None:
        self.promote()
        ready = [(-w.priority, w.turn, item) for item, w in self.waiting.items() if w.due is None]
        if not ready:
            return None
        item = min(ready)[2]
        self.processing.add(item)
        return item, self.waiting.pop(item).priority

    def done(self, item: str) -> None:
        self.promote()
        self.processing.discard(item)
        again = self.again.pop(item, None)
        if again is not None:
            due = again.due if again.due is not None and again.due > self.now else None
            self.waiting[item] = Wanted(again.priority, due, self.next_turn())


class QueueMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.model = Model()
        self.queue: PriorityQueue[str] = PriorityQueue(clock=lambda: self.model.now, base_delay=1.0, max_delay=4.0)

    def teardown(self) -> None:
        self.queue.shutdown()
        self.loop.run_until_complete(settle())
        self.loop.close()

    @rule(item=ITEMS, after=WAITS, priority=PRIORITIES)
    def add(self, item: str, after: float, priority: int) -> None:
        self.model.add(item, after, priority)
        self.queue.add(item, after=after, priority=priority)

    @rule(item=ITEMS, priority=PRIORITIES)
    def add_rate_limited(self, item: str, priority: int) -> None:
        retries = self.model.retries.get(item, 0)
        self.model.retries[item] = retries + 1
        self.model.add(item, min(2.0**retries, 4.0), priority)
        self.queue.add(item, rate_limited=True, priority=priority)

    @rule(item=ITEMS)
    def forget(self, item: str) -> None:
        self.model.retries.pop(item, None)
        self.queue.forget(item)

    @rule(seconds=st.sampled_from([0.5, 1.0, 3.0]))
    def pass_time(self, seconds: float) -> None:
        self.model.now += seconds

    @rule()
    def get(self) -> None:
        """Also when nothing is ready: then it must wait, and being cancelled must not lose anything."""
        assert self.loop.run_until_complete(self._try_get()) == self.model.get()

    @precondition(lambda self: self.model.processing)
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        item = data.draw(st.sampled_from(sorted(self.model.processing)))
        self.model.done(item)
        self.queue.done(item)

    @invariant()
    def same_numbers(self) -> None:
        assert len(self.queue) == len(self.model.waiting) + len(self.model.again)
        assert self.queue.processing == len(self.model.processing)
        assert all(self.queue.retries(item) == self.model.retries.get(item, 0) for item in "abcdef")

    @invariant()
    def same_items_are_due(self) -> None:
        for item in "abcdef":
            wanted = self.model.again.get(item) or self.model.waiting.get(item)
            due = wanted is not None and (wanted.due or 0.0) <= self.model.now
            assert self.queue.is_due(item) == due

    async def _try_get(self) -> Any:
        task = asyncio.create_task(self.queue.get())
        await settle(3)
        if task.done():
            return task.result()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return None


QueueMachine.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=40)
TestAgainstModel = QueueMachine.TestCase


async def drain(queue: PriorityQueue[str]) -> list[str]:
    """Everything that is ready, in order, each marked done."""
    found: list[str] = []
    while True:
        task = asyncio.create_task(queue.get())
        await settle(3)
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            return found
        item, _ = task.result()
        found.append(item)
        queue.done(item)


async def test_highest_priority_first_then_in_order_of_becoming_ready() -> None:
    clock = VirtualClock()
    queue: PriorityQueue[str] = PriorityQueue(clock=clock)
    queue.add("late", after=5)
    queue.add("first")
    queue.add("listed", priority=LOW_PRIORITY)
    queue.add("urgent", priority=1)
    await clock.advance(5)
    queue.add("last")
    assert await drain(queue) == ["urgent", "first", "late", "last", "listed"]


async def test_raising_the_priority_keeps_the_place_in_line() -> None:
    queue: PriorityQueue[str] = PriorityQueue()
    queue.add("old", priority=LOW_PRIORITY)
    queue.add("new")
    queue.add("old")
    assert await drain(queue) == ["old", "new"]


async def test_keeps_lower_wait_and_higher_priority() -> None:
    clock = VirtualClock()
    queue: PriorityQueue[str] = PriorityQueue(clock=clock)
    queue.add("a", after=10, priority=5)
    queue.add("a", after=2, priority=LOW_PRIORITY)
    queue.add("a", after=30)
    assert len(queue) == 1
    getting = asyncio.create_task(queue.get())
    await clock.advance(1.9)
    assert not getting.done()
    await clock.advance(0.1)
    assert getting.result() == ("a", 5)


async def test_waiting_getters_are_woken_when_a_wait_is_over() -> None:
    clock = VirtualClock()
    queue: PriorityQueue[str] = PriorityQueue(clock=clock)
    getting = [asyncio.create_task(queue.get()) for _ in range(3)]
    await settle()
    queue.add("c", after=3)
    queue.add("a", after=1)
    queue.add("b", after=2)
    await clock.advance(1)
    assert [task.done() for task in getting].count(True) == 1
    await clock.advance(2)
    assert sorted(task.result()[0] for task in getting) == ["a", "b", "c"]


async def test_added_while_processed_is_handed_out_once_more_and_never_twice_at_once() -> None:
    queue: PriorityQueue[str] = PriorityQueue()
    queue.add("a")
    assert await queue.get() == ("a", 0)
    second = asyncio.create_task(queue.get())
    for _ in range(3):
        queue.add("a", priority=2)
    await settle()
    assert not second.done()
    assert len(queue) == 1
    queue.done("a")
    assert await second == ("a", 2)
    queue.done("a")
    assert await drain(queue) == []


async def test_backoff_doubles_up_to_the_maximum_until_forgotten() -> None:
    clock = VirtualClock()
    queue: PriorityQueue[str] = PriorityQueue(clock=clock)
    waits = []
    for _ in range(20):
        queue.add("a", rate_limited=True)
        getting = asyncio.create_task(queue.get())
        waits.append(await clock.run_until(getting.done, limit=2000))
        queue.done("a")
    assert waits[:4] == pytest.approx([0.005, 0.010, 0.020, 0.040])
    assert waits[-1] == pytest.approx(60.0)
    assert queue.retries("a") == 20
    queue.forget("a")
    assert queue.retries("a") == 0


async def test_shutdown_ends_waiting_and_later_gets_and_ignores_adds() -> None:
    queue: PriorityQueue[str] = PriorityQueue()
    waiting = [asyncio.create_task(queue.get()) for _ in range(2)]
    await settle()
    queue.add("a")
    await settle()
    queue.add("left")
    queue.shutdown()
    queue.add("b")
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert sorted(map(str, map(type, results))) == sorted(map(str, (tuple, ShutDown)))
    with pytest.raises(ShutDown):
        await queue.get()
    queue.done("a")
    assert len(queue) == 1


async def test_a_cancelled_getter_passes_its_wake_up_on() -> None:
    queue: PriorityQueue[str] = PriorityQueue()
    first = asyncio.create_task(queue.get())
    second = asyncio.create_task(queue.get())
    await settle()
    queue.add("a")  # wakes the first, which is cancelled before it runs
    first.cancel()
    assert await second == ("a", 0)


async def test_of_one_group_no_more_are_handed_out_than_may_and_the_first_of_those_left_comes_next() -> None:
    queue: PriorityQueue[str] = PriorityQueue(clock=VirtualClock(), group=lambda item: item[0], most=2)
    for item in ("a1", "a2", "a3", "a4", "b1"):
        queue.add(item)
    assert [await queue.get() for _ in range(3)] == [("a1", 0), ("a2", 0), ("b1", 0)]
    waiting = asyncio.ensure_future(queue.get())
    await settle()
    assert not waiting.done()
    queue.add("a4", priority=7)
    await settle()
    assert not waiting.done()
    queue.done("b1")
    await settle()
    assert not waiting.done()
    queue.done("a1")
    assert await waiting == ("a4", 7)
    queue.add("a1")
    queue.done("a2")
    queue.done("a4")
    assert await drain(queue) == ["a3", "a1"]
    assert len(queue) == 0


async def test_dead_places_do_not_pile_up() -> None:
    queue: PriorityQueue[str] = PriorityQueue()
    queue.add("blocker", priority=1000)
    for priority in range(10_000):
        queue.add("a", priority=priority)
    for wait in range(10_000, 0, -1):
        queue.add("b", after=wait)
    assert len(queue._raised) + sum(map(len, queue._lanes.values())) < 300
    assert len(queue._delayed) < 300


async def test_many_workers_handle_everything_once() -> None:
    queue: PriorityQueue[int] = PriorityQueue()
    handled: list[int] = []

    async def work() -> None:
        while True:
            try:
                item, _ = await queue.get()
            except ShutDown:
                return
            await asyncio.sleep(0)
            handled.append(item)
            queue.done(item)

    workers = [asyncio.create_task(work()) for _ in range(8)]
    for item in range(500):
        queue.add(item % 250)
        if item % 7 == 0:
            await asyncio.sleep(0)
    await eventually(lambda: not len(queue) and not queue.processing, poll=0)
    queue.shutdown()
    await asyncio.gather(*workers)
    assert set(handled) == set(range(250))
