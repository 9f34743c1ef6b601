"""Jobs that are larger than their neighbours, under a stream of these: their turn is kept, and comes."""

from __future__ import annotations

import random

from scavenger_simulator.policy import Policy
from scavenger_simulator.scenario import NodeSpec, ScavengerDemand, Scenario
from scavenger_simulator.settings import Settings
from scavenger_simulator.simulation import simulate

GIB = 1 << 30
HOUR = 3600.0
SETTINGS = Settings.of(history_min_samples=1_000_000).changed(admission_interval=1.0)
"""The levels are 70, 80 and 85."""


def job(name: str, submitted: float, cores: float, work: float, pods: int = 1) -> ScavengerDemand:
    return ScavengerDemand(
        name=name,
        queue="default",
        submitted=submitted,
        pods=pods,
        cpu_milli=round(cores * 1000),
        memory_bytes=GIB,
        work_seconds=work,
        interruption_after=1800.0,
    )


def stream(of_usable: float, hours: float, large: ScavengerDemand, seed: int) -> Scenario:
    """Four nodes of 8 cores, and jobs of one core and ten minutes that come by chance, `of_usable` of what the level
    lets run."""
    rng = random.Random(seed)
    nodes = tuple(NodeSpec(f"node-{i}", 8000, 64 * GIB) for i in range(4))
    rate = of_usable * 0.7 * 32 / 600.0
    jobs, at = [large], 0.0
    while (at := at + rng.expovariate(rate)) < hours * HOUR:
        jobs.append(job(f"small-{len(jobs)}", at, 1, 600.0))
    return Scenario("stream", nodes, (), tuple(jobs), end=hours * HOUR, seed=seed)


def test_a_job_as_large_as_a_node_has_its_turn_under_a_stream_of_small_ones() -> None:
    """It waited for more than six hours of eight when no turn was kept."""
    result = simulate(stream(0.8, 4, job("large", HOUR, 8, 600.0), 1), SETTINGS, Policy.OURS, 1)
    (large,) = (one for one in result.jobs if one.name == "large")
    assert large.finished is not None
    assert large.longest_wait <= SETTINGS.keep_turn_after + 2 * (600.0 + 5 * SETTINGS.start_seconds)
    assert result.totals.lost == 0.0, "nobody is interrupted for it"
