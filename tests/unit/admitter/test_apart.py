"""Gangs whose pods keep apart: they start where the scheduler will find nodes for all of them, and wait elsewhere."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from scavenger_admitter.core.admission.placement.empty_cluster import EmptyCluster
from scavenger_admitter.core.admission.placement.inputs import NodeView
from scavenger_admitter.core.admission.placement.node_index import NodeIndex
from scavenger_admitter.core.admission.placement.placement import Room
from scavenger_admitter.core.admission.shape import Shape
from scavenger_admitter.facts import shape_of
from scavenger_api.reasons import WaitReason
from scavenger_domain.pod_affinity import HOSTNAME

from . import test_fair_share_preemption as shares
from .test_fair_share_preemption import gang, plan, seen, victims
from .test_templates import REQUIRED, job

ZONES = {"n1": "a", "n2": "a", "n3": "b"}
APART = Shape.of({"cpu": 1000}, apart="zone")


def cluster(used: dict[str, int] | None = None, **labels: str) -> dict[str, NodeView]:
    offered = {"cpu": 4000, "memory": 1 << 33, "pods": 110}
    zones = ZONES | labels
    return {
        name: NodeView(name, offered, {"cpu": (used or {}).get(name, 0)}, labels={"zone": zone} if zone else {})
        for name, zone in zones.items()
    }


def flow(labels: dict[str, str], **spec: Any) -> Shape:
    term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": "flow"}}}
    return shape_of(job({"affinity": {"podAntiAffinity": {REQUIRED: [term]}}}, {"labels": labels}, **spec))


def test_the_pods_of_a_gang_are_asked_for_their_anti_affinity_to_each_other() -> None:
    assert flow({"app": "flow"}, parallelism=2).apart == HOSTNAME
    assert flow({"app": "other"}, parallelism=2).apart == ""
    assert flow({"app": "flow"}, parallelism=1).apart == "", "one pod has nobody to keep apart from"


def test_each_pod_goes_to_another_value_of_the_label() -> None:
    room = Room(NodeIndex(cluster()))
    assert room.place(APART, 3) is None, "there are two zones"
    first = room.place(APART, 2)
    assert first is not None
    assert {ZONES[name] for name in first} == {"a", "b"}
    assert room.place(replace(APART, apart=""), 3) is not None


def test_nodes_without_the_label_keep_no_pods_apart() -> None:
    assert Room(NodeIndex(cluster(n3=""))).place(APART, 5) is not None
    assert Room(NodeIndex(cluster(n3=""))).place(APART, 6) is None


def test_a_gang_waits_while_one_of_its_zones_is_full_and_is_told_so() -> None:
    room = Room(NodeIndex(cluster(used={"n3": 4000})))
    assert room.place(APART, 2) is None
    wait = room.no_place(APART, 2)
    assert wait.reason is WaitReason.NO_PLACE
    assert "there is capacity for 1 on nodes that differ in zone now" in wait.message


@pytest.mark.parametrize(("count", "fits"), [(2, True), (3, False)])
def test_a_gang_that_needs_more_zones_than_there_are_is_told_so(count: int, fits: bool) -> None:
    wait = EmptyCluster(NodeIndex(cluster(used={"n3": 4000}))).impossible(APART, count)
    if fits:
        assert wait is None
    else:
        assert wait is not None
        assert wait.reason is WaitReason.LARGER_THAN_CLUSTER
        assert "needs 3 nodes that differ in the label zone" in wait.message
        assert "there are 2:" in wait.message


def test_jobs_are_interrupted_where_the_waiting_pods_may_stand_beside_each_other() -> None:
    """Both of the cheapest jobs run on one node; the waiting gang may have one pod there."""
    running = [gang(f"a{i}", "n", age=i) for i in range(1, 5)] + [gang(f"a{i}", "m", age=100 * i) for i in range(5, 9)]
    apart = Shape.of({"cpu": 1000}, apart="node")
    waiting = shares.job("b", pods=2, shape=apart)
    assert victims(seen({"n": 4, "m": 4}, running, [waiting])) == ["a1", "a5"]
    assert victims(seen({"n": 4, "m": 4}, running, [shares.job("b", pods=2)])) == ["a1", "a2"]


def test_capacity_is_kept_on_nodes_that_may_be_beside_each_other() -> None:
    """Where only one node can ever be free, no capacity is kept for two pods that need two."""
    apart = Shape.of({"cpu": 1000}, apart="node")
    running = [gang(f"a{i}", "n", age=i) for i in range(1, 5)]
    snapshot = seen({"n": 4, "m": 4}, running, [shares.job("b", pods=2, shape=apart)])
    nodes = dict(snapshot.nodes)
    nodes["m"] = replace(nodes["m"], used={"cpu": 4000}, scavenger={})
    assert plan(replace(snapshot, nodes=nodes)).preemptions == ()
