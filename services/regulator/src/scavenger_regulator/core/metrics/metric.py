"""What a load may be measured of, as data: what the decisions ask about it, and nothing that decides."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from scavenger_regulator.core.levels import WaterLevels

PRIORITIES = range(11)
"""Of metrics that are acted on: the highest is the most urgent."""


class Action(StrEnum):
    """Whether something is done about a metric that is too high, and whether it is known by how much that helps."""

    NEVER = "never"
    QUANTIFIED = "quantified"
    """Each pod counts with its own figure, so as many are chosen as are needed. Without a figure nothing is done."""
    UNQUANTIFIED = "unquantified"
    """Pods have no figures of it, so it is done to all that may be chosen."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric.

    Attributes:
        name: as levels and Prometheus metrics have it.
        priority: 0 to 10; where not all gaps can be closed together, the highest is acted on alone.
        sortable: whether victims may be ordered by what they use of it.
        throttle: whether containers are resized for it while it is too high.
        restore: whether they get back what they had while it is low.
        evict: whether jobs are evicted for it, or yield.
        averaged: figures are averages over some seconds, so one of them may be of a burst that is over.
        gives_way: the kernel takes it from pods on reclaimed capacity as soon as others want it, so that nobody has to
            leave for it.
        levels: of its own, percent; None: they follow the history, as those of CPU and memory do.
    """

    name: str
    priority: int
    sortable: bool = True
    throttle: Action = Action.NEVER
    restore: Action = Action.NEVER
    evict: Action = Action.QUANTIFIED
    averaged: bool = False
    gives_way: bool = False
    levels: WaterLevels | None = None
