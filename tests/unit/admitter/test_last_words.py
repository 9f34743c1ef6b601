"""What pods say as they end: by checkpointExitCode, and in the last line of their termination message.

Cores are 2 for each pod, runs start at second 10 from the place in line 0, and the interval is half an hour.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from scavenger_admitter.core.lifecycle import accounting
from scavenger_admitter.core.lifecycle.actions import DeleteJob, ReleasePod
from scavenger_admitter.core.lifecycle.observation import InterruptDecision, Observation, Outcome
from scavenger_api import names
from scavenger_api.job import ConditionType, Phase, ScavengerJob, ScavengerJobStatus
from scavenger_api.reasons import InterruptionReason
from scavenger_kube import kinds
from scavenger_kube.resources import PODS

from . import builders as b
from .harness import NS, Harness, Object, harness, runs

RUNNING, INTERRUPTED, WAITING = Phase.RUNNING, Phase.INTERRUPTED, Phase.WAITING
CODE: dict[str, Any] = {"checkpointExitCode": 85}


def said(seconds: float) -> str:
    return f"step 7 of 9\ncheckpoint={b.stamp(seconds)}\n"


def running(size: int = 1, *, spec: dict[str, Any] | None = None, **status: Any) -> ScavengerJob:
    return b.job(RUNNING, running=[10], spec={"parallelism": size, **(spec or {})}, **status)


def look(job: ScavengerJob, now: float, *pods: kinds.Pod, **more: Any) -> tuple[ScavengerJob, Outcome]:
    """The outcome, and the job as it is once that is written."""
    outcome = b.decide(b.seen(job, now, more.pop("batch", b.batch()), *pods, **more))
    return b.written(job, outcome.status), outcome


def spent(status: ScavengerJobStatus) -> tuple[float, float]:
    return status.useful_cpu_seconds, status.lost_cpu_seconds


def released(outcome: Outcome) -> set[str]:
    return {action.name for action in outcome.actions if isinstance(action, ReleasePod)}


# --- one pod, interrupted -------------------------------------------------------------------------------------------

ENDS: tuple[tuple[str, dict[str, Any], dict[str, Any], float], ...] = (
    # name, spec, how the pod that was told to go at 110 ended, what of the 200 core-seconds is lost
    ("nothing said", {}, {"code": 143}, 200),
    ("killed", {}, {"code": 137, "exit_reason": "Error", "ended": 140}, 200),
    ("checkpoint on SIGTERM", {}, {"message": said(111)}, 0),
    ("checkpoint on SIGTERM, exit 1", {}, {"code": 1, "message": said(111)}, 0),
    ("checkpoint on SIGTERM, written in the same second", {}, {"message": said(112.9)}, 0),
    ("killed, and had said before when the last one was", {}, {"code": 137, "message": said(60), "ended": 140}, 100),
    ("last periodic checkpoint", {}, {"code": 1, "message": said(60)}, 100),
    ("from the future", {}, {"message": said(4000)}, 200),
    ("from after its end", {}, {"message": said(113)}, 200),
    ("from before its start", {}, {"message": said(9)}, 200),
    ("at its start", {}, {"message": said(10)}, 200),
    ("garbage", {}, {"message": "checkpoint=" + "9" * 4000}, 200),
    ("not the last line", {}, {"message": said(111) + "bye"}, 200),
    ("the code of checkpoints", CODE, {"code": 85, "exit_reason": "Error"}, 0),
    ("that code, killed for memory", CODE, {"code": 85, "exit_reason": "OOMKilled"}, 200),
    ("that code, of another job", {}, {"code": 85, "exit_reason": "Error"}, 200),
    ("0 when told to stop", CODE, {"code": 0}, 200),
)


@pytest.mark.parametrize(("name", "spec", "pod", "lost"), ENDS, ids=[row[0] for row in ENDS])
@pytest.mark.parametrize("watched", [True, False], ids=["seen at once", "admitter down meanwhile"])
def test_what_an_interrupted_pod_says_as_it_ends(
    name: str, spec: dict[str, Any], pod: dict[str, Any], lost: float, watched: bool
) -> None:
    job, gone = running(spec=spec), b.pod(deleted=110, **{"ended": 112, **pod})
    if watched:
        job, outcome = look(job, 110, b.pod(deleted=110))
        assert job.status.phase is INTERRUPTED
        assert spent(job.status) == (0, 200)
        assert outcome.unsettled
        assert "at most 200 CPU-seconds lost" in (job.status.message or "")
        assert not released(outcome)
    job, outcome = look(job, 145, gone)
    assert job.status.phase is INTERRUPTED
    assert job.status.interrupted_count == 1
    assert spent(job.status) == (200 - lost, lost)
    assert job.status.ended_timestamp == b.at(110)
    assert not outcome.unsettled
    assert released(outcome) == {"job-0"}
    again, outcome = look(job, 146, gone)
    assert not outcome.changed
    assert again == job


def test_metrics_are_told_what_was_saved_after_all() -> None:
    job, outcome = look(running(), 110, b.pod(deleted=110))
    assert (outcome.figures.useful, outcome.figures.lost) == (0, 200)
    _, outcome = look(job, 115, b.pod(deleted=110, ended=112, message=said(60)))
    assert (outcome.figures.useful, outcome.figures.lost) == (100, -100)


def test_what_a_node_ahead_of_us_says_is_not_the_future() -> None:
    job, _ = look(running(), 110, b.pod(deleted=110))
    assert spent(look(job, 111, b.pod(deleted=110, ended=114, message=said(113)))[0].status) == (200, 0)


def test_only_the_last_run_is_corrected() -> None:
    """A pod of the run before that is still shown, and one of a start since then that failed."""
    job, _ = look(running(lost_cpu_seconds=1000.0), 110, b.pod(deleted=110))
    assert spent(job.status) == (0, 1200)
    older = b.pod(queued=-900, uid="older", started=-890, deleted=-500, ended=-495, message=said(-496))
    later = b.pod(queued=115, uid="later", started=120, deleted=121, ended=123, message=said(122))
    for others in ((older,), (later,), (older, later)):
        status = look(job, 130, *others, batch=None)[0].status
        assert spent(status) == (0, 1200)
        status = look(job, 130, b.pod(deleted=110, ended=112, message=said(60)), *others, batch=None)[0].status
        assert spent(status) == (100, 1100)


def test_no_more_is_given_back_than_was_lost() -> None:
    job, _ = look(running(), 110, b.pod(deleted=110))
    job = b.written(job, job.status.model_copy(update={"lost_cpu_seconds": 30.0}))
    assert spent(look(job, 115, b.pod(deleted=110, ended=112, message=said(111)))[0].status) == (30, 0)


def test_a_status_of_an_earlier_version_is_left_as_it_is() -> None:
    job = b.job(INTERRUPTED, queued=111, running=[10], lost_cpu_seconds=200.0)
    status = look(job, 115, b.pod(deleted=110, ended=112, message=said(111)))[0].status
    assert spent(status) == (0, 200)


def test_suspending_loses_only_what_was_not_saved() -> None:
    job = running(spec={"suspend": True})
    job, outcome = look(job, 110, b.pod())
    assert job.status.phase is Phase.SUSPENDED
    assert (spent(job.status), outcome.unsettled) == ((0, 200), True)
    job, _ = look(job, 115, b.pod(deleted=110, ended=112, message=said(111)))
    assert (job.status.phase, spent(job.status)) == (Phase.SUSPENDED, (200, 0))


def test_a_decision_of_our_own_is_settled_in_whole_seconds() -> None:
    decision = InterruptDecision(InterruptionReason.QUEUE_RECLAIMED, "")
    job, _ = look(running(), 110.75, b.pod(), decision=decision)
    assert spent(job.status) == (0, 200)
    job, _ = look(job, 115, b.pod(deleted=111, ended=112, message=said(111)))
    assert spent(job.status) == (200, 0)


def test_a_failed_job_keeps_what_it_saved_and_its_message_is_for_people() -> None:
    job, _ = look(running(), 120, b.pod(ended=110, code=3, message=f"no space left\n{said(60)}"))
    assert job.status.phase is Phase.FAILED
    assert spent(job.status) == (100, 100)
    assert (job.status.message or "").endswith("exited with code 3 (no space left\nstep 7 of 9)")


# --- gangs ----------------------------------------------------------------------------------------------------------


def gone(number: int, message: str = "", ended: float = 112, **more: Any) -> kinds.Pod:
    return b.pod(number, deleted=110, ended=ended, message=message, **more)


@pytest.mark.parametrize(
    ("members", "spec", "lost"),
    [
        ((said(111), said(111)), {}, 0),
        ((said(111), said(60)), {}, 200),  # as old as that of the oldest member
        ((said(111), ""), {}, 0),  # the first member writes for all
        (("", said(111)), {}, 400),
        ((said(111), said(4000)), {}, 0),
        (("", ""), {}, 400),
    ],
)
def test_a_gang_is_as_far_as_its_oldest_member(members: tuple[str, str], spec: dict[str, Any], lost: float) -> None:
    one, other = members
    job, _ = look(running(2, spec=spec), 110, b.pod(0, deleted=110), b.pod(1))
    assert spent(job.status) == (0, 400)
    # One of them takes longer: nothing is settled, and what has spoken is kept, until that has ended as well.
    half, outcome = look(job, 113, gone(0, one), b.pod(1, deleted=110))
    assert spent(half.status) == (0, 400)
    assert outcome.unsettled
    assert released(outcome) == (set() if one else {"job-0"})
    job, outcome = look(half, 125, gone(0, one), gone(1, other, ended=120))
    assert spent(job.status) == (400 - lost, lost)
    assert released(outcome) == {"job-0", "job-1"}
    assert not look(job, 126, gone(0, one), gone(1, other, ended=120))[1].changed


def test_annotations_and_last_words_are_reports_of_the_same_kind() -> None:
    job, _ = look(running(2), 110, b.pod(0, deleted=110, checkpoint=b.stamp(50)), b.pod(1, checkpoint=b.stamp(60)))
    assert spent(job.status) == (160, 240)
    ends = gone(0, checkpoint=b.stamp(50)), gone(1, said(111), checkpoint=b.stamp(60))
    assert spent(look(job, 115, *ends)[0].status) == (160, 240)
    ends = gone(0, said(90), checkpoint=b.stamp(50)), gone(1, said(111), checkpoint=b.stamp(60))
    assert spent(look(job, 115, *ends)[0].status) == (320, 80)


def test_early_last_words_are_not_those_of_a_gang_that_computes() -> None:
    """Member 0 is through and has said so; the others go on, and it does not speak for them."""
    done = b.pod(0, ended=50, message=said(49))
    job, outcome = look(running(3), 100, done, b.pod(1), b.pod(2), last_write=None)
    assert job.status.last_checkpoint_timestamp is None
    assert job.status.useful_cpu_seconds == 0
    assert not outcome.unsettled


# --- checkpointExitCode ---------------------------------------------------------------------------------------------


def saved(number: int = 0, ended: float = 110, **more: Any) -> kinds.Pod:
    return b.pod(number, ended=ended, code=85, exit_reason="Error", **more)


def test_a_job_that_saved_its_state_goes_back_to_its_old_place() -> None:
    before = running(spec=CODE, interrupted_count=2)
    job, outcome = look(before, 112, saved())
    status = job.status
    assert status.phase is WAITING
    assert spent(status) == (200, 0)
    assert (status.interrupted_count, status.interrupted_timestamps) == (2, ())
    assert status.queued_timestamp == b.at(0) + timedelta(microseconds=1)
    assert status.ended_timestamp == b.at(110)
    assert status.finished_timestamp is None
    assert outcome.figures.interruption is None
    assert outcome.events == ()
    assert DeleteJob(b.BATCH, "its run is over") in outcome.actions
    admitted = status.condition(ConditionType.ADMITTED)
    assert admitted is not None
    assert (admitted.status, admitted.reason) == ("False", "Checkpointed")
    assert "saved its state and ended with code 85" in admitted.message


def test_without_the_convention_the_code_is_a_failure() -> None:
    job, _ = look(running(), 112, saved())
    assert (job.status.phase, spent(job.status)) == (Phase.FAILED, (0, 200))


@pytest.mark.parametrize(
    ("ended", "rest"), [(12, 58), (69, 1), (70, 0), (3000, 0)], ids=["at once", "soon", "a minute", "long"]
)
def test_it_starts_no_more_often_than_every_minute(ended: float, rest: float) -> None:
    job, _ = look(running(spec=CODE), ended, saved(ended=ended))
    _, outcome = look(job, ended, batch=None)
    assert outcome.candidate == (rest == 0)
    assert outcome.requeue_after == (rest or None)
    assert look(job, 70 + ended, batch=None)[1].candidate


@pytest.mark.parametrize(
    ("before", "ended", "rest", "count"), [(None, 12, 58, 1), (1, 12, 118, 2), (9, 12, 598, 10), (9, 70, 0, None)]
)
def test_the_pause_grows_with_every_run_without_progress(
    before: int | None, ended: float, rest: float, count: int | None
) -> None:
    job, first = look(running(spec=CODE, short_runs=before), ended, saved(ended=ended))
    assert job.status.short_runs == count
    assert first.figures.short_run == ("Checkpointed" if count else None)
    assert ("runs in a row" in (job.status.message or "")) == (count is not None)
    assert look(job, ended, batch=None)[1].requeue_after == (rest or None)


def test_the_next_run_is_another_run() -> None:
    """From the kept place: it is recorded, counted and interrupted as any other."""
    job, _ = look(running(spec=CODE), 112, saved())
    place = 0.000001
    batch = b.batch(place, uid="second", created=200)
    pod = b.pod(queued=place, owner="second", started=205)
    job, outcome = look(job, 206, pod, batch=batch)
    status = job.status
    assert status.phase is RUNNING
    assert status.running_timestamps == (b.at(10), b.at(205))
    assert status.ended_timestamp is None
    assert outcome.figures.waited_seconds == 95
    ends = b.pod(queued=place, owner="second", started=205, deleted=305, ended=306)
    job, _ = look(job, 310, ends, batch=batch)
    assert (job.status.phase, spent(job.status)) == (INTERRUPTED, (200, 200))
    queued = job.status.queued_timestamp
    assert queued is not None
    assert queued > b.at(305)


def test_places_kept_again_and_again_are_never_the_same() -> None:
    job, places = running(spec=CODE), set()
    for number in range(5):
        queued = job.status.queued_timestamp
        assert queued is not None
        places.add(queued)
        place, start = (queued - b.BASE).total_seconds(), 100.0 * number + 10
        batch = b.batch(place, uid=f"run-{number}")
        pod = saved(queued=place, owner=f"run-{number}", started=start, ended=start + 80)
        job, _ = look(job, start + 81, pod, batch=batch)
        assert job.status.phase is WAITING
    assert len(places) == 5
    assert max(places) < b.at(1)
    assert spent(job.status) == (5 * 160, 0)


@pytest.mark.parametrize(
    ("members", "phase", "lost"),
    [
        ((saved(0), saved(1)), WAITING, 0),
        ((saved(0), saved(1, ended=115)), WAITING, 0),
        ((saved(0), b.pod(1, ended=100)), WAITING, 0),  # one is through already
        ((b.pod(0, ended=100), saved(1)), WAITING, 0),
        ((saved(0), b.pod(1, ended=110, code=1)), WAITING, 0),  # for want of its peer; the first writes for all
        ((b.pod(0, ended=110, code=1), saved(1)), WAITING, 400),
        ((b.pod(0, ended=109, code=1), saved(1)), Phase.FAILED, 396),
    ],
)
def test_a_gang_goes_back_as_one(members: tuple[kinds.Pod, ...], phase: Phase, lost: float) -> None:
    job, _ = look(running(2, spec=CODE), 120, *members)
    assert job.status.phase is phase
    assert job.status.lost_cpu_seconds == lost


def test_the_rest_of_a_gang_is_told_to_stop_and_heard() -> None:
    job, outcome = look(running(2, spec=CODE), 110, saved(1), b.pod(0))
    assert (job.status.phase, spent(job.status), outcome.unsettled) == (WAITING, (0, 400), True)
    assert any(isinstance(action, DeleteJob) for action in outcome.actions)
    assert not released(outcome)
    job, outcome = look(job, 114, saved(1), b.pod(0, deleted=110, ended=113, code=85))
    assert spent(job.status) == (400, 0)
    assert released(outcome) == {"job-0", "job-1"}


def test_removed_first_it_is_an_interruption_whatever_the_code() -> None:
    job, _ = look(running(spec=CODE), 112, saved(deleted=100, generations=(2, 2)))
    assert (job.status.phase, job.status.interrupted_count) == (INTERRUPTED, 1)
    assert job.status.lost_cpu_seconds == 0


def test_a_silent_node_is_no_reason_to_call_it_an_interruption() -> None:
    nodes = {"node-1": b.node(), "node-2": b.node("node-2", ready=False)}
    members = saved(0), b.pod(1, node="node-2")
    assert look(running(2, spec=CODE), 112, *members, nodes=nodes)[0].status.phase is WAITING


def test_before_the_gang_ran_it_is_a_start_that_did_not_come_off() -> None:
    job = b.job(Phase.STARTING, spec={"parallelism": 2, **CODE})
    job, outcome = look(job, 60, saved(0, ended=12), b.pod(1, started=None))
    assert job.status.phase is WAITING
    assert outcome.start_failed
    assert spent(job.status) == (0, 0)
    queued = job.status.queued_timestamp
    assert queued is not None
    assert queued >= b.at(60)


def test_a_sidecar_does_not_speak_for_the_job() -> None:
    main = kinds.ContainerStatus("main", kinds.ContainerState(running=kinds.Running(b.stamp(10))))
    ended = kinds.Terminated(85, 0, "Error", said(100), b.stamp(10), b.stamp(110))
    pod = saved()
    both = (main, kinds.ContainerStatus("proxy", kinds.ContainerState(terminated=ended)))
    status = kinds.PodStatus(phase="Failed", container_statuses=both)
    odd = kinds.Pod(metadata=pod.metadata, spec=pod.spec, status=status)
    job, _ = look(running(spec=CODE), 112, odd)
    assert (job.status.phase, spent(job.status)) == (Phase.FAILED, (0, 200))


# --- whoever is asked -----------------------------------------------------------------------------------------------


def test_nothing_is_kept_for_a_job_that_is_deleted() -> None:
    job, _ = look(running(2), 110, b.pod(0, deleted=110), b.pod(1))
    job = job.model_copy(update={"metadata": job.metadata.model_copy(update={"deletion_timestamp": b.at(111)})})
    seen: Observation = b.seen(job, 113, b.batch(), gone(0, said(111)), b.pod(1, deleted=110))
    assert released(b.decide(replace(seen))) == {"job-0", "job-1"}


def reports(c: Harness, pod: Object, text: str) -> None:
    note = {names.ANNOTATION_LAST_CHECKPOINT: text}
    c.api.edit(PODS, NS, pod["metadata"]["name"], lambda obj: obj["metadata"]["annotations"].update(note))


@pytest.mark.parametrize("noted", ["yesterday", "2026-02-30T00:00:00Z"])
async def test_a_checkpoint_whose_time_cannot_be_read_is_told_once_a_run(noted: str) -> None:
    async with harness() as c:
        c.submit("a")
        await runs(c, "a")
        (pod,) = c.pods("a")
        for text in (noted, f"{noted}!"):
            reports(c, pod, text)
            await c.until(lambda: bool(c.events("CheckpointUnreadable")))
            await c.pass_time(120)
        (event,) = c.events("CheckpointUnreadable")
        assert f"pod {pod['metadata']['name']} says '{noted}'" in event["message"]


def test_an_unreadable_time_in_the_last_words_is_quoted() -> None:
    words = b.pod(ended=500, message="checkpoint=Friday")
    assert "says checkpoint=Friday" in accounting.unreadable_checkpoint([words])
    readable = b.pod(ended=500, message="checkpoint=2026-01-02 03:04:05 UTC")
    assert accounting.unreadable_checkpoint([readable]) == ""
