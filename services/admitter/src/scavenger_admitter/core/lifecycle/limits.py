"""How long runs may take: together, by activeDeadlineSeconds, and without a checkpoint, by progressDeadlineIntervals.

A job and the tasks of an array keep to the same rules. The time of an array is that in which at least one of its tasks
runs, and each run of a task reports checkpoints of its own. So an array of one task has the limits of a job.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from scavenger_api.job import ScavengerJobSpec, ScavengerJobStatus
from scavenger_api.times import format_time


def active_seconds(status: ScavengerJobStatus, since: datetime, until: datetime) -> int:
    """`activeSeconds` of the status with one more stretch in which the job ran, in whole seconds."""
    return (status.active_seconds or 0) + max(0, int((until - since).total_seconds()))


def active_left(spec: ScavengerJobSpec, status: ScavengerJobStatus, since: datetime, until: datetime) -> float | None:
    """Seconds that are left of activeDeadlineSeconds; None where there is no such limit.

    Args:
        spec: of the job.
        status: of the job, with what was counted.
        since: when the stretch began that is not counted yet.
        until: up to when it lasts. A run that was told to stop counts until then.
    """
    limit, more = spec.active_deadline_seconds, max(0.0, (until - since).total_seconds())
    return limit - (status.active_seconds or 0) - more if limit is not None else None


def too_long(spec: ScavengerJobSpec, what: str) -> str:
    """What is said of a job that has used up its activeDeadlineSeconds. what: that did, such as `its runs took`."""
    return f"{what} {spec.active_deadline_seconds} s together, as long as activeDeadlineSeconds allows"


def without_progress(spec: ScavengerJobSpec) -> timedelta | None:
    """For how long a run may report no checkpoint before it fails; None where that is no failure."""
    allowed = spec.progress_deadline_intervals
    return allowed * spec.checkpoint_interval if allowed is not None else None


def no_progress(spec: ScavengerJobSpec, since: datetime) -> str:
    """What is said of a run that reported no checkpoint since that moment."""
    return f"no checkpoint reported since {format_time(since)}, though one is due every {spec.interruption_after}"
