"""Deletions of pods that the admitter has committed: `status.removing` of a ScavengerJob.

The admitter writes why it deletes a pod before it does. So a later look, or the next leader, reads the deletion as the
admitter's own. An entry is `INDEX-UID:REASON`, with the first digits of the pod's UID, or `*:REASON` for all pods of
the run.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from scavenger_api.reasons import Reason

MAX_REMOVING: Final = 500
"""Pods that a status names. Beyond so many, pods are deleted without a name, and told as Deleted."""
WHOLE_RUN: Final = "*"
"""In the place of a pod: all pods of the run."""


class RemovalReason(Reason):
    """Why the admitter deletes a pod."""

    START_FAILED = (
        "StartFailed",
        "It did not start in time: no interruption, unless its program ran before it was deleted.",
    )
    NODE_LEAVING = "NodeLeaving", "Its node has a taint that announces its end: an interruption, NodeDrained."
    QUEUE_RECLAIMED = "QueueReclaimed", "Another queue took its capacity back: an interruption."
    STARVED = "Starved", "On reclaimed capacity it got too little CPU for too long: an interruption."
    MAX_RUNNING = "MaxRunning", "More tasks ran than spec.array.maxRunning: an interruption without a better place."
    NO_PROGRESS = (
        "NoProgress",
        "It reported no checkpoint for as long as progressDeadlineIntervals allow: its task failed.",
    )
    SUPERSEDED = "Superseded", "Its task is over, by another pod: its time is lost, and nothing is counted."
    SUSPENDED = "Suspended", "spec.suspend: its time is lost, and nothing is counted."
    FINISHED = "Finished", "Its array is over: its time is lost, and nothing is counted."
    PEER_FAILED = "PeerFailed", "Another pod of the gang failed: that one's exit decides."
    DELETED = "Deleted", "Another client had deleted it before its array was suspended or over: an interruption."


_BY_WORD: Final = {reason.value: reason for reason in RemovalReason}


UID_DIGITS: Final = 8
"""Of a UID in the name of a pod. The index stands before them, so two pods look the same only where a task had both."""


def pod_mark(index: int, uid: str) -> str:
    """How a status names a pod. index: of its task. uid: of the pod."""
    return f"{index}-{uid[:UID_DIGITS]}"


def entry(pod: str, reason: RemovalReason) -> str:
    """How `status.removing` names a deletion. pod: `INDEX-UID`, or `WHOLE_RUN`."""
    return f"{pod}:{reason.value}"


def reasons_of(entries: Iterable[str]) -> dict[str, RemovalReason]:
    """Why each pod is deleted, by the name of the pod. Reasons of another version are left out."""
    found = ((pod, _BY_WORD.get(word)) for pod, _, word in (one.partition(":") for one in entries))
    return {pod: reason for pod, reason in found if reason is not None}
