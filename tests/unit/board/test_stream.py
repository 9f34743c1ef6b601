"""One picture for all who follow; each gets what differs from the one it has; nobody is waited for."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from scavenger_board.core.picture import Picture
from scavenger_board.stream import Hub, TooManyListeners
from scavenger_testing import VirtualClock
from scavenger_testing.clock import settle

from .test_delta import picture


class Maker:
    """Counts the pictures it is asked for."""

    def __init__(self) -> None:
        self.made = 0
        self.place = 1

    async def __call__(self) -> Picture:
        self.made += 1
        return picture([("a", self.place)])


def data(message: bytes) -> tuple[str, Any]:
    kind, line = message.decode().rstrip("\n").split("\n")
    return kind.removeprefix("event: "), msgspec.json.decode(line.removeprefix("data: "))


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


async def test_what_changes_is_sent_once_and_no_more_often_than_the_period(clock: VirtualClock) -> None:
    make = Maker()
    hub = Hub(make, clock, period=1.0, check=60.0, limit=2)
    running = asyncio.create_task(hub.run())
    with hub.place() as news:
        messages = hub.messages(news)
        assert "whole" in data(await anext(messages))[1]
        waiting = asyncio.ensure_future(anext(messages))
        await clock.advance(1.5)
        made = make.made
        for place in range(2, 50):
            make.place = place
            hub.changed()
            await settle()
        assert make.made <= made + 1
        await clock.advance(1.0)
        kind, found = data(await waiting)
        assert kind == "picture"
        assert found["changed"]["jobs"]["rows"][0]["interrupted"] in (2, 49)
        await messages.aclose()
    running.cancel()


async def test_a_slow_listener_gets_the_newest_and_nothing_in_between(clock: VirtualClock) -> None:
    make = Maker()
    hub = Hub(make, clock, period=1.0, check=60.0, limit=2)
    running = asyncio.create_task(hub.run())
    with hub.place() as news:
        messages = hub.messages(news)
        await anext(messages)
        for place in (2, 3, 4):
            make.place = place
            hub.changed()
            await clock.advance(3.0)
        _, found = data(await anext(messages))
        assert [row["interrupted"] for row in found["changed"]["jobs"]["rows"]] == [4]
        waiting = asyncio.ensure_future(anext(messages))
        await settle()
        assert not waiting.done()
        waiting.cancel()
    running.cancel()


async def test_who_hears_nothing_new_hears_that_the_board_is_alive(clock: VirtualClock) -> None:
    hub = Hub(Maker(), clock, period=1.0, check=60.0, limit=2)
    with hub.place() as news:
        messages = hub.messages(news)
        await anext(messages)
        news.clear()
        waiting = asyncio.ensure_future(anext(messages))
        await clock.advance(10.5)
        assert data(await waiting) == ("alive", {"time": "2026-01-05T08:00:10Z"})
        await messages.aclose()


async def test_time_alone_makes_a_new_picture_and_no_message(clock: VirtualClock) -> None:
    make = Maker()
    hub = Hub(make, clock, period=1.0, check=5.0, limit=2)
    running = asyncio.create_task(hub.run())
    with hub.place() as news:
        await hub.current()
        await clock.advance(1.5)
        news.clear()
        made = make.made
        await clock.advance(13.0)
        assert make.made == made + 2
        assert not news.is_set()
    running.cancel()


async def test_without_listeners_no_picture_is_made(clock: VirtualClock) -> None:
    make = Maker()
    hub = Hub(make, clock, period=1.0, check=5.0, limit=2)
    running = asyncio.create_task(hub.run())
    hub.changed()
    await clock.advance(60.0)
    assert make.made == 0
    with hub.place():
        await clock.advance(2.0)
    assert make.made >= 1
    await clock.advance(10.0)
    made = make.made
    await clock.advance(600.0)
    assert make.made == made
    running.cancel()


async def test_who_asks_for_one_picture_gets_it_made_for_all_within_the_period(clock: VirtualClock) -> None:
    make = Maker()
    hub = Hub(make, clock, period=1.0, check=5.0, limit=2)
    first, second = await hub.current(), await hub.current()
    assert first is second
    await clock.advance(1.0)
    await hub.current()
    assert make.made == 2


async def test_places_are_bounded_and_come_free(clock: VirtualClock) -> None:
    hub = Hub(Maker(), clock, period=1.0, check=5.0, limit=2)
    with hub.place():
        with hub.place(), pytest.raises(TooManyListeners), hub.place():
            pass
        with hub.place():
            pass


async def test_when_the_board_stops_every_stream_ends(clock: VirtualClock) -> None:
    hub = Hub(Maker(), clock, period=1.0, check=5.0, limit=2)
    with hub.place() as news:
        messages = hub.messages(news)
        await anext(messages)
        news.clear()
        waiting = asyncio.ensure_future(anext(messages))
        await settle()
        hub.close()
        with pytest.raises(StopAsyncIteration):
            await waiting
