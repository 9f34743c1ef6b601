"""Whose doing the end of a pod was: the table of docs/designs/0002-what-is-an-interruption.md, row by row.

Each row is read in three ways: as a kubelet of 1.33 leaves it, which says nothing of generations, and as one of 1.34 or
later leaves it that knew of the deletion when the pod ended, or did not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import pytest
from scavenger_api.reasons import InterruptionReason as Cause
from scavenger_api.removing import RemovalReason as Own
from scavenger_domain.pod_ends import own_exit, removal, succeeded

from . import builders as b

GENERATIONS: Final = {"1.33": (2, 0), "knew": (2, 2), "did not know": (2, 1)}
NEVER: Final = -b.BASE.timestamp()


@dataclass(frozen=True)
class Row:
    """What is known of a pod, and what it proves.

    Attributes:
        number: of the row in the table.
        what: has happened.
        pod: as of `builders.pod`. It runs since 10 s, and has 30 s to stop.
        taken: the cause and the second of its removal; None: its end is its own.
        own: why the admitter has committed its deletion.
        unknown: whether it was removed even if its kubelet did not know of the deletion.
        by_admitter: whether the admitter's own deletion is what ended it.
    """

    number: int
    what: str
    pod: dict[str, Any]
    taken: tuple[Cause, float] | None
    own: Own | None = None
    unknown: bool = False
    by_admitter: bool = False


def disrupted(reason: str, at: float) -> dict[str, Any]:
    return {"conditions": [b.disrupted(reason, at)]}


def ours(cause: Cause, at: float) -> dict[str, Any]:
    return {"taken": (cause, at), "by_admitter": True}


SCHEDULER, EVICTION, TAINTS = "PreemptionByScheduler", "EvictionByEvictionAPI", "DeletionByTaintManager"
ENDED: Final = {"ended": 100, "code": 143}
LATE_PROXY: Final = {"beside": b.gone(140)}
PROXY: Final = {"beside": b.gone(110)}
LIMIT: Final = {"reason": "Evicted", "message": 'Usage of EmptyDir volume "scratch" exceeds the limit "1Gi". '}
LOW: Final = {"reason": "Evicted", "message": "The node was low on resource: memory. "}
UNSEEN: Final = {"started": NEVER, "ended": NEVER, "code": 255, "exit_reason": "Unknown"}
NOT_READY: Final = b.condition("Ready", "False", 150)
CAUSES: Final = {
    Own.NODE_LEAVING: Cause.NODE_DRAINED,
    Own.QUEUE_RECLAIMED: Cause.QUEUE_RECLAIMED,
    Own.STARVED: Cause.STARVED,
    Own.MAX_RUNNING: Cause.MAX_RUNNING,
}
"""What the admitter's deletions are told as; the others are told as nothing, or by another pod."""

ROWS: Final = (
    # a container beside main ended so late that no removal ended main
    Row(2, "a proxy outlives main by more than the grace period", {**ENDED, **LATE_PROXY, "deleted": 130}, None),
    Row(2, "and the admitter deleted it", {**ENDED, **LATE_PROXY, "deleted": 130}, None, Own.MAX_RUNNING),
    Row(2, "and was preempted", {**ENDED, **LATE_PROXY, **disrupted(SCHEDULER, 105)}, None),
    # a disruption
    Row(3, "preempted", {**ENDED, "deleted": 95, **disrupted(SCHEDULER, 95)}, (Cause.PREEMPTED, 95)),
    Row(3, "evicted", {**ENDED, "deleted": 95, **disrupted(EVICTION, 95)}, (Cause.EVICTED, 95)),
    Row(3, "drained", {**ENDED, "deleted": 95, **disrupted(TAINTS, 95)}, (Cause.NODE_DRAINED, 95)),
    Row(3, "its node is gone", {**disrupted("DeletionByPodGC", 95), "deleted": 95}, (Cause.NODE_LOST, 95)),
    Row(3, "marked after its end", {"ended": 100, **disrupted(TAINTS, 105)}, None),
    *(
        Row(
            3,
            f"preempted between the word of {own.value} and the deletion",
            {**ENDED, "deleted": 96, **disrupted(SCHEDULER, 95)},
            (Cause.PREEMPTED, 95),
            own,
        )
        for own in Own
    ),
    Row(
        3,
        "evicted after the admitter deleted it",
        {**ENDED, "deleted": 90, **disrupted(EVICTION, 95)},
        own=Own.SUSPENDED,
        **ours(Cause.DELETED, 90),
    ),
    Row(
        4,
        "its kubelet ended it for the node",
        {**ENDED, "reason": "Evicted", **disrupted("TerminationByKubelet", 101)},
        (Cause.KUBELET_EVICTED, 100),
    ),
    Row(
        4,
        "while the admitter deleted it",
        {**ENDED, "reason": "Evicted", "deleted": 90, **disrupted("TerminationByKubelet", 101)},
        (Cause.KUBELET_EVICTED, 100),
        Own.MAX_RUNNING,
        unknown=True,
    ),
    # deleted by the admitter
    *(
        Row(
            6,
            f"{own.value}: told to stop",
            {**ENDED, "deleted": 95},
            own=own,
            **ours(CAUSES.get(own, Cause.DELETED), 95),
        )
        for own in Own
        if own is not Own.DELETED
    ),
    Row(6, "still stops", {"deleted": 95}, own=Own.MAX_RUNNING, unknown=True, **ours(Cause.MAX_RUNNING, 95)),
    Row(
        6, "ended in the second of the request", {**ENDED, "deleted": 100}, own=Own.STARVED, **ours(Cause.STARVED, 100)
    ),
    Row(6, "ended before it was told, unseen", {**ENDED, "deleted": 103}, None, Own.PEER_FAILED),
    Row(
        6,
        "its last DELETE came late",
        {**ENDED, "final": 130},
        own=Own.NODE_LEAVING,
        **ours(Cause.NODE_DRAINED, 100),
    ),
    Row(6, "failed before it was deleted", {"ended": 100, "code": 3}, None, Own.MAX_RUNNING),
    Row(6, "succeeded before it was deleted", {"ended": 100}, None, Own.MAX_RUNNING),
    Row(6, "others had deleted it before", {**ENDED, "deleted": 95}, (Cause.DELETED, 95), Own.DELETED),
    # deleted by somebody else
    Row(7, "told to stop", {**ENDED, "deleted": 95}, (Cause.DELETED, 95)),
    Row(7, "and exits with 0", {"ended": 100, "deleted": 95}, (Cause.DELETED, 95)),
    Row(7, "its last DELETE came at once", {**ENDED, "final": 104}, (Cause.DELETED, 100)),
    Row(8, "and a proxy took longer to stop", {**ENDED, **PROXY, "final": 111}, (Cause.DELETED, 100)),
    Row(9, "still stops", {"deleted": 95}, (Cause.DELETED, 95), unknown=True),
    # its kubelet
    Row(12, "over its own limit", {**ENDED, **LIMIT}, None),
    Row(12, "over its own limit, and exits with 0", {"ended": 100, **LIMIT}, None),
    Row(13, "its node was shut down", {**ENDED, "reason": "Terminated"}, (Cause.NODE_SHUTDOWN, 100)),
    Row(
        13,
        "refused by its node",
        {"started": None, "phase": "Failed", "reason": "OutOfcpu", "taken": 50},
        (Cause.KUBELET_EVICTED, 50),
    ),
    Row(13, "evicted for others, and exits with 0", {"ended": 100, **LOW}, (Cause.KUBELET_EVICTED, 100)),
    Row(
        13,
        "evicted for others, and exits with 0, and its phase is Succeeded",
        {"ended": 100, "phase": "Succeeded", **LOW},
        (Cause.KUBELET_EVICTED, 100),
    ),
    Row(12, "over its own limit, exits with 0, and is Succeeded", {"ended": 100, "phase": "Succeeded", **LIMIT}, None),
    # nobody saw its end: it is no later than the last word of its kubelet
    Row(14, "its kubelet found it gone", {**UNSEEN, "conditions": [NOT_READY]}, (Cause.NODE_LOST, 150)),
    Row(14, "its kubelet says no more than when it took it", {**UNSEEN, "taken": 5}, (Cause.NODE_LOST, 5)),
)


@pytest.mark.parametrize("kubelet", GENERATIONS)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.number}: {row.what}")
def test_whose_doing_the_end_of_a_pod_was(row: Row, kubelet: str) -> None:
    pod = b.pod(generations=GENERATIONS[kubelet], **row.pod)
    deleted = pod.metadata.deletion_timestamp is not None
    found = removal(pod, row.own)
    if row.taken is None or (kubelet == "did not know" and deleted and pod.ended and not row.unknown):
        assert found is None, "its end is its own"
        assert succeeded(pod) or own_exit(pod) is not None
        return
    assert found is not None
    assert (found.cause, found.at) == (row.taken[0], b.at(row.taken[1]))
    assert not succeeded(pod) or deleted
    assert found.own == (row.own if row.by_admitter else None)
    assert found.earliest <= found.at


def test_an_eviction_over_an_own_limit_has_the_words_of_the_kubelet_and_is_no_success() -> None:
    """A program that ends with 0 as it is told to stop is not done."""
    pod = b.pod(ended=100, phase="Succeeded", reason=LIMIT["reason"], message=LIMIT["message"])
    found = own_exit(pod)
    assert found is not None
    assert (found.at, found.code, found.reason, found.message) == (b.at(100), 0, "Evicted", LIMIT["message"].strip())
    assert not succeeded(pod)


def test_a_deletion_that_its_kubelet_knew_when_the_pod_ended_late_is_a_removal() -> None:
    """From 1.34 on it does not matter how late the last DELETE came."""
    assert removal(b.pod(ended=100, code=143, final=130, generations=(2, 0))) is None
    found = removal(b.pod(ended=100, code=143, final=130, generations=(2, 2)))
    assert found is not None
    assert (found.cause, found.at) == (Cause.DELETED, b.at(100))
