"""How the services are set in a run: their own rules, as their own settings make them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, Self

from scavenger_admitter.core.admission.cycle.fair_share_preemption import PreemptionRules
from scavenger_admitter.core.admission.cycle.turns import PATIENCE
from scavenger_admitter.core.admission.units import SECOND
from scavenger_api.shared_settings import SharedSettings
from scavenger_prioritizer.core.snapshot import Rules as PrioritizerRules
from scavenger_regulator.core.history import DEFAULT_WINDOW
from scavenger_regulator.core.level_policies import NodeLevels
from scavenger_regulator.core.rules import Rules
from scavenger_regulator.settings import RegulatorSettings

NOT_SIMULATED: Final = {
    "throttle": "throttle",
    "dry_run": "dryRun",
    "reclaimed": "reclaimed",
    "added_metrics": "addedMetrics",
}
"""Options of the regulator that would change what is simulated, and their names in its chart."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What an administrator may set, and how fast the cluster is. Seconds, percent.

    regulator: reserve, floor, margin, period, cool-down, yielding, per node… level_policies: highest levels of nodes,
    where nodes have levels of their own. history_window: of the ordinary load.
    metrics_period: between two measurements of a node, which are averages over as long. metrics_age: how long before
    the regulator looks the last one was made. prioritizer_period: between two rounds; the service's is 10.
    admission_interval: least time between two admission cycles; the service's is 0.1. Longer ones of both make a long
    simulation shorter. keep_turn_after: a job waits so long before its turn is kept; 0: never. interrupted_first:
    the admitter's setting of that name. start_seconds: from
    admission until the pods run. non_preemptible_wait: after which an ordinary pod may displace what is not
    preemptible, at the latest. full_wait_from: unsaved work, for each core that the pod requests, from which it waits
    that long; for less it waits proportionally less; 0: it always waits that long. starved_after: a job that waited
    longer in one piece counts as starved.
    """

    regulator: Rules = field(default_factory=Rules)
    level_policies: tuple[NodeLevels, ...] = ()
    history_window: float = DEFAULT_WINDOW
    metrics_period: float = 15.0
    metrics_age: float = 5.0
    prioritizer: PrioritizerRules = field(default_factory=PrioritizerRules)
    prioritizer_period: float = 30.0
    preemption: PreemptionRules = field(default_factory=PreemptionRules)
    keep_turn_after: float = PATIENCE / SECOND
    interrupted_first: Literal["always", "short-runs", "least-served"] = "always"
    admission_interval: float = 5.0
    max_starts_per_cycle: int = 500
    count_candidate: bool = True
    start_seconds: float = 2.0
    non_preemptible_wait: float = 300.0
    full_wait_from: float = 0.0
    starved_after: float = 14_400.0

    @classmethod
    def of(cls, **options: Any) -> Self:
        """From options of the regulator by the names it has for them, such as reserve, period, floor or
        admission_margin, as it makes its rules of them. With the source prometheus figures are averages over
        prometheus_window, and half as old.

        Raises ValueError for a name it does not know, for what is not simulated, and where options contradict each
        other."""
        unknown = options.keys() - RegulatorSettings.model_fields.keys()
        if unknown:
            raise ValueError(f"the regulator has no option {min(unknown)!r}")
        for name, told in NOT_SIMULATED.items():
            if options.get(name):
                raise ValueError(f"{told} is not simulated: leave it out")
        # Not by its constructor: that reads the environment, and a simulation is to be the same everywhere.
        regulator = RegulatorSettings.model_construct(**options)
        regulator.check()
        shared = replace(SharedSettings(), **regulator.own_values())
        settings = cls(
            regulator=regulator.rules(shared),
            level_policies=regulator.policies,
            history_window=regulator.history_window,
        )
        if regulator.source == "requests":
            raise ValueError("source requests is not simulated: leave it out")
        if regulator.source == "prometheus":
            window = regulator.prometheus_window
            settings = settings.changed(metrics_period=window, metrics_age=window / 2)
        return settings

    def check(self) -> None:
        """Raises ValueError where every figure would be too old."""
        oldest = self.regulator.trust.max_age
        if self.metrics_age > oldest:
            raise ValueError(f"metricsAge is {self.metrics_age:g} s, and figures older than {oldest:g} s are none")

    def changed(self, **changes: Any) -> Self:
        """The same with some of its own fields changed."""
        return replace(self, **changes)
