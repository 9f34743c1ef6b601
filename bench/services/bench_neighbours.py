"""How many nodes Karpenter takes away after a peak of ordinary load, with scavenger jobs and without.

Karpenter itself runs on a control plane with fake nodes. A Deployment grows and Karpenter buys nodes for it. The
Deployment shrinks, and Karpenter consolidates what is left. First no job is there. Then jobs fill a quota: once
with scavenger-scheduler and without budgets, once with the unmodified scheduler and with budgets.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from scavenger_api import names
from scavenger_cluster import Cluster, stack
from scavenger_cluster.waiting import wait_for
from scavenger_kube.resources import MERGE_PATCH

from bench.services.harness import Figure, Object, scavenger_job
from bench.services.karpenter import NODE_CLAIMS, running

PEAK: Final = 60
LOW: Final = 13
CPU: Final = "1500m"
"""Of an ordinary pod: five fit on a node."""
JOBS: Final = 20
JOB_CPU: Final = "200m"
"""Of each job: two fit on a node beside the pods of the peak."""
QUOTA: Final = "3"
"""CPUs of all jobs. The low load needs three nodes and leaves 4.2 CPUs of them free, so that jobs need no fourth one:
Karpenter removes a node with ordinary pods only when all pods of it, the jobs included, fit elsewhere."""
SETTLED_SECONDS: Final = 45.0
"""Karpenter looks every 10 s and takes a decision again after 15 s: after so long without a change nothing follows."""
LIMIT_SECONDS: Final = 130.0

DEPLOYMENT: Final = "/apis/apps/v1/namespaces/default/deployments"
JOBS_PATH: Final = "/apis/scavenger.dev/v1alpha1/namespaces/default/scavengerjobs"
QUEUE: Final = "/apis/scavenger.dev/v1alpha1/scavengerqueues/default"
PODS: Final = "/api/v1/namespaces/default/pods"
BUDGETS: Final = "/apis/policy/v1/poddisruptionbudgets"


@dataclass(frozen=True)
class Side:
    """What Karpenter did.

    Attributes:
        peak: nodes at the peak of the load.
        removed: nodes that it had removed in the end.
        bought: nodes that it bought after the peak.
        running: jobs that ran at the peak.
        interrupted: how often jobs were interrupted.
    """

    peak: int
    removed: int
    bought: int
    running: int = 0
    interrupted: int = 0


def run() -> list[Figure]:
    """The figures; brings up a cluster of its own and takes it down."""
    cluster = Cluster("bench-neighbours", report=lambda line: None)
    try:
        cluster.up("fake:1", fake_taint=True, fake_cpu="1", scheduler="stock")
        stack.install(cluster)
        cluster.client.apply(QUEUE, _queue())
        with running(cluster) as log:
            try:
                plain = _side(cluster, jobs=False)
                ours = _with_services(cluster, "plugin", budgets=False)
                stock = _with_services(cluster, "stock", budgets=True)
            except BaseException:
                print(log.read_text()[-6000:])
                raise
    finally:
        cluster.down()
    return figures(plain, ours, stock)


def figures(plain: Side, ours: Side, stock: Side) -> list[Figure]:
    """What is printed."""

    def figure(name: str, value: float, unit: str, goal: str | None = None) -> Figure:
        return {"name": f"neighbours.{name}", "value": value, "unit": unit, "goal": goal}

    return [
        figure("consolidated", plain.removed, "nodes"),
        figure("consolidated_ratio", ours.removed / plain.removed, "ratio", ">= 0.95"),
        figure("consolidated_ratio_stock", stock.removed / plain.removed, "ratio"),
        figure("bought_for_scavengers", max(0, max(ours.bought, stock.bought) - plain.bought), "nodes", "<= 0"),
        figure("jobs_at_peak", ours.running, "jobs"),
        figure("interruptions", ours.interrupted, "ends"),
    ]


def _queue() -> Object:
    spec = {"quota": {"cpu": QUOTA}}
    return {"apiVersion": names.API_VERSION, "kind": "ScavengerQueue", "metadata": {"name": "default"}, "spec": spec}


def _with_services(cluster: Cluster, scheduler: str, *, budgets: bool) -> Side:
    settings = {
        "SCAVENGER_BUDGETS": str(budgets).lower(),
        "SCAVENGER_PERIOD": "5",
        "SCAVENGER_FALLBACK_ADMISSION_PERCENT": "100",
        "SCAVENGER_START_OVER_WINDOW": "0",
        "SCAVENGER_LONE_AFTER": "10",
    }
    cluster.use_scheduler(scheduler)
    stack.start(cluster, ["admitter", "prioritizer"], settings)
    try:
        found = _side(cluster, jobs=True)
        there = bool(cluster.client.get(BUDGETS)["items"])
        assert there == budgets, f"budgets: {there}, expected {budgets}"
        return found
    finally:
        for service in ("admitter", "prioritizer"):
            cluster.service_stop(service)


def _side(cluster: Cluster, *, jobs: bool) -> Side:
    client = cluster.client
    with _deployment(cluster):
        wait_for("the peak to run", lambda: _running(cluster, "bench=ordinary") == PEAK, timeout=120)
        peak = _claims(cluster)
        before, running = set(peak), 0
        try:
            if jobs:
                running = _fill(cluster)
            client.request("PATCH", f"{DEPLOYMENT}/ordinary", {"spec": {"replicas": LOW}}, MERGE_PATCH)
            left, bought = _settle(cluster, before)
            interrupted = sum(
                job.get("status", {}).get("interruptedCount", 0) for job in client.get(JOBS_PATH)["items"]
            )
        finally:
            if jobs:
                cluster.kubectl("delete", "scavengerjobs", "--all", "--timeout=100s")
    cluster.kubectl("delete", "nodeclaims", "--all", "--timeout=100s")
    return Side(len(peak), len(peak) - left, bought, running, interrupted)


def _fill(cluster: Cluster) -> int:
    """Submit the jobs, and wait until no more start; returns how many run."""
    bodies = []
    for number in range(JOBS):
        body = scavenger_job(number)
        body["spec"]["resources"]["requests"] = {"cpu": JOB_CPU, "memory": "64Mi"}
        bodies.append(body)
    cluster.client.create_all(JOBS_PATH, bodies)
    seen = -1
    for _ in range(10):
        time.sleep(4)
        count = _running(cluster, names.LABEL_JOB)
        if count == seen and count:
            break
        seen = count
    return seen


def _settle(cluster: Cluster, before: set[str]) -> tuple[int, int]:
    """How many nodes are left when nothing changes any more, and how many were bought meanwhile."""
    began = changed = time.monotonic()
    seen, bought = before, set[str]()
    while time.monotonic() - changed < SETTLED_SECONDS and time.monotonic() - began < LIMIT_SECONDS:
        time.sleep(2)
        now = set(_claims(cluster))
        if now != seen:
            seen, changed = now, time.monotonic()
            bought |= now - before
            print(f"  {changed - began:.0f} s: {len(now)} nodes", flush=True)
    return len(seen), len(bought)


@contextmanager
def _deployment(cluster: Cluster) -> Iterator[None]:
    """Ordinary pods at the peak of their load, until the end of the block."""
    container: Object = {"name": "main", "image": "none", "resources": {"requests": {"cpu": CPU, "memory": "64Mi"}}}
    labels = {"bench": "ordinary"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 1},
    }
    spec = {"replicas": PEAK, "selector": {"matchLabels": labels}, "template": template}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "ordinary"}, "spec": spec}
    cluster.client.request("POST", DEPLOYMENT, body)
    try:
        yield
    finally:
        cluster.client.delete(f"{DEPLOYMENT}/ordinary")


def _claims(cluster: Cluster) -> list[str]:
    return [one["metadata"]["name"] for one in cluster.client.get(NODE_CLAIMS)["items"]]


def _running(cluster: Cluster, selector: str) -> int:
    found: list[Any] = cluster.client.get(f"{PODS}?labelSelector={selector}")["items"]
    return sum(pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"] for pod in found)
