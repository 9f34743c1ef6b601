"""What the admission policies cost others: the API server's CPU for what ordinary users write, with them and without.

Turns alternate on one control plane, as machine and API server change with time. Each turn writes the same: pods, Jobs
and Deployments that are created, changed and deleted. Nothing of it runs: the pods find no node, the Jobs are
suspended, and the Deployments have no replicas.
"""

from __future__ import annotations

import asyncio
import os
import statistics
from typing import Any

from scavenger_api import names
from scavenger_cluster import Cluster, stack
from scavenger_kube.client import ApiClient
from scavenger_kube.errors import ApiError
from scavenger_kube.resources import JOBS, PODS
from scavenger_testing.processes import cpu_seconds

from bench.figures import ratio
from bench.services.harness import TIMEOUT, Figure, Object, each, ordinary_pod, plain_cluster, plain_job

COUNT = int(os.environ.get("BENCH_GUARD_OBJECTS", "100"))
"""Objects of each kind in one turn."""
PAIRS = 5
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


def run() -> list[Figure]:
    """The figures; brings up a cluster of its own and takes it down."""
    with plain_cluster("bench-guard", 1) as cluster:
        return asyncio.run(_measure(cluster))


async def _measure(cluster: Cluster) -> list[Figure]:
    guarded: dict[str, list[float]] = {}
    bare: dict[str, list[float]] = {}
    async with await ApiClient.connect(kubeconfig=str(cluster.kubeconfig), user_agent="bench") as client:
        server = next(c.pid for c in cluster.status() if c.name == "kube-apiserver" and c.pid is not None)
        await _turn(client, server)  # the first one warms up
        for _ in range(PAIRS):
            await _guard(cluster, client, on=True)
            _add(guarded, await _turn(client, server))
            await _guard(cluster, client, on=False)
            _add(bare, await _turn(client, server))
    whole = [ratio(sum(one), sum(other)) for one, other in zip(_rounds(guarded), _rounds(bare), strict=True)]
    figures: list[Figure] = [
        {"name": "guard.ordinary_cpu_ratio", "value": statistics.median(whole), "unit": "ratio", "goal": "<= 1.05"}
    ]
    for kind in guarded:
        value = ratio(statistics.median(guarded[kind]), statistics.median(bare[kind]))
        figures.append({"name": f"guard.{kind}_cpu_ratio", "value": value, "unit": "ratio", "goal": None})
    return figures


def _add(sums: dict[str, list[float]], turn: dict[str, float]) -> None:
    for kind, seconds in turn.items():
        sums.setdefault(kind, []).append(seconds)


def _rounds(sums: dict[str, list[float]]) -> list[tuple[float, ...]]:
    return list(zip(*sums.values(), strict=True))


async def _guard(cluster: Cluster, client: ApiClient, *, on: bool) -> None:
    """Put the policies into force or out of it, and wait until the API server does so."""
    if on:
        base = str(stack.MANIFESTS / "base")
        await asyncio.to_thread(cluster.kubectl, "apply", "--server-side", "--force-conflicts", "-k", base)
    else:
        await asyncio.to_thread(stack.lift_guard, cluster)
    async with asyncio.timeout(TIMEOUT):
        while await _is_guarded(client) is not on:  # noqa: ASYNC110 - the API server tells nobody
            await asyncio.sleep(0.5)


async def _is_guarded(client: ApiClient) -> bool:
    forged = ordinary_pod(0)
    forged["metadata"] = {"name": "forged", "labels": {names.LABEL_JOB: "forged"}}
    try:
        await client.request("POST", PODS.path("default"), body=forged, params={"dryRun": "All"})
    except ApiError:
        return True
    return False


async def _turn(client: ApiClient, server: int) -> dict[str, float]:
    """CPU seconds of the API server by kind of object."""
    used: dict[str, float] = {}
    for kind, path, make in (
        ("pods", PODS.path("default"), _pod),
        ("jobs", JOBS.path("default"), _job),
        ("deployments", DEPLOYMENTS, _deployment),
    ):
        before = cpu_seconds(server)
        await each(COUNT, lambda number, path=path, make=make: _life(client, path, make(number)), in_flight=4)  # type: ignore[misc]
        used[kind] = cpu_seconds(server) - before
    return used


async def _life(client: ApiClient, path: str, body: Object) -> None:
    """Create, change twice and delete."""
    one = f"{path}/{body['metadata']['name']}"
    await client.request("POST", path, body=body)
    for value in ("a", "b"):
        patch: Any = {"metadata": {"annotations": {"example.com/bench": value}}}
        await client.request("PATCH", one, body=patch, content_type="application/merge-patch+json")
    await client.request("DELETE", one, body={"gracePeriodSeconds": 0, "propagationPolicy": "Background"})


def _pod(number: int) -> Object:
    body = ordinary_pod(number)
    body["spec"]["nodeSelector"] = {"nobody": "here"}
    return body


def _job(number: int) -> Object:
    body = plain_job(number)
    body["spec"]["suspend"] = True
    return body


def _deployment(number: int) -> Object:
    labels = {"bench": "ordinary"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": ordinary_pod(0)["spec"]["containers"]}}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": f"ordinary-{number}"}, "spec": spec}
