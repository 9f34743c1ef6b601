"""What may follow from an observation: a small closed set that the writer carries out after the status write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias


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


Action: TypeAlias = DeleteJob | DeletePod | ReleasePod | DeleteScavengerJob


@dataclass(frozen=True, slots=True)
class EventNote:
    """A Kubernetes Event on the ScavengerJob."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str
