"""What the preemptible percentage is a share of: jobs, their requests, or these with no job above the middle.

Made-up days with as much work in line as there is CPU, three seeds; and the same with an array of small tasks, which
have next to nothing at risk and so are the first of the order. *rush* is six hours of 20 nodes, on which 24 regular
pods of four cores come every twenty minutes and stay for ten. For each day and share, sums over the seeds:

- share.DAY.SHARE.lost: core-hours thrown away.
- share.DAY.SHARE.delayed_over_a_minute: regular pods that waited longer than that for a node.
- share.DAY.SHARE.delay_p99: of regular pods that found no node at once, seconds; the mean over the seeds.
- share.DAY.SHARE.progress: core-hours of work done and safe.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from random import Random
from typing import Any, Final

from scavenger_prioritizer.core.snapshot import ShareOf
from scavenger_simulator.inputs.catalog import build, named
from scavenger_simulator.inputs.distributions import LogNormal
from scavenger_simulator.inputs.habits import Habits
from scavenger_simulator.policy import Policy
from scavenger_simulator.report.figures import percentile
from scavenger_simulator.scenario import FOREVER, NodeSpec, OrdinaryPod, ScavengerDemand, Scenario, steady
from scavenger_simulator.settings import Settings
from scavenger_simulator.simulation import simulate

RUSH: Final = "rush"
DAYS: Final = (RUSH, "flash-crowd", "bursts")
SEEDS: Final = (1, 2, 3)
PODS: Final = int(os.environ.get("BENCH_SHARE_PODS", "1000"))
RUSH_NODES: Final = 20
RUSH_LENGTH: Final = 6 * 3600.0
GIB: Final = 1 << 30
TASKS: Final = 60
TASK_MILLI: Final = 10
MIXED: Final = Habits(cpu=LogNormal(2000.0, 1.0))
"""Jobs of two cores in the median, and up to thirty."""
LONG_DELAY: Final = 60.0

Task = tuple[str, ShareOf, int, bool]


def rush(seed: int) -> Scenario:
    """The day of that name."""
    dice = Random(seed)
    ordinary = [OrdinaryPod(f"web-{i}", 0.0, FOREVER, 4000, 8 * GIB, steady(2400, 4 * GIB)) for i in range(RUSH_NODES)]
    for begin in range(1800, round(RUSH_LENGTH), 1200):
        for number in range(24):
            at = begin + dice.uniform(0, 60)
            ordinary.append(OrdinaryPod(f"rush-{begin}-{number}", at, at + 600, 4000, 8 * GIB, steady(2000, 4 * GIB)))
    jobs: list[ScavengerDemand] = []
    work = 0.0
    while work < RUSH_LENGTH * 12 * RUSH_NODES:
        name, seconds = f"job-{len(jobs)}", dice.lognormvariate(8.3, 0.8)
        cpu = min(12_000, max(500, 500 * round(dice.lognormvariate(1.4, 0.9))))
        submitted = 0.0 if len(jobs) < 150 else dice.uniform(0, 0.8 * RUSH_LENGTH)
        jobs.append(MIXED.job(seed, name, submitted, seconds, cpu_milli=cpu, memory_bytes=GIB))
        work += seconds * cpu / 1000
    nodes = tuple(NodeSpec(f"node-{i:02d}", 16_000, 64 * GIB) for i in range(RUSH_NODES))
    return Scenario(RUSH, nodes, tuple(ordinary), tuple(jobs), end=RUSH_LENGTH, seed=seed, origin="bench")


def scenario(day: str, seed: int, *, small: bool) -> Scenario:
    """A day, with an array of small tasks that run all the time or without."""
    if day == RUSH:
        made = rush(seed)
    else:
        made = build(replace(named(day), seed=seed, pods=PODS, demand_share=1.0, habits=MIXED))
    if not small:
        return made
    tasks = tuple(
        ScavengerDemand(
            name=f"small-{number}",
            queue="default",
            submitted=0.0,
            pods=1,
            cpu_milli=TASK_MILLI,
            memory_bytes=1 << 26,
            work_seconds=made.end,
            array="small",
        )
        for number in range(TASKS)
    )
    return replace(made, jobs=(*tasks, *made.jobs))


def play(task: Task) -> dict[str, float]:
    """The figures of one day."""
    day, share_of, seed, small = task
    settings = Settings(admission_interval=15.0)
    settings = settings.changed(prioritizer=replace(settings.prioritizer, share_of=share_of))
    totals = simulate(scenario(day, seed, small=small), settings, Policy.OURS, seed).totals
    return {
        "lost": totals.lost,
        "progress": totals.progress,
        "delayed_over_a_minute": sum(delay > LONG_DELAY for delay in totals.delays),
        "delay_p99": percentile(totals.delays, 0.99) or 0.0,
        "preemptions": totals.victims,
    }


def run() -> Iterable[dict[str, Any]]:
    """The figures."""
    tasks = [(day, of, seed, small) for day in DAYS for small in (False, True) for of in ShareOf for seed in SEEDS]
    sums: dict[str, float] = {}
    with ProcessPoolExecutor(max_workers=os.cpu_count()) as pool:
        for (day, share_of, _, small), found in zip(tasks, pool.map(play, tasks), strict=True):
            for name, value in found.items():
                key = f"share.{day}{'-small' if small else ''}.{share_of}.{name}"
                sums[key] = sums.get(key, 0.0) + (value / len(SEEDS) if name == "delay_p99" else value)
    return [{"name": name, "value": round(value, 2), "unit": "", "goal": ""} for name, value in sums.items()]
