"""What the loop keeps of what jobs compute: beside youngest-first, which needs no prioritizer, and beside the oracle.

Days of the public traces and two made-up ones, in the simulator, with three seeds, and with as much work in line as
there is CPU: with less, room is left, and nobody ever has to go. `youngest` is the same admitter and regulator without
a prioritizer; docs/simulator.md says what it and the oracle are. For each scenario:

- net_ratio_to_youngest_first: core-hours of work done and safe, ours ÷ youngest-first.
- net_ratio_at_most: of the oracle ÷ youngest-first, what the ratio above could be at most, whatever one did.
- lost_ratio_to_youngest_first: core-hours lost, the same; absent where youngest-first loses next to nothing.
- net_over_oracle: work done and safe ÷ what nobody can beat who knows the future.
- periods_above_upper_percent: of the regulator's periods, those with a load above an upper level that ordinary load
  alone was not above.
- loop.ramp.SCENARIO.net_ratio: work done by jobs that use a tenth of their CPU for their first two minutes ÷ by the
  same jobs that use all of it at once. In the simulator a ramp costs no work, so what is missing is the loop's.

- loop.stale_percent: of the time, that readers call the levels stale while one node of a hundred is 65 to 80 s late.

Ratios are of sums over the seeds; `.spread` is the largest less the smallest of the single ones.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from scavenger_regulator.core.rules import Rules
from scavenger_simulator.inputs.distributions import Constant
from scavenger_simulator.inputs.habits import Habits
from scavenger_simulator.policy import Policy
from scavenger_simulator.report.figures import figures
from scavenger_simulator.settings import Settings
from scavenger_simulator.simulation import simulate

from bench.simulator.staleness import stale_percent
from bench.traces.catalog import TRACES, scenario_of, traces

SCENARIOS: Final = (*TRACES, "bursts", "flash-crowd")
SEEDS: Final = (1, 2, 3)
DEMAND_SHARE: Final = 1.0
RAMPING: Final = Habits(ramp_up=Constant(120.0), ramp_up_fraction=Constant(0.1))
RAMP: Final = "ramp"
"""Ours, with jobs that ramp."""
LEAST_LOST: Final = 1.0
"""Core-hours a day: of less, a ratio says nothing."""

Figure = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Task:
    """One day to simulate. policy: a Policy, or RAMP."""

    scenario: str
    policy: str
    seed: int
    folder: Path


@dataclass(frozen=True, slots=True)
class Day:
    """What came of it. net, lost: core-hours. above: periods above an upper level by what jobs did, of `periods`."""

    scenario: str
    policy: str
    seed: int
    net: float
    lost: float
    above: int
    periods: int


def run() -> list[Figure]:
    """The figures."""
    folder = traces()
    policies = (Policy.OURS, Policy.YOUNGEST, Policy.ORACLE, RAMP)
    tasks = [Task(name, policy, seed, folder) for name in SCENARIOS for policy in policies for seed in SEEDS]
    late = stale_percent(Rules(), interval=15.0, late=(65.0, 80.0))
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        return [_figure("loop.stale_percent", late, "%", "<= 0"), *figures_of(pool.map(play, tasks))]


def play(task: Task) -> Day:
    """Simulate a day."""
    ramps = task.policy == RAMP
    habits = RAMPING if ramps else Habits()
    scenario = scenario_of(task.scenario, task.folder, seed=task.seed, demand_share=DEMAND_SHARE, habits=habits)
    policy = Policy.OURS if ramps else Policy(task.policy)
    found = figures(simulate(scenario, Settings(), policy, task.seed))
    above = found.above_upper - found.above_upper_ordinary
    return Day(task.scenario, task.policy, task.seed, found.progress, found.lost, above, found.periods)


def figures_of(days: Iterable[Day]) -> list[Figure]:
    """The figures of all days, by scenario in their order."""
    found: dict[str, dict[str, list[Day]]] = defaultdict(lambda: defaultdict(list))
    for day in days:
        found[day.scenario][day.policy].append(day)
    return [figure for name, by_policy in found.items() for figure in _of_scenario(name, by_policy)]


def _of_scenario(name: str, by_policy: dict[str, list[Day]]) -> list[Figure]:
    ours, youngest, oracle = (by_policy[policy] for policy in (Policy.OURS, Policy.YOUNGEST, Policy.ORACLE))
    periods = sum(day.periods for day in ours)
    return [
        *_compared(f"loop.{name}.net_ratio_to_youngest_first", ours, youngest, "net", ">= 1.05"),
        *_compared(f"loop.{name}.net_ratio_at_most", oracle, youngest, "net"),
        *_compared(f"loop.{name}.lost_ratio_to_youngest_first", ours, youngest, "lost", "<= 0.5"),
        *_compared(f"loop.{name}.net_over_oracle", ours, oracle, "net", ">= 0.9"),
        _figure(f"loop.{name}.periods_above_upper_percent", 100 * sum(d.above for d in ours) / periods, "%", "<= 0.5"),
        _figure(f"loop.{name}.net", sum(day.net for day in ours) / len(ours), "core-h"),
        _figure(f"loop.{name}.lost", sum(day.lost for day in ours) / len(ours), "core-h"),
        _figure(f"loop.{name}.lost_youngest_first", sum(day.lost for day in youngest) / len(youngest), "core-h"),
        *_compared(f"loop.ramp.{name}.net_ratio", by_policy[RAMP], ours, "net", ">= 0.98"),
    ]


def _compared(name: str, days: list[Day], others: list[Day], what: str, goal: str | None = None) -> list[Figure]:
    """The ratio of sums and the spread of the single ratios; nothing where there is next to nothing to compare to."""
    values = [getattr(day, what) for day in days]
    beside = [getattr(day, what) for day in others]
    if min(beside) < LEAST_LOST:
        return []
    ratios = [value / other for value, other in zip(values, beside, strict=True)]
    return [
        _figure(name, sum(values) / sum(beside), "ratio", goal),
        _figure(f"{name}.spread", max(ratios) - min(ratios), "ratio"),
    ]


def _figure(name: str, value: float, unit: str, goal: str | None = None) -> Figure:
    return {"name": name, "value": round(value, 4), "unit": unit, "goal": goal}
