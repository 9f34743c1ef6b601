"""Adopted Jobs beside plain Jobs: requests that write, CPU of the control plane, and how long all take to start.

The same Jobs run twice on one control plane, first under the Job controller, then under the admitter: they start, each
pod is evicted and its Job comes back, and all end. The API server counts each request that writes Jobs, pods or Events:
those of users, controllers, the scheduler and kubelets. Of our components the admitter alone is at work, beside the
stock scheduler; what the prioritizer writes of protected jobs comes on top (`bench ONLY=writes`).

A fake kubelet deletes a pod about three times, and a real one once. So these requests are told apart, and one of them
counts.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from scavenger_api import names
from scavenger_cluster import Cluster, kwok, stack
from scavenger_kube.client import ApiClient
from scavenger_kube.kinds import Pod
from scavenger_kube.resources import JOBS, PODS
from scavenger_runtime.informer import Informer
from scavenger_testing.processes import cpu_seconds

from bench.figures import grown, ratio, samples
from bench.services.harness import (
    TIMEOUT,
    Figure,
    Object,
    delete_all,
    each,
    followed,
    plain_cluster,
    plain_job,
    pod_runs,
)

JOB_COUNT: Final = int(os.environ.get("BENCH_JOBS", "200"))
NODES: Final = 30
CPUS: Final = 16
"""Of each node: without a regulator, jobs start while less than 70 % is requested."""
IN_FLIGHT: Final = 8
SETTLE_SECONDS: Final = 8.0
WRITES: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})
KINDS: Final = frozenset({"jobs", "pods", "events"})
KUBELET: Final = "DELETE pods"
"""Nobody else deletes a pod here: users evict, and the admitter keeps what has ended."""


def run() -> list[Figure]:
    """The figures; brings up a cluster of its own and takes it down."""
    with plain_cluster("bench-adopt", NODES, fake_cpu=str(CPUS)) as cluster:
        return asyncio.run(_measure(cluster))


@dataclass(frozen=True)
class Phase:
    """What a part of the life of all Jobs took.

    Attributes:
        requests: that write, by method and kind, for each Job.
        server: CPU seconds of the API server.
        manager: CPU seconds of the controller manager.
        ours: CPU seconds of the admitter.
        seconds: until the last Job was there.
    """

    requests: Mapping[str, float]
    server: float
    manager: float
    ours: float
    seconds: float

    @property
    def writes(self) -> float:
        """Requests for each Job, with one deletion by the kubelet of those that it sent."""
        kubelet = self.requests.get(KUBELET, 0.0)
        return sum(self.requests.values()) - max(0.0, kubelet - 1.0)


async def _measure(cluster: Cluster) -> list[Figure]:
    async with await ApiClient.connect(kubeconfig=str(cluster.kubeconfig), user_agent="bench") as client:
        plain = await _Lives(cluster, client, "plain").run()
        await asyncio.to_thread(_adopt, cluster)
        adopted = await _Lives(cluster, client, "adopted").run()
    return figures(plain, adopted)


def _adopt(cluster: Cluster) -> None:
    stack.adopt_jobs(cluster)
    cluster.kubectl("label", "namespace", "default", f"{names.LABEL_ADOPT}={names.ADOPT_LABELLED}")
    cluster.service_start("admitter", environment={"SCAVENGER_ADOPT": "true"}, wait="readyz")


def figures(plain: Mapping[str, Phase], adopted: Mapping[str, Phase]) -> list[Figure]:
    """Of both kinds of Jobs, by part of their life."""
    goals = {"start": "<= 6", "interruption": "<= 12", "end": "<= 3"}
    found: list[Figure] = [
        _ratio("adopt.api_cpu_ratio", plain, adopted, lambda phase: phase.server, "<= 1.05"),
        _ratio("adopt.kcm_cpu_ratio", plain, adopted, lambda phase: phase.manager, None),
        {
            "name": "adopt.seconds_ratio",
            "value": ratio(adopted["start"].seconds, plain["start"].seconds),
            "unit": "ratio",
            "goal": "<= 1.6",
        },
        {"name": "adopt.admitter_cpu_ms_per_job", "value": _per_job(adopted), "unit": "ms", "goal": None},
    ]
    for part, goal in goals.items():
        for who, phases in (("", adopted), ("plain_", plain)):
            phase, name = phases[part], f"adopt.{who}writes_{part}"
            found.append({"name": name, "value": phase.writes, "unit": "requests", "goal": None if who else goal})
            found += [
                {"name": f"{name}.{request.replace(' ', '_')}", "value": value, "unit": "requests", "goal": None}
                for request, value in sorted(phase.requests.items())
            ]
        found.append(
            {
                "name": f"adopt.api_cpu_ratio_{part}",
                "value": ratio(adopted[part].server, plain[part].server),
                "unit": "ratio",
                "goal": None,
            }
        )
    return found


def _ratio(
    name: str,
    plain: Mapping[str, Phase],
    adopted: Mapping[str, Phase],
    of: Callable[[Phase], float],
    goal: str | None,
) -> Figure:
    """Of sums over the whole life."""
    ours, theirs = (sum(map(of, phases.values())) for phases in (adopted, plain))
    return {"name": name, "value": ratio(ours, theirs), "unit": "ratio", "goal": goal}


def _per_job(phases: Mapping[str, Phase]) -> float:
    return 1000 * sum(phase.ours for phase in phases.values()) / JOB_COUNT


class _Lives:
    """Jobs of one kind, from their creation to their end.

    Args:
        cluster: that they run on.
        client: of the user.
        name: `plain` or `adopted`.
    """

    def __init__(self, cluster: Cluster, client: ApiClient, name: str) -> None:
        self._cluster, self._client, self._name = cluster, client, name
        pids = {one.name: one.pid for one in cluster.status() if one.pid is not None}
        self._server, self._manager = pids["kube-apiserver"], pids["kube-controller-manager"]
        self._ours = cluster.service("admitter").pid if name == "adopted" else None
        self._pods: dict[str, Pod] = {}
        self._before: set[str] = set()
        self._jobs: dict[str, Any] = {}

    async def run(self) -> dict[str, Phase]:
        """What each part of their life took."""
        async with (
            followed(Informer(self._client, PODS, label_selector=f"bench={self._name}"), self._seen_pod),
            followed(Informer(self._client, JOBS, label_selector=f"bench={self._name}"), self._seen_job),
        ):
            found = {
                "start": await self._part(self._start, self._all_run),
                "interruption": await self._part(self._interrupt, self._all_run_again),
                "end": await self._part(self._end, self._all_over, own="PATCH pods"),
            }
            await delete_all(self._client, JOBS, self._name, JOB_COUNT)
        return found

    def _seen_pod(self, change: Any) -> None:
        if change.new is None:
            self._pods.pop(change.key, None)
        else:
            self._pods[change.key] = change.new

    def _seen_job(self, change: Any) -> None:
        if change.new is None:
            self._jobs.pop(change.key, None)
        else:
            self._jobs[change.key] = change.new

    # --- parts ---

    async def _start(self) -> None:
        await each(JOB_COUNT, lambda n: self._client.create(JOBS, "default", self._body(n)), IN_FLIGHT)

    def _body(self, number: int) -> Object:
        body = plain_job(number, self._name, gives_way=True)
        if self._name == "adopted":
            body["metadata"]["labels"][names.LABEL_QUEUE] = names.DEFAULT_QUEUE
        return body

    async def _interrupt(self) -> None:
        self._before = {pod.metadata.uid for pod in self._running()}
        pods = self._running()

        async def evict(number: int) -> None:
            name = pods[number].metadata.name
            body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "default"}}
            await self._client.request("POST", f"{PODS.path('default', name)}/eviction", body=body)

        await each(len(pods), evict, IN_FLIGHT)

    async def _end(self) -> None:
        pods, patch = self._running(), {"metadata": {"annotations": {kwok.RUN_SECONDS: "0"}}}
        await each(
            len(pods), lambda n: self._client.merge_patch(PODS, "default", pods[n].metadata.name, patch), IN_FLIGHT
        )

    def _running(self) -> list[Pod]:
        return [pod for pod in self._pods.values() if pod_runs(pod)]

    def _all_run(self) -> bool:
        return len(self._running()) == JOB_COUNT

    def _all_run_again(self) -> bool:
        return self._all_run() and not any(pod.metadata.uid in self._before for pod in self._pods.values())

    def _all_over(self) -> bool:
        return sum(bool(job.status.completion_time) for job in self._jobs.values()) == JOB_COUNT

    async def _part(self, act: Callable[[], Any], done: Callable[[], bool], own: str = "") -> Phase:
        """Do something, and wait until it is done and nobody writes of it any more. own: a request of each Job by which
        this program plays its own program; it does not count."""
        before, server, manager, ours = await self._count(), *self._cpu()
        began = time.perf_counter()
        await act()
        async with asyncio.timeout(TIMEOUT):
            while not done():  # noqa: ASYNC110 - what informers show comes without an event of its own
                await asyncio.sleep(0.02)
        seconds = time.perf_counter() - began
        await asyncio.sleep(SETTLE_SECONDS)
        after, cpu = await self._count(), self._cpu()
        if own:
            after[own] -= JOB_COUNT
        return Phase(
            {name: count / JOB_COUNT for name, count in grown(after, before, ("",)).items()},
            cpu[0] - server,
            cpu[1] - manager,
            cpu[2] - ours,
            seconds,
        )

    def _cpu(self) -> tuple[float, float, float]:
        ours = cpu_seconds(self._ours) if self._ours is not None else 0.0
        return cpu_seconds(self._server), cpu_seconds(self._manager), ours

    async def _count(self) -> dict[str, float]:
        return requests_that_write((await self._client.request("GET", "/metrics")).decode())


def requests_that_write(exposition: str) -> dict[str, float]:
    """Requests on Jobs, pods and Events since the API server started, such as `PATCH jobs/status`."""
    found: dict[str, float] = {}
    for labels, value in samples(exposition, "apiserver_request_total"):
        method, resource, part = (labels.get(key, "") for key in ("verb", "resource", "subresource"))
        if resource in KINDS and method in WRITES:
            name = f"{method} {resource}/{part}" if part else f"{method} {resource}"
            found[name] = found.get(name, 0.0) + value
    return found
