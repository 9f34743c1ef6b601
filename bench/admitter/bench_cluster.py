"""2,000 jobs with all services at work beside 2,000 plain Jobs, and how fast a gang is cancelled; on fake nodes.

Both kinds run one after the other on the same control plane, so only their ratio means something on a noisy machine.
The plain ones come first, when none of our services runs and the scheduler is the stock one; then, under the same
conditions, the requests of 2,000 starts as we have them, sent by a client. Last come 2,000 jobs with pod templates of
8 KiB, to compare with those in the short form.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from scavenger_admitter.writer import SCAVENGERJOBS
from scavenger_api import names
from scavenger_cluster import Cluster
from scavenger_kube.client import ApiClient
from scavenger_kube.kinds import Pod
from scavenger_kube.resources import JOBS, PODS
from scavenger_runtime.cache import Change
from scavenger_runtime.informer import Informer
from scavenger_testing.processes import cpu_seconds, peak_kb

from bench.admitter import requests_alone
from bench.figures import percentile, ratio
from bench.services.harness import (
    TIMEOUT,
    Figure,
    LagWatch,
    delete_all,
    each,
    followed,
    plain_cluster,
    plain_job,
    scavenger_job,
    start_ours,
    templated_job,
)

JOB_COUNT = int(os.environ.get("BENCH_JOBS", "2000"))
NODE_COUNT = 100
GANGS = 25
GANG_SIZE = 8


def run() -> list[Figure]:
    """The figures; brings up a cluster of its own and takes it down."""
    with plain_cluster("bench-admitter", NODE_COUNT) as cluster:
        return asyncio.run(_measure(cluster))


async def _measure(cluster: Cluster) -> list[Figure]:
    async with await ApiClient.connect(kubeconfig=str(cluster.kubeconfig), user_agent="bench") as client:
        server = next(c.pid for c in cluster.status() if c.name == "kube-apiserver" and c.pid is not None)
        plain, plain_cpu = await _plain_jobs(client, server)
        admitter = str(await asyncio.to_thread(cluster.service_kubeconfig, "admitter"))
        alone, alone_cpu = await _requests_alone(client, admitter, server)
        await asyncio.to_thread(start_ours, cluster)
        pid = cluster.service("admitter").pid
        async with LagWatch(cluster) as lag:
            before = cpu_seconds(pid)
            scavenger, scavenger_cpu = await _scavenger_jobs(client, server, scavenger_job)
            cpu = cpu_seconds(pid) - before
            await delete_all(client, SCAVENGERJOBS, "bench", JOB_COUNT)
            cancel = await _gang_cancellation(client)
            before = cpu_seconds(pid)
            templated, templated_server_cpu = await _scavenger_jobs(client, server, templated_job)
            templated_cpu = cpu_seconds(pid) - before
            await delete_all(client, SCAVENGERJOBS, "templated", JOB_COUNT)
        peak = peak_kb(pid) / 1024
    return [
        {"name": "jobs2000.plain.seconds", "value": plain, "unit": "s", "goal": None},
        {"name": "jobs2000.requests_alone.seconds", "value": alone, "unit": "s", "goal": None},
        {"name": "jobs2000.scavenger.seconds", "value": scavenger, "unit": "s", "goal": None},
        {"name": "jobs2000.ratio_to_plain", "value": ratio(scavenger, plain), "unit": "ratio", "goal": "<= 1.6"},
        {
            "name": "jobs2000.apiserver_cpu_ratio",
            "value": ratio(scavenger_cpu, plain_cpu),
            "unit": "ratio",
            "goal": "<= 1.6",
        },
        {
            "name": "jobs2000.requests_alone_ratio_to_plain",
            "value": ratio(alone, plain),
            "unit": "ratio",
            "goal": None,
        },
        {
            "name": "jobs2000.requests_alone_apiserver_cpu_ratio",
            "value": ratio(alone_cpu, plain_cpu),
            "unit": "ratio",
            "goal": None,
        },
        _templated("jobs2000.templated_ratio_to_flat", templated, scavenger, None),
        _templated("jobs2000.templated_apiserver_cpu_ratio_to_flat", templated_server_cpu, scavenger_cpu, None),
        _templated("admitter.templated_cpu_ratio_to_flat", templated_cpu, cpu, "<= 1.1"),
        *lag.figures("jobs2000.event_loop_lag_ms"),
        {"name": "admitter.peak_rss_mb", "value": peak, "unit": "MB", "goal": None},
        {"name": "admitter.cpu_seconds", "value": cpu, "unit": "s", "goal": None},
        {"name": "admitter.cpu_ms_per_job", "value": 1000 * cpu / JOB_COUNT, "unit": "ms", "goal": "<= 8"},
        {"name": "gang.cancel.p50_seconds", "value": statistics.median(cancel), "unit": "s", "goal": None},
        {"name": "gang.cancel.p99_seconds", "value": percentile(cancel, 99), "unit": "s", "goal": "<= 1.0"},
    ]


def _templated(name: str, templated: float, flat: float, goal: str | None) -> Figure:
    return {"name": name, "value": ratio(templated, flat), "unit": "ratio", "goal": goal}


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

    async with followed(Informer(client, PODS, label_selector="bench=plain"), seen):
        seconds = await _timed(lambda n: client.create(JOBS, "default", plain_job(n)), everything)
    used = cpu_seconds(server) - before
    await delete_all(client, JOBS, "plain", JOB_COUNT)
    return seconds, used


async def _requests_alone(client: ApiClient, kubeconfig: str, server: int) -> tuple[float, float]:
    """The same as for ScavengerJobs, without any service of ours: only the requests that a start takes are made."""
    async with await ApiClient.connect(kubeconfig=kubeconfig, user_agent="bench-admitter") as admitter:
        before, began = cpu_seconds(server), time.perf_counter()
        pods = await requests_alone.start_jobs(client, admitter, JOB_COUNT)
        seconds, used = time.perf_counter() - began, cpu_seconds(server) - before
        await requests_alone.remove_jobs(client, admitter, pods)
    return seconds, used


async def _scavenger_jobs(client: ApiClient, server: int, job: Callable[[int], dict[str, Any]]) -> tuple[float, float]:
    """Seconds from the first create until 2,000 ScavengerJobs are Running, and the API server's CPU seconds."""
    before = cpu_seconds(server)
    running: set[str] = set()
    everything = asyncio.Event()

    def seen(change: Change[Any]) -> None:
        if change.new is not None and change.new.status.phase == "Running":
            running.add(change.key)
            if len(running) >= JOB_COUNT:
                everything.set()

    async with followed(Informer(client, SCAVENGERJOBS), seen):
        seconds = await _timed(lambda n: client.create(SCAVENGERJOBS, "default", job(n)), everything)
    return seconds, cpu_seconds(server) - before


async def _timed(create: Callable[[int], Awaitable[Any]], everything: asyncio.Event) -> float:
    started = time.perf_counter()
    await each(JOB_COUNT, create)
    async with asyncio.timeout(TIMEOUT):
        await everything.wait()
    return time.perf_counter() - started


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
        followed(Informer(client, PODS, label_selector=names.LABEL_JOB), seen_pod),
        followed(Informer(client, SCAVENGERJOBS), seen_job),
    ):
        for number in range(GANGS):
            await client.create(SCAVENGERJOBS, "default", scavenger_job(number, "gang", GANG_SIZE))
        for number in range(GANGS):
            key = f"default/gang-{number}"
            await _poll(partial(runs, key))
            members = [p for p in list(pods) if pods[p].metadata.labels[names.LABEL_JOB] == f"gang-{number}"]
            first = members[number % GANG_SIZE]
            await client.delete(PODS, "default", first.partition("/")[2])
            await _poll(partial(gone, members))
            waits += [deleted[member] - deleted[first] for member in members if member != first]
        await delete_all(client, SCAVENGERJOBS, "gang", GANGS)
    return waits


async def _poll(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - what informers show comes without an event of its own
            await asyncio.sleep(0.01)
