"""What follows from what is known of an array: one row for each kind of event."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from scavenger_admitter.core.lifecycle.actions import (
    DeleteJob,
    DeletePod,
    EndJob,
    ReleasePod,
    StartTasks,
)
from scavenger_admitter.core.lifecycle.books.many import KEPT_BYTES, KEPT_PODS
from scavenger_admitter.core.lifecycle.confirmed import confirm
from scavenger_admitter.core.lifecycle.observation import (
    Asked,
    InterruptDecision,
    LifecycleSettings,
    Observation,
    Outcome,
)
from scavenger_admitter.core.lifecycle.plan import plan_job
from scavenger_admitter.core.lifecycle.start_failures import Refusal
from scavenger_api import names
from scavenger_api.array import ArrayStatus
from scavenger_api.job import Phase, ScavengerJob
from scavenger_api.reasons import InterruptionReason
from scavenger_kube import kinds

from . import builders as b

NOON = 1000.0
MIB = 1024 * 1024


def array(
    phase: Phase | None = Phase.RUNNING, *, tasks: int = 10, spec: dict[str, Any] | None = None, **status: Any
) -> ScavengerJob:
    """An array; what its status says of tasks is given by Python names, as all of a status is."""
    sets = {name: status.pop(name) for name in list(status) if name in ArrayStatus.model_fields}
    own = {key: value for key, value in (spec or {}).items() if key in ("maxRunning", "failFast", "retry")}
    beside = {key: value for key, value in (spec or {}).items() if key not in own}
    return b.job(
        phase,
        spec={"array": {"tasks": tasks, **own}, **beside},
        array=ArrayStatus(**sets),
        running_timestamps=(b.at(10),),
        **status,
    )


def task(index: int, **more: Any) -> kinds.Pod:
    """The pod of a task; it runs since 10 s unless told otherwise."""
    created = more.pop("created", None)
    pod = b.pod(index, uid=more.pop("uid", f"{index:04d}cafe-0000"), **more)
    labels = {**pod.metadata.labels, names.LABEL_TASK: str(index)}
    meta = kinds.ObjectMeta(
        name=pod.metadata.name,
        namespace="ns",
        uid=pod.metadata.uid,
        generation=pod.metadata.generation,
        creation_timestamp=pod.metadata.creation_timestamp if created is None else b.stamp(created),
        deletion_timestamp=pod.metadata.deletion_timestamp,
        deletion_grace_period_seconds=pod.metadata.deletion_grace_period_seconds,
        labels=labels,
        annotations=pod.metadata.annotations,
        owner_references=pod.metadata.owner_references,
        finalizers=pod.metadata.finalizers,
    )
    return kinds.Pod(metadata=meta, spec=pod.spec, status=pod.status)


def named(pod: kinds.Pod, name: str) -> kinds.Pod:
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, name=name))


def job_of_array() -> kinds.Job:
    return b.batch()


def with_snapshots(**more: Any) -> dict[str, Any]:
    claims = [{"name": "work", "mountPath": "/data"}]
    return {"command": ["a"], "persistentVolumeClaims": claims, "snapshot": {"volume": "work"}, **more}


def see(job: ScavengerJob, *pods: kinds.Pod, now: float = NOON, **more: Any) -> Observation:
    return b.seen(job, now, more.pop("batch", job_of_array()), *pods, **more)


def decide(seen: Observation) -> Outcome:
    """`plan_job`, and the proof that it counts nothing twice: seen again once written, sums and sets stay."""
    outcome = plan_job(seen)
    again = plan_job(b.with_(seen, job=b.written(seen.seen.job, outcome.status), refused=None, wait=None))
    assert again.status == outcome.status
    assert not again.counted
    assert not again.events
    return outcome


def sets(outcome: Outcome) -> ArrayStatus:
    assert outcome.status.array is not None
    return outcome.status.array


def actions(outcome: Outcome, kind: type[Any]) -> list[Any]:
    return [one for one in outcome.actions if isinstance(one, kind)]


def test_a_task_that_ended_with_0_is_completed() -> None:
    outcome = decide(see(array(), task(3, ended=110), task(4)))
    assert sets(outcome).completed_indexes == "3"
    assert sets(outcome).running_indexes == "4"
    assert sets(outcome).counted == ("3-0003cafe",)
    assert actions(outcome, ReleasePod) == [ReleasePod("job-3", "0003cafe-0000")]
    assert outcome.status.useful_cpu_seconds == 200.0  # 2 CPUs for 100 s
    assert outcome.status.lost_cpu_seconds == 0
    assert outcome.status.interrupted_count == 0
    assert outcome.status.message == "1 of 10 tasks completed, 1 running"


@pytest.mark.parametrize("now", [110, 112])
def test_a_task_is_counted_before_containers_beside_it_are_ended(now: float) -> None:
    """Both moments are whole seconds. A deletion in the second in which the task ended would look like its cause."""
    proxy = kinds.ContainerState(running=kinds.Running(b.stamp(10)))
    outcome = decide(see(array(), task(3, ended=110, phase="Running", beside=proxy), now=now))
    assert sets(outcome).completed_indexes == "3"
    assert actions(outcome, ReleasePod) == [ReleasePod("job-3", "0003cafe-0000")]
    assert actions(outcome, DeletePod) == [DeletePod("job-3", "0003cafe-0000")]
    outcome = decide(see(array(), task(3, ended=110, code=1, phase="Running", beside=proxy), now=now))
    assert sets(outcome).failed_indexes == "3"
    assert actions(outcome, DeletePod) == [DeletePod("job-3", "0003cafe-0000")]


def test_what_is_counted_is_released_and_not_counted_again() -> None:
    job = array(completed=1, completed_indexes="3", counted=("3-0003cafe",))
    outcome = decide(see(job, task(3, ended=110)))
    assert outcome.counted == 0
    assert outcome.status.useful_cpu_seconds == 0
    assert actions(outcome, ReleasePod) == [ReleasePod("job-3", "0003cafe-0000")]
    assert sets(outcome).counted == ("3-0003cafe",)


def test_what_is_released_is_listed_no_more() -> None:
    job = array(completed=1, completed_indexes="3", counted=("3-0003cafe",))
    assert sets(decide(see(job, task(3, ended=110, held=False)))).counted == ()


def test_another_pod_of_a_counted_task_is_counted() -> None:
    job = array(counted=("3-0003cafe",), spec={"backoffLimit": 3}, retries_used="3:1")
    outcome = decide(see(job, task(3, ended=110, uid="beefbeef-0000")))
    assert sets(outcome).completed_indexes == "3"
    assert sets(outcome).counted == ("3-beefbeef",)


def test_an_interrupted_task_waits_first() -> None:
    job = array(spec={"interruptionAfter": "1m"})
    pod = task(7, ended=160, code=143, deleted=150, conditions=[b.disrupted("PreemptionByScheduler", 150)])
    outcome = decide(see(job, pod, now=161))
    assert sets(outcome).interrupted_indexes == "7"
    assert outcome.status.interrupted_count == 1
    assert outcome.status.interrupted_timestamps == (b.at(150),)
    assert (outcome.status.useful_cpu_seconds, outcome.status.lost_cpu_seconds) == (240.0, 40.0)
    assert actions(outcome, ReleasePod)
    assert outcome.candidate
    assert outcome.startable == 9  # its pod is in the way until it is gone
    gone = decide(see(b.written(job, outcome.status), now=169))
    assert (gone.startable, gone.interrupted_waits) == (1, True)  # it alone stands before other jobs
    granted = decide(see(b.written(job, outcome.status), now=170, units=2))
    (start,) = actions(granted, StartTasks)
    assert start.indexes == (7, 0)


def test_an_interruption_that_its_own_user_may_have_caused_gives_no_place() -> None:
    outcome = decide(see(array(), task(7, ended=160, code=143, deleted=150), now=161))
    assert outcome.status.interrupted_count == 1
    assert sets(outcome).interrupted_indexes == ""


def test_a_task_whose_room_another_queue_takes() -> None:
    why = InterruptDecision(InterruptionReason.QUEUE_RECLAIMED, "queue b has less than it deserves")
    stopped = {"0007cafe-0000": why}
    outcome = decide(see(array(), task(7), take=stopped))
    assert actions(outcome, DeletePod) == [DeletePod("job-7", "0007cafe-0000")]
    outcome = decide(see(array(), task(7, ended=1002, code=143, deleted=1000), now=1003, take=stopped))
    assert outcome.interruptions == (InterruptionReason.QUEUE_RECLAIMED,)
    assert sets(outcome).interrupted_indexes == "7"


def test_a_pod_that_is_asked_to_go_is_counted_when_it_has_ended() -> None:
    outcome = decide(see(array(), task(7, deleted=150), now=161))
    assert outcome.status.interrupted_count == 0
    assert actions(outcome, ReleasePod) == []


def test_a_task_that_never_ran_goes_back_without_an_interruption() -> None:
    outcome = decide(see(array(), task(7, started=None, node="", deleted=150), task(8), now=161))
    assert outcome.status.interrupted_count == 0
    assert actions(outcome, ReleasePod) == [ReleasePod("job-7", "0007cafe-0000")]
    assert sets(outcome).interrupted_indexes == ""


def test_a_task_whose_node_cannot_continue_its_snapshot_starts_again_without_a_retry() -> None:
    claims = [{"name": "work", "mountPath": "/data"}]
    spec = {"command": ["a"], "persistentVolumeClaims": claims, "snapshot": {"volume": "work"}}
    outcome = decide(see(array(spec=spec), task(5, ended=200, code=86), now=201))
    assert (sets(outcome).failed, sets(outcome).retries_used) == (0, "")
    assert outcome.unfit_node == "node-1"


def test_a_failed_task_starts_again_while_it_may() -> None:
    job = array(spec={"backoffLimit": 2}, retries_used="5:1")
    outcome = decide(see(job, task(5, ended=200, code=1), now=201))
    assert sets(outcome).retries_used == "5:2"
    assert sets(outcome).failed == 0
    assert actions(outcome, DeletePod) == [DeletePod("job-5", "0005cafe-0000")]
    assert outcome.status.lost_cpu_seconds == 380.0
    again = decide(see(b.written(job, outcome.status), task(5, ended=300, code=1, uid="beef0000-0"), now=301))
    assert sets(again).failed_indexes == "5"
    assert actions(again, DeletePod) == []


def test_a_task_whose_runtime_does_not_know_when_it_ran_had_what_its_kubelet_says() -> None:
    """As after a reboot: https://github.com/containerd/containerd, internal/cri/server/restart.go."""
    never = -b.BASE.timestamp()
    pod = task(5, started=never, ended=never, code=255, exit_reason="Unknown")
    said = (b.condition("Ready", "False", 201),)
    status = msgspec.structs.replace(pod.status, start_time=b.stamp(10), conditions=said)
    pod = msgspec.structs.replace(pod, status=status)
    outcome = decide(see(array(), pod, now=100_000))
    assert outcome.status.interrupted_count == 1
    assert outcome.status.useful_cpu_seconds == 0.0
    assert outcome.status.lost_cpu_seconds == 382.0


@pytest.mark.parametrize(
    ("action", "failed", "retries", "ignored", "phase"),
    [
        ("FailJob", "5", "5:1", None, Phase.FAILED),
        ("FailIndex", "5", "5:1", None, Phase.RUNNING),
        ("Ignore", "", "5:1", 3, Phase.RUNNING),
        ("Count", "", "5:2", 2, Phase.RUNNING),
        (None, "", "5:2", 2, Phase.RUNNING),
    ],
)
def test_a_rule_says_what_the_failure_of_a_task_means(
    action: str | None, failed: str, retries: str, ignored: int | None, phase: Phase
) -> None:
    rules = [{"action": action or "FailJob", "onExitCodes": {"operator": "In", "values": [3 if action else 4]}}]
    job = array(spec={"backoffLimit": 2, "podFailurePolicy": {"rules": rules}}, retries_used="5:1", ignored_failures=2)
    outcome = decide(see(job, task(5, ended=200, code=3), task(6), now=201))
    assert (sets(outcome).failed_indexes, sets(outcome).retries_used) == (failed, retries)
    assert outcome.status.ignored_failures == (ignored or 2)
    assert outcome.status.phase is phase
    assert outcome.status.lost_cpu_seconds == 380.0
    if action == "FailJob":
        assert {c.reason for c in outcome.status.conditions if c.type == "Succeeded"} == {"PodFailurePolicy"}
        assert "rules[0] of podFailurePolicy makes it final" in (outcome.status.message or "")


def test_an_array_fails_when_its_tasks_have_run_for_as_long_as_they_may() -> None:
    job = array(spec={"activeDeadlineSeconds": 900})
    early = decide(see(job, task(1), task(2, started=60), now=909))
    assert early.status.phase is Phase.RUNNING
    assert (early.status.active_seconds, sets(early).active_since) == (None, b.at(10))
    assert early.requeue_after == 1
    outcome = decide(see(b.written(job, early.status), task(1), task(2, started=60), now=910))
    assert outcome.status.phase is Phase.FAILED
    assert {c.reason for c in outcome.status.conditions if c.type == "Succeeded"} == {"DeadlineExceeded"}
    assert outcome.status.message == "its tasks ran for 900 s together, as long as activeDeadlineSeconds allows"
    assert (outcome.status.active_seconds, sets(outcome).active_since) == (900, None)
    told = b.batch(conditions={"FailureTarget": 910})
    stopped = decide(see(b.written(job, outcome.status), task(1), task(2, started=60), now=911, batch=told))
    assert [one.name for one in actions(stopped, DeletePod)] == ["job-1", "job-2"]


def test_time_in_which_no_task_runs_is_not_counted() -> None:
    """Nor is time counted twice in which two run, or a pod that is judged late."""
    job = array(spec={"activeDeadlineSeconds": 900, "backoffLimit": 9})
    killed = task(2, ended=90, code=137, exit_reason="Error")
    outcome = decide(see(job, task(1, ended=110), killed, now=111))
    assert sets(outcome).active_since == b.at(10), "nobody knows yet how the other one ended"
    assert outcome.status.phase is not Phase.FAILED
    later = decide(see(b.written(job, outcome.status), task(1, ended=110, held=False), killed, now=300))
    assert (later.status.active_seconds, sets(later).active_since) == (100, None)
    again = decide(see(b.written(job, later.status), task(3, started=500), now=560))
    assert (again.status.active_seconds, sets(again).active_since) == (100, b.at(500))
    assert again.requeue_after == 740  # of 900 s 160 are used
    over = decide(see(b.written(job, again.status), task(3, started=500, ended=570), now=600))
    assert (over.status.active_seconds, sets(over).active_since) == (170, None)


def test_time_of_a_task_that_was_told_to_stop_counts_until_then() -> None:
    """As with a job: its grace period is no time of the array."""
    job = array(spec={"activeDeadlineSeconds": 900})
    outcome = decide(see(job, task(1, deleted=890), now=915))
    assert (outcome.status.phase, sets(outcome).active_since) == (Phase.RUNNING, b.at(10))
    ended = task(1, deleted=890, ended=919, code=143)
    over = decide(see(b.written(job, outcome.status), ended, now=920))
    assert (over.status.active_seconds, sets(over).active_since) == (880, None)


def test_a_last_task_that_ended_after_the_deadline_is_judged_first() -> None:
    """Nobody looked meanwhile: a job is Completed then."""
    job = array(spec={"activeDeadlineSeconds": 900}, completed_indexes="0-6,8-9")
    killed = task(7, ended=1000, code=137, exit_reason="Error")
    outcome = decide(see(job, killed, now=1001))
    assert outcome.status.phase is not Phase.FAILED, "nobody knows yet how it ended"
    over = decide(see(b.written(job, outcome.status), task(7, ended=1000, code=0), now=1010))
    assert over.status.phase is Phase.COMPLETED


def test_a_task_that_started_and_ended_between_two_looks_has_run() -> None:
    outcome = decide(see(array(spec={"activeDeadlineSeconds": 900}), task(1, started=20, ended=50), now=60))
    assert (outcome.status.active_seconds, sets(outcome).active_since) == (30, None)


def test_without_a_limit_no_time_is_counted() -> None:
    outcome = decide(see(array(), task(1), now=909))
    assert (outcome.status.active_seconds, sets(outcome).active_since) == (None, None)


def test_a_retry_after_the_deadline_has_all_the_time_again() -> None:
    job = array(Phase.FAILED, spec={"activeDeadlineSeconds": 900, "retry": 1}, active_seconds=900, failed_indexes="3")
    outcome = decide(see(job.model_copy(), now=2000))
    assert outcome.status.phase is Phase.WAITING
    assert outcome.status.active_seconds is None


def test_a_task_that_reports_no_checkpoint_for_too_long_fails() -> None:
    job = array(spec={"progressDeadlineIntervals": 3, "interruptionAfter": "1m", "backoffLimit": 3})
    saved = task(2, checkpoint=b.stamp(100))
    early = decide(see(job, task(1), saved, now=189))
    assert actions(early, DeletePod) == []
    assert early.requeue_after == 1
    outcome = decide(see(b.written(job, early.status), task(1), saved, now=190))
    assert actions(outcome, DeletePod) == [DeletePod("job-1", "0001cafe-0000")]
    assert outcome.status.removing == ("1-0001cafe:NoProgress",)
    assert sets(outcome).failed == 0, "it is judged when it has ended"
    ended = task(1, ended=205, code=143, deleted=200)
    over = decide(see(b.written(job, outcome.status), ended, saved, now=206))
    assert (sets(over).failed_indexes, sets(over).retries_used) == ("1", ""), "as a job, it has no retries for that"
    assert over.status.interrupted_count == 0
    assert over.status.lost_cpu_seconds == 20.0  # 2 CPUs for 10 s since a checkpoint was due
    assert [event.reason for event in over.events] == ["TaskFailed"]
    assert over.events[0].message.startswith("pod job-1: no checkpoint reported since 2026-01-01T00:00:10Z, though one")


def test_a_task_that_is_taken_away_before_it_is_stopped_for_want_of_progress_is_interrupted() -> None:
    job = array(spec={"progressDeadlineIntervals": 3, "interruptionAfter": "1m"}, removing=("1-0001cafe:NoProgress",))
    preempted = [b.disrupted("PreemptionByScheduler", 188)]
    outcome = decide(see(job, task(1, ended=195, code=143, deleted=190, conditions=preempted), now=196))
    assert (sets(outcome).failed_indexes, outcome.status.interrupted_count) == ("", 1)


def test_no_task_is_stopped_for_want_of_progress_that_the_status_cannot_name() -> None:
    """Its end would count as an interruption, and it would start again."""
    full = tuple(f"{index}-{index:04d}cafe:MaxRunning" for index in range(10, 510))
    stopping = [task(index, deleted=180) for index in range(10, 510)]
    job = array(tasks=600, spec={"progressDeadlineIntervals": 3, "interruptionAfter": "1m"}, removing=full)
    outcome = plan_job(see(job, task(1), *stopping, now=190))
    assert [one for one in actions(outcome, DeletePod) if one.name == "job-1"] == []


def test_an_array_goes_on_past_a_failed_task() -> None:
    outcome = decide(see(array(), task(5, ended=200, code=1), task(6)))
    assert outcome.status.phase is Phase.RUNNING
    assert sets(outcome).failed_indexes == "5"
    assert [event.reason for event in outcome.events] == ["TaskFailed"]


def test_fail_fast() -> None:
    outcome = decide(see(array(spec={"failFast": True}), task(5, ended=200, code=1), task(6)))
    assert outcome.status.phase is Phase.FAILED
    (end,) = actions(outcome, EndJob)
    assert end.conditions == ("FailureTarget",)
    assert not outcome.candidate


def test_all_tasks_completed() -> None:
    job = array(tasks=3, completed=2, completed_indexes="0,1")
    outcome = decide(see(job, task(2, ended=200)))
    assert outcome.status.phase is Phase.COMPLETED
    (end,) = actions(outcome, EndJob)
    assert (end.conditions, end.succeeded) == (("SuccessCriteriaMet", "Complete"), 3)
    assert end.completed_indexes == "0-2"


def test_all_have_ended_and_some_failed() -> None:
    job = array(tasks=3, completed=1, completed_indexes="0", failed=1, failed_indexes="1")
    outcome = decide(see(job, task(2, ended=200)))
    assert outcome.status.phase is Phase.FAILED
    assert outcome.status.message == "1 of 3 tasks failed: 1"
    assert {c.reason for c in outcome.status.conditions if c.type == "Succeeded"} == {"TasksFailed"}


def test_an_array_is_not_over_while_a_pod_may_still_run() -> None:
    job = array(tasks=2, completed=1, completed_indexes="0")
    assert decide(see(job, task(1))).status.phase is Phase.RUNNING


def test_retry_lets_failed_tasks_wait_again() -> None:
    job = array(
        Phase.FAILED,
        tasks=3,
        spec={"retry": 1},
        completed=2,
        completed_indexes="0,2",
        failed=1,
        failed_indexes="1",
        retries_used="1:3",
        finished_timestamp=b.at(500),
    )
    old = b.batch(conditions={"Failed": 500})
    outcome = decide(see(job, batch=old))
    assert outcome.status.phase is Phase.WAITING
    assert outcome.status.finished_timestamp is None
    assert (sets(outcome).failed, sets(outcome).retries_used, sets(outcome).retry) == (0, "", 1)
    assert actions(outcome, DeleteJob)
    assert not outcome.candidate, "the name of its Job is taken"
    outcome = decide(see(b.written(job, outcome.status), batch=None, units=5))
    assert [one.indexes for one in actions(outcome, StartTasks)] == [(1,)]


def test_suspend_stops_tasks_and_counts_no_interruption() -> None:
    job = array(spec={"suspend": True})
    outcome = decide(see(job, task(1)))
    assert outcome.status.phase is Phase.SUSPENDED
    assert actions(outcome, DeletePod) == [DeletePod("job-1", "0001cafe-0000")]
    assert not outcome.candidate
    gone = decide(see(b.written(job, outcome.status), task(1, ended=1010, code=143, deleted=1001), now=1011))
    assert gone.status.interrupted_count == 0
    assert gone.status.lost_cpu_seconds > 0


def test_most_that_run_at_a_time() -> None:
    job = array(spec={"maxRunning": 3})
    outcome = decide(see(job, task(0), task(1, ended=20)))
    assert outcome.startable == 2
    (start,) = actions(decide(see(job, task(0), units=9)), StartTasks)
    assert start.indexes == (1, 2)


def test_a_smaller_most_takes_those_with_the_least_unsaved_work() -> None:
    job = array(spec={"maxRunning": 1})
    saved = task(2, checkpoint=b.stamp(990))
    outcome = decide(see(job, task(1), saved, task(3, checkpoint=b.stamp(500))))
    assert [one.name for one in actions(outcome, DeletePod)] == ["job-2", "job-3"]


def test_deletions_that_are_not_shown_yet_are_not_chosen_again() -> None:
    """Meanwhile the only task that may stay has saved its work, and so has the least unsaved."""
    job = array(spec={"maxRunning": 1})
    others = (task(2, checkpoint=b.stamp(990)), task(3, checkpoint=b.stamp(500)))
    chosen = frozenset(one.uid for one in actions(decide(see(job, task(1), *others)), DeletePod))
    outcome = decide(see(job, task(1, checkpoint=b.stamp(999)), *others, deleted=chosen))
    assert [one.name for one in actions(outcome, DeletePod)] == ["job-2", "job-3"]


def test_a_task_whose_name_is_taken_is_held_back() -> None:
    job = array(Phase.WAITING, tasks=1)
    outcome = decide(see(job, name_taken={0: "job-0-xbcdf"}))
    assert not outcome.candidate
    assert "pod job-0-xbcdf," in (outcome.status.message or "")


@pytest.mark.parametrize(
    ("pods", "plain"),
    [
        ([], False),
        ([task(1)], True),
        ([task(1, ended=110, held=False)], True),
        ([task(1, queued=-100)], True),  # of an earlier array of this name
        ([task(1, owner="another")], True),
        ([named(task(1), "job-1-xbcdf")], False),
        ([named(task(1), "job-1-xbcdf"), task(2)], True),
    ],
)
def test_a_job_names_its_pods_as_those_that_are_there(pods: list[kinds.Pod], plain: bool) -> None:
    """Else a task could have two pods. Which names the pods of an existing Job get, that Job says."""
    outcome = decide(see(array(), *pods, batch=None, units=2))
    (start,) = actions(outcome, StartTasks)
    assert start.job.plain_names is plain


def test_a_lost_node_holds_back_its_own_tasks_only() -> None:
    pod = task(1, deleted=900)
    outcome = decide(see(array(), pod, nodes={"node-1": b.node(ready=False)}))
    assert outcome.startable == 9
    assert sets(outcome).completed == 0
    gone = decide(see(array(), pod, nodes={"node-1": None}))
    assert gone.status.interrupted_count == 1


def test_a_task_whose_end_was_the_last_that_its_node_reported() -> None:
    pod = task(1, ended=900, code=143, phase="Running")
    assert decide(see(array(), pod)).status.interrupted_count == 0, "its kubelet is to say more"
    lost = decide(see(array(), pod, nodes={"node-1": b.node(ready=False)}))
    assert lost.status.interrupted_count == 1
    assert actions(lost, ReleasePod) == [ReleasePod("job-1", "0001cafe-0000")]


def test_a_job_that_was_deleted_by_hand_interrupts_every_task() -> None:
    pods = [task(index, ended=960, code=143, deleted=950) for index in (1, 2)]
    outcome = decide(see(array(), *pods, batch=None))
    assert outcome.status.interrupted_count == 2
    assert outcome.candidate, "the Job is created again"


def test_a_pod_that_is_not_placed_is_deleted_and_the_delay_grows() -> None:
    pod = task(1, started=None, node="", conditions=[b.unschedulable(5)])
    outcome = plan_job(see(array(Phase.STARTING), pod))
    assert outcome.start_failed
    assert actions(outcome, DeletePod) == [DeletePod("job-1", "0001cafe-0000")]
    assert outcome.requeue_after != 0, "looks again and again until the watch shows the deletion"


def test_a_start_that_was_refused() -> None:
    outcome = plan_job(see(array(Phase.WAITING), refused=Refusal("exceeded quota: q", 403, "Forbidden", of_pod=True)))
    assert outcome.start_failed
    assert not outcome.candidate
    assert {c.reason for c in outcome.status.conditions if c.type == "Admitted"} == {"QuotaExceeded"}


def test_an_invalid_job_fails_the_array() -> None:
    outcome = plan_job(see(array(Phase.WAITING), batch=None, refused=Refusal("invalid", 422, "Invalid")))
    assert outcome.status.phase is Phase.FAILED


def test_pods_of_an_earlier_array_are_cleared_away() -> None:
    old = task(1, queued=-50, started=-40, ended=-20)
    outcome = decide(see(array(Phase.WAITING), old))
    assert ReleasePod("job-1", "0001cafe-0000") in outcome.actions
    assert outcome.startable == 9
    assert outcome.counted == 0


def test_a_second_life_of_a_task_that_is_over_is_deleted() -> None:
    job = array(completed=1, completed_indexes="1")
    assert DeletePod("job-1", "0001cafe-0000") in decide(see(job, task(1))).actions


@pytest.mark.parametrize("how", [{"code": 0}, {"code": 1}, {"code": 143, "deleted": 105}])
def test_however_a_second_life_of_a_task_ends_its_task_stays_as_it_was(how: dict[str, Any]) -> None:
    """A former leader created it late. It computed what was computed before."""
    job = array(completed=1, completed_indexes="1", failed=1, failed_indexes="2", spec={"failFast": True})
    outcome = decide(see(job, task(1, ended=110, **how), task(2, ended=110, **how), now=120))
    assert (sets(outcome).completed_indexes, sets(outcome).failed_indexes) == ("1", "2")
    assert sets(outcome).interrupted_indexes == ""
    assert outcome.status.phase is not Phase.FAILED
    assert outcome.status.interrupted_count == 0
    ran = 100 if how["code"] != 143 else 95
    assert (outcome.status.useful_cpu_seconds, outcome.status.lost_cpu_seconds) == (0, 4.0 * ran)


def test_a_pod_that_comes_late_to_an_array_that_failed_is_deleted() -> None:
    job = array(Phase.FAILED, failed=1, failed_indexes="1", spec={"failFast": True}, finished_timestamp=b.at(500))
    old = b.batch(conditions={"FailureTarget": 500, "Failed": 510})
    assert actions(decide(see(job, task(6), batch=old)), DeletePod) == [DeletePod("job-6", "0006cafe-0000")]


# --- what an array stopped itself, and goes on after ---


def test_an_array_goes_on_when_what_it_suspended_has_stopped() -> None:
    job = array(Phase.SUSPENDED)
    outcome = decide(see(job, task(1, deleted=NOON - 1), task(2)))
    assert outcome.status.phase is Phase.SUSPENDED
    assert not outcome.candidate
    ended = task(1, ended=NOON + 2, code=143, deleted=NOON - 1)
    outcome = decide(see(b.written(job, outcome.status), ended, task(2), now=NOON + 3))
    assert outcome.status.interrupted_count == 0
    assert sets(outcome).counted == ("1-0001cafe",)
    assert outcome.status.phase is Phase.RUNNING
    assert outcome.candidate


def test_a_suspended_array_does_not_wait_for_a_node_that_is_away() -> None:
    job = array(Phase.SUSPENDED)
    assert decide(see(job, task(1, deleted=900), nodes={"node-1": b.node(ready=False)})).candidate


def test_a_suspended_array_waits_for_no_pod_that_is_overdue() -> None:
    """A kubelet that cannot end one process would hold all other tasks back."""
    job = array(Phase.SUSPENDED)
    stops = decide(see(job, task(1, deleted=NOON - 44)))
    assert (stops.status.phase, stops.candidate, stops.requeue_after) == (Phase.SUSPENDED, False, 1.0)
    assert decide(see(job, task(1, deleted=NOON - 46))).candidate


def test_retry_of_an_array_that_still_stops() -> None:
    spec = {"failFast": True, "retry": 1}
    job = array(Phase.FAILED, tasks=3, spec=spec, failed=1, failed_indexes="0", finished_timestamp=b.at(500))
    batch = b.batch(conditions={"FailureTarget": 500})
    outcome = decide(see(job, task(1), batch=batch))
    assert outcome.status.phase is Phase.FAILED
    assert actions(outcome, DeletePod) == [DeletePod("job-1", "0001cafe-0000")]
    outcome = plan_job(see(job, task(1, ended=NOON + 2, code=143, deleted=NOON), now=NOON + 3, batch=batch))
    assert (outcome.status.phase, outcome.status.interrupted_count) == (Phase.FAILED, 0)
    released = task(1, ended=NOON + 2, code=143, deleted=NOON, held=False)
    outcome = decide(see(b.written(job, outcome.status), released, now=NOON + 5, batch=batch))
    assert (outcome.status.phase, sets(outcome).failed, sets(outcome).retry) == (Phase.WAITING, 0, 1)
    assert actions(outcome, DeleteJob)


def test_writes_are_a_second_apart() -> None:
    job = array()
    early = plan_job(see(job, task(1, ended=110), last_write=b.at(NOON - 0.4)))
    assert not early.changed
    assert early.counted == 0
    assert actions(early, ReleasePod) == []
    assert early.requeue_after == pytest.approx(0.6)


def test_which_tasks_run_is_written_once_in_a_while() -> None:
    job = array(running=1, running_indexes="1")
    running = b.written(job, decide(see(job, task(1))).status)
    early = plan_job(see(running, task(1), task(2), last_write=b.at(NOON - 4)))
    assert not early.changed
    assert early.requeue_after == pytest.approx(6)
    late = plan_job(see(running, task(1), task(2), last_write=b.at(NOON - 10)))
    assert sets(late).running_indexes == "1,2"


def test_five_hundred_are_counted_in_one_write() -> None:
    job = array(tasks=2000)
    pods = [task(index, ended=110) for index in range(600)]
    outcome = plan_job(see(job, *pods))
    assert outcome.counted == 500
    assert sets(outcome).completed_indexes == "0-499"
    assert len(actions(outcome, ReleasePod)) == 500
    rest = plan_job(see(b.written(job, outcome.status), *pods))
    assert rest.counted == 100


def test_the_last_thousand_pods_are_kept_for_their_logs() -> None:
    job = array(tasks=2000, completed=KEPT_PODS + 2, completed_indexes=f"0-{KEPT_PODS + 1}")
    pods = [task(index, ended=110 + index, held=False) for index in range(KEPT_PODS + 2)]
    outcome = plan_job(see(job, *pods, now=5000.0))
    assert [one.name for one in actions(outcome, DeletePod)] == ["job-0", "job-1"]


@pytest.mark.parametrize(("each", "kept"), [(0, KEPT_PODS), (5000, KEPT_PODS), (MIB, 12), (2 * KEPT_BYTES, 1)])
def test_large_pods_are_kept_by_their_bytes(each: int, kept: int) -> None:
    count = KEPT_PODS + 2
    job = array(tasks=2000, completed=count, completed_indexes=f"0-{count - 1}")
    pods = [task(index, ended=110 + index, held=False) for index in range(count)]
    deleted = [one.name for one in actions(plan_job(see(job, *pods, now=5000.0, pod_bytes=each)), DeletePod)]
    assert deleted == [f"job-{index}" for index in range(min(500, count - kept))]


@pytest.mark.parametrize(
    ("pod", "spec", "runs"),
    [
        (0, None, 2000),
        (5000, None, 2000),
        (MIB, None, 256),
        (0, MIB // 4, 1024),
        (MIB, MIB // 4, 256),
        (2**40, None, 1),
    ],
)
def test_as_many_large_pods_run_as_have_256_mib_together(pod: int, spec: int | None, runs: int) -> None:
    """Before there is a pod, the spec says how large one is."""
    outcome = decide(see(array(Phase.WAITING, tasks=2000), pod_bytes=pod, spec_bytes=spec))
    assert outcome.startable == runs


def test_the_next_task_of_large_pods_starts_when_one_has_ended_and_none_is_stopped() -> None:
    job = array(tasks=9)
    full = decide(see(job, *(task(index) for index in range(4)), pod_bytes=64 * MIB))
    assert (full.startable, actions(full, DeletePod)) == (0, [])
    assert full.status.message == "0 of 9 tasks completed, 4 running, no more than 4 at once as their pods are large"
    assert decide(see(job, *(task(index) for index in range(3)), pod_bytes=64 * MIB)).startable == 1
    beyond = decide(see(job, *(task(index) for index in range(6)), pod_bytes=64 * MIB))
    assert (beyond.startable, actions(beyond, DeletePod)) == (0, [])
    fewer = decide(see(array(tasks=9, spec={"maxRunning": 2}), task(1), pod_bytes=64 * MIB))
    assert (fewer.startable, "large" in str(fewer.status.message)) == (1, False)


def test_tasks_that_fail_at_once_wait_longer_and_longer() -> None:
    job = array(spec={"backoffLimit": 15}, short_runs=1)
    outcome = decide(see(job, task(5, ended=20, code=1), now=21))
    assert outcome.status.short_runs == 2
    assert not outcome.candidate
    assert outcome.requeue_after is not None
    later = decide(see(b.written(job, outcome.status), now=21 + 61))
    assert later.candidate


def test_a_deleted_array_lets_go_of_its_pods() -> None:
    job = b.job(Phase.RUNNING, deleted=True, spec={"array": {"tasks": 3}})
    outcome = plan_job(see(job, task(1, ended=20), task(2)))
    assert actions(outcome, ReleasePod) == [ReleasePod("job-1", "0001cafe-0000")]
    assert actions(outcome, DeleteJob)


def test_a_newcomer_says_nothing_for_a_while() -> None:
    job = b.job(None, spec={"array": {"tasks": 3}})
    outcome = plan_job(see(job, batch=None, now=1))
    assert outcome.status.phase is Phase.WAITING
    assert outcome.candidate
    assert outcome.startable == 3
    assert outcome.quiet_until is not None


# --- what a task has in common with a job ---


@pytest.mark.parametrize("spec", [with_snapshots(), {"checkpointExitCode": 85}])
def test_a_task_that_saved_its_state_and_left_goes_on_later(spec: dict[str, Any]) -> None:
    limits = LifecycleSettings(snapshots=True)
    outcome = decide(see(array(spec=spec), task(5, ended=200, code=85), now=201, rules=limits))
    assert (sets(outcome).failed, sets(outcome).retries_used) == (0, "")
    assert outcome.status.interrupted_count == 0
    assert outcome.status.lost_cpu_seconds == 0
    assert outcome.status.useful_cpu_seconds == 380.0  # 2 CPUs for 190 s
    assert outcome.startable == 9  # its pod is in the way until it is gone
    assert actions(outcome, DeletePod) == [DeletePod("job-5", "0005cafe-0000")]


def test_a_task_that_saves_its_state_and_leaves_starts_once_a_minute() -> None:
    """Its pod is in the way until then, so no state says when it started, and a new leader waits as long."""
    job = array(spec={"checkpointExitCode": 85})
    outcome = decide(see(job, task(5, ended=20, code=85), task(6), now=21))
    assert actions(outcome, ReleasePod) == [ReleasePod("job-5", "0005cafe-0000")]
    assert actions(outcome, DeletePod) == []
    assert outcome.requeue_after is not None
    assert outcome.requeue_after <= 49  # a minute after it started
    released = task(5, ended=20, code=85, held=False)
    later = decide(see(b.written(job, outcome.status), released, task(6), now=69))
    assert actions(later, DeletePod) == []
    assert later.requeue_after == 1
    gone = decide(see(b.written(job, outcome.status), released, task(6), now=70))
    assert actions(gone, DeletePod) == [DeletePod("job-5", "0005cafe-0000")]


def test_tasks_that_save_and_leave_at_once_wait_longer_and_longer() -> None:
    job = array(spec=with_snapshots(), short_runs=2)
    outcome = decide(see(job, task(5, ended=20, code=85), now=21))
    assert outcome.status.short_runs == 3


def test_an_eviction_before_a_suspension_is_counted() -> None:
    job = array(spec={"suspend": True})
    evicted = [b.disrupted("EvictionByEvictionAPI", 990)]
    outcome = decide(see(job, task(1, ended=1005, code=143, deleted=990, conditions=evicted), now=1006))
    assert outcome.status.interrupted_count == 1
    assert sets(outcome).interrupted_indexes == "", "its own user may evict pods"


def test_an_eviction_after_a_suspension_is_not_counted() -> None:
    """The pod stops already: whoever evicts it now changes nothing."""
    job = array(Phase.SUSPENDED, spec={"suspend": True})
    late = [b.disrupted("EvictionByEvictionAPI", 1000)]
    outcome = decide(see(job, task(1, ended=1005, code=143, deleted=990, conditions=late), now=1006))
    assert outcome.status.interrupted_count == 0


@pytest.mark.parametrize(("cost", "first"), [(0, "job-1"), (200, "job-2")])
def test_who_stops_first_follows_from_the_startup_cost(cost: float, first: str) -> None:
    """Task 1 runs since 100 s and has saved nothing; task 2 has saved, 150 s ago."""
    job = array(spec={"maxRunning": 1})
    pods = (task(1, started=900), task(2, started=10, checkpoint=b.stamp(850)))
    limits = LifecycleSettings(startup_cost=timedelta(seconds=cost))
    (stopped,) = actions(decide(see(job, *pods, rules=limits)), DeletePod)
    assert stopped.name == first


def test_what_one_task_lacks_for_good_stops_no_other_task() -> None:
    """A ConfigMap was deleted after most tasks had started."""
    spec = {"configMaps": [{"name": "table", "mountPath": "/t"}]}
    lacks = task(2, started=None, waiting=("CreateContainerConfigError", 'configmap "table" not found'))
    outcome = plan_job(see(array(spec=spec), task(1), lacks))
    assert outcome.status.phase is Phase.RUNNING
    assert [one.name for one in actions(outcome, DeletePod)] == ["job-2"]
    assert outcome.start_failed, "the next start waits"
    assert any('"table"' in note.message for note in outcome.events)
    alone = plan_job(see(array(spec=spec), lacks))
    assert alone.status.phase is Phase.FAILED
    assert '"table"' in (alone.status.message or "")


def test_a_task_on_a_silent_node_gives_up_its_place_after_five_minutes() -> None:
    job, silent = array(spec={"maxRunning": 1}), {"node-1": b.node(ready=False)}
    stuck = task(1, deleted=600)  # until 630
    assert decide(see(job, stuck, nodes=silent, now=900)).startable == 0
    outcome = decide(see(job, stuck, nodes=silent, now=931))
    assert outcome.startable == 1
    assert "job-1" in (outcome.status.message or "")


def test_pods_of_a_job_that_caches_do_not_show_yet_are_let_be() -> None:
    """Somebody deleted the Job, the admitter made another one, and the watch still shows the first."""
    newer = task(1)
    newer = msgspec.structs.replace(
        newer,
        metadata=msgspec.structs.replace(
            newer.metadata, owner_references=(kinds.OwnerReference("Job", "job", "newer", controller=True),)
        ),
    )
    seen = see(array(), newer)
    assert confirm(seen) is None, "the API server is asked for the Job"
    asked = confirm(b.with_(seen, asked=Asked.RUN))
    assert asked is not None
    assert actions(asked.value, DeletePod), "the API server says that its Job is gone"


# --- its place in the queue ---


def test_its_place_is_the_creation_of_its_last_pod() -> None:
    outcome = decide(see(array(), task(3, created=50), task(4, created=200), task(5, created=70, ended=300)))
    assert outcome.place == b.at(200)
    assert decide(see(array())).place == b.at(10)  # the last start that the status names
    assert decide(see(array(), task(3, created=NOON + 60))).place == b.at(NOON), "clocks differ"


def test_the_status_names_the_first_and_the_last_start_of_a_task() -> None:
    outcome = decide(see(array(), task(3, started=50), task(4, started=200)))
    assert outcome.status.running_timestamps == (b.at(10), b.at(200))
    later = b.written(array(), outcome.status)
    assert decide(see(later, task(3, started=50))).status.running_timestamps == (b.at(10), b.at(200))
    gone = decide(see(later))
    assert (gone.status.running_timestamps, gone.place) == ((b.at(10), b.at(200)), b.at(200))


def test_a_later_start_alone_is_written_once_in_a_while() -> None:
    first = decide(see(array(), task(3, started=50), now=1000))
    known = b.written(array(), first.status)
    pods = (task(3, started=50), task(4, started=1001))
    assert not plan_job(see(known, *pods, now=1005, last_write=b.at(1000))).changed
    assert plan_job(see(known, *pods, now=1011, last_write=b.at(1000))).changed
