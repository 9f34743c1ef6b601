"""2,000 jobs through the admitter beside 2,000 plain Jobs, and how fast a gang is cancelled; on fake nodes.

Both kinds run one after the other on the same control plane, so only their ratio means something on a noisy machine.
The API server, etcd, the controller manager and the scheduler are real; the nodes are kwok's.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import msgspec
from scavenger_admitter.writer import SCAVENGERJOBS
from scavenger_api import names
from scavenger_cluster import Cluster, stack
from scavenger_kube.client import ApiClient
from scavenger_kube.kinds import Pod
from scavenger_kube.resources import JOBS, PODS, Resource
from scavenger_runtime import Informer
from scavenger_runtime.cache import Change
from scavenger_testing.processes import cpu_seconds, peak_kb

JOB_COUNT = int(os.environ.get("BENCH_JOBS", "2000"))
NODE_COUNT = 100
GANGS = 25
GANG_SIZE = 8
IN_FLIGHT = 32
TIMEOUT = 400.0

Figure = dict[str, Any]


def run() -> list[Figure]:
    """The figures; brings up a cluster of its own and takes it down."""
    cluster = Cluster("bench-admitter", report=lambda line: None)
    try:
        cluster.up(f"fake:{NODE_COUNT}")
        stack.install(cluster)
        stack.start(cluster, ["admitter"])
        return asyncio.run(_measure(cluster))
    finally:
        cluster.down()


async def _measure(cluster: Cluster) -> list[Figure]:
    async with await ApiClient.connect(kubeconfig=str(cluster.kubeconfig), user_agent="bench") as client:
        server = next(c.pid for c in cluster.status() if c.name == "kube-apiserver" and c.pid is not None)
        plain, plain_cpu = await _plain_jobs(client, server)
        scavenger, scavenger_cpu = await _scavenger_jobs(client, server)
        pid = cluster.service("admitter").pid
        peak, cpu = peak_kb(pid) / 1024, cpu_seconds(pid)
        cancel = await _gang_cancellation(client)
    return [
        {"name": "jobs2000.plain.seconds", "value": plain, "unit": "s", "goal": None},
        {"name": "jobs2000.scavenger.seconds", "value": scavenger, "unit": "s", "goal": None},
        {"name": "jobs2000.ratio_to_plain", "value": scavenger / plain, "unit": "ratio", "goal": "<= 1.5"},
        {
            "name": "jobs2000.apiserver_cpu_ratio",
            "value": scavenger_cpu / plain_cpu,
            "unit": "ratio",
            "goal": None,
        },
        {"name": "admitter.peak_rss_mb", "value": peak, "unit": "MB", "goal": None},
        {"name": "admitter.cpu_seconds", "value": cpu, "unit": "s", "goal": None},
        {"name": "gang.cancel.p50_seconds", "value": statistics.median(cancel), "unit": "s", "goal": None},
        {"name": "gang.cancel.p99_seconds", "value": _percentile(cancel, 99), "unit": "s", "goal": "<= 1.0"},
    ]


def _percentile(values: list[float], percent: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


# --- until all run --------------------------------------------------------------------------------------------------


async def _plain_jobs(client: ApiClient, server: int) -> tuple[float, float]:
    """Seconds from the first create until the pods of 2,000 batch/v1 Jobs run, and the API server's CPU seconds."""
    before = cpu_seconds(server)
    running: set[str] = set()
    everything = asyncio.Event()

    def seen(change: Change[Pod]) -> None:
        if change.new is not None and change.new.status.phase == "Running":
            running.add(change.key)
            if len(running) >= JOB_COUNT:
                everything.set()

    async with _followed(Informer(client, PODS, label_selector="bench=plain"), seen):
        seconds = await _timed(lambda n: client.create(JOBS, "default", _plain_job(n)), everything)
    used = cpu_seconds(server) - before
    await _delete_all(client, JOBS, "plain", JOB_COUNT)
    return seconds, used


async def _scavenger_jobs(client: ApiClient, server: int) -> tuple[float, float]:
    """Seconds from the first create until 2,000 ScavengerJobs are Running, and the API server's CPU seconds."""
    before = cpu_seconds(server)
    running: set[str] = set()
    everything = asyncio.Event()

    def seen(change: Change[Any]) -> None:
        if change.new is not None and change.new.status.phase == "Running":
            running.add(change.key)
            if len(running) >= JOB_COUNT:
                everything.set()

    async with _followed(Informer(client, SCAVENGERJOBS), seen):
        seconds = await _timed(lambda n: client.create(SCAVENGERJOBS, "default", _scavenger_job(n)), everything)
    used = cpu_seconds(server) - before
    await _delete_all(client, SCAVENGERJOBS, "bench", JOB_COUNT)
    return seconds, used


async def _timed(create: Callable[[int], Awaitable[Any]], everything: asyncio.Event) -> float:
    places = asyncio.Semaphore(IN_FLIGHT)

    async def one(number: int) -> None:
        async with places:
            await create(number)

    started = time.perf_counter()
    await asyncio.gather(*(one(number) for number in range(JOB_COUNT)))
    async with asyncio.timeout(TIMEOUT):
        await everything.wait()
    return time.perf_counter() - started


class _followed:  # noqa: N801 - reads as a verb where it is used
    """Runs an informer for the length of a block."""

    def __init__(self, informer: Informer[Any], handler: Callable[[Change[Any]], None]) -> None:
        self._informer = informer
        informer.add_handler(handler)

    async def __aenter__(self) -> None:
        self._task = asyncio.create_task(self._informer.run())
        await self._informer.wait_synced()

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


async def _delete_all(client: ApiClient, resource: Resource[Any], prefix: str, count: int) -> None:
    """Delete `prefix-0` and so on, one by one: a collection of thousands takes the API server longer than it may."""
    places = asyncio.Semaphore(IN_FLIGHT)

    async def one(number: int) -> None:
        async with places:
            await client.delete(resource, "default", f"{prefix}-{number}")

    await asyncio.gather(*(one(number) for number in range(count)))
    await _until(client, PODS.path("default"), 0)


async def _until(client: ApiClient, path: str, count: int) -> None:
    """Wait until a collection has no more than `count` objects."""

    async with asyncio.timeout(TIMEOUT):
        while True:
            body = await client.request("GET", path, params={"limit": 1})
            page = msgspec.json.decode(body)
            if len(page["items"]) + page["metadata"].get("remainingItemCount", 0) <= count:
                return
            await asyncio.sleep(1)


# --- gangs ----------------------------------------------------------------------------------------------------------


async def _gang_cancellation(client: ApiClient) -> list[float]:
    """Seconds from a member's deletion being visible to that of each sibling, for gangs of eight, one at a time."""
    deleted: dict[str, float] = {}
    pods: dict[str, Pod] = {}
    phases: dict[str, str] = {}

    def seen_pod(change: Change[Pod]) -> None:
        pods[change.key] = change.obj
        if change.new is None:
            pods.pop(change.key)
        elif change.new.metadata.deletion_timestamp:
            deleted.setdefault(change.key, time.perf_counter())

    def seen_job(change: Change[Any]) -> None:
        phases[change.key] = change.new.status.phase if change.new is not None else ""

    def runs(key: str) -> bool:
        return phases.get(key) == "Running"

    def gone(members: list[str]) -> bool:
        return all(member in deleted for member in members)

    waits: list[float] = []
    async with (
        _followed(Informer(client, PODS, label_selector=names.LABEL_JOB), seen_pod),
        _followed(Informer(client, SCAVENGERJOBS), seen_job),
    ):
        for number in range(GANGS):
            await client.create(SCAVENGERJOBS, "default", _scavenger_job(number, "gang", GANG_SIZE))
        for number in range(GANGS):
            key = f"default/gang-{number}"
            await _poll(partial(runs, key))
            members = [p for p in list(pods) if pods[p].metadata.labels[names.LABEL_JOB] == f"gang-{number}"]
            first = members[number % GANG_SIZE]
            await client.delete(PODS, "default", first.partition("/")[2])
            await _poll(partial(gone, members))
            waits += [deleted[member] - deleted[first] for member in members if member != first]
        await _delete_all(client, SCAVENGERJOBS, "gang", GANGS)
    return waits


async def _poll(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - what informers show comes without an event of its own
            await asyncio.sleep(0.01)


# --- manifests ------------------------------------------------------------------------------------------------------


def _plain_job(number: int) -> dict[str, Any]:
    resources = {"cpu": "1", "memory": "64Mi"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": f"plain-{number}", "labels": {"bench": "plain"}},
        "spec": {
            "backoffLimit": 0,
            "template": {
                "metadata": {"labels": {"bench": "plain"}},
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [
                        {"name": "main", "image": "none", "resources": {"requests": resources, "limits": resources}}
                    ],
                },
            },
        },
    }


def _scavenger_job(number: int, name: str = "bench", parallelism: int = 1) -> dict[str, Any]:
    return {
        "apiVersion": names.API_VERSION,
        "kind": "ScavengerJob",
        "metadata": {"name": f"{name}-{number}"},
        "spec": {
            "image": "none",
            "parallelism": parallelism,
            "terminationGracePeriodSeconds": 1,
            "resources": {"requests": {"cpu": "1", "memory": "64Mi"}},
        },
    }
