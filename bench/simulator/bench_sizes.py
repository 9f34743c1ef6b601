"""Big and small nodes: what levels of single nodes, and a policy for the small ones, change.

Days of PlanetLab in the simulator: 50 machines and more as regular pods on nodes of 8, 16 and 32 cores, three seeds, as
much work in line as there is CPU. Three ways: the load of the cluster alone; levels of each node (`perNode`); and with
these a policy that keeps nodes of 8 cores ten points lower (`levelPolicies`).

- loop.sizes.WAY.full_small_percent: of the periods of nodes of 8 cores, those without idle CPU.
- loop.sizes.WAY.full_others_percent: of the other nodes.
- loop.sizes.WAY.work_ratio: work done and safe ÷ the first way.
- loop.sizes.WAY.lost_ratio: core-hours lost ÷ the first way.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from scavenger_simulator.objects import INSTANCE_TYPE, labels_of
from scavenger_simulator.policy import Policy
from scavenger_simulator.settings import Settings
from scavenger_simulator.simulation import simulate

from bench.simulator.bench_loop import DEMAND_SHARE, SEEDS
from bench.traces.catalog import scenario_of, traces

DAYS: Final = ("planetlab-20110303", "planetlab-20110322")
SMALL: Final = "8x32Gi"
KEPT_LOWER: Final = [
    {
        "name": "small",
        "nodeSelector": {INSTANCE_TYPE: SMALL},
        "levels": {"cpu": {"lower": 60, "admission": 70, "upper": 75}},
    }
]
"""The first levels of a regulator are 70, 80 and 85."""
WAYS: Final[dict[str, dict[str, Any]]] = {
    "cluster": {},
    "per_node": {"per_node": True},
    "policy": {"per_node": True, "level_policies": json.dumps(KEPT_LOWER)},
}
FIRST: Final = "cluster"

Figure = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Task:
    """One day to simulate."""

    day: str
    way: str
    seed: int
    folder: Path


@dataclass(frozen=True, slots=True)
class Day:
    """What came of it.

    Attributes:
        way: of WAYS.
        work: core-hours done and safe.
        lost: core-hours.
        full: periods of small nodes, and of others, without idle CPU.
        periods: of small nodes, and of others.
    """

    way: str
    work: float
    lost: float
    full: tuple[int, int]
    periods: tuple[int, int]


def run() -> list[Figure]:
    """The figures."""
    folder = traces()
    tasks = [Task(day, way, seed, folder) for day in DAYS for way in WAYS for seed in SEEDS]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        return figures_of(pool.map(play, tasks))


def play(task: Task) -> Day:
    """Simulate a day."""
    scenario = scenario_of(task.day, task.folder, seed=task.seed, demand_share=DEMAND_SHARE)
    totals = simulate(scenario, Settings.of(**WAYS[task.way]), Policy.OURS, task.seed).totals
    small = sum(labels_of(node)[INSTANCE_TYPE] == SMALL for node in scenario.nodes)
    full = totals.full_nodes.get(SMALL, 0)
    others = sum(totals.full_nodes.values()) - full
    periods = small * totals.periods, (len(scenario.nodes) - small) * totals.periods
    return Day(task.way, totals.progress, totals.lost, (full, others), periods)


def figures_of(days: Iterable[Day]) -> list[Figure]:
    """The figures of all days, by way."""
    found: dict[str, list[Day]] = {way: [] for way in WAYS}
    for day in days:
        found[day.way].append(day)
    work, lost = _sums(found[FIRST])
    return [figure for way, ours in found.items() for figure in _of_way(f"loop.sizes.{way}", ours, work, lost)]


def _sums(days: Iterable[Day]) -> tuple[float, float]:
    ours = list(days)
    return sum(day.work for day in ours), sum(day.lost for day in ours)


def _of_way(name: str, days: list[Day], work: float, lost: float) -> list[Figure]:
    shares = [100 * sum(day.full[i] for day in days) / max(1, sum(day.periods[i] for day in days)) for i in (0, 1)]
    ours = _sums(days)
    return [
        _figure(f"{name}.full_small_percent", shares[0], "%"),
        _figure(f"{name}.full_others_percent", shares[1], "%"),
        _figure(f"{name}.work_ratio", ours[0] / work, "ratio"),
        _figure(f"{name}.lost_ratio", ours[1] / max(lost, 1e-9), "ratio"),
    ]


def _figure(name: str, value: float, unit: str) -> Figure:
    return {"name": name, "value": round(value, 4), "unit": unit, "goal": None}
