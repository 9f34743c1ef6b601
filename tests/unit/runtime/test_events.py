"""Events: counted instead of repeated, bounded in every direction, and never anybody's problem."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from scavenger_kube.client import ApiClient
from scavenger_kube.resources import EVENTS, NODES, PODS
from scavenger_runtime.events import BURST, MESSAGE_BYTES, RECORDED, EventRecorder
from scavenger_testing import FakeApi, VirtualClock, node, pod


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
async def recorder(client: ApiClient, clock: VirtualClock) -> AsyncIterator[EventRecorder]:
    recorder = EventRecorder(client, "tester", clock=clock, capacity=40)
    task = asyncio.create_task(recorder.run())
    yield recorder
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_an_event_says_what_happened_to_whom(api: FakeApi, recorder: EventRecorder) -> None:
    recorder.warning(PODS, pod("p", uid="u"), "Evicted", "made room")
    await recorder.flush()
    (event,) = api.list(EVENTS)
    assert (event["type"], event["reason"], event["message"], event["count"]) == ("Warning", "Evicted", "made room", 1)
    assert event["involvedObject"] == {
        "apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": "p", "uid": "u",
    }  # fmt: skip
    assert event["source"] == {"component": "tester"}
    assert event["firstTimestamp"] == event["lastTimestamp"] == "2026-01-05T08:00:00Z"


async def test_each_write_waits_for_its_turn(api: FakeApi, recorder: EventRecorder, clock: VirtualClock) -> None:
    recorder.pace = lambda: clock.sleep(10)
    recorder.normal(PODS, pod("p"), "Started", "text")
    recorder.normal(PODS, pod("q"), "Started", "text")
    await clock.run(recorder.flush())
    assert clock.monotonic() == 20
    assert len(api.list(EVENTS)) == 2


async def test_a_write_that_hangs_keeps_only_its_namespace_waiting(
    api: FakeApi, recorder: EventRecorder, clock: VirtualClock
) -> None:
    api.hang(methods={"POST"}, path="/namespaces/slow/")
    for name, namespace in (("a", "slow"), ("b", "slow"), ("c", "quick")):
        recorder.normal(PODS, pod(name, namespace=namespace), "Started", "text")
    async with asyncio.timeout(20):
        while not api.list(EVENTS):
            await clock.advance(1)
            await asyncio.sleep(0.005)
    assert [event["involvedObject"]["name"] for event in api.list(EVENTS)] == ["c"]
    api.heal()
    await recorder.flush()
    assert {event["involvedObject"]["name"] for event in api.list(EVENTS)} >= {"b", "c"}


async def test_events_about_cluster_scoped_objects_go_to_default(api: FakeApi, recorder: EventRecorder) -> None:
    recorder.normal(NODES, node("n"), "Level", "published")
    await recorder.flush()
    assert [event["metadata"]["namespace"] for event in api.list(EVENTS)] == ["default"]


async def test_repetitions_become_a_count(api: FakeApi, recorder: EventRecorder, clock: VirtualClock) -> None:
    one = pod("p")
    for _ in range(3):
        recorder.normal(PODS, one, "Waiting", "no room")
        await recorder.flush()
        clock.jump(60)
    recorder.normal(PODS, one, "Waiting", "no room")
    recorder.normal(PODS, one, "Waiting", "no room")
    await recorder.flush()
    (event,) = api.list(EVENTS)
    assert event["count"] == 5
    assert (event["firstTimestamp"], event["lastTimestamp"]) == ("2026-01-05T08:00:00Z", "2026-01-05T08:03:00Z")
    clock.jump(601)
    recorder.normal(PODS, one, "Waiting", "no room")
    await recorder.flush()
    assert len(api.list(EVENTS)) == 2, "after the window it is another event"


async def test_an_event_that_expired_is_written_anew(api: FakeApi, recorder: EventRecorder) -> None:
    one = pod("p")
    recorder.normal(PODS, one, "Waiting", "no room")
    await recorder.flush()
    api.remove(EVENTS, "default", api.list(EVENTS)[0]["metadata"]["name"])
    recorder.normal(PODS, one, "Waiting", "no room")
    await recorder.flush()
    assert [event["count"] for event in api.list(EVENTS)] == [1]


async def test_one_object_cannot_flood(api: FakeApi, recorder: EventRecorder, clock: VirtualClock) -> None:
    one = pod("p")
    for number in range(100):
        recorder.normal(PODS, one, "Waiting", f"try {number}")
        await recorder.flush()
    assert len(api.list(EVENTS)) == BURST
    clock.jump(300)
    recorder.normal(PODS, one, "Waiting", "later")
    await recorder.flush()
    assert len(api.list(EVENTS)) == BURST + 1


async def test_what_piles_up_is_bounded(client: ApiClient, clock: VirtualClock) -> None:
    before = RECORDED.labels("dropped")._value.get()
    recorder = EventRecorder(client, "tester", clock=clock, capacity=40)  # nobody writes
    for number in range(100):
        recorder.normal(PODS, pod(f"p{number}"), "Waiting", "no room")
    assert len(recorder._pending) == 40
    assert RECORDED.labels("dropped")._value.get() == before + 60


async def test_failures_are_nobodys_problem(api: FakeApi, recorder: EventRecorder) -> None:
    api.fail(403, methods={"POST"}, reason="Forbidden")
    api.drop(methods={"POST"})
    recorder.normal(PODS, pod("a"), "One", "refused")
    recorder.normal(PODS, pod("b"), "Two", "cut off")
    recorder.normal(PODS, pod("c"), "Three", "x" * 5000)
    await recorder.flush()
    (event,) = api.list(EVENTS)
    assert event["reason"] == "Three"
    assert len(event["message"].encode()) == MESSAGE_BYTES


async def test_what_strangers_wrote_is_text(api: FakeApi, recorder: EventRecorder) -> None:
    recorder.warning(PODS, pod("p"), "Failed", "exit code 1: \x1b[2J\u202ebye")
    await recorder.flush()
    assert [event["message"] for event in api.list(EVENTS)] == ["exit code 1: \\u001b[2J\\u202ebye"]
