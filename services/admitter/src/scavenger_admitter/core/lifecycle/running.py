"""Runs in progress: their start is recorded, and what they have computed becomes useful step by step."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from scavenger_api import names
from scavenger_api.job import Capacity, Phase, Preemption, ScavengerJob, ScavengerJobStatus
from scavenger_api.reasons import FailureReason, StateReason
from scavenger_api.times import format_time, micros
from scavenger_domain.marks import class_of, figure_of, moved
from scavenger_domain.pod_ends import started_at
from scavenger_domain.pod_reading import PodReading, read

from scavenger_admitter.core.lifecycle import accounting, finished, limits
from scavenger_admitter.core.lifecycle.accounting import second
from scavenger_admitter.core.lifecycle.draft import Draft
from scavenger_admitter.core.lifecycle.run import Run
from scavenger_admitter.core.lifecycle.verdict import Hangs, Runs
from scavenger_admitter.core.units import run_at_risk

PROGRESS_EVERY: Final = timedelta(minutes=1)
"""Assumed and reported checkpoints of a run in progress go into the status no more often than this."""

SHOWN_EVERY: Final = timedelta(minutes=2)
"""A class that has changed is worth a status of its own when the last one is so old."""

SHOWN_STEP: Final = 600
"""CPU-seconds by which the figure of a run on reclaimed capacity has moved, and doubled or halved, to be worth one."""

STALLED_INTERVALS: Final = 3
"""A run that has reported checkpoints, and for so many intervals none, seems to hang."""


def record_start(draft: Draft, run: Run) -> None:
    """The moment from which all pods run, in the status once, and the phase that follows."""
    queued = draft.status.queued_timestamp
    if accounting.run_start(draft.status) is None and run.pods and queued is not None:
        start = max((at for pod in run.pods if (at := started_at(pod))), default=draft.seen.now)
        start = max(second(min(start, draft.seen.now)), second(queued))
        in_line = max(queued, draft.status.ended_timestamp or queued)  # a place that was kept is older
        known = draft.status.running_timestamps
        entries = (*known, start)[-names.MAX_RECENT_TIMESTAMPS :]
        starts = (draft.status.starts or len(known)) + 1  # an older version has not counted them
        draft.set(running_timestamps=entries, priority_start_over_timestamp=start, ended_timestamp=None, starts=starts)
        draft.waited = max(0.0, (start - in_line).total_seconds())
    if draft.phase is not Phase.RUNNING and run.batch is not None:
        draft.enter(Phase.RUNNING, StateReason.STARTED, "running")


def go_on(draft: Draft, run: Run, verdict: Runs) -> None:
    """What the run has computed up to its last reported or assumed checkpoint becomes useful.

    Both are written once in a while only: unsaved work follows from the start and the pods at any moment, and an
    end is judged by what the pods report then (`Draft.settle`). What is written for another reason takes them along.
    """
    seen = draft.seen
    draft.wait_for_proof(verdict.unproven)
    if verdict.until is not None:
        draft.wakeups.append((verdict.until - seen.now).total_seconds())
    start = accounting.run_start(draft.status)
    if start is None:
        return
    draft.interrupted = None
    _note_stall(draft, run, start)
    if past_deadline(draft, start):
        return
    interval = seen.job.spec.checkpoint_interval
    due = (accounting.next_due(start, interval, seen.now) - seen.now).total_seconds()
    known, made = draft.status, _progress(draft, run, start)
    rest = _rest(draft)
    if rest > 0 and known == seen.job.status:
        draft.wakeups.append(rest if made != known else max(rest, due))
        return
    draft.status = made
    draft.spend(accounting.advance(known, made, start, draft.taken))
    news = draft.status != seen.job.status
    draft.wakeups.append(max(due, PROGRESS_EVERY.total_seconds()) if news else due)


def fail(draft: Draft, verdict: Hangs) -> None:
    """The run reports checkpoints no longer, and its job allows that for no longer."""
    draft.interrupted = None
    said = limits.no_progress(draft.seen.job.spec, verdict.since)
    finished.fail(draft, draft.seen.now, FailureReason.NO_PROGRESS, said)


def show_class(draft: Draft) -> None:
    """Class and running priority of the run, by the marks of its pods: in a status that is written anyway, or in one of
    its own when what is shown has been wrong for long. What is decided of tasks stands on their pods only."""
    seen, run = draft.seen, draft.run
    if run is None or draft.phase is not Phase.RUNNING:
        return
    members = [read(pod, draft.rules.weights) for pod in run.pods]
    known = draft.status.preemption or Preemption()
    shown = Preemption(class_=class_of(members, known.class_), running_priority=_figure(draft, members))
    if draft.status == seen.job.status:
        if not _misleads(known, shown, seen.job):
            return
        if (wait := _rest(draft, SHOWN_EVERY)) > 0:
            draft.wakeups.append(wait)
            return
    draft.set(preemption=shown)


def _figure(draft: Draft, members: Sequence[PodReading]) -> float | None:
    """CPU-seconds that are lost if the job goes now. On reclaimed capacity the prioritizer alone knows the real use."""
    job, rules = draft.seen.job, draft.rules
    if job.spec.capacity is Capacity.RECLAIMED:
        return figure_of(members)
    one = timedelta(microseconds=1)
    now, cost, trusted = micros(draft.seen.now), rules.startup_cost // one, rules.trusted_interval // one
    return run_at_risk(job, draft.status, members, now, cost, trusted)


def _misleads(known: Preemption, shown: Preemption, job: ScavengerJob) -> bool:
    """Whether what is shown is worth a status of its own. Without a class, a job is preemptible. The program that shows
    a figure computes what it has become since, but for the use of reclaimed capacity."""
    if (known.class_ or names.PREEMPTIBLE) != shown.class_:
        return True
    if job.spec.capacity is not Capacity.RECLAIMED or shown.running_priority is None:
        return False
    before = known.running_priority
    return moved(None if before is None else round(before), round(shown.running_priority), SHOWN_STEP, 1.0)


def _note_stall(draft: Draft, run: Run, start: datetime) -> None:
    """Note whether the run reports checkpoints no longer. One that has reported none yet may belong to a program that
    never does. It is looked at whenever a checkpoint is due."""
    spec, now = draft.seen.job.spec, draft.seen.now
    if accounting.reported_checkpoint(run.pods, spec, now) is None:
        return
    since = accounting.last_progress(run.pods, start, spec, now)
    if now >= since + STALLED_INTERVALS * max(spec.checkpoint_interval, PROGRESS_EVERY):
        draft.stalled = limits.no_progress(spec, since)


def past_deadline(draft: Draft, since: datetime | None = None) -> bool:
    """Whether the runs of the job have taken as long as they may: then it has failed, also where the last one has just
    ended. since: when the run in progress began; None where there is none."""
    spec, now = draft.seen.job.spec, draft.seen.now
    left = limits.active_left(spec, draft.status, since or now, now)
    if left is None:
        return False
    if left > 0:
        draft.wakeups += [left] if since is not None else []
        return False
    finished.fail(draft, now, FailureReason.DEADLINE_EXCEEDED, limits.too_long(spec, "its runs took"))
    return True


def _rest(draft: Draft, every: timedelta = PROGRESS_EVERY) -> float:
    """Seconds until progress may be written again."""
    last, now = draft.known.last_write, draft.seen.now
    return (last + every - now).total_seconds() if last is not None and last <= now else 0.0


def _progress(draft: Draft, run: Run, start: datetime) -> ScavengerJobStatus:
    """The status with the last assumed checkpoint and the last checkpoint."""
    status, now, spec = draft.status, draft.seen.now, draft.seen.job.spec
    due = _start_over(status, start, spec.checkpoint_interval, now)
    status = status.model_copy(update={"priority_start_over_timestamp": due})
    checkpoint = accounting.newer_checkpoint(status, run.pods, spec, now)
    if checkpoint is None:
        return status
    message = f"running, last checkpoint {format_time(checkpoint)}"
    return status.model_copy(update={"last_checkpoint_timestamp": checkpoint, "message": message})


def _start_over(status: ScavengerJobStatus, start: datetime, interval: timedelta, now: datetime) -> datetime:
    due, known = accounting.start_over(start, interval, now), status.priority_start_over_timestamp
    if known is None or known > now + interval:
        return due
    return max(due, known)  # our clock may have been set back: what was counted is not counted again
