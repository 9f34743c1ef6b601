"""Runs in progress: their start is recorded, and what they have computed becomes useful step by step."""

from __future__ import annotations

from datetime import datetime, timedelta

from scavenger_api import names
from scavenger_api.job import Phase, ScavengerJobStatus
from scavenger_api.reasons import StateReason
from scavenger_api.times import format_time

from scavenger_admitter.core.lifecycle import accounting
from scavenger_admitter.core.lifecycle.accounting import second
from scavenger_admitter.core.lifecycle.draft import Draft
from scavenger_admitter.core.lifecycle.pods import started_at
from scavenger_admitter.core.lifecycle.termination import Run


def record_start(draft: Draft, run: Run) -> None:
    """The moment from which all pods run, in the status once, and the phase that follows."""
    queued = draft.status.queued_timestamp
    if accounting.run_start(draft.status) is None and run.pods and queued is not None:
        start = max((at for pod in run.pods if (at := started_at(pod))), default=draft.seen.now)
        start = max(second(min(start, draft.seen.now)), second(queued))
        entries = (*draft.status.running_timestamps, start)[-names.MAX_RECENT_TIMESTAMPS :]
        draft.set(running_timestamps=entries, priority_start_over_timestamp=start)
        draft.waited = max(0.0, (start - queued).total_seconds())
    if draft.phase is not Phase.RUNNING and run.batch is not None:
        draft.enter(Phase.RUNNING, StateReason.STARTED, "running")
        draft.note("Running", f"all {run.parallelism} pods are running" if run.parallelism > 1 else "running")


def go_on(draft: Draft, run: Run) -> None:
    """What the run has computed up to its last checkpoint, or start-over, becomes useful."""
    before, spec, now = draft.status, draft.seen.job.spec, draft.seen.now
    start = accounting.run_start(before)
    if start is None:
        return
    draft.interrupted = None
    draft.set(priority_start_over_timestamp=_start_over(before, start, spec.checkpoint_interval, now))
    checkpoint, known = (
        accounting.reported_checkpoint(run.pods, run.parallelism, now),
        before.last_checkpoint_timestamp,
    )
    if checkpoint is not None and (known is None or known > now or checkpoint > known):
        draft.set(
            last_checkpoint_timestamp=checkpoint,
            message=f"running, last checkpoint {format_time(checkpoint)}",
        )
    draft.spend(accounting.advance(before, draft.status, start, draft.cpu_time))
    draft.wakeups.append(accounting.next_start_over(start, spec.checkpoint_interval, now))


def _start_over(status: ScavengerJobStatus, start: datetime, interval: timedelta, now: datetime) -> datetime:
    due, known = accounting.start_over(start, interval, now), status.priority_start_over_timestamp
    if known is None or known > now + interval:
        return due
    return max(due, known)  # our clock may have been set back: what was counted is not counted again
