"""What a gang is, its unsaved work, and its place in the queue: the one owner of these rules.

Prioritizer, regulator, admitter, command line and simulator ask here. The scheduler plugin, in Go, is tested against
the same table of cases (services/scheduler/pkg/preemption/testdata/gang_cases.json).

Units: moments and spans in whole microseconds (moments since the epoch). What a pod costs is in thousandths of a core
(`scavenger_api.weights`: of a pod without accelerators, its millicores). Unsaved work is in those times microseconds.
Integers, so that equal jobs compare equal.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol, TypeVar

from scavenger_api.checkpoints import gang_checkpoint
from scavenger_api.job_keys import job_key
from scavenger_api.names import (
    DEFAULT_START_OVER_WINDOW_SECONDS,
    DEFAULT_STARTUP_COST_SECONDS,
    DEFAULT_TRUSTED_INTERVAL_SECONDS,
    LABEL_JOB,
    LABEL_KIND,
    LABEL_TASK,
)
from scavenger_api.times import EPOCH

from scavenger_domain.sizes import Sizes, area

MICROSECONDS: Final = 1_000_000
PER_CPU_SECOND: Final = 1000 * MICROSECONDS
"""Thousandths of a core, times microseconds, in one CPU-second."""

STARTUP_COST: Final = round(DEFAULT_STARTUP_COST_SECONDS * MICROSECONDS)
START_OVER_WINDOW: Final = round(DEFAULT_START_OVER_WINDOW_SECONDS * MICROSECONDS)
TRUSTED: Final = round(DEFAULT_TRUSTED_INTERVAL_SECONDS * MICROSECONDS)

_DIGITS: Final = 9
"""Of the index of a task, at most."""

UNMEASURED: Final[Mapping[str, int]] = MappingProxyType({})
"""What pods use was not measured."""


class Member(Protocol):
    """A pod of the present run.

    Attributes:
        uid: of the pod.
        node: empty until it is scheduled.
        cost: of its requests while it runs; on reclaimed capacity, of what it asked for of that.
        past: where it was resized in place, what it has cost since when (`scavenger_domain.sizes.Sizes`); else empty.
        live: neither in a terminal phase nor being deleted.
        terminating: being deleted, before its containers ended.
        finished: it has succeeded. A pod that is none of the three has failed, and is no member any more.
        started: when its main container started.
        index: its completion index.
        checkpoint: what it reports, wherever that lies in time.
    """

    @property
    def uid(self) -> str: ...  # noqa: D102
    @property
    def node(self) -> str: ...  # noqa: D102
    @property
    def cost(self) -> int: ...  # noqa: D102
    @property
    def past(self) -> Sizes: ...  # noqa: D102
    @property
    def live(self) -> bool: ...  # noqa: D102
    @property
    def terminating(self) -> bool: ...  # noqa: D102
    @property
    def finished(self) -> bool: ...  # noqa: D102
    @property
    def started(self) -> int | None: ...  # noqa: D102
    @property
    def index(self) -> int | None: ...  # noqa: D102
    @property
    def checkpoint(self) -> int | None: ...  # noqa: D102


class Job(Protocol):
    """What a ScavengerJob says of its present run.

    Attributes:
        interval: `interruptionAfter`, more than nothing.
        parallelism: pods in the gang.
        reclaimed: runs on reclaimed capacity.
        created: when the job was created.
        started: the last of `runningTimestamps`; None where that was lost.
        start_over: `priorityStartOverTimestamp`.
        checkpoints: those recorded on the job itself, wherever they lie in time.
    """

    @property
    def interval(self) -> int: ...  # noqa: D102
    @property
    def parallelism(self) -> int: ...  # noqa: D102
    @property
    def reclaimed(self) -> bool: ...  # noqa: D102
    @property
    def created(self) -> int: ...  # noqa: D102
    @property
    def started(self) -> int | None: ...  # noqa: D102
    @property
    def start_over(self) -> int | None: ...  # noqa: D102
    @property
    def checkpoints(self) -> Sequence[int]: ...  # noqa: D102


class AtRisk(NamedTuple):
    """What a gang would have to compute again if it went now.

    Attributes:
        cost: thousandths of a core, times microseconds.
        started: when the present run began.
        since: up to here its work is safe.
    """

    cost: int
    started: int
    since: int


# --- a unit ---


class Metadata(Protocol):
    """Of a pod."""

    @property
    def namespace(self) -> str: ...  # noqa: D102
    @property
    def labels(self) -> Mapping[str, str]: ...  # noqa: D102


class Labelled(Protocol):
    """A pod, as far as its labels tell what it belongs to."""

    @property
    def metadata(self) -> Metadata: ...  # noqa: D102


def unit(pod: Labelled) -> str:
    """What is ranked, interrupted and booked as a whole, and a pod is part of: its job, or one task of an array.

    Returns:
        The key of its job (`scavenger_api.job_keys`), or `KEY[INDEX]`; empty for a pod of none. A pod's labels do not
        change (admission policy `job-pods`).
    """
    job = job_key_of(pod)
    return task_unit(job, pod.metadata.labels.get(LABEL_TASK, "")) if job else ""


def job_key_of(pod: Labelled) -> str:
    """The key of the job that a pod belongs to (`scavenger_api.job_keys`); empty for a pod of none."""
    labels = pod.metadata.labels
    name = labels.get(LABEL_JOB)
    return job_key(pod.metadata.namespace, name, labels.get(LABEL_KIND, "")) if name else ""


def task_unit(job: str, task: str) -> str:
    """The unit of a task.

    Args:
        job: its key (`scavenger_api.job_keys`).
        task: its index; empty for a job without tasks, which is a unit itself.
    """
    return f"{job}[{task}]" if task else job


def task_index(pod: Labelled) -> int | None:
    """The index of the task that a pod is of; None where it is of none."""
    text = pod.metadata.labels.get(LABEL_TASK, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _DIGITS else None


def job_of(unit: str) -> str:
    """The key of the job of a unit. No name has a bracket in it."""
    return unit.partition("[")[0]


# --- a run ---


def run_name(recorded: str, job: str) -> str:
    """The name of the batch/v1 Job that controls the pods of the present run.

    Args:
        recorded: `status.jobName`, which does not speak of a start that takes a few seconds.
        job: name of the ScavengerJob, which the Job then has as well.
    """
    return recorded or job


def run_start(job: Job, members: Iterable[Member], now: int) -> int:
    """When the present run began, never after `now`: a start in the future is another machine's clock.

    The last of `runningTimestamps`; where that was lost, the youngest pod's start; at last the job's creation.
    """
    started = job.started
    if started is None:
        started = max((pod.started for pod in members if pod.started is not None), default=job.created)
    return min(started, now)


def gang_safe_until(job: Job, members: Sequence[Member], start: int, now: int) -> int:
    """The last moment whose work is safe: the latest of the start, the assumed checkpoint and all checkpoints.

    Finished members have reported like the others. What failed pods reported does not count: others took their place.

    Args:
        job: whose run it is.
        members: the pods of the run.
        start: of the run (`run_start`).
        now: the present.
    """
    checkpoint = None
    for pod in members:  # no generator: see `at_risk`
        if pod.checkpoint is not None:
            there = [one for one in members if one.live or one.finished or one.terminating]
            checkpoint = gang_checkpoint([(one.index, one.checkpoint) for one in there], job.parallelism, now)
            break
    return safe_until(start, job.interval, (job.start_over, *job.checkpoints, checkpoint), now)


def at_risk(
    job: Job,
    members: Sequence[Member],
    now: int,
    startup_cost: int = STARTUP_COST,
    trusted: int = TRUSTED,
    used: Mapping[str, int] = UNMEASURED,
) -> AtRisk:
    """What the end of the gang would throw away: the cost of its resources times `time_at_risk`.

    Of a member that was resized in place, what it requested since its work was safe counts, each amount for its time. A
    restart costs as much as it requests now.

    A gang is interrupted whole, so finished members run again from the last checkpoint, and count. On reclaimed
    capacity, where nothing was requested, each pod counts with what it used; a finished one uses nothing. A member that
    is terminating has lost its work already.

    Args:
        job: whose run it is.
        members: the pods of the run.
        now: the present.
        startup_cost: what a restart costs each core.
        trusted: the longest interval that is taken at its word.
        used: on reclaimed capacity: the cost of what a pod used on average since its work was safe, by its UID. Pods
            that are not in it are not measured and count with what they asked for.
    """
    start = run_start(job, members, now)
    since = gang_safe_until(job, members, start, now)
    lost = time_at_risk(start, since, now, startup_cost, job.interval, trusted)
    cost, more, reclaimed = 0, 0, job.reclaimed
    for pod in members:  # no generator: the prioritizer asks it of ten thousand gangs in a pass
        if pod.live:
            if pod.node:
                cost += used.get(pod.uid, pod.cost) if reclaimed else pod.cost
        elif pod.finished and not reclaimed:
            cost += pod.cost
        if pod.past and not reclaimed and (pod.finished or (pod.live and pod.node)):
            more += _more(pod, since, now)
    if more:
        worked = lost - startup_cost if since == start else lost  # less than the whole time where the promise is not
        more = more * worked // (now - since)  # trusted
    return AtRisk(lost * cost + more, start, since)


def _more(pod: Member, since: int, now: int) -> int:
    """What a member cost since a moment beyond what its present requests would have; less than 0 where that is less."""
    return area(pod.past, since, now) - pod.cost * (now - since) if pod.past and since < now else 0


def equal_members(cost: int, parallelism: int, running: int, *, reclaimed: bool) -> int:
    """The cost that counts in `at_risk` of a gang whose members request the same.

    Args:
        cost: of each member.
        parallelism: members that run, and members that have finished.
        running: members that run.
        reclaimed: runs on reclaimed capacity.
    """
    return cost * (running if reclaimed else parallelism)


def cpu_seconds(risk: int) -> int:
    """Unsaved work in whole CPU-seconds, rounded. Accelerators count as so many cores (`scavenger_api.weights`)."""
    return (risk + PER_CPU_SECOND // 2) // PER_CPU_SECOND


# --- time ---


def start_over(start: int, interval: int, now: int) -> int:
    """The last moment up to `now` at which a checkpoint was due: whole intervals after the start of the run.

    It is computed, as the one that the status has lags by up to a reconcile. `start` itself before the first one.
    """
    return start + max(0, (now - start) // interval) * interval


def safe_until(start: int, interval: int, reports: Iterable[int | None], now: int) -> int:
    """The last moment whose work is safe, or counts as safe: the latest of start, assumed and reported checkpoint.

    No job has more unsaved work than an interval, so hiding checkpoints gains nothing (and a long interval little:
    `time_at_risk`). A checkpoint from the future is a wrong clock or a wrong claim, one from before the start belongs
    to the last run; neither counts.

    Args:
        start: of the present run. One in the future is another machine's clock, and counts as now.
        interval: `interruptionAfter`, more than nothing.
        reports: assumed and reported checkpoints that are on record, None for those that are not.
        now: the present.
    """
    since = start_over(min(start, now), interval, now)
    for at in reports:
        if at is not None and since < at <= now:
            since = at
    return since


def time_at_risk(start: int, since: int, now: int, startup_cost: int, interval: int, trusted: int) -> int:
    """For how long each core of a job would have to compute again, as far as its promise is trusted.

    The time since its work was last safe (`safe_until`). As long as that is the start of the run itself, what a restart
    costs is added: otherwise a job that has just come back would be the next victim for ever.

    Args:
        start: of the present run.
        since: the last moment whose work is safe.
        now: the present.
        startup_cost: what a restart costs.
        interval: `interruptionAfter`, more than nothing.
        trusted: the longest interval that is taken at its word, more than nothing. A longer one protects for no more
            than this, and for less with time: t after a checkpoint was due last, for trusted · trusted / t
            (docs/designs/0011-tenancy.md). Reports do not raise that: a job may write what it likes into them.
    """
    began = min(start, now)
    lost = now - since
    if interval > trusted:  # the others were due within it
        promised = now - start_over(began, interval, now)
        if promised > trusted:
            lost = min(lost, trusted * trusted // promised)
    return lost + startup_cost if since == began else lost


def short_run(start: int, interval: int, until: int, trusted: int = TRUSTED) -> bool:
    """Whether a run is shorter than a checkpoint interval up to a moment: it may have saved nothing yet.

    An administrator may let only jobs whose run ended so go before others in their queue, and may promise a job that
    came back that it is no victim while its run is so short and another one would do.

    Args:
        start: of the run.
        interval: `interruptionAfter`, more than nothing.
        until: the end of the run, or the present.
        trusted: no longer interval is believed.
    """
    return until - start < min(interval, trusted)


def moment(micros: int) -> datetime:
    """Microseconds since the epoch as an aware datetime; the inverse of `scavenger_api.times.micros`."""
    return EPOCH + timedelta(microseconds=micros)


# --- what the scheduler estimates ---


def estimated_time_at_risk(start: int, reported: int | None, now: int, startup_cost: int = STARTUP_COST) -> int:
    """What the scheduler plugin takes for `time_at_risk` where no figure is on a pod (`estimatedRisk` in
    services/scheduler/pkg/preemption/scavenger.go, docs/scheduler.md).

    The time since the checkpoint that the pod reports; before there is one, since its start, with what a restart costs.
    The plugin knows nothing of assumed checkpoints, and trusts every promise.

    Args:
        start: of the main container.
        reported: its checkpoint. As in `safe_until`, neither one from the future counts nor one of the last run.
        now: the present.
        startup_cost: what a restart costs each core.
    """
    saved = _saved(start, reported, now)
    return now - saved if saved is not None else max(0, now - start) + startup_cost


def _saved(start: int, reported: int | None, now: int) -> int | None:
    return reported if reported is not None and start < reported <= now else None


def estimated_at_risk(members: Iterable[Member], now: int, startup_cost: int = STARTUP_COST) -> int:
    """What the scheduler plugin takes for the unsaved work of a gang without a figure. Its informer shows no pod that
    has ended, so no finished member (`newPodInformer` in kube-scheduler's pkg/scheduler/scheduler.go)."""
    total = 0
    for pod in members:  # no generator: the prioritizer asks it of ten thousand gangs in a pass
        started = pod.started
        if started is not None and pod.live:
            total += pod.cost * estimated_time_at_risk(started, pod.checkpoint, now, startup_cost)
            if pod.past:
                total += _more(pod, _saved(started, pod.checkpoint, now) or started, now)
    return total


# --- the line ---


Place = tuple[int, int, bool, int, str]
"""What `line_order` says of a job; the least goes first."""


def served_level(useful: float, tasks: int = 1) -> int:
    """What a job has had, for the order of its queue: 0 for less than a core-second, and one more each time it doubles.

    Least attained service, in steps (Nuyens and Wierman, Performance Evaluation 65, 2008): unknown which jobs are
    short, and those that have had little most often are.

    Args:
        useful: its useful CPU time, core-seconds.
        tasks: of an array, which counts per task.
    """
    return int(useful / tasks).bit_length()


def line_order(interruptions: int, queued: int | None, uid: str, priority: int = 0) -> Place:
    """What the queued jobs of a queue are sorted by.

    1. most interruptions by others: better finish what was started; or the least CPU time (`served_level`);
    2. the highest priority, where only jobs of one namespace are compared; `by_priority` puts them into a queue;
    3. first come, first served;
    4. UID, so that the order is the same in every component.

    Args:
        interruptions: `precedence` of the job.
        queued: `queuedTimestamp`; a job without one comes last.
        uid: of the job.
        priority: `spec.priority`; 0 where jobs of several namespaces are compared.
    """
    return (-interruptions, -priority, queued is None, queued or 0, uid)


InLine = TypeVar("InLine")

Rank = tuple[str, int, int, bool]
"""Namespace, `precedence` and `spec.priority` of a job, and whether it is an array."""


def by_priority(line: Iterable[InLine], rank: Callable[[InLine], Rank]) -> list[InLine]:
    """A line in which jobs of a higher `spec.priority` stand before others of their namespace.

    Jobs of one namespace that were interrupted as often as each other exchange the places that they have. So a priority
    moves no job of another namespace; `places_left` says which place each has when some of them start. An array never
    gets an older place than its own: it would have that place for each of its tasks. Jobs of a lower priority wait
    behind it instead.

    Args:
        line: the jobs of a queue, sorted by `line_order` without priorities.
        rank: see `Rank`.
    """
    jobs = list(line)
    places: dict[tuple[str, int], list[tuple[int, int, bool]]] = {}
    for place, job in enumerate(jobs):
        namespace, interruptions, priority, array = rank(job)
        places.setdefault((namespace, interruptions), []).append((-priority, place, array))
    ordered = sorted(one for held in places.values() for one in _standing(held))
    return [jobs[own] for _, _, own in ordered]


def places_left(
    group: Iterable[InLine], rank: Callable[[InLine], Rank], starts: Collection[int]
) -> list[tuple[int, int]]:
    """Which places have changed hands when some jobs of a group start: of each job that has another one, its index in
    the group, and the index of the job that had this place.

    A job that starts uses up the place at which it stood. One object is one place: without this, a job of a low
    priority that never starts would lend its early place to others for ever. Those that stay have the places that are
    left, in the order in which they came. One that starts has the place that it uses up, for the case that its start
    fails. An array never gets an older place than its own.

    Args:
        group: jobs of one namespace in a queue that were interrupted as often, sorted by `line_order` without
            priorities.
        rank: see `Rank`.
        starts: indexes of those that start.
    """
    held = [(-priority, place, array) for place, (_, _, priority, array) in enumerate(map(rank, group))]
    free, changes = list(range(len(held))), []
    for place, _, own in _standing(held):
        if own in starts:
            changes.append((own, free.pop(bisect_right(free, place) - 1)))
    changes += zip((own for own in range(len(held)) if own not in starts), free, strict=True)
    return [(own, place) for own, place in changes if place > own or (place < own and not held[own][2])]


def _standing(held: Sequence[tuple[int, int, bool]]) -> Iterator[tuple[int, int, int]]:
    """Where the jobs of a group stand: their place, their number in the order of the group, and the place they had.

    Args:
        held: negated priority, own place, and whether it is an array, of each job, sorted by place.
    """
    place = -1
    for nth, ((_, free, _), (_, own, array)) in enumerate(zip(held, sorted(held), strict=True)):
        place = max(place, free, own if array else free)
        yield place, nth, own
