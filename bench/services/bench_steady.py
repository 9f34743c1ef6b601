"""What the services cost when nothing happens: resident memory and CPU with a thousand jobs running on 100 fake nodes.

The control plane is real and the nodes are kwok's, so that nothing measures real use: the regulator reads requests.
Node leases, heartbeats and the services' own periods go on as in any cluster.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

import msgspec
from scavenger_admitter.writer import SCAVENGERJOBS
from scavenger_api import names
from scavenger_cluster import Cluster, stack
from scavenger_kube.client import ApiClient
from scavenger_testing.processes import cpu_seconds, resident_kb

JOBS = int(os.environ.get("BENCH_STEADY_JOBS", "1000"))
NODES = 100
SETTLE_SECONDS = 20.0
SPAN_SECONDS = 60.0
IN_FLIGHT = 16
TIMEOUT = 300.0

Figure = dict[str, Any]


def run() -> list[Figure]:
    """The figures; brings up a cluster of its own and takes it down."""
    cluster = Cluster("bench-steady", report=lambda line: None)
    try:
        cluster.up(f"fake:{NODES}")
        stack.install(cluster)
        services = [name for name in ("admitter", "regulator", "prioritizer") if name in stack.existing_services()]
        stack.start(cluster, services)
        asyncio.run(_fill(cluster))
        time.sleep(SETTLE_SECONDS)
        return _watch({name: cluster.service(name).pid for name in services})
    finally:
        cluster.down()


async def _fill(cluster: Cluster) -> None:
    """Submit the jobs and return when all of them run."""
    async with await ApiClient.connect(kubeconfig=str(cluster.kubeconfig), user_agent="bench") as client:
        places = asyncio.Semaphore(IN_FLIGHT)

        async def one(number: int) -> None:
            async with places:
                await client.create(SCAVENGERJOBS, "default", _job(number))

        await asyncio.gather(*(one(number) for number in range(JOBS)))
        async with asyncio.timeout(TIMEOUT):
            while await _running(client) < JOBS:  # noqa: ASYNC110 - no informer: it would cost, too
                await asyncio.sleep(2)


async def _running(client: ApiClient) -> int:
    body = msgspec.json.decode(await client.request("GET", SCAVENGERJOBS.path("default")))
    return sum(job.get("status", {}).get("phase") == "Running" for job in body["items"])


def _job(number: int) -> dict[str, Any]:
    return {
        "apiVersion": names.API_VERSION,
        "kind": "ScavengerJob",
        "metadata": {"name": f"steady-{number}"},
        "spec": {"image": "none", "resources": {"requests": {"cpu": "1", "memory": "64Mi"}}},
    }


def _watch(pids: dict[str, int]) -> list[Figure]:
    before = {name: cpu_seconds(pid) for name, pid in pids.items()}
    time.sleep(SPAN_SECONDS)
    figures: list[Figure] = []
    for name, pid in pids.items():
        percent = 100 * (cpu_seconds(pid) - before[name]) / SPAN_SECONDS
        figures += [
            {"name": f"steady.{name}.rss_mb", "value": resident_kb(pid) / 1024, "unit": "MB", "goal": None},
            {"name": f"steady.{name}.cpu_percent", "value": percent, "unit": "% of 1", "goal": None},
        ]
    return figures
