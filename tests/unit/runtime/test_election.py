"""Leader election on virtual clocks, one per contender, against a Lease in memory: no sockets, hence exact times."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, MutableMapping
from typing import Any

import orjson
import pytest
from scavenger_kube.errors import AlreadyExists, Conflict, NotFound, Unavailable
from scavenger_runtime.election import Elector, LeadershipLost
from scavenger_testing import VirtualClock, settle


class LeaseServer:
    """One Lease with optimistic locking, in place of a client."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.writes = 0
        self.down: set[str] = set()
        self.hanging: set[str] = set()
        self.unheard: set[str] = set()

    @property
    def spec(self) -> dict[str, Any]:
        assert self.lease is not None
        spec: dict[str, Any] = self.lease["spec"]
        return spec

    def client(self, who: str) -> Any:
        return LeaseClient(self, who)

    def store(self, lease: dict[str, Any]) -> bytes:
        self.version += 1
        self.writes += 1
        self.lease = {**lease, "metadata": {**lease["metadata"], "resourceVersion": str(self.version)}}
        return orjson.dumps(self.lease)


class LeaseClient:
    def __init__(self, server: LeaseServer, who: str) -> None:
        self.server = server
        self.who = who

    async def request(self, method: str, path: str, **options: Any) -> bytes:
        assert options["urgent"], "a renewal must not queue behind other requests"
        if self.who in self.server.hanging:
            await asyncio.Event().wait()
        await asyncio.sleep(0)
        if self.who in self.server.down:
            raise Unavailable(0, "ClientConnectorError", "down")
        current = self.server.lease
        if method == "POST":
            if current is not None:
                raise AlreadyExists(409, "AlreadyExists")
            return self.server.store(orjson.loads(options["body"]))
        if current is None:
            raise NotFound(404)
        if method == "GET":
            return orjson.dumps(current)
        lease = orjson.loads(options["body"])
        if lease["metadata"]["resourceVersion"] != current["metadata"]["resourceVersion"]:
            raise Conflict(409, "Conflict")
        answer = self.server.store(lease)
        if self.who in self.server.unheard:  # done, but the answer does not come
            self.server.unheard.remove(self.who)
            await asyncio.Event().wait()
        return answer


class Contender:
    """A process with a clock of its own, which can be frozen or wrong."""

    def __init__(self, server: LeaseServer, name: str, *, skew: float = 0.0) -> None:
        self.clock = VirtualClock(skew=skew)
        self.elector = Elector(server.client(name), "test", "ns", name, clock=self.clock)
        self.works = False
        self.drain = 0.0
        self.fails = False
        self.task = asyncio.create_task(self.elector.run(self.lead))

    async def lead(self) -> None:
        self.works = True
        try:
            await asyncio.Event().wait()
        finally:
            try:
                await self.clock.sleep(self.drain)
            finally:
                self.works = False
                if self.fails:
                    raise ValueError("a bug")


Enter = Callable[..., Contender]


@pytest.fixture
def server() -> LeaseServer:
    return LeaseServer()


@pytest.fixture
async def enter(server: LeaseServer) -> AsyncIterator[Enter]:
    contenders: list[Contender] = []

    def enter(name: str, **options: Any) -> Contender:
        contender = Contender(server, name, **options)
        contenders.append(contender)
        return contender

    yield enter
    for _ in range(2):
        for contender in contenders:
            contender.task.cancel()
        await settle()
    await asyncio.gather(*(contender.task for contender in contenders), return_exceptions=True)


async def advance(seconds: float, *contenders: Contender) -> None:
    """Move the clocks of the living together, in small steps."""
    for _ in range(round(seconds * 4)):
        for contender in contenders:
            await contender.clock.advance(0.25)


async def test_one_of_two_leads(server: LeaseServer, enter: Enter) -> None:
    a, b = enter("a"), enter("b")
    await advance(60, a, b)
    assert a.works is not b.works
    assert a.elector.is_leader is a.works
    assert a.elector.leader == b.elector.leader == server.spec["holderIdentity"]
    assert server.spec["leaseTransitions"] == 0


async def test_a_released_lease_is_taken_at_once(server: LeaseServer, enter: Enter) -> None:
    a = enter("a")
    await advance(5, a)
    b = enter("b")
    await advance(5, a, b)
    acquired = server.spec["acquireTime"]
    a.task.cancel()
    await settle()
    assert a.task.cancelled()
    assert server.spec["holderIdentity"] == ""
    await advance(3, b)
    assert b.works
    assert server.spec["leaseTransitions"] == 1
    assert server.spec["leaseDurationSeconds"] == 15
    assert server.spec["acquireTime"] > acquired


async def test_the_lease_is_held_while_the_work_drains(server: LeaseServer, enter: Enter) -> None:
    a = enter("a")
    await advance(5, a)
    b = enter("b")
    a.drain = 40
    a.task.cancel()
    await advance(39, a, b)
    assert a.works
    assert not b.works
    await advance(5, a, b)
    assert (a.works, b.works) == (False, True)


async def test_a_frozen_leader_is_replaced_and_stops_when_it_thaws(server: LeaseServer, enter: Enter) -> None:
    a = enter("a")
    await advance(5, a)
    b = enter("b")
    await advance(14, b)  # a's clock and loop stand still
    assert not b.works
    await advance(5, b)
    assert b.works
    a.clock.jump(19)
    assert not a.elector.is_leader, "before it has even looked"
    await settle()
    with pytest.raises(LeadershipLost, match="not renewed"):
        await a.task
    assert not a.works
    assert server.spec["holderIdentity"] == "b"


@pytest.mark.parametrize("skew", [-7200.0, 7200.0])
async def test_clock_skew_does_not_matter(server: LeaseServer, enter: Enter, skew: float) -> None:
    a = enter("a", skew=skew)
    await advance(5, a)
    b = enter("b")
    await advance(120, a, b)
    assert (a.works, b.works) == (True, False), "however old or new its renewTime looks"
    server.down.add("a")
    took = 0
    while not b.works:
        await advance(1, a, b)
        took += 1
    assert not a.works
    assert 13 <= took <= 20


@pytest.mark.parametrize("fault", ["down", "hanging"])
async def test_a_leader_without_api_stops_before_its_deadline_and_before_anyone_else_starts(
    server: LeaseServer, enter: Enter, fault: str
) -> None:
    a = enter("a")
    await advance(5, a)
    b = enter("b")
    await advance(2, a, b)
    getattr(server, fault).add("a")
    seconds = 0
    while a.works:
        await advance(1, a, b)
        assert not b.works
        seconds += 1
    assert 8 <= seconds <= 11
    with pytest.raises(LeadershipLost):
        await a.task
    await advance(10, b)
    assert b.works


async def test_a_short_outage_is_survived(server: LeaseServer, enter: Enter) -> None:
    a = enter("a")
    await advance(5, a)
    server.down.add("a")
    await advance(6, a)
    server.down.clear()
    await advance(30, a)
    assert a.works


async def test_losing_the_lease_to_somebody_else_ends_the_work_at_once(server: LeaseServer, enter: Enter) -> None:
    a = enter("a")
    await advance(5, a)
    a.drain = 1000
    assert server.lease is not None
    server.store({**server.lease, "spec": {**server.spec, "holderIdentity": "by-hand"}})
    await advance(2, a)
    with pytest.raises(LeadershipLost, match="taken over by by-hand"):
        await a.task
    assert not a.works, "it may not take its time to drain"


async def test_what_the_work_of_a_leader_that_is_none_any_more_fails_with_is_logged(
    server: LeaseServer, enter: Enter, logs: list[MutableMapping[str, Any]], lost: Callable[[], list[str]]
) -> None:
    a = enter("a")
    await advance(5, a)
    a.fails = True
    assert server.lease is not None
    server.store({**server.lease, "spec": {**server.spec, "holderIdentity": "by-hand"}})
    await advance(2, a)
    with pytest.raises(LeadershipLost):
        await a.task
    assert [str(entry["exc_info"]) for entry in logs if "exc_info" in entry] == ["a bug"]
    assert lost() == []


async def test_a_lease_touched_or_deleted_by_hand_is_written_again(server: LeaseServer, enter: Enter) -> None:
    a = enter("a")
    await advance(5, a)
    assert server.lease is not None
    server.store({**server.lease, "metadata": {**server.lease["metadata"], "labels": {"x": "y"}}})
    await advance(3, a)
    assert a.works
    server.lease = None
    await advance(3, a)
    assert a.works
    assert server.spec["holderIdentity"] == "a"


async def test_work_that_ends_or_fails_releases_the_lease(server: LeaseServer) -> None:
    async def ends() -> None:
        return None

    async def fails() -> None:
        raise ValueError("a bug")

    elector = Elector(server.client("a"), "test", "ns", "a", clock=VirtualClock())
    await elector.run(ends)
    assert server.spec["holderIdentity"] == ""
    with pytest.raises(ValueError, match="a bug"):
        await elector.run(fails)
    assert server.spec["holderIdentity"] == ""


async def test_candidates_wait_out_an_api_that_is_down(server: LeaseServer, enter: Enter) -> None:
    server.down.add("a")
    server.hanging.add("b")
    a, b = enter("a"), enter("b")
    await advance(60, a, b)
    server.down.clear()
    server.hanging.clear()
    await advance(15, a, b)
    assert a.works is not b.works


async def test_what_cannot_work_is_refused(server: LeaseServer) -> None:
    with pytest.raises(ValueError, match="lease_duration"):
        Elector(server.client("a"), "test", "ns", "a", lease_duration=10, renew_deadline=10)
    with pytest.raises(ValueError, match="identity"):
        Elector(server.client("a"), "test", "ns", "")


async def test_who_is_told_to_stop_when_just_elected_releases_the_lease(server: LeaseServer, enter: Enter) -> None:
    one = enter("one")
    while not one.elector.is_leader:  # noqa: ASYNC110 - a turn of the event loop, no more: its work has not begun
        await asyncio.sleep(0)
    assert not one.works
    one.task.cancel()
    await settle()
    assert one.task.cancelled()
    assert not one.elector.is_leader
    assert server.spec["holderIdentity"] == ""


async def test_a_renewal_that_was_done_unheard_does_not_keep_the_lease(server: LeaseServer, enter: Enter) -> None:
    """The release is refused then, as the Lease is not the one that was seen last."""
    one = enter("one")
    await settle()
    assert one.works
    server.unheard.add("one")
    await one.clock.advance(3)
    assert not server.unheard, "it has renewed"
    one.task.cancel()
    await settle()
    assert server.spec["holderIdentity"] == ""
