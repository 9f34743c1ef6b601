"""What other controllers are told of unsaved work: the figures, who gets them, and how many are written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace
from scavenger_api.times import format_time
from scavenger_domain.gang import MICROSECONDS
from scavenger_kube.resources import NAMESPACES, PODS
from scavenger_prioritizer.controller import Prioritizer
from scavenger_prioritizer.core.costs import (
    MOST_STEP,
    CostRules,
    CostSnapshot,
    Queued,
    Reporter,
    plan_costs,
    step_of,
)
from scavenger_prioritizer.disruption_costs import WORKLOADS, DisruptionCosts
from scavenger_prioritizer.settings import PrioritizerSettings
from scavenger_runtime.events import EventRecorder
from scavenger_runtime.informer import Informer
from scavenger_testing.builders import pod_dict
from scavenger_testing.clock import VirtualClock, eventually
from scavenger_testing.fake_api import FakeApi

NOW = 1_800_000_000 * MICROSECONDS
RULES = CostRules(interval=1800 * MICROSECONDS, startup_cost=0)
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
BOOST = "kueue.x-k8s.io/priority-boost"


def ago(seconds: float) -> int:
    return NOW - round(seconds * MICROSECONDS)


def reporter(name: str = "pod", *, cores: int = 1, saved: float | None = 480, **facts: Any) -> Reporter:
    """A pod that has run for 1,000 s, and saved its state 480 s ago: step 4 for each core."""
    values: dict[str, Any] = {"namespace": "lab", "name": name, "uid": name, "job": f"job-{name}", "started": ago(1000)}
    values |= {"cost": 1000 * cores, "checkpoint": None if saved is None else ago(saved), "written": "", **facts}
    return Reporter(**values)


def queued(name: str = "pod", **facts: Any) -> Queued:
    values: dict[str, Any] = {"namespace": "lab", "name": name, "uid": f"w-{name}", "job": f"job-{name}"}
    return Queued(**{**values, "admitted": True, "written": "", **facts})


def planned(
    pods: Sequence[Reporter] = (), workloads: Sequence[Queued] = (), rules: CostRules = RULES, **snapshot: Any
) -> dict[str, int]:
    """UID and figure of each write, in their order."""
    given = {"namespaces": {"lab"}, "rules": rules, **snapshot}
    return {write.of.uid: write.step for write in plan_costs(CostSnapshot(NOW, pods, workloads, **given))}


@pytest.mark.parametrize(
    ("unsaved", "step"),
    [(0, 0), (59, 0), (60, 1), (119, 1), (120, 2), (240, 3), (60 * 2**18, 19), (60 * 2**19, 20), (10**30, MOST_STEP)],
)
def test_a_step_is_twice_the_one_before(unsaved: int, step: int) -> None:
    assert step_of(unsaved) == step


@pytest.mark.parametrize(
    ("pod", "step"),
    [
        (reporter(), 4),
        (reporter(cores=8), 7),
        (reporter(saved=30, written="4"), 0),
        (reporter(written="4"), None),
        (reporter(saved=30), None),
        (reporter(namespace="other"), None),
        (reporter(started=None, written="4"), 0),
        # Values that a tenant chooses gain nothing.
        (reporter(saved=-3600), 5),
        (reporter(saved=5000), 5),
        (reporter(saved=None), 5),
        (reporter(saved=None, started=ago(100 * 86400 + 960)), 5),
        (reporter(cores=10**12), MOST_STEP),
        (reporter(written="-2147483648"), 4),
        (reporter(written="9" * 5000), 4),
        (reporter(written="four"), 4),
    ],
)
def test_the_figure_of_a_pod(pod: Reporter, step: int | None) -> None:
    assert planned([pod]) == ({} if step is None else {"pod": step})


def test_a_workload_has_the_unsaved_work_of_all_its_pods_while_it_is_admitted() -> None:
    pods = [reporter(f"p{n}", job="job-pod") for n in range(4)]
    alone = replace_rules(of_pods=False)
    assert planned(pods, [queued()], rules=alone) == {"w-pod": 6}
    assert planned(pods, [queued(admitted=False, written="6")], rules=alone) == {"w-pod": 0}
    assert planned(pods, [queued(admitted=False)], rules=alone) == {}
    assert planned([reporter(job="")], [queued(job="", written="1")], rules=alone) == {"w-pod": 0}
    both = {"lab", "other"}
    assert planned(pods, [queued(namespace="other")], rules=alone, namespaces=both) == {}, "a UID of another namespace"


def replace_rules(**changes: Any) -> CostRules:
    return CostRules(interval=RULES.interval, startup_cost=0, **changes)


def test_writes_are_few() -> None:
    many = [reporter(f"p{n:03}") for n in range(100)]
    found = planned([*many, reporter("other", namespace="quiet")], namespaces={"lab", "quiet"}, allowance=3)
    assert len(found) == 3
    assert "other" in found, "namespaces take turns"
    assert planned(many, allowance=-1) == {}
    assert planned([reporter()], written_at={"pod": ago(59)}) == {}
    assert planned([reporter()], written_at={"pod": ago(60)}) == {"pod": 4}
    assert planned([reporter()], written_at={"pod": ago(-3600)}) == {"pod": 4}, "a clock that was set back"
    assert planned([reporter()], foreign={"pod"}) == {}


def test_a_workload_that_waits_comes_first_and_at_once() -> None:
    """With its boost it would preempt others of its priority."""
    waits = queued(admitted=False, written="1")
    many = [reporter(f"p{n}", cores=64) for n in range(9)]
    assert planned(many, [waits], allowance=1, written_at={"w-pod": NOW}) == {"w-pod": 0}


def test_between_two_checkpoints_a_figure_changes_once_for_each_step() -> None:
    pod, writes = reporter(cores=4, saved=None, started=NOW), 0
    for second in range(0, 1800, 10):
        now = NOW + second * MICROSECONDS
        for write in plan_costs(CostSnapshot(now, [pod], [], {"lab"}, RULES)):
            pod, writes = replace(pod, written=str(write.step)), writes + 1
    assert writes == step_of(4 * 1790) == 7


# --- against the API server in memory ---


class Lab:
    """A namespace with regular pods of Jobs that Kueue has admitted. Kueue itself does not run here."""

    def __init__(self, api: FakeApi, clock: VirtualClock) -> None:
        self.api = api
        self.clock = clock
        client = api.client(request_timeout=5.0)
        settings = PrioritizerSettings(pod_deletion_cost=True, kueue_priority_boost=True, startup_cost=0.0)
        made = Prioritizer(client, settings, clock, EventRecorder(client, "scavenger-prioritizer", clock=clock)).costs
        assert made is not None
        self.costs: DisruptionCosts = made
        self.client = client

    def ago(self, seconds: float) -> str:
        return format_time(self.clock.now() - timedelta(seconds=seconds))

    def add(self, name: str, *, saved: float, admitted: float, namespace: str = "lab", priority: int = 100) -> None:
        """A Job of one pod with its Workload, `admitted` seconds ago."""
        owner = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "uid": f"job-{name}"}}
        pod = pod_dict(
            name,
            namespace=namespace,
            node="n1",
            phase="Running",
            started=self.ago(admitted),
            owner=owner,
            annotations={"scavenger.dev/last-checkpoint": self.ago(saved)},
        )
        self.api.put(PODS, pod)
        labels = {"kueue.x-k8s.io/job-uid": f"job-{name}"}
        meta = {"name": name, "namespace": namespace, "uid": f"w-{name}", "labels": labels}
        workload = {"apiVersion": WORKLOADS.api_version, "kind": WORKLOADS.kind, "metadata": meta}
        workload |= {"spec": {"priority": priority}, "status": {"conditions": [self.condition("Admitted", admitted)]}}
        self.api.put(WORKLOADS, workload)

    def condition(self, kind: str, since: float) -> dict[str, Any]:
        return {"type": kind, "status": "True", "lastTransitionTime": self.ago(since)}

    def figure(self, kind: Any, name: str, namespace: str = "lab") -> str | None:
        found = self.api.get(kind, namespace, name)
        assert found is not None
        key = DELETION_COST if kind is PODS else BOOST
        value: str | None = found["metadata"].get("annotations", {}).get(key)
        return value

    def victims(self) -> list[str]:
        """Workloads in the order in which Kueue 0.17 to 0.19 preempts those of one ClusterQueue: the lower effective
        priority, then the later admission (`CandidatesOrdering`, pkg/scheduler/preemption/common/ordering.go)."""

        def effective(one: dict[str, Any]) -> int:
            return int(one["spec"]["priority"]) + int(one["metadata"].get("annotations", {}).get(BOOST) or 0)

        recent = sorted(self.api.list(WORKLOADS), key=_admitted_at, reverse=True)
        return [one["metadata"]["name"] for one in sorted(recent, key=effective)]

    async def look(self) -> int:
        """Look when the caches have caught up."""
        await asyncio.gather(*(informer.wait_synced() for informer in self.costs.informers))
        for informer in self.costs.informers:
            await eventually(partial(self._caught_up, informer))
        return await self.costs.look()

    def _caught_up(self, informer: Informer[Any]) -> bool:
        stored = {one["metadata"]["resourceVersion"] for one in self.api.list(informer.resource)}
        cached = {one.metadata.resource_version for one in informer.items()}
        return cached == stored or informer is self.costs.namespaces


def _admitted_at(workload: dict[str, Any]) -> str:
    return str(workload["status"]["conditions"][0]["lastTransitionTime"])


@asynccontextmanager
async def lab() -> AsyncIterator[Lab]:
    clock = VirtualClock()
    async with FakeApi(clock, listens=False) as api:
        for name, labels in (("lab", {"scavenger.dev/disruption-costs": "enabled"}), ("other", {})):
            api.put(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
        made = Lab(api, clock)
        tasks = [asyncio.ensure_future(informer.run()) for informer in made.costs.informers]
        try:
            yield made
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.slow
async def test_kueue_preempts_the_workload_that_would_lose_less() -> None:
    async with lab() as it:
        it.add("saved", saved=10, admitted=3000)
        it.add("unsaved", saved=1200, admitted=1500)
        it.add("foreign", saved=1200, admitted=1500, namespace="other")
        assert it.victims()[-1] == "saved", "without figures the one that was admitted first would stay"
        assert await it.look() == 2
        assert (it.figure(PODS, "unsaved"), it.figure(WORKLOADS, "unsaved")) == ("5", "5")
        assert it.figure(PODS, "saved") is None, "no figure is 0"
        assert it.figure(WORKLOADS, "foreign", "other") is None
        assert [name for name in it.victims() if name != "foreign"] == ["saved", "unsaved"]
        assert await it.look() == 0

        def evict(one: dict[str, Any]) -> None:
            one["status"]["conditions"].append(it.condition("Evicted", 0))

        it.api.edit(WORKLOADS, "lab", "unsaved", evict)
        assert await it.look() == 1
        assert it.figure(WORKLOADS, "unsaved") == "0", "while it waits, it goes before no other"


@pytest.mark.slow
async def test_a_figure_of_another_manager_stays() -> None:
    async with lab() as it:
        it.add("pod", saved=1200, admitted=1500)
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod", "annotations": {DELETION_COST: "-5"}}}
        await it.client.apply(PODS, "lab", "pod", body, field_manager="user")
        assert await it.look() == 2
        assert it.figure(PODS, "pod") == "-5"
        await it.clock.advance(120)
        assert await it.look() == 0, "and is not asked for again and again"
