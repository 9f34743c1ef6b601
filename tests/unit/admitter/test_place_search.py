"""Whatever way a place is looked for, it is the same place; who never fits is told from who waits for room."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scavenger_admitter.core.admission.placement import node_index, node_labels, place_search
from scavenger_admitter.core.admission.placement.empty_cluster import EmptyCluster
from scavenger_admitter.core.admission.placement.inputs import NodeView
from scavenger_admitter.core.admission.placement.node_index import NodeIndex
from scavenger_admitter.core.admission.placement.placement import Room
from scavenger_admitter.core.admission.shape import Shape
from scavenger_api.reasons import WaitReason
from scavenger_domain.taints import tolerates
from scavenger_kube.kinds import Taint, Toleration

from tests.unit.effort import examples

TAINTS: tuple[tuple[Taint, ...], ...] = (
    (),
    (Taint("gpu", "", "NoSchedule"),),
    (Taint("gpu", "", "NoSchedule"), Taint("x")),
)
TOLERATIONS: tuple[tuple[Toleration, ...], ...] = (
    (),
    (Toleration(key="gpu", operator="Exists"),),
    (Toleration(operator="Exists"),),
)


@st.composite
def clusters(draw: st.DrawFn) -> dict[str, NodeView]:
    rng = random.Random(draw(st.integers(0, 2**32)))  # `randoms` would draw each number: ten times as slow
    found = {}
    for i in range(draw(st.integers(1, 120))):
        cores = rng.choice((4, 8, 8, 64))
        offered = {"cpu": cores * 1000, "memory": (cores << 32) - rng.randrange(9), "pods": rng.choice((3, 110))}
        if rng.random() < 0.2:
            offered["nvidia.com/gpu"] = 4
        used = {name: int(value * rng.choice((0, 0.5, rng.random(), 1.1))) for name, value in offered.items()}
        labels = {name: rng.choice("ab") for name in ("zone", "arch") if rng.random() < 0.9} | {"host": str(i)}
        more: dict[str, Any] = {"taints": rng.choice(TAINTS), "schedulable": rng.random() < 0.9}
        found[f"n{i}"] = NodeView(f"n{i}", offered, used, labels=labels, **more)
    return found


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    requests = {"cpu": draw(st.sampled_from((0, 100, 1_000, 4_000, 8_000, 63_000)))}
    requests["memory"] = draw(st.sampled_from((0, 1 << 30, (8 << 32) - 4, 1 << 36)))
    requests["nvidia.com/gpu"] = draw(st.sampled_from((0, 0, 0, 1)))
    labels = draw(
        st.dictionaries(st.sampled_from(("zone", "arch", "host", "none")), st.sampled_from("ab1"), max_size=2)
    )
    return Shape.of(requests, labels, draw(st.sampled_from(TOLERATIONS)))


@settings(max_examples=examples(200))
@given(clusters(), st.lists(st.tuples(shapes(), st.integers(1, 40)), max_size=30), st.integers(0, 3), st.booleans())
def test_every_way_finds_the_same_place(
    nodes: dict[str, NodeView], asked: list[tuple[Shape, int]], searches: int, packs: bool
) -> None:
    closed = frozenset(list(nodes)[:2])
    ranks = [-nodes[name].ordinary_share for name in sorted(nodes)] if packs else None
    one_by_one, found = Room(NodeIndex(nodes), closed, ranks=ranks), []
    expected = [_ask(one_by_one, shape, count) for shape, count in asked]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(node_labels, "FEW", 2)
        patch.setattr("scavenger_admitter.core.admission.placement.placement.FEW", 2)
        patch.setattr(node_index, "MOST_SEARCHES", searches)
        patch.setattr("scavenger_admitter.core.admission.placement.placement.MOST_SEARCHES", searches)
        patch.setattr(place_search, "BLOCK", 4)
        patch.setattr(place_search, "MANY", 5)
        room = Room(NodeIndex(nodes), closed, ranks=ranks)
        found = [_ask(room, shape, count) for shape, count in asked]
    assert found == expected


@settings(max_examples=examples(100))
@given(clusters(), st.lists(st.tuples(shapes(), st.integers(1, 40)), max_size=10), st.integers(0, 2**32))
def test_an_index_that_serves_many_cycles_finds_the_same_places(
    nodes: dict[str, NodeView], asked: list[tuple[Shape, int]], seed: int
) -> None:
    rng = random.Random(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(node_labels, "FEW", 2)
        patch.setattr("scavenger_admitter.core.admission.placement.placement.FEW", 2)
        patch.setattr(node_index, "MOST_SEARCHES", 2)
        patch.setattr(place_search, "BLOCK", 4)
        patch.setattr(place_search, "MANY", 5)
        index = NodeIndex(nodes)
        for _ in range(5):
            closed = frozenset(rng.sample(sorted(nodes), k=rng.choice((0, 1))))
            room, anew = Room(index, closed), Room(NodeIndex(nodes), closed)
            assert [_ask(room, *one) for one in asked] == [_ask(anew, *one) for one in asked]
            before, free = index, {name: list(index.free(name)) for name in ("cpu", "memory", "pods")}
            changed = rng.sample(sorted(nodes), k=rng.randint(0, len(nodes) // 4))
            used = {name: {r: int(n * rng.random()) for r, n in nodes[name].allocatable.items()} for name in changed}
            nodes = nodes | {name: replace(nodes[name], used=used[name]) for name in changed}
            index = index.renewed(nodes, [*changed, "unknown"])
            assert {name: before.free(name) for name in free} == free, "a cycle may still look at it"


def _ask(room: Room, shape: Shape, count: int) -> tuple[str, ...] | list[int] | None:
    if count > 30:  # ordinary pods, that may go to closed nodes
        room.reserve(shape, count - 30)
        return room.free("cpu")
    return room.place(shape, count)


@settings(max_examples=examples(200))
@given(clusters(), shapes(), st.sampled_from((1, 2, 30, 500)))
def test_who_would_not_fit_an_empty_cluster_either(nodes: dict[str, NodeView], shape: Shape, count: int) -> None:
    matching = [
        node
        for node in nodes.values()
        if all(node.labels.get(name) == value for name, value in shape.node_selector)
        and all(tolerates(shape.tolerations, taint) for taint in node.taints)
    ]
    total = sum(min(node.allocatable.get(name, 0) // n for name, n in shape.requests) for node in matching)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(node_labels, "FEW", 2)
        index = NodeIndex(nodes)
        hold = EmptyCluster(index).impossible(shape, count)
        assert [index.nodes[i].name for i in index.matching(shape)] == sorted(node.name for node in matching)
    if not matching:
        assert hold is not None
        assert hold.reason in (WaitReason.NO_SELECTOR_MATCH, WaitReason.TAINT_NOT_TOLERATED)
    elif total == 0:
        assert hold is not None
        assert hold.reason is WaitReason.LARGER_THAN_ANY_NODE
    elif total < count:
        assert hold is not None
        assert hold.reason is WaitReason.LARGER_THAN_CLUSTER
        assert f"would hold {total} of them" in hold.message
    else:
        assert hold is None


def test_who_cannot_be_judged_in_this_cycle_waits_for_room() -> None:
    nodes = {f"n{i}": NodeView(f"n{i}", {"cpu": 8_000 + i, "pods": 110}) for i in range(10)}
    cluster = EmptyCluster(NodeIndex(nodes))
    hardly = Shape.of({"cpu": 8_005})
    assert cluster.impossible(hardly, 6) is not None
    cluster.looks = 3
    assert cluster.impossible(hardly, 6) is None
    assert cluster.impossible(Shape.of({"cpu": 9_000}), 1) is not None, "what is plain costs no look"
