"""Who goes first in a queue: the values of interruptedFirst beside plain Jobs, on days that nothing was set by.

Each of three days of openb is cut into three clusters, with a third of its pods and as many nodes as fit them. There is
as much demand as CPU. The seed of a part is its number. For each order, and for plain Jobs, with the sums over all:

- loop.order.WAY.jobs_done, .waited_4h, .work, .lost: jobs completed, jobs that waited longer than four hours in one
  piece, core-hours of work, core-hours lost.
- loop.order.WAY.jobs_done_ratio_to_plain: jobs completed ÷ by plain Jobs.
- loop.order.WAY.done.SIZE, .waits.SIZE: jobs completed, and the mean hours that jobs wait in all, by their work:
  below 1 core-hour, 1 to 8, 8 to 64, and more.

    python -m bench.simulator.bench_orders openb-144    prints the sums of one day
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from scavenger_simulator.inputs.reading import InputError
from scavenger_simulator.policy import Policy
from scavenger_simulator.result import JobOutcome, RunResult
from scavenger_simulator.simulation import simulate

from bench import Skipped
from bench.simulator.proof import DEMAND_SHARE, LEAST_SERVED, SHORT_RUNS, WAYS
from bench.traces.catalog import FURTHER_DAYS, scenario_of, traces

PARTS: Final = 3
ORDERS: Final = (Policy.PLAIN.value, Policy.OURS.value, SHORT_RUNS, LEAST_SERVED)
SIZES: Final = (1.0, 8.0, 64.0)
"""Core-hours of work at which a size ends."""
NAMES: Final = ("below_1", "1_to_8", "8_to_64", "above_64")
FOUR_HOURS: Final = 14_400.0

Figure = dict[str, Any]


@dataclass(slots=True)
class Sums:
    """What came of the runs of one order. work, lost: core-hours. jobs, done: by size. waited: hours by size."""

    work: float = 0.0
    lost: float = 0.0
    starved: int = 0
    jobs: Counter[str] = field(default_factory=Counter)
    done: Counter[str] = field(default_factory=Counter)
    waited: dict[str, float] = field(default_factory=dict)

    def add(self, result: RunResult) -> None:
        """One more run."""
        self.work += result.totals.progress
        self.lost += result.totals.lost
        for job in result.jobs:
            size = size_of(job)
            self.jobs[size] += 1
            self.done[size] += job.finished is not None
            self.starved += job.longest_wait > FOUR_HOURS
            self.waited[size] = self.waited.get(size, 0.0) + job.waited / 3600


def size_of(job: JobOutcome) -> str:
    """The name of a job's size."""
    return NAMES[bisect_right(SIZES, job.cores * job.work_seconds / 3600)]


def measure(days: Sequence[str]) -> dict[str, Sums]:
    """Every order on every part of these days. Raises Skipped where the traces are missing, and InputError."""
    folder, sums = traces(), {way: Sums() for way in ORDERS}
    for day in days:
        for part in range(PARTS):
            scenario = scenario_of(day, folder, seed=part + 1, demand_share=DEMAND_SHARE, part=(part, PARTS))
            for way, found in sums.items():
                policy, settings = WAYS[way]
                found.add(simulate(scenario, settings, policy, part + 1))
    return sums


def run() -> list[Figure]:
    """The figures."""
    try:
        return figures_of(measure([f"openb-{day}" for day in FURTHER_DAYS]))
    except InputError as error:
        raise Skipped(f"{error}; BENCH_TRACE_DIR says where the public traces are") from None


def figures_of(sums: dict[str, Sums]) -> list[Figure]:
    """The figures of all orders."""
    plain = sums[Policy.PLAIN].done.total()
    return [figure for way, found in sums.items() for figure in _of_way(f"loop.order.{way}", found, plain)]


def _of_way(name: str, found: Sums, plain: int) -> Iterable[Figure]:
    yield _figure(f"{name}.jobs_done", found.done.total(), "jobs")
    if plain:
        yield _figure(f"{name}.jobs_done_ratio_to_plain", found.done.total() / plain, "ratio")
    yield _figure(f"{name}.waited_4h", found.starved, "jobs")
    yield _figure(f"{name}.work", found.work, "core-h")
    yield _figure(f"{name}.lost", found.lost, "core-h")
    for size in (size for size in NAMES if found.jobs[size]):
        yield _figure(f"{name}.done.{size}", found.done[size], "jobs")
        yield _figure(f"{name}.waits.{size}", found.waited[size] / found.jobs[size], "h")


def _figure(name: str, value: float, unit: str) -> Figure:
    return {"name": name, "value": round(value, 4), "unit": unit, "goal": None}


if __name__ == "__main__":
    for figure in figures_of(measure(sys.argv[1:])):
        print(f"{figure['name']} {figure['value']} {figure['unit']}", flush=True)
