"""What a margin between the admission level and the upper one is worth (docs/designs/0004): a model, not a cluster.

The regulator decides, everything else is simulated: 100 cores, an endless line of one-core jobs with a checkpoint every
30 minutes and a minute of start-up cost, an ordinary load of 40 % whose deviations fade over ten minutes, metrics that
are late and averaged. Useful core-hours with the default margin over those without one.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from scavenger_regulator.core.levels import apart, water_levels
from scavenger_regulator.core.rules import Rules

from tests.unit.regulator.builders import GIB
from tests.unit.regulator.simulation import CORES, Job, World

TICKS = 4 * 120
TICK_SECONDS = 30.0
FADES_IN = 600.0
MEAN = 40.0
RESERVE = 20.0
STARTUP = 60.0
CHECKPOINT = 1800.0
MOST_STARTS = 20
SEEDS = 2

Figure = dict[str, Any]


def run() -> list[Figure]:
    """The figures."""
    figures: list[Figure] = []
    for stdev in (1, 3, 6):
        bare, kept = _mean(stdev, 0.0), _mean(stdev, Rules().admission_margin)
        name = f"regulator.margin.stdev{stdev}"
        figures += [
            {"name": f"{name}.useful_ratio", "value": kept[1] / bare[1], "unit": "ratio", "goal": ">= 1"},
            {"name": f"{name}.lost_ratio", "value": kept[0] / bare[0], "unit": "ratio", "goal": None},
        ]
    return figures


def _mean(stdev: float, margin: float) -> tuple[float, float]:
    runs = [_simulate(seed, stdev, margin) for seed in range(SEEDS)]
    return sum(lost for lost, _ in runs) / SEEDS, sum(useful for _, useful in runs) / SEEDS


def _simulate(seed: int, stdev: float, margin: float) -> tuple[float, float]:
    """Core-hours lost and useful."""
    levels = apart(water_levels(MEAN, stdev, RESERVE), margin)
    world = World([], _ordinary(seed, stdev), Rules(min_samples=10**9, initial=levels, step=0))
    lost = used = 0.0
    judged = started = 0
    for _ in range(TICKS):
        published = world.tick().published
        lost += sum((at - job.started) % CHECKPOINT for at, job, _ in world.evictions[judged:])
        judged = len(world.evictions)
        load = published.load("cpu")
        if load is not None and published.admit:
            for _ in range(_room(world, load, levels.admission)):
                started += 1
                lost += STARTUP
                world.jobs.append(Job(f"j{started}", 1.0, 0.5 * GIB, started=world.clock))
        world.jobs = [job for job in world.jobs if job.gone_at is None or job.gone_at > world.clock - 120]
        used += TICK_SECONDS * sum(job.use(world.clock)[0] for job in world.jobs)
    return lost / 3600, (used - lost) / 3600


def _room(world: World, load: float, admission: float) -> int:
    """How many one-core jobs fit under the admission level; those the measurement has not seen count."""
    seen_until = world.clock - TICK_SECONDS - world.lag - world.window
    unseen = sum(job.cpu for job in world.jobs if job.started > seen_until and job.gone_at is None)
    count = 0
    while count < MOST_STARTS and load + 100 * (unseen + count + 1) / CORES < admission:
        count += 1
    return count


def _ordinary(seed: int, stdev: float) -> Callable[[float], tuple[float, float]]:
    rng, keep, now = random.Random(seed), 0.5 ** (TICK_SECONDS / FADES_IN), 0.0
    course = []
    for _ in range(TICKS + 10):
        course.append(min(100.0, max(0.0, MEAN + now)))
        now = keep * now + rng.gauss(0, stdev * (1 - keep * keep) ** 0.5)
    return lambda at: (course[max(0, min(len(course) - 1, int(at // TICK_SECONDS)))], 100 * GIB)
