"""What was computed, kept and thrown away, in core-seconds: CPU request times time, which is what a job kept others
from using; on reclaimed capacity, which keeps nobody from anything, the CPU time really used.

`usefulCPUSeconds` of the status always includes the current run up to its *reference*: the latest of its
start, its last start-over and its last checkpoint. So whatever happens next, only the time since the
reference is left to be judged: kept when the job completes, lost when it ends in any other way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import TypeAlias

from scavenger_api import names
from scavenger_api.checkpoints import gang_checkpoint
from scavenger_api.job import Capacity, ScavengerJobSpec, ScavengerJobStatus
from scavenger_api.times import format_micro_time
from scavenger_domain import risk
from scavenger_kube import kinds

from scavenger_admitter.core.lifecycle.pods import ended_at, index, moment

_SECOND = timedelta(seconds=1)

Usage: TypeAlias = Callable[[str, datetime, datetime], float | None]
"""CPU time that a pod (`namespace/name`) really used between two moments, in core-seconds; None where nobody knows."""

CpuTime: TypeAlias = Callable[[datetime, datetime], float]
"""CPU time of a whole run between two moments, in core-seconds; 0 when the second is the earlier one."""


@dataclass(frozen=True, slots=True)
class Spent:
    """CPU time, in core-seconds, never negative."""

    useful: float = 0.0
    lost: float = 0.0


def second(value: datetime) -> datetime:
    """As the status holds it: whole seconds, rounded down."""
    return value.replace(microsecond=0)


def cores(spec: ScavengerJobSpec) -> float:
    """CPU that the whole gang asks for, in cores."""
    return spec.requests.get("cpu", 0) * spec.parallelism / 1000


@lru_cache(maxsize=1024)  # asked for half a dozen times in a reconcile
def run_id(queued: datetime) -> str:
    """The identity of the run that is started from a place in line, as its Job and pods carry it."""
    return format_micro_time(queued)


def run_start(status: ScavengerJobStatus) -> datetime | None:
    """When the current run started; None when it has not, or not yet been recorded.

    A run that is recorded is no older than its place in line. Both are compared in whole seconds; `requeued`
    keeps the place in line of the next run clear of the second in which this one started.
    """
    if not status.running_timestamps or status.queued_timestamp is None:
        return None
    last = status.running_timestamps[-1]
    return last if last >= second(status.queued_timestamp) else None


def requeued(status: ScavengerJobStatus, now: datetime) -> datetime:
    """The place in line from now on, in microseconds: never one it had before, and later than the start of any run."""
    places = [now]
    if status.queued_timestamp is not None:
        places.append(status.queued_timestamp + timedelta(microseconds=1))
    if status.running_timestamps:
        places.append(second(status.running_timestamps[-1]) + _SECOND)
    return max(places)


def start_over(start: datetime, interval: timedelta, at: datetime) -> datetime:
    """The last moment, up to `at`, at which a checkpoint was due: whole intervals after the start."""
    interval = max(interval, _SECOND)
    return second(risk.start_over(start, interval, at))


def next_start_over(start: datetime, interval: timedelta, now: datetime) -> float:
    """Seconds from now until the next checkpoint is due."""
    interval = max(interval, _SECOND)
    return (risk.start_over(start, interval, now) + interval - now).total_seconds()


def recorded_reference(status: ScavengerJobStatus, start: datetime) -> datetime:
    """Up to where the status already counts the current run as useful."""
    stamps = (start, status.priority_start_over_timestamp, status.last_checkpoint_timestamp)
    return max(stamp for stamp in stamps if stamp is not None)


def cpu_time(spec: ScavengerJobSpec, pods: Sequence[kinds.Pod] = (), usage: Usage | None = None) -> CpuTime:
    """How the CPU time of a run is counted: CPU request times time, on reclaimed capacity as measured.

    Args:
        spec: of the job.
        pods: of the run. One that ended by itself uses nothing from then on.
        usage: what is measured of them. Where it knows nothing of a pod, or a pod is gone without a trace, its limit
            times time stands in.
    """
    alive_until = {pod.metadata.key: ended_at(pod) for pod in pods}

    def requested(since: datetime, until: datetime) -> float:
        return max(0.0, (until - since).total_seconds()) * cores(spec)

    if spec.capacity is Capacity.GUARANTEED or usage is None:
        return requested

    def measured(since: datetime, until: datetime) -> float:
        if until <= since:
            return 0.0
        spans = ((pod, min(until, ended or until)) for pod, ended in alive_until.items())
        known = [used for pod, end in spans if (used := usage(pod, since, end)) is not None]
        unknown = max(0, spec.parallelism - len(known)) / spec.parallelism
        return sum(known) + unknown * requested(since, until)

    return measured


def advance(before: ScavengerJobStatus, after: ScavengerJobStatus, start: datetime, used: CpuTime) -> Spent:
    """What became useful because start-over or checkpoint moved from `before` to `after`."""
    return Spent(useful=used(recorded_reference(before, start), recorded_reference(after, start)))


def settle(
    status: ScavengerJobStatus,
    spec: ScavengerJobSpec,
    end: datetime,
    used: CpuTime,
    *,
    kept: bool,
    checkpoint: datetime | None = None,
) -> Spent:
    """What is left to be judged of the current run when it ends at `end`.

    Kept: all of it is useful. Otherwise useful up to the last start-over before the end or to a `checkpoint` that the
    status does not know yet, whichever is later, and lost from there. Clocks of nodes, API server and admitter differ:
    an end before the start, or before what was already counted, is worth zero.
    """
    start = run_start(status)
    if start is None:
        return Spent()
    counted = recorded_reference(status, start)
    if kept:
        return Spent(useful=used(counted, end))
    due = start_over(start, spec.checkpoint_interval, end) if end > start else start
    reference = max(counted, due, counted if checkpoint is None else min(checkpoint, end))
    return Spent(useful=used(counted, reference), lost=used(reference, end))


def reported_checkpoint(pods: Sequence[kinds.Pod], parallelism: int, now: datetime) -> datetime | None:
    """The checkpoint that the gang as a whole can restart from, in whole seconds; None when there is none."""
    reports = ((index(pod), moment(pod.metadata.annotations.get(names.ANNOTATION_LAST_CHECKPOINT))) for pod in pods)
    found = gang_checkpoint(reports, parallelism, now)
    return second(found) if found is not None else None


def newer_checkpoint(
    status: ScavengerJobStatus, pods: Sequence[kinds.Pod], parallelism: int, now: datetime
) -> datetime | None:
    """What the pods report beyond the checkpoint that the status knows; None when that is nothing new."""
    found, known = reported_checkpoint(pods, parallelism, now), status.last_checkpoint_timestamp
    return found if found is not None and (known is None or known > now or found > known) else None
