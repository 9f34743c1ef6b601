"""In which state a queue is, whether jobs may be admitted from it, and their order in it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from scavenger_api.reasons import WaitReason
from scavenger_api.states import QueueState


def queue_state(*, deleting: bool, closed: bool) -> QueueState:
    """Open, Closed, or Releasing as soon as its deletion was asked for.

    By what was asked for, not by the status, which is written a little later.

    Args:
        deleting: whether the ScavengerQueue has a deletionTimestamp.
        closed: `spec.closed`.
    """
    if deleting:
        return QueueState.RELEASING
    return QueueState.CLOSED if closed else QueueState.OPEN


def why_closed(state: QueueState | None, *, selected: bool = True) -> WaitReason | None:
    """Why a job is not admitted from a queue in this state; None when it is.

    Args:
        state: of the queue; None for one that does not exist. (The queue `default` always does, open unless a
            ScavengerQueue of that name says otherwise.)
        selected: whether the queue's `namespaceSelector`, if it has one, selects the job's namespace.
    """
    if state is None:
        return WaitReason.QUEUE_MISSING
    if state is QueueState.OPEN:
        return None if selected else WaitReason.NAMESPACE_NOT_SELECTED
    return {QueueState.CLOSED: WaitReason.QUEUE_CLOSED, QueueState.RELEASING: WaitReason.QUEUE_RELEASING}[state]


def in_line_since(queued: datetime | None, ended: datetime | None) -> datetime | None:
    """Since when a job has been queued. One that ended with its checkpointExitCode has an older place in the queue.

    Args:
        queued, ended: `queuedTimestamp` and `endedTimestamp` of its status.
    """
    return max(queued, ended) if queued is not None and ended is not None else queued


def place_in_queue(queued: datetime | None, started: datetime | None, *, array: bool) -> datetime | None:
    """The place of a job between the jobs of its queue: first come, first served.

    One object is one place. So the next task of an array stands where a job would that came when its last one started.

    Args:
        queued: `queuedTimestamp` of its status.
        started: when a pod of it started last, as far as that is known.
        array: whether it is an array.
    """
    return max(queued, started) if array and queued is not None and started is not None else queued


def over_share(allocated: Mapping[str, int], deserved: Mapping[str, int]) -> list[str]:
    """The resources of which a queue has more than its share. Amounts as in `scavenger_api.quantity`."""
    return [name for name, share in deserved.items() if allocated.get(name, 0) > share]
