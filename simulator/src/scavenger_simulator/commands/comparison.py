"""Runs of a scenario under several policies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from scavenger_simulator.commands.progress import Progress
from scavenger_simulator.policy import Policy
from scavenger_simulator.report.figures import Study
from scavenger_simulator.result import RunResult
from scavenger_simulator.scenario import Scenario
from scavenger_simulator.settings import Settings

Simulate = Callable[[Scenario, Settings, Policy, int, Callable[[float], None] | None], RunResult]
"""simulation.simulate."""

COMPARED: Final = (
    Policy.OURS,
    Policy.NO_YIELD,
    Policy.PER_NODE,
    Policy.FIXED,
    Policy.LINEAR,
    Policy.YOUNGEST,
    Policy.NEWEST_ADMISSION,
    Policy.RANDOM,
    Policy.PLAIN,
    Policy.NONE,
    Policy.ORACLE,
)
"""Without those that are ours by another name while the settings are the defaults."""


def compare(
    scenario: Scenario,
    settings: Settings,
    policies: Sequence[Policy],
    simulate: Simulate,
    progress: Progress,
    changes: Mapping[str, Any] | None = None,
) -> Study:
    """A run for each policy. changes: what `settings` have other than the defaults, to be shown."""
    runs = []
    for number, policy in enumerate(policies, 1):
        progress.told(f"{scenario.name}: {policy.value} ({number} of {len(policies)})")
        runs.append(simulate(scenario, settings, policy, scenario.seed, progress.share))
    return Study(
        scenario=scenario.name,
        origin=scenario.origin,
        seed=scenario.seed,
        start=scenario.start,
        end=scenario.end,
        nodes=len(scenario.nodes),
        cores=sum(node.cpu_milli for node in scenario.nodes) / 1000,
        ordinary_pods=len(scenario.ordinary),
        jobs=len(scenario.jobs),
        demand=sum(job.cores * job.work_seconds for job in scenario.jobs) / 3600,
        settings=dict(changes or {}),
        starved_after=settings.starved_after,
        runs=tuple(runs),
    )
