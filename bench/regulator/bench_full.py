"""What is harvested of a cluster that is full on paper: reserved to the last core, and idle for the most part.

The model of `bench_harvest` (nodes, virtual machines, late metrics, the regulator's own offers), with real jobs in the
place of the one that takes all: jobs of one core with run times of the LCG grid, as many in line as fit. A job starts
where an offer has room for it, keeps its place when the offer shrinks, and computes with what the kernel leaves it: all
that the machines leave idle, at most a core. Plain Jobs, in whatever order, get nothing here: no core is free to
request.

- gain.harvest_share: CPU time that jobs got ÷ CPU time that was reserved and not used by who reserved it.
- gain.harvest_share.under_threshold: the same ÷ what of it was under the admission threshold.
- gain.harvest_harm: CPU time that the machines wanted and jobs got ÷ all that the machines wanted. The kernel shares a
  busy node by weights: two shares for a job, 1,024 for each core that is reserved. What sharing costs beside CPU time
  (caches, wake-ups) is for a real node to say: `reclaimed.ordinary`.
- gain.harvest_speed: CPU time that jobs got ÷ a core each for as long as they ran.

Each machine reserves its peak of the day (`.DAY.peak`, which the sums are of) or a core (`.DAY.core`). Days are all
files `planetlab-DAY.csv.gz` of BENCH_TRACE_DIR: a line for each machine, 288 percentages, which is one file of CloudSim
with commas in the place of line breaks. Not modelled: that starved jobs move, and memory.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from scavenger_simulator.inputs.demand_csv import Window
from scavenger_simulator.inputs.reading import InputError

from bench import Skipped, trace_folder
from bench.regulator.bench_harvest import CELL, CELLS, PERIOD, Harvest, Model, Server, read, servers
from bench.traces.catalog import LCG
from bench.traces.swf import read_swf

DAYS: Final = "planetlab-*.csv.gz"
JOB_SHARES: Final = 2
"""CPU weight of a pod that requests none."""
CORE_SHARES: Final = 1024
"""Of each core that is requested."""
SEED: Final = 1

Figure = dict[str, Any]


@dataclass(slots=True)
class Full(Model):
    """A day of a full cluster, job by job.

    Attributes:
        lengths: called for the core-seconds of the next job in line.
        jobs: by node, the core-seconds that are left of each job there.
        idle, under, got, wanted, squeezed, slots: core-seconds that were reserved and not used, that were so under the
            admission threshold, that jobs got, that machines wanted, of that what jobs got, and that jobs were there.
    """

    lengths: Callable[[], float] = field(kw_only=True)
    jobs: list[list[float]] = field(init=False)
    idle: float = 0.0
    under: float = 0.0
    got: float = 0.0
    wanted: float = 0.0
    squeezed: float = 0.0
    slots: float = 0.0

    def __post_init__(self) -> None:
        Model.__post_init__(self)
        self.jobs = [[] for _ in self.nodes]

    def count(self, at: float, admission: float, upper: float, harvest: Harvest) -> None:
        """Jobs start where there is room for them, and compute until the next period."""
        for number, (node, jobs) in enumerate(zip(self.nodes, self.jobs, strict=True)):
            name, ordinary = f"n{number}", node.ordinary(at)
            while self.offered[name] >= len(jobs) + 1:
                jobs.append(self.lengths())
            self.offered[name] = float(len(jobs))
            self.idle += PERIOD * (node.cores - ordinary)
            self.under += PERIOD * max(0.0, node.cores * admission / 100 - ordinary)
            self.wanted += PERIOD * ordinary
            self.slots += PERIOD * len(jobs)
            squeezed = squeezed_by(len(jobs), node.cores, ordinary)
            self.squeezed += PERIOD * squeezed
            each = PERIOD * min(1.0, (node.cores - ordinary + squeezed) / max(1, len(jobs)))
            self.got += sum(min(left, each) for left in jobs)
            jobs[:] = [left - each for left in jobs if left > each]

    def figures(self, suffix: str = "") -> list[Figure]:
        """What came of it. suffix: of the names."""
        values = (
            ("gain.harvest_share", self.got / self.idle, ">= 0.8"),
            ("gain.harvest_share.under_threshold", self.got / self.under, None),
            ("gain.harvest_harm", self.squeezed / self.wanted, "<= 0.01"),
            ("gain.harvest_speed", self.got / self.slots, None),
        )
        return [
            {"name": name + suffix, "value": round(v, 4), "unit": "ratio", "goal": goal} for name, v, goal in values
        ]

    def add(self, other: Full) -> None:
        """The sums of both."""
        for what in ("idle", "under", "got", "wanted", "squeezed", "slots"):
            setattr(self, what, getattr(self, what) + getattr(other, what))


def squeezed_by(jobs: int, cores: float, ordinary: float) -> float:
    """Cores that so many jobs take from machines that want `ordinary` cores of a node: what the machines want beyond
    the part that their weight is worth."""
    reserved = CORE_SHARES * cores
    return max(0.0, ordinary - cores * reserved / (reserved + JOB_SHARES * jobs))


def play(nodes: list[Server], lengths: Sequence[float], seed: int = SEED) -> Full:
    """A day on these nodes, with jobs as long as the lengths say, drawn by the seed. lengths: seconds on a core."""
    draw = random.Random(seed)
    model, harvest = Full(nodes, lengths=lambda: draw.choice(lengths)), Harvest()
    for step in range(int(CELL * CELLS / PERIOD)):
        model.period(PERIOD + step * PERIOD, harvest)
    return model


def run() -> list[Figure]:
    """The figures."""
    folder = trace_folder()
    days = sorted(folder.glob(DAYS))
    try:
        lengths = [job.run_seconds for job in read_swf(folder / LCG, Window())]
    except InputError as error:
        raise Skipped(f"{error}; BENCH_TRACE_DIR says where the public traces are") from None
    if not days:
        raise Skipped(f"no {DAYS} in {folder}; BENCH_TRACE_DIR says where the PlanetLab traces are")
    total, figures = Full([], lengths=float), list[Figure]()
    for path in days:
        machines, day = read(path), path.name.split(".")[0].removeprefix("planetlab-")
        for reserves in ("peak", "core"):
            found = play(servers(machines, by_peak=reserves == "peak"), lengths)
            figures += found.figures(f".{day}.{reserves}")
            if reserves == "peak":
                total.add(found)
    return [*total.figures(), *figures]
