"""CPU, in cores. Short of it everybody is slow."""

from __future__ import annotations

from typing import Final

from scavenger_regulator.core.metrics.metric import Action, Metric

CPU: Final = Metric(
    name="cpu",
    priority=5,
    throttle=Action.QUANTIFIED,
    restore=Action.QUANTIFIED,
    averaged=True,
    gives_way=True,
)
