"""Levels for each node, in virtual time: nodes are filled to their own level, and stay so."""

from __future__ import annotations

import math

from scavenger_simulator.policy import Policy
from scavenger_simulator.result import MomentKind, RunResult
from scavenger_simulator.scenario import NodeSpec, OrdinaryPod, ScavengerDemand, Scenario, UsageTrace
from scavenger_simulator.settings import Settings
from scavenger_simulator.simulation import simulate

GIB = 1 << 30
HOURS = 3
STEP = 300.0
SETTINGS = Settings.of(history_min_samples=1_000_000).changed(admission_interval=1.0)
"""The levels are 70, 80 and 85."""


def oscillating(phase: float) -> UsageTrace:
    """Up and down in an hour by four points of 20 cores, less than admission is below upper."""
    steps = round(HOURS * 3600 / STEP)
    cpu = [round(13_000 + 400 * math.sin(2 * math.pi * (i * STEP / 3600 + phase))) for i in range(steps)]
    return UsageTrace(0.0, STEP, cpu, [GIB] * steps)


def two_nodes() -> Scenario:
    """Two nodes of 20 cores. What runs on one of them uses a little more than it asks for, up and down; on the other
    one all is requested and nearly nothing used. Jobs of a quarter of a core wait without end."""
    pods = (
        OrdinaryPod("busy", 0.0, math.inf, 12_000, GIB, oscillating(0.0)),
        OrdinaryPod("idle", 1.0, math.inf, 20_000, GIB, UsageTrace(0.0, STEP, [500], [GIB])),
    )
    jobs = tuple(
        ScavengerDemand(
            name=f"job-{i}",
            queue="default",
            submitted=0.0,
            pods=1,
            cpu_milli=250,
            memory_bytes=GIB // 8,
            work_seconds=36_000.0,
            interruption_after=1800.0,
        )
        for i in range(100)
    )
    nodes = (NodeSpec("node-a", 20_000, 64 * GIB), NodeSpec("node-b", 20_000, 64 * GIB))
    return Scenario("two nodes", nodes, pods, jobs, end=HOURS * 3600.0)


def evictions(result: RunResult) -> int:
    return sum(moment.kind is MomentKind.EVICTED for moment in result.moments)


def test_a_node_is_not_filled_beyond_its_level_again_and_again() -> None:
    """As long as only crowded or not was published, it was filled by requests, evicted down to 70 %, and filled again:
    222 evictions in these three hours, and 3.2 core-hours of useful work."""
    result = simulate(two_nodes(), SETTINGS, Policy.PER_NODE, 1)
    assert evictions(result) == 0
    assert result.totals.useful > 9.0, "10.5 is all that there is under the level"
    assert result.totals.lost == 0.0
