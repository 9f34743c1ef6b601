"""Nobody waits for ever: streams of small jobs that come by chance, and jobs and gangs among them that are larger.

In the simulator, with regulator and prioritizer; ordinary pods hold a part of each node all the time. Every job would
fit if no other scavenger job ran, so docs/queues.md bounds its wait: `keepTurnAfter`, and twice the longest run for its
own turn and for each turn before it.

- loop.starved: jobs that waited for longer than that in one piece, of 1,000 seeded streams (BENCH_STARVED_RUNS).
- loop.starved.longest_wait_over_bound: the longest wait ÷ its bound.
- loop.starved.over_keep_turn_after: jobs that waited for longer than `keepTurnAfter`, so that the bound says something.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from scavenger_simulator.policy import Policy
from scavenger_simulator.result import JobOutcome
from scavenger_simulator.scenario import NodeSpec, OrdinaryPod, ScavengerDemand, Scenario, steady
from scavenger_simulator.settings import Settings
from scavenger_simulator.simulation import simulate

RUNS: Final = int(os.environ.get("BENCH_STARVED_RUNS", "1000"))
GIB: Final = 1 << 30
NODE_CORES: Final = 8
LEVEL: Final = 0.7
"""Of what nodes have, what every job fits under: the lower level while there is no history."""
PATIENCE: Final = 900.0
LONGEST: Final = 600.0
"""Seconds that a job computes at most."""
WARM_UP: Final = 900.0
"""Seconds in which the stream fills the nodes before a large job comes."""
SETTINGS: Final = Settings.of(history_min_samples=1_000_000).changed(keep_turn_after=PATIENCE, admission_interval=10.0)
SLACK: Final = SETTINGS.start_seconds + 2 * SETTINGS.admission_interval + SETTINGS.regulator.period
"""Of each run: until the pods run, and until levels and admission have seen that others ended."""

Figure = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Waits:
    """What came of a stream. starved: names of jobs. worst: the longest wait ÷ the bound. passed: jobs that waited for
    longer than PATIENCE."""

    seed: int
    starved: tuple[str, ...]
    worst: float
    passed: int


def run() -> list[Figure]:
    """The figures."""
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        return figures_of(pool.map(play, range(RUNS), chunksize=10))


def play(seed: int) -> Waits:
    """Simulate a stream."""
    scenario = stream(seed)
    large = sum(job.cores > 1 for job in scenario.jobs)
    return waits(seed, large, simulate(scenario, SETTINGS, Policy.OURS, seed).jobs)


def bound(large: int) -> float:
    """Seconds in which a job starts beside so many large ones, itself included."""
    return PATIENCE + 2 * (LONGEST + SLACK) * large


def waits(seed: int, large: int, jobs: Iterable[JobOutcome]) -> Waits:
    """How long the jobs of a stream waited. large: how many of them are larger than the others."""
    found = {job.name: job.longest_wait for job in jobs}
    most = bound(large)
    return Waits(
        seed,
        tuple(name for name, waited in found.items() if waited > most),
        max(found.values()) / most,
        sum(waited > PATIENCE for waited in found.values()),
    )


def stream(seed: int) -> Scenario:
    """Two to four nodes, on which small jobs request 60 to 100 % of what is left under the level, and one to three
    large jobs or gangs that come in the second quarter of an hour."""
    rng = random.Random(seed)
    held = [rng.choice([0, 0, 1, 2]) for _ in range(rng.randint(2, 4))]
    nodes = tuple(NodeSpec(f"node-{i}", NODE_CORES * 1000, 64 * GIB) for i in range(len(held)))
    usable = int(LEVEL * NODE_CORES * len(held) - sum(held))
    large = [_large(rng, f"large-{i}", held, usable) for i in range(rng.randint(1, 3))]
    end = 2 * WARM_UP + bound(len(large)) + LONGEST
    ordinary = tuple(
        OrdinaryPod(f"web-{i}", 0.0, end, cores * 1000, GIB, steady(cores * 1000, GIB))
        for i, cores in enumerate(held)
        if cores
    )
    rate = rng.uniform(0.6, 1.0) * usable / ((60.0 + LONGEST) / 2)
    jobs, at = large, 0.0
    while (at := at + rng.expovariate(rate)) < end:
        jobs.append(_job(rng, f"small-{len(jobs)}", at, 1, 1))
    return Scenario("stream", nodes, ordinary, tuple(jobs), end=end, seed=seed)


def _large(rng: random.Random, name: str, held: list[int], usable: int) -> ScavengerDemand:
    """A job of more than one core that fits beside the ordinary pods."""
    cores = rng.randint(2, min(usable, NODE_CORES - min(held)))
    most = min(usable // cores, sum((NODE_CORES - there) // cores for there in held))
    return _job(rng, name, rng.uniform(WARM_UP, 2 * WARM_UP), cores, rng.randint(1, most))


def _job(rng: random.Random, name: str, submitted: float, cores: int, pods: int) -> ScavengerDemand:
    work = rng.uniform(60.0, LONGEST)
    return ScavengerDemand(name, "default", submitted, pods, cores * 1000, GIB, work)


def figures_of(streams: Iterable[Waits]) -> list[Figure]:
    """The figures of all streams."""
    found = list(streams)
    starved = sum(len(one.starved) for one in found)
    return [
        {"name": "loop.starved", "value": starved, "unit": "jobs", "goal": "<= 0"},
        {
            "name": "loop.starved.longest_wait_over_bound",
            "value": round(max(one.worst for one in found), 4),
            "unit": "ratio",
            "goal": None,
        },
        {
            "name": "loop.starved.over_keep_turn_after",
            "value": sum(one.passed for one in found),
            "unit": "jobs",
            "goal": None,
        },
        {"name": "loop.starved.runs", "value": len(found), "unit": "streams", "goal": None},
    ]
