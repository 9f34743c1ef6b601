"""openb: nodes and pods of an Alibaba cluster, as kubernetes-scheduler-simulator distributes them.

It has requests, quality of service and times of 149 days, and no use: what a pod uses is a share of its request, drawn
for it, that goes up and down with the day. GPUs are left out. It is a sample of the pods of that cluster: at a time,
some fifty pods on 1,523 nodes. So nodes are drawn until they fit the pods (`sample_nodes`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from scavenger_simulator.inputs.demand_csv import Window
from scavenger_simulator.inputs.distributions import Distribution, LogNormal, chance, draw
from scavenger_simulator.inputs.habits import Habits
from scavenger_simulator.inputs.nodes import peak_requests
from scavenger_simulator.inputs.reading import InputError, Row, rows
from scavenger_simulator.inputs.shapes import STEP_SECONDS, daily, trace
from scavenger_simulator.scenario import FOREVER, NodeSpec, OrdinaryPod, ScavengerDemand

MIB: Final = 1024**2
QOS: Final = ("LS", "BE", "Burstable", "Guaranteed")
POD_COLUMNS: Final = ("name", "cpu_milli", "memory_mib", "qos", "creation_time", "deletion_time")
GPU_COLUMNS: Final = ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
NODE_COLUMNS: Final = ("sn", "cpu_milli", "memory_mib")
GPU: Final = "nvidia.com/gpu"


@dataclass(frozen=True, slots=True)
class RealUse:
    """What pods use of what they request, which the trace does not say: the means of a pod's shares (0 to 1)."""

    cpu: Distribution = field(default=LogNormal(0.4, 0.5))
    memory: Distribution = field(default=LogNormal(0.6, 0.3))


def read_openb_nodes(path: Path) -> tuple[NodeSpec, ...]:
    """The nodes of a file. Raises InputError."""
    found = []
    for row in rows(path, NODE_COLUMNS):
        cpu, memory = row.number("cpu_milli", least=1), row.number("memory_mib", least=1)
        found.append(NodeSpec(row.text("sn"), round(cpu), round(memory * MIB)))
    if not found:
        raise InputError("it has no nodes", "a line is a node", source=str(path))
    return tuple(found)


def sample_nodes(
    nodes: Sequence[NodeSpec], pods: Sequence[OrdinaryPod], requested: float, seed: int
) -> tuple[NodeSpec, ...]:
    """As many of the nodes, drawn by seed and name, as `fleet` would make; the one that holds the largest pod first.

    All of them where they are too few.
    """
    cpu, memory, _ = peak_requests(pods)
    largest = max((pod.cpu_request_milli for pod in pods), default=0)
    order = sorted(nodes, key=lambda node: (node.cpu_milli < largest, chance(seed, node.name, "node")))
    chosen: list[NodeSpec] = []
    room_cpu = room_memory = 0
    for node in order:
        if chosen and room_cpu * requested >= cpu and room_memory * requested >= memory:
            break
        chosen.append(node)
        room_cpu, room_memory = room_cpu + node.cpu_milli, room_memory + node.memory_bytes
    return tuple(sorted(chosen, key=lambda node: node.name))


def read_openb_pods(
    path: Path,
    window: Window,
    *,
    seed: int = 0,
    use: RealUse | None = None,
    habits: Habits | None = None,
) -> tuple[tuple[OrdinaryPod, ...], tuple[ScavengerDemand, ...]]:
    """The pods that are there in the window: latency sensitive ones as ordinary pods, best effort ones (BE) as jobs
    with as much work as they were there for. Raises InputError."""
    ordinary, jobs = [], []
    for row in rows(path, POD_COLUMNS):
        pod = _pod(row, window)
        if row.text("qos") not in QOS:
            raise row.error("qos", f"{row.text('qos')!r} is unknown", f"it is one of {', '.join(QOS)}")
        if pod is None:
            continue
        if row.text("qos") == "BE":
            jobs += [_job(pod, seed, habits or Habits())] if pod.arrives >= 0 else []
        else:
            ordinary.append(_ordinary(pod, window, seed, use or RealUse()))
    return tuple(ordinary), tuple(jobs)


def read_openb_gpus(path: Path) -> tuple[dict[str, int], ...]:
    """What the pods request that have whole GPUs, as a pod requests it. Raises InputError."""
    found = []
    for row in rows(path, GPU_COLUMNS):
        gpus = round(row.number("num_gpu", default=0.0))
        if gpus and row.number("gpu_milli") == 1000:
            memory = round(row.number("memory_mib") * MIB)
            found.append({"cpu": round(row.number("cpu_milli")), "memory": memory, GPU: gpus})
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Pod:
    """Times from the start of the window on."""

    name: str
    arrives: float
    leaves: float
    cpu_milli: int
    memory_bytes: int


def _pod(row: Row, window: Window) -> _Pod | None:
    created, deleted = row.number("creation_time"), row.number("deletion_time", default=math.inf)
    if deleted < created:
        raise row.error("deletion_time", "it is before creation_time", "write a time in seconds that is not")
    cpu, memory = round(row.number("cpu_milli")), round(row.number("memory_mib") * MIB)
    if created >= window.end or deleted <= window.start or deleted == created:
        return None
    return _Pod(row.text("name"), created - window.start, deleted - window.start, max(1, cpu), max(MIB, memory))


def _job(pod: _Pod, seed: int, habits: Habits) -> ScavengerDemand:
    work = pod.leaves - pod.arrives
    return habits.job(seed, pod.name, pod.arrives, work, cpu_milli=pod.cpu_milli, memory_bytes=pod.memory_bytes)


def _ordinary(pod: _Pod, window: Window, seed: int, use: RealUse) -> OrdinaryPod:
    share = min(1.0, draw(use.cpu, seed, pod.name, "cpu"))
    memory = min(1.0, draw(use.memory, seed, pod.name, "memory"))
    peak = 12 + 6 * chance(seed, pod.name, "peak")
    shape = daily(seed, pod.name, max(1, round(window.length / STEP_SECONDS)), peak_hour=peak)
    return OrdinaryPod(
        name=pod.name,
        arrives=max(0.0, pod.arrives),
        leaves=FOREVER if pod.leaves >= window.length else pod.leaves,
        cpu_request_milli=pod.cpu_milli,
        memory_request_bytes=pod.memory_bytes,
        usage=trace([min(1.0, share * level) * pod.cpu_milli for level in shape], memory * pod.memory_bytes),
    )
