"""How long a wrong start lasts: jobs that leave again before their run has saved anything.

A start is wrong where the regulator evicts the job, or the scheduler preempts it, before its first checkpoint of that
run: the room was free for a moment only. Days of the public traces and two made-up ones, in the simulator, with three
seeds and as much work in line as there is CPU.

- loop.wrong_starts.SCENARIO.percent: of all starts.
- loop.wrong_starts.SCENARIO.seconds_p50, seconds_p90: from the start until the job leaves.
- loop.wrong_starts.SCENARIO.lost_percent: core-hours that they cost, of those that jobs computed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from scavenger_simulator.policy import Policy
from scavenger_simulator.result import Moment, MomentKind
from scavenger_simulator.settings import Settings
from scavenger_simulator.simulation import simulate

from bench.figures import percentile
from bench.simulator.bench_loop import DEMAND_SHARE, SCENARIOS, SEEDS
from bench.traces.catalog import scenario_of, traces

TAKEN_BACK: Final = (MomentKind.EVICTED, MomentKind.PREEMPTED)
NOTHING_SAVED: Final = 0.99
"""Of what a run computed, the share that is lost where it has saved nothing; figures are rounded."""

Figure = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Task:
    """One day to simulate."""

    scenario: str
    seed: int
    folder: Path


@dataclass(frozen=True, slots=True)
class Day:
    """What came of it.

    Attributes:
        scenario: its name.
        starts: of jobs.
        wrong: seconds that each wrong start lasted.
        lost: core-seconds that wrong starts cost.
        computed: core-seconds that jobs computed.
    """

    scenario: str
    starts: int
    wrong: tuple[float, ...]
    lost: float
    computed: float


def run() -> list[Figure]:
    """The figures."""
    folder = traces()
    tasks = [Task(name, seed, folder) for name in SCENARIOS for seed in SEEDS]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        return figures_of(pool.map(play, tasks))


def play(task: Task) -> Day:
    """Simulate a day."""
    scenario = scenario_of(task.scenario, task.folder, seed=task.seed, demand_share=DEMAND_SHARE)
    result = simulate(scenario, Settings(), Policy.OURS, task.seed)
    computed = sum(job.useful + job.lost for job in result.jobs)
    return day_of(task.scenario, result.moments, computed)


def day_of(scenario: str, moments: Sequence[Moment], computed: float) -> Day:
    """The wrong starts of a day."""
    began: dict[str, float] = {}
    starts, wrong, lost = 0, [], 0.0
    for one in moments:
        if one.kind is MomentKind.STARTED:
            began[one.job], starts = one.at, starts + 1
        elif one.kind in TAKEN_BACK and (at := began.pop(one.job, None)) is not None:
            lasted = one.at - at
            if one.lost >= NOTHING_SAVED * one.cores * lasted:
                wrong.append(lasted)
                lost += one.lost
    return Day(scenario, starts, tuple(wrong), lost, computed)


def figures_of(days: Iterable[Day]) -> list[Figure]:
    """The figures of all days, by scenario in their order."""
    found: dict[str, list[Day]] = {}
    for day in days:
        found.setdefault(day.scenario, []).append(day)
    return [figure for name, ours in found.items() for figure in _of_scenario(f"loop.wrong_starts.{name}", ours)]


def _of_scenario(name: str, days: Sequence[Day]) -> list[Figure]:
    lasted = [seconds for day in days for seconds in day.wrong]
    starts, computed = sum(day.starts for day in days), sum(day.computed for day in days)
    figures = [
        _figure(f"{name}.percent", 100 * len(lasted) / max(1, starts), "%"),
        _figure(f"{name}.lost_percent", 100 * sum(day.lost for day in days) / max(1.0, computed), "%"),
    ]
    return figures + [_figure(f"{name}.seconds_p{q}", percentile(lasted, q), "s") for q in (50, 90) if lasted]


def _figure(name: str, value: float, unit: str) -> Figure:
    return {"name": name, "value": round(value, 4), "unit": unit, "goal": None}
