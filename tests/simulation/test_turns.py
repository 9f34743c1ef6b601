"""Jobs that are larger than their neighbours, under a stream of these: their turn is kept, and comes."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from scavenger_simulator.policy import Policy
from scavenger_simulator.scenario import NodeSpec, OrdinaryPod, ScavengerDemand, Scenario, steady
from scavenger_simulator.settings import Settings
from scavenger_simulator.simulation import simulate

from bench.simulator import bench_starved
from tests.unit.effort import examples

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


def stream(of_usable: float, hours: float, large: ScavengerDemand, number: int) -> Scenario:
    """Four nodes of 8 cores, and jobs of one core and ten minutes that come by chance, `of_usable` of what the level
    lets run."""
    rng = random.Random(number)
    nodes = tuple(NodeSpec(f"node-{i}", 8000, 64 * GIB) for i in range(4))
    rate = of_usable * 0.7 * 32 / 600.0
    jobs, at = [large], 0.0
    while (at := at + rng.expovariate(rate)) < hours * HOUR:
        jobs.append(job(f"small-{len(jobs)}", at, 1, 600.0))
    return Scenario("stream", nodes, (), tuple(jobs), end=hours * HOUR, seed=number)


def test_a_job_as_large_as_a_node_has_its_turn_under_a_stream_of_small_ones() -> None:
    """It waited for more than six hours of eight when no turn was kept."""
    result = simulate(stream(0.8, 4, job("large", HOUR, 8, 600.0), 1), SETTINGS, Policy.OURS, 1)
    (large,) = (one for one in result.jobs if one.name == "large")
    assert large.finished is not None
    assert large.longest_wait <= SETTINGS.keep_turn_after + 2 * (600.0 + 5 * SETTINGS.start_seconds)
    assert result.totals.lost == 0.0, "nobody is interrupted for it"


def disturbed(number: int) -> Scenario:
    """A stream like that, with larger jobs and gangs in it, and ordinary pods that take a core or more for a while: a
    job may be interrupted again and again."""
    rng = random.Random(number)
    seen = stream(rng.uniform(0.5, 0.8), 8, job("large", HOUR, 8, 1200.0), number)
    larger = [
        job(
            f"larger-{i}",
            rng.uniform(0, 4 * HOUR),
            rng.choice([2, 4, 6]),
            rng.uniform(600.0, 2400.0),
            rng.choice([1, 1, 2]),
        )
        for i in range(6)
    ]
    ordinary = []
    for i in range(60):
        at = rng.uniform(0, 8 * HOUR)
        cores = rng.choice([1, 2, 4])
        usage = steady(200 * cores, GIB)
        ordinary.append(OrdinaryPod(f"web-{i}", at, at + rng.uniform(60.0, 1200.0), 1000 * cores, GIB, usage))
    return replace(seen, jobs=(*seen.jobs, *larger), ordinary=tuple(ordinary))


@seed(1)
@settings(max_examples=examples(12))
@given(st.integers(0, 10**6))
@pytest.mark.long
def test_nobody_starves_who_fits(number: int) -> None:
    """Whatever is interrupted how often: nothing waits for four hours, and all that comes in the first half ends."""
    result = simulate(disturbed(number), SETTINGS, Policy.OURS, 1)
    assert [one.name for one in result.jobs if one.longest_wait > SETTINGS.starved_after] == []
    assert {one.name for one in result.jobs if one.submitted < 4 * HOUR and one.finished is None} == set()


def test_whoever_fits_starts_within_the_bound_of_the_documentation() -> None:
    """The first of the streams of which the benchmark simulates a thousand."""
    found = [bench_starved.play(number) for number in range(20)]
    assert [one for one in found if one.starved] == []
    assert sum(one.passed for one in found) > 20, "many wait until a turn is kept"
