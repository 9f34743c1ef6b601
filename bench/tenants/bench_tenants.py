"""What one tenant can cost the services: 200 suspended jobs, each as large as the API server takes, made with
nothing but the right to create them.

The webhook, which refuses what is larger than 256 KiB, does not run: the others must do without it.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

from scavenger_admitter.writer import SCAVENGERJOBS
from scavenger_api import names
from scavenger_cluster import Cluster, stack
from scavenger_kube.client import ApiClient
from scavenger_runtime.connections import raise_file_limit
from scavenger_testing.processes import peak_kb

JOBS: Final = 200
SETTLE_SECONDS: Final = 15.0
GOAL: Final = "<= 200"
IN_FLIGHT: Final = 4
IDLE_CONNECTIONS: Final = 2000
IDLE_ADDRESSES: Final = 40
LARGE: Final = "𝄞" * 43_000
"""172,000 bytes; the definition counts characters."""

Figure = dict[str, Any]


def run() -> list[Figure]:
    """The figures; brings up a cluster of its own and takes it down."""
    cluster = Cluster("bench-tenants", report=lambda line: None)
    try:
        cluster.up("fake:2")
        stack.install(cluster)
        services: list[str] = list(stack.existing_services(("admitter", "regulator", "prioritizer")))
        stack.start(cluster, services)
        asyncio.run(_fill(cluster))
        time.sleep(SETTLE_SECONDS)
        while_created = _peaks(cluster, services)
        for name in services:
            cluster.service_stop(name)
        stack.start(cluster, services)
        time.sleep(SETTLE_SECONDS)
        after_restart = _peaks(cluster, services)
        slowest = max(asyncio.run(_probe_beside_idlers(cluster.service(name).port)) for name in services)
    finally:
        cluster.down()
    return [
        {
            "name": f"tenants.peak_mb_200_big_jobs.{name}",
            "value": max(while_created[name], after_restart[name]),
            "unit": "MB",
            "goal": GOAL,
        }
        for name in services
    ] + [
        {"name": "tenants.probe_seconds_with_2000_connections", "value": slowest, "unit": "s", "goal": "<= 1"},
    ]


async def _probe_beside_idlers(port: int) -> float:
    """Seconds for a probe while 40 addresses hold as many idle connections as they get of 2,000, or a minute."""
    raise_file_limit()
    idlers = []
    for number in range(IDLE_CONNECTIONS):
        address = (f"127.0.1.{number % IDLE_ADDRESSES + 1}", 0)
        idlers.append(await asyncio.open_connection("127.0.0.1", port, local_addr=address))
    started = time.perf_counter()
    try:
        async with asyncio.timeout(60):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            idlers.append((reader, writer))
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            await reader.readline()
    except TimeoutError:
        pass
    seconds = time.perf_counter() - started
    for _, writer in idlers:
        writer.close()
    return seconds


def _peaks(cluster: Cluster, services: list[str]) -> dict[str, float]:
    return {name: peak_kb(cluster.service(name).pid) / 1024 for name in services}


async def _fill(cluster: Cluster) -> None:
    async with await ApiClient.connect(kubeconfig=str(cluster.kubeconfig), user_agent="bench") as client:
        places = asyncio.Semaphore(IN_FLIGHT)

        async def one(number: int) -> None:
            async with places:
                await client.create(SCAVENGERJOBS, "default", _job(number))

        await asyncio.gather(*(one(number) for number in range(JOBS)))


def _job(number: int) -> dict[str, Any]:
    """1.4 MB."""
    long = {"name": "n" * 250, "subPath": "s" * 1000, "readOnly": True}
    return {
        "apiVersion": names.API_VERSION,
        "kind": "ScavengerJob",
        "metadata": {"name": f"big-{number}", "annotations": {"note": "x" * 200_000}},
        "spec": {
            "image": "none",
            "suspend": True,
            "resources": {"requests": {"cpu": "1", "memory": "64Mi"}},
            "env": [{"name": f"V{place}", "value": LARGE} for place in range(6)],
            "configMaps": [{**long, "mountPath": f"/{place:03}" + "p" * 1000} for place in range(64)],
        },
    }
