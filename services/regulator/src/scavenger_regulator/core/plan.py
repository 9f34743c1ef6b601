"""One period of the regulator: from a snapshot and what is remembered to levels, state and victims. No I/O.

For the cluster, and as an option for each node by itself:

1. Read the load. Without a fresh, plausible one the state is Blind: nothing is evicted, nothing new is
admitted. 2. Draw the levels from the history, a step at a time.
3. State with hysteresis: Evicting from `upper` until `lower`, then closed for a cool-down and until under
`lower`. 4. Evicting: plan the victims, unless those of the last plan have not shown in the measurements yet.
5. Not evicting, but at the admission level: let jobs that have just written a checkpoint yield.

Whether somebody has to go is judged by the firm load: CPU on reclaimed capacity gives way without anybody's help.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum

from scavenger_api.evictions import EvictionReason
from scavenger_api.levels import LevelsState, PublishedLevels, ResourceLevels

from scavenger_regulator.core.eviction.candidates import candidates, pending_release
from scavenger_regulator.core.eviction.plan import (
    Candidate,
    EvictionPlan,
    EvictionRules,
    EvictionSnapshot,
    Outcome,
    least_lossy,
    plan_evictions,
)
from scavenger_regulator.core.history import Figures
from scavenger_regulator.core.levels import (
    FLOOR,
    INITIAL,
    PERCENTAGE,
    LevelPolicy,
    WaterLevels,
    apart,
    step_toward,
    water_levels,
)
from scavenger_regulator.core.load import Reading, Trust, Unreadable, read_load
from scavenger_regulator.core.snapshot import CLUSTER, RESOURCES, Pending, ScopeState, Snapshot


@dataclass(frozen=True, slots=True)
class Rules:
    """What an administrator may set; percentages in percent, times in seconds.

    admission_margin: points that the admission level keeps below the upper one. min_samples: size of a history before
    it is used. step: points by which a level may move in a period.
    cooldown: how long nothing is admitted after an eviction. yield_hysteresis: points under `admission` at
    which yielding ends. yield_within: how long after its checkpoint a job may still yield. startup_cost: per
    core, until a run's first checkpoint. settle: how long after their grace period evicted pods are waited
    for. per_node: levels and evictions for each node, too.
    """

    period: float = 30.0
    reserve: float = 20.0
    floor: float = FLOOR
    admission_margin: float = 5.0
    policy: LevelPolicy = LevelPolicy.EXPONENTIAL
    initial: WaterLevels = INITIAL
    min_samples: int = 60
    step: float = 1.0
    cooldown: float = 300.0
    yield_at_checkpoint: bool = True
    yield_hysteresis: float = 5.0
    yield_within: float = 45.0
    startup_cost: float = 60.0
    settle: float = 120.0
    per_node: bool = False
    trust: Trust = field(default_factory=Trust)
    eviction: EvictionRules = field(default_factory=EvictionRules)


class Wait(StrEnum):
    """Why nobody is evicted though the load is too high."""

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
    wait: Wait | None = None
    reason: str = ""

    @property
    def closed(self) -> bool:
        """Whether the scope should get nothing new: full, evicting, or cooling down."""
        if self.reading is None or not self.admit:
            return True
        return any(self.reading.load[r] >= self.levels[r].admission for r in RESOURCES)


@dataclass(frozen=True, slots=True)
class Decision:
    """What to publish, whom to evict (in this order), and what was decided of each scope."""

    published: PublishedLevels
    victims: tuple[Victim, ...]
    scopes: Mapping[str, ScopeDecision] = field(default_factory=dict)

    @property
    def states(self) -> dict[str, ScopeState]:
        """What to remember, by scope."""
        return {scope: decided.next_state for scope, decided in self.scopes.items()}

    def levels_on(self, node: str) -> Mapping[str, WaterLevels]:
        """The levels in force on a node: its own where those were drawn, else the cluster's; none while Blind."""
        cluster = self.scopes[CLUSTER]
        own = self.scopes.get(node, cluster)
        if cluster.reading is None:
            return {}
        return cluster.levels if own.reading is None else own.levels


def regulate(snapshot: Snapshot, states: Mapping[str, ScopeState], rules: Rules) -> Decision:
    """Decide one period. states: of the last one, by scope; a scope not in there starts afresh."""
    taken: set[str] = set()
    scopes: dict[str, ScopeDecision] = {}
    victims: list[Victim] = []
    for scope in _scopes(snapshot, rules):
        decided = _decide_scope(scope, snapshot, states.get(scope, ScopeState()), rules, taken)
        scopes[scope] = decided
        for victim in _victims(decided):
            taken.add(victim.candidate.gang.uid)
            victims.append(victim)
    cluster = scopes[CLUSTER]
    shut = frozenset(scope for scope, j in scopes.items() if scope != CLUSTER and j.closed)
    published = _publish(cluster, snapshot.history.get(CLUSTER, {}), shut, rules)
    return Decision(published, tuple(victims[: rules.eviction.max_victims]), scopes)


def _scopes(snapshot: Snapshot, rules: Rules) -> list[str]:
    """Nodes first: what they free is subtracted from what the cluster has to free."""
    nodes = [name for name, node in sorted(snapshot.nodes.items()) if node.counts] if rules.per_node else []
    return [*nodes, CLUSTER]


def _victims(decided: ScopeDecision) -> Iterable[Victim]:
    for candidate in decided.plan.victims if decided.plan else ():
        yield Victim(candidate, EvictionReason.ABOVE_UPPER, decided.scope)
    for candidate in decided.yields:
        yield Victim(candidate, EvictionReason.YIELD, decided.scope)


# --- one scope ----------------------------------------------------------------------------------------------


def _decide_scope(
    scope: str, snapshot: Snapshot, state: ScopeState, rules: Rules, taken: Collection[str]
) -> ScopeDecision:
    state = replace(state, pending=_note_gone(state.pending, snapshot))
    nodes = snapshot.nodes.values() if scope == CLUSTER else [snapshot.nodes[scope]]
    reading = read_load(
        scope, nodes, snapshot.gangs, snapshot.measurement, snapshot.now, rules.trust, snapshot.recent_terminations
    )
    if isinstance(reading, Unreadable):
        return ScopeDecision(scope, LevelsState.BLIND, None, state.levels, None, False, state, reason=reading.reason)
    levels = _levels(scope, snapshot, state, rules)
    state = _with_hysteresis(state, reading, levels, snapshot.now, rules)
    decided = ScopeDecision(
        scope=scope,
        state=_levels_state(state, reading, levels),
        reading=reading,
        levels=levels,
        percentage=max(PERCENTAGE[rules.policy](reading.load[r], levels[r], rules.floor) for r in RESOURCES),
        admit=_admit(state, snapshot.now, rules),
        next_state=state,
        wait=_wait(state.pending, reading, snapshot),
    )
    return _with_victims(decided, snapshot, rules, taken)


def _levels(scope: str, snapshot: Snapshot, state: ScopeState, rules: Rules) -> dict[str, WaterLevels]:
    history = snapshot.history.get(scope, {})
    levels = {}
    for resource in RESOURCES:
        target, figures = rules.initial, history.get(resource)
        if rules.policy is LevelPolicy.EXPONENTIAL and figures and figures.samples >= rules.min_samples:
            target = apart(water_levels(figures.mean, figures.stdev, rules.reserve), rules.admission_margin)
        levels[resource] = step_toward(state.levels.get(resource), target, rules.step)
    return levels


def _with_hysteresis(
    state: ScopeState, reading: Reading, levels: Mapping[str, WaterLevels], now: datetime, rules: Rules
) -> ScopeState:
    """The hysteresis: which resources are being brought down, and whether the cool-down runs."""
    load = reading.firm
    raised = state.evicting | {r for r in RESOURCES if load[r] >= levels[r].upper}
    evicting = frozenset(r for r in raised if load[r] > levels[r].lower)
    closed, until = state.closed, state.cooldown_until
    if evicting:
        closed, until = True, None
    elif closed:
        until = until or now + timedelta(seconds=rules.cooldown)
        closed = now < until or any(load[r] >= levels[r].lower for r in RESOURCES)
    yielding, yielded_at = _yielding(state, reading, levels, rules)
    return replace(
        state,
        levels=levels,
        evicting=evicting,
        closed=closed,
        cooldown_until=until if closed else None,
        yielding=yielding,
        yielded_at=yielded_at,
        waiting_since=state.waiting_since if evicting else None,
    )


def _yielding(
    state: ScopeState, reading: Reading, levels: Mapping[str, WaterLevels], rules: Rules
) -> tuple[frozenset[str], datetime | None]:
    """Which resources are at the admission level, or were and are not back under it by the hysteresis.

    The hysteresis counts only once somebody has yielded: a load that came down by itself needs none.
    """
    load = reading.firm
    yielding = frozenset(
        r
        for r in RESOURCES
        if load[r] >= levels[r].admission
        or (
            r in state.yielding
            and state.yielded_at is not None
            and load[r] > levels[r].admission - rules.yield_hysteresis
        )
    )
    return yielding, state.yielded_at if yielding else None


def _levels_state(state: ScopeState, reading: Reading, levels: Mapping[str, WaterLevels]) -> LevelsState:
    """The worst resource governs."""
    if state.evicting:
        return LevelsState.EVICTING
    if any(reading.load[r] >= levels[r].lower for r in RESOURCES):
        return LevelsState.SPECULATIVE
    return LevelsState.FILLING


def _admit(state: ScopeState, now: datetime, rules: Rules) -> bool:
    """Closed while evicting and cooling down; and while jobs yield, or the first to yield would be back at
    once."""
    if state.closed:
        return False
    if state.yielded_at is None:
        return True
    return now >= state.yielded_at + timedelta(seconds=rules.cooldown)


# --- victims ------------------------------------------------------------------------------------------------


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
    """
    if reading.since < snapshot.started:
        return Wait.STARTED
    if pending is None or snapshot.now >= pending.until:
        return None
    if pending.gone_at is None or reading.since < pending.gone_at:
        return Wait.SETTLING
    return None


def _with_victims(decided: ScopeDecision, snapshot: Snapshot, rules: Rules, taken: Collection[str]) -> ScopeDecision:
    state, reading = decided.next_state, decided.reading
    assert reading is not None
    if state.pending is not None and decided.wait is None:
        state = replace(state, pending=None)
    decided = replace(decided, next_state=state)
    if decided.wait is not None or not (state.evicting or (rules.yield_at_checkpoint and state.yielding)):
        return decided
    trust, now, measurement = rules.trust, snapshot.now, snapshot.measurement
    known = candidates(
        snapshot.gangs,
        reading,
        measurement,
        now,
        trust,
        startup_cost=rules.startup_cost,
        without={*taken, *snapshot.refused},
        cpu_time=snapshot.cpu_time,
    )
    leaving = pending_release(
        snapshot.gangs, snapshot.recent_terminations, reading, measurement, now, trust, also=taken
    )
    if state.evicting:
        return _evict(decided, known, leaving, now, rules)
    if decided.scope == CLUSTER:
        return _yield(decided, known, leaving, now, rules)
    return decided


def _evict(
    decided: ScopeDecision, known: list[Candidate], leaving: Mapping[str, float], now: datetime, rules: Rules
) -> ScopeDecision:
    state, reading = decided.next_state, decided.reading
    assert reading is not None
    plan = plan_evictions(
        EvictionSnapshot(
            now=now,
            load=reading.firm,
            targets={r: decided.levels[r].lower for r in state.evicting},
            candidates=known,
            pending_release=leaving,
            waiting_since=state.waiting_since,
            rules=rules.eviction,
        )
    )
    if plan.held and state.waiting_since is None:
        state = replace(state, waiting_since=now)
    return replace(decided, plan=plan, next_state=state)


def _yield(
    decided: ScopeDecision, known: list[Candidate], leaving: Mapping[str, float], now: datetime, rules: Rules
) -> ScopeDecision:
    """Jobs that passed a checkpoint or start-over moment just now, as many as bring the load back under
    `admission` by the hysteresis. Not those that have only just started: they have written nothing yet."""
    state, reading = decided.next_state, decided.reading
    assert reading is not None
    gaps = {
        r: reading.firm[r] - (decided.levels[r].admission - rules.yield_hysteresis) - leaving[r] for r in state.yielding
    }
    ready = [
        c
        for c in known
        if c.preemptible
        and c.risk.since > c.risk.started
        and (now - c.risk.since).total_seconds() <= rules.yield_within
    ]
    return replace(decided, yields=least_lossy(ready, gaps, rules.eviction.max_victims))


# --- what has been done -------------------------------------------------------------------------------------


def after_evictions(state: ScopeState, evicted: Iterable[Victim], now: datetime, rules: Rules) -> ScopeState:
    """The state of a scope after these of its victims were really evicted (refusals are not among them)."""
    precise = [v.candidate.gang for v in evicted if v.reason is EvictionReason.ABOVE_UPPER]
    yielded = any(v.reason is EvictionReason.YIELD for v in evicted)
    if yielded:
        state = replace(state, yielded_at=now)
    if not precise:
        return state
    pods = [pod for gang in precise for pod in gang.pods]
    grace = max(pod.grace for pod in pods)
    pending = Pending(frozenset(pod.uid for pod in pods), now, now + timedelta(seconds=grace + rules.settle))
    return replace(state, pending=pending)


# --- publishing ---------------------------------------------------------------------------------------------


def _publish(
    cluster: ScopeDecision, history: Mapping[str, Figures], shut: frozenset[str], rules: Rules
) -> PublishedLevels:
    if cluster.reading is None:
        return PublishedLevels(LevelsState.BLIND, period_seconds=rules.period, message=cluster.reason)
    return PublishedLevels(
        state=cluster.state,
        preemptible_percentage=cluster.percentage,
        admit=cluster.admit,
        reserve=rules.reserve,
        observed_at=cluster.reading.observed_at,
        averaged_since=cluster.reading.since,
        period_seconds=rules.period,
        resources={r: _resource(cluster, r, history.get(r)) for r in RESOURCES},
        closed_nodes=shut,
        message=_message(cluster),
    )


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
    )


OUTCOME_MESSAGES: Mapping[Outcome, str] = {
    Outcome.NOBODY_LEFT: "above the upper level, and nothing preemptible is left that would lower it",
    Outcome.SHORT: "above the upper level, and what is preemptible does not bring it down to the lower one",
    Outcome.NO_FIGURES: "above the upper level, but no candidate has a figure to act by",
    Outcome.WAITING: "above the upper level; waiting for checkpoints that are due",
}


def _message(cluster: ScopeDecision) -> str:
    """What an administrator who looks at the ConfigMap should know; the figures stand beside it already."""
    if cluster.plan is not None:
        return OUTCOME_MESSAGES.get(cluster.plan.outcome, "")
    if cluster.wait is Wait.SETTLING:
        return "waiting for evicted pods to show in the measurements"
    return ""


MIN_MOVE = 0.5
"""Points by which a load, a level or the percentage must move to count as changed."""


def worth_publishing(old: PublishedLevels | None, new: PublishedLevels, now: datetime, period: float) -> bool:
    """Whether to write: something changed, or what stands there would be getting stale by the next time.

    Readers call it stale after three periods; half of one is left for the way there.
    """
    if old is None or _shape(old) != _shape(new):
        return True
    if any(abs(a - b) >= MIN_MOVE for a, b in zip(_numbers(old), _numbers(new), strict=True)):
        return True
    if new.observed_at is None or old.observed_at is None:
        return new.observed_at != old.observed_at
    age = (now - old.observed_at).total_seconds()
    return new.observed_at > old.observed_at and age + period > 2.5 * period


def _shape(levels: PublishedLevels) -> tuple[object, ...]:
    figures = {r: (one.mean is None, one.stdev is None) for r, one in levels.resources.items()}
    return (
        levels.state,
        levels.admit,
        levels.reserve,
        levels.period_seconds,
        levels.closed_nodes,
        frozenset(levels.crowded_nodes),
        levels.message,
        levels.preemptible_percentage is None,
        figures,
    )


def _numbers(levels: PublishedLevels) -> list[float]:
    numbers = [levels.preemptible_percentage or 0.0]
    for resource in sorted(levels.resources):
        one = levels.resources[resource]
        numbers += [one.load, one.lower, one.admission, one.upper, one.mean or 0.0, one.stdev or 0.0]
    return numbers
