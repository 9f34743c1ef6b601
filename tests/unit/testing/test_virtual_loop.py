"""The event loop on which one seed decides everything."""

from __future__ import annotations

import asyncio
import itertools
import random
import uuid
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, cast

import orjson
import pytest
from scavenger_kube.errors import ApiError, Unavailable
from scavenger_kube.resources import PODS
from scavenger_runtime.informer import Informer
from scavenger_testing import FakeApi, pod_dict
from scavenger_testing.virtual_loop import LoopClock, VirtualLoop, run_virtually

T = TypeVar("T")


def virtually(work: Callable[[LoopClock], Coroutine[Any, Any, T]], seed: int = 1) -> T:
    return run_virtually(seed, lambda clock, _: work(clock))


def test_an_hour_passes_when_nobody_has_anything_to_do() -> None:
    async def work(clock: LoopClock) -> tuple[float, float]:
        await asyncio.sleep(3600)
        return clock.monotonic(), await asyncio.to_thread(clock.monotonic)

    assert virtually(work) == (3600, 3600)


def test_requests_and_watches_work_as_over_sockets() -> None:
    async def work(clock: LoopClock) -> list[str]:
        async with FakeApi(clock, listens=False) as api:
            client = api.client()
            pods = Informer(client, PODS, clock=clock)
            following = asyncio.create_task(pods.run())
            await pods.wait_synced()
            await client.create(PODS, "default", pod_dict("a"))
            await clock.sleep(1)
            api.drop_watches()
            api.put(PODS, pod_dict("b"))
            await clock.sleep(10)
            following.cancel()
            return sorted(pods.keys())

    assert virtually(work) == ["default/a", "default/b"]


def test_a_query_may_stand_in_the_path() -> None:
    async def work(clock: LoopClock) -> list[str]:
        async with FakeApi(clock, listens=False) as api:
            for name in ("a", "b"):
                api.put(PODS, pod_dict(name, labels={"is": name}))
            found = orjson.loads(await api.client().request("GET", "/api/v1/pods?labelSelector=is%3Db"))
            return [one["metadata"]["name"] for one in found["items"]]

    assert virtually(work) == ["b"]


@pytest.mark.parametrize(("fault", "takes"), [("drop", 0), ("hang", 30)])
def test_a_request_without_an_answer_fails(fault: str, takes: float) -> None:
    async def work(clock: LoopClock) -> tuple[ApiError, float]:
        async with FakeApi(clock, listens=False) as api:
            client = api.client(request_timeout=30.0)
            getattr(api, fault)(methods={"POST"})
            with pytest.raises(Unavailable) as failed:
                await client.create(PODS, "default", pod_dict("a"))
            return failed.value, clock.monotonic()

    _, took = virtually(work)
    assert takes <= took < takes + 1


def test_who_is_gone_gets_no_answer_and_the_request_takes_effect() -> None:
    async def work(clock: LoopClock) -> tuple[bool, int]:
        async with FakeApi(clock, listens=False) as api:
            client = api.client(request_timeout=30.0)
            api.delay(1.0, methods={"POST"})
            creating = asyncio.create_task(client.create(PODS, "default", pod_dict("a")))
            watching = asyncio.create_task(anext(client.stream("/api/v1/nodes", params={"watch": True})))
            await clock.sleep(0.5)
            assert api.watches == 1
            await client.close()
            for one in (creating, watching):
                with pytest.raises(Unavailable):
                    await one
            await clock.sleep(1)
            return api.get(PODS, "default", "a") is not None, api.watches

    assert virtually(work) == (True, 0)


def test_a_mistake_in_the_server_is_no_answer() -> None:
    async def work(clock: LoopClock) -> None:
        async with FakeApi(clock, listens=False) as api:
            with pytest.raises(KeyError):
                await api.client().request("PATCH", "/api/v1/nodes/n1", body={}, content_type="text/plain")

    virtually(work)


def test_a_loop_on_which_nobody_can_run_says_so() -> None:
    async def work(clock: LoopClock) -> None:
        await asyncio.Event().wait()

    with pytest.raises(RuntimeError, match="can ever run"):
        virtually(work)


def loop_at_work() -> VirtualLoop:
    return cast(VirtualLoop, asyncio.get_running_loop())


def test_a_process_that_was_paused_goes_on_where_it_was() -> None:
    async def work(clock: LoopClock) -> list[float]:
        loop, done = loop_at_work(), list[float]()

        async def count() -> None:
            for _ in range(4):
                await asyncio.sleep(10)
                done.append(clock.monotonic())

        counting = loop.begin("one", lambda: asyncio.create_task(count()))
        await clock.sleep(15)
        loop.pause("one")
        await clock.sleep(20)
        loop.go_on("one")
        await counting
        return done

    assert virtually(work) == [10, 35, 45, 55]


def test_what_a_paused_process_has_sent_takes_effect() -> None:
    async def work(clock: LoopClock) -> bool:
        loop = loop_at_work()
        async with FakeApi(clock, listens=False) as api:
            client = api.client(request_timeout=30.0)
            api.delay(1.0, methods={"POST"})
            creating = loop.begin("one", lambda: asyncio.create_task(client.create(PODS, "default", pod_dict("a"))))
            await clock.sleep(0.5)
            loop.pause("one")
            await clock.sleep(20)
            there, answered = api.get(PODS, "default", "a") is not None, creating.done()
            loop.go_on("one")
            assert await creating
            return there and not answered

    assert virtually(work)


def test_what_was_cancelled_while_its_process_was_paused_is_not_done() -> None:
    async def work(clock: LoopClock) -> list[str]:
        loop, done = loop_at_work(), list[str]()
        timer = loop.begin("one", lambda: loop.call_later(1, done.append, "done"))
        loop.pause("one")
        await clock.sleep(2)
        timer.cancel()
        loop.go_on("one")
        await clock.sleep(1)
        return done

    assert virtually(work) == []


def test_chance_is_the_seed_s() -> None:
    async def work(_: LoopClock) -> tuple[float, str, int]:
        return random.Random().random(), str(uuid.uuid4()), random.randint(0, 1 << 30)

    assert virtually(work, 1) == virtually(work, 1)
    assert virtually(work, 1) != virtually(work, 2)


def test_somebody_who_never_waits_is_told_of() -> None:
    async def work(*_: object) -> None:
        await asyncio.sleep(1)
        for _turn in itertools.count():
            await asyncio.sleep(0)

    with pytest.raises(TimeoutError, match=r"no task lets time pass: \d+ rounds at 1\.0 s"):
        run_virtually(1, work)
