"""What the regulator shows on /metrics, beside what the runtime shows of informers and requests."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from scavenger_api.evictions import EvictionReason
from scavenger_api.levels import LevelsState
from scavenger_runtime.metrics import counter, gauge, histogram, unit_of

from scavenger_regulator.core.eviction.plan import Outcome
from scavenger_regulator.core.history import Figures
from scavenger_regulator.core.plan import Decision
from scavenger_regulator.core.reclaimed.node_memory import NodeMemoryPlan
from scavenger_regulator.core.reclaimed.offer import Offer, Use
from scavenger_regulator.core.scope import ScopeDecision, Wait
from scavenger_regulator.core.snapshot import CLUSTER, RECLAIMED_UNIT, RESOURCES, Snapshot
from scavenger_regulator.evictions import EvictionOutcome

LOAD: Final = gauge("regulator_load_ratio", "Use divided by allocatable.", ("scope", "resource"))
ORDINARY: Final = gauge(
    "regulator_ordinary_load_ratio",
    "The same without scavenger pods; NaN where it is not known.",
    ("scope", "resource"),
)
LEVEL: Final = gauge("regulator_level_ratio", "The water levels.", ("scope", "resource", "level"))
MEAN: Final = gauge("regulator_ordinary_load_mean_ratio", "Mean over the window.", ("resource",))
STDEV: Final = gauge("regulator_ordinary_load_stdev_ratio", "Standard deviation over the window.", ("resource",))
SAMPLES: Final = gauge("regulator_history_samples", "Measurements within the window.", ("resource",))
STATE: Final = gauge("regulator_state", "1 for the state the regulator is in.", ("state",))
PERCENTAGE: Final = gauge("regulator_preemptible_ratio", "Share of the running jobs, as published; NaN while Blind.")
ADMIT: Final = gauge("regulator_admit", "1 while anything new may start.")
CLOSED_NODES: Final = gauge("regulator_closed_nodes", "Nodes at or above a level of their own.")
OBSERVED: Final = gauge(
    "regulator_observation_timestamp_seconds", "Unix time of the oldest sample used; NaN while Blind."
)
GAP: Final = gauge("regulator_gap_ratio", "Load that victims have to free.", ("resource",))
PENDING_RELEASE: Final = gauge("regulator_credit_ratio", "Load that is leaving already.", ("resource",))
SHORT: Final = gauge("regulator_short_ratio", "Load that stays too high, as nobody is left to evict.", ("resource",))
VICTIMS: Final = gauge("regulator_planned_victims", "Jobs that the last plan evicts.", ("reason",))
WAITING_FOR: Final = gauge("regulator_waiting_for_checkpoint", "Jobs that are not evicted yet, as a checkpoint is due.")
OUTCOME: Final = gauge("regulator_plan_outcome", "1 for what came of the last plan.", ("outcome",))
WAIT: Final = gauge("regulator_plan_wait", "1 for why no plan is made though the load is too high.", ("reason",))
EVICTIONS: Final = counter("regulator_evictions", "Jobs by reason and what became of it.", ("reason", "outcome"))
LOST: Final = counter("regulator_evicted_lost_cpu_seconds", "CPU time that evicted jobs had at risk.", ("reason",))
SHORTENED: Final = counter(
    "regulator_shortened_grace_periods", "Pods deleted with a longer grace period than their own.", ("outcome",)
)
RESIZES: Final = counter("regulator_resizes", "Containers throttled or given back their CPU.", ("direction", "outcome"))
OFFERED: Final = gauge("regulator_reclaimed_offered", "Offered by all nodes, in cores and bytes.", ("resource", "unit"))
OFFERING_NODES: Final = gauge("regulator_reclaimed_offering_nodes", "Nodes that offer some of it.", ("resource",))
SILENT_NODES: Final = gauge(
    "regulator_reclaimed_silent_nodes", "Nodes without a figure for so long that nothing new comes."
)
IDLE: Final = gauge(
    "regulator_reclaimed_idle",
    "Under the admission level and neither used by ordinary pods nor set aside for jobs, in cores and bytes.",
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
OFFERS: Final = counter("regulator_reclaimed_writes", "Writes of what nodes offer by outcome.", ("outcome",))
MEMORY_SHORT: Final = gauge(
    "regulator_node_memory_short_nodes", "Nodes above their upper level of memory where nobody is left who may go."
)
PUBLISHED: Final = counter("regulator_publications", "Writes of the levels by outcome.", ("outcome",))
SAVED: Final = counter("regulator_saves", "Writes of memory and history by outcome.", ("outcome",))
MEASUREMENTS: Final = counter("regulator_measurements", "Measurements by source and outcome.", ("source", "outcome"))
MEASURE_SECONDS: Final = histogram("regulator_measurement_seconds", "Asking the source.", ("source",))
DECISION_SECONDS: Final = histogram("regulator_decision_seconds", "Snapshot and decision of one period.")
PERIOD_SECONDS: Final = histogram("regulator_period_seconds", "Everything done in one period.")

LEVELS: Final = ("lower", "admission", "upper")

PERCENT: Final = 100.0
"""The decisions are in percent, metrics in ratios."""


def begin() -> None:
    """Show the counters of evictions from 0 on: what is first seen at 1 has not risen, as Prometheus counts."""
    for reason in EvictionReason:
        LOST.labels(reason.value)
        for outcome in EvictionOutcome:
            EVICTIONS.labels(reason.value, outcome.value)


def show(decision: Decision, history: Mapping[str, Figures]) -> None:
    """Bring the gauges to what was decided."""
    cluster = decision.scopes[CLUSTER]
    for decided in decision.scopes.values():
        _show_scope(decided)
    for resource in RESOURCES:
        figures = history.get(resource)
        MEAN.labels(resource).set(figures.mean / PERCENT if figures else math.nan)
        STDEV.labels(resource).set(figures.stdev / PERCENT if figures else math.nan)
        SAMPLES.labels(resource).set(figures.samples if figures else 0)
    for state in LevelsState:
        STATE.labels(state.value).set(state is cluster.state)
    PERCENTAGE.set(math.nan if cluster.percentage is None else cluster.percentage / PERCENT)
    ADMIT.set(cluster.admit)
    CLOSED_NODES.set(len(decision.published.closed_nodes))
    OBSERVED.set(cluster.reading.observed_at.timestamp() if cluster.reading else math.nan)
    _show_plans(decision)


def _show_scope(decided: ScopeDecision) -> None:
    scope = decided.scope or "cluster"
    reading = decided.reading
    for resource in RESOURCES:
        LOAD.labels(scope, resource).set(reading.load[resource] / PERCENT if reading else math.nan)
        ordinary = reading.ordinary if reading else None
        ORDINARY.labels(scope, resource).set(ordinary[resource] / PERCENT if ordinary else math.nan)
        levels = decided.levels.get(resource)
        for level in LEVELS:
            LEVEL.labels(scope, resource, level).set(getattr(levels, level) / PERCENT if levels else math.nan)


def _show_plans(decision: Decision) -> None:
    plans = [j.plan for j in decision.scopes.values() if j.plan is not None]
    cluster = decision.scopes[CLUSTER]
    for resource in RESOURCES:
        plan = cluster.plan
        GAP.labels(resource).set(plan.gaps.get(resource, 0.0) / PERCENT if plan else 0.0)
        PENDING_RELEASE.labels(resource).set(plan.pending_release.get(resource, 0.0) / PERCENT if plan else 0.0)
        SHORT.labels(resource).set(plan.short.get(resource, 0.0) / PERCENT if plan else 0.0)
    for outcome in Outcome:
        OUTCOME.labels(outcome.value).set(any(plan.outcome is outcome for plan in plans))
    for reason in Wait:
        WAIT.labels(reason.value).set(cluster.wait is reason)
    WAITING_FOR.set(sum(len(plan.held) for plan in plans))
    counts: dict[str, int] = {}
    for victim in decision.victims:
        counts[victim.reason.value] = counts.get(victim.reason.value, 0) + 1
    for reason_name in (EvictionReason.ABOVE_UPPER, EvictionReason.YIELD):
        VICTIMS.labels(reason_name.value).set(counts.get(reason_name.value, 0))


def show_offers(offers: Iterable[Offer], uses: Iterable[Use]) -> None:
    """Bring the gauges of reclaimed capacity to what was decided."""
    offers, uses = list(offers), list(uses)
    for resource in RESOURCES:
        unit = unit_of(resource)
        OFFERED.labels(resource, unit).set(sum(one.amounts[resource] for one in offers) * RECLAIMED_UNIT[resource])
        OFFERING_NODES.labels(resource).set(sum(one.amounts[resource] > 0 for one in offers))
        IDLE.labels(resource, unit).set(sum(one.idle[resource] for one in offers if one.idle is not None))
        HARVESTED.labels(resource, unit).set(sum(use.scavenged[resource] for use in uses))
    SILENT_NODES.set(sum(one.silent for one in offers))


def show_node_memory(plans: Iterable[NodeMemoryPlan]) -> None:
    """Bring the gauges of memory safety to what was decided."""
    plans = list(plans)
    MEMORY_SHORT.set(sum(plan.short > 0 for plan in plans))
    VICTIMS.labels(EvictionReason.NODE_MEMORY.value).set(sum(len(plan.victims) for plan in plans))


def show_use(snapshot: Snapshot, queue_of: Callable[[str], str | None]) -> None:
    """Bring the gauges of use by queue to what was measured. queue_of: the queue of a job; None where it is gone."""
    used: defaultdict[tuple[str, str], float] = defaultdict(float)
    requested: defaultdict[tuple[str, str], float] = defaultdict(float)
    for gang in snapshot.gangs:
        queue = queue_of(gang.key)
        if queue is None:
            continue
        for pod in gang.pods:
            for resource, figure in snapshot.measurement.pods.get(pod.key, {}).items():
                used[queue, resource] += figure.value
                requested[queue, resource] += pod.requests.get(resource, 0.0)
    for metric, sums in ((QUEUE_USED, used), (QUEUE_REQUESTED, requested)):
        metric.clear()
        for (queue, resource), amount in sums.items():
            metric.labels(queue, resource, unit_of(resource)).set(amount)


def forget_scope(scope: str) -> None:
    """A node that is gone is shown no more."""
    for resource in RESOURCES:
        for metric, labels in ((LOAD, ()), (ORDINARY, ()), *((LEVEL, (level,)) for level in LEVELS)):
            try:
                metric.remove(scope, resource, *labels)
            except KeyError:
                continue
