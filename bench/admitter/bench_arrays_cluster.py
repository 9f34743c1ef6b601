"""An array beside as many plain Jobs and beside one plain Indexed Job, with all services at work; on fake nodes.

The three run one after the other on the same control plane, so only their ratios mean something on a noisy machine. The
plain ones come first, when none of our services runs and the scheduler is the stock one. Each is timed from the first
create until all pods run; the API server's processor time counts until `SETTLE_SECONDS` later, as statuses follow.

BENCH_TASKS: how many tasks, 2,000 by default.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from scavenger_admitter.writer import SCAVENGERJOBS
from scavenger_api import names
from scavenger_cluster import Cluster
from scavenger_kube.client import ApiClient
from scavenger_kube.kinds import Pod
from scavenger_kube.resources import JOBS, PODS, Resource
from scavenger_runtime.cache import Change
from scavenger_runtime.informer import Informer
from scavenger_testing.processes import cpu_seconds, peak_kb

from bench.figures import ratio
from bench.services.harness import (
    TIMEOUT,
    Figure,
    LagWatch,
    counted,
    delete_all,
    each,
    followed,
    plain_cluster,
    plain_job,
    pod_runs,
    scavenger_job,
    start_ours,
)

TASKS: Final = int(os.environ.get("BENCH_TASKS", "2000"))
NODE_COUNT: Final = 100
SETTLE_SECONDS: Final = 10.0

Create = Callable[[], Awaitable[Any]]


def run() -> list[Figure]:
    """The figures; brings up a cluster of its own and takes it down."""
    with plain_cluster("bench-arrays", NODE_COUNT) as cluster:
        return asyncio.run(_measure(cluster))


async def _measure(cluster: Cluster) -> list[Figure]:
    async with await ApiClient.connect(kubeconfig=str(cluster.kubeconfig), user_agent="bench") as client:
        server = next(c.pid for c in cluster.status() if c.name == "kube-apiserver" and c.pid is not None)

        async def plain_jobs() -> None:
            await each(TASKS, lambda number: client.create(JOBS, "default", plain_job(number)))

        plain, plain_cpu = await _timed(client, server, "bench=plain", plain_jobs)
        await delete_all(client, JOBS, "plain", TASKS)
        indexed, indexed_cpu = await _timed(
            client, server, "bench=indexed", lambda: client.create(JOBS, "default", _indexed_job())
        )
        await _gone(client, JOBS, "indexed-0")
        await asyncio.to_thread(start_ours, cluster)
        admitter = cluster.service("admitter").pid
        async with LagWatch(cluster) as lag:
            before = cpu_seconds(admitter)
            array, array_cpu = await _timed(
                client, server, names.LABEL_JOB, lambda: client.create(SCAVENGERJOBS, "default", _array())
            )
            cpu, peak = cpu_seconds(admitter) - before, peak_kb(admitter) / 1024
        await _gone(client, SCAVENGERJOBS, "array-0")
    seconds = {"plain": plain, "indexed_job": indexed, "array": array}
    return [
        *(
            {"name": f"arrays.{TASKS}_{name}_seconds", "value": value, "unit": "s", "goal": None}
            for name, value in seconds.items()
        ),
        _ratio(f"arrays.{TASKS}_ratio_to_plain_jobs", array, plain, "<= 0.7"),
        _ratio(f"arrays.{TASKS}_ratio_to_indexed_job", array, indexed, "<= 1.2"),
        _ratio("arrays.apiserver_cpu_ratio_to_plain_jobs", array_cpu, plain_cpu, None),
        _ratio("arrays.apiserver_cpu_ratio_to_indexed_job", array_cpu, indexed_cpu, "<= 1.35"),
        {"name": "arrays.admitter_cpu_ms_per_task", "value": 1000 * cpu / TASKS, "unit": "ms", "goal": None},
        {"name": "arrays.admitter_peak_rss_mb", "value": peak, "unit": "MB", "goal": None},
        *lag.figures("arrays.event_loop_lag_ms"),
    ]


def _ratio(name: str, ours: float, theirs: float, goal: str | None) -> Figure:
    return {"name": name, "value": ratio(ours, theirs), "unit": "ratio", "goal": goal}


def _indexed_job() -> dict[str, Any]:
    made = plain_job(0, "indexed")
    made["spec"] |= {"completionMode": "Indexed", "completions": TASKS, "parallelism": TASKS}
    return made


def _array() -> dict[str, Any]:
    made = scavenger_job(0, "array")
    made["spec"] |= {"array": {"tasks": TASKS}}
    return made


async def _timed(client: ApiClient, server: int, selector: str, create: Create) -> tuple[float, float]:
    """Seconds from the create until the pods of all tasks run, and the API server's CPU seconds."""
    running: set[str] = set()
    everything = asyncio.Event()

    def seen(change: Change[Pod]) -> None:
        if change.new is not None and pod_runs(change.new):
            running.add(change.key)
            if len(running) >= TASKS:
                everything.set()

    before = cpu_seconds(server)
    async with followed(Informer(client, PODS, label_selector=selector), seen):
        began = time.perf_counter()
        await create()
        async with asyncio.timeout(TIMEOUT):
            await everything.wait()
        seconds = time.perf_counter() - began
    await asyncio.sleep(SETTLE_SECONDS)
    return seconds, cpu_seconds(server) - before


async def _gone(client: ApiClient, resource: Resource[Any], name: str) -> None:
    """Delete it, and wait until no pod is left."""
    await client.delete(resource, "default", name, propagation="Background")
    async with asyncio.timeout(TIMEOUT):
        while await counted(client, PODS.path("default")):  # noqa: ASYNC110 - no informer: it would cost, too
            await asyncio.sleep(1)
