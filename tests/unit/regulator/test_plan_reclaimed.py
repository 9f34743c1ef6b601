"""What `regulate` decides of reclaimed capacity: victims for the memory of nodes, offers, withdrawals."""

from __future__ import annotations

from dataclasses import replace

from scavenger_api.evictions import EvictionReason
from scavenger_regulator.core.plan import Decision, regulate
from scavenger_regulator.core.reclaimed.offer import OfferRules
from scavenger_regulator.core.reclaimed.profile import Profiles
from scavenger_regulator.core.reclaimed.state import ReclaimedState, observe
from scavenger_regulator.core.rules import Rules
from scavenger_regulator.core.snapshot import Gang, Measurement, Snapshot

from tests.unit.regulator.builders import GIB, ago, figures, gang, node, snapshot

RULES = Rules(yield_at_checkpoint=False, offers=OfferRules(enabled=True, min_samples=1))
OFFERED = {"cpu": 2000, "memory": 10_240}


def decide(seen: Snapshot, rules: Rules = RULES) -> Decision:
    return regulate(seen, {}, rules, observe(ReclaimedState(Profiles(3600)), seen, rules.trust))


def two_nodes(*gangs: Gang, cpu: float = 2, memory: float = 50, **facts: object) -> Snapshot:
    """The first node uses so many cores and GiB, the other, ten times its size, hardly anything; a pod a core and
    10 GiB."""
    pods = {p.key: figures(1, 10 * GIB) for one in gangs for p in one.pods}
    use = {"node-1": figures(cpu, memory * GIB), "node-2": figures(1, GIB)}
    nodes = {"node-1": node(offered=OFFERED), "node-2": node("node-2", cores=100, memory=1000 * GIB)}
    made = snapshot(gangs, nodes=nodes, measurement=Measurement(use, pods))
    return replace(made, **facts)  # type: ignore[arg-type]


def reclaimed(name: str, started: float = 600) -> Gang:
    return gang(name, started, pod_reclaimed=True, pod_requests={"cpu": 1.0, "memory": 10 * GIB})


def victims(decision: Decision) -> list[tuple[str, EvictionReason, str]]:
    return [(v.candidate.gang.key.removeprefix("lab/"), v.reason, v.scope) for v in decision.victims]


def test_who_goes_for_the_memory_of_a_node_is_among_the_victims() -> None:
    decision = decide(two_nodes(reclaimed("young", 300), reclaimed("old", 1500), memory=86))
    assert victims(decision) == [("young", EvictionReason.NODE_MEMORY, "node-1")]
    assert [plan.node for plan in decision.node_memory] == ["node-1"]


def test_who_goes_for_the_load_comes_first_and_goes_only_once() -> None:
    rules = replace(RULES, per_node=True)
    decision = decide(two_nodes(reclaimed("young", 300), reclaimed("old", 1500), memory=95), rules)
    assert [name for name, _, _ in victims(decision)] == ["young", "old"]
    assert {reason for _, reason, _ in victims(decision)} == {EvictionReason.ABOVE_UPPER}


def test_offers_of_all_nodes_and_those_that_they_do_not_show_yet() -> None:
    decision = decide(two_nodes())
    assert set(decision.offers) == {"node-1", "node-2"}
    assert decision.offers["node-1"].amounts["cpu"] > OFFERED["cpu"]
    assert {one.node for one in decision.changed_offers} == {"node-1", "node-2"}
    assert decision.withdrawals == ()


def test_a_crowded_node_is_published() -> None:
    decision = decide(two_nodes(reclaimed("a"), cpu=9.5))
    assert set(decision.published.crowded_nodes) == {"node-1"}
    assert decision.offers["node-1"].crowded == decision.published.crowded_nodes["node-1"]


def test_where_it_is_off_what_is_left_is_withdrawn_and_nobody_goes_for_memory() -> None:
    seen = two_nodes(reclaimed("a"), memory=95)
    decision = regulate(seen, {}, RULES)
    assert decision.withdrawals == ("node-1",)
    assert (decision.victims, decision.offers, decision.changed_offers) == ((), {}, ())


def test_while_blind_nobody_goes_and_nothing_is_offered_anew() -> None:
    seen = replace(two_nodes(reclaimed("a"), memory=95), measurement=Measurement(failed="no metrics"))
    decision = decide(seen)
    assert (decision.victims, decision.node_memory, decision.changed_offers) == ((), (), ())


def test_a_trend_needs_samples_of_several_periods() -> None:
    state = ReclaimedState(Profiles(3600))
    for age, used in ((70, 40), (40, 50), (10, 60)):
        taken = {"node-1": figures(2, used * GIB, age=age), "node-2": figures(1, GIB, age=age)}
        state = observe(state, replace(two_nodes(), now=ago(age), measurement=Measurement(taken)), RULES.trust)
    assert round(state.trends["node-1"].growth * 30 / GIB) == 10
    assert state.last_samples["node-1"].new
