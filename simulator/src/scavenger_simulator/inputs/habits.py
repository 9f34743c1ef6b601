"""How the programs in scavenger jobs behave: no public trace says, so it is set, drawn for each job, and said to be."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Final

from scavenger_simulator.inputs.distributions import Constant, Distribution, LogNormal, Uniform, chance, draw
from scavenger_simulator.scenario import RampUp, ScavengerDemand

LONGEST_INTERVAL: Final = 7 * 86_400.0
"""Seconds: what the API takes at most for interruptionAfter."""


@dataclass(frozen=True, slots=True)
class Habits:
    """Distributions over jobs. Seconds, but for shares from 0 to 1.

    interruption_after: what jobs state. reported: the share of jobs that report their checkpoints. checkpoint_every:
    between those of a job that does, at most what it states. checkpoint_cost, grace, restart: as ScavengerDemand
    has them. ramp_up: after a start, at `ramp_up_fraction` of its CPU. cpu, memory: of a pod without a figure of its
    own, millicores and bytes. cpu_use, memory_use: the share of its request that a pod uses.
    """

    interruption_after: Distribution = field(default=LogNormal(1800.0, 0.5))
    reported: float = 0.5
    checkpoint_every: Distribution = field(default=LogNormal(900.0, 0.5))
    checkpoint_cost: Distribution = field(default=Constant(5.0))
    ramp_up: Distribution = field(default=Constant(0.0))
    ramp_up_fraction: Distribution = field(default=Constant(1.0))
    grace: Distribution = field(default=Uniform(5.0, 30.0))
    restart: Distribution = field(default=Constant(60.0))
    cpu: Distribution = field(default=Constant(1000.0))
    memory: Distribution = field(default=Constant(2.0 * 1024**3))
    cpu_use: Distribution = field(default=Constant(1.0))
    memory_use: Distribution = field(default=Constant(0.8))

    def cores(self, seed: int, name: str) -> float:
        """CPU request of a pod that has no figure of its own."""
        return max(1, round(draw(self.cpu, seed, name, "cpu"))) / 1000

    def job(
        self, seed: int, name: str, submitted: float, work_seconds: float, *, cpu_milli: int = 0, **given: Any
    ) -> ScavengerDemand:
        """A job that states what is given, and for the rest behaves as drawn for its name.

        given: fields of ScavengerDemand; None for what the record leaves open.
        """
        said = {name: value for name, value in given.items() if value is not None}
        reports = chance(seed, name, "reports") < self.reported
        after = said.pop("interruption_after", None) or self._within(seed, name, "interruption_after")
        every = said.pop("checkpoint_every", None)
        if every is None and reports:
            every = self._within(seed, name, "checkpoint_every")
        drawn: dict[str, Any] = {
            "queue": "default",
            "pods": 1,
            "memory_bytes": max(1, round(draw(self.memory, seed, name, "memory"))),
            "checkpoint_cost": draw(self.checkpoint_cost, seed, name, "checkpoint_cost"),
            "grace_seconds": draw(self.grace, seed, name, "grace"),
            "restart_seconds": draw(self.restart, seed, name, "restart"),
            "ramp_up": RampUp(
                draw(self.ramp_up, seed, name, "ramp_up"),
                min(1.0, draw(self.ramp_up_fraction, seed, name, "ramp_up_fraction")),
            ),
            "usage": (
                min(1.0, draw(self.cpu_use, seed, name, "cpu_use")),
                min(1.0, draw(self.memory_use, seed, name, "memory_use")),
            ),
        }
        return ScavengerDemand(
            name=name,
            submitted=submitted,
            work_seconds=max(1.0, work_seconds),
            cpu_milli=cpu_milli or round(1000 * self.cores(seed, name)),
            interruption_after=after,
            checkpoint_every=None if every is None else min(every, after),
            **{**drawn, **said},
        )

    def _within(self, seed: int, name: str, what: str) -> float:
        return min(max(draw(getattr(self, what), seed, name, what), 1.0), LONGEST_INTERVAL)


HABITS: Final = tuple(habit.name for habit in fields(Habits) if habit.name != "reported")
"""What can be set to a distribution."""
