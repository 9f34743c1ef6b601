"""What periods teach about the ordinary load: a history for each scope and resource, and what it says."""

from __future__ import annotations

from collections.abc import Mapping

from scavenger_regulator.core.history import DEFAULT_BUCKETS, NODE_BUCKETS, Figures, Histories, History
from scavenger_regulator.core.plan import Decision
from scavenger_regulator.core.snapshot import CLUSTER, RESOURCES


def learn(histories: dict[str, dict[str, History]], decision: Decision, window: float) -> None:
    """Take the ordinary load of a period into the histories. window: seconds. Nodes have fewer buckets than the
    cluster."""
    for scope, decided in decision.scopes.items():
        reading = decided.reading
        if reading is None or reading.ordinary is None:
            continue
        known = histories.setdefault(scope, {})
        for resource in RESOURCES:
            if resource not in known:
                known[resource] = History(window, DEFAULT_BUCKETS if scope == CLUSTER else NODE_BUCKETS)
            known[resource].add(reading.observed_at, reading.ordinary[resource])


def learned(histories: Histories) -> dict[str, Mapping[str, Figures]]:
    """Scope → resource → mean and deviation of the ordinary load, where there is a sample."""
    return {
        scope: {resource: found for resource, history in one.items() if (found := history.figures) is not None}
        for scope, one in histories.items()
    }
