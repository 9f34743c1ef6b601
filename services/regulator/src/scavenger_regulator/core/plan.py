"""One period of the regulator: from a snapshot and what is remembered to all that is done in it. Pure.

The scopes are decided first (`scope`): each node where that is switched on, then each pool of nodes. From their levels
follow what is published, who goes before a node runs out of memory, what nodes offer, and which containers are resized.

Pools are nodes alike in lasting taints and devices (`scavenger_domain.nodes.pool_of`). The default pool is the scope
`CLUSTER`: the pool with most allocatable CPU, and the nodes of all pools beyond MOST_POOLS. A cluster of one pool is
one scope.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from scavenger_api.evictions import EvictionReason
from scavenger_api.levels import LevelsState, PublishedLevels
from scavenger_api.levels_text import MOST_POOLS
from scavenger_domain.nodes import PLAIN_POOL
from scavenger_domain.soundness import CHECKS

from scavenger_regulator.core.eviction.candidates import leaving
from scavenger_regulator.core.eviction.plan import EvictionPlan, Outcome
from scavenger_regulator.core.history import Figures
from scavenger_regulator.core.levels import WaterLevels
from scavenger_regulator.core.metrics.metric import RESOURCES
from scavenger_regulator.core.publication import published_levels, with_pools
from scavenger_regulator.core.reclaimed.node_memory import NodeMemoryPlan, plan_node_memory
from scavenger_regulator.core.reclaimed.offer import Offer, plan_offers, to_write
from scavenger_regulator.core.reclaimed.state import ReclaimedState
from scavenger_regulator.core.rules import Rules
from scavenger_regulator.core.scope import ScopeDecision, Victim, decide_scope
from scavenger_regulator.core.snapshot import CLUSTER, POOL, Gang, NodeFacts, PodFacts, Snapshot, of_pool
from scavenger_regulator.core.state import ScopeState
from scavenger_regulator.core.throttle import Resize, restored
from scavenger_regulator.core.throttling import throttle_pool

FEW_NODES: Final = 2
"""A pool of so many nodes has the deviation of the default pool."""

STAYS: Final = 1.5
"""By so many times another pool has to be larger to take the place of one that has levels."""

T = TypeVar("T")


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
    pool_of: Mapping[str, str] = field(default_factory=dict)
    """The scope of the pool of each node, where that is not the default pool."""
    regular: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """What regular pods request on the nodes of each pool, by scope and resource, in cores and bytes; empty where the
    regulator does not follow them."""
    moved: Mapping[str, str] = field(default_factory=dict)
    """Another pool has become the default pool: what was of the first scope is of the second from now on."""

    @property
    def pools(self) -> dict[str, ScopeDecision]:
        """What was decided of pools, by scope: of the default pool, and of those with levels of their own."""
        return {scope: decided for scope, decided in self.scopes.items() if of_pool(scope)}

    @property
    def states(self) -> dict[str, ScopeState]:
        """What to remember, by scope."""
        return {scope: decided.next_state for scope, decided in self.scopes.items()}

    def levels_on(self, node: str) -> Mapping[str, WaterLevels]:
        """The levels in force on a node: its own where those were drawn, else its pool's; none while that is Blind."""
        pool = self.scopes[self.pool_of.get(node, CLUSTER)]
        own = self.scopes.get(node, pool)
        if pool.reading is None:
            return {}
        return pool.levels if own.reading is None else own.levels


def regulate(
    snapshot: Snapshot, states: Mapping[str, ScopeState], rules: Rules, reclaimed: ReclaimedState | None = None
) -> Decision:
    """Decide one period.

    states: as the last one left them, by scope; a scope not in there starts afresh. reclaimed: what is known of
    reclaimed capacity, with the present measurement taken in (`observe`); None where it is off.
    """
    decision = _decide_load(snapshot, states, rules)
    if reclaimed is None:
        shown = tuple([node.name for node in snapshot.nodes.values() if node.offered or not node.copied])
        decision = replace(decision, withdrawals=shown)
    else:
        decision = _with_reclaimed(decision, snapshot, reclaimed, rules)
    prolonged = tuple([pod for gang in snapshot.gangs for pod in gang.pods if pod.prolonged])
    decision = replace(decision, resizes=_resizes(decision, snapshot, rules), prolonged=prolonged)
    if CHECKS.on:
        assert_sound(decision, snapshot, rules)
    return decision


# --- load ---------------------------------------------------------------------------------------------------


def _decide_load(snapshot: Snapshot, states: Mapping[str, ScopeState], rules: Rules) -> Decision:
    default, pool_of = _pools(snapshot, states)
    moved = _moved(default, states)
    if moved:
        states = renamed(states, moved)
        snapshot = replace(snapshot, history=renamed(snapshot.history, moved), rises=renamed(snapshot.rises, moved))
    states = {**states, CLUSTER: replace(states.get(CLUSTER, ScopeState()), pool=default)}
    taken: set[str] = set()
    scopes: dict[str, ScopeDecision] = {}
    victims: list[Victim] = []
    pools: dict[str, PublishedLevels] = {}
    regular: dict[str, Mapping[str, float]] = {}
    for scope, part in _scopes(snapshot, pool_of, rules):
        decided = decide_scope(scope, part, states.get(scope, ScopeState()), rules, taken)
        if of_pool(scope):
            decided = _throttle(decided, part, pool_of, scopes, rules)
            decided = replace(decided, kept=_kept(decided, part, rules))
            regular |= _regular(scope, part)
            history, source = part.history.get(scope, {}), snapshot.measurement.source
            pools[scope] = published_levels(decided, snapshot.now, history, rules, source)
        scopes[scope] = decided
        for victim in _victims(decided):
            taken.add(victim.candidate.gang.uid)
            victims.append(victim)
    shut = {scope for scope in pools if scope != CLUSTER and not scopes[scope].admit}
    closed = {scope for scope, decided in scopes.items() if not of_pool(scope) and decided.closed}
    closed |= {node for node, scope in pool_of.items() if scope in shut}
    nodes = {scope: one for scope, one in scopes.items() if not of_pool(scope) and scope not in closed}
    headroom = {node: left for node, one in nodes.items() if (left := one.headroom) is not None}
    default_levels = pools.pop(CLUSTER)
    by_name = {scope.removeprefix(POOL): one for scope, one in sorted(pools.items())}
    published = with_pools(default_levels, by_name, frozenset(closed), headroom)
    if by_name:
        published = replace(published, pool_ignores=rules.pool_ignores)
    found = tuple(victims[: rules.eviction.max_victims])
    return Decision(published, found, scopes, pool_of=pool_of, regular=regular, moved=moved)


def _scopes(snapshot: Snapshot, pool_of: Mapping[str, str], rules: Rules) -> Iterator[tuple[str, Snapshot]]:
    """The scopes with what each is to look at. Nodes first: what they free is subtracted from what their pool has to
    free. A node looks at its own gangs: all nodes at all gangs took two seconds at a thousand nodes."""
    if rules.per_node:
        gangs, terminations = snapshot.gangs_by_node, snapshot.recent_terminations_by_node
        for name, node in sorted(snapshot.nodes.items()):
            if node.counts:
                here = tuple(gangs.get(name, ()))
                yield name, replace(snapshot, gangs=here, recent_terminations=tuple(terminations.get(name, ())))
    if not pool_of:
        yield CLUSTER, snapshot
        return
    nodes: dict[str, dict[str, NodeFacts]] = {CLUSTER: {}}
    for name, node in snapshot.nodes.items():
        nodes.setdefault(pool_of.get(name, CLUSTER), {})[name] = node
    members: dict[str, list[Gang]] = {scope: [] for scope in nodes}
    for gang in snapshot.gangs:
        for scope in dict.fromkeys([pool_of.get(pod.node, CLUSTER) for pod in gang.pods]):
            members[scope].append(gang)
    for scope in sorted(nodes):
        part = replace(snapshot, nodes=nodes[scope], gangs=tuple(members[scope]))
        yield scope, part if scope == CLUSTER else replace(part, history={scope: _history(scope, part, rules)})


def _history(scope: str, part: Snapshot, rules: Rules) -> Mapping[str, Figures]:
    """What the levels of a pool follow: the default pool's deviation where it has few nodes, whose load jumps with each
    pod, and until it has been measured for long enough."""
    default, own = part.history.get(CLUSTER, {}), part.history.get(scope, {})
    if sum(node.counts for node in part.nodes.values()) <= FEW_NODES:
        return default
    return {**default, **{r: one for r, one in own.items() if one.samples >= rules.min_samples or r not in default}}


# --- capacity kept for regular pods -------------------------------------------------------------------------


def _regular(scope: str, part: Snapshot) -> dict[str, Mapping[str, float]]:
    """What regular pods request on the nodes of a pool. A node that does not count for now keeps its pods."""
    if part.regular is None:
        return {}
    there = [amounts for name, amounts in part.regular.items() if name in part.nodes]
    return {scope: {r: sum([amounts.get(r, 0.0) for amounts in there]) for r in RESOURCES}}


def _kept(decided: ScopeDecision, part: Snapshot, rules: Rules) -> dict[str, float]:
    """What jobs leave free in a pool, in percent of what its nodes can allocate: as much as regular pods may request
    more within half an hour."""
    reading = decided.reading
    if reading is None or not rules.kept_room:
        return {}
    rises = part.rises.get(decided.scope, {})
    return {r: min(100.0, 100.0 * rise / reading.whole[r]) for r, rise in rises.items()}


# --- pools --------------------------------------------------------------------------------------------------


def _pools(snapshot: Snapshot, states: Mapping[str, ScopeState]) -> tuple[str, dict[str, str]]:
    """The name of the default pool, and the scopes of the nodes that are in another one.

    By allocatable CPU, which changes all the time where an autoscaler works: a pool that has levels gives them up, and
    its place as the default pool, only to one that is STAYS times as large.
    """
    before = states[CLUSTER].pool if CLUSTER in states else ""
    if snapshot.measurement.total and not snapshot.measurement.nodes:
        return before, {}  # the load is known in one piece
    cores: dict[str, float] = {}
    for node in snapshot.nodes.values():
        if node.counts:
            cores[node.pool] = cores.get(node.pool, 0.0) + node.allocatable.get("cpu", 0.0)
    if len(cores) < 2:
        return next(iter(cores), before), {}
    largest = min(cores, key=lambda name: (-cores[name], name != PLAIN_POOL, name))
    default = before if cores.get(before, 0.0) * STAYS >= cores[largest] else largest
    rank = {name: size * (STAYS if POOL + name in states else 1.0) for name, size in cores.items() if name != default}
    others = sorted(rank, key=lambda name: (-rank[name], name))[:MOST_POOLS]
    scopes = {name: POOL + name for name in others}
    return default, {name: scopes[node.pool] for name, node in snapshot.nodes.items() if node.pool in scopes}


def _moved(default: str, states: Mapping[str, ScopeState]) -> dict[str, str]:
    """Which scopes are others, as another pool is the default pool. A default pool that nothing is known of goes on
    from what the last one was: its nodes are most of them the same, with another taint or device."""
    before = states[CLUSTER].pool if CLUSTER in states else ""
    if not before or default == before or POOL + default not in states:
        return {}
    return {CLUSTER: POOL + before, POOL + default: CLUSTER}


def renamed(by_scope: Mapping[str, T], moved: Mapping[str, str]) -> dict[str, T]:
    """The same by the names that scopes have from now on. moved: see `Decision`."""
    return {moved.get(scope, scope): one for scope, one in by_scope.items()}


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


def _throttle(
    decided: ScopeDecision,
    snapshot: Snapshot,
    pool_of: Mapping[str, str],
    scopes: Mapping[str, ScopeDecision],
    rules: Rules,
) -> ScopeDecision:
    """A gang over several pools is slowed down by the pool of its first pod alone, or one would take what another
    gives."""
    if not rules.throttle.enabled:
        return decided
    if pool_of:
        own = tuple(g for g in snapshot.gangs if g.pods and pool_of.get(g.pods[0].node, CLUSTER) == decided.scope)
        snapshot = replace(snapshot, gangs=own)
    nodes = {name: scopes[name] for name, node in snapshot.nodes.items() if node.lines and name in scopes}
    return throttle_pool(decided, snapshot, nodes, rules)


def _resizes(decision: Decision, snapshot: Snapshot, rules: Rules) -> tuple[Resize, ...]:
    """Of the jobs that stay. Where throttling is off, what was throttled before is restored, also while Blind."""
    victims = {victim.candidate.gang.uid for victim in decision.victims}
    pools = decision.pools.values()
    found = [r for one in pools for r in one.throttle.resizes] if rules.throttle.enabled else restored(snapshot.gangs)
    return tuple(one for one in found if one.gang.uid not in victims)[: rules.throttle.max_resizes]


# --- what holds of every period -----------------------------------------------------------------------------


def assert_sound(decision: Decision, snapshot: Snapshot, rules: Rules) -> None:
    """Raise AssertionError where levels are out of order, or a job is evicted that must not be.

    Args:
        decision: of one period.
        snapshot: on what.
        rules: of the administrator.
    """
    for decided in decision.scopes.values():
        _assert_scope(decided)
        if decided.plan is not None:
            _assert_plan(decided.plan, rules)
    _assert_victims(decision, snapshot, rules)
    for scope, pool in decision.pools.items():
        shown = decision.published.pools[scope.removeprefix(POOL)] if scope else decision.published
        assert shown.state is pool.state, f"published: {shown.state} of a pool that is {pool.state}"
        assert shown.preemptible_percentage == pool.percentage, "published: another percentage than was decided"
        assert not (shown.admit and not pool.admit), "published: admit, though the pool is closed"
    shut = {node for node, scope in decision.pool_of.items() if not decision.scopes[scope].admit}
    assert shut <= decision.published.closed_nodes, "closedNodes: without nodes of a pool that is shut"
    for offer in decision.offers.values():
        wrong = {resource: amount for resource, amount in offer.amounts.items() if amount < 0}
        assert not wrong, f"offers: node {offer.node} offers {wrong}"
    gone = {victim.candidate.gang.uid for victim in decision.victims}
    assert not any(one.gang.uid in gone for one in decision.resizes), "resizes: of a job that is evicted"


def _assert_scope(decided: ScopeDecision) -> None:
    """Levels and percentage in percent; nothing is decided of a load that is not known."""
    where, percentage = f"scope {decided.scope}", decided.percentage
    for resource, one in decided.levels.items():
        ordered = 0.0 <= one.lower <= one.admission <= one.upper <= 100.0
        assert ordered, f"levels: {where}: not 0 <= lower <= admission <= upper <= 100: {resource}: {one}"
    if decided.reading is None:
        assert decided.state is LevelsState.BLIND, f"state: {where}: {decided.state} without a load"
        assert not decided.admit, f"admit: {where}: without a load"
        assert percentage is None, f"percentage: {where}: {percentage} without a load"
        assert decided.plan is None and not decided.yields, f"plan: {where}: evicts without a load"  # noqa: PT018
        return
    assert percentage is not None and 0.0 <= percentage <= 100.0, f"percentage: {where}: {percentage}"  # noqa: PT018
    evicts = decided.state is LevelsState.EVICTING
    assert evicts == bool(decided.next_state.evicting), f"state: {where}: {decided.state}"
    assert not (evicts and decided.admit), f"admit: {where}: though jobs are evicted"


def _assert_plan(plan: EvictionPlan, rules: Rules) -> None:
    """Each of them goes, or is waited for, and not both; a plan that closes all gaps leaves none open."""
    groups = {"victims": plan.victims, "held": plan.held, "awaited": plan.awaited}
    uids = [one.gang.uid for group in groups.values() for one in group]
    assert len(uids) == len(set(uids)), (
        f"plan: a job twice: { {n: [c.gang.uid for c in g] for n, g in groups.items()} }"
    )
    assert all(one.preemptible for one in plan.victims), "plan: a victim that is not preemptible"
    assert len(plan.victims) <= rules.eviction.max_victims, f"plan: {len(plan.victims)} victims in a period"
    assert all(gap > 0.0 for gap in plan.gaps.values()), f"gaps: {plan.gaps}"
    assert plan.gaps or not plan.victims, "plan: victims without a gap"
    assert plan.outcome is not Outcome.PLANNED or not plan.short, f"short: of a plan that closes all gaps: {plan.short}"


def _assert_victims(decision: Decision, snapshot: Snapshot, rules: Rules) -> None:
    """Each goes once, is preemptible, is there, and was not refused a moment ago, and no more go than may."""
    uids = [victim.candidate.gang.uid for victim in decision.victims]
    assert len(uids) == len(set(uids)), f"victims: a job twice: {uids}"
    there = {gang.uid for gang in snapshot.gangs}
    for victim in decision.victims:
        gang = victim.candidate.gang
        assert gang.preemptible, f"victims: {gang.key} is not preemptible"
        assert gang.uid in there, f"victims: {gang.key} is not there"
        assert gang.uid not in snapshot.refused, f"victims: the eviction of {gang.key} was refused"
        assert not leaving(gang, snapshot.now), f"victims: {gang.key} is on its way out"
    for_load = sum(victim.reason is not EvictionReason.NODE_MEMORY for victim in decision.victims)
    assert for_load <= rules.eviction.max_victims, f"victims: {for_load} in a period"
    assert len(uids) - for_load <= rules.node_memory.max_victims, f"victims: {len(uids) - for_load} for memory"
