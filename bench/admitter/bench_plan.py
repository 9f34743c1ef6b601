"""How long one admission cycle takes, snapshot included.

A thousand nodes in three sizes, thirty ordinary pods on each, ten thousand waiting jobs of two hundred
shapes, a quarter of them gangs, in five queues.

  * full cycle: a fifth of the cluster is free and nothing has been judged before; a good thousand
    jobs start.
  * one arrival: the room that is left fits none of the jobs waiting; one more job arrives.
"""

from __future__ import annotations

import random
import time
from typing import Any, Final

from scavenger_admitter.load import LoadRule
from scavenger_admitter.plan import plan_admissions
from scavenger_admitter.shape import Shape
from scavenger_admitter.snapshot import Candidate, ClusterState, QueueView
from scavenger_runtime.kinds import (
    Condition,
    Container,
    Node,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    PodStatus,
    Resources,
    Taint,
    Toleration,
)

NODES: Final = 1_000
PODS_PER_NODE: Final = 30
JOBS: Final = 10_000
SHAPES: Final = 200
QUEUES: Final = 5
NOW: Final = 1_800_000_000_000_000
REPEAT: Final = 5
SIZES: Final = (16, 32, 64)  # cores of a node; 4 GiB of memory each


def node(index: int) -> Node:
    """One of three sizes, in one of four zones; every twentieth with a taint."""
    cores = SIZES[index % len(SIZES)]
    taints = (Taint(key="dedicated", value="gpu", effect="NoSchedule"),) if index % 20 == 0 else ()
    return Node(
        metadata=ObjectMeta(name=f"node-{index:05}", labels={"zone": f"zone-{index % 4}"}),
        spec=NodeSpec(taints=taints),
        status=NodeStatus(
            allocatable={"cpu": str(cores), "memory": f"{cores * 4}Gi", "pods": "110"},
            conditions=(Condition(type="Ready", status="True"),),
        ),
    )


def ordinary_pod(index: int, share: float) -> Pod:
    """One of the pods that together request `share` of their node."""
    at = index // PODS_PER_NODE
    cores = SIZES[at % len(SIZES)]
    cpu = int(cores * 1000 * share / PODS_PER_NODE)
    memory = int(cores * 4 * 1024 * share / PODS_PER_NODE)
    return Pod(
        metadata=ObjectMeta(name=f"pod-{index}", namespace="apps", uid=f"pod-{index}"),
        spec=PodSpec(
            node_name=f"node-{at:05}",
            containers=(Container(resources=Resources(requests={"cpu": f"{cpu}m", "memory": f"{memory}Mi"})),),
        ),
        status=PodStatus(phase="Running", start_time="2026-01-01T00:00:00Z"),
    )


def shapes(rng: random.Random, smallest: int) -> list[Shape]:
    """Distinct shapes of at least that many millicores; some bound to a zone, some tolerating the taint."""
    tolerations = (Toleration(key="dedicated", operator="Exists"),)
    return [
        Shape.of(
            {"cpu": smallest + 50 * i, "memory": rng.choice((1, 2, 4, 8)) << 30},
            {"zone": f"zone-{i % 4}"} if i % 5 == 0 else {},
            tolerations if i % 7 == 0 else (),
        )
        for i in range(SHAPES)
    ]


def candidate(index: int, rng: random.Random, known: list[Shape]) -> Candidate:
    """A waiting job; every fourth a gang of two to eight pods."""
    return Candidate(
        key=f"team/job-{index}",
        uid=f"uid-{index:06}",
        queue=f"queue-{index % QUEUES}",
        shape=known[index % SHAPES],
        parallelism=rng.randint(2, 8) if index % 4 == 0 else 1,
        interrupted_count=rng.choice((0, 0, 0, 1, 2)),
        queued_at=NOW - rng.randrange(10**10),
    )


def cluster(ordinary: float, smallest: int) -> ClusterState:
    """The state with ordinary pods requesting that share of every node."""
    rng = random.Random(1)
    state = ClusterState(tolerated_taints=("dedicated",))
    for index in range(NODES):
        state.apply_node(node(index))
    for index in range(NODES * PODS_PER_NODE):
        state.apply_pod(ordinary_pod(index, ordinary))
    for index in range(QUEUES):
        state.apply_queue(QueueView(f"queue-{index}", weight=index + 1))
    known = shapes(rng, smallest)
    for index in range(JOBS):
        state.apply_candidate(candidate(index, rng, known))
    return state


def full_cycle() -> tuple[float, int]:
    """Seconds of the first cycle after a start, and how many jobs it starts."""
    state = cluster(ordinary=0.80, smallest=500)
    begun = time.perf_counter()
    plan = plan_admissions(state.snapshot(now=NOW, rule=LoadRule.fixed(99)))
    return time.perf_counter() - begun, len(plan.starts)


def one_arrival() -> float:
    """Seconds of a cycle in which one more job arrives and nothing fits: the median of some."""
    # Every large node has room for a little cpu: less than any job asks for, but not nothing.
    state = cluster(ordinary=0.95, smallest=3_500)
    state.snapshot(now=NOW, rule=LoadRule.fixed(99))
    rng = random.Random(2)
    known = shapes(rng, 3_500)
    cycles = []
    for index in range(REPEAT):
        begun = time.perf_counter()
        state.apply_candidate(candidate(JOBS + index, rng, known))
        plan = plan_admissions(state.snapshot(now=NOW, rule=LoadRule.fixed(99)))
        cycles.append(time.perf_counter() - begun)
        if plan.starts:
            raise AssertionError("this cluster is meant to be full")
    return sorted(cycles)[REPEAT // 2]


def run() -> list[dict[str, Any]]:
    """The figures for bench.json."""
    cycles = [full_cycle() for _ in range(REPEAT)]
    return [
        {
            "name": "admission.full_cycle.seconds",
            "value": round(sorted(seconds for seconds, _ in cycles)[REPEAT // 2], 4),
            "unit": "s",
            "goal": "<= 0.5",
        },
        {"name": "admission.full_cycle.starts", "value": cycles[0][1], "unit": "jobs", "goal": ""},
        {
            "name": "admission.one_arrival.seconds",
            "value": round(one_arrival(), 4),
            "unit": "s",
            "goal": "<= 0.05",
        },
    ]


if __name__ == "__main__":
    for figure in run():
        print(figure)
