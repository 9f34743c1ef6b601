"""The admission cycle, given a snapshot: who starts where, and what the others are told."""

from __future__ import annotations

from typing import Any

import pytest
from scavenger_admitter.core.admission.cycle.plan import AdmissionPlan, plan_admissions
from scavenger_admitter.core.admission.load import PPM, LoadLimit, LoadRule
from scavenger_admitter.core.admission.placement.inputs import NodeView, PendingPod
from scavenger_admitter.core.admission.shape import Shape
from scavenger_admitter.core.admission.snapshot import Candidate, QueueView, Reservation, Snapshot
from scavenger_admitter.core.waits import Wait, percent, spell
from scavenger_api.reasons import WaitReason
from scavenger_api.states import QueueState
from scavenger_kube.kinds import Taint, Toleration

GI = 1 << 30
SECOND = 1_000_000
NOW = 1_800_000_000 * SECOND


def node(name: str, cpu: int = 8, used: int = 0, memory: int = 64, **more: Any) -> NodeView:
    return NodeView(
        name=name,
        allocatable={"cpu": cpu * 1000, "memory": memory * GI, "pods": more.pop("pods", 110)},
        used={"cpu": used * 1000, "memory": used * GI, "pods": more.pop("running", 1)},
        **more,
    )


def shape(cpu: int = 1, memory: int = 1, selector: dict[str, str] | None = None, **more: int) -> Shape:
    return Shape.of({"cpu": cpu * 1000, "memory": memory * GI, **more}, selector)


def job(name: str, cpu: int = 1, **more: Any) -> Candidate:
    more.setdefault("shape", shape(cpu))
    more.setdefault("queue", "default")
    return Candidate(key=name, uid=name, **more)


def snapshot(nodes: list[NodeView], jobs: list[Candidate], **more: Any) -> Snapshot:
    """Jobs in the order given; a queue `default`, no load limit."""
    lines: dict[str, list[Candidate]] = {}
    for each in jobs:
        lines.setdefault(each.queue, []).append(each)
    more.setdefault("queues", {"default": QueueView("default")})
    more.setdefault("now", NOW)
    return Snapshot(
        nodes={n.name: n for n in nodes},
        candidates={queue: tuple(line) for queue, line in lines.items()},
        **more,
    )


def queues(*views: QueueView) -> dict[str, QueueView]:
    return {view.name: view for view in views}


def started(plan: AdmissionPlan) -> list[str]:
    return [start.key for start in plan.starts]


def places(plan: AdmissionPlan) -> dict[str, tuple[str, ...]]:
    return {start.key: start.nodes for start in plan.starts}


def reasons(plan: AdmissionPlan) -> dict[str, WaitReason]:
    return {key: hold.reason for key, hold in plan.held.items()}


# --- places ---


def test_a_job_that_does_not_fit_does_not_block_those_behind() -> None:
    plan = plan_admissions(snapshot([node("n", cpu=8)], [job("a", 6), job("b", 4), job("c", 2)]))
    assert started(plan) == ["a", "c"]
    assert reasons(plan) == {"b": WaitReason.NO_PLACE}


def test_room_is_given_once() -> None:
    plan = plan_admissions(snapshot([node("n", cpu=4, used=1)], [job(name) for name in "abcd"]))
    assert started(plan) == ["a", "b", "c"]


def test_a_gang_starts_whole_or_not_at_all() -> None:
    nodes = [node("n1", cpu=3), node("n2", cpu=2)]
    plan = plan_admissions(snapshot(nodes, [job("four", 2, parallelism=4), job("two", 2, parallelism=2)]))
    assert places(plan) == {"two": ("n1", "n2")}
    assert reasons(plan) == {"four": WaitReason.LARGER_THAN_CLUSTER}
    nodes = [node("n1", cpu=3, used=2), node("n2", cpu=2)]
    plan = plan_admissions(snapshot(nodes, [job("two", 2, parallelism=2), job("one", 2)]))
    assert places(plan) == {"one": ("n2",)}
    assert (
        plan.held["two"].message
        == "needs 2 pods of 2 cpu, 1Gi memory each; the largest free place is 1 cpu, 62Gi memory"
    )


def test_a_smaller_gang_of_a_shape_that_failed_is_tried_a_larger_one_is_not() -> None:
    jobs = [job("three", 4, parallelism=3), job("four", 4, parallelism=4), job("two", 4, parallelism=2)]
    plan = plan_admissions(snapshot([node("n", cpu=16, used=5)], jobs))
    assert started(plan) == ["two"]
    assert plan.held["three"].message.startswith("needs 3 pods of 4 cpu, 1Gi memory each; ")


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        # As kube-scheduler: where most is left, in percent of allocatable ...
        ([node("a", used=4), node("b", used=2)], "b"),
        ([node("a", cpu=8, used=2, memory=8), node("b", cpu=32, used=8, memory=64)], "b"),
        # ... and where that is equal the smaller node, so that larger ones stay whole, then the name.
        ([node("a", cpu=50, memory=50), node("b", cpu=100, memory=100)], "b"),
        ([node("b"), node("a")], "a"),
        ([node("a", cpu=10_000, memory=10_000), node("b", cpu=5_000, memory=5_000)], "b"),
    ],
)
def test_which_node(nodes: list[NodeView], expected: str) -> None:
    plan = plan_admissions(snapshot(nodes, [job("job")]))
    assert places(plan) == {"job": (expected,)}


def test_jobs_spread() -> None:
    plan = plan_admissions(snapshot([node("a"), node("b")], [job("x", parallelism=2), job("y", parallelism=2)]))
    assert places(plan) == {"x": ("a", "b"), "y": ("a", "b")}


TAINT = Taint(key="gpu", value="a100", effect="NoSchedule")


@pytest.mark.parametrize(
    ("change", "wanted", "reason"),
    [
        ({}, {}, None),
        ({"schedulable": False}, {}, WaitReason.NO_PLACE),
        ({"taints": (TAINT,)}, {}, WaitReason.TAINT_NOT_TOLERATED),
        ({"taints": (TAINT,)}, {"tolerations": [Toleration(key="gpu", operator="Exists")]}, None),
        ({"labels": {"zone": "a"}}, {"node_selector": {"zone": "a"}}, None),
        ({"labels": {"zone": "a"}}, {"node_selector": {"zone": "b"}}, WaitReason.NO_SELECTOR_MATCH),
        ({"labels": {"zone": "a"}}, {"node_selector": {"zone": "a", "x": "y"}}, WaitReason.NO_SELECTOR_MATCH),
        ({}, {"requests": {"cpu": 9000}}, WaitReason.LARGER_THAN_ANY_NODE),
        ({}, {"requests": {"cpu": 1000, "gpu": 1}}, WaitReason.LARGER_THAN_ANY_NODE),
        ({"used": 8}, {}, WaitReason.NO_PLACE),
        ({"pods": 1}, {}, WaitReason.NO_PLACE),
    ],
)
def test_what_makes_a_node_a_place(change: dict[str, Any], wanted: dict[str, Any], reason: WaitReason | None) -> None:
    asked = Shape.of(**{"requests": {"cpu": 1000}, **wanted})
    plan = plan_admissions(snapshot([node("n", **change)], [job("job", shape=asked)]))
    assert reasons(plan) == ({"job": reason} if reason else {})


# --- room others are about to take ---


def test_ordinary_pods_take_their_room_first() -> None:
    nodes = [node("n1", cpu=4), node("n2", cpu=4)]
    pending = (
        PendingPod("nominated", shape(3), nominated="n2"),
        PendingPod("first", shape(3)),
        PendingPod("fits nowhere", shape(4)),
        PendingPod("nominated to a node that is gone", shape(1), nominated="n3"),
    )
    plan = plan_admissions(snapshot(nodes, [job("two", 2), job("one", 1)], pending=pending))
    assert started(plan) == ["one"]


def test_a_nominated_node_that_is_no_place_any_more_is_not_waited_for() -> None:
    nodes = [node("n1", cpu=4), node("n2", cpu=8, schedulable=False)]
    pending = (PendingPod("p", shape(3), nominated="n2"),)
    assert started(plan_admissions(snapshot(nodes, [job("two", 2), job("one", 1)], pending=pending))) == ["one"]


def test_room_made_by_preemption_is_left_alone_while_the_victims_leave() -> None:
    full = node("n", cpu=8, used=8)
    pending = (PendingPod("p", shape(4), nominated="n"),)
    assert started(plan_admissions(snapshot([full], [job("a")], pending=pending))) == []
    half = node("n", cpu=8, used=4)
    assert started(plan_admissions(snapshot([half], [job("a")], pending=pending))) == []


def test_starts_under_way_keep_their_room() -> None:
    nodes = [node("n1", cpu=4), node("n2", cpu=4)]
    under_way = (Reservation("other", shape(3), 2, ("n1", "n1")),)
    plan = plan_admissions(snapshot(nodes, [job("two", 2), job("one", 1)], reservations=under_way))
    # Both could not land on n1, whatever was planned: the second takes the other node.
    assert places(plan) == {"one": ("n1",)}
    plan = plan_admissions(snapshot(nodes[:1], [job("one", 1)], reservations=under_way))
    assert places(plan) == {"one": ("n1",)}


def test_closed_nodes_take_ordinary_pods_and_no_jobs() -> None:
    nodes = [node("closed", cpu=4), node("open", cpu=4, used=1)]
    pending = (PendingPod("p", shape(3)),)  # goes where most is left: to the closed node
    seen = snapshot(nodes, [job("a", 3), job("b", 1)], pending=pending, closed_nodes=frozenset({"closed"}))
    assert places(plan_admissions(seen)) == {"a": ("open",)}


# --- the load ---


def limit(load: int = 0, requested: int = 0, admission: int = 70, resource: str = "cpu") -> LoadLimit:
    """On 100 cores (or Gi): load in percent, requested in cores (or Gi)."""
    unit = 1000 if resource == "cpu" else GI
    return LoadLimit(resource, 100 * unit, requested * unit, load * PPM // 100, admission * PPM // 100)


@pytest.mark.parametrize(
    ("limits", "with_it", "expected"),
    [
        ((limit(requested=68),), True, ["a"]),
        ((limit(requested=69),), True, []),  # strictly less
        ((limit(requested=69),), False, ["a"]),
        ((limit(requested=70),), False, []),
        ((limit(requested=67),), True, ["a", "b"]),
        ((limit(requested=68),), False, ["a", "b"]),
        ((limit(load=60, requested=8),), True, ["a"]),
        ((limit(load=60, requested=9),), True, []),
        ((limit(load=130),), True, []),
        ((limit(), limit(resource="memory", requested=69)), True, []),
        ((limit(), limit(resource="memory", requested=70)), False, []),
        ((limit(admission=0),), False, []),
        ((limit(admission=100, requested=98),), True, ["a"]),
        ((LoadLimit("cpu", 0, 0, 0, PPM),), False, []),
        ((), True, ["a", "b", "c"]),
    ],
)
def test_load_stays_under_the_admission_level(
    limits: tuple[LoadLimit, ...], with_it: bool, expected: list[str]
) -> None:
    seen = snapshot([node("n", cpu=100)], [job(name) for name in "abc"], limits=limits, counted_with_candidate=with_it)
    plan = plan_admissions(seen)
    assert started(plan) == expected
    assert set(reasons(plan).values()) <= {WaitReason.ADMISSION_LEVEL}
    assert len(plan.held) == 3 - len(expected)


def test_a_smaller_job_may_fit_under_the_level_where_a_larger_one_does_not() -> None:
    jobs = [job("large", 5), job("gang", 1, parallelism=3), job("small", 1), job("twin of large", 5)]
    plan = plan_admissions(snapshot([node("n", cpu=100)], jobs, limits=(limit(requested=67),)))
    assert started(plan) == ["small"]
    assert plan.starts[0].load_ppm == (("cpu", 680_000),)
    assert plan.held["large"].message == "cpu load would be 72 %; it has to stay under the admission threshold of 70 %"
    assert plan.held["gang"].message.startswith("cpu load would be 70 %")


@pytest.mark.parametrize(
    "shut", [LoadRule.blind("why"), LoadRule.published({}, observed_at=0, now=0, period_seconds=1)]
)
def test_nothing_starts_blind(shut: LoadRule) -> None:
    plan = plan_admissions(snapshot([node("n")], [job("a"), job("b", 99)], shut=shut.shut))
    # What no waiting will change is said first.
    assert reasons(plan) == {"a": WaitReason.BLIND, "b": WaitReason.LARGER_THAN_ANY_NODE}


# --- queues ---


def test_the_most_under_served_queue_goes_first() -> None:
    seen = snapshot(
        [node("n", cpu=100, used=93, memory=200)],
        [job(f"{queue}{i}", queue=queue) for queue in "abc" for i in range(4)],
        capacity={"cpu": 100_000, "memory": 100 * GI},
        queues=queues(
            QueueView("a", allocated={"cpu": 2_000}),
            QueueView("b", weight=2, allocated={"memory": 2 * GI}),
            QueueView("c", allocated={"gpu": 50, "pods": 9}),  # no such thing in the cluster
        ),
    )
    # shares ÷ weight, in cores: a 2, b 1, c 0; the greater weight first where they are equal
    assert started(plan_admissions(seen)) == ["c0", "b0", "c1", "b1", "b2", "a0", "c2"]


@pytest.mark.parametrize(
    ("queue", "reason"),
    [
        (QueueView("default"), None),
        (QueueView("default", state=QueueState.CLOSED), WaitReason.QUEUE_CLOSED),
        (QueueView("default", state=QueueState.RELEASING), WaitReason.QUEUE_RELEASING),
        (QueueView("other"), WaitReason.QUEUE_MISSING),
    ],
)
def test_only_open_queues_start_jobs(queue: QueueView, reason: WaitReason | None) -> None:
    plan = plan_admissions(snapshot([node("n")], [job("a")], queues=queues(queue)))
    assert reasons(plan) == ({"a": reason} if reason else {})


def test_a_queue_starts_jobs_of_the_namespaces_that_it_selects() -> None:
    """The others wait, block nobody, and are told what helps."""
    lab = QueueView("lab", namespaces=frozenset({"chem"}))
    line = [job("phys/a", queue="lab"), job("chem/b", queue="lab"), job("phys/c", queue="lab"), job("phys/d")]
    plan = plan_admissions(snapshot([node("n")], line, queues=queues(lab, QueueView("default"))))
    assert sorted(started(plan)) == ["chem/b", "phys/d"]
    assert reasons(plan) == dict.fromkeys(("phys/a", "phys/c"), WaitReason.NAMESPACE_NOT_SELECTED)
    assert plan.held["phys/a"].message == (
        "queue lab is not for jobs of namespace phys: name another queue, or have the administrator change "
        "spec.namespaceSelector of the queue or the labels of the namespace"
    )


def test_room_that_was_kept_is_of_no_use_in_a_queue_that_is_not_for_the_namespace() -> None:
    back = job("phys/a", queue="lab")
    lab = QueueView("lab", namespaces=frozenset())
    plan = plan_admissions(snapshot([node("n")], [back], queues=queues(lab), returning=(back,)))
    assert started(plan) == []
    assert reasons(plan) == {"phys/a": WaitReason.NAMESPACE_NOT_SELECTED}


def test_what_never_passes_comes_before_what_does() -> None:
    """A job too large for any node, in a closed queue and a full cluster, is told of its size, then of its queue."""
    closed = queues(QueueView("default", state=QueueState.CLOSED))
    nodes = [node("n", cpu=2, used=2)]
    assert reasons(plan_admissions(snapshot(nodes, [job("a", 20)], queues=closed))) == {
        "a": WaitReason.LARGER_THAN_ANY_NODE
    }
    assert reasons(plan_admissions(snapshot(nodes, [job("a", 1)], queues=closed))) == {"a": WaitReason.QUEUE_CLOSED}


def test_quota() -> None:
    seen = snapshot(
        [node("n", cpu=100)],
        [
            job("three", 3),
            job("gang", 1, parallelism=3),
            job("two", 2),
            job("one", 1),
            job("free", queue="free"),
        ],
        queues=queues(
            QueueView("default", quota={"cpu": 4_000, "gpu": 0}, allocated={"cpu": 2_000}), QueueView("free")
        ),
    )
    plan = plan_admissions(seen)
    assert started(plan) == ["two", "free"]
    assert reasons(plan) == {
        "three": WaitReason.QUEUE_QUOTA,
        "gang": WaitReason.QUEUE_QUOTA,
        "one": WaitReason.QUEUE_QUOTA,
    }
    assert plan.held["three"].message == "needs 3 cpu; queue default has 2 of its quota of 4 in use"


def test_a_job_beyond_the_whole_quota_of_its_queue_does_not_wait_for_others() -> None:
    full = QueueView("default", quota={"cpu": 4_000}, allocated={"cpu": 4_000})
    plan = plan_admissions(snapshot([node("n", 8)], [job("most", 4), job("beyond", 5)], queues=queues(full)))

    assert reasons(plan) == {"most": WaitReason.QUEUE_QUOTA, "beyond": WaitReason.LARGER_THAN_QUOTA}
    assert plan.held["beyond"].message == "needs 5 cpu; the whole quota of queue default is 4"


# --- single jobs, turns ---


def test_a_job_held_back_waits_whatever_the_room() -> None:
    hold = Wait(WaitReason.PODS_REMAIN, "pods", "n")
    jobs = [job("a"), job("later", not_before=NOW + SECOND), job("now", not_before=NOW)]
    plan = plan_admissions(snapshot([node("n")], jobs, blocked={"a": hold}))
    assert started(plan) == ["now"]
    assert plan.held["a"] == hold
    assert plan.held["later"].message.endswith("tried again from 2027-01-15T08:00:01Z on")


@pytest.mark.parametrize(
    ("most", "expected", "truncated"),
    [(None, "abc", False), (3, "abc", False), (2, "ab", True), (0, "", True)],
)
def test_the_number_of_starts_may_be_limited(most: int | None, expected: str, truncated: bool) -> None:
    plan = plan_admissions(snapshot([node("n")], [job(name) for name in "abc"]), max_starts_per_cycle=most)
    assert started(plan) == list(expected)
    assert plan.truncated is truncated
    assert set(reasons(plan).values()) == ({WaitReason.NEXT_CYCLE} if truncated else set())


def test_an_empty_cluster() -> None:
    assert plan_admissions(Snapshot()) == AdmissionPlan((), {})
    plan = plan_admissions(snapshot([], [job("a")]))
    assert plan.held["a"].message == "the cluster has no node"


# --- what people read ---

MESSAGES: dict[str, tuple[list[NodeView], Candidate, str]] = {
    "one pod": (
        [node("a", cpu=8, used=5), node("b", cpu=8, used=6)],
        job("j", 4),
        "needs 4 cpu, 1Gi memory; the largest free place is 3 cpu, 59Gi memory",
    ),
    "a gang, partly": (
        [node("a", cpu=8, used=3), node("b", cpu=8, used=6)],
        job("j", 4, parallelism=2),
        "needs 2 pods of 4 cpu, 1Gi memory each; there is capacity for 1 now",
    ),
    "as many pods as allowed": (
        [node("a", running=110)],
        job("j"),
        "needs 1 cpu, 1Gi memory; the largest free place is node a, which holds as many pods as it may",
    ),
    "nodes away": (
        [node("a", schedulable=False)],
        job("j"),
        "needs 1 cpu, 1Gi memory; every node it may run on is not ready, cordoned, at its own level or refuses pods",
    ),
    "too large": (
        [node("a", cpu=32, memory=64), node("b", cpu=8, memory=128)],
        job("j", 64),
        "requests 64 cpu; the largest node offers 32 cpu: lower resources.requests or add a node",
    ),
    "too large together": (
        [node("a", cpu=32, memory=64), node("b", cpu=8, memory=128)],
        job("j", shape=shape(16, 100)),
        "requests 16 cpu, 100Gi memory; no node offers all of that: lower resources.requests",
    ),
    "no such device": (
        [node("a")],
        job("j", shape=shape(1, 1, gpu=2)),
        "requests 2 gpu; the largest node offers 0 gpu: lower resources.requests or add a node",
    ),
    "a gang too large": (
        [node("a", cpu=4), node("b", cpu=4)],
        job("j", 2, parallelism=5),
        "needs 5 pods of 2 cpu, 1Gi memory each; all nodes together would hold 4 of them, were they empty:"
        " lower parallelism or resources.requests, or add nodes",
    ),
    "labels": (
        [node("a")],
        job("j", shape=shape(1, 1, {"gpu": "a100"})),
        "no node has the labels of spec.nodeSelector: gpu=a100",
    ),
    "taints": (
        [node("a", labels={"x": "y"}, taints=(TAINT,)), node("b")],
        job("j", shape=shape(1, 1, {"x": "y"})),
        "all nodes with the labels x=y carry a taint that spec.tolerations does not cover: gpu=a100:NoSchedule",
    ),
}


@pytest.mark.parametrize("case", MESSAGES)
def test_messages(case: str) -> None:
    nodes, candidate, message = MESSAGES[case]
    assert plan_admissions(snapshot(nodes, [candidate])).held["j"].message == message


def test_the_message_of_a_full_cluster() -> None:
    plan = plan_admissions(snapshot([node("n")], [job("a")], limits=(limit(load=75, requested=3),)))
    assert plan.held["a"].message == "cpu load is 78 %; jobs start while it is under the admission threshold of 70 %"
    plan = plan_admissions(snapshot([node("n")], [job("a")], limits=(LoadLimit("cpu", 0, 0, 0, PPM),)))
    assert plan.held["a"].message == "no node that counts (ready, not cordoned, not tainted) offers cpu"


def test_holds_are_equal_while_only_figures_change() -> None:
    before = plan_admissions(snapshot([node("n", used=6)], [job("a", 4)])).held["a"]
    after = plan_admissions(snapshot([node("n", used=7)], [job("a", 4)])).held["a"]
    other = plan_admissions(snapshot([node("n", used=7)], [job("a", 4, parallelism=2)])).held["a"]
    assert before == after
    assert hash(before) == hash(after)
    assert before.message != after.message
    assert before != other
    assert before != "NoPlace"
    assert "NoPlace" in repr(before)


@pytest.mark.parametrize(
    ("ppm", "text"),
    [(700_000, "70 %"), (721_000, "72.1 %"), (720_001, "72.1 %"), (0, "0 %"), (1_305_000, "130.5 %")],
)
def test_percent(ppm: int, text: str) -> None:
    assert percent(ppm) == text


def test_spell() -> None:
    assert spell([("cpu", 1500), ("memory", 8 * GI), ("pods", 1)]) == "1500m cpu, 8Gi memory"
    assert spell([("pods", 1)]) == "nothing"
