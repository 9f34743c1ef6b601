"""Which loads of a pool CPU is taken for, and how much: from what was decided of it to lines, and to resizes. Pure.

Each metric that may be throttled for has a line, of the pool; so has each of its nodes for which a policy says from
where to where.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from scavenger_api.levels import LevelsState

from scavenger_regulator.core.eviction.candidates import leaving, sort_figures
from scavenger_regulator.core.eviction.plan import Candidate, order_of, sorter_for
from scavenger_regulator.core.eviction.risk import at_risk
from scavenger_regulator.core.levels import ThrottleLines
from scavenger_regulator.core.load import Fresh, Reading
from scavenger_regulator.core.metrics.metric import RESOURCES, Action, Metric, that_throttle
from scavenger_regulator.core.rules import Rules
from scavenger_regulator.core.scope import CLOCK_ERROR, ScopeDecision, yields_from
from scavenger_regulator.core.snapshot import Gang, PodFacts, Snapshot
from scavenger_regulator.core.throttle import (
    Line,
    ThrottleSnapshot,
    Use,
    owed,
    owed_of,
    plan_resizes,
    throttled,
)


@dataclass(frozen=True, slots=True)
class _Gap:
    """As in `throttle.Line`."""

    metric: Metric
    node: str | None
    over: float
    room: float


def throttle_pool(
    decided: ScopeDecision, snapshot: Snapshot, nodes: Mapping[str, ScopeDecision], rules: Rules
) -> ScopeDecision:
    """What was decided of a pool, and whose CPU is taken or given back. Where that is enough, no job yields.

    Args:
        decided: of the pool.
        snapshot: of the pool, with the gangs that it slows down.
        nodes: what was decided of its nodes that a policy has lines for.
        rules: of the administrator.
    """
    reading, state = decided.reading, decided.next_state
    if reading is None:
        return decided
    slow, gaps = throttled(snapshot.gangs), _gaps(decided, snapshot, nodes, rules)
    over = any(gap.over for gap in gaps)
    if not slow and not over:
        return decided
    use = _use("cpu", snapshot, rules)
    known = _candidates(snapshot.gangs if over else slow, snapshot, rules)
    lines = [_line(gap, known, snapshot, rules) for gap in gaps]
    gangs = next((line.gangs for line in lines if line.metric == "cpu"), ())
    infeasible = {pod.node for gang in snapshot.gangs for pod in gang.pods if pod.refused_resize}
    plan = plan_resizes(ThrottleSnapshot(decided.state, lines, gangs, use, infeasible), rules.throttle)
    owing = {"cpu": sum(owed(gang) for gang in slow)}
    owing |= {line.metric: owed_of(line, slow, use) for line in lines if line.node is None and line.metric != "cpu"}
    reading = _with_owed(reading, owing)
    kept = all(
        reading.firm[name] + reading.ramping[name] < decided.levels[name].admission
        for name, amount in owing.items()
        if name not in RESOURCES and amount > 0
    )
    return replace(
        decided,
        reading=reading,
        admit=decided.admit and kept,  # the admitter adds up CPU and memory only
        next_state=replace(state, restored_at=snapshot.now) if plan.gives_back else state,
        yields=() if state.yielding <= plan.closed else decided.yields,
        throttle=plan,
    )


def _gaps(decided: ScopeDecision, snapshot: Snapshot, nodes: Mapping[str, ScopeDecision], rules: Rules) -> list[_Gap]:
    """Of each metric that is measured, the most urgent first: of the pool, then of its nodes."""
    restored = decided.next_state.restored_at
    # What was given back last has to show first, or the same capacity would be given away again.
    shown = max(snapshot.started, restored + CLOCK_ERROR if restored else snapshot.started)
    gaps = []
    for metric in that_throttle(rules.metrics):
        gaps.append(_gap(metric, None, decided, metric.lines, shown, rules))
        for name, node in nodes.items():
            lines = snapshot.nodes[name].lines.get(metric.name)
            gaps.append(_gap(metric, name, node, lines, shown, rules) if lines else None)
    return [gap for gap in gaps if gap is not None]


def _gap(
    metric: Metric,
    node: str | None,
    scope: ScopeDecision,
    lines: ThrottleLines | None,
    shown: datetime,
    rules: Rules,
) -> _Gap | None:
    """How far the load of a scope is above what it is brought down to, and below what it may rise to; None where it is
    not known. lines: without, it is brought to the admission threshold from where jobs yield.

    Where jobs are evicted for the scope, nothing is taken nor given back.
    """
    name, reading = metric.name, scope.reading
    if reading is None or name not in reading.firm:
        return None
    if scope.state is LevelsState.EVICTING:
        return _Gap(metric, node, 0.0, 0.0)
    levels, load = scope.levels[name], reading.firm[name]
    if lines is None:
        lines = ThrottleLines(yields_from(levels, rules), levels.admission)
        high = load >= lines.throttle or name in scope.next_state.yielding
    else:
        lines = lines.under(levels.upper)
        high = load >= lines.throttle
    seen = (reading.since if name in RESOURCES else reading.shown) >= shown
    over = max(0.0, load - lines.restore) if high else 0.0
    room = max(0.0, lines.restore - load - reading.ramping[name]) if seen else 0.0
    if metric.throttle is Action.UNQUANTIFIED:
        return _Gap(metric, node, math.inf if over else 0.0, math.inf if room else 0.0)
    points = reading.room[name] / 100
    return _Gap(metric, node, over * points, room * points)


def _line(gap: _Gap, known: Iterable[Candidate], snapshot: Snapshot, rules: Rules) -> Line:
    metric = gap.metric
    order = sorter_for(order_of(metric, rules.eviction.order), metric.name)
    gangs = [one.gang for one in sorted(known, key=order)]
    use = _use(metric.name, snapshot, rules) if metric.throttle is Action.QUANTIFIED else None
    return Line(metric.name, gap.over, gap.room, gangs, use, gap.node)


def _use(metric: str, snapshot: Snapshot, rules: Rules) -> Use:
    fresh = Fresh(snapshot.now, rules.trust)

    def use(pod: PodFacts) -> float | None:
        figure = snapshot.measurement.of(pod).get(metric)
        return figure.value if figure is not None and fresh.has(figure) else None

    return use


def _candidates(gangs: Iterable[Gang], snapshot: Snapshot, rules: Rules) -> list[Candidate]:
    """Those of them that run and stay, with what orders them."""
    now, fresh = snapshot.now, Fresh(snapshot.now, rules.trust)
    metrics = [metric.name for metric in rules.metrics if metric.sort]
    return [
        Candidate(
            gang,
            at_risk(gang, now, rules.risk, snapshot.cpu_time),
            {},
            gang.preemptible,
            sort=sort_figures([snapshot.measurement.of(pod) for pod in gang.pods], metrics, fresh),
        )
        for gang in gangs
        if gang.running and not leaving(gang, now)
    ]


def _with_owed(reading: Reading, owing: Mapping[str, float]) -> Reading:
    """The reading with what throttled jobs are owed as load to come. owing: in units, by metric."""
    points = {name: reading.ramping[name] + reading.percent(name, amount) for name, amount in owing.items()}
    return replace(reading, ramping={**reading.ramping, **{name: min(100.0, one) for name, one in points.items()}})
