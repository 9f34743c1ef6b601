"""What reclaimed capacity carries from one period to the next, and how a measurement is taken in. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from scavenger_regulator.core.load import Trust
from scavenger_regulator.core.reclaimed.node_memory import Trend, update_trends
from scavenger_regulator.core.reclaimed.offer import LastSample, Use, latest_samples, learn_profiles, ordinary_uses
from scavenger_regulator.core.reclaimed.profile import Profiles
from scavenger_regulator.core.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class ReclaimedState:
    """What is known of the nodes, by their names.

    profiles: the regular use of the recent past. uses: the regular use now, of the nodes that have a figure that can
    be believed. last_samples: when each node was measured last. trends: how its memory grows.
    """

    profiles: Profiles
    uses: Mapping[str, Use] = field(default_factory=dict)
    last_samples: Mapping[str, LastSample] = field(default_factory=dict)
    trends: Mapping[str, Trend] = field(default_factory=dict)


def observe(state: ReclaimedState, snapshot: Snapshot, trust: Trust) -> ReclaimedState:
    """The state with the present measurement taken in.

    The profiles learn in place: of thousands of nodes they are too large to be copied each period.
    """
    found = ordinary_uses(snapshot, trust)
    learn_profiles(state.profiles, snapshot, found)
    return ReclaimedState(
        profiles=state.profiles,
        uses=found,
        last_samples=latest_samples(state.last_samples, snapshot, found),
        trends=update_trends(state.trends, snapshot, trust),
    )
