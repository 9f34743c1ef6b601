"""A unit: what is ranked, interrupted and booked as a whole. A job with the pods of its present run, or one task of an
array with its pod. The one reader of it, for all that look at running work.

Units: moments and spans in whole microseconds (moments since the epoch), unsaved work as in
`scavenger_domain.gang.AtRisk.cost`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple, Protocol, TypeVar

from scavenger_api.states import Capacity, Phase

from scavenger_domain import gang
from scavenger_domain.gang import STARTUP_COST, TRUSTED, AtRisk, task_unit
from scavenger_domain.pod_reading import PodReading, checkpoint_of, interval_of, moment_of

WHOLE_SECOND: Final = 1.0
"""Seconds. The creation of a pod and the time of a figure are written without fractions of a second."""


# --- a job, as far as it is read ---


class _Metadata(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def uid(self) -> str: ...
    @property
    def annotations(self) -> Mapping[str, str]: ...
    @property
    def creation_timestamp(self) -> str | None: ...
    @property
    def deletion_timestamp(self) -> str | None: ...


class _Spec(Protocol):
    @property
    def checkpoint_due(self) -> str: ...
    @property
    def parallelism(self) -> int: ...
    @property
    def capacity(self) -> str: ...
    @property
    def suspend(self) -> bool: ...


class _Status(Protocol):
    @property
    def phase(self) -> str: ...
    @property
    def job_name(self) -> str: ...
    @property
    def running_timestamps(self) -> Sequence[str]: ...
    @property
    def priority_start_over_timestamp(self) -> str | None: ...
    @property
    def last_checkpoint_timestamp(self) -> str | None: ...
    @property
    def interrupted_count(self) -> int: ...


class JobLike(Protocol):
    """A ScavengerJob or an adopted Job: any projection of it with times as they are written."""

    @property
    def key(self) -> str:
        """As its pods name it (`scavenger_api.job_keys`)."""
        ...

    @property
    def metadata(self) -> _Metadata:
        """Its names."""
        ...

    @property
    def spec(self) -> _Spec:
        """What it asks for, and promises."""
        ...

    @property
    def status(self) -> _Status:
        """What the admitter wrote of its run."""
        ...

    @property
    def precedence(self) -> int:
        """How far it goes before others of its queue; more goes first."""
        ...


# --- a unit ---


class Unit(NamedTuple):
    """A job or a task. It is a `scavenger_domain.gang.Job`.

    Attributes:
        key: of the job (`scavenger_api.job_keys`), or `KEY[INDEX]`.
        uid: of the job; of a task with its index.
        task: index of the task; empty for a job.
        run: name of the batch/v1 Job of the present run.
        interval: in which a checkpoint is due, more than nothing.
        parallelism: pods in the gang.
        reclaimed: runs on reclaimed capacity.
        created: when the job was created.
        running: a job is in phase Running; the main container of a task runs.
        started: of the present run; None where there is none, or it was lost.
        start_over: the last moment at which a checkpoint was due, as recorded.
        checkpoints: those recorded on the job itself, wherever they lie in time; those of pods are on the members.
        interruptions: by which units are put in order: `precedence` of a job. Of a task it is known whether others
            interrupted its last run, and not how often.
        returned: it was interrupted before.
        stopping: being deleted or suspended.
        members: pods of the present run.
    """

    key: str
    uid: str
    task: str
    run: str
    interval: int
    parallelism: int
    reclaimed: bool
    created: int
    running: bool
    started: int | None
    start_over: int | None
    checkpoints: tuple[int, ...]
    interruptions: int
    returned: bool
    stopping: bool
    members: tuple[PodReading, ...] = ()

    def start(self, now: int) -> int:
        """When the present run began, never after `now`."""
        return gang.run_start(self, self.members, now)

    def safe_until(self, now: int) -> int:
        """The last moment whose work is safe, or counts as safe."""
        return gang.gang_safe_until(self, self.members, self.start(now), now)

    def unsaved(self, now: int) -> int:
        """For how long each core has computed what is not saved: what really is lost if the unit goes now."""
        return max(0, now - self.safe_until(now))

    def time_at_risk(self, now: int, startup_cost: int = STARTUP_COST, trusted: int = TRUSTED) -> int:
        """For how long each core would have to compute again, by which units are ranked: `unsaved`, as far as its
        promise is trusted, and what a restart costs (`scavenger_domain.gang.time_at_risk`)."""
        return gang.time_at_risk(self.start(now), self.safe_until(now), now, startup_cost, self.interval, trusted)

    def at_risk(
        self,
        now: int,
        startup_cost: int = STARTUP_COST,
        trusted: int = TRUSTED,
        used: Mapping[str, int] = gang.UNMEASURED,
    ) -> AtRisk:
        """What its end would throw away, by which units are ranked (`scavenger_domain.gang.at_risk`)."""
        return gang.at_risk(self, self.members, now, startup_cost, trusted, used)


def unit_of(job: JobLike) -> Unit:
    """A job without its pods. Never raises: what is unreadable counts as absent.

    What the status says of a run is of no task: of an array only its promise is read (`units`).
    """
    meta, spec, status = job.metadata, job.spec, job.status
    running, runs = status.phase == Phase.RUNNING, status.running_timestamps
    recorded = (moment_of(status.last_checkpoint_timestamp), checkpoint_of(meta.annotations))
    return Unit(
        key=job.key,
        uid=meta.uid,
        task="",
        run=gang.run_name(status.job_name, meta.name),
        interval=interval_of(spec.checkpoint_due),
        parallelism=max(1, spec.parallelism),
        reclaimed=spec.capacity == Capacity.RECLAIMED,
        created=moment_of(meta.creation_timestamp) or 0,
        running=running,
        # Of a job that is still starting, the last entry is that of its last run.
        started=moment_of(runs[-1]) if running and runs else None,
        start_over=moment_of(status.priority_start_over_timestamp),
        checkpoints=tuple([at for at in recorded if at is not None]),
        interruptions=job.precedence,
        returned=status.interrupted_count > 0,
        stopping=spec.suspend or meta.deletion_timestamp is not None,
    )


def units(job: Unit, pods: Iterable[PodReading]) -> Iterator[Unit]:
    """The units of a job: itself, and each task with its pod.

    Args:
        job: of `unit_of`.
        pods: all that carry its label.
    """
    tasks, members = split(job.run, pods)
    for pod in tasks:
        yield task_of(job, pod, (pod,))
    if members or not tasks:
        yield job._replace(members=tuple(members))


class _OfRun(Protocol):
    @property
    def run(self) -> str: ...
    @property
    def task(self) -> str: ...


Pod = TypeVar("Pod", bound=_OfRun)


def split(run: str, pods: Iterable[Pod]) -> tuple[list[Pod], list[Pod]]:
    """The pods of a run, those of tasks and the others.

    Pods count when the batch/v1 Job of the present run controls them: a pod of an earlier run that is stuck on a dead
    node does not compute, and one with a borrowed label is not the job's.
    """
    tasks: list[Pod] = []
    members: list[Pod] = []
    for pod in pods:
        if pod.run == run:
            (tasks if pod.task else members).append(pod)
    return tasks, members


class Promise(Protocol):
    """An array, as far as its tasks are as it is: a `Unit`, or what a service keeps of one."""

    @property
    def uid(self) -> str: ...  # noqa: D102
    @property
    def run(self) -> str: ...  # noqa: D102
    @property
    def interval(self) -> int: ...  # noqa: D102
    @property
    def reclaimed(self) -> bool: ...  # noqa: D102
    @property
    def created(self) -> int: ...  # noqa: D102
    @property
    def stopping(self) -> bool: ...  # noqa: D102


class TaskPod(Protocol):
    """The pod of a task: a `PodReading`, or what a service keeps of one."""

    @property
    def unit(self) -> str: ...  # noqa: D102
    @property
    def task(self) -> str: ...  # noqa: D102
    @property
    def started(self) -> int | None: ...  # noqa: D102
    @property
    def computes(self) -> bool: ...  # noqa: D102
    @property
    def returned(self) -> bool: ...  # noqa: D102
    @property
    def interval(self) -> int | None: ...  # noqa: D102


def task_of(array: Promise, pod: TaskPod, members: tuple[PodReading, ...] = ()) -> Unit:
    """A task of an array: all stands on its pod, but for what its array promises where the pod does not."""
    return Unit(
        key=pod.unit,
        uid=task_unit(array.uid, pod.task),
        task=pod.task,
        run=array.run,
        interval=array.interval if pod.interval is None else pod.interval,
        parallelism=1,
        reclaimed=array.reclaimed,
        created=array.created,
        running=pod.computes,
        started=pod.started,
        start_over=None,
        checkpoints=(),
        interruptions=int(pod.returned),
        returned=pod.returned,
        stopping=array.stopping,
        members=members,
    )


# --- what was measured of it ---


Moment = TypeVar("Moment", int, datetime)


def of_life(created: Moment, begins: Moment, now: Moment) -> bool:
    """Whether a figure that is known by the name of a pod is of this life of it alone.

    A task keeps its pod's name over its lives. What was measured before the API server gave the name to this pod is of
    the one before, and so is a part of an average that begins before.

    Args:
        created: when this pod was created. Of one from the future the clock was set back meanwhile, and every figure
            counts.
        begins: when what the figure is an average of begins, `WHOLE_SECOND` later.
        now: the present.
    """
    return created > now or begins > created
