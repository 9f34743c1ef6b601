"""Scenarios put together: ordinary pods, nodes and demand, each from where one says; well-known ones have names."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from typing import Final

from scavenger_simulator.inputs.demand_csv import DAY, Window, read_demand
from scavenger_simulator.inputs.distributions import chance
from scavenger_simulator.inputs.habits import Habits
from scavenger_simulator.inputs.nodes import fleet, parse_nodes
from scavenger_simulator.inputs.prometheus import History, Told
from scavenger_simulator.inputs.reading import InputError
from scavenger_simulator.inputs.synthetic import Pattern, Synthetic, synthetic_jobs, synthetic_pods
from scavenger_simulator.scenario import ANY_POOL, NodeSpec, OrdinaryPod, ScavengerDemand, Scenario

DRAWN: Final = "checkpoint intervals, grace periods and restarts are drawn: no trace has them"
"""Of every scenario, as its origin says it."""


@dataclass(frozen=True, slots=True)
class Sources:
    """Where a scenario comes from.

    ordinary: synthetic:PATTERN or prometheus; several add up. nodes: auto or COUNTxCPU:MEMORY,…; with prometheus, auto
    are those of the cluster. demand: csv:FILE, synthetic or none; several add up. demand_start: seconds into a file at
    which it begins. length: seconds. pods: ordinary synthetic ones. requested: with auto nodes, the share of the room
    that ordinary pods request at their peak. demand_share: synthetic jobs are drawn until their work is this share of
    all the nodes' CPU time. queues: name to weight.
    """

    name: str
    ordinary: tuple[str, ...]
    nodes: str = "auto"
    demand: tuple[str, ...] = ("synthetic",)
    demand_start: float = 0.0
    length: float = DAY
    pods: int = 1000
    requested: float = 0.5
    demand_share: float = 0.6
    seed: int = 1
    habits: Habits = field(default_factory=Habits)
    queues: Mapping[str, int] = field(default_factory=dict)


NAMED: Final = {
    sources.name: sources
    for sources in (
        *(Sources(pattern.value, (f"synthetic:{pattern.value}",)) for pattern in Pattern),
        Sources("prometheus", ("prometheus",)),
    )
}
"""What can be asked for by name."""
SYNTHETIC: Final = tuple(pattern.value for pattern in Pattern)


def named(name: str) -> Sources:
    """What is known by a name. Raises InputError."""
    if name not in NAMED:
        raise InputError(f"there is no scenario {name!r}", f"choose one of {', '.join(NAMED)}")
    return NAMED[name]


def build(
    sources: Sources,
    ask_history: Callable[[], History] | None = None,
    told: Told = lambda _: None,
) -> Scenario:
    """The scenario, the same for the same sources. ask_history: asks Prometheus, over `sources.length` seconds.

    Raises InputError.
    """
    told(f"reading {sources.name}")
    history = _history(sources, ask_history)
    ordinary = _ordinary(sources, history)
    nodes = _nodes(sources, ordinary, history)
    jobs = _demand(sources, nodes)
    ordinary, jobs = in_pools(ordinary, jobs, nodes, sources.seed)
    _check_names([pod.name for pod in ordinary] + [job.name for job in jobs], sources.name)
    return Scenario(
        name=sources.name,
        nodes=nodes,
        ordinary=ordinary,
        jobs=jobs,
        queues=sources.queues,
        start=0.0,
        end=sources.length,
        seed=sources.seed,
        origin=origin(sources),
    )


def _history(sources: Sources, ask: Callable[[], History] | None) -> History | None:
    if "prometheus" not in sources.ordinary:
        return None
    if ask is None:
        remedy = "give --prometheus-url URL, or --prometheus-service NAMESPACE/SERVICE:PORT"
        raise InputError("it is not said where Prometheus is", remedy)
    return ask()


def _ordinary(sources: Sources, history: History | None) -> tuple[OrdinaryPod, ...]:
    found: list[OrdinaryPod] = []
    for source in sources.ordinary:
        kind, _, rest = source.partition(":")
        match kind:
            case "synthetic":
                found += synthetic_pods(_synthetic(sources, rest), sources.seed)
            case "prometheus":
                found += history.ordinary if history else ()
            case _:
                raise InputError(f"{source!r} is unknown", "write synthetic:PATTERN or prometheus")
    return tuple(found)


def _synthetic(sources: Sources, pattern: str) -> Synthetic:
    if pattern not in SYNTHETIC:
        raise InputError(f"there is no pattern {pattern!r}", f"choose one of {', '.join(SYNTHETIC)}")
    return Synthetic(Pattern(pattern), length=sources.length, pods=sources.pods)


def _nodes(sources: Sources, ordinary: Sequence[OrdinaryPod], history: History | None) -> tuple[NodeSpec, ...]:
    if sources.nodes != "auto":
        return parse_nodes(sources.nodes)
    return history.nodes if history else fleet(ordinary, sources.requested)


def _demand(sources: Sources, nodes: Sequence[NodeSpec]) -> tuple[ScavengerDemand, ...]:
    window = Window(sources.demand_start, sources.length)
    room = sum(node.cpu_milli for node in nodes) / 1000 * sources.length * sources.demand_share
    found: list[ScavengerDemand] = []
    for source in sources.demand:
        kind, _, rest = source.partition(":")
        match kind:
            case "csv":
                found += read_demand(Path(rest).expanduser(), window, seed=sources.seed, habits=sources.habits)
            case "synthetic":
                found += _synthetic_demand(sources, room)
            case "none":
                pass
            case _:
                raise InputError(f"{source!r} is unknown", "write csv:FILE, synthetic or none")
    return tuple(found)


def _synthetic_demand(sources: Sources, room: float) -> list[ScavengerDemand]:
    """As many jobs as have so much work: by the mean of a thousand, then exactly."""
    spec = Synthetic(length=sources.length, jobs=1000)
    probe = synthetic_jobs(spec, sources.seed, sources.habits)
    mean = sum(job.cores * job.work_seconds for job in probe) / len(probe)
    jobs = synthetic_jobs(replace(spec, jobs=math.ceil(1.2 * room / mean)), sources.seed, sources.habits)
    by_name = {job.name: job for job in jobs}
    work = {name: job.cores * job.work_seconds for name, job in by_name.items()}
    return [by_name[name] for name in sampled(work, room, sources.seed)]


def sampled(work: Mapping[str, float], core_seconds: float, seed: int) -> list[str]:
    """The names whose draws are the lowest, until their work (core-seconds by name) is so much; in their order."""
    chosen, total = set(), 0.0
    for name in sorted(work, key=lambda name: (chance(seed, name, "sample"), name)):
        if total >= core_seconds:
            break
        chosen.add(name)
        total += work[name]
    return [name for name in work if name in chosen]


def in_pools(
    ordinary: tuple[OrdinaryPod, ...], jobs: tuple[ScavengerDemand, ...], nodes: Sequence[NodeSpec], seed: int
) -> tuple[tuple[OrdinaryPod, ...], tuple[ScavengerDemand, ...]]:
    """The same pods and jobs, each in a pool of nodes: drawn by its name, in proportion to the CPU of the pools, where
    no record says it. Raises InputError where a job names a pool that there is not."""
    cores: dict[str, int] = {}
    for node in nodes:
        cores[node.pool] = cores.get(node.pool, 0) + node.cpu_milli
    for job in jobs:
        if job.pool and job.pool != ANY_POOL and job.pool not in cores:
            known = ", ".join(sorted(name for name in cores if name)) or "none"
            raise InputError(f"there are no nodes of pool {job.pool!r}", f"write one of: {known} or {ANY_POOL}")
    if len(cores) < 2:
        return ordinary, jobs
    names, total = sorted(cores), sum(cores.values())
    bounds = list(accumulate(cores[name] / total for name in names))

    def drawn(name: str) -> str:
        return names[min(bisect_right(bounds, chance(seed, name, "pool")), len(names) - 1)]

    placed = [replace(pod, pool=drawn(_owner(pod.name))) for pod in ordinary]
    return tuple(placed), tuple(job if job.pool else replace(job, pool=drawn(job.array or job.name)) for job in jobs)


def _owner(pod: str) -> str:
    """What pods of one service have in common of their names: all of it to the second hyphen."""
    return "-".join(pod.split("-")[:2])


def _check_names(names: Sequence[str], scenario: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            remedy = "two sources have an item of the same name: leave one of them out"
            raise InputError(f"{name!r} is there twice in {scenario}", remedy)
        seen.add(name)


def origin(sources: Sources) -> str:
    """Where a scenario comes from and what of it is assumed, in words for people."""
    said = [f"ordinary pods from {' and '.join(sources.ordinary)}", f"demand from {' and '.join(sources.demand)}"]
    if "prometheus" in sources.ordinary:
        said.append("pods as seen at each step; placement is the simulator's own")
    elif sources.nodes == "auto":
        said.append(f"nodes of three sizes, {sources.requested:.0%} of them requested at the peak")
    said.append(DRAWN)
    return "; ".join(said) + f"; seed {sources.seed}"
