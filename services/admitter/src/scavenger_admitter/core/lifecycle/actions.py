"""What may follow from an observation: a small closed set that the writer carries out after the status write."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, TypeAlias

from scavenger_domain.pod_security import Level


@dataclass(frozen=True, slots=True)
class CreateJob:
    """Create the batch/v1 Job of a run that admission has granted, and before it the headless Service of a gang."""

    run: str
    """The place in the queue it is started from."""
    restarts: int
    """How often the job has been interrupted."""
    level: Level = Level.RESTRICTED
    """What its pods keep to."""
    token: bool = False
    """They get the token of their service account."""
    user: int | None = None
    """The user id of pods that name none; None for the image's."""
    plain_names: bool = False
    """Pods of tasks are called `NAME-INDEX`, as pods are that the array still has from before there were suffixes."""


@dataclass(frozen=True, slots=True)
class CreatePods:
    """Create the pods that a managed Job with this uid lacks, from its own template."""

    uid: str
    run: str
    """The place in the queue it was started from."""


@dataclass(frozen=True, slots=True)
class StartTasks:
    """Create the pods of tasks that admission has granted, and before them the Job of the array, where it is not there.

    Attributes:
        job: of the array.
        indexes: of the tasks.
        grant: the number of the grant, which their pods carry.
    """

    job: CreateJob
    indexes: tuple[int, ...]
    grant: int = 0


@dataclass(frozen=True, slots=True)
class EndJob:
    """Write into the status of a managed Job how it ended, or that it is about to fail (uid as precondition)."""

    uid: str
    conditions: tuple[str, ...]
    """Types of the conditions that are True now: all that the Job has."""
    reason: str
    message: str
    started: datetime
    at: datetime = field(compare=False)
    """Since when the conditions hold."""
    finished: datetime | None = None
    """completionTime; Jobs that failed have none."""
    succeeded: int = 0
    failed: int = 0
    completed_indexes: str = ""


@dataclass(frozen=True, slots=True)
class DeleteJob:
    """Delete the batch/v1 Job with this uid and its pods (background propagation, uid as precondition)."""

    uid: str
    reason: str


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Delete a pod that no Job stands behind any more (uid as precondition, its own grace period)."""

    name: str
    uid: str
    intent: str = field(default="", compare=False)
    """What the written status has to say before: an entry of `status.removing`, or the reason that its phase is. Empty
    where the deletion needs no word: nothing follows from how the pod ends."""


@dataclass(frozen=True, slots=True)
class ReleasePod:
    """Take our finalizer off a pod whose ending is recorded, or needs no record."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class UnlabelPod:
    """Take the labels off a pod by which clients of Jobs find it: it is interrupted, and its end is not theirs."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class DisownPod:
    """Take the components' labels and finalizers off a pod whose Job was deleted without it. It runs on, and no
    component handles it.

    Attributes:
        name: of the pod.
        uid: of the pod.
        version: the one that this was decided on.
        labels: that it loses.
        finalizers: that it keeps.
    """

    name: str
    uid: str
    version: str
    labels: tuple[str, ...]
    finalizers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeleteScavengerJob:
    """Delete the ScavengerJob itself: its ttlSecondsAfterFinished is over."""

    uid: str


OfPod: TypeAlias = DeletePod | ReleasePod | DisownPod
"""What clears a pod away."""

Cleanup: TypeAlias = EndJob | DeleteJob | OfPod | UnlabelPod | DeleteScavengerJob
"""What clears away, or says how it ended. Its answer changes nothing: the next reconcile does what is still to do."""

Creation: TypeAlias = CreateJob | CreatePods | StartTasks
"""What begins something."""

Action: TypeAlias = Creation | Cleanup


@dataclass(frozen=True, slots=True)
class EventNote:
    """A Kubernetes Event on the ScavengerJob."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str
