"""Marks of a service that is away, removed by one that leads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from scavenger_api import names
from scavenger_kube.kinds import Pod
from scavenger_kube.resources import LEASES, PODDISRUPTIONBUDGETS, PODS
from scavenger_runtime.stale_marks import StaleMarks, stale_budgets, stale_finalizers
from scavenger_testing import FakeApi, VirtualClock
from scavenger_testing.builders import pod_dict
from scavenger_testing.faults import Fault

SYSTEM = names.SYSTEM_NAMESPACE


class Cluster:
    def __init__(self, api: FakeApi, clock: VirtualClock) -> None:
        self.api = api
        self.clock = clock

    def renew(self, service: str) -> None:
        meta = {"name": service, "namespace": SYSTEM}
        spec = {"holderIdentity": "a", "renewTime": self.clock.now().isoformat()}
        self.api.put(LEASES, {"apiVersion": LEASES.api_version, "kind": "Lease", "metadata": meta, "spec": spec})

    def budget(self, namespace: str, name: str = names.DISRUPTION_BUDGET, *, by: str = names.PRIORITIZER) -> None:
        meta = {"name": name, "namespace": namespace, "labels": {names.LABEL_MANAGED_BY: by}}
        of = PODDISRUPTIONBUDGETS
        self.api.put(of, {"apiVersion": of.api_version, "kind": of.kind, "metadata": meta, "spec": {}})

    def budgets(self) -> set[tuple[str, str]]:
        found = self.api.list(PODDISRUPTIONBUDGETS)
        return {(one["metadata"]["namespace"], one["metadata"]["name"]) for one in found}

    def pods(self) -> list[Pod]:
        return [msgspec.convert(one, Pod) for one in self.api.list(PODS)]

    async def wait(self, seconds: float, each: Callable[[], Any] = lambda: None) -> None:
        """Let this time pass in small steps, with real time in between for the sockets."""
        for _ in range(int(seconds / 5)):
            each()
            await self.clock.advance(5)
            await asyncio.sleep(0.01)


@asynccontextmanager
async def cluster() -> AsyncIterator[Cluster]:
    clock = VirtualClock()
    async with FakeApi(clock, listens=False) as api:
        yield Cluster(api, clock)


@asynccontextmanager
async def running(marks: StaleMarks) -> AsyncIterator[None]:
    task = asyncio.ensure_future(marks.run())
    try:
        yield
    finally:
        assert not task.done()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_budgets_go_a_minute_after_the_last_renewal() -> None:
    async with cluster() as c:
        c.renew(names.PRIORITIZER)
        c.budget("lab")
        c.budget("team-a")
        c.budget("lab", "of-somebody-else")
        c.budget("theirs", by="Helm")
        async with running(stale_budgets(c.api.client(), c.clock, SYSTEM)):
            await c.wait(200, lambda: c.renew(names.PRIORITIZER))
            assert len(c.budgets()) == 4
            await c.wait(100)
            assert c.budgets() == {("lab", "of-somebody-else"), ("theirs", names.DISRUPTION_BUDGET)}


async def test_budgets_stay_where_there_is_no_lease() -> None:
    async with cluster() as c:
        c.budget("lab")
        async with running(stale_budgets(c.api.client(), c.clock, SYSTEM)):
            await c.wait(300)
            assert c.budgets()


async def test_the_time_in_which_the_api_server_was_away_does_not_count() -> None:
    async with cluster() as c:
        c.renew(names.PRIORITIZER)
        c.budget("lab")
        async with running(stale_budgets(c.api.client(), c.clock, SYSTEM)):
            await c.wait(40)
            c.api.faults.add(Fault("fail", 99, frozenset({"GET"}), "leases", 503, "ServiceUnavailable"))
            await c.wait(100)
            c.api.faults.heal()
            await c.wait(40)
            assert c.budgets()


@pytest.mark.parametrize(
    ("phase", "deleted", "node", "kept"),
    [
        ("Succeeded", True, "node-1", False),
        ("Pending", True, None, False),
        ("Running", True, "node-1", True),
        ("Succeeded", False, "node-1", True),
    ],
)
async def test_a_pod_is_released_when_only_the_finalizer_keeps_it(
    phase: str, deleted: bool, node: str | None, kept: bool
) -> None:
    async with cluster() as c:
        c.renew(names.ADMITTER)
        when = "2026-01-05T09:00:00Z" if deleted else None
        marks = [names.FINALIZER, "x/y"]
        c.api.put(PODS, pod_dict("p", namespace="lab", phase=phase, node=node, finalizers=marks, deleted=when))
        async with running(stale_finalizers(c.api.client(), c.clock, SYSTEM, c.pods, by=names.REGULATOR)):
            await c.wait(40)
            assert c.pods()[0].metadata.finalizers == (names.FINALIZER, "x/y")
            await c.wait(60)
            assert c.pods()[0].metadata.finalizers == ((names.FINALIZER, "x/y") if kept else ("x/y",))
