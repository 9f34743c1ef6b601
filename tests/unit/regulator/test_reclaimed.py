"""Reclaimed capacity in the controller, against the API server in memory: what nodes show, who goes, what is kept."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pydantic import ValidationError
from scavenger_api.evictions import EvictionReason, read_eviction_note
from scavenger_api.names import RESOURCE_RECLAIMED_CPU, RESOURCE_RECLAIMED_MEMORY
from scavenger_api.shared_settings import SharedSettings
from scavenger_kube.resources import CONFIGMAPS, NODES, PODDISRUPTIONBUDGETS, PODS
from scavenger_regulator.settings import RegulatorSettings
from scavenger_regulator.store import PROFILES_CONFIGMAP
from scavenger_runtime.jobs_seen import SCAVENGERJOBS
from scavenger_testing.builders import condition, job_dict, node_dict, pod_dict, scavengerjob_dict

from tests.unit.regulator.test_controller import POD_METRICS, SYSTEM, Cluster, cluster

pytestmark = pytest.mark.slow

ON: dict[str, Any] = {"reclaimed": True}


def offered(c: Cluster, name: str = "n1", kind: str = "capacity") -> tuple[str | None, str | None]:
    node = c.api.get(NODES, None, name)
    assert node is not None
    found = node["status"][kind]
    return found.get(RESOURCE_RECLAIMED_CPU), found.get(RESOURCE_RECLAIMED_MEMORY)


def writes(c: Cluster) -> int:
    return c.writes("/status")


def add_job(c: Cluster, name: str, *, memory: str = "10240", started: float = 600, **labels: str) -> None:
    """A job on reclaimed capacity with a pod of two cores and so many MiB."""
    run = f"{name}-run"
    status = {"jobName": run, "runningTimestamps": [c.ago(started)]}
    c.api.put(SCAVENGERJOBS, scavengerjob_dict(name, namespace="lab", phase="Running", status=status))
    made = pod_dict(
        f"{run}-0",
        namespace="lab",
        node="n1",
        phase="Running",
        started=c.ago(started),
        requests={"cpu": "0", "memory": "0", RESOURCE_RECLAIMED_CPU: "2000", RESOURCE_RECLAIMED_MEMORY: memory},
        owner=job_dict(run, namespace="lab"),
        labels={"scavenger.dev/job": name, **labels},
        finalizers=["scavenger.dev/interruption-record"],
    )
    c.api.put(PODS, made)


async def periods(c: Cluster, count: int, cpu: float = 2, memory: float = 10, **measured: Any) -> None:
    for _ in range(count):
        c.measure(cpu, memory, **measured)
        await c.period()


async def test_a_node_offers_what_is_idle_step_by_step_in_capacity_and_allocatable() -> None:
    async with cluster(**ON) as c:
        await periods(c, 4)
        assert offered(c) == (None, None)
        assert writes(c) == 0
        await periods(c, 1)
        assert offered(c) == offered(c, kind="allocatable") == ("500", "5120")
        await periods(c, 60)
        cpu, memory = offered(c)
        assert 5500 <= int(cpu or 0) <= 6500
        assert 65 * 1024 <= int(memory or 0) <= 75 * 1024
        before = writes(c)
        await periods(c, 10)
        assert writes(c) - before <= 4, "only what has changed"


async def test_a_burst_is_published_in_the_same_period() -> None:
    async with cluster(**ON) as c:
        await periods(c, 30)
        await periods(c, 1, cpu=7.6)
        assert int(offered(c)[0] or 0) <= 400


async def test_what_a_fake_node_does_not_copy_is_written_again() -> None:
    async with cluster(**ON) as c:
        await periods(c, 6)

        def forget(node: dict[str, Any]) -> None:
            del node["status"]["allocatable"][RESOURCE_RECLAIMED_CPU]

        c.api.edit(NODES, None, "n1", forget)
        assert offered(c, kind="allocatable")[0] is None
        await periods(c, 1)
        assert offered(c) == offered(c, kind="allocatable")


async def test_missing_metrics_change_nothing() -> None:
    async with cluster(**ON) as c:
        await periods(c, 20)
        before = offered(c)
        for _ in range(6):
            await c.period()
        assert c.levels().state == "Blind"
        assert offered(c) == before


async def test_a_write_that_fails_is_made_in_the_next_period() -> None:
    async with cluster(**ON) as c:
        await periods(c, 4)
        c.api.fail(500, times=1, methods={"PATCH"}, path="/nodes/n1/status")
        await periods(c, 1)
        assert offered(c) == (None, None)
        c.api.fail(409, times=1, methods={"PATCH"}, path="/nodes/n1/status")
        await periods(c, 1)
        assert offered(c) == (None, None)
        await periods(c, 1)
        assert offered(c)[0] == "500"


async def test_dry_run_publishes_no_offers() -> None:
    async with cluster(dry_run=True, **ON) as c:
        await periods(c, 10)
        assert writes(c) == 0


async def test_what_was_learned_outlives_the_process() -> None:
    async with cluster(**ON) as c:
        await periods(c, 25)
        await c.regulator.store.save(c.clock.now())
        found = c.api.get(CONFIGMAPS, SYSTEM, PROFILES_CONFIGMAP)
        assert found is not None
        before = int(offered(c)[0] or 0)
        await c.succeed()
        await periods(c, 1)
        assert int(offered(c)[0] or 0) >= before, "it goes on from where it was"
        await periods(c, 20, cpu=0.5)
        assert int(offered(c)[0] or 0) <= 6500, "what was used earlier today is remembered"


async def test_what_was_measured_in_another_way_is_not_taken_up() -> None:
    async with cluster(**ON) as c:
        await periods(c, 10)
        await c.regulator.store.save(c.clock.now())

        def other(found: dict[str, Any]) -> None:
            found["data"]["source"] = "prometheus"

        c.api.edit(CONFIGMAPS, SYSTEM, PROFILES_CONFIGMAP, other)
        await c.regulator.restore()
        before = offered(c)
        await periods(c, 4)
        assert offered(c) == before, "warming up again"


# --- off ----------------------------------------------------------------------------------------------------


def leave_offer(c: Cluster, name: str) -> None:
    made = node_dict(name, cpu="10", memory="100Gi")
    made["status"]["conditions"] = [condition("Ready")]
    for kind in ("capacity", "allocatable"):
        made["status"][kind].update({RESOURCE_RECLAIMED_CPU: "4000", RESOURCE_RECLAIMED_MEMORY: "100"})
    c.api.put(NODES, made)


async def test_switched_off_it_takes_old_offers_away_and_writes_no_more() -> None:
    async with cluster() as c:
        leave_offer(c, "n2")
        c.measure(2)
        await c.period()
        assert offered(c, "n2") == offered(c, "n2", kind="allocatable") == (None, None)
        node = c.api.get(NODES, None, "n2")
        assert node is not None
        assert node["status"]["capacity"]["cpu"] == "10"
        assert writes(c) == 1
        await periods(c, 3)
        assert writes(c) == 1


async def test_without_the_right_to_take_them_away_it_asks_once() -> None:
    async with cluster() as c:
        leave_offer(c, "n2")
        leave_offer(c, "n3")
        c.api.fail(403, times=10, methods={"PATCH"}, path="/status")
        await periods(c, 3)
        assert offered(c, "n2") == ("4000", "100")
        assert writes(c) == 1


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"source": "requests"}, "--source requests"),
        ({"reclaimed_half_life": 100, "period": 30}, "5 samples .* take 150 s at --period 30"),
        ({"reclaimed_step": 1.0}, "reclaimed-step"),
        ({"reclaimed_percentile": 101}, "reclaimed_percentile"),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        RegulatorSettings(**ON, **settings)


def test_off_by_default_and_then_nothing_of_it_is_checked() -> None:
    settings = RegulatorSettings(source="requests", reclaimed_step=1.0)
    assert not settings.offer_rules().enabled
    rules = RegulatorSettings(**ON).offer_rules()
    assert (rules.percentile, rules.step, rules.hysteresis, rules.min_samples, rules.silent_after) == (95, 5, 2, 5, 90)
    assert RegulatorSettings(**ON).node_memory_rules(SharedSettings()).ahead == 60


# --- memory -------------------------------------------------------------------------------------------------


def gone(c: Cluster, name: str) -> bool:
    pod = c.api.get(PODS, "lab", f"{name}-run-0")
    return pod is None or "deletionTimestamp" in pod["metadata"]


async def test_before_a_node_runs_out_of_memory_the_one_with_least_at_risk_goes_and_says_why() -> None:
    async with cluster(**ON) as c:
        add_job(c, "young", started=300)
        add_job(c, "old", started=1700)
        c.add_job("guaranteed", started=1)
        add_more_nodes(c)
        await periods(c, 1, memory=50)
        assert not gone(c, "young")
        await periods(c, 1, memory=85)
        assert c.levels().state != "Evicting", "the cluster as a whole has room"
        assert [gone(c, name) for name in ("young", "old", "guaranteed")] == [True, True, False]
        found = c.api.get(PODS, "lab", "young-run-0")
        assert found is not None
        note = read_eviction_note(found["metadata"]["annotations"])
        assert note is not None
        assert note.reason is EvictionReason.NODE_MEMORY
        assert ("young", "NodeMemory") in c.reasons()


async def test_nobody_goes_for_memory_when_the_levels_cannot_be_published() -> None:
    async with cluster(**ON) as c:
        add_job(c, "young", started=300)
        add_more_nodes(c)
        await periods(c, 1, memory=50)
        c.api.fail(500, times=1, methods={"PATCH"}, path="scavenger-levels")
        await periods(c, 1, memory=86)
        assert not gone(c, "young")
        await periods(c, 1, memory=86)
        assert gone(c, "young")


async def test_in_a_dry_run_nobody_goes_for_memory() -> None:
    async with cluster(dry_run=True, **ON) as c:
        add_job(c, "a")
        add_more_nodes(c)
        await periods(c, 1, memory=90)
        assert not gone(c, "a")
        assert ("a", "NodeMemory") in c.reasons()


async def test_switched_off_no_node_is_looked_after() -> None:
    async with cluster() as c:
        add_job(c, "a")
        add_more_nodes(c)
        await periods(c, 1, memory=90)
        assert not gone(c, "a")


async def test_where_a_budget_covers_all_of_them_the_node_gets_one_event() -> None:
    async with cluster(**ON) as c:
        add_job(c, "a", team="a")
        add_more_nodes(c)
        budget = {
            "metadata": {"namespace": "lab", "name": "keep"},
            "spec": {"minAvailable": 5, "selector": {"matchLabels": {"team": "a"}}},
        }
        c.api.put(PODDISRUPTIONBUDGETS, budget)
        await periods(c, 4, memory=86.5)
        assert not gone(c, "a")
        assert c.reasons().count(("n1", "NodeMemoryShort")) == 1


def add_more_nodes(c: Cluster) -> None:
    """So that one full node is not a full cluster."""
    c.idle_nodes = ("n2", "n3", "n4")
    for name in c.idle_nodes:
        made = node_dict(name, cpu="10", memory="100Gi")
        made["status"]["conditions"] = [condition("Ready")]
        c.api.put(NODES, made)


# --- CPU time -----------------------------------------------------------------------------------------------


async def test_what_is_at_risk_is_what_was_used() -> None:
    async with cluster(**ON) as c:
        add_job(c, "busy", started=60)
        add_job(c, "idle", started=900)
        add_more_nodes(c)
        for _ in range(3):
            c.measure(3, memory=50)
            c.api.put(POD_METRICS, pod_use(c, "idle", "1m"))
            await c.period()
        c.measure(3, memory=85.5)
        c.api.put(POD_METRICS, pod_use(c, "idle", "1m"))
        snapshot, _ = await c.regulator.decide(await c.regulator.measurements.measure())
        since = c.clock.now() - timedelta(seconds=60)
        assert snapshot.cpu_time(uid(c, "busy"), since, c.clock.now()) == pytest.approx(60, rel=0.01)
        assert snapshot.cpu_time(uid(c, "idle"), since, c.clock.now()) == pytest.approx(0.06, rel=0.01)


def uid(c: Cluster, name: str) -> str:
    pod = c.api.get(PODS, "lab", f"{name}-run-0")
    assert pod is not None
    return str(pod["metadata"]["uid"])


def pod_use(c: Cluster, name: str, cpu: str) -> dict[str, Any]:
    meta = {"name": f"{name}-run-0", "namespace": "lab", "labels": {"scavenger.dev/job": name}}
    container = {"name": "main", "usage": {"cpu": cpu, "memory": "1Gi"}}
    return {"metadata": meta, "timestamp": c.ago(0), "window": "5s", "containers": [container]}
