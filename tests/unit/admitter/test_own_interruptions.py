"""Which interruptions a job's own user may have caused: they are counted, and give no place in line."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from scavenger_admitter.core.lifecycle.observation import InterruptDecision
from scavenger_admitter.facts import candidate
from scavenger_api.evictions import ANNOTATION_EVICTION_REASON, EvictionNote, EvictionReason
from scavenger_api.job import Phase
from scavenger_api.reasons import InterruptionReason
from scavenger_kube import kinds

from . import builders as b

RUNNING, INTERRUPTED = Phase.RUNNING, Phase.INTERRUPTED
CORDONED = msgspec.structs.replace(b.node(), spec=kinds.NodeSpec(unschedulable=True))


def noted(pod: kinds.Pod) -> kinds.Pod:
    """What the regulator writes before it evicts."""
    note = {ANNOTATION_EVICTION_REASON: str(EvictionNote(EvictionReason.ABOVE_UPPER, b.at(99)))}
    meta = msgspec.structs.replace(pod.metadata, annotations={**pod.metadata.annotations, **note})
    return msgspec.structs.replace(pod, metadata=meta)


def hit(reason: str = "", **more: Any) -> kinds.Pod:
    """A pod that is removed after 100 seconds."""
    return b.pod(deleted=100, conditions=[b.disrupted(reason, 100)] if reason else [], **more)


EVICTED = hit("EvictionByEvictionAPI")


@pytest.mark.parametrize(
    ("pods", "node", "own"),
    [
        pytest.param([hit()], b.node(), 1, id="deleted"),
        pytest.param([EVICTED], b.node(), 1, id="evicted, from a node that takes new pods"),
        pytest.param([], b.node(), 1, id="vanished"),
        pytest.param([hit()], CORDONED, 0, id="drained by deletion"),
        pytest.param([EVICTED], CORDONED, 0, id="drained"),
        pytest.param([EVICTED], b.node(taint="ToBeDeletedByClusterAutoscaler"), 0, id="scaled down"),
        pytest.param([EVICTED], None, 0, id="the node is gone"),
        pytest.param([noted(EVICTED)], b.node(), 0, id="evicted by the regulator"),
        pytest.param([hit("PreemptionByScheduler")], b.node(), 0, id="preempted"),
        pytest.param([hit("DeletionByTaintManager")], b.node(), 0, id="taint manager"),
        pytest.param([hit("DeletionByPodGC")], b.node(), 0, id="pod garbage collector"),
        pytest.param([hit("TerminationByKubelet")], b.node(), 0, id="kubelet"),
    ],
)
def test_which_interruptions_are_the_users_own(pods: list[kinds.Pod], node: kinds.Node | None, own: int) -> None:
    job = b.job(RUNNING, running=[10], interrupted_count=3, own_interrupted_count=1)
    status = b.decide(b.seen(job, 110, b.batch(), *pods, nodes={"node-1": node})).status
    assert (status.phase, status.interrupted_count, status.own_interrupted_count) == (INTERRUPTED, 4, 1 + own)
    assert status.earned_count == 3 - own
    assert candidate(b.written(job, status), 0).interrupted_count == 3 - own, "the memory is the status"


def test_a_job_that_is_deleted_by_hand_and_a_room_that_is_taken_back() -> None:
    job = b.job(RUNNING, running=[10])
    gone = b.decide(b.seen(job, 110, b.batch(deleted=100), b.pod())).status
    assert (gone.interrupted_count, gone.own_interrupted_count) == (1, 1)
    decision = InterruptDecision(InterruptionReason.QUEUE_RECLAIMED, "for another")
    taken = b.decide(b.seen(job, 110, b.batch(), b.pod(), decision=decision)).status
    assert (taken.interrupted_count, taken.own_interrupted_count) == (1, 0)
