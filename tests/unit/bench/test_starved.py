"""A stream in which nobody should starve, and who counts as starved."""

from __future__ import annotations

import pytest
from scavenger_simulator.result import JobOutcome

from bench.simulator.bench_starved import LEVEL, NODE_CORES, bound, figures_of, stream, waits


def outcome(name: str, waited: float) -> JobOutcome:
    return JobOutcome(name, "default", 1, 1.0, 60.0, 0.0, None, None, 1, 0, waited, waited, 0.0, 0.0)


@pytest.mark.parametrize("seed", range(50))
def test_every_job_would_fit_beside_the_ordinary_pods_alone(seed: int) -> None:
    scenario = stream(seed)
    held = sum(pod.cpu_request_milli for pod in scenario.ordinary) / 1000
    free = sorted(
        NODE_CORES - sum(pod.cpu_request_milli for pod in scenario.ordinary if pod.name == f"web-{i}") // 1000
        for i in range(len(scenario.nodes))
    )
    for job in scenario.jobs:
        assert job.cores + held <= LEVEL * NODE_CORES * len(scenario.nodes)
        assert sum(cores * 1000 // job.cpu_milli for cores in free) >= job.pods


def test_the_bound_grows_with_every_large_job_beside_it() -> None:
    longest = bound(2)
    within = waits(1, 2, [outcome("a", longest), outcome("b", 1.0)])
    beyond = waits(2, 1, [outcome("a", longest), outcome("b", 1.0)])
    assert (within.starved, within.worst, within.passed) == ((), 1.0, 1)
    assert beyond.starved == ("a",)
    found = {figure["name"]: figure["value"] for figure in figures_of([within, beyond])}
    assert found["loop.starved"] == 1
    assert found["loop.starved.longest_wait_over_bound"] == round(longest / bound(1), 4)
    assert found["loop.starved.over_keep_turn_after"] == 2
    assert found["loop.starved.runs"] == 2
