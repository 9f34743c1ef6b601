"""What must hold of a step, a snapshot and a plan is told where it does not: one corrupted field after the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from scavenger_admitter.core.admission.cycle import soundness as of_plans
from scavenger_admitter.core.admission.cycle.plan import AdmissionPlan, Start, plan_admissions
from scavenger_admitter.core.admission.placement.inputs import NodeView
from scavenger_admitter.core.admission.snapshot import Grant, QueueView, Reservation, Snapshot
from scavenger_admitter.core.admission.view import soundness as of_snapshots
from scavenger_admitter.core.admission.view.object_facts import pod_facts
from scavenger_admitter.core.admission.view.state import ClusterState
from scavenger_admitter.core.lifecycle.actions import CreateJob, ReleasePod, StartTasks
from scavenger_admitter.core.lifecycle.observation import Observation, Outcome
from scavenger_admitter.core.lifecycle.plan import plan_job
from scavenger_admitter.core.lifecycle.soundness import assert_sound
from scavenger_api.job import Phase
from scavenger_api.reasons import InterruptionReason
from scavenger_api.states import QueueState
from scavenger_api.usage import RecommendedRequests

from . import builders as b
from . import test_array as arrays
from . import test_state as states

Wrong = Callable[[Outcome], Outcome]

# --- a job --------------------------------------------------------------------------------------------------


def running(phase: Phase = Phase.RUNNING, **more: Any) -> Observation:
    """A job whose pod runs."""
    return b.seen(b.job(phase, running=[10], **more), 100, b.batch(), b.pod())


def interrupted() -> Observation:
    """A job whose pod somebody deletes."""
    return b.seen(b.job(Phase.RUNNING, running=[10]), 100, b.batch(), b.pod(deleted=90, ended=95, code=137))


def of_status(**changes: Any) -> Wrong:
    """Other fields of the status."""
    return lambda outcome: replace(outcome, status=outcome.status.model_copy(update=changes))


def of_figures(**changes: Any) -> Wrong:
    """Other figures."""
    return lambda outcome: replace(outcome, figures=replace(outcome.figures, **changes))


def also(*actions: Any) -> Wrong:
    """These actions as well."""
    return lambda outcome: replace(outcome, actions=(*outcome.actions, *actions))


CREATE = CreateJob(b.place(0), 0)
LESS = RecommendedRequests(cpu="1")


@pytest.mark.parametrize(
    ("seen", "wrong", "says"),
    [
        (running(), of_figures(useful=-1.0), "usefulCPUSeconds"),
        (running(), of_figures(useful=1.0, lost=-2.0), "lostCPUSeconds"),
        (running(), of_status(lost_cpu_seconds=-5.0), "lostCPUSeconds"),
        (running(interrupted_count=3), of_status(interrupted_count=2), "interruptedCount: falls"),
        (running(retries=3), of_status(retries=None), "retries, ignoredFailures: fall"),
        (running(), lambda outcome: replace(outcome, requeue_after=-1.0), "requeue_after"),
        (running(), of_status(phase=Phase.COMPLETED), "finishedTimestamp"),
        (running(), of_status(queued_timestamp=None, starts=2), "queuedTimestamp"),
        (interrupted(), of_status(queued_timestamp=b.at(0)), "queuedTimestamp: stays"),
        (interrupted(), of_status(retries=1), "interruptedCount, retries: 1 and 1 ends of one run"),
        (interrupted(), of_status(interrupted_count=2), "2 and 0 ends of one run"),
        (interrupted(), of_status(phase=Phase.RUNNING), "phase: Running after an end"),
        (running(), also(CREATE), "CreateJob: admission has granted no start"),
        (running(), lambda outcome: replace(also(CREATE)(outcome), candidate=True), "candidate: asks"),
        (b.with_(running(), units=1), also(CREATE), "CreateJob: there is a Job of that name"),
        (running(), also(CREATE, CREATE), "several starts"),
        (running(), of_status(recommended=LESS), "recommended: changes to {'cpu': '1'} while pods are there"),
        (b.seen(b.job(Phase.WAITING), 100), of_status(recommended=LESS), "as a start is planned"),
    ],
)
def test_a_step_of_a_job(seen: Observation, wrong: Wrong, says: str) -> None:
    _tells(seen, plan_job(seen), wrong, says)


def test_the_status_of_a_job_that_is_being_deleted_stays() -> None:
    seen = b.seen(b.job(Phase.RUNNING, running=[10], deleted=True), 100, b.batch(), b.pod())
    _tells(seen, plan_job(seen), of_status(interrupted_count=1), "status: changes")


# --- an array -----------------------------------------------------------------------------------------------


def ending(**status: Any) -> Observation:
    """An array of ten tasks of which one ends with 0, one runs, and two may start."""
    tasks = (arrays.task(3, ended=110), arrays.task(4))
    return arrays.see(arrays.array(**status), *tasks, units=2)


def of_sets(**changes: Any) -> Wrong:
    """Other sets of tasks."""

    def wrong(outcome: Outcome) -> Outcome:
        sets = arrays.sets(outcome).model_copy(update=changes)
        return replace(outcome, status=outcome.status.model_copy(update={"array": sets}))

    return wrong


def starting(*indexes: int) -> Wrong:
    """Other tasks start."""

    def wrong(outcome: Outcome) -> Outcome:
        kept = tuple(one for one in outcome.actions if not isinstance(one, StartTasks))
        return replace(outcome, actions=(*kept, StartTasks(CREATE, indexes)), candidate=False)

    return wrong


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (of_sets(failed=1, failed_indexes="3"), r"failedIndexes: tasks \[3\] are in completedIndexes as well"),
        (of_sets(interrupted_indexes="3"), "interruptedIndexes: tasks"),
        (of_sets(completed_indexes="3,12", completed=2), "completedIndexes: tasks beyond 10"),
        (of_sets(completed=7), "completed: 7 of 1 tasks"),
        (of_sets(running=7), "running: 7 of"),
        (of_sets(counted=("3-0003cafe", "9-deadbeef")), "counted: pods that are not there"),
        (of_sets(counted=()), "counted: 0 pods more"),
        (of_sets(completed_indexes="3,5", completed=2), "counted: 2 ends of 1 pods"),
        (of_sets(retries_used="4:1"), r"retriesUsed: tasks \[4\] were tried more than 0 times again"),
        (of_sets(completed_indexes="", completed=0, failed=1, failed_indexes="3", retries_used="3:1"), "retriesUsed"),
        (of_status(interrupted_count=1), "interruptedCount: 1 more, and 0 tasks"),
        (of_status(phase=Phase.COMPLETED, finished_timestamp=b.at(900)), "phase: Completed, and tasks"),
        (also(ReleasePod("job-4", "0004cafe-0000")), "job-4 loses its finalizer"),
        (of_status(removing=("9-deadbeef:MaxRunning",)), "removing: pods that are not there"),
        (of_status(removing=("4-0004cafe:MaxRunning", "4-0004cafe:Suspended")), "removing: a pod for two reasons"),
        (of_status(removing=("4-0004cafe:MaxRunning",) * 501), "removing: 501 pods"),
        (starting(0, 1, 2), "3, and 2 are granted"),
        (starting(0, 0), "a task twice"),
        (starting(4), "4, of which there is a pod"),
        (starting(10), "10 of 10 tasks"),
        (starting(7), "7, which is over"),
    ],
)
def test_a_step_of_an_array(wrong: Wrong, says: str) -> None:
    over = {"completed_indexes": "7", "completed": 1} if says.startswith("7") else {}
    seen = ending(**over)
    _tells(seen, plan_job(seen), wrong, says)


def test_why_a_pod_is_deleted_stays() -> None:
    seen = ending(removing=("4-0004cafe:MaxRunning",))
    _tells(seen, plan_job(seen), of_status(removing=("4-0004cafe:Suspended",)), "removing: the reason changes")


def test_a_task_stays_completed() -> None:
    seen = ending(completed_indexes="7", completed=1)
    _tells(seen, plan_job(seen), of_sets(completed_indexes="3", completed=1), r"completedIndexes: tasks \[7\]")


def _tells(seen: Observation, right: Outcome, wrong: Wrong, says: str) -> None:
    assert_sound(right, seen)
    with pytest.raises(AssertionError, match=says):
        assert_sound(wrong(right), seen)


def test_an_interruption_of_a_task_is_one_end() -> None:
    seen = arrays.see(arrays.array(), arrays.task(3, deleted=100, ended=110, code=137))
    right = plan_job(seen)
    assert len(right.interruptions) == 1
    twice = (InterruptionReason.DELETED, InterruptionReason.DELETED)
    _tells(seen, right, lambda outcome: replace(outcome, interruptions=twice), "interruptedCount: 1 more, and 2 tasks")


# --- a snapshot ---------------------------------------------------------------------------------------------

PODS = [states.pod("web", node="n1"), states.scavenger("s", node="n1", cpu=2)]


def snapshot(*, starts: bool = True) -> Snapshot:
    """A node with an ordinary pod and one of a job, a start under way, and a job that waits."""
    state = ClusterState()
    state.apply_node(states.node())
    for pod in PODS:
        state.apply_pod(pod)
    if starts:
        state.assumed_starts.assume("ns/new", Grant("1", states.shape(), 2, ("n1",)))
    state.apply_candidate(states.candidate("waits"))
    return states.snap(state)


def node_with(**changes: Any) -> dict[str, NodeView]:
    return {"n1": replace(snapshot().nodes["n1"], **changes)}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"capacity": {"cpu": -1}}, "capacity: less than nothing"),
        ({"recently_terminated": {"cpu": -1}}, "recently_terminated: less than nothing"),
        ({"capacity": {"cpu": 9000}}, "capacity: .*nodes that count have"),
        ({"requested": {"cpu": 1}}, "requested: .*pods request"),
        ({"scavenged": {"cpu": 1}}, "scavenged: .*pods count as"),
        ({"nodes": node_with(used={"cpu": 1})}, "used: node n1"),
        ({"nodes": node_with(scavenger={})}, "scavenger: node n1"),
        ({"queues": {"default": QueueView("default", allocated={"cpu": 500})}}, "allocated: queue default"),
        ({"candidates": {"a": (states.candidate("w"),), "b": (states.candidate("w"),)}}, "candidates: a job twice"),
        ({"reservations": (Reservation("ns/new", states.shape(), 0),)}, "reservations: 0 pods"),
    ],
)
def test_a_snapshot(changes: dict[str, Any], says: str) -> None:
    pods = [pod_facts(pod) for pod in PODS]
    of_snapshots.assert_sound(snapshot(), pods)
    right = snapshot(starts="reservations" not in changes)  # or the sums would be wrong as well
    with pytest.raises(AssertionError, match=says):
        of_snapshots.assert_sound(replace(right, **changes), pods)


# --- a plan -------------------------------------------------------------------------------------------------


def crowded(**more: Any) -> Snapshot:
    """Three jobs wait, and there is room for two."""
    state = ClusterState()
    state.apply_node(states.node(cpu=3))
    for name in ("a", "b", "c"):
        state.apply_candidate(states.candidate(name))
    return replace(states.snap(state), **more)


def more_on(name: str, *nodes: str) -> Callable[[AdmissionPlan], AdmissionPlan]:
    """This job starts as well, on these nodes."""

    def wrong(plan: AdmissionPlan) -> AdmissionPlan:
        held = {key: wait for key, wait in plan.held.items() if key != f"ns/{name}"}
        return replace(plan, starts=(*plan.starts, Start(states.candidate(name), nodes)), held=held)

    return wrong


def none_starts(plan: AdmissionPlan) -> AdmissionPlan:
    return replace(plan, starts=())


@pytest.mark.parametrize(
    ("wrong", "more", "says"),
    [
        (more_on("c", "n1"), {}, "limits: cpu gets"),
        (more_on("a", "n1"), {}, "starts: a job twice"),
        (more_on("x", "n1"), {}, "starts: of jobs that do not wait"),
        (more_on("c"), {}, "nodes: 0 for ns/c, not 1 to 1"),
        (more_on("c", "n7"), {}, "nodes: n7 takes no pods"),
        (none_starts, {}, "held: neither started nor told"),
        (lambda plan: plan, {"shut": "blind"}, "starts: though nothing may start"),
        (lambda plan: plan, {"blocked": {"ns/a": "pods remain"}}, "starts: ns/a is blocked"),
        (lambda plan: plan, {"now": -1}, "before its delay is over"),
        (lambda plan: plan, {"closed_nodes": frozenset({"n1"})}, "nodes: n1 is closed"),
        (more_on("c", "n1"), {"limits": (), "nodes": {"n1": NodeView("n1", {"cpu": 2000})}}, "nodes: 3000 cpu on n1"),
        (
            lambda plan: plan,
            {"queues": {"default": QueueView("default", state=QueueState.CLOSED)}},
            "a queue that is not open",
        ),
        (
            lambda plan: plan,
            {"queues": {"default": QueueView("default", quota={"cpu": 1000})}},
            "quota: queue default gets 2000 cpu",
        ),
    ],
)
def test_a_plan(wrong: Callable[[AdmissionPlan], AdmissionPlan], more: dict[str, Any], says: str) -> None:
    seen = crowded()
    right = plan_admissions(seen)
    assert [start.key for start in right.starts] == ["ns/a", "ns/b"]
    of_plans.assert_sound(right, seen, None)
    with pytest.raises(AssertionError, match=says):
        of_plans.assert_sound(wrong(right), replace(seen, **more), None)


def test_a_cycle_starts_no_more_than_it_may() -> None:
    seen = crowded()
    with pytest.raises(AssertionError, match="starts: 2 in one cycle"):
        of_plans.assert_sound(plan_admissions(seen), seen, 1)
