"""One scope in one period: a pool of nodes, which most clusters have one of, or one node by itself. Pure.

1. Read the load. Without a fresh, plausible one the state is Blind: nothing is evicted, nothing new is admitted.
2. Draw the levels from the history, a step at a time.
3. State with hysteresis: Evicting from `upper` until `lower`; where jobs were evicted, then closed for a cool-down
   and until what was evicted for is under `lower`. The CPU has to be at `upper` in several samples in a row.
   Regular load may stay between `lower` and `admission` for good. So both end sooner where the load is calm: under
   `admission` for the cool-down and two periods. Evicting does so only where nothing preemptible is left.
4. Evicting: plan the victims, unless those of the last plan have not shown in the measurements yet. The first plan is
   made over all running jobs, as the percentage makes all of them preemptible; those that are not yet, follow.
5. Not evicting, but at the admission threshold: let jobs that have just written a checkpoint yield.

State, percentage and whether a job has to go follow the firm load: CPU on reclaimed capacity gives way by itself.
A CPU that is all in use hides how much of it is wanted: where it is so again after a plan, the next one is made for as
much more as has shown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from scavenger_api.evictions import EvictionReason
from scavenger_api.levels import LevelsState

from scavenger_regulator.core.added_load import with_added
from scavenger_regulator.core.eviction.candidates import candidates, pending_release
from scavenger_regulator.core.eviction.choice import within
from scavenger_regulator.core.eviction.plan import (
    Candidate,
    EvictionPlan,
    EvictionSnapshot,
    Outcome,
    plan_evictions,
)
from scavenger_regulator.core.eviction.risk import safe_since
from scavenger_regulator.core.level_policies import lowest
from scavenger_regulator.core.levels import (
    PERCENTAGE,
    LevelPolicy,
    WaterLevels,
    apart,
    steady_load,
    step_toward,
    water_levels,
)
from scavenger_regulator.core.load import Fresh, Reading, Unreadable, read_load
from scavenger_regulator.core.metrics.metric import BUILT_IN, RESOURCES, Action, averaged, that_evict
from scavenger_regulator.core.rules import Rules
from scavenger_regulator.core.snapshot import Gang, Snapshot, of_pool
from scavenger_regulator.core.state import Pending, Saturation, ScopeState
from scavenger_regulator.core.throttle import NOTHING, ThrottlePlan

YIELD_BEYOND: Final = 1.0
"""Points by which jobs that yield may free more than the gap. No regular pod needs capacity yet: a large job goes on
working until the gap is as large, and until then smaller ones yield."""

CLOCK_ERROR: Final = timedelta(seconds=30)
"""By which the clock by which pods are seen to go may be behind those by which figures are dated."""


class Wait(StrEnum):
    """Why no job is evicted though the load is too high."""

    STARTED = "Started"
    """The measurement began before this process did: what went on then is not known."""
    SETTLING = "Settling"
    """The victims of the last plan have not gone, or not shown in the measurements, yet."""


@dataclass(frozen=True, slots=True)
class Victim:
    """A gang to evict, why, and for which scope."""

    candidate: Candidate
    reason: EvictionReason
    scope: str


@dataclass(frozen=True, slots=True)
class ScopeDecision:
    """What was decided about one scope."""

    scope: str
    state: LevelsState
    reading: Reading | None
    levels: Mapping[str, WaterLevels]
    percentage: float | None
    admit: bool
    next_state: ScopeState
    plan: EvictionPlan | None = None
    yields: tuple[Candidate, ...] = ()
    throttle: ThrottlePlan = NOTHING
    wait: Wait | None = None
    reason: str = ""
    kept: Mapping[str, float] = field(default_factory=dict)
    """Percent of what the nodes of a pool can allocate that jobs leave free for regular pods, by resource."""

    @property
    def closed(self) -> bool:
        """Whether the scope should get nothing new: full, evicting, or cooling down."""
        if self.reading is None or not self.admit:
            return True
        return any(left <= 0 for left in self._left)

    @property
    def unmeasured(self) -> list[str]:
        """Metrics that have levels and no load, because too few of the nodes that have any have a figure."""
        return sorted(self.levels.keys() - self.reading.load.keys()) if self.reading else []

    @property
    def headroom(self) -> tuple[int, int] | None:
        """Thousandths of CPU and memory that may still be given away; None where nothing may."""
        if self.closed:
            return None
        cpu, memory = self._left[: len(RESOURCES)]
        return int(10 * cpu), int(10 * memory)

    @property
    def _left(self) -> list[float]:
        """Points up to the admission threshold, of CPU and memory and then of other metrics."""
        assert self.reading is not None
        return [self.levels[r].admission - load - self.reading.ramping[r] for r, load in self.reading.firm.items()]


def decide_scope(
    scope: str, snapshot: Snapshot, state: ScopeState, rules: Rules, taken: Collection[str]
) -> ScopeDecision:
    """Decide one scope. snapshot: with the nodes of the pool alone, where there are several. state: as the last period
    left it. taken: UIDs of gangs that are victims already."""
    state = replace(state, pending=_note_gone(state.pending, snapshot))
    nodes = snapshot.nodes.values() if of_pool(scope) else [snapshot.nodes[scope]]
    reading = read_load(
        scope, nodes, snapshot.gangs, snapshot.measurement, snapshot.now, rules.trust, snapshot.recent_terminations
    )
    if isinstance(reading, Unreadable):
        return ScopeDecision(scope, LevelsState.BLIND, None, state.levels, None, False, state, reason=reading.reason)
    if rules.metrics:
        fresh = Fresh(snapshot.now, rules.trust)
        reading = with_added(reading, rules.metrics, snapshot.gangs, snapshot.measurement, fresh, rules.trust)
    state = state.at(snapshot.now, rules.period)
    state = replace(state, learned=_learned(scope, snapshot, state, rules))
    levels = _levels(scope, snapshot, state, reading, rules)
    state = replace(state, steady={r: steady_load(state.steady.get(r), load) for r, load in reading.firm.items()})
    state = _with_hysteresis(state, reading, levels, snapshot.now, rules)
    decided = ScopeDecision(
        scope=scope,
        state=_levels_state(state, reading, levels),
        reading=reading,
        levels=levels,
        percentage=max(_percentage(load, state.steady[r], levels[r], rules) for r, load in reading.firm.items()),
        admit=_admit(state, levels, snapshot.now, rules),
        next_state=state,
        wait=_wait(state.pending, reading, snapshot),
    )
    return _with_victims(decided, snapshot, rules, taken)


def _percentage(load: float, steady: float, levels: WaterLevels, rules: Rules) -> float:
    """From `upper` on all jobs are preemptible, however sudden that is."""
    return PERCENTAGE[rules.policy](load if load >= levels.upper else steady, levels, rules.floor)


def _learned(scope: str, snapshot: Snapshot, state: ScopeState, rules: Rules) -> frozenset[str]:
    """The resources whose levels follow their history: from `min_samples` on, and then for as long as half as many are
    left. A short window holds one sample more or one less from period to period, and levels would come and go."""
    if rules.policy is not LevelPolicy.EXPONENTIAL:
        return frozenset()
    samples = {resource: figures.samples for resource, figures in snapshot.history.get(scope, {}).items()}
    needed = {r: rules.min_samples / 2 if r in state.learned else rules.min_samples for r in samples}
    return frozenset(r for r, known in samples.items() if known >= max(1, needed[r]))


def _levels(
    scope: str, snapshot: Snapshot, state: ScopeState, reading: Reading, rules: Rules
) -> dict[str, WaterLevels]:
    """Also of metrics that are not measured now: these have levels, and no load to hold against them."""
    history = snapshot.history.get(scope, {})
    own = {metric.name: metric.levels for metric in rules.metrics}
    highest = {} if of_pool(scope) else snapshot.nodes[scope].levels
    levels = {}
    for resource in {**reading.load, **own}:
        target = own.get(resource) or rules.initial
        if resource in state.learned and own.get(resource) is None:
            figures = history[resource]
            target = apart(water_levels(figures.mean, figures.stdev, rules.reserve), rules.admission_margin)
        if resource in highest:
            target = lowest(target, highest[resource])
        levels[resource] = step_toward(state.levels.get(resource), target, rules.step)
    return levels


def _with_hysteresis(
    state: ScopeState, reading: Reading, levels: Mapping[str, WaterLevels], now: datetime, rules: Rules
) -> ScopeState:
    """The hysteresis: which resources are being brought down, and whether the cool-down runs."""
    load = reading.firm
    state = _note_high(state, reading, levels, rules)
    never = that_evict(rules.metrics, Action.NEVER)
    raised = state.evicting | {r for r, one in load.items() if one >= levels[r].upper and r not in never}
    if reading.since < reading.observed_at:  # of a moment is what was asked for
        raised -= {r for r, samples in state.high.items() if samples < rules.cpu_samples} - state.evicting
    evicting = frozenset(r for r in raised if r in load and load[r] > levels[r].lower)
    calm_since = _calm_since(state, evicting, load, levels, now)
    calm = calm_since is not None and now - calm_since >= timedelta(seconds=rules.cooldown + 2 * rules.period)
    if calm and state.exhausted:
        evicting = frozenset()
    closed, closed_for, until = state.closed, state.closed_for, state.cooldown_until
    if closed and evicting:
        closed_for, until = closed_for | evicting, None
    elif closed:
        until = until or now + timedelta(seconds=rules.cooldown)
        # Only what was evicted for: another resource may be between `lower` and `upper` for good, and that is no reason
        # to admit nothing for ever.
        closed = now < until or not (calm or all(load[r] < levels[r].lower for r in closed_for if r in load))
    yielding, yielded_at = _yielding(state, reading, levels, rules)
    return replace(
        state,
        levels=levels,
        evicting=evicting,
        evicting_since=(state.evicting_since or now) if evicting else None,
        closed=closed,
        closed_for=closed_for if closed else frozenset(),
        cooldown_until=until if closed else None,
        calm_since=calm_since if evicting or closed else None,
        exhausted=state.exhausted and bool(evicting),
        yielding=yielding,
        yielded_at=yielded_at,
        waiting_since=state.waiting_since if evicting else None,
        saturation=state.saturation if evicting and reading.saturated else None,
        read_at=now,
    )


def _calm_since(
    state: ScopeState,
    evicting: Collection[str],
    load: Mapping[str, float],
    levels: Mapping[str, WaterLevels],
    now: datetime,
) -> datetime | None:
    """Since when the load of all that is evicted or closed for has been under `admission`; None while it is not."""
    concerned = [r for r in state.closed_for.union(evicting) if r in load]
    if all(load[r] < levels[r].admission for r in concerned):
        return state.calm_since or now
    return None


def _note_high(state: ScopeState, reading: Reading, levels: Mapping[str, WaterLevels], rules: Rules) -> ScopeState:
    """Count the samples in a row in which an average was at `upper`. One is over some seconds, and a burst that is over
    when it arrives is no reason to evict a job; memory is what it is."""
    sampled_at = reading.sampled_at
    new = {r for r, at in sampled_at.items() if r not in state.high_at or at > state.high_at[r]}
    high = {
        r: state.high.get(r, 0) + (r in new)
        for r in averaged(rules.metrics)
        if r in reading.firm and reading.firm[r] >= levels[r].upper
    }
    return replace(state, high=high, high_at={**state.high_at, **{r: sampled_at[r] for r in new}})


def yields_from(levels: WaterLevels, rules: Rules) -> float:
    """Percent of load, well above the admission threshold, from which jobs yield or are throttled."""
    return levels.admission + rules.yield_from * (levels.upper - levels.admission)


def _yielding(
    state: ScopeState, reading: Reading, levels: Mapping[str, WaterLevels], rules: Rules
) -> tuple[frozenset[str], datetime | None]:
    """Which resources jobs yield for: those well above the admission threshold, and those that a job has yielded for
    and that are not back at it.

    No job is admitted between the two, so a load that is held at the admission threshold makes no job leave and return.
    """
    load = reading.firm
    yielding = frozenset(
        r
        for r in reading.load.keys() & that_evict(rules.metrics, Action.QUANTIFIED)
        if load[r] >= yields_from(levels[r], rules)
        or (r in state.yielding and state.yielded_at is not None and load[r] > levels[r].admission)
    )
    return yielding, state.yielded_at if yielding else None


def _levels_state(state: ScopeState, reading: Reading, levels: Mapping[str, WaterLevels]) -> LevelsState:
    """The worst resource governs."""
    if state.evicting:
        return LevelsState.EVICTING
    if any(load >= levels[r].lower for r, load in reading.firm.items()):
        return LevelsState.SPECULATIVE
    return LevelsState.FILLING


def _admit(state: ScopeState, levels: Mapping[str, WaterLevels], now: datetime, rules: Rules) -> bool:
    """Closed while evicting and cooling down; and while jobs yield, or the first to yield would be back at
    once. The admitter says whether a job fits under the levels of CPU and memory; it knows no other metric."""
    if state.closed or state.evicting:
        return False
    if any(steady >= levels[name].admission for name, steady in state.steady.items() if name not in RESOURCES):
        return False
    if state.yielded_at is None:
        return True
    return now >= state.yielded_at + timedelta(seconds=rules.cooldown)


def cooldown_until(state: ScopeState, now: datetime, rules: Rules) -> datetime | None:
    """When the cool-down ends that keeps admission closed; None where something else does, or nothing. One after jobs
    have yielded ends sooner where the load is back at `admission`."""
    if state.evicting:
        return None
    yields = None if state.yielded_at is None else state.yielded_at + timedelta(seconds=rules.cooldown)
    ends = [end for end in (state.cooldown_until, yields) if end is not None and end > now]
    return max(ends, default=None)


# --- victims ----------------------------------------------------------------------------------------------


def _note_gone(pending: Pending | None, snapshot: Snapshot) -> Pending | None:
    """Note when the last of the evicted pods has gone."""
    if pending is None or pending.gone_at is not None:
        return pending
    there = {pod.uid for gang in snapshot.gangs for pod in gang.pods}
    return pending if pending.pods & there else replace(pending, gone_at=snapshot.now)


def _wait(pending: Pending | None, reading: Reading, snapshot: Snapshot) -> Wait | None:
    """Never two plans for the same gap: what was freed has to be in the measurements first, in all of them.

    A process that has just started does not know what its predecessor did, so for it the same holds of its
    start. Pods that do not go are given up after a while; while they are leaving, they count as pending release.
    Figures are dated by other clocks than this one, which may be behind: by CLOCK_ERROR, and by as much as a figure is
    from the future. A second plan too early evicts for what is on its way out; a period too late it costs little.
    """
    if reading.shown < snapshot.started:
        return Wait.STARTED
    if pending is None or snapshot.now >= pending.until:
        return None
    behind = CLOCK_ERROR + max(timedelta(0), reading.observed_at - snapshot.now)
    if pending.gone_at is None or reading.shown < pending.gone_at + behind:
        return Wait.SETTLING
    return None


def _with_victims(decided: ScopeDecision, snapshot: Snapshot, rules: Rules, taken: Collection[str]) -> ScopeDecision:
    state, reading = decided.next_state, decided.reading
    assert reading is not None
    if state.pending is not None and decided.wait is None:
        state = replace(state, pending=None)
    following = _following(decided, snapshot.now, rules)
    if not following:
        state = replace(state, awaited=frozenset())
    decided = replace(decided, next_state=state)
    waiting = decided.wait is not None and not following
    if waiting or not (state.evicting or (rules.yield_at_checkpoint and state.yielding)):
        return decided
    if not (following or state.evicting):
        return _yield(decided, snapshot, rules, taken) if of_pool(decided.scope) else decided
    gangs = [g for g in snapshot.gangs if g.uid in state.awaited] if following else snapshot.gangs
    known = candidates(gangs, reading, snapshot, rules.trust, risk=rules.risk, taken=taken)
    leaving = _leaving(reading, snapshot, rules, taken)
    return (_follow if following else _evict)(decided, known, leaving, snapshot.now, rules)


def _leaving(reading: Reading, snapshot: Snapshot, rules: Rules, taken: Collection[str]) -> dict[str, float]:
    terminations = snapshot.recent_terminations
    return pending_release(snapshot.gangs, terminations, reading, snapshot, rules.trust, taken=taken)


def _following(decided: ScopeDecision, now: datetime, rules: Rules) -> bool:
    """Whether the rest of the last plan may follow: it belongs to the same gap, so what has gone of it need not show
    first."""
    state = decided.next_state
    if decided.wait is not Wait.SETTLING or not state.awaited or state.evicting_since is None:
        return False
    return now < state.evicting_since + timedelta(seconds=rules.label_wait + rules.period)


def _follow(
    decided: ScopeDecision, awaited: list[Candidate], leaving: Mapping[str, float], now: datetime, rules: Rules
) -> ScopeDecision:
    """The rest of the last plan, as far as it is preemptible by now and still needed."""
    plan = _plan(decided, awaited, leaving, now, rules)
    if not plan.victims:
        return decided
    return replace(decided, plan=replace(plan, outcome=Outcome.PLANNED, short={}))


def _over_all(decided: ScopeDecision, now: datetime, rules: Rules) -> bool:
    """Whether all jobs are about to be preemptible: they are by the percentage that is published now, which is a
    pool's, and its readers have had no time to act on it yet."""
    since = decided.next_state.evicting_since
    if not of_pool(decided.scope) or decided.percentage != 100 or since is None or decided.wait is not None:
        return False
    return now < since + timedelta(seconds=rules.label_wait)


def _evict(
    decided: ScopeDecision, known: list[Candidate], leaving: Mapping[str, float], now: datetime, rules: Rules
) -> ScopeDecision:
    state, reading = decided.next_state, decided.reading
    assert reading is not None
    if reading.saturated:
        load = reading.beyond["cpu"] - leaving["cpu"]
        state = replace(state, saturation=state.saturation.after(load) if state.saturation else Saturation(load))
        decided = replace(decided, next_state=state)
    plan = _plan(decided, known, leaving, now, rules)
    state = replace(state, exhausted=plan.outcome is Outcome.NOBODY_LEFT)
    if plan.awaited:
        state = replace(state, awaited=frozenset(one.gang.uid for one in plan.awaited))
    if plan.held and state.waiting_since is None:
        state = replace(state, waiting_since=now)
    return replace(decided, plan=plan, next_state=state)


def _plan(
    decided: ScopeDecision, known: list[Candidate], leaving: Mapping[str, float], now: datetime, rules: Rules
) -> EvictionPlan:
    state, reading = decided.next_state, decided.reading
    assert reading is not None
    hidden = state.saturation.hidden if state.saturation is not None else 0.0
    return plan_evictions(
        EvictionSnapshot(
            now=now,
            load={**reading.beyond, "cpu": reading.beyond["cpu"] + hidden},
            targets={r: decided.levels[r].lower for r in state.evicting if r in reading.load},
            candidates=known,
            pending_release=leaving,
            waiting_since=state.waiting_since,
            overshoot_cost=rules.risk.startup_cost * reading.room["cpu"] / 100,
            over_all=_over_all(decided, now, rules),
            rules=rules.eviction,
            metrics=(*BUILT_IN, *rules.metrics),
        )
    )


def _yield(decided: ScopeDecision, snapshot: Snapshot, rules: Rules, taken: Collection[str]) -> ScopeDecision:
    """Jobs that passed a reported or assumed checkpoint just now, as many as bring the load back to `admission`, and
    none that would bring it further down than a point below. Not those that have only just started: they have written
    nothing yet. Nor those to whom a run is promised."""
    state, reading, now = decided.next_state, decided.reading, snapshot.now
    assert reading is not None
    leaving = _leaving(reading, snapshot, rules, taken)
    gaps = {r: reading.firm[r] - decided.levels[r].admission - leaving[r] for r in state.yielding if r in reading.firm}
    # Few of all that run: unsaved work, and what they would free, is not asked of the others.
    ready = [g for g in snapshot.gangs if g.preemptible and _just_safe(g, now, rules.yield_within)]
    known = candidates(ready, reading, snapshot, rules.trust, risk=rules.risk, taken=taken)
    known = [candidate for candidate in known if not candidate.promised]
    return replace(decided, yields=within(known, gaps, rules.eviction.max_victims, YIELD_BEYOND))


def _just_safe(gang: Gang, now: datetime, seconds: float) -> bool:
    """Whether a job passed a reported or assumed checkpoint no longer ago."""
    started, since = safe_since(gang, now)
    return since > started and (now - since).total_seconds() <= seconds


# --- what has been done -------------------------------------------------------------------------------------


def after_evictions(
    states: Mapping[str, ScopeState], evicted: Iterable[Victim], now: datetime, rules: Rules
) -> dict[str, ScopeState]:
    """The states of the scopes after these victims were really evicted (refusals are not among them)."""
    victims: dict[str, list[Victim]] = {}
    for victim in evicted:
        victims.setdefault(victim.scope, []).append(victim)
    return {scope: _after(state, victims.get(scope, ()), now, rules) for scope, state in states.items()}


def _after(state: ScopeState, evicted: Sequence[Victim], now: datetime, rules: Rules) -> ScopeState:
    above = [v.candidate for v in evicted if v.reason is EvictionReason.ABOVE_UPPER]
    precise = [candidate.gang for candidate in above]
    if precise:
        state = replace(state, closed=True, closed_for=state.closed_for | state.evicting, cooldown_until=None)
    yielded = any(v.reason is EvictionReason.YIELD for v in evicted)
    if yielded:
        state = replace(state, yielded_at=now)
    if not precise:
        return state
    if state.saturation is not None:
        freed = state.saturation.freed + sum(candidate.frees.get("cpu", 0.0) for candidate in above)
        state = replace(state, saturation=replace(state.saturation, freed=freed))
    pods = [pod for gang in precise for pod in gang.pods]
    grace = max(pod.grace for pod in pods)
    before = state.pending.pods if state.pending is not None else frozenset()
    uids = before | {pod.uid for pod in pods}
    return replace(state, pending=Pending(uids, now, now + timedelta(seconds=grace + rules.settle)))
