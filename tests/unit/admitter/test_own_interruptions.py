"""Which interruptions a job's own user may have caused: they are counted, and give no place in line."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from scavenger_admitter.core.adopted.ledger import write_ledger
from scavenger_admitter.core.lifecycle import accounting
from scavenger_admitter.core.lifecycle.observation import InterruptDecision, LifecycleSettings
from scavenger_admitter.core.lifecycle.plan import draft_of
from scavenger_admitter.facts import candidate
from scavenger_api.evictions import ANNOTATION_EVICTION_REASON, EvictionNote, EvictionReason
from scavenger_api.job import Phase, ScavengerJob
from scavenger_api.ledger import read_ledger
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
    assert b.written(job, status).precedence == 3 - own
    assert candidate(b.written(job, status), 0).interrupted_count == 3 - own, "the memory is the status"


def test_a_job_that_is_deleted_by_hand_and_a_room_that_is_taken_back() -> None:
    job = b.job(RUNNING, running=[10])
    gone = b.decide(b.seen(job, 110, b.batch(deleted=100), b.pod())).status
    assert (gone.interrupted_count, gone.own_interrupted_count) == (1, 1)
    decision = InterruptDecision(InterruptionReason.QUEUE_RECLAIMED, "for another")
    taken = b.decide(b.seen(job, 110, b.batch(), b.pod(), decision=decision)).status
    assert (taken.interrupted_count, taken.own_interrupted_count) == (1, 0)


FULL = (
    "The node was low on resource: ephemeral-storage. Threshold quantity: 2Gi, available: 1Gi. Container main was "
    "using 40Gi, request is 0, has larger consumption of ephemeral-storage. "
)


def preempted(**more: Any) -> kinds.Pod:
    return hit("PreemptionByScheduler", **more)


def test_what_a_pod_of_the_same_namespace_displaces_is_the_users_own() -> None:
    job = b.job(RUNNING, running=[10])
    seen = b.seen(job, 110, b.batch(), preempted())
    for displaced, own in (({"node-1"}, 1), ({"node-2"}, 0)):
        status = b.decide(b.with_(seen, wanted_by_own=displaced.__contains__)).status
        assert (status.interrupted_count, status.own_interrupted_count) == (1, own)


def test_a_disk_that_the_job_filled_is_its_own_doing_and_one_that_others_filled_is_not() -> None:
    job = b.job(RUNNING, running=[10])
    for message, own in ((FULL, 1), (FULL.partition(" Container")[0], 0)):
        pod = b.pod(ended=100, code=137, phase="Failed", reason="Evicted", conditions=[
            b.condition("DisruptionTarget", "True", 100, "TerminationByKubelet", message)])  # fmt: skip
        status = b.decide(b.seen(job, 110, b.batch(), pod)).status
        assert (status.interrupted_count, status.own_interrupted_count) == (1, own)


def test_a_job_earns_one_place_per_reclaim_period_that_it_has_computed() -> None:
    """Six preemptions, each after ten seconds, are worth one place; ten minutes of work are worth the next."""
    job = b.job(RUNNING, running=[10])
    for _ in range(6):
        job = again(job, ran=10)
    assert (job.status.interrupted_count, job.precedence) == (6, 1)
    job = again(job, ran=601)
    assert (job.status.interrupted_count, job.precedence) == (7, 2)


def test_interrupted_jobs_come_back_first_however_long_they_ran() -> None:
    assert again(b.job(RUNNING, running=[10]), ran=7200).precedence == 1


def test_with_turns_a_run_as_long_as_a_checkpoint_interval_uses_up_all_places() -> None:
    """Half an hour. Of two jobs that wait, the one that has had its turn stands behind who came before it."""
    job = b.job(RUNNING, running=[10])
    for _ in range(2):
        job = again(job, ran=1799, turns=True)
    assert (job.status.interrupted_count, job.precedence) == (2, 2)
    job = again(job, ran=1800, turns=True)
    assert (job.status.interrupted_count, job.precedence) == (3, 0)
    assert again(job, ran=700, turns=True).precedence == 1, "a short run is worth one again"


def test_with_least_served_a_job_stands_by_what_it_has_had_and_keeps_its_place_among_equals() -> None:
    """Two intervals of half an hour are kept, of two cores: 7200 core-seconds."""
    job = again(b.job(RUNNING, running=[10]), ran=3700, least_served=True)
    assert (job.status.useful_cpu_seconds, job.status.served_level, job.precedence) == (7200.0, 13, -13)
    assert job.status.queued_timestamp == b.at(0) + timedelta(microseconds=1), "no two runs have one place"
    assert (job.status.message or "").endswith("; queued to start again"), "it need not rest"
    calm, late = b.job(Phase.WAITING, queued=60), b.job(Phase.WAITING, queued=7200)
    less, equal = (b.written(late, late.status.model_copy(update={"served_level": level})) for level in (12, 13))
    line = sorted([candidate(one, 0) for one in (equal, job, less, calm)], key=lambda one: one.order)
    assert [one.interrupted_count for one in line] == [0, -12, -13, -13]
    assert line[2] == candidate(job, 0), "it was submitted first"


def test_without_least_served_the_level_goes_and_interruptions_count_again() -> None:
    """Else the job would wait behind all that come."""
    job = again(b.job(RUNNING, running=[10]), ran=3700, least_served=True)
    for served, precedence in ((True, -13), (False, 1)):
        status = b.decide(b.seen(job, 3800, rules=LifecycleSettings(least_served=served))).status
        assert b.written(job, status).precedence == precedence


def test_an_array_stands_by_what_its_tasks_have_had_each() -> None:
    status = b.job(RUNNING, queued=0).status.model_copy(update={"useful_cpu_seconds": 3600.0})
    array = b.written(b.job(RUNNING, queued=0, spec={"array": {"tasks": 100}}), status)
    draft = draft_of(b.seen(array, 100, rules=LifecycleSettings(least_served=True)))
    draft.spend(accounting.Spent(useful=1000.0))
    found = candidate(b.written(array, draft.status), 0, tasks=3, interrupted=True)
    assert (draft.status.served_level, found.interrupted_count) == (6, -6), "46 core-seconds a task"
    assert read_ledger(write_ledger(draft.status)).served == 6


def test_a_long_interval_is_believed_as_far_as_it_is_trusted() -> None:
    job = b.job(RUNNING, running=[10], spec={"interruptionAfter": "7d"})
    assert [again(job, ran=ran, turns=True).precedence for ran in (7199, 7200)] == [1, 0]


def test_places_stay_in_the_queue_in_which_they_were_earned() -> None:
    job = again(b.job(RUNNING, running=[10]), ran=700)
    assert job.precedence == 1
    moved = job.model_copy(update={"spec": job.spec.model_copy(update={"queue": "night"})})
    assert (moved.status.interrupted_count, moved.precedence) == (1, 0)
    assert again(moved, ran=700).precedence == 1
    assert again(moved, ran=10).precedence == 0


def again(job: ScavengerJob, *, ran: float, turns: bool = False, least_served: bool = False) -> ScavengerJob:
    """The job as it is after one more run of so many seconds, which a preemption by others ends."""
    queued = max(job.status.queued_timestamp or b.at(0), b.at(0))
    start = (queued - b.BASE).total_seconds() + 10
    running = b.job(RUNNING, running=[start], queued=start - 10).status
    status = job.status.model_copy(
        update={
            "phase": RUNNING,
            "running_timestamps": running.running_timestamps,
            "priority_start_over_timestamp": running.priority_start_over_timestamp,
            "queued_timestamp": running.queued_timestamp,
            "ended_timestamp": None,
        }
    )
    end = start + ran
    pod = b.pod(queued=start - 10, started=start, deleted=end, conditions=[b.disrupted("PreemptionByScheduler", end)])
    settings = LifecycleSettings(turns=turns, least_served=least_served)
    now = b.seen(b.written(job, status), end + 1, b.batch(queued=start - 10), pod, rules=settings)
    after = b.decide(now).status
    assert after.phase is INTERRUPTED
    return b.written(job, after)
