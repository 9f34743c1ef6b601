"""The life of a job step by step: in line, starting, running, suspended, finished; and what a hand may change."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from scavenger_admitter.core.lifecycle.actions import DeleteJob, DeletePod, DeleteScavengerJob, ReleasePod
from scavenger_admitter.core.lifecycle.observation import InterruptDecision
from scavenger_admitter.core.lifecycle.plan import plan_job
from scavenger_admitter.core.waits import Wait
from scavenger_api import names
from scavenger_api.job import ConditionType, Phase, Preemption, ScavengerJob, ScavengerJobStatus
from scavenger_api.reasons import InterruptionReason, WaitReason
from scavenger_kube import kinds

from . import builders as b

WAITING, STARTING, RUNNING = Phase.WAITING, Phase.STARTING, Phase.RUNNING
INTERRUPTED, SUSPENDED, COMPLETED, FAILED = Phase.INTERRUPTED, Phase.SUSPENDED, Phase.COMPLETED, Phase.FAILED
SUSPEND = {"suspend": True}


def states(status: ScavengerJobStatus) -> dict[str, str]:
    return {condition.type: f"{condition.status}:{condition.reason}" for condition in status.conditions}


# --- in line --------------------------------------------------------------------------------------------------------


def test_a_new_job_gets_its_place_in_line() -> None:
    outcome = b.decide(b.seen(b.job(), 5.000007))
    assert outcome.status.phase is WAITING
    assert outcome.status.queued_timestamp == b.at(5.000007)
    assert outcome.candidate
    assert outcome.actions == ()
    assert outcome.status.job_name is None
    assert outcome.events == ()  # thousands may be submitted at once, and the phase says it
    assert states(outcome.status) == {"Admitted": "False:Queued"}  # the others have never been true


def test_a_new_job_may_be_born_suspended() -> None:
    outcome = b.decide(b.seen(b.job(spec=SUSPEND), 5))
    assert outcome.status.phase is SUSPENDED
    assert not outcome.candidate
    assert outcome.status.interrupted_count == 0


@pytest.mark.parametrize("phase", [WAITING, INTERRUPTED])
def test_waiting_changes_nothing(phase: Phase) -> None:
    job = b.job(phase, message="queued for admission")
    first = b.decide(b.seen(job, 50))
    later = b.decide(b.seen(b.written(job, first.status), 5000))
    assert not later.changed
    assert later.candidate
    assert later.requeue_after is None


def test_the_admission_cycle_publishes_its_reason_and_its_sentence_in_one_write() -> None:
    job = b.job(WAITING)
    settled = b.written(job, b.decide(b.seen(job, 50)).status)
    outcome = b.decide(b.seen(settled, 60, wait=Wait(WaitReason.NO_PLACE, "no node has room")))
    assert b.changes(settled.status, outcome.status).keys() == {"message", "conditions"}
    assert outcome.status.message == "no node has room"
    before, after = settled.status.condition(ConditionType.ADMITTED), outcome.status.condition(ConditionType.ADMITTED)
    assert before is not None
    assert after is not None
    assert (after.status, after.reason, after.message) == ("False", "NoPlace", "no node has room")
    assert after.last_transition_time == before.last_transition_time, "the status did not flip"
    again = b.written(settled, outcome.status)
    assert not b.decide(b.seen(again, 70, wait=Wait(WaitReason.NO_PLACE, "no node has room"))).changed
    assert not b.decide(b.seen(again, 80)).changed
    other = b.decide(b.seen(again, 90, wait=Wait(WaitReason.QUEUE_CLOSED, "queue default is closed")))
    closed = other.status.condition(ConditionType.ADMITTED)
    assert closed is not None
    assert (closed.reason, closed.message) == ("QueueClosed", "cannot start as things are: queue default is closed")
    assert closed.last_transition_time == before.last_transition_time


def test_an_event_says_once_that_no_waiting_helps() -> None:
    job = b.job(WAITING)
    queued = b.written(job, b.decide(b.seen(job, 50)).status)
    wait = Wait(WaitReason.QUEUE_CLOSED, "queue default is closed")
    told = b.decide(b.seen(queued, 60, wait=wait))
    assert [(e.type, e.reason, e.message) for e in told.events] == [
        ("Warning", "CannotStart", "QueueClosed: queue default is closed")
    ]
    again = Wait(WaitReason.QUEUE_CLOSED, "queue default is closed, still")
    assert b.decide(b.seen(b.written(queued, told.status), 120, wait=again)).events == ()
    assert b.decide(b.seen(queued, 60, wait=Wait(WaitReason.NO_PLACE, "no node has room"))).events == ()


def test_a_sentence_that_an_older_admitter_left_out_of_the_condition_is_worth_no_write() -> None:
    job = b.job(WAITING)
    settled = b.written(job, b.decide(b.seen(job, 50)).status)
    older = tuple(c.model_copy(update={"message": ""}) for c in settled.status.conditions)
    settled = settled.model_copy(update={"status": settled.status.model_copy(update={"conditions": older})})
    assert not b.decide(b.seen(settled, 60)).changed


def test_what_an_admitted_job_waited_for_is_over() -> None:
    job = b.job(WAITING)
    told = b.written(job, b.decide(b.seen(job, 50, wait=Wait(WaitReason.NO_PLACE, "no node has room"))).status)
    found = b.decide(b.seen(told, 60, b.batch(), b.pod(started=None))).status.condition(ConditionType.ADMITTED)
    assert found is not None
    assert (found.status, found.reason, found.message) == ("True", "Started", "")


@pytest.mark.parametrize("phase", [STARTING, SUSPENDED])
def test_the_admission_cycle_has_nothing_to_say_about_others(phase: Phase) -> None:
    job = b.job(phase, spec={"suspend": phase is SUSPENDED})
    live = (b.batch(), b.pod(started=None)) if phase is STARTING else (None,)
    assert (
        b.decide(b.seen(job, 50, *live, wait=Wait(WaitReason.NO_PLACE, "no node has room"))).status.message
        != "no node has room"
    )


def test_a_start_under_way_is_no_candidate() -> None:
    outcome = b.decide(b.seen(b.job(WAITING), 50))
    assert outcome.candidate
    assert not plan_job(b.seen(b.job(WAITING), 50, posted=1)).candidate


# --- starting and running -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", [WAITING, INTERRUPTED])
def test_a_job_of_this_place_in_line_is_adopted(phase: Phase) -> None:
    outcome = b.decide(b.seen(b.job(phase), 3, b.batch(), b.pod(started=None)))
    assert outcome.status.phase is STARTING
    assert outcome.status.job_name == "job"
    assert outcome.status.queued_timestamp == b.at(0)
    assert not outcome.candidate
    assert outcome.actions == ()


def test_a_job_of_another_place_in_line_is_stale() -> None:
    outcome = b.decide(b.seen(b.job(WAITING, queued=100), 120, b.batch(0), b.pod(deleted=101)))
    assert outcome.status.phase is WAITING
    assert outcome.actions == (DeleteJob(b.BATCH, "its run is over"),)
    assert not outcome.candidate
    assert outcome.status.job_name is None


def test_a_stale_job_already_going_is_left_alone() -> None:
    outcome = b.decide(b.seen(b.job(WAITING, queued=100), 120, b.batch(0, deleted=101)))
    assert outcome.actions == ()
    assert not outcome.candidate


def test_running_when_all_pods_run() -> None:
    job = b.job(STARTING, spec=b.gang(2))
    half = b.decide(b.seen(job, 12, b.batch(), b.pod(0), b.pod(1, started=None)))
    assert half.status.phase is STARTING
    outcome = b.decide(b.seen(b.written(job, half.status), 20.5, b.batch(), b.pod(0), b.pod(1, started=15)))
    status = outcome.status
    assert status.phase is RUNNING
    assert status.running_timestamps == (b.at(15),)
    assert status.priority_start_over_timestamp == b.at(15)
    assert outcome.figures.waited_seconds == 15
    assert outcome.requeue_after == pytest.approx(1800 - 5.5)
    assert states(status) == {"Admitted": "True:Started", "Running": "True:Running"}


def test_a_clock_ahead_of_ours_does_not_start_a_run_in_the_future() -> None:
    status = b.decide(b.seen(b.job(STARTING), 12.7, b.batch(), b.pod(started=99))).status
    assert status.running_timestamps == (b.at(12),)


def test_a_clock_behind_ours_does_not_start_a_run_before_its_place_in_line() -> None:
    job = b.job(STARTING, queued=100.5, running=[50])
    status = b.decide(b.seen(job, 103, b.batch(100.5), b.pod(queued=100.5, started=1))).status
    assert status.running_timestamps == (b.at(50), b.at(100))


def test_the_last_twenty_starts_are_kept() -> None:
    before = tuple(range(-20, 0))
    status = b.decide(b.seen(b.job(STARTING, running=before), 12, b.batch(), b.pod())).status
    assert status.running_timestamps == (*(b.at(t) for t in before[1:]), b.at(10))


@pytest.mark.parametrize(("known", "recorded", "starts"), [(None, 0, 1), (1, 1, 2), (None, 3, 4), (25, 20, 26)])
def test_starts_are_counted_beyond_those_that_are_kept(known: int | None, recorded: int, starts: int) -> None:
    job = b.job(STARTING, running=range(-recorded, 0), starts=known)
    assert b.decide(b.seen(job, 12, b.batch(), b.pod())).status.starts == starts


def test_a_start_that_fails_is_none() -> None:
    status = b.decide(b.seen(b.job(STARTING), 12, b.batch(), b.pod(started=None, deleted=5))).status
    assert status.phase is WAITING
    assert status.starts is None


def test_a_run_shorter_than_a_second_keeps_its_own_record() -> None:
    """Recorded starts are whole seconds, places in line microseconds: the next place is past the last start."""
    job = b.job(RUNNING, queued=9.1, running=[10])
    outcome = b.decide(b.seen(job, 10.4, b.batch(9.1), b.pod(queued=9.1, deleted=10)))
    assert outcome.status.queued_timestamp == b.at(11)
    again = b.written(job, outcome.status)
    status = b.decide(b.seen(again, 11.9, b.batch(11, uid="b2"), b.pod(queued=11, owner="b2", started=11))).status
    assert status.running_timestamps == (b.at(10), b.at(11))


# --- what is worth a write -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "job", "now", "live", "until"),
    [
        ("a newcomer in line", b.job(), 7, (None,), 12),
        ("a newcomer that starts", b.job(), 7, (b.batch(4),), 9),
        ("in line, and started", b.job(WAITING), 7, (b.batch(created=3),), 8),
        ("interrupted, and started", b.job(INTERRUPTED), 7, (b.batch(created=3),), 8),
        ("only its pods are left to tell", b.job(WAITING), 7, (None, b.pod(started=None, owner="gone")), None),
        ("it runs", b.job(), 11, (b.batch(), b.pod()), None),
        ("suspended", b.job(spec=SUSPEND), 7, (None,), None),
        ("started, and declared running before", b.job(RUNNING), 7, (b.batch(created=3),), None),
        ("there is nothing new", b.job(STARTING, job_name="job"), 7, (None,), None),
    ],
)
def test_a_status_that_may_be_over_in_a_moment_can_be_left_out(
    name: str, job: ScavengerJob, now: float, live: tuple[Any, ...], until: float | None
) -> None:
    outcome = plan_job(b.seen(job, now, *live))
    assert outcome.quiet_until == (None if until is None else b.at(until))


def test_a_start_that_no_status_speaks_of_runs_into_its_timeout_all_the_same() -> None:
    outcome = b.decide(b.seen(b.job(INTERRUPTED, interrupted_count=1), 602, b.batch(created=1), b.pod(started=None)))
    assert outcome.start_failed
    assert outcome.status.phase is INTERRUPTED
    assert outcome.status.queued_timestamp == b.at(602)


def test_a_job_deleted_before_any_status_spoke_of_it_is_a_start_that_failed() -> None:
    """Else it were created anew at once, for as long as somebody goes on deleting it."""
    outcome = b.decide(b.seen(b.job(WAITING), 7, shown=True))
    assert outcome.start_failed
    assert outcome.status.queued_timestamp == b.at(7)
    assert "its Job was deleted" in (outcome.status.message or "")


# --- start-over and checkpoints -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("now", "start_over", "useful", "requeue"),
    [(1809, 10, 0, 1), (1810, 1810, 3600, 1800), (5500, 5410, 10800, 1710), (5410.5, 5410, 10800, 1799.5)],
)
def test_start_over_moves_every_interval(now: float, start_over: float, useful: float, requeue: float) -> None:
    outcome = b.decide(b.seen(b.job(RUNNING, running=[10]), now, b.batch(), b.pod()))
    assert outcome.status.priority_start_over_timestamp == b.at(start_over)
    assert outcome.status.useful_cpu_seconds == useful
    assert outcome.figures.useful == useful
    assert outcome.requeue_after == pytest.approx(requeue)


def test_an_interval_that_is_no_whole_seconds() -> None:
    job = b.job(RUNNING, running=[10], spec={"interruptionAfter": "1500ms"})
    assert b.decide(b.seen(job, 13.2, b.batch(), b.pod())).status.priority_start_over_timestamp == b.at(13)


def test_a_clock_set_back_counts_nothing_twice() -> None:
    job = b.job(RUNNING, running=[10], spec={"interruptionAfter": "10s"})
    first = b.decide(b.seen(job, 35, b.batch(), b.pod()))
    assert first.status.useful_cpu_seconds == 40
    back = b.decide(b.seen(b.written(job, first.status), 25, b.batch(), b.pod()))
    assert not back.changed
    forth = b.decide(b.seen(b.written(job, back.status), 36, b.batch(), b.pod()))
    assert not forth.changed


def test_a_start_over_from_the_far_future_is_put_right() -> None:
    job = b.job(RUNNING, running=[10], priority_start_over_timestamp=b.at(10**7))
    assert b.decide(b.seen(job, 60, b.batch(), b.pod())).status.priority_start_over_timestamp == b.at(10)


@pytest.mark.parametrize(
    ("reports", "counted"),
    [
        ((b.stamp(60),), 60),
        (("2026-01-01T01:01:00+01:00",), 60),
        ((b.stamp(60)[:-1] + ".999Z",), 60),
        ((b.stamp(101),), None),
        (("yesterday",), None),
        (("2026-01-01T00:01:00",), 60),  # without a zone it is UTC
        (("0001-01-01T00:00:00+14:00",), None),
        (("9999-12-31T23:59:59-12:00",), None),
        ((None,), None),
        # gangs: the oldest report when all report, the first member's when it alone reports
        ((b.stamp(60), b.stamp(50)), 50),
        ((b.stamp(60), None), 60),
        ((None, b.stamp(60)), None),
        ((b.stamp(60), b.stamp(50), None), None),
        ((b.stamp(60), b.stamp(101)), 60),
        ((b.stamp(60), b.stamp(50), b.stamp(55)), 50),
    ],
)
def test_reported_checkpoints(reports: tuple[str | None, ...], counted: float | None) -> None:
    pods = [b.pod(i, checkpoint=report) for i, report in enumerate(reports)]
    job = b.job(RUNNING, running=[10], spec=b.gang(len(pods)))
    outcome = b.decide(b.seen(job, 100, b.batch(), *pods))
    expected = None if counted is None else b.at(counted)
    assert outcome.status.last_checkpoint_timestamp == expected
    gained = 0.0 if counted is None else (counted - 10) * 2 * len(pods)
    assert outcome.status.useful_cpu_seconds == gained
    if counted is not None:
        assert outcome.status.message == f"running, last checkpoint {b.stamp(counted)}"


@pytest.mark.parametrize(("known", "reported", "expected"), [(60, 70, 70), (60, 50, 60), (10**6, 70, 70)])
def test_only_a_later_checkpoint_counts(known: float, reported: float, expected: float) -> None:
    job = b.job(RUNNING, running=[10], last_checkpoint_timestamp=b.at(known))
    outcome = b.decide(b.seen(job, 100, b.batch(), b.pod(checkpoint=b.stamp(reported))))
    assert outcome.status.last_checkpoint_timestamp == b.at(expected)


def test_progress_is_written_once_a_minute() -> None:
    job = b.job(RUNNING, running=[10], spec={"interruptionAfter": "1s"})
    first = b.decide(b.seen(job, 20, b.batch(), b.pod()))
    assert first.changed
    assert first.requeue_after == 60
    job = b.written(job, first.status)
    for now in (21, 50, 79.9):
        again = plan_job(b.seen(job, now, b.batch(), b.pod(checkpoint=b.stamp(19)), last_write=b.at(20)))
        assert not again.changed
        assert again.requeue_after == pytest.approx(80 - now)
    later = b.decide(b.seen(job, 80, b.batch(), b.pod(checkpoint=b.stamp(79)), last_write=b.at(20)))
    assert later.status.priority_start_over_timestamp == b.at(80)
    assert later.status.last_checkpoint_timestamp == b.at(79)
    assert later.status.useful_cpu_seconds == 140


def test_what_is_written_anyway_takes_progress_along() -> None:
    seen = b.seen(b.job(WAITING, running=[]), 70, b.batch(), b.pod(checkpoint=b.stamp(65)), last_write=b.at(69))
    outcome = b.decide(seen)
    assert outcome.status.phase is RUNNING
    assert outcome.status.last_checkpoint_timestamp == b.at(65)


def test_nothing_new_wakes_nobody_before_the_next_start_over() -> None:
    job = b.job(RUNNING, running=[10])
    job = b.written(job, b.decide(b.seen(job, 20, b.batch(), b.pod())).status)
    outcome = plan_job(b.seen(job, 30, b.batch(), b.pod(), last_write=b.at(20)))
    assert not outcome.changed
    assert outcome.requeue_after == 1780


def test_a_write_from_the_future_holds_nothing_back() -> None:
    """The clock was set back."""
    job = b.job(RUNNING, running=[10])
    outcome = b.decide(b.seen(job, 30, b.batch(), b.pod(checkpoint=b.stamp(25)), last_write=b.at(9000)))
    assert outcome.status.last_checkpoint_timestamp == b.at(25)


# --- accounting at the end ------------------------------------------------------------------------------------------

ENDINGS: tuple[tuple[str, dict[str, Any], dict[str, Any], float, float], ...] = (
    # name, fields of the status, the pod, useful, lost: cores are 2, the run started at 10
    ("interrupted early", {}, {"deleted": 110}, 0, 200),
    ("interrupted after start-overs", {}, {"deleted": 3710}, 7200, 200),
    ("interrupted after a checkpoint", {"last_checkpoint_timestamp": b.at(60)}, {"deleted": 110}, 0, 100),
    ("checkpoint older than start-over", {"last_checkpoint_timestamp": b.at(60)}, {"deleted": 1910}, 3500, 200),
    ("checkpoint of the run before", {"last_checkpoint_timestamp": b.at(-60)}, {"deleted": 110}, 0, 200),
    ("checkpoint after the removal", {"last_checkpoint_timestamp": b.at(120)}, {"deleted": 110}, 0, 0),
    ("removed before it started", {}, {"deleted": 5}, 0, 0),
    ("completed", {}, {"ended": 110}, 200, 0),
    ("completed after a checkpoint", {"last_checkpoint_timestamp": b.at(60)}, {"ended": 110}, 100, 0),
    ("failed", {}, {"ended": 1910, "code": 1}, 3600, 200),
    ("ended before it started", {}, {"ended": 5}, 0, 0),
)


@pytest.mark.parametrize(("name", "status", "pod", "useful", "lost"), ENDINGS, ids=[row[0] for row in ENDINGS])
def test_accounting(name: str, status: dict[str, Any], pod: dict[str, Any], useful: float, lost: float) -> None:
    job = b.job(RUNNING, running=[10], useful_cpu_seconds=1000.0, lost_cpu_seconds=500.0, **status)
    outcome = b.decide(b.seen(job, 9000, b.batch(), b.pod(**pod)))
    assert outcome.status.useful_cpu_seconds == 1000 + useful
    assert outcome.status.lost_cpu_seconds == 500 + lost
    assert (outcome.figures.useful, outcome.figures.lost) == (useful, lost)


@pytest.mark.parametrize(
    ("pod", "more", "phase", "useful", "lost"),
    [
        ({"deleted": 110}, {}, INTERRUPTED, 180, 20),
        ({"ended": 110, "code": 1}, {}, FAILED, 180, 20),
        ({"ended": 110}, {}, COMPLETED, 200, 0),
        ({}, SUSPEND, SUSPENDED, 180, 22),
        ({"deleted": 90}, {}, INTERRUPTED, 160, 0),
    ],
)
def test_an_end_is_judged_by_what_the_pods_report_not_by_what_was_written_last(
    pod: dict[str, Any], more: dict[str, Any], phase: Phase, useful: float, lost: float
) -> None:
    job = b.job(RUNNING, running=[10], spec=more)
    outcome = b.decide(b.seen(job, 111, b.batch(), b.pod(checkpoint=b.stamp(100), **pod), last_write=b.at(105)))
    assert outcome.status.phase is phase
    assert (outcome.status.useful_cpu_seconds, outcome.status.lost_cpu_seconds) == (useful, lost)
    assert outcome.status.last_checkpoint_timestamp == b.at(100)


def test_a_gang_loses_for_all_its_pods() -> None:
    spec = b.gang(4, resources={"limits": {"cpu": "250m", "memory": "1Gi"}})
    pods = [b.pod(i) for i in range(3)]
    outcome = b.decide(b.seen(b.job(RUNNING, running=[10], spec=spec), 200, b.batch(), *pods, b.pod(3, deleted=110)))
    assert outcome.status.lost_cpu_seconds == 100


# --- suspend --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", [WAITING, INTERRUPTED])
def test_suspended_in_line(phase: Phase) -> None:
    job = b.job(phase, interrupted_count=3, spec=SUSPEND)
    outcome = b.decide(b.seen(job, 50))
    assert outcome.status.phase is SUSPENDED
    assert outcome.status.interrupted_count == 3
    assert outcome.status.lost_cpu_seconds == 0
    assert not outcome.candidate
    assert "Interrupted" not in states(outcome.status)


@pytest.mark.parametrize("phase", [STARTING, RUNNING])
def test_suspended_while_active(phase: Phase) -> None:
    running = [10] if phase is RUNNING else []
    pod = b.pod(started=10 if running else None)
    job = b.job(phase, running=running, spec=SUSPEND)
    outcome = b.decide(b.seen(job, 110, b.batch(), pod))
    assert outcome.status.phase is SUSPENDED
    assert outcome.actions == (DeleteJob(b.BATCH, "its run is over"),)
    assert outcome.status.interrupted_count == 0
    assert outcome.figures.interruption is None
    assert outcome.status.lost_cpu_seconds == (200 if running else 0)


def test_a_suspension_books_nothing_after_the_program_has_failed() -> None:
    """Killed by a signal: for two minutes a lost node may turn out to be the cause, and meanwhile nothing computes."""
    job = b.job(RUNNING, spec=SUSPEND, running_timestamps=(b.at(10),))
    outcome = b.decide(b.seen(job, 90, b.batch(), b.pod(ended=60, code=137)))
    assert outcome.status.phase is SUSPENDED
    assert outcome.status.lost_cpu_seconds == 100.0  # 2 CPUs for 50 s
    decided = InterruptDecision(InterruptionReason.QUEUE_RECLAIMED, "queue b")
    taken = b.decide(
        b.seen(
            b.job(RUNNING, running_timestamps=(b.at(10),)), 90, b.batch(), b.pod(ended=60, code=137), decision=decided
        )
    )
    assert taken.status.lost_cpu_seconds == 100.0


@pytest.mark.parametrize(("pod", "phase"), [
    (b.pod(), INTERRUPTED),
    (b.pod(ended=80, code=0), COMPLETED),
    (b.pod(ended=80, code=137), RUNNING),  # it ended before: by itself, or with its node
])  # fmt: skip
def test_a_run_whose_job_another_controller_suspends_ends_unless_it_is_over(pod: kinds.Pod, phase: Phase) -> None:
    held = msgspec.structs.replace(b.batch(), spec=kinds.JobSpec(managed_by=names.MANAGED_BY, suspend=True))
    outcome = plan_job(b.seen(b.job(RUNNING, running=[10]), 90, held, pod))
    assert outcome.status.phase is phase
    assert outcome.status.interrupted_count == (phase is INTERRUPTED)
    assert outcome.status.own_interrupted_count == (phase is INTERRUPTED), (
        "it gives no place: its user may have done it"
    )


@pytest.mark.parametrize("code", [0, 1, 143])
def test_the_pods_of_our_own_suspend_are_no_interruption(code: int) -> None:
    job = b.job(RUNNING, running=[10], spec=SUSPEND)
    suspended = b.written(job, b.decide(b.seen(job, 110, b.batch(), b.pod())).status)
    for batch in (b.batch(), None):
        for pod in (b.pod(deleted=110), b.pod(deleted=110, ended=112, code=code), b.pod(final=112, ended=111)):
            outcome = b.decide(b.seen(suspended, 115, batch, pod))
            assert outcome.status.phase is SUSPENDED
            assert outcome.status.interrupted_count == 0
            assert outcome.status.finished_timestamp is None
            assert outcome.status.lost_cpu_seconds == 200
            assert (ReleasePod(pod.metadata.name, pod.metadata.uid) in outcome.actions) == pod.ended
    assert b.decide(b.seen(suspended, 200)).status.job_name is None


def test_an_ending_before_our_suspend_is_an_ending() -> None:
    job = b.job(RUNNING, running=[10], spec=SUSPEND)
    assert b.decide(b.seen(job, 110, b.batch(), b.pod(ended=100))).status.phase is COMPLETED
    assert b.decide(b.seen(job, 110, b.batch(), b.pod(ended=100, code=1))).status.phase is FAILED
    removed = b.decide(b.seen(job, 110, b.batch(), b.pod(deleted=100)))
    assert removed.status.phase is SUSPENDED
    assert removed.status.interrupted_count == 1
    assert removed.status.lost_cpu_seconds == 180


def test_resumed() -> None:
    job = b.job(SUSPENDED, interrupted_count=2)
    outcome = b.decide(b.seen(job, 500))
    assert outcome.status.phase is WAITING
    assert outcome.status.queued_timestamp == b.at(500)
    assert outcome.status.interrupted_count == 2
    assert outcome.candidate


def test_resumed_before_the_old_pods_are_gone() -> None:
    outcome = b.decide(b.seen(b.job(SUSPENDED, queued=100), 105, None, b.pod(deleted=100)))
    assert outcome.status.phase is WAITING
    assert not outcome.candidate
    assert outcome.status.job_name is None


# --- the end --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", [COMPLETED, FAILED])
def test_finished_for_good(phase: Phase) -> None:
    job = b.job(phase, running=[10], finished_timestamp=b.at(100), job_name="job")
    pods = (b.pod(ended=100, code=1 if phase is FAILED else 0, held=False),)
    outcome = b.decide(b.seen(job, 10**6, b.batch(conditions={"Failed": 101}), *pods))
    assert outcome.status.phase is phase
    assert outcome.status.job_name == "job"
    assert outcome.actions == ()
    assert outcome.requeue_after is None
    assert states(outcome.status)["Succeeded"] == ("True:Completed" if phase is COMPLETED else "False:Failed")


@pytest.mark.parametrize("suspend", [True, False])
@pytest.mark.parametrize("phase", [COMPLETED, FAILED])
def test_finished_is_not_suspended(phase: Phase, suspend: bool) -> None:
    job = b.job(phase, finished_timestamp=b.at(100), spec={"suspend": suspend})
    assert b.decide(b.seen(job, 200)).status.phase is phase


def test_time_to_live() -> None:
    job = b.job(COMPLETED, finished_timestamp=b.at(100), spec={"ttlSecondsAfterFinished": 60})
    before = b.decide(b.seen(job, 130, b.batch()))
    assert before.requeue_after == 30
    assert DeleteScavengerJob(b.UID) not in before.actions
    assert DeleteScavengerJob(b.UID) in b.decide(b.seen(job, 160, b.batch())).actions
    never = b.job(COMPLETED, finished_timestamp=b.at(100))
    assert b.decide(b.seen(never, 10**8)).actions == ()


def test_a_job_that_is_being_deleted_lets_go() -> None:
    job = b.job(RUNNING, running=[10], deleted=True)
    pods = (b.pod(0, uid="a"), b.pod(1, deleted=90, uid="b"), b.pod(2, ended=80, uid="c"))
    outcome = b.decide(b.seen(job, 100, b.batch(), *pods))
    assert not outcome.changed
    assert outcome.actions == (
        DeleteJob(b.BATCH, "the ScavengerJob is being deleted"),
        ReleasePod("job-1", "b"),
        ReleasePod("job-2", "c"),
    )
    assert not outcome.candidate
    assert b.decide(b.seen(b.job(WAITING, deleted=True), 100, b.batch(deleted=1))).actions == ()


# --- edited by hand -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", [WAITING, STARTING, INTERRUPTED, SUSPENDED, COMPLETED, FAILED, None])
def test_a_running_job_runs_whatever_somebody_writes(phase: Phase | None) -> None:
    finished = b.at(90) if phase in (COMPLETED, FAILED) else None
    job = b.job(phase, running=[10], interrupted_count=4, finished_timestamp=finished)
    outcome = b.decide(b.seen(job, 100, b.batch(), b.pod()))
    assert outcome.status.phase is RUNNING
    assert outcome.status.running_timestamps == (b.at(10),)
    assert outcome.status.interrupted_count == 4
    assert outcome.status.finished_timestamp is None
    assert outcome.actions == ()


def test_a_status_wiped_by_hand_is_restored_from_the_job() -> None:
    outcome = b.decide(b.seen(b.job(), 100, b.batch(7.000001, restarts=5), b.pod(queued=7.000001)))
    assert outcome.status.phase is RUNNING
    assert outcome.status.queued_timestamp == b.at(7.000001)
    assert outcome.status.interrupted_count == 5
    assert outcome.status.running_timestamps == (b.at(10),)


@pytest.mark.parametrize(
    ("restarts", "counted"), [("5", 5), ("100", 100), ("2000000000", 100), ("9" * 5000, 0), ("-1", 0), ("many", 0)]
)
def test_a_job_made_by_hand_counts_no_more_interruptions_than_there_can_have_been(restarts: str, counted: int) -> None:
    forged = b.batch(7)
    forged.metadata.annotations[names.ANNOTATION_RESTARTS] = restarts
    outcome = b.decide(b.seen(b.job(), 100, forged))
    assert outcome.status.interrupted_count == counted


def test_a_job_made_by_hand_gives_no_place_in_line_from_before_the_job() -> None:
    outcome = b.decide(b.seen(b.job(), 100, b.batch(-100_000_000, restarts=5)))
    assert outcome.status.queued_timestamp == b.at(100)
    assert outcome.status.interrupted_count == 0
    assert [type(action).__name__ for action in outcome.actions] == ["DeleteJob"], "it is of no run"


@pytest.mark.parametrize("phase", [STARTING, RUNNING])
@pytest.mark.parametrize("queued", [None, 55])
def test_a_place_in_line_edited_under_a_running_job(phase: Phase, queued: float | None) -> None:
    outcome = b.decide(b.seen(b.job(phase, queued=queued, running=[10]), 100, b.batch(0), b.pod()))
    assert outcome.status.phase is RUNNING
    assert outcome.status.queued_timestamp == b.at(0)
    assert outcome.status.running_timestamps == (b.at(10),)


def test_a_place_in_line_wiped_in_line() -> None:
    outcome = b.decide(b.seen(b.job(WAITING, queued=None), 100))
    assert outcome.status.queued_timestamp == b.at(100)
    assert outcome.candidate


def test_running_by_hand_with_no_job() -> None:
    outcome = b.decide(b.seen(b.job(RUNNING), 100))
    assert outcome.status.phase is INTERRUPTED
    assert outcome.figures.interruption is InterruptionReason.JOB_DELETED
    assert outcome.status.lost_cpu_seconds == 0


def test_running_by_hand_while_it_starts() -> None:
    assert b.decide(b.seen(b.job(RUNNING), 5, b.batch(), b.pod(started=None))).status.phase is STARTING


def test_finished_by_hand_while_in_line() -> None:
    """Nothing observed contradicts it."""
    outcome = b.decide(b.seen(b.job(COMPLETED), 100))
    assert outcome.status.phase is COMPLETED
    assert outcome.status.finished_timestamp == b.at(100)


# --- conditions, jobName, the write ---------------------------------------------------------------------------------


def test_transition_times_move_only_when_a_status_flips() -> None:
    job = b.job(STARTING)
    first = b.decide(b.seen(job, 5, b.batch(), b.pod(started=None))).status
    second = b.decide(b.seen(b.written(job, first), 20, b.batch(), b.pod())).status
    third = b.decide(b.seen(b.written(job, second), 100, b.batch(), b.pod(deleted=90))).status
    since = [
        {kind: found.last_transition_time for kind in ConditionType if (found := status.condition(kind))}
        for status in (first, second, third)
    ]
    assert [times[ConditionType.ADMITTED] for times in since] == [b.at(5), b.at(5), b.at(100)]
    assert [times.get(ConditionType.RUNNING) for times in since] == [None, b.at(20), None]
    assert [times.get(ConditionType.INTERRUPTED) for times in since] == [None, None, b.at(100)]
    assert [times.get(ConditionType.SUCCEEDED) for times in since] == [None, None, None]
    assert states(third)["Interrupted"] == "True:Deleted"


def test_interrupted_stays_true_until_it_runs_again() -> None:
    job = b.job(RUNNING, running=[10])
    status = b.decide(b.seen(job, 100, b.batch(), b.pod(deleted=90))).status
    job = b.written(job, status)
    status = b.decide(b.seen(job, 200, b.batch(100, uid="b2"), b.pod(queued=100, owner="b2", started=None))).status
    assert status.phase is STARTING
    assert states(status)["Interrupted"] == "True:Deleted"
    job = b.written(job, status)
    status = b.decide(b.seen(job, 210, b.batch(100, uid="b2"), b.pod(queued=100, owner="b2", started=205))).status
    assert states(status) == {"Admitted": "True:Started", "Running": "True:Running"}


def test_conditions_observe_the_generation() -> None:
    job = b.job(WAITING)
    status = b.decide(b.seen(job, 50)).status
    meta = job.metadata.model_copy(update={"generation": 7})
    later = b.decide(b.seen(b.written(job, status).model_copy(update={"metadata": meta}), 60))
    assert later.changed
    assert {condition.observed_generation for condition in later.status.conditions} == {7}
    assert {condition.last_transition_time for condition in later.status.conditions} == {b.at(50)}


def test_job_name_goes_with_the_run_and_what_is_left_of_that_costs_no_write() -> None:
    job = b.job(RUNNING, running=[10], job_name="job")
    status = b.decide(b.seen(job, 100, b.batch(), b.pod(deleted=90))).status
    assert status.job_name is None
    job = b.written(job, status)
    assert not b.decide(b.seen(job, 101, None, b.pod(deleted=90))).changed
    outcome = b.decide(b.seen(job, 102, None, b.pod(deleted=90, ended=101, code=143)))
    assert outcome.status.job_name is None
    assert outcome.candidate
    assert not outcome.changed


def test_the_prioritizers_field_goes_with_the_run_that_it_is_about() -> None:
    preemption = Preemption.model_validate({"class": "non-preemptible", "runningPriority": 3})
    job = b.job(RUNNING, running=[10], preemption=preemption)
    checkpoint = b.decide(b.seen(job, 100, b.batch(), b.pod(checkpoint=b.stamp(90))))
    assert checkpoint.changed
    assert checkpoint.status.preemption == preemption
    outcome = b.decide(b.seen(job, 100, b.batch(), b.pod(deleted=90)))
    patch = b.changes(job.status, outcome.status)
    assert patch["preemption"] is None
    assert patch["phase"] == "Interrupted"
    assert patch["interruptedCount"] == 1
    assert patch["lostCPUSeconds"] == 160.0


def test_long_words_are_cut() -> None:
    job = b.job(RUNNING, running=[10])
    outcome = b.decide(b.seen(job, 200, b.batch(), b.pod(ended=100, code=1, exit_reason="Error", message="x" * 9000)))
    assert len(outcome.status.message or "") == 4096
    assert len(outcome.events[0].message) == 1024


def test_actions_of_a_crash_between_write_and_actions_come_again() -> None:
    job = b.job(RUNNING, running=[10], spec=b.gang(2))
    pods = (b.pod(0), b.pod(1, ended=100, code=1, deleted=90))
    crashed = b.written(job, plan_job(b.seen(job, 110, b.batch(), *pods)).status)
    outcome = b.decide(b.seen(crashed, 300, b.batch(), *pods))
    assert outcome.status.interrupted_count == 1
    assert set(outcome.actions) == {
        DeleteJob(b.BATCH, "its run is over"),
        ReleasePod("job-1", pods[1].metadata.uid),
    }


def test_orphaned_pods_of_a_deleted_job_are_deleted() -> None:
    pod = b.pod(owner=None)
    outcome = b.decide(b.seen(b.job(RUNNING, running=[10]), 100, None, pod))
    assert outcome.actions == (DeletePod("job-0", pod.metadata.uid),)
    assert not outcome.candidate


def test_settings_are_honoured() -> None:
    job = b.job(STARTING)
    first = b.seen(job, 30, b.batch(), b.pod(started=None, conditions=[b.unschedulable(2)]))
    assert plan_job(first).start_failed
    patient = replace(first.rules, unschedulable_after=timedelta(minutes=1))
    assert not plan_job(replace(first, rules=patient)).start_failed


@pytest.mark.parametrize(
    ("before", "at", "count", "rest"),
    [(None, 20, 1, 0), (1, 20, 2, 60), (2, 20, 3, 120), (8, 20, 9, 600), (8, 80, None, 0)],
)
def test_interruptions_within_a_minute_of_the_start_have_a_pause_that_grows(
    before: int | None, at: float, count: int | None, rest: float
) -> None:
    job = b.job(Phase.RUNNING, running=(10,)).model_copy()
    job = job.model_copy(update={"status": job.status.model_copy(update={"short_runs": before})})
    outcome = b.decide(b.seen(job, at, b.batch(), b.pod(deleted=at)))
    status = outcome.status
    assert (status.short_runs, outcome.figures.short_run) == (count, "Deleted" if count else None)
    admitted = status.condition(ConditionType.ADMITTED)
    assert admitted is not None
    assert admitted.reason == ("BackingOff" if rest else "Queued")
    job = job.model_copy(update={"status": status})
    for now, free in ((at + rest - 1, False), (at + rest, True)) if rest else ((at, True),):
        later = b.decide(b.seen(job, now, None))
        assert later.candidate == free
    assert states(later.status)["Admitted"] == "False:Queued"


def test_a_job_whose_pods_end_after_its_interruption_need_not_rest_for_its_first_short_run() -> None:
    job = b.job(INTERRUPTED, queued=20, running=(10,))
    last = {"short_runs": 1, "ended_timestamp": b.at(24)}
    job = job.model_copy(update={"status": job.status.model_copy(update=last)})
    assert b.decide(b.seen(job, 25, None)).candidate


# --- checkpoints that do not come any more --------------------------------------------------------------------------

MINUTELY: dict[str, Any] = {"interruptionAfter": "60s"}


@pytest.mark.parametrize(
    ("deadline", "reported", "now", "stalled", "phase"),
    [
        (None, 70, 249, None, RUNNING),
        (None, 70, 250, "new", RUNNING),
        (None, None, 9000, None, RUNNING),
        (5, 70, 369, "known", RUNNING),
        (5, 70, 370, None, FAILED),
        (5, None, 309, None, RUNNING),
        (5, None, 310, None, FAILED),
        (2, 70, 190, None, FAILED),
    ],
)
def test_a_run_that_reports_no_checkpoint_any_more(
    deadline: int | None, reported: float | None, now: float, stalled: str | None, phase: Phase
) -> None:
    spec = MINUTELY | ({} if deadline is None else {"progressDeadlineIntervals": deadline})
    job = b.job(RUNNING, running=(10,), spec=spec)
    pod = b.pod(checkpoint=None if reported is None else b.stamp(reported))
    before = b.decide(b.seen(job, now - 1, b.batch(), pod))
    outcome = b.decide(b.seen(b.written(job, before.status), now, b.batch(), pod))
    assert outcome.status.phase is phase
    found = states(outcome.status)
    if stalled is not None and phase is RUNNING:
        assert found["Stalled"] == "True:NoCheckpoint"
        assert outcome.figures.stalled == (stalled == "new")
    else:
        assert found.get("Stalled", "False").startswith("False")
    if phase is FAILED:
        assert found["Succeeded"] == "False:NoProgress"
        assert any(isinstance(action, DeleteJob) for action in outcome.actions)
        assert "no checkpoint reported since" in (outcome.status.message or "")


def test_a_checkpoint_ends_the_doubt() -> None:
    job = b.job(RUNNING, running=(10,), spec=MINUTELY)
    first = b.decide(b.seen(job, 260, b.batch(), b.pod(checkpoint=b.stamp(70))))
    assert (states(first.status)["Stalled"], first.figures.stalled) == ("True:NoCheckpoint", True)
    job = b.written(job, first.status)
    again = b.decide(b.seen(job, 300, b.batch(), b.pod(checkpoint=b.stamp(70))))
    assert not again.figures.stalled
    later = b.decide(b.seen(job, 300, b.batch(), b.pod(checkpoint=b.stamp(290))))
    assert "Stalled" not in states(later.status)


def test_pods_from_before_a_job_was_created_are_no_run_of_it() -> None:
    pod = b.pod(deleted=5)
    older = msgspec.structs.replace(pod.metadata, creation_timestamp=b.stamp(-60))
    outcome = b.decide(b.seen(b.job(WAITING), 50, None, msgspec.structs.replace(pod, metadata=older)))
    assert (outcome.status.phase, outcome.status.interrupted_count) == (WAITING, 0)
    assert not outcome.candidate


def test_a_failure_in_doubt_leaves_the_pod_that_failed_alone() -> None:
    """Its deletion in the same second could not be told from one that came before, and counts as an interruption."""
    failed = b.batch(conditions={"FailureTarget": 50})
    killed = b.pod(ended=50, code=137, exit_reason="OOMKilled", phase="Running", beside=b.RUNS_ON)
    for batch in (b.batch(), failed):
        alone = b.decide(b.seen(b.job(RUNNING, running=(10,)), 51, batch, killed))
        assert alone.status.phase is RUNNING
        assert alone.actions == ()
    together = b.decide(b.seen(b.job(RUNNING, running=(10,), spec=b.gang()), 51, batch, killed, b.pod(1)))
    assert together.actions == (DeletePod("job-1", f"{b.BATCH}-pod-1"),)
