"""How long one admission cycle takes, snapshot included.

A thousand nodes in three sizes, thirty ordinary pods on each, ten thousand waiting jobs of two hundred
shapes, a quarter of them gangs, in five queues.

  * full cycle: a fifth of the cluster is free and nothing has been judged before; a good thousand
    jobs start.
  * one arrival: the room that is left fits none of the jobs waiting; one more job arrives.
  * 50 queues: the full cycle with fifty queues, against the one with a single queue, in turns.
  * preemption: ten thousand jobs of two queues run on all nodes and leave nothing; a third queue with as much weight as
    both has jobs waiting of two hundred shapes, a quarter of them gangs. The whole cycle is timed.
"""

from __future__ import annotations

import random
import time
from typing import Any, Final

from scavenger_admitter.core.admission.cycle.plan import AdmissionPlan, plan_admissions
from scavenger_admitter.core.admission.load import LoadRule
from scavenger_admitter.core.admission.running import RunningJob
from scavenger_admitter.core.admission.shape import Shape
from scavenger_admitter.core.admission.snapshot import Candidate, QueueView
from scavenger_admitter.core.admission.view.state import ClusterState
from scavenger_kube.kinds import (
    Container,
    Node,
    NodeCondition,
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
            conditions=(NodeCondition(type="Ready", status="True"),),
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


def candidate(index: int, rng: random.Random, known: list[Shape], queues: int = QUEUES) -> Candidate:
    """A waiting job; every fourth a gang of two to eight pods."""
    return Candidate(
        key=f"team/job-{index}",
        uid=f"uid-{index:06}",
        queue=f"queue-{index % queues}",
        shape=known[index % SHAPES],
        parallelism=rng.randint(2, 8) if index % 4 == 0 else 1,
        interrupted_count=rng.choice((0, 0, 0, 1, 2)),
        queued_at=NOW - rng.randrange(10**10),
    )


def cluster(ordinary: float, smallest: int, queues: int = QUEUES) -> ClusterState:
    """The state with ordinary pods requesting that share of every node."""
    rng = random.Random(1)
    state = ClusterState(tolerated_taints=("dedicated",))
    for index in range(NODES):
        state.apply_node(node(index))
    for index in range(NODES * PODS_PER_NODE):
        state.apply_pod(ordinary_pod(index, ordinary))
    for index in range(queues):
        state.apply_queue(QueueView(f"queue-{index}", weight=index + 1))
    known = shapes(rng, smallest)
    for index in range(JOBS):
        state.apply_candidate(candidate(index, rng, known, queues))
    return state


def full_cycle(queues: int = QUEUES) -> tuple[float, int]:
    """Seconds of the first cycle after a start, and how many jobs it starts."""
    state = cluster(ordinary=0.80, smallest=500, queues=queues)
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


def many_queues() -> float:
    """The cycle with fifty queues / the one with a single queue: the median of ratios of neighbours in time."""
    return sorted(full_cycle(50)[0] / full_cycle(1)[0] for _ in range(REPEAT))[REPEAT // 2]


def running_pod(index: int, queue: str) -> Pod:
    """The pod of a scavenger job: a tenth of its node."""
    at = index // (JOBS // NODES)
    cpu = SIZES[at % len(SIZES)] * 1000 * NODES // JOBS
    requests: dict[str, str | int | float] = {"cpu": f"{cpu}m", "memory": f"{cpu * 4 * 1024 // 1000}Mi"}
    return Pod(
        metadata=ObjectMeta(
            name=f"run-{index}",
            namespace="team",
            uid=f"run-{index}",
            labels={"scavenger.dev/job": f"run-{index}", "scavenger.dev/queue": queue},
        ),
        spec=PodSpec(node_name=f"node-{at:05}", containers=(Container(resources=Resources(requests=requests)),)),
        status=PodStatus(phase="Running", start_time="2026-01-01T00:00:00Z"),
    )


def lent_cluster() -> ClusterState:
    """Every node is full of the jobs of two queues; a third has jobs waiting."""
    rng = random.Random(3)
    state = ClusterState(tolerated_taints=("dedicated",))
    for index in range(NODES):
        state.apply_node(node(index))
    for index, weight in enumerate((1, 1, 2)):
        state.apply_queue(QueueView(f"queue-{index}", weight=weight))
    for index in range(JOBS):
        queue, since = f"queue-{index % 2}", NOW - rng.randrange(1, 1800) * 1_000_000
        state.apply_pod(running_pod(index, queue))
        state.running.apply(RunningJob(f"team/run-{index}", f"u{index:06}", queue, since=since, started=since))
    known = shapes(rng, 500)
    for index in range(JOBS // 10):
        waiting = candidate(2 + index * 3, rng, known, 3)  # the third queue's
        state.apply_candidate(waiting)
    return state


def preemption() -> tuple[float, AdmissionPlan]:
    """Seconds of a cycle that plans preemptions, and what it planned."""
    state = lent_cluster()
    state.snapshot(now=NOW, rule=LoadRule.fixed(99))
    begun = time.perf_counter()
    plan = plan_admissions(state.snapshot(now=NOW, rule=LoadRule.fixed(99.999)))
    return time.perf_counter() - begun, plan


def run() -> list[dict[str, Any]]:
    """The figures for bench.json."""
    cycles = [full_cycle() for _ in range(REPEAT)]
    preemptions = [preemption() for _ in range(REPEAT)]
    if not preemptions[0][1].preemptions:
        raise AssertionError("this cluster is meant to be lent")
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
        {
            "name": "admission.queues50_ratio",
            "value": round(many_queues(), 2),
            "unit": "ratio",
            "goal": "<= 1.3",
        },
        {
            "name": "admission.reclaim_plan.seconds",
            "value": round(sorted(seconds for seconds, _ in preemptions)[REPEAT // 2], 4),
            "unit": "s",
            "goal": "<= 0.2",
        },
        {
            "name": "admission.reclaim_plan.victims",
            "value": len(preemptions[0][1].preemptions),
            "unit": "jobs",
            "goal": "",
        },
    ]


if __name__ == "__main__":
    for figure in run():
        print(figure)
