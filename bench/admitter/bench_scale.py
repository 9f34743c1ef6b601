"""What one plan costs in a large cluster, whatever anybody submits: 5,000 nodes.

The nodes are of three sizes in four zones, every twentieth tainted, their memory differing by a little as that of real
machines does; ordinary pods leave a random part of cpu and memory free on each. Seconds are CPU time of taking the
snapshot and planning, in the first cycle after a start: nothing has been judged before.

  * plan_5000_nodes_50000_waiting: 50,000 jobs of 200 shapes in five queues, a quarter of them gangs.
  * the same under other names: what a single user can do to it. `shapes2000`, `shapes50000`: as many different shapes.
    `fit_all`: 2,000 shapes that all fit. `fit_nowhere`: 10,000 shapes for which there is no room now. `never_fit`:
    10,000 that no node could hold. `gangs`: 2,000 shapes of gangs of 1,000 pods, about as many as there is room for.
    `selectors`: 2,000 node selectors and tolerations. `pending`: 1,000 ordinary pods of 500 shapes wait for a node.
    `tiny_gangs`: gangs of 5,000 pods that all fit. `preempt`, `preempt_gangs`: 10,000 jobs of one queue use more than
    its share, and 2,000 shapes of another one wait, for one pod each or a thousand.

scale.plan.three_pools is the same cycle with levels for each of three pools ÷ with the levels of one, in turns: two
thirds of the nodes have a taint of their pool, and 3,000 shapes tolerate all taints. `few_fit` and `fit_all` as above.

event_loop_block_ms is the longest that an event loop was held up in any of these cases, by the snapshot, which is taken
on it, and by the plan, which is made in a thread beside it, as the admitter does.
"""

from __future__ import annotations

import asyncio
import gc
import random
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import Any, Final

import msgspec
from scavenger_admitter.core.admission.cycle.plan import plan_admissions
from scavenger_admitter.core.admission.load import LoadRule
from scavenger_admitter.core.admission.running import RunningJob
from scavenger_admitter.core.admission.shape import Shape
from scavenger_admitter.core.admission.snapshot import Candidate, QueueView
from scavenger_admitter.core.admission.view.state import ClusterState
from scavenger_domain.nodes import PLAIN_POOL
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
from scavenger_runtime.service import tune_interpreter
from scavenger_runtime.threads import in_thread

from bench.figures import median_ratio

NODES: Final = 5_000
TICK_SECONDS: Final = 0.01
NOW: Final = 1_800_000_000_000_000
SIZES: Final = (16, 32, 64)  # cores of a node; 4 GiB of memory each
MOST_STARTS: Final = 500
QUEUES: Final = 5
GI: Final = 1 << 30
POOLS: Final = ("pool.example/a", "pool.example/b")
"""Keys of the taints of two pools; the nodes of the third have none."""
TURNS: Final = 5
TAINT: Final = Taint(key="dedicated", value="gpu", effect="NoSchedule")

Jobs = Iterable[Candidate]


def _node(index: int, rng: random.Random) -> Node:
    cores = SIZES[index % len(SIZES)]
    labels = {"zone": f"zone-{index % 4}", "kubernetes.io/hostname": f"node-{index:05}", "arch": "amd64"}
    labels |= {f"half-{bit}": str(rng.randrange(2)) for bit in range(8)}
    return Node(
        metadata=ObjectMeta(name=f"node-{index:05}", labels=labels),
        spec=NodeSpec(taints=(TAINT,) if index % 20 == 0 else ()),
        status=NodeStatus(
            allocatable={
                "cpu": str(cores),
                "memory": f"{cores * 4 * 1024 * 1024 - rng.randrange(4096)}Ki",
                "pods": "110",
            },
            conditions=(NodeCondition(type="Ready", status="True"),),
        ),
    )


def _pod(name: str, cpu: int, memory: int, node: str = "", labels: dict[str, str] | None = None) -> Pod:
    """An ordinary pod that requests so many millicores and MiB."""
    requests: dict[str, str | int | float] = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}
    return Pod(
        metadata=ObjectMeta(name=name, namespace="apps", uid=name, labels=labels or {}),
        spec=PodSpec(node_name=node, containers=(Container(resources=Resources(requests=requests)),)),
        status=PodStatus(phase="Running" if node else "Pending", start_time="2026-01-01T00:00:00Z"),
    )


def cluster(least: float, most: float, *tolerated: str) -> ClusterState:
    """Between `least` and `most` of each node's cpu and memory are requested by ordinary pods. tolerated: keys of
    taints that do not take a node out of the load."""
    rng = random.Random(1)
    state = ClusterState(tolerated_taints=tolerated or (TAINT.key,))
    for index in range(NODES):
        cores = SIZES[index % len(SIZES)]
        state.apply_node(_node(index, rng))
        cpu, memory = int(cores * 1000 * rng.uniform(least, most)), int(cores * 4096 * rng.uniform(least, most))
        state.apply_pod(_pod(f"bound-{index}", cpu, memory, f"node-{index:05}"))
    for index in range(QUEUES):
        state.apply_queue(QueueView(f"queue-{index}", weight=index + 1))
    return state


def _job(index: int, shape: Shape, pods: int = 1, queue: int = 0) -> Candidate:
    return Candidate(f"team/job-{index}", f"u{index:06}", f"queue-{queue}", shape, pods, queued_at=NOW - index)


def _mixed(shapes: int, count: int = 50_000) -> Jobs:
    rng = random.Random(2)
    known = [
        Shape.of(
            {"cpu": 500 + (7919 * i) % 15_000, "memory": rng.randrange(1, 64) * GI + i},
            {"zone": f"zone-{i % 4}"} if i % 5 == 0 else {},
            (Toleration(key="dedicated", operator="Exists"),) if i % 7 == 0 else (),
        )
        for i in range(shapes)
    ]
    for index in range(count):
        pods = rng.randint(2, 8) if index % 4 == 0 else 1
        yield _job(index, known[index % shapes], pods, index % QUEUES)


def _selectors() -> Jobs:
    rng = random.Random(3)
    for index in range(2_000):
        labels = {f"half-{bit}": str(rng.randrange(2)) for bit in range(8) if rng.random() < 0.4}
        if index % 3 == 0:
            labels = {"kubernetes.io/hostname": f"node-{rng.randrange(NODES):05}"}
        yield _job(
            index,
            Shape.of({"cpu": 9_000 + index, "memory": 30 * GI}, labels, (Toleration(key=f"key-{index}", value="x"),)),
        )


def _even(count: int, cpu: int, step: int, memory: int, pods: int = 1, queue: int | None = None) -> Jobs:
    for index in range(count):
        shape = Shape.of({"cpu": cpu + step * index, "memory": memory + index})
        yield _job(index, shape, pods, index % QUEUES if queue is None else queue)


CASES: Final[dict[str, tuple[float, float, Callable[[], Jobs], int | None]]] = {
    "plan_5000_nodes_50000_waiting": (0.75, 1.0, lambda: _mixed(200), MOST_STARTS),
    "shapes2000": (0.75, 1.0, lambda: _mixed(2_000), MOST_STARTS),
    "shapes50000": (0.75, 1.0, lambda: _mixed(50_000), MOST_STARTS),
    "fit_all": (0.2, 0.9, lambda: _even(2_000, 500, 1, GI), MOST_STARTS),
    "fit_nowhere": (0.75, 1.0, lambda: _even(10_000, 20_000, 1, GI), MOST_STARTS),
    "never_fit": (0.75, 1.0, lambda: _even(10_000, 64_001, 1, GI), MOST_STARTS),
    "gangs": (0.75, 1.0, lambda: _even(2_000, 5_000, 1, 4 * GI, 1_000), MOST_STARTS),
    "tiny_gangs": (0.2, 0.9, lambda: _even(2_000, 1, 1, 1 << 20, 5_000), MOST_STARTS),
    "selectors": (0.75, 1.0, _selectors, MOST_STARTS),
    "preempt": (0.73, 0.75, lambda: _even(2_000, 2_000, 1, 5 * GI, queue=4), MOST_STARTS),
    "preempt_gangs": (0.73, 0.75, lambda: _even(2_000, 2_000, 1, 5 * GI, 1_000, queue=4), MOST_STARTS),
    "pending": (0.75, 1.0, lambda: _even(1_000, 500, 1, GI), MOST_STARTS),
}
"""How much ordinary pods take of each node, who waits, and how many may start in the cycle."""


def _lend(state: ClusterState) -> None:
    """Jobs of one queue run on all nodes, more than it deserves."""
    rng = random.Random(4)
    for index in range(2 * NODES):
        name, since = f"run-{index}", NOW - rng.randrange(1, 1800) * 1_000_000
        cores = SIZES[index % NODES % len(SIZES)]
        labels = {"scavenger.dev/job": name, "scavenger.dev/queue": "queue-0"}
        state.apply_pod(_pod(name, cores * 120, cores * 400, f"node-{index % NODES:05}", labels))
        state.running.apply(RunningJob(f"apps/{name}", f"u{index:06}", "queue-0", since=since, started=since))


def prepared(case: str) -> ClusterState:
    """The cluster of a case, with everybody in line."""
    least, most, jobs, _ = CASES[case]
    state = cluster(least, most)
    for job in jobs():
        state.apply_candidate(job)
    if case == "pending":
        for index in range(1_000):
            state.apply_pod(_pod(f"pending-{index}", 500 + 30 * (index % 500), 1024 + index % 500))
    if case.startswith("preempt"):
        _lend(state)
    return state


def plan(case: str) -> tuple[float, int]:
    """CPU seconds of a cycle, and how many jobs it starts."""
    state, starts = prepared(case), CASES[case][3]
    gc.collect()
    begun = time.process_time()
    found = plan_admissions(state.snapshot(now=NOW, rule=LoadRule.fixed(99)), max_starts_per_cycle=starts)
    return time.process_time() - begun, len(found.starts)


def _pooled(least: float, most: float, pools: int) -> tuple[ClusterState, LoadRule]:
    """The cluster with nodes of three pools and 3,000 shapes that may run in all of them. pools: with levels."""
    rng, state = random.Random(5), cluster(least, most, TAINT.key, *POOLS)
    taints = [(), *((Taint(key=key, value="x", effect="NoSchedule"),) for key in POOLS)]
    for index in range(NODES):
        node = _node(index, rng)
        state.apply_node(msgspec.structs.replace(node, spec=NodeSpec(taints=taints[index // len(SIZES) % 3])))
    anywhere = tuple(Toleration(key=key, operator="Exists") for key in POOLS)
    for index in range(3_000):
        asked = {"cpu": 500 + (7919 * index) % 15_000, "memory": rng.randrange(1, 64) * GI + index}
        state.apply_candidate(_job(index, Shape.of(asked, {}, anywhere), 1 + index % 4 // 3, index % QUEUES))
    rule = LoadRule.fixed(99)
    names = sorted({view.pool for view in state.snapshot(now=NOW, rule=rule).nodes.values()} - {PLAIN_POOL})
    return state, replace(rule, pools=dict.fromkeys(names[: pools - 1], rule))


def _seconds_by_pools(least: float, most: float, pools: int) -> float:
    state, rule = _pooled(least, most, pools)
    gc.collect()
    begun = time.process_time()
    found = plan_admissions(state.snapshot(now=NOW, rule=rule), max_starts_per_cycle=MOST_STARTS)
    seconds = time.process_time() - begun
    if not found.starts:
        raise AssertionError("some jobs are meant to fit")
    return seconds


def three_pools(least: float, most: float) -> float:
    """The cycle with three pools ÷ with one."""
    return median_ratio([(_seconds_by_pools(least, most, 3), _seconds_by_pools(least, most, 1)) for _ in range(TURNS)])


async def held_up(work: Callable[[], Awaitable[object]]) -> float:
    """The longest that the event loop was held up by some work, in seconds."""
    worst = 0.0

    async def tick() -> None:
        nonlocal worst
        while True:
            begun = time.perf_counter()
            await asyncio.sleep(TICK_SECONDS)
            worst = max(worst, time.perf_counter() - begun - TICK_SECONDS)

    ticking = asyncio.create_task(tick())
    await asyncio.sleep(2 * TICK_SECONDS)
    await work()
    await asyncio.sleep(2 * TICK_SECONDS)
    ticking.cancel()
    return worst


async def held_up_by_cycle(case: str) -> float:
    """The same for the cycle of a case."""
    state, starts = prepared(case), CASES[case][3]
    gc.collect()

    async def cycle() -> None:
        snapshot = state.snapshot(now=NOW, rule=LoadRule.fixed(99))
        await in_thread(plan_admissions, snapshot, max_starts_per_cycle=starts)

    return await held_up(cycle)


def run() -> list[dict[str, Any]]:
    """The figures for bench.json."""
    tune_interpreter()
    figures: list[dict[str, Any]] = []
    worst = max(asyncio.run(held_up_by_cycle(case)) for case in CASES)
    figures.append({"name": "scale.event_loop_block_ms", "value": round(1000 * worst), "unit": "ms", "goal": "<= 100"})
    for case in CASES:
        seconds, starts = plan(case)
        name = f"scale.{case}" if case.startswith("plan") else f"scale.plan.{case}"
        figures += [
            {"name": f"{name}.seconds", "value": round(seconds, 3), "unit": "s", "goal": "<= 1"},
            {"name": f"{name}.starts", "value": starts, "unit": "jobs", "goal": ""},
        ]
    for name, least, most in (("few_fit", 0.75, 1.0), ("fit_all", 0.2, 0.9)):
        ratio = round(three_pools(least, most), 2)
        figures.append({"name": f"scale.plan.three_pools.{name}", "value": ratio, "unit": "ratio", "goal": "<= 1.3"})
    return figures
