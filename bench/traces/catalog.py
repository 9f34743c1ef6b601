"""Days of public traces as scenarios: PlanetLab, openb, and a week of the LCG grid as demand.

The traces are not part of the project; BENCH_TRACE_DIR says where they are.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from scavenger_simulator.inputs import catalog
from scavenger_simulator.inputs.catalog import DRAWN, sampled
from scavenger_simulator.inputs.demand_csv import DAY, Window
from scavenger_simulator.inputs.habits import Habits
from scavenger_simulator.inputs.nodes import fleet
from scavenger_simulator.inputs.reading import InputError
from scavenger_simulator.scenario import NodeSpec, OrdinaryPod, ScavengerDemand, Scenario

from bench import Skipped, trace_folder
from bench.traces.openb import read_openb_nodes, read_openb_pods, sample_nodes
from bench.traces.planetlab import read_planetlab
from bench.traces.swf import read_swf

OPENB_NODES: Final = "openb-nodes.csv"
OPENB_PODS: Final = "openb-pods.csv.gz"
OPENB_DAY: Final = 148
"""Of the 149 days that openb has, the one with most ordinary pods."""
LCG: Final = "lcg-week1.swf.gz"
REQUESTED: Final = 0.5
"""Of the nodes' room, what ordinary pods request at their peak."""

Parts = tuple[tuple[OrdinaryPod, ...], tuple[NodeSpec, ...], tuple[ScavengerDemand, ...]]
"""Ordinary pods, nodes, and the jobs that are in the same trace."""


@dataclass(frozen=True, slots=True)
class Trace:
    """A day of a trace.

    Attributes:
        machines: file of PlanetLab; empty for openb.
        day: of openb.
        demand_start: seconds into the week of LCG at which its jobs begin.
        demand_share: its jobs are drawn until their work is this share of all the nodes' CPU time.
        week_before: of openb, whether the scenario has its regular pods of the week before as its past.
        part: of openb, which part of its pods is taken, of so many; nodes are drawn until they fit these.
    """

    name: str
    machines: str
    demand_start: float
    demand_share: float = 0.6
    seed: int = 1
    habits: Habits = field(default_factory=Habits)
    day: int = OPENB_DAY
    part: tuple[int, int] = (0, 1)
    week_before: bool = False


TRACES: Final = {
    trace.name: trace
    for trace in (
        Trace("planetlab-20110303", "planetlab-20110303.csv.gz", 1 * DAY),
        Trace("planetlab-20110322", "planetlab-20110322.csv.gz", 3 * DAY),
        Trace("openb", "", 4 * DAY),
    )
}


OTHER_DAYS: Final = (141, 140, 147, 146)
"""Of openb: those with most ordinary pods after OPENB_DAY."""
FURTHER_DAYS: Final = (144, 145, 139)
"""Of openb: those with most ordinary pods after these."""
DAYS: Final = {
    **TRACES,
    **{f"openb-{day}": Trace(f"openb-{day}", "", 4 * DAY, day=day) for day in (*OTHER_DAYS, *FURTHER_DAYS)},
}
"""With days that nothing was set by."""


def traces() -> Path:
    """The folder of the public traces. Raises Skipped where it is not there."""
    folder = trace_folder()
    if problem := missing(folder):
        raise Skipped(f"{problem}; BENCH_TRACE_DIR says where the public traces are")
    return folder


def missing(folder: Path | None) -> str:
    """What is wrong with the folder of traces, in words; empty where it is there."""
    if folder is None:
        return "no folder of traces is given"
    return "" if folder.is_dir() else f"the folder of traces {folder} does not exist"


def scenario_of(name: str, folder: Path | None, **changes: Any) -> Scenario:
    """A trace, or a synthetic day of the simulator. changes: seed, demand_share, habits,
    part, week_before. Raises InputError."""
    if name not in DAYS:
        return catalog.build(replace(catalog.named(name), **changes))
    if folder is None or missing(folder):
        raise InputError(missing(folder), "give it with --traces DIR or BENCH_TRACE_DIR", source=name)
    trace = replace(DAYS[name], **changes)
    ordinary, nodes, jobs = _planetlab(trace, folder) if trace.machines else _openb(trace, folder)
    grid = read_swf(folder / LCG, Window(trace.demand_start))
    demands = {job.name: job.demand(trace.seed, trace.habits) for job in grid}
    work = {name: job.cores * job.work_seconds for name, job in demands.items()}
    room = sum(node.cpu_milli for node in nodes) / 1000 * DAY * trace.demand_share
    return Scenario(
        name=name,
        nodes=nodes,
        ordinary=ordinary,
        jobs=(*jobs, *(demands[one] for one in sampled(work, room, trace.seed))),
        end=DAY,
        seed=trace.seed,
        origin=_origin(trace),
        past=_week_before(trace, folder) if trace.week_before else (),
    )


def _planetlab(trace: Trace, folder: Path) -> Parts:
    ordinary = read_planetlab(folder / trace.machines)
    return ordinary, fleet(ordinary, REQUESTED), ()


def _openb(trace: Trace, folder: Path) -> Parts:
    ordinary, jobs = read_openb_pods(folder / OPENB_PODS, Window(trace.day * DAY), seed=trace.seed, habits=trace.habits)
    first, parts = trace.part
    ordinary, jobs = ordinary[first::parts], jobs[first::parts]
    return ordinary, sample_nodes(read_openb_nodes(folder / OPENB_NODES), ordinary, REQUESTED, trace.seed), jobs


def _week_before(trace: Trace, folder: Path) -> tuple[OrdinaryPod, ...]:
    """The regular pods of the week before a day of openb, as if all of them had left when it begins."""
    ordinary, _ = read_openb_pods(folder / OPENB_PODS, Window((trace.day - 7) * DAY, 7 * DAY), seed=trace.seed)
    first, parts = trace.part
    week = 7 * DAY
    return tuple(
        replace(pod, arrives=pod.arrives - week, leaves=min(0.0, pod.leaves - week)) for pod in ordinary[first::parts]
    )


def _origin(trace: Trace) -> str:
    if trace.machines:
        said = [
            f"ordinary pods from planetlab:{trace.machines}; demand from swf:{LCG}",
            "machines request the 75th percentile of their use; their memory is assumed",
            f"nodes of three sizes, {REQUESTED:.0%} of them requested at the peak",
        ]
    else:
        said = [
            f"ordinary pods from openb:{OPENB_PODS}; demand from openb:{OPENB_PODS} and swf:{LCG}",
            "real use is a share of the requests, drawn; GPUs are left out",
        ]
    return "; ".join([*said, DRAWN]) + f"; seed {trace.seed}"
