"""Background tasks: against a model of the three sets, and what they promise about results and ends."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from scavenger_runtime.background import BackgroundTasks
from scavenger_testing import settle
from scavenger_testing.cycles import freed_at_once

from tests.unit.effort import examples

KEYS = st.sampled_from("abcd")
CONCURRENCY = 2


class BackgroundMachine(RuleBasedStateMachine):
    """Every work blocks until the machine lets it end, so that each interleaving is the machine's choice."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.done: list[str] = []
        self.tasks: BackgroundTasks[str] = BackgroundTasks(concurrency=CONCURRENCY, on_done=self.done.append)
        self.gates: dict[str, asyncio.Future[int]] = {}
        self.starts = 0
        # the model
        self.line: list[str] = []
        self.again: set[str] = set()
        self.running: set[str] = set()
        self.expected: list[str] = []

    def teardown(self) -> None:
        self.loop.run_until_complete(self.tasks.close())
        self.loop.close()

    async def work(self, key: str) -> int:
        assert key not in self.gates, "one key ran beside itself"
        self.starts += 1
        self.gates[key] = asyncio.get_running_loop().create_future()
        try:
            return await self.gates[key]
        finally:
            del self.gates[key]

    def let_start(self) -> None:
        while self.line and len(self.running) < CONCURRENCY:
            self.running.add(self.line.pop(0))

    @rule(key=KEYS)
    def submit(self, key: str) -> None:
        dropped = key in self.line or key in self.again
        if not dropped:
            if key in self.running:
                self.again.add(key)
            else:
                self.line.append(key)

        async def submit() -> bool:
            accepted = self.tasks.submit(key, lambda: self.work(key))
            await settle(5)
            return accepted

        assert self.loop.run_until_complete(submit()) is not dropped
        self.let_start()

    @precondition(lambda self: self.running)
    @rule(data=st.data(), fail=st.booleans())
    def end(self, data: st.DataObject, fail: bool) -> None:
        key = data.draw(st.sampled_from(sorted(self.running)))
        value = self.starts

        async def end() -> None:
            gate = self.gates[key]
            gate.set_exception(ValueError(key)) if fail else gate.set_result(value)
            await settle(5)

        self.loop.run_until_complete(end())
        self.running.discard(key)
        self.expected.append(key)
        if key in self.again:
            self.again.discard(key)
            self.line.append(key)
        self.let_start()
        if key in self.running:
            return  # it runs again: the old result is void
        if fail:
            with pytest.raises(ValueError, match=key):
                self.tasks.result(key)
        else:
            assert self.tasks.result(key) == value
        assert self.tasks.result(key) is None

    @invariant()
    def same_sets(self) -> None:
        assert self.tasks.queue == set(self.line)
        assert self.tasks.in_progress == self.running
        assert self.tasks.dirty == set(self.line) | self.again
        assert self.done == self.expected


BackgroundMachine.TestCase.settings = settings(max_examples=examples(40), stateful_step_count=30)
TestAgainstModel = BackgroundMachine.TestCase


async def test_two_requests_before_the_start_are_one_run() -> None:
    runs: list[str] = []

    async def work(name: str) -> None:
        runs.append(name)

    tasks: BackgroundTasks[str] = BackgroundTasks()
    assert tasks.submit("a", lambda: work("first"))
    assert not tasks.submit("a", lambda: work("second"))
    assert tasks.queue == tasks.dirty == {"a"}
    await settle()
    assert runs == ["first"]
    assert tasks.queue == tasks.dirty == tasks.in_progress == set()
    await tasks.close()


async def test_cancelled_work_is_a_failure_not_a_cancelled_reader() -> None:
    async def work() -> None:
        raise asyncio.CancelledError

    tasks: BackgroundTasks[str] = BackgroundTasks()
    tasks.submit("a", work)
    await settle()
    with pytest.raises(RuntimeError, match="cancelled"):
        tasks.result("a")
    await tasks.close()


async def test_a_failing_on_done_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def on_done(_key: str) -> None:
        raise ValueError("on_done")

    async def work() -> int:
        return 1

    tasks: BackgroundTasks[str] = BackgroundTasks(concurrency=1, on_done=on_done)
    tasks.submit("a", work)
    tasks.submit("b", work)
    await settle()
    assert (tasks.result("a"), tasks.result("b")) == (1, 1)
    assert "on_done failed" in caplog.text
    await tasks.close()


async def test_close_lets_end_what_runs_and_starts_nothing_more() -> None:
    gate = asyncio.Event()
    ended: list[str] = []

    async def work(key: str) -> None:
        await gate.wait()
        ended.append(key)

    tasks: BackgroundTasks[str] = BackgroundTasks(concurrency=1)
    tasks.submit("a", lambda: work("a"))
    tasks.submit("b", lambda: work("b"))
    await settle()
    closing = asyncio.create_task(tasks.close(timeout=5))
    await settle()
    gate.set()
    await closing
    assert ended == ["a"]
    with pytest.raises(RuntimeError, match="closed"):
        tasks.submit("c", lambda: work("c"))


async def test_close_cancels_what_does_not_end() -> None:
    async def forever() -> Any:
        await asyncio.Event().wait()

    tasks: BackgroundTasks[str] = BackgroundTasks()
    tasks.submit("a", forever)
    await settle()
    await tasks.close(timeout=0.01)
    assert not tasks.in_progress


async def test_a_failure_is_freed_with_whoever_handles_it() -> None:
    async def work() -> None:
        raise LookupError

    tasks: BackgroundTasks[str] = BackgroundTasks()
    with freed_at_once(LookupError):
        tasks.submit("a", work)
        await settle()
        with contextlib.suppress(LookupError):
            tasks.result("a")
    await tasks.close()


async def test_discard_drops_request_and_result() -> None:
    async def work() -> int:
        return 1

    tasks: BackgroundTasks[str] = BackgroundTasks()
    tasks.submit("a", work)
    tasks.discard("a")
    await settle()
    assert tasks.result("a") is None
    tasks.submit("a", work)
    await settle()
    tasks.discard("a")
    assert tasks.result("a") is None
    await tasks.close()


async def test_a_key_submitted_as_the_last_runner_leaves_still_runs() -> None:
    loop = asyncio.get_running_loop()
    runs: list[str] = []

    async def first() -> None:
        runs.append("first")
        loop.call_soon(lambda: tasks.submit("b", second))

    async def second() -> None:
        runs.append("second")

    tasks: BackgroundTasks[str] = BackgroundTasks(concurrency=1)
    tasks.submit("a", first)
    await settle()
    assert runs == ["first", "second"]
    await tasks.close()
