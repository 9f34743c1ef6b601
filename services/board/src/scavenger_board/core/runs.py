"""The runs of a job, and since when the work of the one that is under way is unsaved."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from scavenger_api.states import Phase
from scavenger_api.times import micros
from scavenger_domain.gang import safe_until

from scavenger_board.core.snapshot import JobFacts, PodFacts

RUNNING: Final = "running"
INTERRUPTED: Final = "interrupted"
ENDED: Final = "ended"
"""Neither interrupted nor the last one: a program that failed and was tried again, or a start that failed."""

Run = tuple[int, int | None, str]
"""Start and end in Unix seconds, and how it ended. An end of None: it runs, or nothing says when it ended."""


def runs(job: JobFacts) -> list[Run]:
    """The last twenty runs, which are all that a status keeps, oldest first."""
    following = (*job.runs[1:], None)
    return [_run(job, start, after) for start, after in zip(job.runs, following, strict=False)]


def _run(job: JobFacts, start: datetime, after: datetime | None) -> Run:
    began = int(start.timestamp())
    ends = (at for at in job.interruptions if at >= start and (after is None or at <= after))
    if (end := next(ends, None)) is not None:
        return began, int(end.timestamp()), INTERRUPTED
    if after is not None:
        return began, None, ENDED
    if job.finished is not None:
        return began, int(job.finished.timestamp()), job.phase.lower()
    if job.phase == Phase.RUNNING:
        return began, None, RUNNING
    return began, int(job.ended.timestamp()) if job.ended is not None and job.ended >= start else None, ENDED


def unsaved_since(job: JobFacts, now: datetime) -> int | None:
    """The last moment whose work is safe, in Unix seconds: a checkpoint of this run that was reported, or was due. None
    for a job that does not run."""
    if job.phase != Phase.RUNNING or not job.runs or not job.interval:
        return None
    reports = (None if at is None else micros(at) for at in (job.checkpoint, job.annotated, job.start_over))
    return safe_until(micros(job.runs[-1]), job.interval, reports, micros(now)) // 10**6


def tasks_unsaved_since(job: JobFacts, pods: Iterable[PodFacts], now: datetime) -> int | None:
    """The same for an array: the mean of its pods, since what they have not saved adds up. A task that does not run has
    nothing to save. None where none runs."""
    if not job.interval:
        return None
    at, pods = micros(now), tuple(pods)
    starts = [(pod.started, pod.checkpoint) for pod in pods if pod.started is not None]
    safe = [safe_until(start, job.interval, (checkpoint,), at) for start, checkpoint in starts]
    return (sum(safe) + at * (len(pods) - len(safe))) // len(pods) // 10**6 if safe else None


def checkpointed(job: JobFacts, now: datetime) -> int | None:
    """The checkpoint that the present run has reported, in Unix seconds."""
    at = job.checkpoint
    if at is None or not job.runs or job.phase != Phase.RUNNING or not job.runs[-1] < at <= now:
        return None
    return int(at.timestamp())
