"""How long readers call the levels stale while the regulator works, by the regulator's own decisions: pure.

A cluster of nodes that are measured at an interval, each at another second of it, and one that is late. The regulator
decides once a period and publishes where that is worth a write; a reader looks every second.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from scavenger_api.levels import LevelsView, PublishedLevels, Visibility
from scavenger_regulator.core.plan import regulate
from scavenger_regulator.core.publication import worth_publishing
from scavenger_regulator.core.rules import Rules
from scavenger_regulator.core.snapshot import Figure, Measurement, NodeFacts, Snapshot
from scavenger_regulator.core.state import ScopeState

BEGIN: Final = datetime(2026, 1, 2, tzinfo=UTC)
ROOM: Final = {"cpu": 10.0, "memory": 100.0}
ARRIVES: Final = 3.0
"""Seconds from a measurement of a node until the regulator may see it."""


def stale_percent(
    rules: Rules, *, interval: float, nodes: int = 100, late: tuple[float, float] = (0.0, 0.0), seconds: int = 1800
) -> float:
    """Percent of the seconds after the first period in which a reader does not rely on the levels.

    Args:
        rules: of the regulator.
        interval: seconds between two measurements of a node.
        nodes: how many there are.
        late: the least and the most that one of them is behind, in seconds; it goes from one to the other and back.
        seconds: how long it is looked at.
    """
    facts = {f"n{i}": NodeFacts(f"n{i}", ROOM, ROOM, counts=True) for i in range(nodes)}
    states: dict[str, ScopeState] = {}
    published: PublishedLevels | None = None
    not_fresh = 0
    for second in range(seconds):
        now = BEGIN + timedelta(seconds=second)
        if second % round(rules.period) == 0:
            behind = late[0] + (late[1] - late[0]) * (second // round(rules.period) % 4) / 3
            measured = {
                f"n{i}": _figures(now, second, interval * i / nodes, interval, behind if i == 0 else 0.0)
                for i in range(nodes)
            }
            snapshot = Snapshot(now, BEGIN - timedelta(days=1), facts, (), Measurement(measured))
            decision = regulate(snapshot, states, rules)
            states = decision.states
            if worth_publishing(published, decision.published, now, rules.period):
                published = decision.published
        data = published.to_data() if published is not None else None
        not_fresh += LevelsView.of(data, now).visibility is not Visibility.FRESH
    return 100.0 * not_fresh / seconds


def _figures(now: datetime, second: int, phase: float, interval: float, behind: float) -> dict[str, Figure]:
    age = (second - ARRIVES - phase) % interval + ARRIVES
    at = now - timedelta(seconds=max(age, behind))
    return {resource: Figure(0.6 * room, at, min(interval, 15.0)) for resource, room in ROOM.items()}
