"""Which namespaces have ordinary pods that may displace others from a node."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from scavenger_admitter.ordinary_waits import REMEMBERED, OrdinaryWaits
from scavenger_testing.builders import pod

from . import builders as b

NOW = b.at(0)


def ordinary(node: str = "", nominated: str = "") -> Any:
    return pod("web", namespace="a", node=node or None, nominated_node=nominated)


def test_a_pod_that_waits_may_displace_others_from_its_nominated_node_or_from_any() -> None:
    waits = OrdinaryWaits()
    waits.saw("a/web", ordinary(), NOW)
    assert waits.wanted("a", "n1", NOW)
    assert not waits.wanted("b", "n1", NOW)
    waits.saw("a/web", ordinary(nominated="n1"), NOW)
    assert waits.wanted("a", "n1", NOW)


def test_it_is_remembered_for_a_minute_where_it_was_bound_or_deleted() -> None:
    for last in (ordinary(node="n1"), None):
        waits = OrdinaryWaits()
        waits.saw("a/web", ordinary(nominated="n1"), NOW)
        waits.saw("a/web", last, NOW)
        assert waits.wanted("a", "n1", NOW)
        assert not waits.wanted("a", "n2", NOW)
        assert not waits.wanted("a", "n1", NOW + REMEMBERED + timedelta(seconds=1))
        assert not waits.wanted("a", "n1", NOW - timedelta(hours=1)), "nor for longer where the clock was set back"
