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
from scavenger_testing.processes import peak_kb

JOBS: Final = 200
SETTLE_SECONDS: Final = 15.0
GOAL: Final = "<= 200"
IN_FLIGHT: Final = 4
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
    ]


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
