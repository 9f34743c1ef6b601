"""Scenarios put together: ordinary pods, nodes and demand, each from where one says; well-known ones have names."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from scavenger_simulator.inputs.demand_csv import read_demand
from scavenger_simulator.inputs.distributions import chance
from scavenger_simulator.inputs.habits import Habits
from scavenger_simulator.inputs.nodes import fleet, parse_nodes, sample_nodes
from scavenger_simulator.inputs.openb import Window, read_openb_nodes, read_openb_pods
from scavenger_simulator.inputs.planetlab import read_planetlab
from scavenger_simulator.inputs.prometheus import History, Told
from scavenger_simulator.inputs.reading import InputError
from scavenger_simulator.inputs.swf import read_swf
from scavenger_simulator.inputs.synthetic import Pattern, Synthetic, synthetic_jobs, synthetic_pods
from scavenger_simulator.scenario import NodeSpec, OrdinaryPod, ScavengerDemand, Scenario

DAY: Final = 86_400.0
PLANETLAB: Final = ("planetlab-20110303.csv.gz", "planetlab-20110322.csv.gz")
OPENB_NODES: Final = "openb-nodes.csv"
OPENB_PODS: Final = "openb-pods.csv.gz"
LCG: Final = "lcg-week1.swf.gz"


@dataclass(frozen=True, slots=True)
class Sources:
    """Where a scenario comes from.

    ordinary: planetlab:FILE, openb:FILE, synthetic:PATTERN or prometheus; several add up. nodes: auto, openb:FILE or
    COUNTxCPU:MEMORY,…; with prometheus, auto are those of the cluster. demand: swf:FILE, csv:FILE, openb:FILE or
    synthetic; several add up. start, demand_start: seconds into a trace at which it begins. length: seconds. pods:
    ordinary synthetic ones. requested: with auto nodes, the share of the room that ordinary pods request at their peak.
    demand_share: jobs of swf and synthetic demand are drawn until their work is this share of all the nodes' CPU time.
    queues: name to weight.
    """

    name: str
    ordinary: tuple[str, ...]
    nodes: str = "auto"
    demand: tuple[str, ...] = ("synthetic",)
    start: float = 0.0
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
        Sources("planetlab-20110303", (f"planetlab:{PLANETLAB[0]}",), demand=(f"swf:{LCG}",), demand_start=1 * DAY),
        Sources("planetlab-20110322", (f"planetlab:{PLANETLAB[1]}",), demand=(f"swf:{LCG}",), demand_start=3 * DAY),
        Sources(
            "openb",
            (f"openb:{OPENB_PODS}",),
            nodes=f"openb:{OPENB_NODES}",
            demand=(f"openb:{OPENB_PODS}", f"swf:{LCG}"),
            start=148 * DAY,
            demand_start=4 * DAY,
        ),
        *(Sources(pattern.value, (f"synthetic:{pattern.value}",)) for pattern in Pattern),
        Sources("prometheus", ("prometheus",)),
    )
}
"""What can be asked for by name."""
ON_TRACES: Final = ("planetlab-20110303", "planetlab-20110322", "openb")
"""Those of them that need the folder of traces."""
SYNTHETIC: Final = tuple(pattern.value for pattern in Pattern)


class Traces:
    """The folder with public traces, which may not be there."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def missing(self) -> str:
        """What is wrong with the folder, in words; empty where it is there."""
        if self.folder is None:
            return "no folder of traces is given"
        return "" if self.folder.is_dir() else f"the folder of traces {self.folder} does not exist"

    def file(self, name: str) -> Path:
        """A file by its path, or by its name in the folder. Raises InputError."""
        path = Path(name).expanduser()
        if path.is_absolute() or path.exists():
            return path
        if missing := self.missing():
            remedy = (
                "give it with --traces DIR or SCAVENGER_TRACES; without it there are "
                f"{', '.join(SYNTHETIC)}, prometheus, and files of your own by their path"
            )
            raise InputError(missing, remedy, source=name)
        return (self.folder or Path()) / name


def named(name: str) -> Sources:
    """What is known by a name. Raises InputError."""
    if name not in NAMED:
        raise InputError(f"there is no scenario {name!r}", f"choose one of {', '.join(NAMED)}")
    return NAMED[name]


def build(
    sources: Sources,
    traces: Traces,
    ask_history: Callable[[], History] | None = None,
    told: Told = lambda _: None,
) -> Scenario:
    """The scenario, the same for the same sources. ask_history: asks Prometheus, over `sources.length` seconds.

    Raises InputError.
    """
    told(f"reading {sources.name}")
    window = Window(sources.start, sources.length)
    history = _history(sources, ask_history)
    ordinary = _ordinary(sources, traces, window, history)
    nodes = _nodes(sources, traces, ordinary, history)
    jobs = _demand(sources, traces, nodes)
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


def _ordinary(sources: Sources, traces: Traces, window: Window, history: History | None) -> tuple[OrdinaryPod, ...]:
    found: list[OrdinaryPod] = []
    for source in sources.ordinary:
        kind, _, rest = source.partition(":")
        match kind:
            case "planetlab":
                found += read_planetlab(traces.file(rest))
            case "openb":
                best_effort = any(demand.startswith("openb:") for demand in sources.demand)
                path = traces.file(rest)
                found += read_openb_pods(path, window, seed=sources.seed, scavenge_best_effort=best_effort)[0]
            case "synthetic":
                found += synthetic_pods(_synthetic(sources, rest), sources.seed)
            case "prometheus":
                found += history.ordinary if history else ()
            case _:
                raise InputError(f"{source!r} is unknown", "write planetlab:FILE, openb:FILE, synthetic:PATTERN")
    return tuple(found)


def _synthetic(sources: Sources, pattern: str) -> Synthetic:
    if pattern not in SYNTHETIC:
        raise InputError(f"there is no pattern {pattern!r}", f"choose one of {', '.join(SYNTHETIC)}")
    return Synthetic(Pattern(pattern), length=sources.length, pods=sources.pods)


def _nodes(
    sources: Sources, traces: Traces, ordinary: Sequence[OrdinaryPod], history: History | None
) -> tuple[NodeSpec, ...]:
    kind, _, rest = sources.nodes.partition(":")
    if kind == "openb":
        return sample_nodes(read_openb_nodes(traces.file(rest)), ordinary, sources.requested, sources.seed)
    if sources.nodes != "auto":
        return parse_nodes(sources.nodes)
    return history.nodes if history else fleet(ordinary, sources.requested)


def _demand(sources: Sources, traces: Traces, nodes: Sequence[NodeSpec]) -> tuple[ScavengerDemand, ...]:
    window = Window(sources.demand_start, sources.length)
    room = sum(node.cpu_milli for node in nodes) / 1000 * sources.length * sources.demand_share
    seed, habits = sources.seed, sources.habits
    found: list[ScavengerDemand] = []
    for source in sources.demand:
        kind, _, rest = source.partition(":")
        match kind:
            case "swf":
                found += _swf(traces.file(rest), window, sources, room)
            case "csv":
                found += read_demand(traces.file(rest), window, seed=seed, habits=habits)
            case "openb":
                place = Window(sources.start, sources.length)
                found += read_openb_pods(traces.file(rest), place, seed=seed, habits=habits)[1]
            case "synthetic":
                found += _synthetic_demand(sources, room)
            case "none":
                pass
            case _:
                raise InputError(f"{source!r} is unknown", "write swf:FILE, csv:FILE, openb:FILE, synthetic or none")
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


def _swf(path: Path, window: Window, sources: Sources, room: float) -> list[ScavengerDemand]:
    seed, habits = sources.seed, sources.habits
    jobs = {job.name: job for job in read_swf(path, window)}
    work = {name: job.run_seconds * job.processors * habits.cores(seed, name) for name, job in jobs.items()}
    return [jobs[name].demand(seed, habits) for name in sampled(work, room, seed)]


def sampled(work: Mapping[str, float], core_seconds: float, seed: int) -> list[str]:
    """The names whose draws are the lowest, until their work (core-seconds by name) is so much; in their order."""
    chosen, total = set(), 0.0
    for name in sorted(work, key=lambda name: (chance(seed, name, "sample"), name)):
        if total >= core_seconds:
            break
        chosen.add(name)
        total += work[name]
    return [name for name in work if name in chosen]


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
    kinds = {source.partition(":")[0] for source in sources.ordinary}
    if "planetlab" in kinds:
        said.append("machines request the 75th percentile of their use; their memory is assumed")
    if "openb" in kinds:
        said.append("real use is a share of the requests, drawn; GPUs are left out")
    if "prometheus" in kinds:
        said.append("pods as seen at each step; placement is the simulator's own")
    elif sources.nodes == "auto":
        said.append(f"nodes of three sizes, {sources.requested:.0%} of them requested at the peak")
    said.append("checkpoint intervals, grace periods and restarts are drawn: no trace has them")
    return "; ".join(said) + f"; seed {sources.seed}"
