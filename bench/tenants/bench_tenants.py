"""What one tenant can cost the services, and the tenant beside: 200 suspended jobs, each as large as the API server
takes, made with nothing but the right to create them; idle connections; and finalizers on Jobs whose room another queue
is to have.

The webhook, which refuses what is larger than 256 KiB, does not run: the others must do without it.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from contextlib import suppress
from typing import Any, Final

from scavenger_admitter.writer import SCAVENGERJOBS
from scavenger_api import names
from scavenger_cluster import Cluster, stack
from scavenger_kube.client import ApiClient
from scavenger_kube.errors import NotFound
from scavenger_kube.resources import MERGE_PATCH
from scavenger_runtime.connections import raise_file_limit
from scavenger_testing.processes import peak_kb
from scavenger_testing.waiting import wait

JOBS: Final = 200
SETTLE_SECONDS: Final = 15.0
GOAL: Final = "<= 200"
IN_FLIGHT: Final = 4
IDLE_CONNECTIONS: Final = 2000
IDLE_ADDRESSES: Final = 40
HOGS: Final = 20
"""Jobs of a core of tenant a: all that admission lets the two nodes have."""
STARTS: Final = 5
"""Jobs of a core of tenant b, within its share."""
TURNS: Final = 5
KEEP: Final = {"metadata": {"finalizers": ["example.com/keep"]}}
FREE: Final[dict[str, Any]] = {"metadata": {"finalizers": None}}
LARGE: Final = "𝄞" * 43_000
"""172,000 bytes; the definition counts characters."""

JOBS_OF_SCAVENGER: Final = "/apis/scavenger.dev/v1alpha1/namespaces/default"
JOBS_OF_BATCH: Final = "/apis/batch/v1/namespaces/default"
QUEUES: Final = "/apis/scavenger.dev/v1alpha1/scavengerqueues"

Figure = dict[str, Any]


def run() -> list[Figure]:
    """The figures; brings up a cluster of its own and takes it down."""
    cluster = Cluster("bench-tenants", report=lambda line: None)
    try:
        cluster.up("fake:2", fake_cpu="16", fake_memory="64Gi")
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
        cluster.client.request("DELETE", f"{JOBS_OF_SCAVENGER}/scavengerjobs")
        starts = _starts(cluster)
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
        {"name": "tenants.b_starts_seconds", "value": starts[True], "unit": "s"},
        {"name": "tenants.b_starts_seconds_without_finalizers", "value": starts[False], "unit": "s"},
        {"name": "tenants.b_starts_ratio", "value": starts[True] / starts[False], "unit": "", "goal": "<= 2"},
    ]


def _starts(cluster: Cluster) -> dict[bool, float]:
    """Medians of the seconds until all jobs of b run while a has the room, by whether Jobs of a have finalizers."""
    for name in ("a", "b"):
        queue = {"apiVersion": names.API_VERSION, "kind": "ScavengerQueue", "metadata": {"name": name}, "spec": {}}
        cluster.client.request("POST", QUEUES, queue)
    times: dict[bool, list[float]] = {True: [], False: []}
    for turn in range(2 * TURNS):
        held = turn % 2 == 1
        times[held].append(_turn(cluster, held))
    return {held: statistics.median(found) for held, found in times.items()}


def _turn(cluster: Cluster, held: bool) -> float:
    client = cluster.client
    hogs = [f"hog-{number}" for number in range(HOGS)]
    starts = [f"start-{number}" for number in range(STARTS)]
    client.create_all(f"{JOBS_OF_SCAVENGER}/scavengerjobs", [_small(name, "a") for name in hogs])
    wait("a has the room", lambda: len(_running(cluster, "hog-")) >= HOGS // 2 and not _settling(cluster))
    running = _running(cluster, "hog-")
    if held:
        for name in running:
            client.request("PATCH", f"{JOBS_OF_BATCH}/jobs/{name}", KEEP, MERGE_PATCH)
    began = time.perf_counter()
    client.create_all(f"{JOBS_OF_SCAVENGER}/scavengerjobs", [_small(name, "b") for name in starts])
    wait("b's jobs run", lambda: len(_running(cluster, "start-")) == STARTS)
    seconds = time.perf_counter() - began
    client.request("DELETE", f"{JOBS_OF_SCAVENGER}/scavengerjobs")
    wait("all are gone", lambda: _gone(cluster))
    return seconds


def _gone(cluster: Cluster) -> bool:
    """Take the finalizers off Jobs that are left; whether nothing is."""
    jobs = cluster.client.get(f"{JOBS_OF_BATCH}/jobs")["items"]
    for job in jobs:
        with suppress(NotFound):
            cluster.client.request("PATCH", f"{JOBS_OF_BATCH}/jobs/{job['metadata']['name']}", FREE, MERGE_PATCH)
    left = cluster.client.get(f"{JOBS_OF_SCAVENGER}/scavengerjobs")["items"]
    return not (jobs or left or cluster.client.get("/api/v1/namespaces/default/pods")["items"])


def _running(cluster: Cluster, begins: str) -> list[str]:
    jobs = cluster.client.get(f"{JOBS_OF_SCAVENGER}/scavengerjobs")["items"]
    names_ = {job["metadata"]["name"]: job.get("status", {}).get("phase") for job in jobs}
    return [name for name, phase in names_.items() if name.startswith(begins) and phase == "Running"]


def _settling(cluster: Cluster) -> bool:
    """Whether a job is starting: more may follow."""
    jobs = cluster.client.get(f"{JOBS_OF_SCAVENGER}/scavengerjobs")["items"]
    return any(job.get("status", {}).get("phase") in (None, "Pending", "Starting") for job in jobs)


def _small(name: str, queue: str) -> dict[str, Any]:
    spec = {"image": "none", "queue": queue, "resources": {"requests": {"cpu": "1", "memory": "64Mi"}}}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": names.API_VERSION, "kind": "ScavengerJob", "metadata": metadata, "spec": spec}


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
