"""One period of the regulator: from a snapshot and what is remembered to all that is done in it. Pure.

The scopes are decided first (`scope`): each node where that is switched on, then the cluster. From their levels follow
what is published, who goes before a node runs out of memory, what nodes offer, and which containers are resized.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from scavenger_api.evictions import EvictionReason
from scavenger_api.levels import PublishedLevels

from scavenger_regulator.core.levels import WaterLevels
from scavenger_regulator.core.publication import published_levels
from scavenger_regulator.core.reclaimed.node_memory import NodeMemoryPlan, plan_node_memory
from scavenger_regulator.core.reclaimed.offer import Offer, plan_offers, to_write
from scavenger_regulator.core.reclaimed.state import ReclaimedState
from scavenger_regulator.core.rules import Rules
from scavenger_regulator.core.scope import ScopeDecision, Victim, decide_scope
from scavenger_regulator.core.snapshot import CLUSTER, PodFacts, Snapshot
from scavenger_regulator.core.state import ScopeState
from scavenger_regulator.core.throttle import Resize, plan_resizes


@dataclass(frozen=True, slots=True)
class Decision:
    """All that is decided in a period.

    published: the levels. victims: whom to evict, in this order: for load first, then for the memory of nodes. scopes:
    what was decided of each scope. node_memory: the nodes that are short of memory. offers: what each node should
    offer, by its name; changed_offers: those that it does not show yet. withdrawals: nodes that still show an offer
    though reclaimed capacity is off. resizes: containers to throttle, or to give their CPU back. prolonged: pods that
    are being deleted with a longer grace period than their own, which they are to have instead.
    """

    published: PublishedLevels
    victims: tuple[Victim, ...]
    scopes: Mapping[str, ScopeDecision] = field(default_factory=dict)
    node_memory: tuple[NodeMemoryPlan, ...] = ()
    offers: Mapping[str, Offer] = field(default_factory=dict)
    changed_offers: tuple[Offer, ...] = ()
    withdrawals: tuple[str, ...] = ()
    resizes: tuple[Resize, ...] = ()
    prolonged: tuple[PodFacts, ...] = ()

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


def regulate(
    snapshot: Snapshot, states: Mapping[str, ScopeState], rules: Rules, reclaimed: ReclaimedState | None = None
) -> Decision:
    """Decide one period.

    states: as the last one left them, by scope; a scope not in there starts afresh. reclaimed: what is known of
    reclaimed capacity, with the present measurement taken in (`observe`); None where it is off.
    """
    decision = _decide_load(snapshot, states, rules)
    if reclaimed is None:
        shown = tuple(node.name for node in snapshot.nodes.values() if node.offered or not node.copied)
        decision = replace(decision, withdrawals=shown)
    else:
        decision = _with_reclaimed(decision, snapshot, reclaimed, rules)
    prolonged = tuple(pod for gang in snapshot.gangs for pod in gang.pods if pod.prolonged)
    return replace(decision, resizes=_resizes(decision, snapshot, rules), prolonged=prolonged)


# --- load ---------------------------------------------------------------------------------------------------


def _decide_load(snapshot: Snapshot, states: Mapping[str, ScopeState], rules: Rules) -> Decision:
    taken: set[str] = set()
    scopes: dict[str, ScopeDecision] = {}
    victims: list[Victim] = []
    for scope, part in _scopes(snapshot, rules):
        scopes[scope] = decide_scope(scope, part, states.get(scope, ScopeState()), rules, taken)
        for victim in _victims(scopes[scope]):
            taken.add(victim.candidate.gang.uid)
            victims.append(victim)
    closed = frozenset(scope for scope, decided in scopes.items() if scope != CLUSTER and decided.closed)
    headroom = {s: left for s, one in scopes.items() if s != CLUSTER and (left := one.headroom) is not None}
    published = published_levels(scopes[CLUSTER], snapshot.history.get(CLUSTER, {}), closed, headroom, rules)
    return Decision(published, tuple(victims[: rules.eviction.max_victims]), scopes)


def _scopes(snapshot: Snapshot, rules: Rules) -> Iterator[tuple[str, Snapshot]]:
    """The scopes with what each is to look at. Nodes first: what they free is subtracted from what the cluster has to
    free. A node looks at its own gangs: all nodes at all gangs took two seconds at a thousand nodes."""
    if rules.per_node:
        gangs, terminations = snapshot.gangs_by_node, snapshot.recent_terminations_by_node
        for name, node in sorted(snapshot.nodes.items()):
            if node.counts:
                here = tuple(gangs.get(name, ()))
                yield name, replace(snapshot, gangs=here, recent_terminations=tuple(terminations.get(name, ())))
    yield CLUSTER, snapshot


def _victims(decided: ScopeDecision) -> Iterable[Victim]:
    for candidate in decided.plan.victims if decided.plan else ():
        yield Victim(candidate, EvictionReason.ABOVE_UPPER, decided.scope)
    for candidate in decided.yields:
        yield Victim(candidate, EvictionReason.YIELD, decided.scope)


# --- reclaimed capacity -------------------------------------------------------------------------------------


def _with_reclaimed(decision: Decision, snapshot: Snapshot, reclaimed: ReclaimedState, rules: Rules) -> Decision:
    """The decision with the victims for the memory of nodes, the offers, and the nodes that are crowded."""
    levels = {node: on_node for node in snapshot.nodes if (on_node := decision.levels_on(node))}
    uppers = {node: on_node["memory"].upper for node, on_node in levels.items()}
    taken = {victim.candidate.gang.uid for victim in decision.victims}
    plans = plan_node_memory(snapshot, uppers, reclaimed.trends, rules.node_memory, taken)
    admission = {node: {r: one.admission for r, one in on_node.items()} for node, on_node in levels.items()}
    offers = plan_offers(snapshot, reclaimed.uses, reclaimed.last_samples, admission, reclaimed.profiles, rules.offers)
    crowded = {name: offer.crowded for name, offer in offers.items() if offer.crowded is not None}
    for_memory = (Victim(one, EvictionReason.NODE_MEMORY, plan.node) for plan in plans for one in plan.victims)
    return replace(
        decision,
        published=replace(decision.published, crowded_nodes=crowded),
        victims=(*decision.victims, *for_memory),
        node_memory=plans,
        offers=offers,
        changed_offers=tuple(to_write(snapshot.nodes, offers.values())),
    )


# --- throttling ---------------------------------------------------------------------------------------------


def _resizes(decision: Decision, snapshot: Snapshot, rules: Rules) -> tuple[Resize, ...]:
    """Of the jobs that stay."""
    if not rules.throttle.enabled:  # rather than look at every pod for it
        return ()
    victims = {victim.candidate.gang.uid for victim in decision.victims}
    infeasible = {pod.node for gang in snapshot.gangs for pod in gang.pods if pod.refused_resize}
    staying = (gang for gang in snapshot.gangs if gang.uid not in victims)
    return plan_resizes(decision.scopes[CLUSTER].state, staying, infeasible, rules.throttle)
