"""What a load may be measured of, and what follows from what each metric says of itself."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from scavenger_regulator.core.levels import ThrottleLines, WaterLevels

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
        throttle: whether the CPU of jobs is shrunk for it while it is too high, and given back while it is low.
        evict: whether jobs are evicted for it, or yield.
        averaged: figures are averages over some seconds, so one of them may be of a burst that is over.
        gives_way: the kernel takes it from pods on reclaimed capacity as soon as others want it, so that no job has to
            leave for it.
        levels: of its own, percent; None: they follow the history, as those of CPU and memory do.
        lines: from where to where jobs are throttled for it; None: between its admission and eviction thresholds.
        sort: victims are ordered by a figure of its own (`SORT`), and not by what they would lose.
    """

    name: str
    priority: int
    sortable: bool = True
    throttle: Action = Action.NEVER
    evict: Action = Action.QUANTIFIED
    averaged: bool = False
    gives_way: bool = False
    levels: WaterLevels | None = None
    lines: ThrottleLines | None = None
    sort: bool = False


SORT: Final = "sort/"
"""Before the name of a metric: the figure of a pod by which victims are ordered for it. No metric has a slash."""


CPU: Final = Metric(
    name="cpu",
    priority=5,
    throttle=Action.QUANTIFIED,
    averaged=True,
    gives_way=True,
)
"""In cores. Where they run short, all pods are slow."""

MEMORY: Final = Metric(name="memory", priority=10)
"""In bytes. Where they run short, pods are killed, so it is more urgent than CPU."""

BUILT_IN: Final = (CPU, MEMORY)
"""They are measured everywhere: nodes and pods that lack a figure of one of them are not measured."""

RESOURCES: Final = tuple([metric.name for metric in BUILT_IN])
"""Their names."""

AVERAGED: Final = frozenset(metric.name for metric in BUILT_IN if metric.averaged)

GIVES_WAY: Final = frozenset(metric.name for metric in BUILT_IN if metric.gives_way)

HELD: Final = tuple([name for name in RESOURCES if name not in GIVES_WAY])
"""What a pod on reclaimed capacity gives back only by leaving."""


def averaged(added: Iterable[Metric]) -> frozenset[str]:
    """The names of those whose figures are averages, of all that there are. added: beside those measured everywhere."""
    return AVERAGED | {metric.name for metric in added if metric.averaged}


def that_evict(added: Iterable[Metric], action: Action) -> frozenset[str]:
    """The names of those for which jobs are evicted in this way."""
    return frozenset(metric.name for metric in (*BUILT_IN, *added) if metric.evict is action)


def that_throttle(added: Iterable[Metric]) -> tuple[Metric, ...]:
    """Those for which jobs are throttled, the most urgent first."""
    metrics = [metric for metric in (*BUILT_IN, *added) if metric.throttle is not Action.NEVER]
    return tuple(sorted(metrics, key=_urgency))


def by_urgency(metrics: Iterable[Metric]) -> tuple[str, ...]:
    """Their names, the most urgent first; among equals by name."""
    return tuple(metric.name for metric in sorted(metrics, key=_urgency))


def _urgency(metric: Metric) -> tuple[int, str]:
    return -metric.priority, metric.name
