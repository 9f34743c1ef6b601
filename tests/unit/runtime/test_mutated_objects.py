"""Odd objects among good ones, as bytes: no component loses more than one of them at a time.

As the API server has fields that these kinds do not have, this is more than it would store. What it does store is read
in tests/integration/api/test_stored_objects.py.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Mapping

import orjson
import pytest
from scavenger_board.core.now import picture_now
from scavenger_cli import objects as cli
from scavenger_kube.nesting import readable
from scavenger_testing import FakeApi
from scavenger_testing.answers import Answer, Request
from scavenger_testing.mutated import CLUSTER_SCOPED, SEEDS, Object, mutated
from scavenger_testing.readers import Readers, reading

NS = "lab"
EACH = 40
"""Odd objects of a kind at a time."""
GOOD = "good"


def good(plural: str) -> bytes:
    """An object in which nothing is odd."""
    made: Object = orjson.loads(orjson.dumps(SEEDS[plural](random.Random(0))))
    made["metadata"] |= {"name": GOOD, "uid": GOOD} | ({} if plural in CLUSTER_SCOPED else {"namespace": NS})
    return orjson.dumps(made)


class RawApi(FakeApi):
    """Lists are these bytes, whatever is asked for. Watches bring one object of a kind after the other."""

    def __init__(self, lists: Mapping[str, bytes], events: Mapping[str, list[bytes]]) -> None:
        super().__init__(listens=False)
        self._lists, self._events = lists, events
        self.read: set[str] = set()

    async def answer(self, request: Request) -> Answer:
        plural = request.path.rpartition("/")[2]
        if request.method != "GET" or plural not in self._lists:
            return await super().answer(request)
        self.read.add(plural)
        if "watch" in request.query:
            return Answer(lines=self._lines(plural))
        return Answer(200, self._lists[plural])

    async def _lines(self, plural: str) -> AsyncGenerator[bytes, None]:
        for line in self._events[plural]:
            yield line + b"\n"
        await asyncio.Event().wait()


def listed(items: list[bytes]) -> bytes:
    return b'{"metadata":{"resourceVersion":"1"},"items":[%s]}' % b",".join(items)


def changed(body: bytes) -> bytes:
    return b'{"type":"MODIFIED","object":%s}' % body


def versioned(body: bytes, version: int) -> bytes:
    """With what the API server gives to each object, before all that the object has."""
    return body.replace(b'"metadata":{', b'"metadata":{"resourceVersion":"%d","uid":"u",' % version, 1)


pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", [0])
async def test_an_odd_object_costs_itself_only(seed: int) -> None:
    """Lists and watches of all kinds, half of the odd objects in each."""
    chance = random.Random(seed)
    odd = {plural: [mutated(plural, f"odd-{n}", NS, chance) for n in range(2 * EACH)] for plural in SEEDS}
    lists = {name: listed([*(versioned(one, 1) for one in some[:EACH]), good(name)]) for name, some in odd.items()}
    last = {name: versioned(good(name), 99) for name in SEEDS}
    events = {
        name: [changed(one) for one in (*(versioned(one, 2) for one in some[EACH:]), last[name])]
        for name, some in odd.items()
    }
    api = RawApi(lists, events)
    async with api, reading(api.client()) as readers:
        before = readers.handler_errors()
        await asyncio.wait_for(readers.synced(), 30)
        await asyncio.wait_for(_followed(readers), 30)
        assert {informer.resource.plural for informer in readers.informers} == SEEDS.keys() == api.read
        assert readers.handler_errors() == before
        for informer in readers.informers:
            plural = informer.resource.plural
            key = GOOD if plural in CLUSTER_SCOPED else f"{NS}/{GOOD}"
            assert informer.get(key) is not None, (informer.name, informer.unreadable)
            names = {found.rpartition("/")[2] for found in informer.unreadable}
            assert GOOD not in names
            assert len(names) < EACH, informer.unreadable
        picture_now(readers.board.snapshot(), levels_about="")
    jobs, queues, pods = (readable(lists[name]) for name in ("scavengerjobs", "scavengerqueues", "pods"))
    assert GOOD in {found.metadata.name for found in cli.decode_items(jobs, cli.Job)}
    assert GOOD in {found.metadata.name for found in cli.decode_items(queues, cli.Queue)}
    assert GOOD in {found.metadata.name for found in cli.decode_items(pods, cli.JobPod)}
    for body in (jobs, queues, pods):
        assert len(list(cli.raw_items(body))) == EACH + 1


async def _followed(readers: Readers) -> None:
    while any(informer.version != "99" for informer in readers.informers):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
