"""Precise eviction: which jobs have to go so that the load comes down to where it should be, and not one more.

    gap per resource -> victims that close all gaps at the least CPU time lost -> prune -> cap

Each victim is a whole gang and counts with its measured use of *all* resources. Beside what it loses it costs a
restart: what is freed beyond the gap has to be filled again, so of two plans that lose about the same the tighter one
wins. What is leaving already is subtracted before victims are chosen. A gang without a figure is never a victim:
evicting it might free nothing, and the next one would follow. A `Sorter` orders candidates; sorters compose, the first
that tells two candidates apart decides.

Only preemptible jobs go. But when the load jumps, the percentage that is published rises in the same period, and jobs
that are not preemptible yet will be in the next. So the first plan may be made over all running jobs: those of its
victims that are preemptible go, the others are awaited (docs/designs/0008-the-loop.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from scavenger_regulator.core.eviction.covering_knapsack import Solution, solve_covering_knapsack, solve_in_order
from scavenger_regulator.core.eviction.risk import Risk
from scavenger_regulator.core.metrics.metric import BUILT_IN, Action, Metric, by_urgency
from scavenger_regulator.core.snapshot import Gang

CLOSED: Final = 1e-6
"""Points of load: a gap this small is none."""

EQUAL: Final = 0.05
"""Costs that differ by no more than this part of the larger one are equal: of these the job goes first that uses more
than it requests of what is short."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A gang that could be evicted. frees: points of load by resource, at the least, where a pod of it has a figure.
    used_of_limit: the share of their CPU limits that its pods on reclaimed capacity use; 0 for others. promised: it
    goes only where the others do not close the gap. over_request: resources of which its pods use more than they
    request; those on reclaimed capacity request none."""

    gang: Gang
    risk: Risk
    frees: Mapping[str, float]
    preemptible: bool = True
    used_of_limit: float = 0.0
    promised: bool = False
    over_request: frozenset[str] = frozenset()
    sort: Mapping[str, float] = field(default_factory=dict)
    """By metric, the figure of its own by which victims are ordered for it: of its pods the largest."""

    @property
    def loss(self) -> float:
        """CPU time lost by evicting it now, in core-seconds."""
        return self.risk.cpu_seconds

    def restart(self, overshoot_cost: float) -> float:
        """What filling its capacity again costs, in core-seconds: `overshoot_cost` for each point that it frees, of the
        resource it frees most of. For all of them, as the part that the gap needs is the same in every plan."""
        return overshoot_cost * max(self.frees.values(), default=0.0)


def costs_of(
    candidates: Sequence[Candidate],
    resources: Sequence[str],
    overshoot_cost: float,
    loss: Callable[[Candidate], float] | None = None,
) -> list[float]:
    """What each of them costs in a plan, in core-seconds: one to whom a run is promised more than all others together,
    one above its request a little less than an equal one.

    Args:
        candidates: of one plan.
        resources: that are to come free.
        overshoot_cost: as in `EvictionSnapshot`.
        loss: of each; None: what it loses by going now.
    """
    costs = [
        ((c.loss if loss is None else loss(c)) + c.restart(overshoot_cost)) * (1.0 - EQUAL * _over(c, resources))
        for c in candidates
    ]
    more = 1.0 + sum(cost for c, cost in zip(candidates, costs, strict=True) if not c.promised)
    return [cost + more if c.promised else cost for c, cost in zip(candidates, costs, strict=True)]


def _over(candidate: Candidate, resources: Iterable[str]) -> bool:
    return not candidate.over_request.isdisjoint(resources)


def over_first(candidates: Iterable[Candidate], resources: Sequence[str]) -> list[Candidate]:
    """Those above their request of these resources before the others: the solver takes the first of equal ones."""
    return sorted(candidates, key=lambda candidate: not _over(candidate, resources))


# --- sorters ------------------------------------------------------------------------------------------------

Key = Any
"""Anything that can be compared with another of its sorter."""

Sorter = Callable[[Candidate], Key]
"""A key function: candidates with the smaller key go first."""


def compose(*sorters: Sorter) -> Sorter:
    """Order by the first sorter, among equals by the second, and so on; at last by UID, so that it is
    total."""

    def key(candidate: Candidate) -> Key:
        return (*[sorter(candidate) for sorter in sorters], candidate.gang.uid)

    return key


def by_promise(candidate: Candidate) -> Key:
    """Those that are promised a run last."""
    return candidate.promised


def by_class(candidate: Candidate) -> Key:
    """Preemptible ones first."""
    return not candidate.preemptible


def by_at_risk(candidate: Candidate) -> Key:
    """Least unsaved CPU time first."""
    return candidate.loss


def by_use(resource: str) -> Sorter:
    """Those that free most of a resource first; those without a figure last."""

    def key(candidate: Candidate) -> Key:
        return -candidate.frees.get(resource, -1.0)

    return key


def by_over_request(resource: str) -> Sorter:
    """Those that use more of a resource than they request first."""
    return lambda candidate: not _over(candidate, (resource,))


def by_use_of_limit(candidate: Candidate) -> Key:
    """Those on reclaimed capacity that use most of their CPU limit first; those with a guarantee last."""
    return -candidate.used_of_limit


def by_sort(metric: str) -> Sorter:
    """Those with the largest figure of the metric's own first; those without one last."""
    return lambda candidate: -candidate.sort.get(metric, -math.inf)


def by_running_time(candidate: Candidate) -> Key:
    """Most recently started first."""
    return -candidate.risk.started.timestamp()


def by_interruptions(candidate: Candidate) -> Key:
    """Those interrupted least often first."""
    return candidate.gang.interruptions


SORTERS: Final[Mapping[str, Callable[[str], Sorter]]] = {
    "class": lambda _: by_class,
    "at-risk": lambda _: by_at_risk,
    "over-request": by_over_request,
    "use": by_use,
    "use-of-limit": lambda _: by_use_of_limit,
    "running-time": lambda _: by_running_time,
    "interruptions": lambda _: by_interruptions,
}
"""By the name used in settings; each is given the resource that is being acted on."""

DEFAULT_ORDER: Final = ("class", "at-risk", "over-request", "use", "use-of-limit", "running-time")

_OWN_ORDER: Final = ("class", "sort", "running-time")
"""Of a metric with a figure of its own to order by."""


def order_of(metric: Metric, order: Sequence[str]) -> tuple[str, ...]:
    """The names of the sorters for this metric. order: those that the administrator chose."""
    if metric.sort:
        return _OWN_ORDER
    return tuple(name for name in order if metric.sortable or name != "use")


def sorter_for(order: Iterable[str], resource: str) -> Sorter:
    """The sorters of these names, composed, those promised a run last. Raises KeyError for an unknown name."""
    known = {**SORTERS, "sort": by_sort}
    return compose(by_promise, *(known[name](resource) for name in order))


# --- the plan -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EvictionRules:
    """What an administrator may set.

    max_victims: gangs per period. hard_ceiling: percent of load from which no job is waited for.
    checkpoint_wait: seconds for which jobs with much unsaved work are waited for, in one episode. much_at_risk: seconds
    since the last checkpoint from which a job has much unsaved work. order: names of sorters.
    """

    max_victims: int = 100
    hard_ceiling: float = 95.0
    checkpoint_wait: float = 300.0
    much_at_risk: float = 300.0
    order: tuple[str, ...] = DEFAULT_ORDER


class Outcome(StrEnum):
    """What came of planning."""

    NOT_NEEDED = "NotNeeded"
    """No gap, or what is leaving closes it."""
    PLANNED = "Planned"
    """The victims close every gap, now or after the cap's next turn."""
    SHORT = "Short"
    """All that help are victims, and a gap stays open."""
    UNLABELLED = "WaitingForClasses"
    """The victims that lose the least are not preemptible yet; they are about to be."""
    WAITING = "WaitingForCheckpoint"
    """Only jobs with much unsaved work are left, and enough of them are about to write a checkpoint."""
    NOBODY_LEFT = "NobodyLeft"
    """Nothing preemptible is left."""
    NO_FIGURES = "NoFigures"
    """There are candidates, but for none of them is known what it uses."""


@dataclass(frozen=True, slots=True)
class EvictionSnapshot:
    """What one plan is made from.

    load: percent now. targets: percent to come down to, of the resources that are too high. candidates: of any class;
    only preemptible ones are taken. pending_release: points that are leaving already. waiting_since: since when jobs
    with much unsaved work have been waited for. overshoot_cost: core-seconds that a point of load freed is worth,
    beside what is lost. over_all: whether those who are not preemptible are about to be, and the plan is
    made over all of them. metrics: all that `load` may be of.
    """

    now: datetime
    load: Mapping[str, float]
    targets: Mapping[str, float]
    candidates: Sequence[Candidate]
    pending_release: Mapping[str, float] = field(default_factory=dict)
    waiting_since: datetime | None = None
    overshoot_cost: float = 0.0
    over_all: bool = False
    rules: EvictionRules = EvictionRules()
    metrics: Sequence[Metric] = BUILT_IN


@dataclass(frozen=True, slots=True)
class EvictionPlan:
    """victims: in the order in which they go. held: waited for until their checkpoint, awaited: until they are
    preemptible. gaps: points to free, beside what is pending release. pending_release: as given. short: points that
    stay open. acting: resources acted on, most urgent first. postponed: victims beyond `max_victims`."""

    outcome: Outcome
    victims: tuple[Candidate, ...] = ()
    held: tuple[Candidate, ...] = ()
    awaited: tuple[Candidate, ...] = ()
    gaps: Mapping[str, float] = field(default_factory=dict)
    pending_release: Mapping[str, float] = field(default_factory=dict)
    short: Mapping[str, float] = field(default_factory=dict)
    acting: tuple[str, ...] = ()
    postponed: int = 0

    @property
    def loss(self) -> float:
        """CPU time that the victims lose, in core-seconds."""
        return sum(victim.loss for victim in self.victims)

    def frees(self, resource: str) -> float:
        """Points that the victims free of a resource."""
        return sum(victim.frees.get(resource, 0.0) for victim in self.victims)


def plan_evictions(snapshot: EvictionSnapshot) -> EvictionPlan:
    """The victims that bring every resource down to its target, losing as little CPU time as can be found.

    From the hard ceiling on no job is awaited where the preemptible ones are enough.
    """
    gaps = _gaps(snapshot)
    if not gaps:
        return EvictionPlan(Outcome.NOT_NEEDED, pending_release=snapshot.pending_release)
    preemptible = [candidate for candidate in snapshot.candidates if candidate.preemptible]
    urgent = max((m for m in snapshot.metrics if m.name in gaps), key=lambda m: m.priority)
    if urgent.evict is Action.UNQUANTIFIED:
        return _plan_all(preemptible, snapshot, gaps, urgent)
    if not snapshot.over_all:
        return _plan_among(preemptible, snapshot, gaps)
    if _at_ceiling(snapshot):
        at_once = _plan_among(preemptible, snapshot, gaps)
        if at_once.outcome is Outcome.PLANNED:
            return at_once
    return _plan_among(list(snapshot.candidates), snapshot, gaps)


def _plan_all(
    candidates: list[Candidate], snapshot: EvictionSnapshot, gaps: Mapping[str, float], metric: Metric
) -> EvictionPlan:
    """All that may go, for a metric whose use by jobs is not known."""
    order = sorter_for(order_of(metric, snapshot.rules.order), metric.name)
    most = snapshot.rules.max_victims
    return EvictionPlan(
        Outcome.PLANNED if candidates else Outcome.NOBODY_LEFT,
        victims=tuple(sorted(candidates, key=order)[:most]),
        gaps=gaps,
        pending_release=snapshot.pending_release,
        short={} if candidates else gaps,
        acting=(metric.name,),
        postponed=max(0, len(candidates) - most),
    )


def _plan_among(candidates: list[Candidate], snapshot: EvictionSnapshot, gaps: Mapping[str, float]) -> EvictionPlan:
    if not candidates:
        return EvictionPlan(Outcome.NOBODY_LEFT, gaps=gaps, pending_release=snapshot.pending_release, short=gaps)
    urgent = by_urgency(m for m in snapshot.metrics if m.evict is Action.QUANTIFIED)
    acting = [name for name in urgent if name in gaps and any(name in c.frees for c in candidates)]
    if not acting:
        return EvictionPlan(Outcome.NO_FIGURES, gaps=gaps, pending_release=snapshot.pending_release, short=gaps)
    return _planned(snapshot, gaps, *_choose(snapshot, acting, gaps, candidates))


def _gaps(snapshot: EvictionSnapshot) -> dict[str, float]:
    """Points above the target that are not leaving already."""
    above = {
        name: snapshot.load[name] - target - snapshot.pending_release.get(name, 0.0)
        for name, target in snapshot.targets.items()
    }
    return {name: gap for name, gap in above.items() if gap > CLOSED}


@dataclass(frozen=True, slots=True)
class _Choice:
    resources: Sequence[str]
    victims: tuple[Candidate, ...]
    feasible: bool
    held: tuple[Candidate, ...] = ()


def _choose(
    snapshot: EvictionSnapshot,
    resources: Sequence[str],
    gaps: Mapping[str, float],
    candidates: list[Candidate],
) -> tuple[_Choice, bool]:
    """Over all resources at once, by the candidates that have every figure. Where those are not enough and others lack
    some: by the most urgent resource alone, and all who have its figure. The second value: whether that is all there
    is.
    """
    whole = [c for c in candidates if c.frees.keys() >= {*resources}]
    choice = _with_waiting(snapshot, resources, gaps, whole)
    if choice.feasible or len(whole) == len(candidates) or len(resources) == 1:
        return choice, len(whole) == len(candidates)
    known = [c for c in candidates if resources[0] in c.frees]
    if len(known) == len(whole):
        return choice, False
    return _with_waiting(snapshot, resources[:1], gaps, known), False


def _with_waiting(
    snapshot: EvictionSnapshot,
    resources: Sequence[str],
    gaps: Mapping[str, float],
    candidates: list[Candidate],
) -> _Choice:
    """The cheapest choice; where it takes jobs with much unsaved work, and waiting for checkpoints that are due
    would do as well, only the part of it that loses little."""
    choice = _solve(snapshot, resources, gaps, candidates, lambda c: c.loss)
    deadline = _deadline(snapshot)
    if deadline is None or not any(_much(c, snapshot) for c in choice.victims):
        return choice
    due = {c.gang.uid for c in candidates if _much(c, snapshot) and c.risk.next_checkpoint <= deadline}
    cheap = [c for c in candidates if c.gang.uid in due or not _much(c, snapshot)]
    patient = _solve(snapshot, resources, gaps, cheap, lambda c: 0.0 if c.gang.uid in due else c.loss)
    if not patient.feasible:
        return choice
    return _Choice(
        resources,
        tuple(c for c in patient.victims if c.gang.uid not in due),
        feasible=True,
        held=tuple(c for c in patient.victims if c.gang.uid in due),
    )


def _much(candidate: Candidate, snapshot: EvictionSnapshot) -> bool:
    since = (snapshot.now - candidate.risk.since).total_seconds()
    return candidate.loss > 0 and since >= snapshot.rules.much_at_risk


def _at_ceiling(snapshot: EvictionSnapshot) -> bool:
    return any(snapshot.load[name] >= snapshot.rules.hard_ceiling for name in snapshot.targets)


def _deadline(snapshot: EvictionSnapshot) -> datetime | None:
    """Until when a checkpoint may be waited for; None when there is no time for that."""
    if _at_ceiling(snapshot):
        return None
    since = snapshot.waiting_since or snapshot.now
    deadline = since + timedelta(seconds=snapshot.rules.checkpoint_wait)
    return deadline if deadline > snapshot.now else None


def _solve(
    snapshot: EvictionSnapshot,
    resources: Sequence[str],
    gaps: Mapping[str, float],
    candidates: list[Candidate],
    loss: Callable[[Candidate], float],
) -> _Choice:
    needed = [gaps[name] for name in resources]
    candidates = over_first(candidates, resources)
    frees = [[c.frees[name] for name in resources] for c in candidates]
    urgent = next(metric for metric in snapshot.metrics if metric.name == resources[0])
    order = sorter_for(order_of(urgent, snapshot.rules.order), urgent.name)
    solution: Solution
    if not urgent.sort and _by_loss(snapshot.rules.order):
        costs = costs_of(candidates, resources, snapshot.overshoot_cost, loss)
        solution = solve_covering_knapsack(costs, frees, needed)
        chosen = [candidates[i] for i in solution.chosen]
    else:
        rank = sorted(range(len(candidates)), key=lambda i: order(candidates[i]))
        solution = solve_in_order([frees[i] for i in rank], needed)
        chosen = [candidates[rank[i]] for i in solution.chosen]
    return _Choice(resources, tuple(sorted(chosen, key=order)), solution.feasible)


def _by_loss(order: Sequence[str]) -> bool:
    """Whether unsaved CPU time is what tells candidates apart first (all are of one class)."""
    return next((name for name in order if name != "class"), "at-risk") == "at-risk"


def _planned(snapshot: EvictionSnapshot, gaps: Mapping[str, float], choice: _Choice, everybody: bool) -> EvictionPlan:
    leaving = [*choice.victims, *choice.held]
    short = {}
    for name, gap in gaps.items():
        rest = gap - sum([c.frees.get(name, 0.0) for c in leaving])
        if rest > CLOSED * max(1.0, gap):
            short[name] = rest
    victims = tuple(c for c in choice.victims if c.preemptible)
    awaited = tuple(c for c in choice.victims if not c.preemptible)
    if choice.held and not choice.victims:
        outcome = Outcome.WAITING
    elif awaited and not victims:
        outcome = Outcome.UNLABELLED
    elif not leaving:
        outcome = Outcome.NOBODY_LEFT if everybody else Outcome.NO_FIGURES
    else:
        outcome = Outcome.SHORT if short else Outcome.PLANNED
    return EvictionPlan(
        outcome,
        victims=victims[: snapshot.rules.max_victims],
        held=choice.held,
        awaited=awaited,
        gaps=gaps,
        pending_release=snapshot.pending_release,
        short=short,
        acting=tuple(choice.resources),
        postponed=max(0, len(victims) - snapshot.rules.max_victims),
    )
