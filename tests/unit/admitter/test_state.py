"""What a snapshot says after events: given what happened, expect what a cycle sees."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from scavenger_admitter.core.admission.cycle.plan import plan_admissions
from scavenger_admitter.core.admission.load import Level, LoadRule
from scavenger_admitter.core.admission.running import RunningJob
from scavenger_admitter.core.admission.shape import Shape
from scavenger_admitter.core.admission.snapshot import Candidate, Grant, QueueView, Reservation, Snapshot
from scavenger_admitter.core.admission.view.state import ClusterState
from scavenger_api.names import ANNOTATION_GRANT, ANNOTATION_RUN, LABEL_JOB, LABEL_QUEUE, LABEL_TASK
from scavenger_api.reasons import WaitReason
from scavenger_api.selectors import LabelSelector
from scavenger_api.states import QueueState
from scavenger_kube.kinds import Node, Pod

SECOND = 1_000_000
NOW = 1_800_000_000 * SECOND
AT = "2027-01-15T08:00:00Z"  # the same moment
GI = 1 << 30


def node(name: str = "n1", cpu: int = 8, **more: Any) -> Node:
    taints, cordoned, ready = more.get("taints", []), more.get("cordoned", False), more.get("ready", "True")
    return msgspec.convert(
        {
            "metadata": {"name": name, "labels": more.get("labels", {})},
            "spec": {"taints": taints, "unschedulable": cordoned},
            "status": {
                "allocatable": {"cpu": cpu, "memory": "32Gi", "pods": "110"},
                "conditions": [{"type": "Ready", "status": ready}],
            },
        },
        Node,
    )


def pod(name: str = "p", cpu: int = 1, node: str = "", **more: Any) -> Pod:
    status = {"phase": more.get("phase", "Running" if node else "Pending")}
    for field in ("startTime", "nominatedNodeName", "conditions", "containerStatuses"):
        if field in more:
            status[field] = more[field]
    return msgspec.convert(
        {
            "metadata": {
                "name": name,
                "namespace": "ns",
                "uid": more.get("uid", f"uid-{name}"),
                "labels": more.get("labels", {}),
                "annotations": more.get("annotations", {}),
                "deletionTimestamp": more.get("deleted"),
                "creationTimestamp": more.get("created", AT),
            },
            "spec": {
                "nodeName": node,
                "priority": more.get("priority"),
                "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}],
            },
            "status": status,
        },
        Pod,
    )


def ended(**codes: int) -> list[dict[str, Any]]:
    return [{"name": name, "state": {"terminated": {"exitCode": code}}} for name, code in codes.items()]


def scavenger(name: str, job: str = "job", run: str = "1", queue: str = "default", **more: Any) -> Pod:
    labels = {LABEL_JOB: job, LABEL_QUEUE: queue}
    return pod(name, labels=labels, annotations={ANNOTATION_RUN: run}, **more)


def shape(cpu: int = 1) -> Shape:
    return Shape.of({"cpu": cpu * 1000, "memory": GI})


def candidate(name: str, **more: Any) -> Candidate:
    more.setdefault("queue", "default")
    return Candidate(key=f"ns/{name}", uid=more.pop("uid", f"uid-{name}"), shape=shape(), **more)


def snap(state: ClusterState, rule: LoadRule | None = None) -> Snapshot:
    return state.snapshot(now=NOW, rule=rule or LoadRule.fixed())


def used(snapshot: Snapshot, name: str = "n1") -> int:
    return snapshot.nodes[name].used.get("cpu", 0)


def requested(snapshot: Snapshot, resource: str = "cpu") -> int:
    return next(limit.requested for limit in snapshot.limits if limit.resource == resource)


# --- pods and nodes ---


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ([pod(node="n1")], 1000),
        ([pod(node="n1"), scavenger("s", node="n1", cpu=2)], 3000),
        ([pod(node="n1", phase="Succeeded")], 0),
        ([pod(node="n1", phase="Failed")], 0),
        ([pod(node="n1", deleted=AT)], 1000),
        ([pod(node="n1", deleted=AT, phase="Failed")], 0),
        ([pod(node="n2")], 0),
        ([pod()], 0),
        ([pod(node="n1"), pod(node="n1", phase="Succeeded")], 0),
        ([pod(node="n1"), pod(node="n1", uid="again", cpu=3)], 3000),
        ([pod(node="n1"), pod(node="n1", cpu=4)], 4000),
    ],
)
def test_a_node_is_used_by_what_is_bound_and_has_not_ended(pods: list[Pod], expected: int) -> None:
    state = ClusterState()
    state.apply_node(node())
    for each in pods:
        state.apply_pod(each)
    assert used(snap(state)) == expected


def test_a_pod_may_come_before_its_node() -> None:
    state = ClusterState()
    state.apply_pod(pod(node="n1"))
    assert snap(state).nodes == {}
    state.apply_node(node())
    assert used(snap(state)) == 1000
    assert requested(snap(state)) == 1000
    state.delete_node("n1")
    assert snap(state).nodes == {}
    assert requested(snap(state)) == 0
    state.apply_node(node())
    state.delete_pod("ns/p")
    state.delete_pod("ns/p")
    assert used(snap(state)) == 0


def test_a_snapshot_does_not_change_any_more() -> None:
    state = ClusterState()
    state.apply_node(node())
    before = snap(state)
    state.apply_pod(pod(node="n1"))
    state.apply_candidate(candidate("a"))
    assert used(before) == 0
    assert before.candidates == {}
    assert used(snap(state)) == 1000


def test_what_is_known_of_nodes_from_cycle_to_cycle_follows_the_pods() -> None:
    state = ClusterState()
    for name in ("n1", "n2", "n3"):
        state.apply_node(node(name))
    indexed(snap(state))
    state.apply_pod(pod("a", cpu=2, node="n1"))
    state.apply_pod(pod("early", node="n4"))
    crowded = snap(state, published(crowded_nodes={"n1": 0}))
    assert crowded.index is None, "what nodes offer is not as they say"
    state.apply_pod(pod("b", cpu=3, node="n2"))
    assert indexed(snap(state)) == [6000, 5000, 8000]
    state.delete_pod("ns/a")
    assert indexed(snap(state)) == [8000, 5000, 8000]
    state.apply_node(node("n4"))
    assert indexed(snap(state)) == [8000, 5000, 8000, 7000]
    state.delete_node("n2")
    assert indexed(snap(state)) == [8000, 8000, 7000]


def indexed(snapshot: Snapshot) -> list[int]:
    """Free millicores by the index, which knows just the nodes of the snapshot."""
    assert snapshot.index is not None
    assert snapshot.index.source is snapshot.nodes
    assert snapshot.index.nodes == [snapshot.nodes[name] for name in sorted(snapshot.nodes)]
    return snapshot.index.free("cpu")


@pytest.mark.parametrize(
    ("change", "schedulable", "counts"),
    [
        ({}, True, True),
        ({"ready": "Unknown"}, False, False),
        ({"ready": "False"}, False, False),
        ({"cordoned": True}, False, False),
        ({"taints": [{"key": "gpu", "effect": "NoSchedule"}]}, True, True),
        ({"taints": [{"key": "gpu", "effect": "NoExecute"}]}, True, True),
        ({"taints": [{"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule"}]}, False, True),
        ({"taints": [{"key": "gpu", "effect": "PreferNoSchedule"}]}, True, True),
        ({"taints": [{"key": "fine", "effect": "NoSchedule"}]}, True, True),
    ],
)
def test_which_nodes_are_schedulable_and_which_count(change: dict[str, Any], schedulable: bool, counts: bool) -> None:
    state = ClusterState(tolerated_taints=["fine"])
    state.apply_node(node())
    state.apply_pod(scavenger("s", node="n1"))
    state.apply_node(node(**change))
    seen = snap(state)
    assert seen.nodes["n1"].schedulable is schedulable
    assert seen.nodes["n1"].counts is counts
    assert seen.capacity.get("cpu", 0) == (8000 if counts else 0)
    assert requested(seen) == (1000 if counts else 0)
    assert seen.nodes["n1"].scavenger == {"cpu": 1000, "memory": GI, "pods": 1}


def test_a_tainted_node_counts_while_a_scavenger_pod_is_on_it() -> None:
    """Jobs may tolerate any taint, and where they are, they are in the load and are evicted for it."""
    state = ClusterState()
    state.apply_node(node(taints=[{"key": "gpu", "effect": "NoSchedule"}]))
    assert snap(state).capacity.get("cpu", 0) == 0
    pod = scavenger("s", node="n1")
    state.apply_pod(pod)
    seen = snap(state)
    assert (seen.capacity["cpu"], requested(seen), seen.nodes["n1"].counts) == (8000, 1000, True)
    state.delete_pod(pod.metadata.key)
    seen = snap(state)
    assert (seen.capacity.get("cpu", 0), requested(seen), seen.nodes["n1"].counts) == (0, 0, False)


@pytest.mark.parametrize(
    ("change", "key"), [({"cordoned": True}, "unschedulable"), ({"ready": "False"}, "not-ready"), ({}, "not-ready")]
)
def test_the_taint_of_a_cordon_is_not_to_be_tolerated_but_waited_for(change: dict[str, Any], key: str) -> None:
    """Kubernetes taints what is cordoned or not ready, and takes the taint off a moment after."""
    state = ClusterState()
    taint = {"key": f"node.kubernetes.io/{key}", "effect": "NoSchedule"}
    state.apply_node(node(**change, taints=[taint], labels={"zone": "a"}))
    state.apply_node(node("elsewhere"))
    state.apply_candidate(Candidate("ns/job", "uid", "default", Shape.of({"cpu": 1000}, {"zone": "a"})))
    (held,) = plan_admissions(snap(state)).held.values()
    assert held.reason is WaitReason.NO_PLACE
    assert (
        held.message == "needs 1 cpu; every node it may run on is not ready, cordoned, at its own level or refuses pods"
    )


# --- ordinary pods about to take room ---


def test_pending_pods_are_ordinary_unbound_and_free_to_go() -> None:
    gated = [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]
    state = ClusterState()
    for each in (
        pod("young", created="2027-01-15T07:59:59Z"),
        pod("old", created="2027-01-15T07:59:58Z"),
        pod("important", priority=5),
        pod("nominated", nominatedNodeName="n1"),
        pod("gated", conditions=gated),
        pod("terminating", deleted=AT),
        pod("bound", node="n1"),
        pod("over", phase="Failed"),
        scavenger("ours"),
    ):
        state.apply_pod(each)
    assert [p.key for p in snap(state).pending] == ["ns/nominated", "ns/important", "ns/old", "ns/young"]
    state.apply_pod(pod("old", node="n1"))
    state.delete_pod("ns/important")
    assert [p.key for p in snap(state).pending] == ["ns/nominated", "ns/young"]


def unschedulable(message: str, reason: str = "Unschedulable") -> list[dict[str, str]]:
    return [{"type": "PodScheduled", "status": "False", "reason": reason, "message": message}]


AFFINITY = "node(s) didn't match Pod's node affinity/selector"
UNHELPFUL = "preemption: 0/100 nodes are available: 100 Preemption is not helpful for scheduling."


@pytest.mark.parametrize(
    "message",
    [
        f"0/100 nodes are available: 100 {AFFINITY}. {UNHELPFUL}",
        f"0/100 nodes are available: 100 {AFFINITY}.",
        f"0/100 nodes are available: {AFFINITY}. {UNHELPFUL}",
        f"0/100 nodes are available: 40 {AFFINITY}, 60 node(s) had untolerated taint {{a.b/c: d}}. {UNHELPFUL}",
        f"0/100 nodes are available: 100 node(s) didn't match pod affinity rules. {UNHELPFUL}",
        f"0/100 nodes are available: 1 {AFFINITY}, 99 node(s) had volume node affinity conflict. {UNHELPFUL}",
        f"0/100 nodes are available: pod has unbound immediate PersistentVolumeClaims. {UNHELPFUL}",
        f'0/100 nodes are available: persistentvolumeclaim "a" not found. {UNHELPFUL}',
    ],
)
def test_who_waits_for_something_else_than_room_takes_none(message: str) -> None:
    state = ClusterState()
    for number in range(4):
        state.apply_node(node(f"n{number}"))
        state.apply_pod(pod(f"p{number}", cpu=8))
    state.apply_candidate(candidate("job"))
    assert plan_admissions(snap(state)).starts == (), "not tried yet: they may take all of it"
    for number in range(4):
        state.apply_pod(pod(f"p{number}", cpu=8, conditions=unschedulable(message)))
    assert [start.key for start in plan_admissions(snap(state)).starts] == ["ns/job"]
    state.apply_pod(pod("p0", cpu=8, conditions=unschedulable("0/4 nodes are available: 4 Insufficient cpu.")))
    assert [each.key for each in snap(state).pending] == ["ns/p0"], "what keeps it waiting may change"


@pytest.mark.parametrize(
    ("message", "more"),
    [
        (f"0/100 nodes are available: 99 {AFFINITY}, 1 Insufficient cpu. {UNHELPFUL}", {}),
        ("0/100 nodes are available: 100 Insufficient cpu, 3 Too many pods.", {}),
        (f"0/100 nodes are available: 99 {AFFINITY}.", {}),
        (f"another scheduler: 100 {AFFINITY}", {}),
        ("", {}),
        (f"0/100 nodes are available: 100 {AFFINITY}.", {"reason": "SchedulerError"}),
        (f"0/100 nodes are available: 100 {AFFINITY}.", {"nominatedNodeName": "n1"}),
    ],
)
def test_who_may_wait_for_room_holds_it(message: str, more: dict[str, Any]) -> None:
    state = ClusterState()
    conditions = unschedulable(message, **{k: v for k, v in more.items() if k == "reason"})
    state.apply_pod(pod("p", conditions=conditions, **{k: v for k, v in more.items() if k != "reason"}))
    assert [each.key for each in snap(state).pending] == ["ns/p"]


# --- the line ---


def test_the_line() -> None:
    state = ClusterState()
    for each in (
        candidate("late", queued_at=9),
        candidate("early", queued_at=1),
        candidate("twin-b", queued_at=5, uid="b"),
        candidate("twin-a", queued_at=5, uid="a"),
        candidate("interrupted", queued_at=99, interrupted_count=2),
        candidate("elsewhere", queue="other"),
        candidate("gone"),
        candidate("moved", queue="other"),
    ):
        state.apply_candidate(each)
    state.delete_candidate("ns/gone")
    state.delete_candidate("ns/gone")
    state.apply_candidate(candidate("moved", queued_at=100))
    state.apply_candidate(candidate("late", queued_at=0))
    lines = {queue: [c.key.removeprefix("ns/") for c in line] for queue, line in snap(state).candidates.items()}
    assert lines == {
        "default": ["interrupted", "late", "early", "twin-a", "twin-b", "moved"],
        "other": ["elsewhere"],
    }


def test_queues_and_what_is_allocated_to_them() -> None:
    state = ClusterState()
    state.apply_queue(QueueView("gpu", weight=3, quota={"cpu": 1}, state=QueueState.CLOSED))
    state.apply_pod(scavenger("a", queue="gpu", node="n1"))
    state.apply_pod(scavenger("b", queue="gpu", cpu=2))
    state.apply_pod(scavenger("c", queue="gpu", node="n1", phase="Failed"))
    state.apply_pod(scavenger("d", queue="unknown", node="n1"))
    state.assumed_starts.assume("ns/new", Grant("1", shape(4), 2), queue="gpu")
    queues = snap(state).queues
    assert queues["gpu"].allocated == {"cpu": 11_000, "memory": 4 * GI, "pods": 4}
    assert (queues["gpu"].weight, queues["gpu"].state) == (3, QueueState.CLOSED)
    assert queues["default"] == QueueView("default")
    assert queues.keys() == {"gpu", "default"}
    state.delete_queue("gpu")
    state.apply_queue(QueueView("default", weight=7))
    assert snap(state).queues == {"default": QueueView("default", weight=7)}


def selecting(**labels: str) -> QueueView:
    return QueueView("lab", selector=LabelSelector(match_labels=labels))


def test_who_may_use_a_queue_follows_selectors_and_labels() -> None:
    state = ClusterState()

    def selected() -> set[str] | None:
        found = snap(state).queues["lab"].namespaces
        return None if found is None else set(found)

    assert not state.apply_namespace("chem", {"team": "blue"}), "no queue asks"
    state.apply_queue(QueueView("lab"))
    assert selected() is None
    state.apply_queue(selecting(team="blue"))
    assert selected() == {"chem"}
    assert not state.apply_namespace("phys", {"team": "red"})
    assert state.apply_namespace("bio", {"team": "blue"})
    assert not state.apply_namespace("bio", {"team": "blue", "more": "x"}), "nothing changes"
    assert selected() == {"chem", "bio"}
    assert state.apply_namespace("chem", {}), "the label is taken off"
    assert state.apply_namespace("bio", None), "the namespace is deleted"
    assert selected() == set()
    state.apply_queue(selecting(team="red"))
    assert selected() == {"phys"}
    state.delete_queue("lab")
    state.apply_queue(QueueView("lab"))
    assert selected() is None


# --- starts under way ---


def reserved(state: ClusterState) -> int:
    return sum(r.count for r in snap(state).reservations)


def test_room_is_held_until_the_pods_are_bound() -> None:
    state = ClusterState()
    state.apply_node(node("n1"))
    state.apply_node(node("n2"))
    grant = Grant("1", shape(2), 3, ("n1", "n2", "n2"))
    state.assumed_starts.assume("ns/job", grant)
    assert snap(state).reservations == (Reservation("ns/job", shape(2), 3, ("n1", "n2", "n2"), grant=grant),)
    assert requested(snap(state)) == 6000
    state.apply_pod(scavenger("a", cpu=2))  # seen, not bound: still held, not held twice
    assert reserved(state) == 3
    assert requested(snap(state)) == 6000
    state.apply_pod(scavenger("a", cpu=2, node="n2"))
    assert snap(state).reservations == (Reservation("ns/job", shape(2), 2, ("n1", "n2"), grant=grant),)
    assert requested(snap(state)) == 6000
    state.apply_pod(scavenger("a", cpu=2, node="n2", startTime=AT))  # nothing new
    assert snap(state).reservations == (Reservation("ns/job", shape(2), 2, ("n1", "n2"), grant=grant),)
    state.apply_pod(scavenger("b", cpu=2, node="elsewhere"))
    assert snap(state).reservations == (Reservation("ns/job", shape(2), 1, ("n1",), grant=grant),)
    assert dict(state.assumed_starts.runs) == {"ns/job": "1"}
    state.apply_pod(scavenger("c", cpu=2, node="n1"))
    assert (snap(state).reservations, dict(state.assumed_starts.runs)) == ((), {})
    assert requested(snap(state)) == 4000  # one is bound to a node that is not there


@pytest.mark.parametrize(
    ("later", "expected"),
    [
        ([scavenger("a", node="n1", phase="Succeeded")], 1),  # over before its sibling was bound
        ([scavenger("a", node="n1"), "ns/a"], 1),  # bound and deleted
        ([scavenger("a"), "ns/a"], 1),  # deleted before it was bound
        ([scavenger("a"), scavenger("b"), "ns/a", "ns/b"], 0),  # undone
        ([scavenger("a", uid="1", node="n1"), scavenger("a", uid="2", node="n1")], 0),
        ([scavenger("x", run="0", node="n1", phase="Failed")], 2),  # left over from the run before
        ([scavenger("x", run="0"), "ns/x"], 2),
        ([scavenger("x", run="0")], 3),  # a stray pod takes room too
        ([scavenger("x", job="other", node="n1")], 2),
    ],
)
def test_room_is_never_held_for_longer(later: list[Pod | str], expected: int) -> None:
    state = ClusterState()
    state.assumed_starts.assume("ns/job", Grant("1", shape(), 2))
    for each in later:
        if isinstance(each, str):
            state.delete_pod(each)
        else:
            state.apply_pod(each)
    assert reserved(state) == expected
    state.assumed_starts.forget("ns/job")
    state.assumed_starts.forget("ns/job")
    assert state.assumed_starts.runs == {}


def test_a_start_may_be_assumed_after_its_pods_were_seen() -> None:
    state = ClusterState()
    state.apply_pod(scavenger("a", node="n1"))
    state.apply_pod(scavenger("b"))
    state.apply_pod(scavenger("old", run="0", phase="Failed", node="n1"))
    state.apply_pod(scavenger("older", run="-1", phase="Failed", node="n1"))
    state.assumed_starts.assume("ns/job", Grant("1", shape(), 3))
    assert reserved(state) == 2
    state.assumed_starts.assume("ns/job", Grant("1", shape(), 1))
    assert state.assumed_starts.runs == {}


def test_unbound_pods_nobody_assumed_take_room() -> None:
    state = ClusterState()
    state.apply_pod(scavenger("a", cpu=3))
    state.apply_pod(scavenger("terminating", cpu=3, deleted=AT))
    assert snap(state).reservations == (Reservation("ns/job", shape(3), 1, pod="ns/a"),)


# --- grants of an array ---


def task(index: int, grant: int | None, **more: Any) -> Pod:
    """A pod of a task, as the grant of that number created it; None: before grants had numbers."""
    raw = msgspec.to_builtins(scavenger(f"job-{index}", **more))
    raw["metadata"]["labels"][LABEL_TASK] = str(index)
    if grant is not None:
        raw["metadata"]["annotations"][ANNOTATION_GRANT] = str(grant)
    return msgspec.convert(raw, Pod)


def held(state: ClusterState) -> dict[int, int]:
    """How many pods capacity is held for, by the number of their grant; 0: pods that hold it by themselves."""
    found: dict[int, int] = {}
    for one in snap(state).reservations:
        number = one.grant.number if one.grant is not None else 0
        found[number] = found.get(number, 0) + one.count
    return found


@pytest.mark.parametrize("earlier", [100, None])
def test_the_pods_of_an_earlier_grant_hold_their_own_capacity(earlier: int | None) -> None:
    """All grants of an array have one run. Capacity was held for 3 of 8 pods, and then for none of the 3 of the next
    grant."""
    state = ClusterState()
    for index in range(5):
        state.apply_pod(task(index, earlier))
    state.assumed_starts.assume("ns/job", Grant("1", shape(), 3, number=200))
    assert held(state) == {0: 5, 200: 3}
    for index in range(3):
        state.apply_pod(task(index, earlier, node="n1"))
    assert held(state) == {0: 2, 200: 3}
    state.apply_pod(task(5, 200))
    assert held(state) == {0: 2, 200: 3}
    state.apply_pod(task(5, 200, node="n1"))
    assert held(state) == {0: 2, 200: 2}


def test_two_grants_of_an_array_are_held_until_their_own_pods_are_bound() -> None:
    state = ClusterState()
    state.assumed_starts.assume("ns/job", Grant("1", shape(), 2, number=100))
    state.assumed_starts.assume("ns/job", Grant("1", shape(), 1, number=200))
    state.apply_pod(task(0, 100, node="n1"))
    assert held(state) == {100: 1, 200: 1}
    state.apply_pod(task(1, 100))
    state.delete_pod("ns/job-1")
    assert held(state) == {200: 1}
    state.assumed_starts.forget("ns/job")
    assert held(state) == {}


@pytest.mark.parametrize("number", ["200", "-200", "x", "9" * 200, "\u0662\u0660\u0660"])
def test_what_stands_on_a_pod_of_no_task_is_no_number(number: str) -> None:
    """Tenants write no annotation of the services. Where one does, the pod counts as one of its run."""
    raw = msgspec.to_builtins(scavenger("a", node="n1"))
    raw["metadata"]["annotations"][ANNOTATION_GRANT] = number
    state = ClusterState()
    state.assumed_starts.assume("ns/job", Grant("1", shape(), 1))
    state.apply_pod(msgspec.convert(raw, Pod))
    assert reserved(state) == 0


@pytest.mark.parametrize("number", ["-200", "x", "9" * 200, "\u0662\u0660\u0660"])
def test_a_task_without_a_number_holds_its_own_capacity(number: str) -> None:
    raw = msgspec.to_builtins(task(0, 200))
    raw["metadata"]["annotations"][ANNOTATION_GRANT] = number
    state = ClusterState()
    state.assumed_starts.assume("ns/job", Grant("1", shape(), 1, number=200))
    state.apply_pod(msgspec.convert(raw, Pod))
    assert held(state) == {0: 1, 200: 1}


def test_the_name_of_the_job_tells_the_run_where_no_annotation_does() -> None:
    owner = {"kind": "Job", "name": "job-2", "uid": "u", "controller": True}
    raw = msgspec.to_builtins(scavenger("a", node="n1"))
    raw["metadata"] |= {"annotations": {}, "ownerReferences": [owner]}
    state = ClusterState()
    state.assumed_starts.assume("ns/job", Grant("job-2", shape(), 1))
    state.apply_pod(msgspec.convert(raw, Pod))
    assert state.assumed_starts.runs == {}


@pytest.mark.parametrize(
    ("pods", "reason"),
    [
        ([], None),
        ([scavenger("a", node="n1")], WaitReason.PODS_REMAIN),
        ([scavenger("a", node="n1", deleted=AT)], WaitReason.PODS_REMAIN),
        ([scavenger("a")], WaitReason.PODS_REMAIN),
        ([scavenger("a", node="n1", phase="Failed")], None),
        ([scavenger("a", job="other", node="n1")], None),
    ],
)
def test_no_second_life_beside_the_first(pods: list[Pod], reason: WaitReason | None) -> None:
    state = ClusterState()
    state.apply_node(node("n1"))
    state.apply_candidate(candidate("job"))
    for each in pods:
        state.apply_pod(each)
    hold = snap(state).blocked.get("ns/job")
    assert (hold.reason if hold else None) == reason
    assert hold is None or "ns/a" in hold.message


def test_a_candidate_does_not_wait_for_a_deleted_pod_on_a_node_that_is_lost() -> None:
    state = ClusterState()
    state.apply_candidate(candidate("job"))
    state.apply_node(node("n1", ready="Unknown"))
    state.apply_pod(scavenger("a", node="n1", deleted=AT))
    assert snap(state).blocked == {}
    state.apply_node(node("n1"))
    assert "ns/job" in snap(state).blocked
    state.delete_node("n1")
    assert snap(state).blocked == {}


def test_a_candidate_does_not_wait_for_a_deleted_pod_on_a_node_that_was_deleted_before_a_restart() -> None:
    state = ClusterState()
    state.apply_candidate(candidate("job"))
    state.apply_pod(scavenger("a", node="n1", deleted=AT))
    assert snap(state).blocked == {}


KARPENTER = {"karpenter.sh/nodepool": "default"}
CANDIDATE = [{"key": "DeletionCandidateOfClusterAutoscaler", "value": "1", "effect": "PreferNoSchedule"}]


@pytest.mark.parametrize(
    ("keep", "more", "spared"),
    [
        (None, {}, False),
        (None, {"labels": KARPENTER}, True),
        (None, {"taints": CANDIDATE}, True),
        (True, {}, True),
        (False, {"labels": KARPENTER}, False),
    ],
)
def test_where_an_autoscaler_is_jobs_go_where_ordinary_pods_are(
    keep: bool | None, more: dict[str, Any], spared: bool
) -> None:
    """kube-scheduler would take the emptiest node: the start is bound to the other one."""
    state = ClusterState(keep_scale_down=keep)
    state.apply_node(node("busy", **more))
    state.apply_node(node("empty", **more))
    state.apply_pod(pod("web", node="busy", cpu=5))
    state.apply_pod(scavenger("other", job="x", node="empty", cpu=5))
    state.apply_candidate(candidate("job"))
    seen = snap(state)
    assert seen.packs == spared
    start = plan_admissions(seen).starts[0]
    assert start.target.only == (("busy",) if spared else ())


def test_a_nearly_empty_node_is_taken_when_no_other_has_room() -> None:
    state = ClusterState(keep_scale_down=True)
    state.apply_node(node("busy"))
    state.apply_node(node("empty"))
    state.apply_pod(pod("web", node="busy", cpu=8))
    state.apply_candidate(candidate("job"))
    assert [start.target.only for start in plan_admissions(snap(state)).starts] == [("empty",)]


def test_where_an_autoscaler_is_jobs_fill_one_node_after_the_other() -> None:
    """Karpenter has to find another node for every job that is beside ordinary pods of a node which it removes. All
    four are nearly empty."""
    state = ClusterState(keep_scale_down=True)
    for name, cpu in (("a", 0), ("b", 1), ("c", 3), ("d", 1)):
        state.apply_node(node(name))
        if cpu:
            state.apply_pod(pod(f"web-{name}", node=name, cpu=cpu))
    for number in range(6):
        state.apply_candidate(candidate(f"job-{number}", queued_at=number))
    placed = [start.target.only for start in plan_admissions(snap(state)).starts]
    assert placed == [("c",)] * 5 + [("b",)]


def test_a_job_being_started_is_not_started_again() -> None:
    state = ClusterState()
    state.apply_candidate(candidate("job"))
    state.assumed_starts.assume("ns/job", Grant("1", shape(), 1))
    assert snap(state).blocked["ns/job"].reason is WaitReason.STARTING


# --- the load ---


def levels(load: float = 50.0, admission: float = 80.0) -> dict[str, Level]:
    return {"cpu": Level(load, admission), "memory": Level(load, admission)}


def published(observed_at: int = NOW, **more: Any) -> LoadRule:
    more.setdefault("levels", levels())
    return LoadRule.published(observed_at=observed_at, now=NOW, period_seconds=60, **more)


def running(second: int) -> dict[str, Any]:
    text = f"2027-01-15T08:00:{second:02}Z"
    return {"startTime": AT, "containerStatuses": [{"name": "c", "state": {"running": {"startedAt": text}}}]}


@pytest.mark.parametrize(
    ("change", "unknown"),
    [
        (running(9), False),
        (running(10), True),  # the same second: pod times are no finer
        (running(11), True),
        ({"startTime": "2027-01-15T08:00:11Z"}, True),
        ({"startTime": "2027-01-15T08:00:09Z"}, False),
        ({"phase": "Pending", "startTime": "2027-01-15T08:00:01Z"}, True),  # pulling its image
        ({}, True),
        ({"startTime": "nonsense"}, True),
    ],
)
def test_metrics_do_not_know_pods_that_started_since(change: dict[str, Any], unknown: bool) -> None:
    state = ClusterState()
    state.apply_node(node())
    state.apply_pod(scavenger("a", node="n1", **change))
    state.apply_pod(pod("ordinary", node="n1"))
    state.assumed_starts.assume("ns/new", Grant("1", shape(3), 1))
    rule = LoadRule.published(levels(), observed_at=NOW + 10_500_000, now=NOW + 20_000_000, period_seconds=60)
    limit = snap(state, rule).limits[0]
    assert (limit.resource, limit.requested) == ("cpu", 4000 if unknown else 3000)
    assert (limit.load_ppm, limit.admission_ppm, limit.allocatable) == (500_000, 800_000, 8000)


@pytest.mark.parametrize(
    ("third", "nodes"),
    [
        (scavenger("c", node="n1", phase="Succeeded"), ("n1", "n1")),
        (scavenger("c", node="n1"), ("n1", "n1", "n1")),
        (scavenger("c", node="n1", phase="Failed", containerStatuses=ended(main=0, mesh=1)), ("n1", "n1")),
        (scavenger("c", node="n1", phase="Failed", containerStatuses=ended(main=1, mesh=0)), None),
        (scavenger("c", node="n1", phase="Failed"), None),  # the job is about to end, or to be interrupted
        (scavenger("c", node="n1", phase="Succeeded", deleted=AT), None),  # ended because it was told to go
        (scavenger("c", node="n1", phase="Succeeded", run="0"), None),  # of an earlier run
        (scavenger("c", node="n1", deleted=AT), None),
        (scavenger("c"), None),
        (None, None),
    ],
)
def test_a_running_gang_may_have_to_go_though_members_have_finished(
    third: Pod | None, nodes: tuple[str, ...] | None
) -> None:
    state = ClusterState()
    state.apply_node(node())
    for each in (scavenger("a", node="n1"), scavenger("b", node="n1"), third):
        if each is not None:
            state.apply_pod(each)
    state.running.apply(RunningJob("ns/job", "uid", "default", parallelism=3))
    assert [gang.nodes for gang in snap(state).gangs] == ([] if nodes is None else [nodes])


def test_a_gang_belongs_to_the_queue_that_its_pods_count_in() -> None:
    state = ClusterState()
    state.apply_node(node())
    state.apply_pod(scavenger("a", node="n1", queue="before"))
    state.running.apply(RunningJob("ns/job", "uid", "edited"))
    assert [gang.job.queue for gang in snap(state).gangs] == ["before"]


def test_of_a_gang_that_was_taken_back_only_what_still_ran_relieves_the_load() -> None:
    state = ClusterState()
    state.apply_node(node())
    for name, phase in (("a", "Running"), ("b", "Running"), ("c", "Succeeded")):
        state.apply_pod(scavenger(name, node="n1", phase=phase))
    state.running.apply(RunningJob("ns/job", "uid", "default", parallelism=3))
    (gang,) = snap(state).gangs
    state.running.interrupt("ns/job", NOW, gang.counted, len(gang.nodes))
    state.running.interrupt("ns/job", NOW, gang.counted, 3)  # as its status says
    for name in ("a", "b", "c"):
        state.delete_pod(f"ns/{name}")
    assert snap(state, published(levels=levels())).recently_terminated["cpu"] == 2000


@pytest.mark.parametrize("ended", [True, False], ids=["ended by itself", "deleted"])
def test_what_has_gone_since_the_measurement_is_still_the_queues_to_have(ended: bool) -> None:
    """Else every job that ends takes what it held from what all queues deserve, until the load is measured again: a
    donor was brought below its own share."""
    state = ClusterState()
    state.apply_node(node(cpu=10))
    state.apply_queue(QueueView("q"))
    state.apply_queue(QueueView("r"))
    hour_ago = {"startTime": "2027-01-15T07:00:00Z"}
    for number in range(8):
        state.apply_pod(scavenger(f"p{number}", node="n1", queue="q" if number < 6 else "r", **hour_ago))
    state.apply_pod(scavenger("pulls", node="n1", queue="q", phase="Pending"))

    def deserved() -> Any:
        return plan_admissions(snap(state, published(levels=levels(load=70, admission=90)))).shares["q"].deserved

    before = deserved()  # half of what nine jobs request, and of one more that would fit
    assert before == {"cpu": 5000, "memory": before["memory"], "pods": 55}
    for name in ("p0", "p1"):
        if ended:
            state.apply_pod(scavenger(name, node="n1", queue="q", phase="Succeeded"))
        state.delete_pod(f"ns/{name}")
    state.delete_pod("ns/pulls")  # the load never showed it
    assert deserved() == before
    assert snap(state, published()).recently_terminated == {"cpu": 2000, "memory": 2 * GI, "pods": 2}
    later = LoadRule.published(levels(), observed_at=NOW + 1, now=NOW + 1, period_seconds=60)
    assert state.snapshot(now=NOW + 1, rule=later).recently_terminated == {}, "measured without them"


def test_a_clock_that_is_set_back_keeps_nothing_as_gone_for_longer() -> None:
    """Queues would deserve what nobody has measured, up to ten minutes long."""
    state = ClusterState()
    state.apply_node(node(cpu=10))
    for name in ("a", "b"):
        state.apply_pod(scavenger(name, node="n1", startTime="2027-01-15T07:00:00Z"))
    state.running.apply(RunningJob("ns/job", "uid", "default", parallelism=2))
    (gang,) = snap(state).gangs
    ahead, back = NOW + 600 * SECOND, NOW + 30 * SECOND

    def gone(now: int, observed_at: int) -> int:
        rule = LoadRule.published(levels(), observed_at=observed_at, now=now, period_seconds=60)
        return state.snapshot(now=now, rule=rule).recently_terminated.get("cpu", 0)

    assert gone(ahead, ahead) == 0
    state.running.interrupt("ns/job", ahead, gang.counted, 2)
    for name in ("a", "b"):
        state.delete_pod(f"ns/{name}")
    assert gone(ahead, ahead) == 2000
    assert gone(back, NOW) == 2000
    assert gone(back + 30 * SECOND, back + 1) == 0, "measured without them"


def test_where_the_load_is_that_of_requests_room_is_there_as_soon_as_it_is_left() -> None:
    """What is measured falls with the next measurement only: nobody knows what a pod that has gone was using."""
    state = ClusterState()
    state.apply_node(node(cpu=10))
    state.apply_pod(pod("ordinary", cpu=6, node="n1"))
    state.apply_pod(scavenger("s", node="n1", startTime="2027-01-15T07:00:00Z"))
    rules = [published(levels=levels(load=70, admission=80), on_requests=on_requests) for on_requests in (True, False)]

    def loads() -> list[float]:
        return [snap(state, rule).limits[0].ppm() / 10_000 for rule in rules]

    assert loads() == [70, 70]
    state.delete_pod("ns/ordinary")
    assert loads() == [10, 70]
    state.apply_pod(pod("another", cpu=7, node="n1"))
    assert loads() == [80, 70], "and is taken as soon as it is taken"
    state.delete_pod("ns/s")
    assert [snap(state, rule).recently_terminated.get("cpu", 0) for rule in rules] == [0, 1000]


def test_headroom_of_nodes_is_as_it_was_measured_whatever_the_load_is() -> None:
    state = ClusterState()
    state.apply_node(node(cpu=10))
    state.apply_pod(scavenger("s", node="n1", startTime=AT))
    rule = published(levels=levels(load=0, admission=80), headroom={"n1": (500, 500)}, on_requests=True)
    headroom = snap(state, rule).headroom
    assert headroom.unseen["n1"]["cpu"] == 1000, "it started since"


def test_a_standby_that_is_not_asked_keeps_nothing_of_what_has_gone() -> None:
    state = ClusterState()
    state.apply_node(node())
    state.apply_pod(scavenger("a", node="n1", startTime="2027-01-15T07:00:00Z"))
    state.delete_pod("ns/a")
    assert snap(state, published()).recently_terminated == {}


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        (LoadRule.fixed(), None),
        (LoadRule.fixed(NAN), WaitReason.BLIND),
        (LoadRule.fixed(-1), WaitReason.BLIND),
        (LoadRule.fixed(101), WaitReason.BLIND),
        (LoadRule.blind("no ConfigMap"), WaitReason.BLIND),
        (published(), None),
        (published(levels=levels(load=130)), None),  # more used than allocatable: full, but known
        (published(levels=levels(load=NAN)), WaitReason.BLIND),
        (published(levels=levels(load=INF)), WaitReason.BLIND),
        (published(levels=levels(load=-0.1)), WaitReason.BLIND),
        (published(levels=levels(admission=NAN)), WaitReason.BLIND),
        (published(levels=levels(admission=-1)), WaitReason.BLIND),
        (published(levels=levels(admission=100.1)), WaitReason.BLIND),
        (published(levels={"cpu": Level(1, 2)}), WaitReason.BLIND),
        (published(levels={}), WaitReason.BLIND),
        (published(state="Blind"), WaitReason.BLIND),
        (published(state="Evicting"), None),
        (published(admit=False), WaitReason.ADMIT_FALSE),
        (published(admit=False, state="Blind"), WaitReason.BLIND),
        (published(NOW - 180 * SECOND), None),
        (published(NOW - 181 * SECOND), WaitReason.BLIND),
        (published(NOW + 20 * SECOND), None),
        (published(NOW + 181 * SECOND), WaitReason.BLIND),
        (LoadRule.published(levels(), observed_at=None, now=NOW, period_seconds=60), WaitReason.BLIND),
        (LoadRule.published(levels(), observed_at=NOW, now=NOW, period_seconds=NAN), WaitReason.BLIND),
        (LoadRule.published(levels(), observed_at=NOW, now=NOW, period_seconds=0), WaitReason.BLIND),
    ],
)
def test_which_figures_are_relied_on(rule: LoadRule, reason: WaitReason | None) -> None:
    shut = snap(ClusterState(), rule).shut
    assert (shut.reason if shut else None) == reason


def test_nodes_closed_by_the_regulator_are_passed_on() -> None:
    assert snap(ClusterState(), published(closed_nodes=frozenset({"n1"}))).closed_nodes == {"n1"}


def test_a_clock_that_runs_ahead_hides_no_pod() -> None:
    assert published(NOW + 20 * SECOND).observed_at == NOW


# --- priorities ---


def line(state: ClusterState) -> list[str]:
    return [one.key for one in snap(state).candidates["default"]]


def test_priorities_order_the_jobs_of_a_namespace_among_their_places() -> None:
    state = ClusterState()
    other = replace(candidate("x", queued_at=2), key="other/x")
    for one in (candidate("a", queued_at=1), other, candidate("b", queued_at=3, priority=5)):
        state.apply_candidate(one)
    assert line(state) == ["ns/b", "other/x", "ns/a"]

    state.apply_candidate(candidate("b", queued_at=3))
    assert line(state) == ["ns/a", "other/x", "ns/b"]

    state.apply_candidate(candidate("a", queued_at=1, priority=-3))
    assert line(state) == ["ns/b", "other/x", "ns/a"]
    state.delete_candidate("ns/b")
    assert line(state) == ["ns/a", "other/x"]


def test_whether_a_node_may_take_a_pod_is_known_as_of_the_last_snapshot() -> None:
    state = ClusterState()
    waits = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "others' words"}]
    state.apply_pod(pod("large", cpu=9, conditions=waits))
    assert state.may_be_placed("ns/large"), "no node is known yet"
    state.apply_node(node("n1", cpu=8))
    state.snapshot(now=NOW, rule=LoadRule())
    assert not state.may_be_placed("ns/large")
    state.apply_node(node("n2", cpu=16))
    state.snapshot(now=NOW, rule=LoadRule(crowded_nodes={"n1": 1}))
    assert state.may_be_placed("ns/large")
    state.apply_pod(pod("large", cpu=9, conditions=waits, node="n2"))
    assert not state.may_be_placed("ns/large"), "it has a node"
    assert not state.may_be_placed("ns/gone")
    state.apply_pod(pod("nominated", cpu=99, conditions=waits, nominatedNodeName="n1"))
    assert state.may_be_placed("ns/nominated")
