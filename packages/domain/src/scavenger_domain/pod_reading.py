"""What a pod says about the run that it is part of: the one reader of it.

Prioritizer, regulator, admitter, board and command line ask here. The scheduler plugin, in Go, is tested against the
same pods (services/scheduler/pkg/preemption/testdata/unit_cases.json).

A pod has two starts. *Main started* is when its work began: unsaved work counts from there. The kubelet's
`startTime` stands before: images are pulled and init containers run between the two. *Measured from* is when the last
of its containers started: from then on metrics show all that it uses.

Units: moments in whole microseconds since the epoch, what a pod costs in thousandths of a core.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final, NamedTuple, Protocol, TypeAlias

from scavenger_api import names
from scavenger_api.checkpoints import completion_index
from scavenger_api.duration import DurationError, parse_duration
from scavenger_api.promises import kept_interval
from scavenger_api.times import checkpoint_time, micros, parse_time, seen_time
from scavenger_api.weights import DEFAULT_WEIGHTS, Weights

from scavenger_domain import requests
from scavenger_domain.gang import MICROSECONDS, unit
from scavenger_domain.sizes import Sizes, parse_sizes

START_ERRORS: Final = ("StartError", "ContainerCannotRun")
"""The runtime could not start the process; exit code 128, startedAt the epoch (kuberuntime_container.go
startContainer)."""
LOST_CONTAINER: Final = ("ContainerStatusUnknown", "Unknown")
"""The end of the container was not seen: the first is the kubelet's word (kubelet_pods.go,
convertToAPIContainerStatuses), the second, with exit code 255, is containerd's after a reboot of the node."""

_DEFAULT_INTERVAL: Final = parse_duration(names.DEFAULT_INTERRUPTION_AFTER)
_WHOLE: Final = re.compile(r"[0-9]{1,18}", re.ASCII)


# --- a pod, as far as it is read ---


class _Running(Protocol):
    @property
    def started_at(self) -> str | None: ...


class _Terminated(Protocol):
    @property
    def exit_code(self) -> int: ...
    @property
    def reason(self) -> str: ...
    @property
    def message(self) -> str: ...
    @property
    def started_at(self) -> str | None: ...
    @property
    def finished_at(self) -> str | None: ...


TerminatedLike: TypeAlias = _Terminated
"""How a container ended."""


class _State(Protocol):
    @property
    def running(self) -> _Running | None: ...
    @property
    def terminated(self) -> _Terminated | None: ...


class ContainerLike(requests.ContainerStatusLike, Protocol):
    """The status of a container."""

    @property
    def state(self) -> _State:
        """Whether it waits, runs or has ended."""
        ...


class StatusLike(requests.PodStatusLike, Protocol):
    """How a pod and its containers are."""

    @property
    def phase(self) -> str:
        """`status.phase`."""
        ...

    @property
    def start_time(self) -> str | None:
        """When the kubelet took the pod."""
        ...

    @property
    def container_statuses(self) -> Sequence[ContainerLike]:
        """Of the containers, not of the init containers."""
        ...


class SpecLike(requests.PodSpecLike, Protocol):
    """What a pod requests, and its node."""

    @property
    def node_name(self) -> str:
        """`spec.nodeName`; empty before it is bound."""
        ...


class _Owner(Protocol):
    @property
    def kind(self) -> str: ...
    @property
    def name(self) -> str: ...


class MetadataLike(Protocol):
    """Whose a pod is, and what is noted on it."""

    @property
    def name(self) -> str:
        """`metadata.name`."""
        ...

    @property
    def namespace(self) -> str:
        """`metadata.namespace`."""
        ...

    @property
    def uid(self) -> str:
        """`metadata.uid`."""
        ...

    @property
    def labels(self) -> Mapping[str, str]:
        """`metadata.labels`."""
        ...

    @property
    def annotations(self) -> Mapping[str, str]:
        """`metadata.annotations`."""
        ...

    @property
    def creation_timestamp(self) -> str | None:
        """When it was created."""
        ...

    @property
    def deletion_timestamp(self) -> str | None:
        """When it is to be gone; None while it is not deleted."""
        ...

    @property
    def deletion_grace_period_seconds(self) -> int | None:
        """Of the deletion."""
        ...

    @property
    def controller(self) -> _Owner | None:
        """Its controller; None for none."""
        ...


class PodLike(Protocol):
    """A pod of a ScavengerJob: any projection of core/v1 Pod."""

    @property
    def metadata(self) -> MetadataLike:
        """Whose it is, and what services and programs have noted on it."""
        ...

    @property
    def spec(self) -> SpecLike:
        """What it requests, and its node."""
        ...

    @property
    def status(self) -> StatusLike:
        """How its containers are."""
        ...

    @property
    def ended(self) -> bool:
        """In a terminal phase."""
        ...

    @property
    def program(self) -> str:
        """The name of its main container."""
        ...

    @property
    def succeeded(self) -> bool:
        """Ended, and its main container with 0."""
        ...


# --- its main container ---


def main_status(pod: PodLike) -> ContainerLike | None:
    """The status of the container that does the work; containers beside it say nothing about the job."""
    statuses = pod.status.container_statuses
    if len(statuses) < 2:  # nearly always, and asked ten times of each pod of a gang
        return statuses[0] if statuses else None
    return next((status for status in statuses if status.name == pod.program), statuses[0])


def over(pod: PodLike) -> bool:
    """Whether its work is over: the pod has ended, or its main container has while containers beside it run on.

    Where all containers have ended the phase is waited for: the kubelet writes with it who ended them. A pod of an
    adopted Job is over when all its containers are, as for the Job controller.
    """
    main = main_status(pod)
    if pod.ended or main is None or main.state.terminated is None:
        return pod.ended
    runs_on = any(status.state.terminated is None for status in pod.status.container_statuses)
    return runs_on and names.LABEL_KIND not in pod.metadata.labels


def started_at(pod: PodLike) -> datetime | None:
    """When its work started: its main container. None while that has not run, or where it could not be started.

    Where the runtime does not say when, the kubelet's `startTime` stands in.
    """
    status = main_status(pod)
    if status is None:
        return None
    running, terminated = status.state.running, status.state.terminated
    if running is not None:
        said = seen_time(running.started_at) or seen_time(pod.status.start_time)
        return said or seen_time(pod.metadata.creation_timestamp)
    if terminated is None and pod.status.phase == "Running":  # it has run, and waits to be started again
        return seen_time(pod.status.start_time)
    if terminated is None or terminated.reason in START_ERRORS:
        return None
    seen_end = None if terminated.reason in LOST_CONTAINER else seen_time(terminated.finished_at)
    return seen_time(terminated.started_at) or seen_end or seen_time(pod.status.start_time)


def measured_from(pod: PodLike) -> datetime | None:
    """When the last of its running containers started: from then on metrics show all that it uses. None for a pod that
    is not in phase Running."""
    status = pod.status
    if status.phase != "Running":
        return None
    running = [one.state.running.started_at for one in status.container_statuses if one.state.running is not None]
    known = [at for text in running if (at := parse_time(text)) is not None]
    return max(known, default=None) or parse_time(status.start_time)


# --- all of it ---


class PodReading(NamedTuple):
    """A pod of a ScavengerJob, as far as components that rank, measure or interrupt read it.

    It is a `scavenger_domain.gang.Member`.

    Attributes:
        unit: what it is part of (`scavenger_domain.gang.unit`).
        task: the index of its task; empty but for pods of arrays.
        uid: its life. A task keeps its pod's name over its lives, so nothing is joined by the name alone.
        name: `NAMESPACE/NAME`.
        run: name of the batch/v1 Job that controls it; empty without one.
        queue: that its use counts to.
        node: empty until it is scheduled.
        index: its number in a gang.
        requests: what it computes with (`scavenger_domain.requests.computing_requests`).
        cost: of that, while it runs; on reclaimed capacity, of what it asked for of that.
        sizes: where it was resized in place, the CPU that it has requested since when; else empty.
        past: what that costs.
        ended: in a terminal phase.
        finished: it has succeeded.
        over: its main container has ended, whatever runs beside it.
        started: when its main container started; None while it has not.
        measured: from when metrics show it (`measured_from`).
        birth: when this life began to have the name, as it is written (`created`).
        told_to_go: when it was deleted, by the API server's clock, or None.
        checkpoint: what it reports, wherever that lies in time.
        returned: of a task, others interrupted its last run.
        interval: in which a checkpoint of this run is due, in microseconds; None where its job says that.
        class_: the label preemption-class as it is now; empty where it has none.
        written: the annotation running-priority in CPU-seconds; None where it is absent or unreadable.
    """

    unit: str
    task: str
    uid: str
    name: str
    run: str
    queue: str
    node: str
    index: int | None  # type: ignore[assignment] # the method of tuples is not used
    requests: Mapping[str, int]
    cost: int
    sizes: Sizes
    past: Sizes
    ended: bool
    finished: bool
    over: bool
    birth: str | None
    started: int | None
    measured: int | None
    told_to_go: int | None
    checkpoint: int | None
    returned: bool
    class_: str
    written: int | None
    interval: int | None

    @property
    def created(self) -> int:
        """When this life began to have the name; 0 where that is unreadable."""
        return moment_of(self.birth) or 0

    @property
    def live(self) -> bool:
        """Neither in a terminal phase nor being deleted."""
        return not self.ended and self.told_to_go is None

    @property
    def terminating(self) -> bool:
        """Being deleted, before its containers ended."""
        return self.told_to_go is not None and not self.ended

    @property
    def computes(self) -> bool:
        """Its main container runs."""
        return self.started is not None and not self.over


def read(pod: PodLike, weights: Weights = DEFAULT_WEIGHTS) -> PodReading:
    """Read a pod. Never raises: what is unreadable counts as absent.

    Args:
        pod: of a ScavengerJob.
        weights: of resources, in its cost.
    """
    meta, status = pod.metadata, pod.status
    labels, notes, controller = meta.labels, meta.annotations, meta.controller
    asked, task = requests.computing_requests(pod), labels.get(names.LABEL_TASK, "")
    written, note = notes.get(names.ANNOTATION_RUNNING_PRIORITY), notes.get(names.ANNOTATION_REQUESTED_CPU)
    sizes = () if note is None else sizes_of(note, asked)  # nearly always
    started = micros(at) if (at := started_at(pod)) is not None else None
    if started is None or status.phase != "Running" or len(status.container_statuses) != 1:
        measured = micros(at) if (at := measured_from(pod)) is not None else None
    else:  # nearly always
        measured = started
    return PodReading(
        unit(pod),
        task,
        meta.uid,
        f"{meta.namespace}/{meta.name}",
        controller.name if controller is not None and controller.kind == "Job" else "",
        labels.get(names.LABEL_QUEUE, names.DEFAULT_QUEUE),
        pod.spec.node_name,
        completion_index(notes, labels),
        asked,
        weights.cost(asked),
        sizes,
        costs_of(sizes, asked, weights) if sizes else (),
        pod.ended,
        pod.succeeded,
        over(pod),
        meta.creation_timestamp,
        started,
        measured,
        told_to_go(pod),
        checkpoint_of(notes),
        bool(task) and names.ANNOTATION_INTERRUPTED in notes,
        labels.get(names.LABEL_PREEMPTION_CLASS, ""),
        int(written) if written is not None and _WHOLE.fullmatch(written) else None,
        None if (kept := kept_interval(labels, notes)) is None else interval_of(kept),
    )


def sizes_of(note: str, asked: Mapping[str, int]) -> Sizes:
    """The CPU that a pod has requested since when; empty where it was never resized. What its program does not request
    is as it is now.

    Args:
        note: on the pod.
        asked: what it requests now.
    """
    noted = parse_sizes(note)
    beside = max(0, asked.get("cpu", 0) - noted[-1][1]) if noted else 0
    return tuple((since, cpu + beside) for since, cpu in noted)


def costs_of(sizes: Sizes, asked: Mapping[str, int], weights: Weights) -> Sizes:
    """What a pod has cost since when that has requested so much CPU. asked: what it requests now."""
    return tuple((since, weights.cost_using(cpu, asked)) for since, cpu in sizes)


def told_to_go(pod: PodLike) -> int | None:
    """When its deletion was asked for. `deletionTimestamp` is when it has to be gone, its grace period later."""
    meta = pod.metadata
    if meta.deletion_timestamp is None:
        return None
    return (moment_of(meta.deletion_timestamp) or 0) - (meta.deletion_grace_period_seconds or 0) * MICROSECONDS


def checkpoint_of(annotations: Mapping[str, str]) -> int | None:
    """The checkpoint that a program reports by an annotation; None where it is absent or unreadable."""
    at = checkpoint_time(annotations.get(names.ANNOTATION_LAST_CHECKPOINT))
    return None if at is None else micros(at)


@lru_cache(maxsize=1024)
def interval_of(text: str) -> int:
    """The time in which a checkpoint is due, at least one microsecond. The default where it is unreadable."""
    try:
        span = parse_duration(text)
    except (DurationError, OverflowError):
        span = _DEFAULT_INTERVAL
    return max(1, span // timedelta(microseconds=1))


def moment_of(text: str | None) -> int | None:
    """A timestamp of the API; None where it is absent or unreadable."""
    if text is None:
        return None
    at = parse_time(text)
    return None if at is None else micros(at)
