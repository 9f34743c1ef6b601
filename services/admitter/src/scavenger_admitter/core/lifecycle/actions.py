"""What may follow from an observation: a small closed set that the writer carries out after the status write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from scavenger_domain.pod_security import Level


@dataclass(frozen=True, slots=True)
class CreateJob:
    """Create the batch/v1 Job of a run that admission has granted, and before it the headless Service of a gang."""

    run: str
    """The place in line it is started from."""
    restarts: int
    """How often the job has been interrupted."""
    level: Level = Level.RESTRICTED
    """What its pods keep to."""


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


@dataclass(frozen=True, slots=True)
class ReleasePod:
    """Take our finalizer off a pod whose ending is recorded, or needs no record."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class DeleteScavengerJob:
    """Delete the ScavengerJob itself: its ttlSecondsAfterFinished is over."""

    uid: str


Cleanup: TypeAlias = DeleteJob | DeletePod | ReleasePod | DeleteScavengerJob
"""What clears away. Its answer changes nothing: what is still there is cleared away by the next reconcile."""

Action: TypeAlias = CreateJob | Cleanup


@dataclass(frozen=True, slots=True)
class EventNote:
    """A Kubernetes Event on the ScavengerJob."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str
