"""What is published of a decision, and when that is worth a write. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final

from scavenger_api.levels import LevelsState, PublishedLevels, ResourceLevels
from scavenger_api.levels_text import headroom_entry

from scavenger_regulator.core.eviction.plan import Outcome
from scavenger_regulator.core.history import Figures
from scavenger_regulator.core.rules import Rules
from scavenger_regulator.core.scope import ScopeDecision, Wait, cooldown_until

ABOVE_UPPER: Final = "above the eviction threshold"
COMING_DOWN: Final = "above the low watermark after evictions"

OUTCOME_MESSAGES: Final[Mapping[Outcome, str]] = {
    Outcome.NOBODY_LEFT: "nothing preemptible is left that would lower the load",
    Outcome.SHORT: "what is preemptible does not bring the load down to the low watermark",
    Outcome.NO_FIGURES: "no candidate has a figure to act by",
    Outcome.UNLABELLED: "waiting for jobs with little unsaved work to become preemptible",
    Outcome.WAITING: "waiting for checkpoints that are due",
}

WARNING_MESSAGES: Final = frozenset(
    f"{ABOVE_UPPER}: {OUTCOME_MESSAGES[outcome]}"
    for outcome in (Outcome.NOBODY_LEFT, Outcome.SHORT, Outcome.NO_FIGURES)
)
"""Messages of a regulator that cannot bring down a load above the eviction threshold."""

MIN_MOVE: Final = 0.5
"""Points by which a load, a level or the percentage must move to count as changed."""

USED_MOVED: Final = 5.0
"""Points by which the used part of requests must move to be worth a write: who goes is chosen by it, and rarely."""

HEADROOM_FELL: Final = 20
HEADROOM_ROSE: Final = 50
"""Thousandths by which the headroom of a node must move to be worth a write: sooner where it is less than what was
published, as a job might start in what is not there."""

MAX_HEADROOM_BYTES: Final = 400_000
"""A ConfigMap holds 1 MiB, and may list the closed and the crowded nodes beside it. 5,000 nodes with names of 60
characters are less."""


def published_levels(
    pool: ScopeDecision, now: datetime, history: Mapping[str, Figures], rules: Rules, source: str
) -> PublishedLevels:
    """The levels and the state of a pool as the other parts read them.

    Args:
        pool: what was decided of it.
        now: of the period.
        history: of its regular load, by resource.
        rules: of the administrator.
        source: where the load comes from.
    """
    if pool.reading is None:
        return PublishedLevels(LevelsState.BLIND, period_seconds=rules.period, message=pool.reason)
    return PublishedLevels(
        state=pool.state,
        preemptible_percentage=pool.percentage,
        admit=pool.admit,
        reserve=rules.reserve,
        observed_at=pool.reading.observed_at,
        averaged_since=pool.reading.since,
        period_seconds=rules.period,
        stale_after_seconds=rules.stale_after,
        resources={r: _resource(pool, r, history.get(r)) for r in pool.reading.load},
        message=_message(pool, now),
        source=source,
        until=cooldown_until(pool.next_state, now, rules),
    )


def with_pools(
    default: PublishedLevels,
    pools: Mapping[str, PublishedLevels],
    closed: frozenset[str],
    headroom: Mapping[str, tuple[int, int]],
) -> PublishedLevels:
    """All that is published. An older admitter reads no pools, so nodes of pools that are shut are closed.

    Args:
        default: the levels of the default pool.
        pools: those of others, by name. Jobs may start there while the default pool is Blind.
        closed: nodes at or above a level of their own, or of a pool that is shut.
        headroom: of the others, thousandths of CPU and memory by node.
    """
    if default.state is LevelsState.BLIND and not pools:
        return default
    return replace(default, pools=dict(pools), closed_nodes=closed, headroom=within_bounds(headroom))


def within_bounds(
    headroom: Mapping[str, tuple[int, int]], limit: int = MAX_HEADROOM_BYTES
) -> dict[str, tuple[int, int]]:
    """The headroom of as many nodes as the ConfigMap has bytes for. Those with the most are left out first: what is
    requested on them ends before it does, as a rule, and when it does not they are closed."""
    sizes = {node: len(headroom_entry(node, left)) + 1 for node, left in headroom.items()}
    if sum(sizes.values()) <= limit:
        return dict(headroom)
    kept, size = {}, 0
    for node in sorted(headroom, key=lambda node: (min(headroom[node]), node)):
        size += sizes[node]
        if size > limit:
            break
        kept[node] = headroom[node]
    return kept


def _resource(cluster: ScopeDecision, resource: str, figures: Figures | None) -> ResourceLevels:
    assert cluster.reading is not None
    levels = cluster.levels[resource]
    return ResourceLevels(
        load=cluster.reading.load[resource],
        lower=levels.lower,
        admission=levels.admission,
        upper=levels.upper,
        mean=figures.mean if figures else None,
        stdev=figures.stdev if figures else None,
        gives_way=cluster.reading.load[resource] - cluster.reading.firm[resource],
        ramping=cluster.reading.ramping[resource],
        used_of_requests=cluster.reading.used_of_requests.get(resource),
        kept=cluster.kept.get(resource, 0.0),
    )


def _message(cluster: ScopeDecision, now: datetime) -> str:
    """What an administrator who looks at the ConfigMap should know; the figures stand beside it already."""
    if cluster.plan is not None:
        said = OUTCOME_MESSAGES.get(cluster.plan.outcome)
        return f"{ABOVE_UPPER if _above_upper(cluster) else COMING_DOWN}: {said}" if said else ""
    if cluster.wait is Wait.SETTLING:
        return "waiting for evicted pods to show in the measurements"
    state = cluster.next_state
    if state.closed and state.cooldown_until is not None and state.cooldown_until <= now:
        resources = " and ".join(sorted(state.closed_for))
        return f"after evictions no job starts until {resources} is below lower, or below admission for a while"
    if cluster.unmeasured:
        return f"too few nodes have a figure of {' and '.join(cluster.unmeasured)}: nothing is decided by it"
    return ""


def _above_upper(cluster: ScopeDecision) -> bool:
    """Whether a resource that jobs are evicted for is still at its eviction threshold."""
    assert cluster.reading is not None
    load = cluster.reading.firm
    return any(load[r] >= cluster.levels[r].upper for r in cluster.next_state.evicting if r in load)


def worth_publishing(old: PublishedLevels | None, new: PublishedLevels, now: datetime, period: float) -> bool:
    """Whether to write: something changed, or what stands there would be getting stale by the next time.

    Half a period is left for the way there.
    """
    if old is None or _shape(old) != _shape(new):
        return True
    if any(abs(a - b) >= MIN_MOVE for a, b in zip(_numbers(old), _numbers(new), strict=True)):
        return True
    if _headroom_moved(old.headroom, new.headroom) or _used_moved(old, new):
        return True
    if any(worth_publishing(old.pools[name], pool, now, period) for name, pool in new.pools.items()):
        return True
    if new.observed_at is None or old.observed_at is None:
        return new.observed_at != old.observed_at
    age = (now - old.observed_at).total_seconds()
    return new.observed_at > old.observed_at and age + 1.5 * period > old.stale_after


def _headroom_moved(old: Mapping[str, tuple[int, int]], new: Mapping[str, tuple[int, int]]) -> bool:
    if old.keys() != new.keys():
        return True
    moves = (b - a for node, left in new.items() for a, b in zip(old[node], left, strict=True))
    return any(move <= -HEADROOM_FELL or move >= HEADROOM_ROSE for move in moves)


def _used_moved(old: PublishedLevels, new: PublishedLevels) -> bool:
    pairs = ((old.resources[r].used_of_requests, one.used_of_requests) for r, one in new.resources.items())
    return any(a is not None and b is not None and abs(a - b) >= USED_MOVED for a, b in pairs)


def _shape(levels: PublishedLevels) -> tuple[object, ...]:
    figures = {
        r: (one.mean is None, one.stdev is None, one.used_of_requests is None) for r, one in levels.resources.items()
    }
    return (
        levels.state,
        levels.admit,
        levels.reserve,
        levels.period_seconds,
        levels.closed_nodes,
        frozenset(levels.pools),
        frozenset(levels.crowded_nodes),
        levels.message,
        levels.source,
        levels.until,
        levels.preemptible_percentage is None,
        figures,
    )


def _numbers(levels: PublishedLevels) -> list[float]:
    numbers = [levels.preemptible_percentage or 0.0]
    for resource in sorted(levels.resources):
        one = levels.resources[resource]
        numbers += [one.load, one.lower, one.admission, one.upper, one.mean or 0.0, one.stdev or 0.0]
        numbers += [one.gives_way, one.ramping, one.kept]
    return numbers
