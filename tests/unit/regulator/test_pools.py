"""Pools of nodes: each has its own load, levels, state and victims; a cluster of one pool is one scope."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scavenger_api.levels import LevelsState, LevelsView, PublishedLevels, Visibility
from scavenger_api.levels_text import MOST_POOLS
from scavenger_domain.nodes import PLAIN_POOL, pool_of
from scavenger_kube.kinds import Node
from scavenger_regulator.core.history import Figures
from scavenger_regulator.core.plan import Decision, regulate, renamed
from scavenger_regulator.core.publication import published_levels
from scavenger_regulator.core.rules import Rules
from scavenger_regulator.core.scope import decide_scope
from scavenger_regulator.core.snapshot import CLUSTER, POOL, Gang, Snapshot
from scavenger_regulator.core.state import ScopeState, dump_states, load_states, states_from_published
from scavenger_regulator.core.throttle import ThrottleRules
from scavenger_regulator.facts import node_facts

from tests.unit.regulator.builders import GIB, NOW, ago, figures, gang, measured, names, node, snapshot

RULES = Rules(cpu_samples=1)
GPU = "gpu-1"


def two_pools(cpu: float, gpu: float, gangs: tuple[Gang, ...] = (), gpu_nodes: int = 4, **facts: Any) -> Snapshot:
    """Four plain nodes, and nodes with a GPU; of each pool every node uses so many of its 10 cores."""
    nodes = {f"cpu-{i}": node(f"cpu-{i}", cores=20.0) for i in range(4)}
    nodes |= {f"gpu-{i}": node(f"gpu-{i}", pool=GPU) for i in range(gpu_nodes)}
    uses = {name: figures(cpu * 2 if name.startswith("cpu") else gpu, 10 * GIB) for name in nodes}
    return snapshot(gangs, nodes=nodes, measurement=measured(uses, gangs), **facts)


def pools(decision: Decision) -> dict[str, tuple[LevelsState, bool]]:
    return {scope: (one.state, one.admit) for scope, one in decision.pools.items()}


def victims(decision: Decision) -> list[str]:
    return names(victim.candidate for victim in decision.victims)


# --- the cases ----------------------------------------------------------------------------------------------


def gpu_node(name: str, *taints: dict[str, str]) -> Node:
    amounts = {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "1"}
    status = {"allocatable": amounts, "capacity": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    return msgspec.convert({"metadata": {"name": name}, "spec": {"taints": list(taints)}, "status": status}, Node)


OF_THE_DEVICE = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


def test_idle_gpu_nodes_with_the_taint_of_their_device_are_not_shut_by_a_busy_cpu_pool() -> None:
    found = node_facts(gpu_node("gpu-0", OF_THE_DEVICE), ())
    assert found.counts, "pods that ask for the device tolerate it"
    assert found.pool == pool_of(gpu_node("other", OF_THE_DEVICE)) != PLAIN_POOL
    decision = regulate(two_pools(cpu=9.4, gpu=0.1), {}, RULES)
    assert pools(decision) == {CLUSTER: (LevelsState.EVICTING, False), POOL + GPU: (LevelsState.FILLING, True)}
    assert decision.published.pools[GPU].preemptible_percentage == 33
    assert not decision.published.closed_nodes
    view = LevelsView.of(decision.published.to_data(), NOW)
    assert (view.admit, view.of_pool(GPU).admit, view.of_pool("unknown").admit) == (False, True, False)


def test_a_full_pool_is_evicted_from_beside_an_idle_one() -> None:
    gangs = (gang("trains", on="gpu-0"), gang("computes", on="cpu-0"))
    decision = regulate(two_pools(cpu=1.0, gpu=9.0, gangs=gangs), {}, RULES)
    assert victims(decision) == ["trains"], "one core of the gap is all that is preemptible there"
    assert decision.published.state is LevelsState.FILLING
    assert decision.published.closed_nodes == {f"gpu-{i}" for i in range(4)}, "an older admitter starts nothing there"


@pytest.mark.parametrize(
    ("taint", "counts"), [(OF_THE_DEVICE, True), ({"key": "system", "effect": "NoSchedule"}, False)]
)
def test_where_all_nodes_are_tainted_the_setting_is_named(taint: dict[str, str], counts: bool) -> None:
    found = node_facts(gpu_node("node-1", taint), ())
    decision = regulate(snapshot(nodes={"node-1": found}), {}, RULES)
    assert (decision.published.state is LevelsState.BLIND) == (not counts)
    assert ("settings.toleratedTaints" in decision.published.message) == (not counts)
    assert ("system (1)" in decision.published.message) == (not counts)


# --- a pool is a cluster of its own -------------------------------------------------------------------------


def _alone(taken: Snapshot, prefix: str) -> Snapshot:
    nodes = {name: one for name, one in taken.nodes.items() if name.startswith(prefix)}
    gangs = tuple(one for one in taken.gangs if one.pods[0].node in nodes)
    return replace(taken, nodes=nodes, gangs=gangs)


@given(
    cpu=st.floats(0, 11),
    gpu=st.floats(0, 11),
    jobs=st.lists(st.tuples(st.sampled_from(["cpu-0", "cpu-3", "gpu-0", "gpu-1"]), st.floats(1, 3000)), max_size=8),
    stdev=st.floats(0, 30),
)
def test_a_pool_is_decided_as_a_cluster_of_its_nodes(
    cpu: float, gpu: float, jobs: list[tuple[str, float]], stdev: float
) -> None:
    gangs = tuple(gang(f"{i}", since, on=where) for i, (where, since) in enumerate(jobs))
    history = {r: Figures(40.0, stdev, 500) for r in ("cpu", "memory")}
    taken = two_pools(cpu, gpu, gangs, history={CLUSTER: history, POOL + GPU: history})
    both = regulate(taken, {}, RULES)
    for scope, prefix in ((CLUSTER, "cpu"), (POOL + GPU, "gpu")):
        alone = regulate(replace(_alone(taken, prefix), history={CLUSTER: history}), {}, RULES)
        shown = both.published.pools[GPU] if scope else replace(both.published, pools={}, closed_nodes=frozenset())
        assert shown == alone.published
        assert [v for v in victims(both) if v in victims(alone)] == victims(alone)
    assert len(both.victims) <= RULES.eviction.max_victims


def test_a_cluster_of_one_pool_is_one_scope_whatever_its_name() -> None:
    gangs = (gang("a"), gang("b"))
    plain = snapshot(gangs, cpu=9.0)
    named = replace(plain, nodes={"node-1": node(pool=GPU)})
    one, other = regulate(plain, {}, RULES), regulate(named, {}, RULES)
    assert one.published.to_data() == other.published.to_data()
    assert victims(one) == victims(other)
    assert list(other.scopes) == [CLUSTER]
    assert not any(key.startswith("pool.") for key in one.published.to_data())


# --- which pools ---------------------------------------------------------------------------------------------


def many(count: int) -> dict[str, Any]:
    return {f"n{i}": node(f"n{i}", cores=100.0 - i, pool=f"p{i}") for i in range(count)}


def test_at_most_sixteen_pools_have_levels_of_their_own() -> None:
    nodes = many(40)
    taken = snapshot(nodes=nodes, measurement=measured({name: figures(1.0, GIB) for name in nodes}))
    decision = regulate(taken, {}, RULES)
    assert set(decision.published.pools) == {f"p{i}" for i in range(1, MOST_POOLS + 1)}, "by allocatable CPU"
    reading = decision.scopes[CLUSTER].reading
    assert reading is not None
    assert reading.nodes == {"n0", *(f"n{i}" for i in range(MOST_POOLS + 1, 40))}
    assert len(str(decision.published.to_data())) < 30_000


def test_a_pool_keeps_its_place_until_another_one_is_much_larger() -> None:
    small, large = {"n0": node("n0", pool="a")}, {f"b{i}": node(f"b{i}", pool="b") for i in range(3)}
    states = regulate(snapshot(nodes=small), {}, RULES).states
    assert states[CLUSTER].pool == "a"

    def then(nodes: Mapping[str, Any], states: Mapping[str, ScopeState]) -> Decision:
        taken = snapshot(nodes=nodes, measurement=measured({name: figures(1.0, GIB) for name in nodes}))
        return regulate(taken, states, RULES)

    equal = then(small | {"b0": large["b0"]}, states)
    assert (equal.states[CLUSTER].pool, set(equal.published.pools)) == ("a", {"b"})
    kept = replace(equal.states[POOL + "b"], closed=True, cooldown_until=ago(-200))
    grown = then(small | large, {**equal.states, POOL + "b": kept})
    assert (grown.states[CLUSTER].pool, set(grown.published.pools)) == ("b", {"a"})
    assert not grown.published.admit, "its cool-down goes with it"
    assert grown.published.pools["a"].admit
    histories = {CLUSTER: "of a", POOL + "b": "of b", "n0": "of the node"}
    assert renamed(histories, grown.moved) == {POOL + "a": "of a", CLUSTER: "of b", "n0": "of the node"}


def test_all_nodes_get_another_device_and_the_flat_history_goes_on() -> None:
    states = regulate(snapshot(), {}, RULES).states
    decision = regulate(snapshot(nodes={"node-1": node(pool="fuse-1")}), states, RULES)
    assert not decision.moved
    assert decision.states[CLUSTER].pool == "fuse-1"


def test_the_load_in_one_piece_has_one_pool() -> None:
    taken = two_pools(cpu=5.0, gpu=5.0)
    total = {"cpu": figures(60.0)["cpu"], "memory": figures(None, 80 * GIB)["memory"]}
    decision = regulate(replace(taken, measurement=replace(taken.measurement, nodes={}, total=total)), {}, RULES)
    assert list(decision.scopes) == [CLUSTER]
    assert decision.published.load("cpu") == 50


# --- deviation, state ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("nodes", "samples", "stdev"), [(2, 500, 2.0), (3, 500, 9.0), (3, 5, 2.0)])
def test_a_pool_of_few_nodes_or_samples_has_the_deviation_of_the_default_pool(
    nodes: int, samples: int, stdev: float
) -> None:
    default = {r: Figures(40.0, 2.0, 500) for r in ("cpu", "memory")}
    own = {r: Figures(40.0, 9.0, samples) for r in ("cpu", "memory")}
    taken = two_pools(5.0, 1.0, gpu_nodes=nodes, history={CLUSTER: default, POOL + GPU: own})
    found = regulate(taken, {}, RULES).published.pools[GPU]
    assert found.stdev("cpu") == stdev
    assert found.lower("cpu") == pytest.approx(100 - 20 - stdev)


def test_the_state_of_pools_lasts_and_an_older_regulator_reads_its_own() -> None:
    decision = regulate(two_pools(cpu=1.0, gpu=9.0, gangs=(gang("a", on="gpu-0"),)), {}, RULES)
    text = dump_states(decision.states)
    back = load_states(text, NOW, 300)
    assert back[CLUSTER].pool == PLAIN_POOL
    assert back[POOL + GPU].evicting == {"cpu"}
    closed = states_from_published(PublishedLevels.parse(decision.published.to_data()), NOW, 300)
    assert (closed[CLUSTER].closed, closed[POOL + GPU].closed) == (False, True)
    assert load_states('{"":{"pool":7,"readAt":"2026-01-02T12:00:00Z"}}', NOW, 300)[CLUSTER].pool == ""


def test_blind_pools_are_blind_alone() -> None:
    taken = two_pools(cpu=5.0, gpu=5.0)
    only = {name: one for name, one in taken.measurement.nodes.items() if name.startswith("gpu")}
    decision = regulate(replace(taken, measurement=replace(taken.measurement, nodes=only)), {}, RULES)
    view = LevelsView.of(decision.published.to_data(), NOW)
    assert (view.visibility, view.of_pool(GPU).visibility) == (Visibility.BLIND, Visibility.FRESH)
    assert decision.levels_on("cpu-0") == {}
    assert decision.levels_on("gpu-0") == decision.scopes[POOL + GPU].levels


# --- gangs over pools ----------------------------------------------------------------------------------------


def _over_both(**facts: Any) -> Gang:
    wide = gang("wide", on="gpu-0", pods=2, **facts)
    return replace(wide, pods=(wide.pods[0], replace(wide.pods[1], node="cpu-0")))


def test_a_gang_over_two_full_pools_goes_once() -> None:
    decision = regulate(two_pools(cpu=9.0, gpu=9.0, gangs=(_over_both(),)), {}, RULES)
    assert victims(decision) == ["wide"]


def test_a_gang_over_two_pools_is_throttled_by_one() -> None:
    wide = _over_both(pod_resizable={"main": 1.0})
    rules = replace(RULES, throttle=ThrottleRules(enabled=True), yield_from=0.0)
    taken = two_pools(cpu=8.3, gpu=8.3, gangs=(wide,))
    decision = regulate(taken, {}, rules)
    resized = [one.pod.uid for one in decision.resizes]
    assert resized
    assert len(resized) == len(set(resized))
    assert not decision.scopes[CLUSTER].throttle.resizes, "its first pod is on a GPU node"


def test_a_node_of_a_pool_that_is_shut_has_no_headroom() -> None:
    taken = two_pools(cpu=1.0, gpu=9.0, gangs=(gang("a", on="gpu-0"),))
    published = regulate(taken, {}, replace(RULES, per_node=True)).published
    assert published.headroom.keys() == {f"cpu-{i}" for i in range(4)}
    assert published.closed_nodes == {f"gpu-{i}" for i in range(4)}


def test_what_tells_no_pools_apart_is_published_beside_pools() -> None:
    rules = replace(RULES, pool_ignores=frozenset({"b", "a"}))
    assert regulate(two_pools(cpu=1.0, gpu=1.0), {}, rules).published.to_data()["poolIgnores"] == "a b"
    assert "poolIgnores" not in regulate(snapshot(), {}, rules).published.to_data()


# --- before there were pools ---------------------------------------------------------------------------------


def _regulated_before(taken: Snapshot, rules: Rules) -> tuple[dict[str, str], list[str], dict[str, ScopeState]]:
    """The formula of that time, kept: what was published, who went, and what was remembered by scope."""
    scopes, uids, gone = {}, set[str](), list[str]()
    parts: list[tuple[str, Snapshot]] = [(CLUSTER, taken)]
    if rules.per_node:
        here = {name: tuple(taken.gangs_by_node.get(name, ())) for name, one in taken.nodes.items() if one.counts}
        parts[:0] = [
            (name, replace(taken, gangs=gangs, recent_terminations=())) for name, gangs in sorted(here.items())
        ]
    for scope, part in parts:
        scopes[scope] = decided = decide_scope(scope, part, ScopeState(), rules, uids)
        found = [*(decided.plan.victims if decided.plan else ()), *decided.yields]
        uids.update(one.gang.uid for one in found)
        gone += names(found)
    nodes = {scope: one for scope, one in scopes.items() if scope}
    published = replace(
        published_levels(scopes[CLUSTER], taken.now, taken.history.get(CLUSTER, {}), rules, taken.measurement.source),
        closed_nodes=frozenset(name for name, one in nodes.items() if one.closed),
        headroom={name: left for name, one in nodes.items() if (left := one.headroom) is not None},
    )
    states = {scope: one.next_state for scope, one in scopes.items()}
    return published.to_data(), gone[: rules.eviction.max_victims], states


@given(
    uses=st.lists(st.floats(0, 11), min_size=1, max_size=4),
    jobs=st.lists(st.tuples(st.integers(0, 3), st.floats(1, 3000), st.integers(1, 3)), max_size=8),
    stdev=st.floats(0, 30),
    pool=st.sampled_from([PLAIN_POOL, GPU]),
    per_node=st.booleans(),
    yields=st.booleans(),
)
def test_one_pool_is_regulated_as_before_there_were_pools(
    uses: list[float], jobs: list[tuple[int, float, int]], stdev: float, pool: str, per_node: bool, yields: bool
) -> None:
    nodes = {f"n{i}": node(f"n{i}", pool=pool) for i in range(len(uses))}
    gangs = tuple(gang(f"{i}", since, on=f"n{at % len(uses)}", pods=pods) for i, (at, since, pods) in enumerate(jobs))
    figures_of = {f"n{i}": figures(use, 10 * GIB) for i, use in enumerate(uses)}
    history = {CLUSTER: {r: Figures(40.0, stdev, 500) for r in ("cpu", "memory")}}
    taken = snapshot(gangs, nodes=nodes, measurement=measured(figures_of, gangs), history=history)
    rules = replace(RULES, per_node=per_node, yield_at_checkpoint=yields)
    data, gone, states = _regulated_before(taken, rules)
    now = regulate(taken, {}, rules)
    assert (now.published.to_data(), victims(now)) == (data, gone)
    assert {scope: replace(state, pool="") for scope, state in now.states.items()} == states
