"""Days made up at random: what holds of every policy, and where they differ."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from functools import lru_cache

import pytest
from scavenger_simulator.jobs import Job
from scavenger_simulator.policy import Policy
from scavenger_simulator.result import MomentKind, Point, RunResult
from scavenger_simulator.scenario import NodeSpec, OrdinaryPod, ScavengerDemand, Scenario, UsageTrace
from scavenger_simulator.settings import Settings
from scavenger_simulator.simulation import simulate
from scavenger_simulator.world import World

pytestmark = pytest.mark.xdist_group("policies")
"""Of one process: what one test has simulated, the others read as well."""

GIB = 1 << 30
HOURS = 3
STEP = 300.0
SETTINGS = Settings.of(history_min_samples=20).changed(admission_interval=15.0)
DECIDING = [policy for policy in Policy if policy not in (Policy.NONE, Policy.ORACLE)]


@lru_cache
def crowded(seed: int) -> Scenario:
    """Three hours of six nodes with more demand than room, and ordinary pods that come in waves."""
    rng = random.Random(seed)
    end = HOURS * 3600.0
    steps = round(end / STEP)
    ordinary = []
    for number in range(60):
        stays = number < 30
        arrives = 0.0 if stays else rng.choice([2500.0, 5000.0, 8000.0]) + rng.uniform(0, 120)
        leaves = math.inf if stays else arrives + rng.uniform(900, 2700)
        request = rng.choice([500, 1000, 2000])
        cpu = [round(request * rng.uniform(0.2, 0.9)) for _ in range(steps)]
        usage = UsageTrace(0.0, STEP, cpu, [GIB] * steps)
        ordinary.append(
            OrdinaryPod(f"web-{number}", arrives, leaves, request, 2 * GIB, usage, interactive=rng.random() < 0.1)
        )
    jobs = tuple(
        ScavengerDemand(
            name=f"job-{number}",
            queue=rng.choice(["default", "other"]),
            submitted=rng.uniform(0, 0.7 * end),
            pods=rng.choice([1, 1, 1, 2, 3]),
            cpu_milli=rng.choice([500, 1000, 2000]),
            memory_bytes=rng.choice([1, 2]) * GIB,
            work_seconds=rng.uniform(600, 5000),
            interruption_after=rng.choice([900.0, 1800.0]),
            checkpoint_every=rng.choice([None, 400.0]),
            checkpoint_cost=rng.choice([0.0, 5.0]),
            restart_seconds=rng.choice([0.0, 40.0]),
            grace_seconds=rng.choice([5.0, 30.0]),
        )
        for number in range(80)
    )
    nodes = tuple(NodeSpec(f"node-{i}", 8000 if i % 3 else 16_000, 64 * GIB) for i in range(6))
    return Scenario("crowded", nodes, tuple(ordinary), jobs, {"default": 2, "other": 1}, end=end, seed=seed)


@lru_cache
def run(policy: Policy, seed: int = 1) -> RunResult:
    return simulate(crowded(seed), SETTINGS, policy, 7)


@pytest.mark.parametrize("policy", DECIDING)
def test_what_jobs_held_was_kept_or_lost(policy: Policy) -> None:
    """Useful and lost are all that was given: from each start to its end, in core-seconds."""
    result = run(policy)
    cores = {job.name: job.cores for job in crowded(1).jobs}
    given = dict.fromkeys(cores, 0.0)
    running: dict[str, float] = {}
    for moment in result.moments:
        if moment.kind is MomentKind.STARTED:
            running[moment.job] = moment.at
        elif moment.job in running:
            given[moment.job] += (moment.at - running.pop(moment.job)) * cores[moment.job]
    for name, since in running.items():
        given[name] += (crowded(1).end - since) * cores[name]
    for job in result.jobs:
        assert job.useful + job.lost == pytest.approx(given[job.name], abs=1e-3), job.name
    totals = result.totals
    assert totals.harvested == pytest.approx(sum(given.values()) / 3600)
    assert totals.useful + totals.lost == pytest.approx(totals.harvested)
    assert totals.lost == pytest.approx(sum(moment.lost for moment in result.moments) / 3600)
    assert totals.progress <= totals.useful + 1e-6 or totals.lost > 0


@pytest.mark.parametrize("policy", DECIDING)
def test_the_oracle_does_at_least_as_much(policy: Policy) -> None:
    totals, most = run(policy).totals, run(Policy.ORACLE).totals
    assert totals.progress <= most.useful + totals.delayed_core_hours + 1e-6
    assert run(Policy.NONE).totals.progress == 0.0
    assert most.utilisation_without == pytest.approx(run(Policy.NONE).totals.utilisation_without, abs=1.0)


def test_no_node_is_ever_promised_more_than_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = 0

    class Watched(World):
        def place(self, job: Job) -> None:
            nonlocal looked
            super().place(job)
            looked += 1
            assert all(free >= 0 for column in self.cluster.free for free in column)

    monkeypatch.setattr("scavenger_simulator.simulation.World", Watched)
    result = simulate(crowded(2), SETTINGS, Policy.OURS, 1)
    assert looked >= result.totals.completed > 20


def test_the_same_run_gives_the_same_bytes() -> None:
    again = simulate(crowded(1), SETTINGS, Policy.RANDOM, 7)
    assert repr(again) == repr(run(Policy.RANDOM))
    assert repr(simulate(crowded(1), SETTINGS, Policy.RANDOM, 8)) != repr(run(Policy.RANDOM))


def test_policies_differ_where_they_should() -> None:
    ours, youngest = run(Policy.OURS).totals, run(Policy.YOUNGEST).totals
    assert ours.victims + ours.evictions + ours.yields > 5
    assert ours.lost < youngest.lost
    assert repr(run(Policy.YIELD).moments) == repr(run(Policy.OURS).moments)  # it is the default
    assert repr(run(Policy.CLUSTER_WIDE).moments) == repr(run(Policy.OURS).moments)
    assert run(Policy.NO_YIELD).totals.yields == youngest.yields == 0  # that others do: see tests/unit/simulator
    different = (Policy.OURS, Policy.PER_NODE, Policy.FIXED, Policy.YOUNGEST, Policy.RANDOM)
    seen = {policy: repr(run(policy).moments) for policy in different}
    assert len(set(seen.values())) == len(seen)
    fixed = {(point.cpu.lower, point.cpu.admission, point.cpu.upper) for point in run(Policy.FIXED).points}
    assert fixed == {(70.0, 80.0, 85.0)} == {_levels(run(Policy.LINEAR), i) for i in (0, -1)}


def _levels(result: RunResult, period: int) -> tuple[float, float, float]:
    cpu = result.points[period].cpu
    return cpu.lower, cpu.admission, cpu.upper


@pytest.mark.parametrize("policy", [Policy.OURS, Policy.FIXED, Policy.LINEAR])
def test_jobs_are_evicted_only_while_the_load_comes_down_from_the_upper_level(policy: Policy) -> None:
    result = run(policy)
    evicting = {point.at for point in result.points if point.state == "Evicting"}
    evicted = [moment.at for moment in result.moments if moment.kind is MomentKind.EVICTED]
    assert set(evicted) <= evicting
    for before, now in _pairs(result):
        if now.state == "Evicting" and before.state != "Evicting":
            # What is seen is half a minute old and an average: nearly at the upper level it was at some time since.
            loads = [(p.cpu.load - p.cpu.upper, p.memory.load - p.memory.upper) for p in (before, now)]
            assert max(max(pair) for pair in loads) > -5.0


def _pairs(result: RunResult) -> Iterator[tuple[Point, Point]]:
    return zip(result.points, result.points[1:], strict=False)


def test_progress_is_told() -> None:
    told: list[float] = []
    simulate(crowded(3), SETTINGS, Policy.NONE, 1, told.append)
    assert told[-1] == 1.0
    assert told == sorted(told)
