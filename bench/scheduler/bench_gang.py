"""Gangs of ordinary pods that preempt as one: victims over the smallest possible number, and what is lost.

The shapes are those of Kubernetes' own test/integration/scheduler_perf/workload_preemption, by their names, sizes and
requests: full nodes of four CPUs, and gangs for which all pods of lower priority have to go. Each is played twice, with
the ordinary pods of low priority that upstream has, and with scavenger jobs in their place. In a last shape half of the
nodes are enough, so that it matters which: the loss is compared with the least there is, beside DefaultPreemption.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from scavenger_api import names
from scavenger_cluster import Cluster
from scavenger_cluster.scheduler import PLUGIN, STOCK
from scavenger_cluster.waiting import wait_for

from bench.scheduler import harness, turns

Figure = dict[str, Any]
Body = dict[str, Any]

GATES: Final = "--feature-gates=GenericWorkload=true"
ARGUMENTS: Final = {
    "apiserver": [GATES, "--runtime-config=scheduling.k8s.io/v1beta1=true"],
    "kcm": [GATES],
    "scheduler": [GATES],
}
POD_GROUPS: Final = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"
PRIORITY_CLASSES: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"
POOL: Final = "gang"
LOW: Final = "gang-low"
GANG: Final = "gang-high"
ANCHOR: Final = "gang-anchor"
CLASSES: Final = {LOW: 0, GANG: 8_888_888, ANCHOR: 9_999_999}
SCAVENGERS: Final = "scavengers"
ORDINARY: Final = "ordinary"


@dataclass(frozen=True)
class Shape:
    """Nodes of four CPUs, so many pods of low priority on each, and gangs with a pod for each node they need."""

    name: str
    nodes: int
    low_per_node: int
    low_cpu: str
    gangs: int
    gang_size: int
    gang_cpu: str
    jobs: int = 0
    """Of the pods of low priority, that many groups with a pod on each of some nodes; 0: each pod by itself."""
    anchored: bool = False
    """The gang's pods want to be beside pods that are on every node, and of higher priority."""

    @property
    def low(self) -> int:
        """How many pods of low priority there are."""
        return self.nodes * self.low_per_node

    @property
    def minimum(self) -> int:
        """How many of them have to go: all of each node that the gangs need."""
        return self.gangs * self.gang_size * self.low_per_node


SHAPES: Final = (
    Shape("basic.2nodes_1x2", 2, 5, "40m", 1, 2, "3970m"),
    Shape("basic.100nodes_1x100", 100, 10, "40m", 1, 100, "3970m"),
    Shape("basic.100nodes_10x10", 100, 10, "40m", 10, 10, "3970m"),
    Shape("podgroups.2nodes_1x2", 2, 2, "600m", 1, 2, "3500m", jobs=2),
    Shape("podgroups.100nodes_1x100", 100, 5, "600m", 1, 100, "3500m", jobs=5),
    Shape("podgroups.100nodes_10x10", 100, 5, "600m", 10, 10, "3500m", jobs=50),
    Shape("affinity.2nodes_1x2", 2, 5, "40m", 1, 2, "3970m", anchored=True),
    Shape("affinity.100nodes_1x100", 100, 10, "40m", 1, 100, "3970m", anchored=True),
    Shape("affinity.100nodes_10x10", 100, 10, "40m", 10, 10, "3970m", anchored=True),
)
HALF: Final = Shape("half.100nodes_5x10", 100, 10, "40m", 5, 10, "3970m")


@dataclass(frozen=True)
class Played:
    """What came of a shape."""

    victims: int
    lost: int
    """CPU-seconds that were at risk in the victims' jobs."""
    seconds: float
    """From the creation of the first gang to the binding of the last pod."""


def run() -> list[Figure]:
    """The figures; brings up a cluster of its own, with the gate GenericWorkload, and takes it down."""
    cluster = Cluster("bench-gang", report=lambda line: None)
    try:
        cluster.up("fake:1", fake_cpu="0", scheduler=PLUGIN, arguments=ARGUMENTS)
        harness.install_base(cluster)
        for name, value in CLASSES.items():
            cluster.client.apply(f"{PRIORITY_CLASSES}/{name}", _priority_class(name, value))
        figures = [
            figure for shape in SHAPES for cast in (ORDINARY, SCAVENGERS) for figure in _figures(cluster, shape, cast)
        ]
        return [*figures, *_half(cluster)]
    finally:
        cluster.down()


def _figures(cluster: Cluster, shape: Shape, cast: str) -> list[Figure]:
    played = _play(cluster, shape, cast, seed=1)
    beginning = f"scheduler.gang_victims.{shape.name}.{cast}"
    return [
        {
            "name": f"{beginning}.over_minimum",
            "value": played.victims / shape.minimum,
            "unit": "ratio",
            "goal": "<= 1.0",
        },
        {"name": f"{beginning}.seconds", "value": played.seconds, "unit": "s", "goal": None},
    ]


def _half(cluster: Cluster) -> list[Figure]:
    """Half of the nodes are enough: whose, is the question."""
    figures: list[Figure] = []
    for kind in (PLUGIN, STOCK):
        cluster.use_scheduler(kind)
        played = _play(cluster, HALF, SCAVENGERS, seed=2)
        least = sum(sorted(_risk_by_node(HALF, seed=2))[: HALF.gangs * HALF.gang_size])
        beginning = f"scheduler.gang_victims.{HALF.name}.{kind}"
        wanted = kind == PLUGIN
        figures += [
            {
                "name": f"{beginning}.over_minimum",
                "value": played.victims / HALF.minimum,
                "unit": "ratio",
                "goal": "<= 1.0" if wanted else None,
            },
            {
                "name": f"{beginning}.lost_over_least",
                "value": played.lost / least,
                "unit": "ratio",
                "goal": "<= 1.005" if wanted else None,
            },
            {"name": f"{beginning}.seconds", "value": played.seconds, "unit": "s", "goal": None},
        ]
    return figures


def _play(cluster: Cluster, shape: Shape, cast: str, seed: int) -> Played:
    client = cluster.client
    nodes = [f"gang-node-{i:03d}" for i in range(shape.nodes)]
    client.create_all(harness.NODES, (harness.node(name, POOL, "4", "32Gi") for name in nodes))
    wait_for("the nodes", lambda: turns.untainted(cluster, POOL), timeout=120)
    low = _low_pods(shape, cast, seed, nodes)
    groups = {f"low-{i}": _pod_group(f"low-{i}", LOW, 1) for i in range(shape.jobs if cast == ORDINARY else 0)}
    client.create_all(POD_GROUPS, groups.values())
    client.create_all(harness.PODS, _anchors(shape, nodes))
    client.create_all(harness.PODS, low.values())
    harness.wait_until_running(cluster, POOL, low, timeout=300, interval=1)
    began = time.monotonic()
    gangs = {f"band-{i}": _pod_group(f"band-{i}", GANG, shape.gang_size) for i in range(shape.gangs)}
    client.create_all(POD_GROUPS, gangs.values())
    members = {
        f"{gang}-{i:03d}": _pod(f"{gang}-{i:03d}", GANG, shape.gang_cpu, gang=gang, beside_anchor=shape.anchored)
        for gang in gangs
        for i in range(shape.gang_size)
    }
    client.create_all(harness.PODS, members.values())
    wait_for("all gangs to be bound", lambda: members.keys() <= _bound(cluster), timeout=300, interval=0.1)
    seconds = time.monotonic() - began
    gone = low.keys() - harness.living(cluster, POOL)
    print(f"  {shape.name}, {cast}: {len(gone)} victims, {seconds:.1f} s", file=sys.stderr, flush=True)
    harness.clean(cluster, POOL, nodes)
    client.delete_all(f"{POD_GROUPS}/{name}" for name in [*groups, *gangs])
    wait_for("the groups to be gone", lambda: not client.get(POD_GROUPS)["items"], timeout=60)
    broken = {_job_of(low[name]): _risk_of(low[name]) for name in gone}
    return Played(len(gone), sum(broken.values()), seconds)


def _bound(cluster: Cluster) -> set[str]:
    return {name for name, pod in harness.listed(cluster, POOL).items() if pod["spec"].get("nodeName")}


# --- objects ---


def _priority_class(name: str, value: int) -> Body:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }


def _pod_group(name: str, priority_class: str, size: int) -> Body:
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"priorityClassName": priority_class, "schedulingPolicy": {"gang": {"minCount": size}}},
    }


def _low_pods(shape: Shape, cast: str, seed: int, nodes: list[str]) -> dict[str, Body]:
    """The pods that are there first, as many on each node."""
    risks = _risks(shape, seed)
    pods = {}
    for number in range(shape.low):
        name, node = f"low-{number:04d}", nodes[number % shape.nodes]
        # as many pods of a job as upstream's group has: one on each of some neighbouring nodes
        job = number * shape.jobs // shape.low if shape.jobs else number
        pod = _pod(name, LOW, shape.low_cpu, node=node)
        if cast == SCAVENGERS:
            pod["spec"]["priorityClassName"] = names.PRIORITY_CLASS_PREEMPTIBLE
            pod["metadata"]["labels"] |= {
                names.LABEL_JOB: f"job-{job}",
                names.LABEL_PREEMPTION_CLASS: names.PREEMPTIBLE,
            }
            pod["metadata"]["annotations"] = {names.ANNOTATION_RUNNING_PRIORITY: str(risks[job])}
        elif shape.jobs:
            pod["spec"]["schedulingGroup"] = {"podGroupName": f"low-{job}"}
        pods[name] = pod
    return pods


def _risks(shape: Shape, seed: int) -> list[int]:
    figures = random.Random(seed)
    return [figures.randrange(1, 3600) for _ in range(shape.low)]


def _risk_by_node(shape: Shape, seed: int) -> list[int]:
    """What all jobs of each node have at risk, where each pod is a job."""
    risks = _risks(shape, seed)
    return [sum(risks[node :: shape.nodes]) for node in range(shape.nodes)]


def _job_of(pod: Body) -> str:
    return str(pod["metadata"]["labels"].get(names.LABEL_JOB, pod["metadata"]["name"]))


def _risk_of(pod: Body) -> int:
    return int(pod["metadata"].get("annotations", {}).get(names.ANNOTATION_RUNNING_PRIORITY, 0))


def _anchors(shape: Shape, nodes: list[str]) -> Iterable[Body]:
    for i, node in enumerate(nodes if shape.anchored else []):
        pod = _pod(f"anchor-{i:03d}", ANCHOR, "10m", node=node)
        pod["metadata"]["labels"]["app"] = "anchor"
        yield pod


def _pod(
    name: str, priority_class: str, cpu: str, *, node: str = "", gang: str = "", beside_anchor: bool = False
) -> Body:
    requests = {"cpu": cpu, "memory": "100Mi"}
    spec: Body = {
        "priorityClassName": priority_class,
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "containers": [{"name": "pause", "image": "none", "resources": {"requests": requests, "limits": requests}}],
    }
    if node:
        spec["nodeName"] = node
    if gang:
        spec["schedulingGroup"] = {"podGroupName": gang}
    if beside_anchor:
        term = {"labelSelector": {"matchLabels": {"app": "anchor"}}, "topologyKey": "kubernetes.io/hostname"}
        spec["affinity"] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"pool": POOL}},
        "spec": spec,
    }
