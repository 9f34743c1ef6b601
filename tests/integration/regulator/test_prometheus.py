"""The Prometheus source against a real Prometheus, out of Debian's package, that scrapes a real target."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from aiohttp import ClientSession, web
from scavenger_regulator.core.snapshot import Measurement
from scavenger_regulator.settings import RegulatorSettings
from scavenger_regulator.sources import SourceError
from scavenger_regulator.sources.prometheus import PrometheusSource, Queries
from scavenger_runtime.prometheus import PrometheusClient
from scavenger_testing import eventually
from scavenger_testing.prometheus import command
from scavenger_testing.waiting import TIMEOUT

GIB = 2**30
ROOT = 'id="/",node="n1"'
UID = "0f3e0a52-3d64-4bd1-9f1b-000000000002"
GROUP = f"/kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice/cri-containerd-1.scope"
POD = f'id="{GROUP}",namespace="lab",pod="job-0",container="main",node="n1"'


@dataclass
class Node:
    """What cAdvisor of a node would show: 2 cores used on the node, half a core by the pod."""

    began: float = field(default_factory=time.time)
    up: bool = True
    moments: set[int] = field(default_factory=set)
    """Of all figures that were asked for, in milliseconds since the epoch."""
    refusals: int = 0

    async def metrics(self, _: web.Request) -> web.Response:
        if not self.up:
            self.refusals += 1
            return web.Response(status=503)
        # With the moment of each figure, as cAdvisor has it: a rate is then the same however late the answer is.
        now = time.time()
        seconds, at = now - self.began, round(now * 1000)
        self.moments.add(at)
        lines = [
            f"container_cpu_usage_seconds_total{{{ROOT}}} {2 * seconds} {at}",
            f"container_cpu_usage_seconds_total{{{POD}}} {0.5 * seconds} {at}",
            f"container_memory_working_set_bytes{{{ROOT}}} {8 * GIB} {at}",
            f"container_memory_working_set_bytes{{{POD}}} {GIB} {at}",
        ]
        return web.Response(text="\n".join(lines) + "\n")


@dataclass
class Setup:
    node: Node
    url: str


@pytest.fixture
async def setup(tmp_path: Path, prometheus_program: Path) -> AsyncIterator[Setup]:
    node = Node()
    app = web.Application()
    app.router.add_get("/metrics", node.metrics)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    target = f"127.0.0.1:{runner.addresses[0][1]}"
    targets = [{"job_name": "cadvisor", "static_configs": [{"targets": [target]}]}]
    words, url = command(
        prometheus_program, {"global": {"scrape_interval": "500ms"}, "scrape_configs": targets}, tmp_path
    )
    quiet = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(*words, stdout=quiet, stderr=quiet)
    try:
        await ready(url)
        yield Setup(node, url)
    finally:
        process.terminate()
        await asyncio.wait_for(process.wait(), 60)
        await runner.cleanup()


async def ready(url: str) -> None:
    async with ClientSession() as session:
        for _ in range(600):
            try:
                async with session.get(f"{url}/-/ready") as answer:
                    if answer.status == 200:
                        return
            except OSError:
                pass
            await asyncio.sleep(0.2)
    raise TimeoutError("prometheus does not become ready")


async def measured(source: PrometheusSource) -> Measurement:
    """The first measurement with everything in it; rates need two scrapes."""
    deadline, trouble = time.monotonic() + TIMEOUT, "nothing measured"
    while time.monotonic() < deadline:
        try:
            found = await source.measure()
        except SourceError as error:  # it takes longer to answer than the source waits
            trouble = str(error)
        else:
            if "cpu" in found.nodes.get("n1", {}) and "cpu" in found.pods.get(UID, {}):
                return found
        await asyncio.sleep(0.2)
    raise TimeoutError(trouble)


async def test_use_of_nodes_and_pods_by_the_default_queries_with_their_true_age(setup: Setup) -> None:
    queries = RegulatorSettings(source="prometheus", prometheus_url=setup.url).queries()
    source = PrometheusSource(PrometheusClient(setup.url, timeout=60), queries)
    try:
        found = await measured(source)
        assert found.nodes["n1"]["cpu"].value == pytest.approx(2, rel=0.2)
        assert found.nodes["n1"]["memory"].value == 8 * GIB
        assert found.pods[UID]["cpu"].value == pytest.approx(0.5, rel=0.2)
        assert found.pods[UID]["memory"].value == GIB
        # Not when Prometheus was asked, nor when it asked: when the figure was taken.
        assert round(found.nodes["n1"]["memory"].at.timestamp() * 1000) in setup.node.moments

        # The target falls silent. Prometheus goes on to answer for a while; the age gives it away, or nothing is said.
        setup.node.up = False
        last = max(setup.node.moments) / 1000
        await eventually(lambda: setup.node.refusals > 2, timeout=TIMEOUT)
        later = await source.measure()
        for figures in later.nodes.values():
            assert all(figure.at.timestamp() <= last + 0.001 for figure in figures.values())
    finally:
        await source.close()


async def test_history_and_errors(setup: Setup) -> None:
    history = {"cpu": "sum(container_memory_working_set_bytes) / 2^30 * 0 + 42", "memory": "vector(7)"}
    queries = RegulatorSettings(source="prometheus", prometheus_url=setup.url).queries()
    client = PrometheusClient(setup.url, timeout=60)
    source = PrometheusSource(client, replace(queries, history=history, history_window=60, history_step=1))
    bad = PrometheusSource(client, Queries({"cpu": "sum(", "memory": "1"}, queries.pod))
    nowhere = PrometheusSource(PrometheusClient("http://127.0.0.1:1", timeout=60), queries)
    try:
        await measured(source)
        found = await source.history()
        async with asyncio.timeout(TIMEOUT):
            while found is None or "cpu" not in found or found["cpu"].samples < 2:
                await asyncio.sleep(0.2)
                found = await source.history()
        assert (found["cpu"].mean, found["cpu"].stdev) == (42, 0)
        assert found["memory"].mean == 7
        with pytest.raises(SourceError, match="parse error"):
            await bad.measure()
        with pytest.raises(SourceError, match="cannot be reached"):
            await nowhere.measure()
    finally:
        for one in (source, bad, nowhere):
            await one.close()
