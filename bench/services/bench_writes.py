"""How many requests that write our services send: for a one-pod job from submit to Completed, and for an interruption.

Interrupted are first the jobs that may be displaced, as schedulers do it, and then all at once, protected ones too:
some of these are protected again when they are back, which is two writes each.

The API server counts them. Its `apiserver_request_total` does not say who asked, but the requests it dispatches are
counted by the FlowSchema that they match, so there is one here for each service and kind of object. Every request that
was served counts, refused ones and Events included; renewals of leases, which nobody's job asks for, match the
FlowSchema of the chart before. What the services write while there is no job is taken off.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import msgspec
from scavenger_admitter.writer import SCAVENGERJOBS
from scavenger_api import names
from scavenger_cluster import Cluster, kwok
from scavenger_kube.client import ApiClient
from scavenger_kube.kinds import Pod
from scavenger_kube.resources import PODS
from scavenger_runtime.informer import Informer

from bench.figures import dispatched, grown
from bench.services.harness import (
    TIMEOUT,
    Figure,
    LagWatch,
    Object,
    each,
    followed,
    plain_cluster,
    pod_runs,
    scavenger_job,
    start_ours,
    templated_job,
)

JOB_COUNT: Final = int(os.environ.get("BENCH_WRITES_JOBS", "100"))
NODES: Final = 10
IN_FLIGHT: Final = 4
RUN_SECONDS: Final = 60.0
"""A job runs on for so long after it was seen to run: classes and checkpoints are written while jobs run."""
SETTLE_SECONDS: Final = 15.0
IDLE_SECONDS: Final = 30.0
PREFIX: Final = "bench-"
PRECEDENCE: Final = 615
"""Between the FlowSchemas of the chart for leases and for making room, and its last one, for all other writes."""
COUNTED: Final = (PREFIX, "scavenger-room", "scavenger-writes")
VERBS: Final = ("create", "update", "patch", "delete", "deletecollection")
KINDS: Final = {
    "status": (names.GROUP, "scavengerjobs/status"),
    "pods": ("", "pods"),
    "jobs": ("batch", "jobs"),
    "events": ("", "events"),
    "services": ("", "services"),
    "budgets": ("policy", "poddisruptionbudgets"),
    "others": ("*", "*"),
}
"""Kinds of objects that are told apart, the most particular first."""


def run() -> list[Figure]:
    """The figures; brings up a cluster of its own and takes it down."""
    with plain_cluster("bench-writes", NODES) as cluster:
        for schema in schemas():
            path = f"/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas/{schema['metadata']['name']}"
            cluster.client.apply(path, schema)
        start_ours(cluster)
        return asyncio.run(_measure(cluster))


def schemas() -> Iterator[Object]:
    """A FlowSchema for each service and kind of object, of the level that such requests have anyway."""
    for account in (names.ADMITTER, names.PRIORITIZER, names.REGULATOR, names.WEBHOOK):
        for position, (kind, (group, resource)) in enumerate(KINDS.items()):
            where = {"apiGroups": [group], "resources": [resource], "namespaces": ["*"], "clusterScope": True}
            yield {
                "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
                "kind": "FlowSchema",
                "metadata": {"name": f"{PREFIX}{account}-{kind}"},
                "spec": {
                    "priorityLevelConfiguration": {"name": "scavenger-writes"},
                    "matchingPrecedence": PRECEDENCE + (position == len(KINDS) - 1),
                    "distinguisherMethod": {"type": "ByUser"},
                    "rules": [
                        {
                            "subjects": [
                                {
                                    "kind": "ServiceAccount",
                                    "serviceAccount": {"name": account, "namespace": names.SYSTEM_NAMESPACE},
                                }
                            ],
                            "resourceRules": [{"verbs": list(VERBS), **where}],
                        }
                    ],
                },
            }


@dataclass(frozen=True)
class Count:
    """Requests by FlowSchema, and the time at which they were read."""

    requests: Mapping[str, float]
    at: float


async def _count(client: ApiClient) -> Count:
    text = (await client.request("GET", "/metrics")).decode()
    return Count(dispatched(text), time.perf_counter())


def per_job(before: Count, after: Count, idle: Mapping[str, float], jobs: int) -> dict[str, float]:
    """Requests for each job, by FlowSchema; `idle`: requests per second that come without any job."""
    seconds = after.at - before.at
    found = grown(after.requests, before.requests, COUNTED)
    return {name: max(0.0, value - idle.get(name, 0.0) * seconds) / jobs for name, value in found.items()}


async def _measure(cluster: Cluster) -> list[Figure]:
    async with (
        await ApiClient.connect(kubeconfig=str(cluster.kubeconfig), user_agent="bench") as client,
        LagWatch(cluster) as lag,
    ):
        watch = _Watch()
        pods = Informer(client, PODS, label_selector=names.LABEL_JOB)
        async with followed(pods, lambda change: watch.on_pod(change.key, change.new)):
            await asyncio.sleep(SETTLE_SECONDS)
            first = await _count(client)
            await asyncio.sleep(IDLE_SECONDS)
            second = await _count(client)
            grew = grown(second.requests, first.requests, COUNTED)
            idle = {name: value / (second.at - first.at) for name, value in grew.items()}

            lives: list[dict[str, float]] = []
            for job in (scavenger_job, templated_job):
                before = await _count(client)
                await _run_jobs(client, job)
                await asyncio.sleep(RUN_SECONDS)
                await _complete(client, watch)
                await asyncio.sleep(SETTLE_SECONDS)
                lives.append(per_job(before, await _count(client), idle, JOB_COUNT))

            await _run_jobs(client, partial(scavenger_job, name="again"))
            interruptions: list[dict[str, float]] = []
            for running in (watch.preemptible, watch.running):
                await asyncio.sleep(RUN_SECONDS)
                victims = running()
                before = await _count(client)
                await _interrupt(client, watch, victims)
                await asyncio.sleep(SETTLE_SECONDS)
                interruptions.append(per_job(before, await _count(client), idle, len(victims)))
    return [
        *figures("per_job", lives[0], "<= 6"),
        *figures("per_templated_job", lives[1], None),
        *figures("per_interruption", interruptions[0], "<= 7"),
        *figures("per_interruption_of_all", interruptions[1], None),
        {"name": "writes.idle_per_second", "value": sum(idle.values()), "unit": "1/s", "goal": None},
        *lag.figures("writes.event_loop_lag_ms"),
    ]


def figures(name: str, requests: Mapping[str, float], goal: str | None) -> list[Figure]:
    """All requests together, and those by service and kind of object. Raises RuntimeError for none: nobody counted."""
    if not requests:
        raise RuntimeError("the API server has counted no request of our services: do the FlowSchemas apply?")
    parts = {schema.removeprefix(PREFIX).removeprefix("scavenger-"): value for schema, value in requests.items()}
    return [
        {"name": f"writes.{name}", "value": sum(requests.values()), "unit": "requests", "goal": goal},
        *(
            {"name": f"writes.{name}.{part}", "value": value, "unit": "requests", "goal": None}
            for part, value in sorted(parts.items())
        ),
    ]


# --- what happens to jobs ---


class _Watch:
    """The pods of jobs as they are now."""

    def __init__(self) -> None:
        self.pods: dict[str, Pod] = {}

    def on_pod(self, key: str, pod: Pod | None) -> None:
        if pod is None:
            self.pods.pop(key, None)
        else:
            self.pods[key] = pod

    def running(self) -> list[Pod]:
        return [pod for pod in self.pods.values() if pod_runs(pod)]

    def preemptible(self) -> list[Pod]:
        return [pod for pod in self.running() if pod.metadata.labels[names.LABEL_PREEMPTION_CLASS] == names.PREEMPTIBLE]

    def held(self) -> bool:
        """Whether a pod that does not run any more still has our finalizer: its end is not recorded."""
        return any(names.FINALIZER in pod.metadata.finalizers and not pod_runs(pod) for pod in self.pods.values())


async def _run_jobs(client: ApiClient, job: Callable[[int], Object]) -> None:
    await each(JOB_COUNT, lambda n: client.create(SCAVENGERJOBS, "default", job(n)), IN_FLIGHT)
    await _until(client, lambda phases: phases["Running"] == JOB_COUNT, "all jobs to run")


async def _complete(client: ApiClient, watch: _Watch) -> None:
    """Have each pod end well now."""
    patch = {"metadata": {"annotations": {kwok.RUN_SECONDS: "0"}}}
    running = watch.running()
    await each(len(running), lambda n: client.merge_patch(PODS, "default", running[n].metadata.name, patch), IN_FLIGHT)
    await _until(
        client, lambda phases: not phases["Running"] and not watch.held(), "all jobs to be Completed and recorded"
    )


async def _interrupt(client: ApiClient, watch: _Watch, pods: Sequence[Pod]) -> None:
    """Take these pods away; returns when all has been recorded and their jobs run again."""
    gone = {pod.metadata.uid for pod in pods}
    await each(len(pods), lambda n: client.delete(PODS, "default", pods[n].metadata.name), IN_FLIGHT)
    await _until(
        client,
        lambda phases: (
            phases["Running"] == JOB_COUNT
            and not watch.held()
            and not any(pod.metadata.uid in gone for pod in watch.pods.values())
        ),
        "all jobs to run again",
    )


async def _until(client: ApiClient, condition: Callable[[Mapping[str, int]], bool], what: str) -> None:
    """Wait for a condition on the number of jobs by phase."""
    try:
        async with asyncio.timeout(TIMEOUT):
            while not condition(await _phases(client)):  # noqa: ASYNC110 - an informer would cost, too
                await asyncio.sleep(1)
    except TimeoutError:
        raise TimeoutError(f"waited {TIMEOUT:g} s for {what}") from None


async def _phases(client: ApiClient) -> Mapping[str, int]:
    body: Any = msgspec.json.decode(await client.request("GET", SCAVENGERJOBS.path("default")))
    phases: defaultdict[str, int] = defaultdict(int)
    for job in body["items"]:
        phases[job.get("status", {}).get("phase", "")] += 1
    return phases
