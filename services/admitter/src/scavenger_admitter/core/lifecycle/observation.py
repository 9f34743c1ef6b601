"""What is known of one ScavengerJob at one moment, and what follows from it."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from scavenger_api.job import Phase, ScavengerJob, ScavengerJobStatus
from scavenger_api.names import DEFAULT_STARTUP_COST_SECONDS, DEFAULT_TRUSTED_INTERVAL_SECONDS
from scavenger_api.reasons import InterruptionReason
from scavenger_api.rules.bounds import BY_DEFAULT, Bounds
from scavenger_api.usage import RecommendedRequests
from scavenger_api.weights import DEFAULT_WEIGHTS, Weights
from scavenger_domain.pod_security import Level
from scavenger_domain.usage import JobUsage
from scavenger_kube import kinds

from scavenger_admitter.core.lifecycle import accounting
from scavenger_admitter.core.lifecycle.actions import Action, EventNote
from scavenger_admitter.core.lifecycle.exits_seen import SeenExit
from scavenger_admitter.core.lifecycle.other_jobs import OtherJob
from scavenger_admitter.core.lifecycle.pods_seen import Untouched
from scavenger_admitter.core.lifecycle.start_failures import Diagnosis, Lack, NodeRefusal, Refusal, StartLimits
from scavenger_admitter.core.lifecycle.success import BELIEVED, Evidence, Success
from scavenger_admitter.core.waits import Wait


@dataclass(frozen=True, slots=True)
class LifecycleSettings(StartLimits):
    """How long to wait before drawing a conclusion."""

    quiet_for: timedelta = timedelta(seconds=5)
    """Waiting and Starting are worth a write when they last longer, or when there is more to say of them."""
    reclaim_period: timedelta = timedelta(minutes=10)
    """An interruption gives a place in the queue when the job has computed for so long since the last one that did."""
    trusted_interval: timedelta = timedelta(seconds=DEFAULT_TRUSTED_INTERVAL_SECONDS)
    """No longer interval between checkpoints is believed."""
    startup_cost: timedelta = timedelta(seconds=DEFAULT_STARTUP_COST_SECONDS)
    """What a restart costs each core, when it decides which tasks stop first."""
    weights: Weights = DEFAULT_WEIGHTS
    """Weights of resources in the unsaved work of a run."""
    snapshots: bool = False
    """Whether there is an image for snapshots."""
    certain_hints: frozenset[str] = frozenset()
    """Keys of taints that hint at the end of a node, and stop jobs there at once."""
    bounds: Bounds = BY_DEFAULT
    """What the administrator allows any job."""
    turns: bool = False
    """A run as long as a checkpoint interval is a turn: the job goes behind the others in its queue after it."""
    least_served: bool = False
    """Jobs go by the useful CPU time that they have had, and an interrupted job keeps its place among its equals."""


def _by_nobody(_: str) -> bool:
    return False


def _as_asked() -> None:
    return None


class Asked(enum.Enum):
    """What of an observation the API server was asked for; the rest is from caches."""

    NOTHING = "nothing"
    PODS = "pods"
    """The pods, and the nodes they are on as far as no cache has them."""
    RUN = "run"
    """The Job as well."""


@dataclass(frozen=True, slots=True)
class InterruptDecision:
    """A decision of this service itself to interrupt a running job."""

    cause: InterruptionReason
    detail: str
    """In words: for whom, or by which figures."""


@dataclass(frozen=True, slots=True)
class NamespaceSeen:
    """What the namespace of a job lets its pods have."""

    level: Level = Level.RESTRICTED
    """What pods of scavenger jobs in it keep to."""
    token: bool = False
    """The pods of the job get the token of their service account."""
    user: int | None = None
    """The user id that pods get which name none; None for the image's."""


@dataclass(frozen=True, slots=True)
class References:
    """What was found when the objects that the pods of a job need were last looked for."""

    missing: str = ""
    """What was not there."""
    volumes: str = ""
    """What its claims require of nodes."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What the API has of one job at one moment."""

    job: ScavengerJob
    batch: kinds.Job | None
    """The batch/v1 Job of the same name, whichever owner it has."""
    pods: Sequence[kinds.Pod]
    """All pods of the namespace with our label for this name, those of earlier runs included, but for `untouched`."""
    nodes: Mapping[str, kinds.Node | None]
    """The nodes those pods are on; None for one that is known not to exist, missing when it is not known."""
    now: datetime
    untouched: Untouched | None = None
    """The pods of an array of which nothing is asked one by one."""
    said: Sequence[kinds.Pod] = ()
    """Those of `pods` that have gone, as their last words show them."""
    asked: Asked = Asked.NOTHING
    namespace: NamespaceSeen = NamespaceSeen()
    references: References = References()
    diagnosis: Diagnosis | None = None
    """What Events say of its pods."""
    usage: accounting.Usage | None = None
    """What is measured of the pods; counts for jobs on reclaimed capacity."""
    used: JobUsage | None = None
    """What is measured of the job over all its runs, for its status; None where too little is."""

    @property
    def lasts(self) -> bool:
        """Whether its Job is the job itself: that one stays over all runs, so pods are created and deleted alone."""
        return self.batch is not None and self.batch.metadata.uid == self.job.metadata.uid

    spec_bytes: int | None = None
    """How large the spec is as JSON, where only a part of it is kept."""
    others: Sequence[OtherJob] = ()
    """Those that it waits for by `spec.after`, as far as they are there, and before them those that ended and went."""
    circle: Sequence[str] = ()
    """A way through jobs that wait for each other, from the job back to itself."""

    @property
    def every_pod(self) -> Iterator[kinds.Pod]:
        """All pods, untouched ones included."""
        yield from self.pods
        if self.untouched is not None:
            yield from self.untouched.pods


@dataclass(frozen=True, slots=True)
class StartKnown:
    """What this process knows of the start under way, and of those before it.

    A set is one of indexes of tasks, as in `scavenger_api.indexes`. A job that is no array is its first task there.
    """

    posted: int = 0
    """The set of those that were created and are not shown yet."""
    name_taken: Mapping[int, str] = field(default_factory=dict)
    """Those that cannot start, each with the pod of others that has the name of its pod."""
    shown: bool = False
    """The Job of this place in the queue has been seen, and no status says so: if it is gone now, a client deleted
    it."""
    all_created: bool = False
    """This process has created all pods of this very run; what is missing has been removed."""
    own: bool = False
    """This process has begun to create the pods of this very run, so it knows where they may go."""
    pods_wait: float = 0.0
    """Seconds until the pods of this run that could not be created are to be sent again."""
    refused: Refusal | None = None
    """What the API server said when the Job of this place in the queue, or the pods of tasks, were to be created."""
    failures: int = 0
    """Starts in a row that failed."""
    lack: Lack | None = None
    """What the last of them have shown to be missing."""
    unfit_architectures: frozenset[str] = frozenset()
    """Those for which the image had no program."""


@dataclass(frozen=True, slots=True)
class Known:
    """What this process knows of one job beyond the API. Lost with it."""

    name_used: bool = False
    """There was a Job of this name lately, of which caches may not show all pods."""
    reboots: Mapping[str, datetime] = field(default_factory=dict)
    """When nodes were seen to have rebooted last, as far as this process has seen it."""
    deleted: frozenset[str] = frozenset()
    """Pods, by uid, that the API server has deleted for us and whose informer may not show that yet."""
    last_write: datetime | None = None
    """When this process wrote the status last; None when it has not."""
    last_queue_position: datetime | None = None
    """The last place in the queue that is known to have been given."""
    architectures: Callable[[], frozenset[str]] = frozenset
    """Those of the nodes that the job may run on."""
    wanted_by_own: Callable[[str], bool] = _by_nobody
    """Whether a regular pod of the job's namespace may be what displaced a pod from this node."""
    next_requests: Callable[[], RecommendedRequests | None] = _as_asked
    """What its pods request from the next start on, where that is not what it asks for."""
    pod_bytes: int = 0
    """How large a pod of a task is as JSON; 0 where that is not known."""
    last_seen: datetime | None = None
    """Until when pods of it that are gone were there at the latest: this process saw one go, or an admitter before it
    was at work last. None where that is not known."""
    start: StartKnown = StartKnown()
    evidence: Evidence = BELIEVED
    exits: Mapping[str, SeenExit] = field(default_factory=dict)
    """How programs ended whose kubelets may not know that any more, by UID of the pod."""


@dataclass(frozen=True, slots=True)
class Granted:
    """What admission has decided of one job."""

    units: int = 0
    """So many tasks may start, or pods of a job, from this very place in the queue; 0 where nothing was granted."""
    number: int = 0
    """Of the grant."""
    wait: Wait | None = None
    """Why the last admission cycle did not choose the job; None when there is nothing new to say."""
    take: Mapping[str, InterruptDecision] = field(default_factory=dict)
    """Lives whose capacity is taken, and why: a run by its place in the queue, a task by the UID of its pod."""


@dataclass(frozen=True, slots=True)
class Observation:
    """Everything that is known of one job at one moment, and the rules that hold."""

    seen: Seen
    known: Known = Known()
    granted: Granted = Granted()
    rules: LifecycleSettings = LifecycleSettings()

    @property
    def end_of_line(self) -> datetime:
        """The place of a job that goes to the end of the line now. Another process, whose clock is ahead, may have
        given later places."""
        last = self.known.last_queue_position
        return self.seen.now if last is None else max(self.seen.now, last)


@dataclass(frozen=True, slots=True)
class Figures:
    """What metrics want to know of this step. Count them when the status write succeeded."""

    interruption: InterruptionReason | None = None
    short_run: str | None = None
    """Why a run ended within a minute of its start: a reason of Interrupted, or Checkpointed."""
    stalled: bool = False
    """The run reports checkpoints no longer."""
    finished: Phase | None = None
    waited_seconds: float | None = None
    """From the place in the queue to running, for the run that just began."""
    useful: float = 0.0
    """Core-seconds that became useful in this step."""
    lost: float = 0.0
    """Core-seconds that were thrown away in this step; negative where more had been saved than was known before."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The next status, and what follows once it is written."""

    status: ScavengerJobStatus
    """Equal to the observed one when there is nothing to write."""
    changed: bool
    quiet_until: datetime | None = None
    """All that is new is that the job waits its turn, or is starting. That write can be left out if the wait is over by
    then: the next one says it all. None where the status must be written at once."""
    actions: tuple[Action, ...] = ()
    events: tuple[EventNote, ...] = ()
    candidate: bool = False
    """Queued for admission, and nothing of an earlier run stands in the way."""
    start_failed: bool = False
    """A start failed: the reconciler lets the delay before the next one grow."""
    retry_late: bool = False
    """That delay is the longest there is at once: nothing will have changed any sooner."""
    pulls_on: str = ""
    """The node that was pulling the image when the start was taken back."""
    unfit_node: str = ""
    """The node on which the program could not be started, or not be continued from its snapshot."""
    unfit_architecture: str = ""
    """The architecture for which the image has no program, or none that runs there."""
    refused_by: tuple[NodeRefusal, ...] = ()
    """Nodes that did not start pods, and may be at fault: one entry for each pod."""
    lack: Lack | None = None
    """What the last starts have shown to be missing."""
    requeue_after: float | None = None
    """Seconds until time alone changes the outcome; None when only an event can."""
    unsettled: bool = False
    """What its pods say as they end may still show that something was saved which counts as lost."""
    counted: int = 0
    """Pods of tasks that the status counts for the first time."""
    interruptions: tuple[InterruptionReason, ...] = ()
    """Why tasks were interrupted, one entry for each."""
    startable: int = 0
    """Tasks that may start now."""
    interrupted_waits: bool = False
    """One of them was interrupted by others."""
    last_start: datetime | None = None
    """When the container of a task started last that runs."""
    place: datetime | None = None
    """Of an array with tasks that may start: its place in the queue, as its pods and its status say."""
    unproven: tuple[Success, ...] = ()
    """Programs that ended with 0, where the verdict waits for a sign of life of their nodes."""
    figures: Figures = Figures()
    job_status: Mapping[str, Any] | None = None
    """Of an adopted Job: the merge patch of its status, where that is to be written."""
