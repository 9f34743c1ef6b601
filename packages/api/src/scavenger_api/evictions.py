"""Why a pod was evicted, said on the pod itself.

The eviction API takes no reason, so the one who evicts writes it on the pod just before. There it cannot be
late: a client that sees the pod being deleted sees the annotation in the same object, and the finalizer keeps both
until the interruption has been recorded. The moment is part of it, because an eviction can be refused (a
disruption budget) and the pod can be removed by another client later, for another reason.

Where the budget is not the prioritizer's, the regulator deletes the pod (docs/designs/0013-foreign-budgets.md). Then
there is no DisruptionTarget condition, and the annotation is all that tells it from a deletion by a user.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from scavenger_api.names import GROUP
from scavenger_api.reasons import InterruptionReason
from scavenger_api.times import format_time, parse_time

ANNOTATION_EVICTION_REASON: Final = f"{GROUP}/eviction-reason"
"""`<EvictionReason> <RFC 3339 time>`, as `AboveUpperLevel 2026-01-02T03:04:05Z`."""

VALID_FOR: Final = timedelta(minutes=2)
"""A removal this long after the annotation was written, or later, has another reason."""

_CLOCKS: Final = timedelta(seconds=5)
"""By which the regulator's clock may be ahead of the API server's."""

EVICTED_BY_API: Final = "EvictionByEvictionAPI"
"""Reason of the DisruptionTarget condition that the eviction API puts on a pod."""

PREEMPTED_BY_SCHEDULER: Final = "PreemptionByScheduler"
"""Reason of the DisruptionTarget condition that schedulers put on a victim (core/v1 PodReasonPreemptionByScheduler)."""


class EvictionReason(StrEnum):
    """Why the regulator interrupted a job: the cause in status, Events and metrics."""

    ABOVE_UPPER = InterruptionReason.ABOVE_UPPER_LEVEL
    """The load reached the eviction threshold and had to come down (precise eviction)."""
    YIELD = InterruptionReason.YIELD_AT_CHECKPOINT
    """No new job fits, and the job had just written a checkpoint: it lost nothing."""
    NODE_MEMORY = InterruptionReason.NODE_MEMORY
    """On reclaimed capacity, on a node that was about to run out of memory."""


@dataclass(frozen=True, slots=True)
class EvictionNote:
    """What the annotation says."""

    reason: EvictionReason
    at: datetime

    def __str__(self) -> str:
        return f"{self.reason.value} {format_time(self.at)}"


def read_eviction_note(annotations: Mapping[str, str]) -> EvictionNote | None:
    """The note on a pod; None where there is none or it is unreadable."""
    word, _, moment = annotations.get(ANNOTATION_EVICTION_REASON, "").partition(" ")
    at = parse_time(moment)
    if at is None:
        return None
    try:
        return EvictionNote(EvictionReason(word), at)
    except ValueError:
        return None


def eviction_reason(
    annotations: Mapping[str, str], disruption_reason: str, disrupted_at: datetime | None
) -> EvictionReason | None:
    """The regulator's reason for a removal; None when it was not the regulator's doing.

    disruption_reason, disrupted_at: reason and lastTransitionTime of the pod's DisruptionTarget condition.
    """
    note = read_eviction_note(annotations)
    if note is None or disruption_reason != EVICTED_BY_API or disrupted_at is None:
        return None
    return note.reason if -_CLOCKS <= disrupted_at - note.at < VALID_FOR else None


def deletion_reason(annotations: Mapping[str, str], earliest: datetime, requested: datetime) -> EvictionReason | None:
    """The regulator's reason for a deletion without a DisruptionTarget condition; None when it was not its doing.

    earliest, requested: between these two moments the deletion was asked for; they differ where the deletionTimestamp
    has moved since.
    """
    note = read_eviction_note(annotations)
    if note is None:
        return None
    return note.reason if earliest - VALID_FOR < note.at <= requested + _CLOCKS else None
