"""The metrics that there are, and what follows from what they say of themselves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from scavenger_regulator.core.metrics.cpu import CPU
from scavenger_regulator.core.metrics.memory import MEMORY
from scavenger_regulator.core.metrics.metric import Action, Metric

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


def by_urgency(metrics: Iterable[Metric]) -> tuple[str, ...]:
    """Their names, the most urgent first; among equals by name."""
    return tuple(metric.name for metric in sorted(metrics, key=lambda metric: (-metric.priority, metric.name)))
