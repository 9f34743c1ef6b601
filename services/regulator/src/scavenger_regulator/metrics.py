"""What the regulator shows on /metrics, beside what the runtime shows of informers and requests."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final

from scavenger_api.evictions import EvictionReason
from scavenger_api.levels import LevelsState
from scavenger_api.levels_text import DEFAULT_POOL
from scavenger_runtime.metrics import counter, gauge, histogram, unit_of

from scavenger_regulator.core.metrics.metric import RESOURCES
from scavenger_regulator.core.plan import Decision
from scavenger_regulator.core.reclaimed.offer import Offer, Use
from scavenger_regulator.core.scope import ScopeDecision
from scavenger_regulator.core.snapshot import POOL, RECLAIMED_UNIT, Snapshot, of_pool
from scavenger_regulator.evictions import EvictionOutcome

LOAD: Final = gauge("regulator_load_ratio", "Use divided by allocatable.", ("scope", "resource", "pool"))
ORDINARY: Final = gauge(
    "regulator_ordinary_load_ratio",
    "The same without scavenger pods; NaN where it is not known.",
    ("scope", "resource", "pool"),
)
LEVEL: Final = gauge("regulator_level_ratio", "The levels.", ("scope", "resource", "level", "pool"))
STATE: Final = gauge("regulator_state", "1 for the state that a pool is in.", ("state", "pool"))
PERCENTAGE: Final = gauge(
    "regulator_preemptible_ratio", "Share of the running jobs, as published; NaN while Blind.", ("pool",)
)
ADMIT: Final = gauge("regulator_admit", "1 while anything new may start.", ("pool",))
OBSERVED: Final = gauge(
    "regulator_observation_timestamp_seconds", "Unix time of the oldest sample used; NaN while Blind.", ("pool",)
)
KEPT: Final = gauge(
    "regulator_kept_ratio",
    "Part of what the nodes can allocate that jobs leave free for regular pods, by the hour of the day.",
    ("resource", "pool"),
)
SHORT: Final = gauge(
    "regulator_short_ratio", "Load that stays too high, as no job is left to evict.", ("resource", "pool")
)
EVICTIONS: Final = counter("regulator_evictions", "Jobs by reason and what became of it.", ("reason", "outcome"))
OFFERED: Final = gauge("regulator_reclaimed_offered", "Offered by all nodes, in cores and bytes.", ("resource", "unit"))
IDLE: Final = gauge(
    "regulator_reclaimed_idle",
    "Under the admission threshold and neither used by regular pods nor set aside for jobs, in cores and bytes.",
    ("resource", "unit"),
)
HARVESTED: Final = gauge(
    "regulator_reclaimed_harvested", "Used by pods on reclaimed capacity, in cores and bytes.", ("resource", "unit")
)
QUEUE_USED: Final = gauge(
    "regulator_queue_used",
    "Used by the scavenger pods of a queue that have a figure, in cores and bytes.",
    ("queue", "resource", "unit"),
)
QUEUE_REQUESTED: Final = gauge(
    "regulator_queue_requested",
    "Requested by these pods, in cores and bytes: what they are known to use is a part of it.",
    ("queue", "resource", "unit"),
)
MEASUREMENTS: Final = counter("regulator_measurements", "Measurements by source and outcome.", ("source", "outcome"))
PERIOD_SECONDS: Final = histogram("regulator_period_seconds", "Everything done in one period.")

LEVELS: Final = ("lower", "admission", "upper")

PERCENT: Final = 100.0
"""The decisions are in percent, metrics in ratios."""


def begin() -> None:
    """Show the counters of evictions from 0 on: what is first seen at 1 has not risen, as Prometheus counts."""
    for reason in EvictionReason:
        for outcome in EvictionOutcome:
            EVICTIONS.labels(reason.value, outcome.value)


def show(decision: Decision) -> None:
    """Bring the gauges to what was decided."""
    for decided in decision.scopes.values():
        _show_scope(decided)
    for decided in decision.pools.values():
        _show_pool(decided)


def _labels(scope: str) -> tuple[str, str]:
    """The labels `scope` and `pool`: of the default pool, of another one, and of a node, which is in some pool."""
    if of_pool(scope):
        return "cluster", scope.removeprefix(POOL) or DEFAULT_POOL
    return scope, ""


def _show_pool(decided: ScopeDecision) -> None:
    _, pool = _labels(decided.scope)
    for state in LevelsState:
        STATE.labels(state.value, pool).set(state is decided.state)
    PERCENTAGE.labels(pool).set(math.nan if decided.percentage is None else decided.percentage / PERCENT)
    ADMIT.labels(pool).set(decided.admit)
    OBSERVED.labels(pool).set(decided.reading.observed_at.timestamp() if decided.reading else math.nan)
    for resource in decided.levels or RESOURCES:
        short = decided.plan.short.get(resource, 0.0) if decided.plan else 0.0
        SHORT.labels(resource, pool).set(short / PERCENT)
        KEPT.labels(resource, pool).set(decided.kept.get(resource, 0.0) / PERCENT)


def _show_scope(decided: ScopeDecision) -> None:
    scope, pool = _labels(decided.scope)
    reading = decided.reading
    for resource in decided.levels or RESOURCES:
        LOAD.labels(scope, resource, pool).set(reading.load.get(resource, math.nan) / PERCENT if reading else math.nan)
        ordinary = reading.ordinary if reading else None
        known = ordinary.get(resource) if ordinary else None
        ORDINARY.labels(scope, resource, pool).set(math.nan if known is None else known / PERCENT)
        levels = decided.levels.get(resource)
        for level in LEVELS:
            LEVEL.labels(scope, resource, level, pool).set(getattr(levels, level) / PERCENT if levels else math.nan)


def show_offers(offers: Iterable[Offer], uses: Iterable[Use]) -> None:
    """Bring the gauges of reclaimed capacity to what was decided."""
    offers, uses = list(offers), list(uses)
    for resource in RESOURCES:
        unit = unit_of(resource)
        OFFERED.labels(resource, unit).set(sum(one.amounts[resource] for one in offers) * RECLAIMED_UNIT[resource])
        IDLE.labels(resource, unit).set(sum(one.idle[resource] for one in offers if one.idle is not None))
        HARVESTED.labels(resource, unit).set(sum(use.scavenged[resource] for use in uses))


def show_use(snapshot: Snapshot, queue_of: Callable[[str], str | None]) -> None:
    """Bring the gauges of use by queue to what was measured. queue_of: the queue of a job; None where it is gone."""
    used: defaultdict[tuple[str, str], float] = defaultdict(float)
    requested: defaultdict[tuple[str, str], float] = defaultdict(float)
    for gang in snapshot.gangs:
        queue = queue_of(gang.key)
        if queue is None:
            continue
        for pod in gang.pods:
            for resource, figure in snapshot.measurement.of(pod).items():
                if resource not in RESOURCES:
                    continue
                used[queue, resource] += figure.value
                requested[queue, resource] += pod.requests.get(resource, 0.0)
    for metric, sums in ((QUEUE_USED, used), (QUEUE_REQUESTED, requested)):
        metric.clear()
        for (queue, resource), amount in sums.items():
            metric.labels(queue, resource, unit_of(resource)).set(amount)


def forget_scope(scope: str, levels: Iterable[str]) -> None:
    """A node or a pool that is gone is shown no more. levels: metrics that it had levels of."""
    where, pool = _labels(scope)
    gone: list[tuple[Any, tuple[str, ...]]] = []
    for resource in {*RESOURCES, *levels}:
        gone += [(LOAD, (where, resource, pool)), (ORDINARY, (where, resource, pool))]
        gone += [(LEVEL, (where, resource, level, pool)) for level in LEVELS]
        gone += [(metric, (resource, pool)) for metric in (SHORT, KEPT)] if pool else []
    if pool:
        gone += [(STATE, (state.value, pool)) for state in LevelsState]
        gone += [(metric, (pool,)) for metric in (PERCENTAGE, ADMIT, OBSERVED)]
    for metric, labels in gone:
        with suppress(KeyError):
            metric.remove(*labels)
