"""What jobs use, in their status: measured, and written along with what is written anyway."""

from __future__ import annotations

from typing import Any

import pytest
import structlog
from scavenger_kube.metrics_api import POD_METRICS
from scavenger_kube.resources import Resource

from .harness import NS, Harness, empty_harness

pytestmark = pytest.mark.slow

METRICS: Resource[Any] = Resource("metrics.k8s.io", "v1beta1", "pods", "PodMetrics", True, object)
PERIOD = 30


async def work(c: Harness, name: str, seconds: int, cores: float, memory: str = "100Mi") -> None:
    """Time in which each pod of a job uses so much."""
    for _ in range(seconds // PERIOD):
        await c.pass_time(PERIOD, step=PERIOD)
        for pod in c.pods(name):
            meta = {"name": pod["metadata"]["name"], "namespace": NS, "labels": pod["metadata"]["labels"]}
            containers = [{"name": "main", "usage": {"cpu": f"{round(cores * 1e9)}n", "memory": memory}}]
            window = {"timestamp": c.stamp(), "window": f"{PERIOD}s"}
            c.api.put(METRICS, {"metadata": meta, **window, "containers": containers})


async def test_usage_goes_along_with_a_status_that_is_written_anyway_and_outlives_the_leader() -> None:
    async with empty_harness() as c:
        c.node()
        first = c.admitter(usage_period=PERIOD)
        c.submit("a", cpu="2", interruptionAfter="10m")
        await c.until(lambda: c.phase("a") == "Running")
        before = c.status_writes("a")
        await work(c, "a", 540, 0.3)
        assert c.status_writes("a") == before
        assert "usage" not in c.status("a")
        await work(c, "a", 120, 0.9, "300Mi")
        assert c.status_writes("a") == before + 1, "the start-over"
        found = c.status("a")["usage"]
        assert found["cpu"]["requested"] == "2"
        assert 260 <= int(found["cpu"]["p50"].removesuffix("m")) <= 340
        assert found["runs"] == 1
        assert 400 <= found["podSeconds"] <= 630
        await work(c, "a", 600, 0.3)
        assert c.status_writes("a") == before + 2
        assert c.status("a")["usage"]["cpu"]["max"] == "900m"
        await first.kill()
        c.admitter(usage_period=PERIOD)
        await work(c, "a", 630, 0.1)
        after = c.status("a")["usage"]
        assert after["podSeconds"] >= 1600
        assert (after["cpu"]["max"], after["memory"]["max"], after["runs"]) == ("900m", "300Mi", 1)
        c.succeed("a")
        await c.until(lambda: c.phase("a") == "Completed")
        assert c.status("a")["usage"]["podSeconds"] > after["podSeconds"]


async def test_the_ledger_of_an_adopted_job_has_its_usage() -> None:
    async with empty_harness() as c:
        c.node()
        c.admitter(usage_period=PERIOD, adopt=True)
        c.submit_job("a")
        await c.until(lambda: bool(c.ledger_of("a").get("runs")))
        before = c.api.count("PATCH", "/jobs/a/status")
        await work(c, "a", 600, 0.3)
        assert c.api.count("PATCH", "/jobs/a/status") == before
        c.delete_pod(c.pods("a")[0])
        await c.until(lambda: c.ledger_of("a").get("interrupted") == 1)
        found = c.ledger_of("a")["usage"]
        assert found["cpu.max"] == 300
        assert found["runs"] == 1
        assert found["podSeconds"] >= 500
        written = c.api.count("PATCH", "/jobs/a/status")
        await c.pass_time(120, step=10)
        settled = c.api.count("PATCH", "/jobs/a/status")
        assert settled <= written + 2, "the return, and its counts"


async def test_without_a_metrics_api_nothing_is_said_and_it_is_hardly_asked() -> None:
    async with empty_harness() as c:
        with structlog.testing.capture_logs() as logs:
            c.node()
            c.api.fail(404, times=99, methods={"GET"}, path="metrics.k8s.io")
            c.admitter(usage_period=PERIOD)
            c.submit("a", interruptionAfter="1m")
            await c.until(lambda: c.phase("a") == "Running")
            await c.pass_time(900, step=30)
        assert c.api.count("GET", POD_METRICS) <= 2
        assert "usage" not in c.status("a")
        assert not [line for line in logs if "metrics API" in line["event"]]
