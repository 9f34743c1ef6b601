"""The pods of arrays in buckets: what events make of them, and that a plan follows from them as from all pods."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any
from unittest import mock

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scavenger_admitter.core.lifecycle import limits
from scavenger_admitter.core.lifecycle.actions import DeletePod
from scavenger_admitter.core.lifecycle.books import many
from scavenger_admitter.core.lifecycle.observation import InterruptDecision, Observation, Outcome
from scavenger_admitter.core.lifecycle.plan import plan_job
from scavenger_admitter.core.lifecycle.pods_seen import PodsSeen, Untouched
from scavenger_admitter.core.lifecycle.start_failures import Diagnosis
from scavenger_api import names
from scavenger_api.indexes import format_indexes, indexes_of, set_of
from scavenger_api.job import Phase, ScavengerJob
from scavenger_api.reasons import InterruptionReason
from scavenger_domain.soundness import CHECKS
from scavenger_kube import kinds

from tests.unit.effort import examples

from . import builders as b
from .test_array import NOON, array, job_of_array, named, see, task

KEY = "ns/job"
SIZE = 6
NODES = ("node-1", "node-2")
GOING = kinds.Taint("ToBeDeletedByClusterAutoscaler", "", "NoSchedule")
PROXY = kinds.ContainerState(running=kinds.Running(b.stamp(10)))

REMOVING = (*(f"{index}-{index:04d}caf0:MaxRunning" for index in range(SIZE)), "*:PeerFailed")

SORTS: dict[str, dict[str, Any]] = {
    "runs": {},
    "runs since later": {"started": 50},
    "runs elsewhere": {"node": "node-2"},
    "runs, and has saved": {"checkpoint": b.stamp(90)},
    "runs, and will have saved": {"checkpoint": b.stamp(5000)},
    "starting, not placed": {"started": None, "node": ""},
    "starting": {"started": None},
    "starting later": {"started": None, "created": 500, "waiting": ("ContainerCreating", ""), "taken": 501},
    "starting, and cannot pull": {"started": None, "waiting": ("ImagePullBackOff", "")},
    "no such image": {"started": None, "waiting": ("InvalidImageName", "x")},
    "no such key": {"started": None, "waiting": ("CreateContainerConfigError", 'configmap "conf" not found')},
    "unschedulable": {"started": None, "node": "", "conditions": [b.unschedulable(100)]},
    "gated": {"started": None, "node": "", "conditions": [b.condition("PodScheduled", "False", 2, "SchedulingGated")]},
    "starts again in place": {
        "started": None,
        "waiting": ("ContainerCreating", ""),
        "conditions": [b.disrupted("PreemptionByScheduler", 100)],
    },
    "completed": {"ended": 110},
    "failed": {"ended": 110, "code": 1},
    "killed": {"ended": 110, "code": 137},
    "over, with another container": {"ended": 110, "phase": "Running", "beside": PROXY},
    "failed, unreported": {"ended": 110, "code": 1, "phase": "Running"},
    "told to go": {"deleted": 100},
    "told to go and ended": {"deleted": 100, "ended": 110, "code": 143},
    "preempted": {"conditions": [b.disrupted("PreemptionByScheduler", 100)]},
    "released": {"ended": 110, "held": False},
    "released later": {"ended": 130, "held": False},
    "released and going": {"ended": 110, "held": False, "deleted": 120},
    "runs without finalizer": {"held": False},
    "of an earlier run": {"queued": -100},
    "of a later run": {"queued": 100},
    "of another Job": {"owner": "another"},
    "orphaned": {"owner": None},
}


def node(name: str, state: str) -> kinds.Node:
    made = b.node(name, ready=state != "silent")
    return msgspec.structs.replace(made, spec=kinds.NodeSpec(taints=(GOING,))) if state == "going" else made


class Shown:
    """What informers show, and the buckets that they keep."""

    def __init__(self) -> None:
        self.pods: dict[str, kinds.Pod] = {}
        self.nodes: dict[str, kinds.Node] = {}
        self.said: set[str] = set()
        self.buckets = PodsSeen(lambda pod: pod.metadata.uid in self.said)

    def put(self, pod: kinds.Pod) -> None:
        key, old = pod.metadata.key, self.pods.get(pod.metadata.key)
        if old is not None and old.metadata.uid != pod.metadata.uid:
            self.remove(key)
            old = None
        self.pods[key] = pod
        self.buckets.apply(old, pod)

    def remove(self, key: str) -> None:
        if (old := self.pods.pop(key, None)) is not None:
            self.buckets.apply(old, None)

    def put_node(self, name: str, found: kinds.Node | None) -> None:
        if found is None:
            self.nodes.pop(name, None)
        else:
            self.nodes[name] = found
        self.buckets.apply_node(name, found, [pod for pod in self.pods.values() if pod.spec.node_name == name])

    def say(self, key: str) -> None:
        """An Event is written about a pod, or it is gone again."""
        if (pod := self.pods.get(key)) is not None:
            self.said ^= {pod.metadata.uid}
            self.buckets.apply(pod, pod)

    def replace(self, pods: list[kinds.Pod]) -> None:
        """The watch missed what happened, and everything is listed again."""
        there = {pod.metadata.key for pod in pods}
        for key in self.pods.keys() - there:
            self.remove(key)
        for pod in pods:
            self.put(pod)

    def check(self) -> None:
        nodes = {pod.spec.node_name: self.nodes.get(pod.spec.node_name) for pod in self.pods.values()}
        self.buckets.assert_sound(KEY, self.pods.values(), nodes)

    def view(
        self, told: tuple[str, ...] = (), late: str = "", silent: tuple[datetime, datetime] | None = None
    ) -> tuple[list[kinds.Pod], Untouched | None]:
        return self.buckets.view(KEY, b.place(0), b.BATCH, told, late, silent)


# --- buckets ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sort", SORTS)
def test_which_pods_are_untouched(sort: str) -> None:
    shown = Shown()
    shown.put_node("node-1", node("node-1", "ready"))
    shown.put(task(3, **SORTS[sort]))
    read, untouched = shown.view()
    runs = {3} if sort.startswith("runs") and sort != "runs without finalizer" else set[int]()
    kept = {3} if sort in ("released", "released later") else set[int]()
    starts = {3} if sort.startswith("starting") else set[int]()
    found = untouched or Untouched({}, 0, {}, 0)
    assert [set(indexes_of(tasks)) for tasks in (found.runs, found.ended, found.starts)] == [runs, kept, starts]
    assert len(read) == 1 - len(runs) - len(kept) - len(starts)


@pytest.mark.parametrize(
    "odd",
    [
        named(task(3), "another"),
        named(task(3), "job-03"),
        msgspec.structs.replace(
            task(3), metadata=msgspec.structs.replace(task(3).metadata, labels={names.LABEL_JOB: "job"})
        ),
        named(task(100_000), "job-100000"),
    ],
)
def test_what_may_be_of_no_task_is_read(odd: kinds.Pod) -> None:
    shown = Shown()
    shown.put(odd)
    assert shown.view() == ([odd], None)


def test_pods_whose_names_have_a_suffix_are_untouched() -> None:
    shown = Shown()
    for index in (3, 4):
        shown.put(named(task(index), f"job-{index}-xbcdf"))
    read, untouched = shown.view()
    assert not read
    assert untouched is not None
    assert set(indexes_of(untouched.runs)) == {3, 4}


def test_of_pods_with_several_suffixes_the_fewer_are_read() -> None:
    """One Job makes pods with one suffix. An older admitter makes others, after a way back to it."""
    shown = Shown()
    for pod in (named(task(3), "job-3-xbcdf"), named(task(4), "job-4-xbcdf"), task(3, uid="another"), task(5)):
        shown.put(pod)
        shown.check()
    shown.remove("ns/job-5")
    shown.check()
    read, untouched = shown.view()
    assert [pod.metadata.name for pod in read] == ["job-3"]
    assert untouched is not None
    assert set(indexes_of(untouched.runs)) == {3, 4}


def test_a_second_pod_of_a_task_stops_when_the_task_is_completed() -> None:
    shown = Shown()
    for pod in (named(task(3), "job-3-xbcdf"), named(task(4), "job-4-xbcdf"), task(3, uid="another", ended=110)):
        shown.put(pod)
    read, untouched = shown.view()
    outcome = plan_job(see(array(), *read, untouched=untouched))
    assert outcome.status.array is not None
    assert outcome.status.array.completed_indexes == "3"
    (stops,) = [action for action in outcome.actions if isinstance(action, DeletePod)]
    assert (stops.name, stops.intent.partition(":")[2]) == ("job-3-xbcdf", "Superseded")


def test_pods_of_another_job_than_the_one_that_is_shown_are_read() -> None:
    shown = Shown()
    shown.put(task(3))
    for run, owner in ((b.place(0), "new"), (b.place(0), ""), (b.place(5), b.BATCH)):
        assert shown.buckets.view(KEY, run, owner, ()) == ([task(3)], None)


def test_a_view_does_not_change_with_what_happens_later() -> None:
    shown = Shown()
    shown.put(task(3))
    _, before = shown.view()
    shown.put(task(4, started=90))
    shown.remove("ns/job-3")
    assert before is not None
    assert (before.runs, set(before.running), before.last_start) == (1 << 3, {3}, b.at(10))
    _, after = shown.view()
    assert after is not None
    assert (after.runs, set(after.running), after.last_start) == (1 << 4, {4}, b.at(90))


def test_the_last_start_is_that_of_a_pod_that_is_there() -> None:
    shown = Shown()
    for index in range(3):
        shown.put(task(index, started=10 + index))
    shown.remove("ns/job-2")
    found = shown.view()[1]
    assert found is not None
    assert found.last_start == b.at(11)


def test_a_pod_that_starts_is_read_from_the_first_event_about_it() -> None:
    shown = Shown()
    shown.put(task(3, started=None))
    shown.put(task(4, started=None))
    shown.say("ns/job-3")
    read, untouched = shown.view()
    assert read == [task(3, started=None)]
    assert untouched is not None
    assert untouched.starts == 1 << 4
    shown.say("ns/job-3")
    assert shown.view()[0] == []


def test_a_pod_that_takes_too_long_to_start_is_read() -> None:
    shown = Shown()
    for index, created in enumerate((5, 3, 9)):
        shown.put(task(index, started=None, created=created))
    read, untouched = shown.view(late=b.stamp(5))
    assert sorted(pod.metadata.name for pod in read) == ["job-0", "job-1"]
    assert untouched is not None
    assert (untouched.starts, set(untouched.starting), untouched.first_created) == (1 << 2, {2}, b.stamp(9))
    shown.put(task(1))
    shown.remove("ns/job-0")
    found = shown.view(late=b.stamp(5))[1]
    assert found is not None
    assert (found.starts, found.runs, found.first_created) == (1 << 2, 1 << 1, b.stamp(9))
    assert shown.view(late=b.stamp(2))[1] == found


def test_a_pod_that_reported_no_checkpoint_for_too_long_is_read() -> None:
    shown = Shown()
    for index, saved in enumerate((None, 50, 90, 5000)):
        shown.put(task(index, checkpoint=None if saved is None else b.stamp(saved)))
    read, untouched = shown.view(silent=(b.at(50), b.at(100)))
    assert sorted(pod.metadata.name for pod in read) == ["job-0", "job-1", "job-3"], "nobody saves in the future"
    assert untouched is not None
    assert (set(indexes_of(untouched.runs)), untouched.first_progress) == ({2}, b.at(90))
    shown.put(task(0, checkpoint=b.stamp(70)))
    shown.remove("ns/job-1")
    read, untouched = shown.view(silent=(b.at(50), b.at(100)))
    assert untouched is not None
    assert (len(read), set(indexes_of(untouched.runs)), untouched.first_progress) == (1, {0, 2}, b.at(70))


def test_a_node_that_is_about_to_go_has_its_pods_read() -> None:
    shown = Shown()
    shown.put(task(3))
    shown.put(task(4, node="node-2"))
    shown.put_node("node-1", node("node-1", "going"))
    read, untouched = shown.view()
    assert read == [task(3)]
    assert untouched is not None
    assert untouched.runs == 1 << 4
    shown.put_node("node-1", None)
    assert shown.view()[0] == []


def test_what_changed_is_told_once() -> None:
    shown = Shown()
    for index in range(3):
        shown.put(task(index))
    shown.put(b.pod(7))  # of no task
    assert shown.buckets.changed(KEY) == [task(0), task(1), task(2)]
    shown.put(task(1, deleted=100))
    shown.put(task(2, deleted=100))
    shown.remove("ns/job-2")
    assert shown.buckets.changed(KEY) == [task(1, deleted=100)]
    assert shown.buckets.changed(KEY) == []


def test_nothing_is_left_of_a_job_whose_pods_are_gone() -> None:
    shown = Shown()
    for sort in SORTS.values():
        shown.put(task(3, **sort))
    shown.remove("ns/job-3")
    assert not shown.buckets._jobs
    assert shown.view() == ([], None)


@st.composite
def pods(draw: st.DrawFn, uids: int = 2) -> kinds.Pod:
    index = draw(st.integers(0, SIZE - 1))
    uid = f"{index:04d}caf{draw(st.integers(0, uids - 1))}-0000"
    sort = SORTS[draw(st.sampled_from(list(SORTS)))]
    if draw(st.integers(0, 9)):
        return task(index, uid=uid, **sort)
    return named(task(index, uid="of another", **sort), "another")


EVENTS = st.lists(
    pods().map(lambda pod: ("put", pod))
    | st.integers(0, SIZE - 1).map(lambda index: ("remove", f"ns/job-{index}"))
    | st.integers(0, SIZE - 1).map(lambda index: ("say", f"ns/job-{index}"))
    | st.tuples(st.just("node"), st.tuples(st.sampled_from(NODES), st.sampled_from(("ready", "silent", "going", ""))))
    | st.tuples(st.just("replace"), st.lists(pods(), max_size=SIZE, unique_by=lambda pod: pod.metadata.key)),
    max_size=25,
)


@settings(max_examples=examples(150))
@given(EVENTS)
def test_buckets_are_those_that_all_pods_give(events: list[tuple[str, Any]]) -> None:
    shown = Shown()
    for what, of in events:
        match what:
            case "put":
                shown.put(of)
            case "remove":
                shown.remove(of)
            case "say":
                shown.say(of)
            case "node":
                shown.put_node(of[0], node(*of) if of[1] else None)
            case _:
                shown.replace(of)
        shown.check()
        read, untouched = shown.view()
        both = [*read, *(untouched.pods if untouched is not None else ())]
        assert sorted(both, key=str) == sorted(shown.pods.values(), key=str)


@pytest.mark.parametrize("wrong", ["moved", "bit", "kept", "said"])
def test_buckets_that_do_not_follow_from_the_pods_are_told(wrong: str) -> None:
    shown = Shown()
    shown.put(task(3))
    shown.put(task(4, ended=110, held=False))
    shown.put(task(5, started=None))
    shown.check()
    group = shown.buckets._jobs[KEY].groups[b.place(0), b.BATCH, ""]
    if wrong == "moved":
        shown.pods["ns/job-3"] = task(3, deleted=100)
    elif wrong == "bit":
        group.runs |= 1 << 5
    elif wrong == "kept":
        group.kept[4] = task(4, ended=111, held=False)
    else:
        shown.said.add(task(5).metadata.uid)
    with pytest.raises(AssertionError, match=r"of ns/job"):
        shown.check()


# --- plans --------------------------------------------------------------------------------------------------


def compared(outcome: Outcome) -> Outcome:
    """Without the order of what follows, which no rule is about."""
    return replace(outcome, actions=tuple(sorted(outcome.actions, key=repr)), events=(), requeue_after=None)


def plans(job: ScavengerJob, shown: Shown, **more: Any) -> tuple[Outcome, Outcome]:
    """What follows from buckets, and from all pods."""
    told = (*more.get("take", ()), *more.get("deleted", ()))
    now = b.at(more.get("now", NOON))
    allowed = limits.without_progress(job.spec)
    silent = (now - allowed, now) if allowed is not None else None
    read, untouched = shown.view(told, b.stamp(more.get("now", NOON) - 600), silent)
    nodes = {pod.spec.node_name: shown.nodes.get(pod.spec.node_name) for pod in read if pod.spec.node_name}
    all_nodes = {pod.spec.node_name: shown.nodes.get(pod.spec.node_name) for pod in shown.pods.values()}
    every: Observation = see(job, *read, *(untouched.pods if untouched else ()), nodes=all_nodes, **more)
    return plan_job(b.with_(every, pods=tuple(read), nodes=nodes, untouched=untouched)), plan_job(every)


POLICIES = [
    {"rules": [{"action": action, "onExitCodes": {"operator": "In", "values": [1, 137]}}]}
    for action in ("FailJob", "FailIndex", "Ignore")
]


def suspended() -> kinds.Job:
    """The Job, which another controller has suspended."""
    found = job_of_array()
    return msgspec.structs.replace(found, spec=msgspec.structs.replace(found.spec, suspend=True))


@st.composite
def situations(draw: st.DrawFn) -> tuple[ScavengerJob, Shown, dict[str, Any]]:
    shown = Shown()
    for name in NODES:
        if state := draw(st.sampled_from(("ready", "ready", "silent", "going", ""))):
            shown.put_node(name, node(name, state))
    for pod in draw(st.lists(pods(), max_size=SIZE, unique_by=lambda pod: pod.metadata.key)):
        shown.put(pod)
    sets = draw(st.lists(st.sampled_from(("", "", "completed", "failed", "interrupted")), min_size=SIZE, max_size=SIZE))
    tasks = {
        kind: set_of(i for i, one in enumerate(sets) if one == kind) for kind in ("completed", "failed", "interrupted")
    }
    counted = draw(st.sets(st.sampled_from([f"{i}-{i:04d}caf0" for i in range(SIZE)]), max_size=3))
    spec = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "maxRunning": st.integers(1, 4),
                "failFast": st.just(True),
                "retry": st.integers(0, 1),
                "activeDeadlineSeconds": st.sampled_from((100, 900)),
                "progressDeadlineIntervals": st.sampled_from((1, 3)),
                "interruptionAfter": st.sampled_from(("30s", "2m")),
                "checkpointExitCode": st.just(1),
                "podFailurePolicy": st.sampled_from(POLICIES),
                "secrets": st.just([{"name": "key", "mountPath": "/key"}]),
                "configMaps": st.just([{"name": "conf", "mountPath": "/conf"}]),
            },
        )
    )
    job = array(
        draw(st.sampled_from((Phase.WAITING, Phase.STARTING, Phase.RUNNING, Phase.RUNNING, Phase.INTERRUPTED))),
        tasks=draw(st.sampled_from((SIZE, SIZE - 2))),
        spec=spec,
        completed_indexes=format_indexes(tasks["completed"] & 15),
        failed_indexes=format_indexes(tasks["failed"] & 15),
        interrupted_indexes=format_indexes(tasks["interrupted"] & 15),
        completed=(tasks["completed"] & 15).bit_count(),
        failed=(tasks["failed"] & 15).bit_count(),
        counted=tuple(sorted(counted)),
        removing=tuple(sorted(draw(st.sets(st.sampled_from(REMOVING), max_size=2)))) or None,
    )
    uids = [pod.metadata.uid for pod in shown.pods.values()]
    chosen = st.sets(st.sampled_from(uids), max_size=2) if uids else st.just(set[str]())
    decision = InterruptDecision(InterruptionReason.QUEUE_RECLAIMED, "")
    granted = draw(st.integers(0, 3))
    more: dict[str, Any] = {
        "take": dict.fromkeys(draw(chosen), decision),
        "deleted": frozenset(draw(chosen)),
        "batch": draw(st.sampled_from((job_of_array(), job_of_array(), suspended(), None))),
        "last_write": draw(st.sampled_from((None, None, b.at(NOON - 0.5)))),
        "units": granted,
        "posted": draw(st.sampled_from((0, 0, 1 << 1))),
        "now": draw(st.sampled_from((NOON, 130.0, 602.0))),
    }
    for key, pod in shown.pods.items():
        if draw(st.integers(0, 4)) == 0:
            shown.say(key)
            said = ('MountVolume.SetUp failed for volume "v" : secret "key" not found',)
            more["diagnosis"] = Diagnosis(
                mounts=said, held=f"FailedMount: {said[0]}", unmounted={pod.metadata.uid: said}
            )
    return job, shown, more


@settings(max_examples=examples(200))
@given(situations(), st.sampled_from((many.KEPT_PODS, 1)))
def test_a_plan_from_buckets_is_that_from_all_pods(
    situation: tuple[ScavengerJob, Shown, dict[str, Any]], kept: int
) -> None:
    job, shown, more = situation
    if more["batch"] is None:
        shown.buckets.view = lambda *_: (list(shown.pods.values()), None)  # type: ignore[method-assign]
    # Some of these situations cannot be, such as a pod of a task that there is not.
    with mock.patch.object(many, "KEPT_PODS", kept), mock.patch.object(CHECKS, "on", new=False):
        found, expected = plans(job, shown, **more)
    assert compared(found) == compared(expected)
    assert found.requeue_after == expected.requeue_after


def test_a_smaller_maximum_stops_untouched_pods() -> None:
    shown = Shown()
    for index in range(4):
        shown.put(task(index, started=10 + 100 * index))
    found, expected = plans(array(spec={"maxRunning": 1}), shown)
    stopped = sorted(one.name for one in found.actions if isinstance(one, DeletePod))
    assert stopped == ["job-1", "job-2", "job-3"]
    assert compared(found) == compared(expected)


def test_tasks_that_start_take_their_places_and_go_before_those_that_run() -> None:
    shown = Shown()
    for index in range(4):
        shown.put(task(index, started=None if index % 2 else 10))
    found, expected = plans(array(tasks=9, spec={"maxRunning": 5}), shown, now=300)
    assert found.startable == 1
    assert compared(found) == compared(expected)
    assert found.requeue_after == expected.requeue_after == 302, "when the first start has taken ten minutes"
    found, expected = plans(array(tasks=9, spec={"maxRunning": 2}), shown, now=300)
    assert sorted(one.name for one in found.actions if isinstance(one, DeletePod)) == ["job-1", "job-3"]
    assert compared(found) == compared(expected)


def test_an_array_whose_tasks_all_start_is_starting() -> None:
    shown = Shown()
    shown.put(task(0, started=None))
    found, expected = plans(array(Phase.WAITING, tasks=1), shown, now=300)
    assert found.status.phase is Phase.STARTING
    assert compared(found) == compared(expected)


def test_a_failure_that_stops_the_others_stops_untouched_pods() -> None:
    shown = Shown()
    for index in range(3):
        shown.put(task(index))
    shown.put(task(3, ended=110, code=1))
    found, expected = plans(array(spec={"failFast": True}), shown)
    assert found.status.phase is Phase.FAILED
    assert compared(found) == compared(expected)
