"""What the regulator says of its decisions in the log: one line for each that changes something, with the figures that
led to it; the rest at debug."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from scavenger_runtime.logging import get_logger

from scavenger_regulator.core.plan import Decision
from scavenger_regulator.core.reclaimed.node_memory import NodeMemoryPlan
from scavenger_regulator.core.scope import ScopeDecision
from scavenger_regulator.core.snapshot import POOL

log = get_logger(__name__)


def log_decision(decision: Decision, last: Mapping[str, ScopeDecision]) -> None:
    """A line for each pool. last: what was decided of pools in the period before, by scope."""
    for scope, pool in decision.pools.items():
        _log_pool(decision, pool, last.get(scope))


def _log_pool(decision: Decision, cluster: ScopeDecision, last: ScopeDecision | None) -> None:
    said = (cluster.state, cluster.admit, cluster.unmeasured)
    changed = last is None or (last.state, last.admit, last.unmeasured) != said
    victims = sum(victim.scope == cluster.scope for victim in decision.victims)
    write: Callable[..., Any] = log.info if changed or decision.victims else log.debug
    reading, plan = cluster.reading, cluster.plan
    write(
        "decided",
        pool=cluster.scope.removeprefix(POOL) or None,
        state=cluster.state.value,
        admit=cluster.admit,
        reason=cluster.reason or None,
        percentage=None if cluster.percentage is None else round(cluster.percentage, 1),
        load={r: round(v, 2) for r, v in reading.load.items()} if reading else None,
        levels={r: (round(w.lower, 2), round(w.admission, 2), round(w.upper, 2)) for r, w in cluster.levels.items()},
        observed_at=reading.observed_at.isoformat() if reading else None,
        unmeasured=cluster.unmeasured or None,
        wait=cluster.wait.value if cluster.wait else None,
        plan=plan.outcome.value if plan else None,
        gaps={r: round(v, 2) for r, v in plan.gaps.items()} if plan else None,
        pending_release={r: round(v, 2) for r, v in plan.pending_release.items()} if plan else None,
        short={r: round(v, 2) for r, v in plan.short.items()} if plan else None,
        held=len(plan.held) if plan else 0,
        victims=victims if decision.pool_of else len(decision.victims),
    )


def log_node_memory(plan: NodeMemoryPlan, *, newly_short: bool) -> None:
    """newly_short: no job is left that may go from the node, for the first time."""
    write = log.info if plan.victims or newly_short else log.debug
    write(
        "node memory",
        node=plan.node,
        load=round(plan.load, 2),
        projected=round(plan.projected, 2),
        upper=round(plan.upper, 2),
        victims=len(plan.victims),
        short=round(plan.short, 2),
        protected=plan.protected,
    )
