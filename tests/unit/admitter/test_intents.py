"""Own deletions stand in the status that commits them, and are never read as somebody else's."""

from __future__ import annotations

from typing import Any

import pytest
from scavenger_admitter.core.lifecycle.actions import DeletePod, EndJob
from scavenger_admitter.core.lifecycle.books.many import LARGE
from scavenger_admitter.core.lifecycle.confirmed import cleanups
from scavenger_admitter.core.lifecycle.observation import InterruptDecision, Outcome
from scavenger_admitter.writer import SCAVENGERJOBS
from scavenger_api import names
from scavenger_api.job import Phase, ScavengerJob, ScavengerJobStatus
from scavenger_api.reasons import InterruptionReason as Cause
from scavenger_api.removing import MAX_REMOVING
from scavenger_kube import kinds
from scavenger_testing.faults import Fault

from . import builders as b
from .harness import NS, Harness, Object, empty_harness
from .test_array import NOON, actions, array, decide, see, sets, task

RUNNING = Phase.RUNNING
GOING = "karpenter.sh/disrupted"


def deleted(outcome: Outcome, written: ScavengerJobStatus) -> list[str]:
    """The pods that are deleted where the API server has this status."""
    done = cleanups(b.confirmed(outcome), (), written).value
    return [one.name for one in done if isinstance(one, DeletePod)]


def stopping(index: int, **more: Any) -> kinds.Pod:
    """A task that was told to stop at 1000 s, and did at 1005 s."""
    return task(index, **{"deleted": NOON, "ended": NOON + 5, "code": 143, **more})


# --- tasks ----------------------------------------------------------------------------------------------------------


def test_a_pod_is_deleted_when_the_status_says_why() -> None:
    job = array(spec={"maxRunning": 1})
    outcome = decide(see(job, task(1), task(2, checkpoint=b.stamp(990))))
    assert outcome.status.removing == ("2-0002cafe:MaxRunning",)
    assert deleted(outcome, job.status) == []
    assert deleted(outcome, outcome.status) == ["job-2"]


def test_who_takes_over_deletes_what_the_status_names() -> None:
    """The maximum has grown again meanwhile: what is committed is done all the same."""
    job = array(removing=("2-0002cafe:MaxRunning",))
    outcome = decide(see(job, task(1), task(2)))
    assert deleted(outcome, job.status) == ["job-2"]
    assert outcome.status.removing == job.status.removing


@pytest.mark.parametrize(
    ("reason", "cause", "first"),
    [
        ("MaxRunning", Cause.MAX_RUNNING, False),
        ("QueueReclaimed", Cause.QUEUE_RECLAIMED, True),
        ("Starved", Cause.STARVED, True),
        ("NodeLeaving", Cause.NODE_DRAINED, True),
    ],
)
@pytest.mark.parametrize("observes", [False, True], ids=["1.33", "1.34"])
def test_who_takes_over_reads_an_own_deletion_as_that(
    reason: str, cause: Cause, *, first: bool, observes: bool
) -> None:
    job = array(removing=(f"2-0002cafe:{reason}",))
    pod = stopping(2, final=NOON + 6, generations=(2, 2 * observes))
    outcome = decide(see(job, pod, now=NOON + 7))
    assert outcome.interruptions == (cause,)
    assert sets(outcome).interrupted_indexes == ("2" if first else "")
    assert outcome.status.removing is None, "the write that counts the pod names it no longer"


@pytest.mark.parametrize("reason", ["StartFailed", "Superseded", "Suspended", "Finished"])
def test_after_some_reasons_time_is_booked_and_nothing_is_counted(reason: str) -> None:
    outcome = decide(see(array(removing=(f"2-0002cafe:{reason}",)), stopping(2), now=NOON + 7))
    assert (outcome.status.interrupted_count, outcome.counted) == (0, 1)
    assert outcome.status.lost_cpu_seconds > 0


def test_a_task_that_ended_before_it_was_deleted_ended_by_itself() -> None:
    job = array(removing=("2-0002cafe:MaxRunning", "3-0003cafe:MaxRunning"))
    outcome = decide(see(job, task(2, ended=990), task(3, ended=990, code=3)))
    assert (sets(outcome).completed_indexes, sets(outcome).failed_indexes) == ("2", "3")
    assert outcome.status.interrupted_count == 0


def test_a_preemption_between_the_word_and_the_deletion_is_a_preemption() -> None:
    preempted = [b.disrupted("PreemptionByScheduler", NOON - 1)]
    outcome = decide(see(array(removing=("2-0002cafe:MaxRunning",)), stopping(2, conditions=preempted), now=NOON + 7))
    assert outcome.interruptions == (Cause.PREEMPTED,)
    assert sets(outcome).interrupted_indexes == "2"


def test_a_task_on_a_node_about_to_go_is_told_as_a_job_is() -> None:
    nodes = {"node-1": b.node(taint=GOING)}
    outcome = decide(see(array(), task(2), nodes=nodes))
    assert outcome.status.removing == ("2-0002cafe:NodeLeaving",)
    gone = decide(see(b.written(array(), outcome.status), stopping(2), nodes={"node-1": None}, now=NOON + 7))
    assert gone.interruptions == (Cause.NODE_DRAINED,)


def test_capacity_that_a_queue_takes_back_is_named() -> None:
    decision = InterruptDecision(Cause.QUEUE_RECLAIMED, "for queue b")
    outcome = decide(see(array(), task(2), take={"0002cafe-0000": decision}))
    assert outcome.status.removing == ("2-0002cafe:QueueReclaimed",)


def test_an_array_that_goes_on_names_what_it_still_stops() -> None:
    """Its node does not answer, so nobody waits for that pod. When the node is back, the pod counts as suspended."""
    job = array(Phase.SUSPENDED)
    silent = {"node-1": b.node(ready=False, since=900)}
    outcome = decide(see(job, task(2, deleted=NOON - 100), nodes=silent))
    assert outcome.status.phase is not Phase.SUSPENDED
    assert outcome.status.removing == ("2-0002cafe:Suspended",)
    later = decide(see(b.written(job, outcome.status), stopping(2, deleted=NOON - 100), now=NOON + 7))
    assert (later.counted, later.status.interrupted_count) == (1, 0)


def test_what_others_deleted_before_a_suspension_is_counted() -> None:
    job = array(spec={"suspend": True})
    outcome = decide(see(job, task(1), task(2, deleted=NOON - 3)))
    assert outcome.status.phase is Phase.SUSPENDED
    assert outcome.status.removing == ("2-0002cafe:Deleted",)
    suspended = b.written(job, outcome.status)
    ended = decide(see(suspended, stopping(1), stopping(2, deleted=NOON - 3), now=NOON + 7))
    assert (ended.counted, ended.interruptions) == (2, (Cause.DELETED,))
    assert ended.status.removing is None


def test_a_suspension_is_committed_by_its_phase() -> None:
    job = array(spec={"suspend": True})
    outcome = decide(see(job, task(1)))
    assert deleted(outcome, job.status) == []
    assert deleted(outcome, outcome.status) == ["job-1"]
    assert outcome.status.removing is None


def test_a_job_that_is_deleted_while_its_suspended_tasks_stop_interrupts_none() -> None:
    outcome = decide(see(array(Phase.SUSPENDED, spec={"suspend": True}), stopping(1), batch=None, now=NOON + 7))
    assert (outcome.counted, outcome.status.interrupted_count) == (1, 0)


def test_a_reason_never_changes() -> None:
    job = array(spec={"suspend": True}, removing=("1-0001cafe:MaxRunning",))
    outcome = decide(see(job, task(1)))
    assert outcome.status.removing == ("1-0001cafe:MaxRunning",)
    ended = decide(see(b.written(job, outcome.status), stopping(1), now=NOON + 7))
    assert ended.interruptions == (Cause.MAX_RUNNING,)


def test_beyond_what_a_status_names_pods_are_deleted_without_a_name() -> None:
    job = array(tasks=700, spec={"maxRunning": 1})
    outcome = decide(see(job, *(task(index) for index in range(700))))
    assert len(outcome.status.removing or ()) == MAX_REMOVING
    assert len(deleted(outcome, outcome.status)) == 699
    assert len(deleted(outcome, job.status)) == 699 - MAX_REMOVING


def test_reasons_are_written_a_second_apart_and_also_where_the_status_is_large() -> None:
    large = array(tasks=60_000, spec={"maxRunning": 1}, retries_used=",".join(f"{n}:1" for n in range(0, 9000, 2)))
    assert large.status.array is not None
    assert len(large.status.array.retries_used) > LARGE
    pods = (task(59_001), task(59_002, checkpoint=b.stamp(990)))
    early = decide(see(large, *pods, last_write=b.at(NOON - 0.5)))
    assert not early.changed
    assert actions(early, DeletePod) == []
    assert early.requeue_after == 0.5
    outcome = decide(see(large, *pods, last_write=b.at(NOON - 1)))
    assert outcome.status == large.status.model_copy(update={"removing": ("59002-59002caf:MaxRunning",)})


@pytest.mark.parametrize(("ago", "phase"), [(0.5, RUNNING), (1, Phase.SUSPENDED)])
def test_a_suspension_does_not_wait_longer_where_the_status_is_large(ago: float, phase: Phase) -> None:
    sets_of_many = ",".join(f"{n}:1" for n in range(0, 9000, 2))
    large = array(tasks=60_000, spec={"suspend": True}, retries_used=sets_of_many)
    assert decide(see(large, task(59_001), last_write=b.at(NOON - ago))).status.phase is phase


def test_what_another_version_has_committed_is_done() -> None:
    job = array(removing=("1-0001cafe:NotYetKnown",))
    outcome = decide(see(job, task(1)))
    assert deleted(outcome, job.status) == ["job-1"]
    assert outcome.status.removing == job.status.removing


def test_pods_that_are_gone_are_worth_no_write() -> None:
    job = array(running=1, running_indexes="3", removing=("2-0002cafe:MaxRunning",), message="0 of 10 tasks completed")
    first = decide(see(job, task(3)))
    named = first.status.model_copy(update={"removing": ("2-0002cafe:MaxRunning",)})
    assert not decide(see(b.written(job, named), task(3))).changed


# --- gangs ----------------------------------------------------------------------------------------------------------


def managed(**conditions: float) -> kinds.Job:
    return b.batch(conditions=conditions)


def gang(**status: Any) -> ScavengerJob:
    return b.job(RUNNING, running=[10], spec=b.gang(), **status)


FAILED = b.pod(0, ended=100, code=1)


def test_a_gang_says_that_its_members_stop_before_they_do() -> None:
    job = gang()
    outcome = b.decide(b.seen(job, 101, managed(), FAILED, b.pod(1)))
    assert outcome.status.removing == ("*:PeerFailed",)
    assert actions(outcome, EndJob), "FailureTarget is for clients"
    assert deleted(outcome, outcome.status) == []
    later = b.decide(b.seen(b.written(job, outcome.status), 101, managed(FailureTarget=101), FAILED, b.pod(1)))
    assert deleted(later, outcome.status) == ["job-1"]
    assert deleted(later, job.status) == []


@pytest.mark.parametrize("observed", [0, 2], ids=["1.33", "1.34"])
@pytest.mark.parametrize(
    "peer",
    [
        pytest.param({"ended": 100, "code": 1}, id="ended unseen"),
        pytest.param({"ended": 104, "code": 143}, id="stopped"),
        pytest.param({"ended": 104, "code": 0}, id="exits with 0"),
    ],
)
def test_a_peer_that_was_stopped_does_not_interrupt_the_gang(peer: dict[str, Any], observed: int) -> None:
    """On 1.34 a kubelet knew of the deletion when it reported the end, whether that had caused it or not."""
    job = gang(removing=("*:PeerFailed",))
    one = b.pod(1, final=105, generations=(2, observed), **peer)
    outcome = b.decide(b.seen(job, 106, managed(FailureTarget=101), FAILED, one))
    assert outcome.status.phase is Phase.FAILED
    assert outcome.status.interrupted_count == 0
    assert outcome.status.removing is None, "the phase says all from here on"


def test_a_preemption_of_a_gang_before_its_members_were_stopped_interrupts_it() -> None:
    preempted = b.pod(1, ended=104, code=143, deleted=99, conditions=[b.disrupted("PreemptionByScheduler", 99)])
    outcome = b.decide(b.seen(gang(removing=("*:PeerFailed",)), 106, managed(FailureTarget=101), FAILED, preempted))
    assert outcome.status.phase is Phase.INTERRUPTED


def test_where_no_member_has_failed_after_all_a_deletion_is_one() -> None:
    """The pod that had failed is gone without a trace: the others were deleted, and nobody knows of an exit."""
    outcome = b.decide(
        b.seen(gang(removing=("*:PeerFailed",)), 106, managed(), b.pod(1, ended=104, code=143, deleted=101))
    )
    assert outcome.status.phase is Phase.INTERRUPTED


# --- the admitter as a whole ------------------------------------------------------------------------------------------


def stopped(c: Harness) -> list[str]:
    """The tasks whose pods are being deleted."""
    pods = (pod["metadata"] for pod in c.pods("sweep") if "deletionTimestamp" in pod["metadata"])
    return sorted(meta["labels"][names.LABEL_TASK] for meta in pods)


def lower(c: Harness, most: int) -> None:
    c.api.edit(SCAVENGERJOBS, NS, "sweep", lambda job: job["spec"]["array"].update(maxRunning=most))


async def three_tasks(c: Harness) -> None:
    c.node()
    c.api.store.graceful_pods = True
    c.submit("sweep", array={"tasks": 3})
    await c.until(lambda: (c.status("sweep").get("array") or {}).get("running") == 3)
    c.kubelet = False


@pytest.mark.slow
async def test_a_leader_dies_between_the_word_and_the_deletion() -> None:
    async with empty_harness() as c:
        first = c.admitter()
        await three_tasks(c)
        c.api.faults.add(hangs := Fault("hang", 100, frozenset({"DELETE"}), "/pods"))
        lower(c, 1)
        await c.until(lambda: c.status("sweep").get("removing"), limit=20)
        assert len(c.status("sweep")["removing"]) == 2
        assert stopped(c) == []
        await first.kill()
        hangs.times = 0
        lower(c, 3)  # what is committed is done all the same
        c.admitter()
        await c.until(lambda: len(stopped(c)) == 2, limit=60)
        assert [one.partition("-")[0] for one in c.status("sweep")["removing"]] == stopped(c)
        c.kubelet = True
        await c.until(lambda: c.status("sweep").get("interruptedCount", 0) == 2, limit=60)
        await c.until(lambda: c.events("Interrupted"))
        assert "axRunning" in c.events("Interrupted")[-1]["message"]
        await c.until(lambda: "removing" not in c.status("sweep"))


@pytest.mark.slow
async def test_an_older_crd_drops_the_names_and_pods_are_deleted_as_before() -> None:
    async with empty_harness() as c:

        def prune(where: Any, obj: Object) -> Object:
            if where.plural == "scavengerjobs":
                obj.get("status", {}).pop("removing", None)
            return obj

        c.api.store.prune = prune
        c.admitter()
        await three_tasks(c)
        before = c.status_writes("sweep")
        lower(c, 1)
        await c.until(lambda: len(stopped(c)) == 2, limit=20)
        await c.pass_time(10)
        assert c.status_writes("sweep") - before <= 3
        c.kubelet = True
        await c.until(lambda: c.status("sweep").get("interruptedCount", 0) == 2, limit=60)


@pytest.mark.slow
async def test_nothing_is_deleted_where_the_status_cannot_be_written() -> None:
    async with empty_harness() as c:
        c.admitter()
        await three_tasks(c)
        c.api.faults.add(refused := Fault("fail", 1000, frozenset({"PATCH"}), "/scavengerjobs", 500, "InternalError"))
        lower(c, 1)
        await c.pass_time(10)
        assert stopped(c) == []
        refused.times = 0
        await c.until(lambda: len(stopped(c)) == 2, limit=90)
