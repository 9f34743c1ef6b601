"""What the metrics say of themselves, and what follows from it."""

from __future__ import annotations

import pytest
from scavenger_regulator.core.metrics.metric import (
    AVERAGED,
    BUILT_IN,
    GIVES_WAY,
    HELD,
    PRIORITIES,
    RESOURCES,
    Action,
    Metric,
    by_urgency,
)


@pytest.mark.parametrize(
    ("name", "throttle", "averaged", "gives_way"),
    [
        ("cpu", Action.QUANTIFIED, True, True),
        ("memory", Action.NEVER, False, False),
    ],
)
def test_what_is_measured_everywhere(name: str, throttle: Action, averaged: bool, gives_way: bool) -> None:
    (metric,) = (one for one in BUILT_IN if one.name == name)
    assert metric.throttle is throttle
    assert metric.evict is Action.QUANTIFIED
    assert metric.sortable
    assert metric.priority in PRIORITIES
    assert (name in AVERAGED, name in GIVES_WAY, name in HELD) == (averaged, gives_way, not gives_way)
    assert name in RESOURCES


def test_memory_is_more_urgent_than_cpu() -> None:
    assert by_urgency(BUILT_IN) == ("memory", "cpu")


def test_among_metrics_of_one_priority_the_name_decides() -> None:
    assert by_urgency([Metric("b", 1), Metric("c", 9), Metric("a", 1)]) == ("c", "a", "b")
