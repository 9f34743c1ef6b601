"""What was computed, kept and thrown away, in core-seconds: CPU request times time, which is what a job kept others
from using. On reclaimed capacity, which others may use, the CPU time really used. Of a pod that was resized
in place, each request counts for its time, as the pod says (`scavenger_domain.sizes`).

`usefulCPUSeconds` of the status always includes the current run up to its *reference*: the latest of its
start, its last assumed checkpoint and its last checkpoint. So whatever happens next, only the time since the
reference is left to be judged: kept when the job completes, lost when it ends in any other way. What its pods say as
they end may show that more was saved, and moves it from lost to useful. So at any moment the two together are what the
job was given: CPU times the time from `runningTimestamps` to `endedTimestamp` of every run, and of the run in progress
up to its reference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final, Self, TypeAlias

from scavenger_api import names
from scavenger_api.checkpoints import gang_checkpoint
from scavenger_api.job import Capacity, Phase, ScavengerJobSpec, ScavengerJobStatus
from scavenger_api.times import checkpoint_time, format_micro_time, micros
from scavenger_domain import checkpoints, gang
from scavenger_domain.pod_ends import ended_at, index, last_words, main_status, over, removal, succeeded
from scavenger_domain.sizes import Sizes, area, parse_sizes
from scavenger_kube import kinds

LEAST_CYCLE: Final = timedelta(minutes=1)
"""A job that ends with its checkpointExitCode starts no more often than this. It has its old place in the queue at
once, and every start costs writes that all jobs share. A run that is shorter counts as one without progress."""
RETRY_AFTER: Final = timedelta(seconds=10)
"""The pause of the Job controller after a first failure (DefaultJobPodFailureBackOff in job_controller.go)."""
MOST_PAUSE: Final = timedelta(minutes=10)
"""The pause after runs without progress grows up to this."""
MOST_QUOTED: Final = 64
"""Characters of an annotation that a message quotes."""

_SECOND = timedelta(seconds=1)
_DOUBLINGS = 20
"""More than any pause needs to be as long as it gets."""

Usage: TypeAlias = Callable[[str, datetime, datetime], float | None]
"""CPU time that a pod (`namespace/name`) really used between two moments, in core-seconds; None where it is not
known."""

Between: TypeAlias = Callable[[datetime, datetime], float]
"""What a whole run took between two moments; 0 when the second is the earlier one."""


def _span(since: datetime, until: datetime) -> float:
    return max(0.0, (until - since).total_seconds())


@dataclass(frozen=True, slots=True)
class Taken:
    """How it is counted what a run takes.

    Attributes:
        core_seconds: CPU time between two moments.
        seconds: how long its devices are taken between two moments. Where a member of a gang has ended, its share of a
            second is missing.
    """

    core_seconds: Between
    seconds: Between = _span


@dataclass(frozen=True, slots=True)
class Spent:
    """What was computed. `lost` is negative where it turns out that what was lost had been saved.

    Attributes:
        useful: core-seconds.
        lost: core-seconds.
        kept_for: seconds (`Taken.seconds`) that were useful.
        lost_for: seconds that were lost.
    """

    useful: float = 0.0
    lost: float = 0.0
    kept_for: float = 0.0
    lost_for: float = 0.0

    @classmethod
    def between(cls, begin: datetime, reference: datetime, end: datetime, taken: Taken) -> Self:
        """Useful up to the reference, and lost from there."""
        kept_for, lost_for = taken.seconds(begin, reference), taken.seconds(reference, end)
        return cls(taken.core_seconds(begin, reference), taken.core_seconds(reference, end), kept_for, lost_for)

    def devices(self, status: ScavengerJobStatus, spec: ScavengerJobSpec) -> dict[str, dict[str, float]]:
        """`useful_seconds` and `lost_seconds` of the status with this; nothing where no device comes in."""
        if not spec.devices or not (self.kept_for or self.lost_for):
            return {}
        useful, lost = dict(status.useful_seconds or {}), dict(status.lost_seconds or {})
        for name, count in spec.devices.items():
            more = max(self.lost_for * count, -lost.get(name, 0.0))  # never more than was counted as lost
            lost[name] = lost.get(name, 0.0) + more
            useful[name] = useful.get(name, 0.0) + (-more if self.lost_for < 0 else self.kept_for * count)
        return {"useful_seconds": useful, "lost_seconds": lost}


def second(value: datetime) -> datetime:
    """As the status holds it: whole seconds, rounded down."""
    return value.replace(microsecond=0)


def cores(spec: ScavengerJobSpec) -> float:
    """CPU that the whole gang asks for, in cores."""
    return spec.requests.get("cpu", 0) * spec.parallelism / 1000


@lru_cache(maxsize=1024)  # asked for half a dozen times in a reconcile
def run_id(queued: datetime) -> str:
    """The identity of the run that is started from a place in the queue, as its Job and pods carry it."""
    return format_micro_time(queued)


def run_of(status: ScavengerJobStatus) -> str:
    """The identity of the run that the status is about; empty where the job has no place in the queue."""
    return run_id(status.queued_timestamp) if status.queued_timestamp is not None else ""


def run_start(status: ScavengerJobStatus) -> datetime | None:
    """When the current run started; None when it has not, or not yet been recorded, or is over.

    A run that is recorded is no older than its place in the queue. Both are compared in whole seconds; `requeued`
    keeps the place in the queue of the next run clear of the second in which this one started.
    """
    if not status.running_timestamps or status.queued_timestamp is None or status.ended_timestamp is not None:
        return None
    last = status.running_timestamps[-1]
    return last if last >= second(status.queued_timestamp) else None


def spec_of_run(spec: ScavengerJobSpec, pods: Sequence[kinds.Pod]) -> ScavengerJobSpec:
    """The spec with what was promised when a run started.

    Args:
        spec: of its job.
        pods: of the run.
    """
    return spec.of_run(pods[0].metadata.annotations) if pods else spec


def short_run(status: ScavengerJobStatus, spec: ScavengerJobSpec, end: datetime, trusted: timedelta) -> bool:
    """Whether the current run is short where it ends at `end` (`gang.short_run`); one that has not begun is."""
    start = run_start(status)
    interval, most = _micros(spec.checkpoint_interval), _micros(trusted)
    return start is None or gang.short_run(micros(start), interval, micros(end), most)


def requeued(status: ScavengerJobStatus, now: datetime) -> datetime:
    """The place in the queue from now on, in microseconds: never one it had before, and later than the start of any
    run."""
    places = [now]
    if status.queued_timestamp is not None:
        places.append(status.queued_timestamp + timedelta(microseconds=1))
    if status.running_timestamps:
        places.append(second(status.running_timestamps[-1]) + _SECOND)
    return max(places)


def kept_place(status: ScavengerJobStatus) -> datetime | None:
    """The place in the queue of a job whose run has saved its state and ended. It is the old one, but for a
    microsecond, as no two runs have the same."""
    return status.queued_timestamp + timedelta(microseconds=1) if status.queued_timestamp is not None else None


def rests_until(status: ScavengerJobStatus) -> datetime | None:
    """When a job may start again whose last runs were short; None where it need not wait.

    The runs of one that kept its place as its run ended begin no more often than every `LEAST_CYCLE`. One that was
    interrupted rests from its second short run in a row on. Either pause doubles with every short run, up to
    `MOST_PAUSE`.
    """
    ended, queued, short = status.ended_timestamp, status.queued_timestamp, status.short_runs or 0
    if ended is None or queued is None or not status.running_timestamps:
        return None
    # The pods of an interrupted run may end after the job has its new place.
    kept = queued < ended and status.phase is not Phase.INTERRUPTED
    since, doublings = (status.running_timestamps[-1], max(0, short - 1)) if kept else (ended, short - 2)
    return since + pause_of(doublings) if doublings >= 0 else None


def pause_of(doublings: int, least: timedelta = LEAST_CYCLE) -> timedelta:
    """How long a job rests: the least time, doubled so often, and no more than `MOST_PAUSE`."""
    return min(least * (1 << min(doublings, _DOUBLINGS)), MOST_PAUSE)


def start_over(start: datetime, interval: timedelta, at: datetime) -> datetime:
    """The last moment, up to `at`, at which a checkpoint was due: whole intervals after the start."""
    return second(gang.moment(gang.start_over(micros(start), _micros(interval), micros(at))))


def next_due(start: datetime, interval: timedelta, at: datetime) -> datetime:
    """When the first checkpoint after `at` is due."""
    each = _micros(interval)
    return gang.moment(gang.start_over(micros(start), each, micros(at)) + each)


def _micros(interval: timedelta) -> int:
    """An interval between two checkpoints: never less than a second, the unit of the status."""
    return max(interval, _SECOND) // timedelta(microseconds=1)


def recorded_reference(status: ScavengerJobStatus, start: datetime) -> datetime:
    """Up to where the status already counts the current run as useful."""
    stamps = (start, status.priority_start_over_timestamp, status.last_checkpoint_timestamp)
    return max(stamp for stamp in stamps if stamp is not None)


def taken(spec: ScavengerJobSpec, pods: Sequence[kinds.Pod] = (), usage: Usage | None = None) -> Taken:
    """How it is counted what a run takes: CPU request times time, on reclaimed capacity as measured.

    Args:
        spec: of the job.
        pods: of the run. A member of a gang takes nothing from its end on, however it ended.
        usage: what is measured of them. Where it knows nothing of a pod, or a pod is gone without a trace, its limit
            times time stands in.
    """
    alive_until = {pod.metadata.uid: ended_at(pod) for pod in pods}

    beyond = [(_beyond(sizes), alive_until[pod.metadata.uid]) for pod in pods if (sizes := _sizes(pod))]
    ends = _ends_of_members(pods)

    def seconds(since: datetime, until: datetime) -> float:
        return _span(since, until) - sum(_span(max(since, ended), until) for ended in ends) / spec.parallelism

    def requested(since: datetime, until: datetime) -> float:
        found = seconds(since, until) * cores(spec)
        for sizes, ended in beyond:
            found += area(sizes, micros(since), micros(min(until, ended or until))) / gang.PER_CPU_SECOND
        return max(0.0, found)

    if spec.capacity is Capacity.GUARANTEED or usage is None:
        return Taken(requested, seconds)

    def measured(since: datetime, until: datetime) -> float:
        if until <= since:
            return 0.0
        spans = ((pod, min(until, ended or until)) for pod, ended in alive_until.items())
        known = [used for pod, end in spans if (used := usage(pod, since, end)) is not None]
        unknown = max(0, spec.parallelism - len(known)) / spec.parallelism
        return sum(known) + unknown * _span(since, until) * cores(spec)

    return Taken(measured, seconds)


def _ends_of_members(pods: Sequence[kinds.Pod]) -> list[datetime]:
    """When each member ended that has no pod left which may still compute. An index may have had several pods."""
    ends: dict[object, datetime | None] = {}
    for pod in pods:
        number, ended = index(pod), ended_at(pod)
        member = pod.metadata.uid if number is None else number
        known = ends.get(member, ended)
        ends[member] = None if ended is None or known is None else max(known, ended)
    return [ended for ended in ends.values() if ended is not None]


def _sizes(pod: kinds.Pod) -> Sizes:
    return parse_sizes(pod.metadata.annotations.get(names.ANNOTATION_REQUESTED_CPU))


def _beyond(sizes: Sizes) -> Sizes:
    """What a pod has requested since when beyond what it was created with, in millicores."""
    return tuple((since, cpu - sizes[0][1]) for since, cpu in sizes)


def advance(before: ScavengerJobStatus, after: ScavengerJobStatus, start: datetime, taken: Taken) -> Spent:
    """What became useful because the assumed or reported checkpoint moved from `before` to `after`."""
    reference = recorded_reference(after, start)
    return Spent.between(recorded_reference(before, start), reference, reference, taken)


def settle(
    status: ScavengerJobStatus,
    spec: ScavengerJobSpec,
    end: datetime,
    taken: Taken,
    *,
    kept: bool,
    checkpoint: datetime | None = None,
) -> Spent:
    """What is left to be judged of the current run when it ends at `end`.

    Kept: all of it is useful. Otherwise useful up to the last assumed checkpoint before the end or to a `checkpoint`
    that the status does not know yet, whichever is later, and lost from there. Clocks of nodes, API server and admitter
    differ: an end before the start, or before what was already counted, is worth zero.
    """
    start = run_start(status)
    if start is None:
        return Spent()
    counted = recorded_reference(status, start)
    if kept:
        return Spent.between(counted, end, end, taken)
    reference = max(_judged(status, spec, start, end), counted if checkpoint is None else min(checkpoint, end))
    return Spent.between(counted, reference, end, taken)


def saved_after_all(
    status: ScavengerJobStatus, spec: ScavengerJobSpec, checkpoint: datetime, taken: Taken
) -> Spent | None:
    """What turns out to have been saved of the last run, which was settled without this `checkpoint`; None when that is
    nothing. Never more than was counted as lost."""
    end = status.ended_timestamp
    if end is None or not status.running_timestamps:
        return None
    judged = _judged(status, spec, status.running_timestamps[-1], end)
    until = min(checkpoint, end)
    saved, saved_for = min(taken.core_seconds(judged, until), status.lost_cpu_seconds), taken.seconds(judged, until)
    return Spent(saved, -saved, saved_for, -saved_for) if saved > 0 else None


def _judged(status: ScavengerJobStatus, spec: ScavengerJobSpec, start: datetime, end: datetime) -> datetime:
    """Up to where a run that ended is useful, by what the status knows: recorded, or due by the end."""
    due = start_over(start, spec.checkpoint_interval, end) if end > start else start
    return max(recorded_reference(status, start), due)


def reported_checkpoint(pods: Sequence[kinds.Pod], spec: ScavengerJobSpec, now: datetime) -> datetime | None:
    """The checkpoint that the gang as a whole can restart from, in whole seconds; None when there is none.

    While a pod may still compute, annotations alone count: what the others say as they end is not the last word of the
    gang.
    """
    last = all(over(pod) for pod in pods)
    reports = ((index(pod), _report(pod, spec, now, last=last)) for pod in pods)
    found = gang_checkpoint(reports, spec.parallelism, now)
    return second(found) if found is not None else None


def last_progress(pods: Sequence[kinds.Pod], start: datetime, spec: ScavengerJobSpec, now: datetime) -> datetime:
    """When a run that began at `start` reported a checkpoint last; its start where it has reported none."""
    reported = reported_checkpoint(pods, spec, now)
    return start if reported is None else max(start, reported)


def _report(pod: kinds.Pod, spec: ScavengerJobSpec, now: datetime, *, last: bool) -> datetime | None:
    """The latest checkpoint that a pod reports; with `last` also what it said as it ended."""
    annotated = checkpoint_time(pod.metadata.annotations.get(names.ANNOTATION_LAST_CHECKPOINT))
    if not last:
        return annotated
    said = last_words(pod, spec.saved_exit_code)
    if said is None and _done(pod, spec):
        said = now
    # The clock of its node may be ahead of the admitter's: a pod that has ended said nothing of the future.
    stamps = (annotated, min(said, now) if said is not None else None)
    return max((at for at in stamps if at is not None and at <= now), default=None)


def unreadable_checkpoint(pods: Iterable[kinds.Pod]) -> str:
    """What a program says for the time of a checkpoint and is no time, in words with the pod; empty where none does."""
    for pod in pods:
        noted = pod.metadata.annotations.get(names.ANNOTATION_LAST_CHECKPOINT, "")
        if noted and checkpoint_time(noted) is None:
            return (
                f"annotation {names.ANNOTATION_LAST_CHECKPOINT} of pod {pod.metadata.name} says {noted[:MOST_QUOTED]!r}"
            )
        main = main_status(pod)
        ended = main.state.terminated if main is not None else None
        if ended is not None and (said := checkpoints.unreadable_checkpoint(ended.message)):
            return f"the termination message of pod {pod.metadata.name} says checkpoint={said}"
    return ""


def _done(pod: kinds.Pod, spec: ScavengerJobSpec) -> bool:
    """Whether a member is through with its work and cannot lose any more. Where exit codes have a meaning, 0 has one,
    too; but a program that was told to stop may end with 0 as well."""
    convention = spec.saved_exit_code is not None
    return convention and succeeded(pod) and removal(pod) is None


def newer_checkpoint(
    status: ScavengerJobStatus, pods: Sequence[kinds.Pod], spec: ScavengerJobSpec, now: datetime
) -> datetime | None:
    """What the pods report beyond the checkpoint that the status knows; None when that is nothing new."""
    found, known = reported_checkpoint(pods, spec, now), status.last_checkpoint_timestamp
    return found if found is not None and (known is None or known > now or found > known) else None
