"""Jobs on reclaimed capacity, on the API server in memory: they run, are measured, and go when they are starved."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import structlog
from scavenger_api import names
from scavenger_api.times import format_time
from scavenger_domain.gang import PER_CPU_SECOND
from scavenger_kube.metrics_api import POD_METRICS
from scavenger_kube.resources import JOBS, NODES, PODS, Resource

from .harness import NS, Harness, Object, empty_harness

pytestmark = pytest.mark.slow

METRICS: Resource[Any] = Resource("metrics.k8s.io", "v1beta1", "pods", "PodMetrics", True, object)
PERIOD = 30


def offer(c: Harness, node: str, cpu: int) -> None:
    """The regulator's word on a node: so many reclaimed cores, and memory enough."""

    def edit(obj: Object) -> None:
        amounts = {names.RESOURCE_RECLAIMED_CPU: str(cpu * 1000), names.RESOURCE_RECLAIMED_MEMORY: "8192"}
        obj["status"]["allocatable"] = {**obj["status"]["allocatable"], **amounts}

    c.api.edit(NODES, None, node, edit)


def submit(c: Harness, name: str, cpu: str = "2", **more: Any) -> None:
    c.submit(name, capacity="Reclaimed", cpu=cpu, **more)


def use(c: Harness, name: str, cores: float) -> None:
    """What the metrics API says of the pods of a job now."""
    for pod in c.pods(name):
        meta = {"name": pod["metadata"]["name"], "namespace": NS, "labels": pod["metadata"]["labels"]}
        container = {"name": "main", "usage": {"cpu": f"{round(cores * 1e9)}n", "memory": "100Ki"}}
        c.api.put(
            METRICS, {"metadata": meta, "timestamp": c.stamp(), "window": f"{PERIOD}s", "containers": [container]}
        )


async def work(c: Harness, seconds: int, **cores: float) -> None:
    """Time in which jobs use so many cores."""
    for _ in range(seconds // PERIOD):
        await c.pass_time(PERIOD, step=5)
        for name, used in cores.items():
            use(c, name, used)


def asked(c: Harness) -> int:
    return c.api.count("GET", POD_METRICS)


async def test_it_runs_on_a_node_whose_requests_are_used_up_and_counts_in_its_queue() -> None:
    async with empty_harness() as c:
        c.node("n1", cpu="4")
        offer(c, "n1", 3)
        c.admitter(fallback_admission_percent=100)
        c.submit("guaranteed", cpu="3")
        await c.until(lambda: c.phase("guaranteed") == "Running")
        submit(c, "r")
        await c.until(lambda: c.phase("r") == "Waiting")
        assert c.pods("r") == [], "on requests alone the level is what counts: 3 and 2 of 4 cores"
        c.succeed("guaranteed")
        await c.until(lambda: c.phase("r") == "Running")
        (container,) = c.pods("r")[0]["spec"]["containers"]
        assert container["resources"]["requests"] == {
            "cpu": "0",
            "memory": "0",
            names.RESOURCE_RECLAIMED_CPU: "2000",
            names.RESOURCE_RECLAIMED_MEMORY: "1024",
        }
        submit(c, "late", cpu="1500m")
        await c.until(lambda: "of reclaimed capacity" in str(c.status("late").get("message")))
        assert c.status("late")["message"] == (
            "needs 1500m cpu, 1Gi memory of reclaimed capacity; no node offers that much now"
            " (most: 1 cpu, 7Gi memory of reclaimed capacity)"
        )
        offer(c, "n1", 4)
        await c.until(lambda: c.phase("late") == "Running")


async def test_what_it_used_is_what_counts_when_it_ends() -> None:
    async with empty_harness() as c:
        c.node("n1")
        offer(c, "n1", 4)
        c.admitter(usage_period=PERIOD)
        submit(c, "r", interruptionAfter="5m")
        c.submit("g", cpu="2")
        await c.until(lambda: c.phases() == {"r": "Running", "g": "Running"})
        await work(c, 420, r=0.5)
        for name in ("r", "g"):
            c.delete_pod(c.pods(name)[0])
        await c.until(lambda: c.status("r").get("interruptedCount") == c.status("g").get("interruptedCount") == 1)
        found, other = c.status("r"), c.status("g")
        whole = found["usefulCPUSeconds"] + found["lostCPUSeconds"]
        assert abs(found["usefulCPUSeconds"] - 150) < 10
        assert abs(whole - 210) < 10
        assert abs(other["usefulCPUSeconds"] + other["lostCPUSeconds"] - 4 * whole) < 40, "request times time"


async def test_what_it_saved_as_it_ended_is_what_it_had_used_by_then() -> None:
    """Its pod takes longer to stop than figures are kept of pods that nobody asks about."""
    async with empty_harness() as c:
        c.node("n1")
        offer(c, "n1", 4)
        c.admitter(usage_period=PERIOD)
        submit(c, "r", interruptionAfter="1h")
        await c.until(lambda: c.phase("r") == "Running")
        await work(c, 420, r=0.5)
        saved = format_time(c.clock.now() - timedelta(seconds=210))
        c.stopping, c.last_words, c.kubelet = 143, f"checkpoint={saved}", False
        c.delete_pod(c.pods("r")[0])
        await c.until(lambda: c.status("r").get("interruptedCount") == 1)
        assert abs(c.status("r")["lostCPUSeconds"] - 210) < 10
        await c.pass_time(3 * PERIOD, step=5)
        c.kubelet = True
        await c.until(lambda: c.status("r")["usefulCPUSeconds"] > 0)
        assert abs(c.status("r")["usefulCPUSeconds"] - 105) < 10
        assert abs(c.status("r")["lostCPUSeconds"] - 105) < 10


async def test_the_metrics_api_is_asked_only_while_there_is_somebody_to_ask_about() -> None:
    async with empty_harness() as c:
        c.node("n1")
        offer(c, "n1", 4)
        c.admitter(usage_period=PERIOD)
        c.submit("waits", cpu="1000")
        await c.pass_time(3 * PERIOD, step=5)
        assert asked(c) == 0
        submit(c, "r")
        await c.until(lambda: c.phase("r") == "Running")
        await c.pass_time(3 * PERIOD, step=5)
        assert asked(c) == 3
        c.succeed("r")
        await c.until(lambda: c.phase("r") == "Completed")
        before = asked(c)
        await c.pass_time(3 * PERIOD, step=5)
        assert asked(c) == before


async def test_without_a_metrics_api_it_says_so_once_and_goes_by_the_limit() -> None:
    async with empty_harness() as c:
        with structlog.testing.capture_logs() as logs:
            c.node("n1")
            offer(c, "n1", 4)
            c.api.fail(404, times=3, methods={"GET"}, path="metrics.k8s.io")
            c.admitter(usage_period=PERIOD)
            submit(c, "r")
            await c.until(lambda: c.phase("r") == "Running")
            await c.pass_time(100, step=5)
            assert asked(c) == 3
            c.delete_pod(c.pods("r")[0])
            await c.until(lambda: c.phase("r") != "Running")
            assert abs(c.status("r")["lostCPUSeconds"] - 200) < 15
        assert len([line for line in logs if "metrics API" in line["event"]]) == 1


async def test_a_starved_job_moves_to_where_there_is_room_and_is_counted_as_interrupted() -> None:
    async with empty_harness() as c:
        c.node("n1")
        offer(c, "n1", 2)
        c.admitter(usage_period=PERIOD)
        submit(c, "r", terminationGracePeriodSeconds=1)
        await c.until(lambda: c.phase("r") == "Running")
        offer(c, "n1", 1)
        await work(c, 900, r=1.0)
        assert c.phase("r") == "Running", "it gets its share of what is there"
        await work(c, 900, r=0.05)
        assert c.phase("r") == "Running", "there is no better place"
        c.node("n2")
        offer(c, "n2", 4)
        await c.until(lambda: c.status("r").get("interruptedCount") == 1, limit=2 * PERIOD)
        message, reasons = c.status("r")["message"], {x["type"]: x["reason"] for x in c.status("r")["conditions"]}
        assert message.startswith("interrupted: it was starved (pod r-0-")
        assert "used 50m of 2 cpu over the last 600 s; node n1 offers 1 cpu of reclaimed capacity" in message
        assert "there is capacity on node n2" in message
        assert reasons["Interrupted"] == "Starved"
        c.binds_to = "n2"  # where the scheduler would bind it, too
        await c.until(lambda: c.phase("r") == "Running")
        await work(c, 600, r=0.05)
        assert c.status("r")["interruptedCount"] == 1
        assert c.jobs_ever("r") == 2


async def test_a_starved_job_without_a_better_place_goes_in_the_end_and_waits() -> None:
    async with empty_harness() as c:
        c.node("n1")
        offer(c, "n1", 2)
        c.admitter(usage_period=PERIOD, starved_after=300, starved_patience=2)
        submit(c, "r", terminationGracePeriodSeconds=1)
        await c.until(lambda: c.phase("r") == "Running")
        offer(c, "n1", 1)
        await work(c, 510, r=0.05)
        assert c.phase("r") == "Running", "starved, but not for long enough"
        await work(c, 150, r=0.05)
        assert c.phase("r") == "Interrupted"
        (event,) = c.events("Interrupted")
        assert "and there is no better place" in event["message"]
        await c.pass_time(60, step=5)
        assert c.phase("r") == "Interrupted", "it would be starved there at once"
        assert c.api.list(JOBS) == []
        assert not [pod for pod in c.api.list(PODS) if pod["status"]["phase"] == "Running"]
        offer(c, "n1", 2)
        await c.until(lambda: c.phase("r") == "Running")


async def test_two_starved_jobs_do_not_go_for_the_same_place() -> None:
    async with empty_harness() as c:
        c.node("n1")
        offer(c, "n1", 4)
        c.admitter(usage_period=PERIOD)
        for name in ("r1", "r2"):
            submit(c, name, terminationGracePeriodSeconds=600)
        await c.until(lambda: c.phases() == {"r1": "Running", "r2": "Running"})
        offer(c, "n1", 0)
        c.node("n2")
        offer(c, "n2", 3)
        c.kubelet = False  # whoever is told to go takes its time
        await work(c, 900, r1=0.01, r2=0.02)
        assert c.phases() == {"r1": "Interrupted", "r2": "Running"}
        assert len([pod for pod in c.pods("r1") if pod["status"]["phase"] == "Running"]) == 1, "still terminating"


async def test_what_preemption_would_cost_is_what_was_used() -> None:
    """Where nobody else has written what is at risk; a guaranteed job counts with what it requests."""
    async with empty_harness() as c:
        c.node("n1")
        offer(c, "n1", 4)
        admitter = c.admitter(usage_period=PERIOD).admitter
        submit(c, "r")
        c.submit("g", cpu="2")
        await c.until(lambda: c.phases() == {"r": "Running", "g": "Running"})
        await work(c, 300, r=0.5)
        await c.pass_time(PERIOD, step=5)
        now = round(c.clock.now().timestamp() * 1e6)
        gangs = {gang.job.key: gang.risk(now, 0) / PER_CPU_SECOND for gang in admitter._state.running.gangs()}
        assert abs(gangs[f"{NS}/r"] - 0.5 * 330) < 10
        assert abs(gangs[f"{NS}/g"] - 2.0 * 330) < 10
