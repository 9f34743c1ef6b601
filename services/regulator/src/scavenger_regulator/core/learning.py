"""What periods teach about the regular load: a history for each scope and resource, and what it says.

Of a pool there are two: of the load, and of what is used, in percent of the nodes that there are now. Where nodes
come and the use stays, the load jumps; where an autoscaler answers the load, the use does. Neither is unrest, so the
one that moved less counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from scavenger_regulator.core.history import DEFAULT_BUCKETS, NODE_BUCKETS, Figures, Histories, History
from scavenger_regulator.core.scope import ScopeDecision
from scavenger_regulator.core.snapshot import of_pool

USED: Final = "used-"
"""The history of what is used of a resource has its name with this before it."""


def learn(histories: dict[str, dict[str, History]], scopes: Mapping[str, ScopeDecision], window: float) -> None:
    """Take the regular load of a period into the histories. window: seconds. Nodes have fewer buckets than
    pools."""
    for scope, decided in scopes.items():
        reading = decided.reading
        if reading is None or reading.ordinary is None:
            continue
        known = histories.setdefault(scope, {})
        buckets = DEFAULT_BUCKETS if of_pool(scope) else NODE_BUCKETS
        for resource, ordinary in reading.ordinary.items():
            load = known.setdefault(resource, History(window, buckets))
            load.add(reading.sampled_at[resource], ordinary)
            if of_pool(scope):
                used = known.setdefault(USED + resource, History(window, buckets))
                used.measure_by(reading.whole[resource])
                used.add(reading.sampled_at[resource], ordinary)


def learned(histories: Histories) -> dict[str, Mapping[str, Figures]]:
    """Scope → resource → mean and deviation of the regular load, where there is a sample."""
    return {scope: _learned(one) for scope, one in histories.items()}


def _learned(histories: Mapping[str, History]) -> dict[str, Figures]:
    found = {}
    for resource in (name for name in histories if not name.startswith(USED)):
        load, used = (one.figures if (one := histories.get(name)) else None for name in (resource, USED + resource))
        if load is not None:
            calmer = used is not None and used.samples >= load.samples and used.stdev < load.stdev
            found[resource] = used if used is not None and calmer else load
    return found
