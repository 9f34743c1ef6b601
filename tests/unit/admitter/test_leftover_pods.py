"""No second life beside the first: when pods of an earlier run have surely ended, and who releases them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from scavenger_admitter.core.lifecycle.actions import DeletePod, ReleasePod
from scavenger_admitter.core.lifecycle.leftover_pods import OUT_OF_SERVICE, clear_orphans
from scavenger_admitter.core.waits import Wait
from scavenger_api.job import Phase
from scavenger_api.reasons import WaitReason
from scavenger_kube import kinds

from . import builders as b

READY, DEAD = b.node(), b.node(ready=False)
KILLED: dict[str, Any] = {"ended": 90, "code": 143, "phase": "Running"}
"""Its kubelet has reported the end of the container, and not written the phase."""
Nodes = dict[str, kinds.Node | None]


def with_sidecar(pod: kinds.Pod, state: kinds.ContainerState) -> kinds.Pod:
    """The pod with an init container that runs beside the others."""
    status = msgspec.structs.replace(pod.status, init_container_statuses=(kinds.ContainerStatus("mesh", state),))
    return msgspec.structs.replace(pod, status=status)


@pytest.mark.parametrize("phase", [Phase.WAITING, Phase.INTERRUPTED])
@pytest.mark.parametrize(
    ("name", "pod", "nodes", "free"),
    [
        ("gone", None, {}, True),
        ("succeeded", b.pod(ended=90), {"node-1": READY}, True),
        ("failed", b.pod(ended=90, code=1), {"node-1": DEAD}, True),
        ("failed, being deleted", b.pod(ended=90, code=1, final=92), {"node-1": READY}, True),
        ("terminating", b.pod(deleted=95), {"node-1": READY}, False),
        ("terminating for long", b.pod(deleted=5), {"node-1": READY}, False),
        ("terminating on a dead node", b.pod(deleted=95), {"node-1": DEAD}, False),
        ("running, nobody deleted it yet", b.pod(), {"node-1": READY}, False),
        ("running on a node that is gone, not deleted yet", b.pod(), {"node-1": None}, False),
        ("node is gone", b.pod(deleted=95), {"node-1": None}, True),
        ("node is not known", b.pod(deleted=95), {}, False),
        ("node is out of service", b.pod(deleted=95), {"node-1": b.node(ready=False, taint=OUT_OF_SERVICE)}, True),
        ("node has another taint", b.pod(deleted=95), {"node-1": b.node(ready=False, taint="other")}, False),
        ("deleted by force, node is dead", b.pod(deleted=95, grace=0), {"node-1": DEAD}, True),
        ("deleted by force, node is ready", b.pod(deleted=95, grace=0), {"node-1": READY}, False),
        ("its end was reported, node is dead", b.pod(**KILLED, deleted=95), {"node-1": DEAD}, True),
        ("its end was reported, nobody deleted it yet", b.pod(**KILLED), {"node-1": DEAD}, True),
        ("its end was reported, node is gone", b.pod(**KILLED), {"node-1": None}, True),
        ("its end was reported, node is not known", b.pod(**KILLED), {}, False),
        ("its end was reported, node is ready", b.pod(**KILLED, deleted=95), {"node-1": READY}, False),
        ("its success was reported", b.pod(**KILLED | {"code": 0}, deleted=95), {"node-1": DEAD}, False),
        ("another container runs on", b.pod(**KILLED, beside=b.RUNS_ON), {"node-1": DEAD}, False),
        ("a sidecar runs on", with_sidecar(b.pod(**KILLED), b.RUNS_ON), {"node-1": DEAD}, False),
        ("a sidecar has ended as well", with_sidecar(b.pod(**KILLED), b.gone(91)), {"node-1": DEAD}, True),
        ("never placed, deleted", b.pod(started=None, deleted=95, grace=0, node=""), {}, True),
        ("never placed, not deleted", b.pod(started=None, node=""), {}, False),
    ],
)
def test_no_second_life(phase: Phase, name: str, pod: kinds.Pod | None, nodes: Nodes, free: bool) -> None:
    pods = (pod,) if pod else ()
    outcome = b.decide(b.seen(b.job(phase, queued=100), 101, None, *pods, nodes=nodes))
    assert outcome.candidate == free
    assert outcome.status.phase is phase
    released = [action for action in outcome.actions if isinstance(action, ReleasePod)]
    assert bool(released) == (free and pod is not None)
    assert outcome.status.job_name is None, "it names the Job of a run in progress"


@pytest.mark.parametrize(
    ("pod", "nodes", "says"),
    [
        (b.pod(deleted=5), {"node-1": READY}, ("job-0", "node-1", "has not ended it yet")),
        (b.pod(deleted=95), {"node-1": DEAD}, ("job-0", "node-1", "not ready", OUT_OF_SERVICE, "deletes Node node-1")),
    ],
)
def test_the_message_says_what_holds_the_job_back(pod: kinds.Pod, nodes: Nodes, says: tuple[str, ...]) -> None:
    job = b.job(Phase.INTERRUPTED, queued=100, interrupted_count=1)
    outcome = b.decide(b.seen(job, 101, None, pod, nodes=nodes, wait=Wait(WaitReason.NO_PLACE, "no room")))
    for words in says:
        assert words in (outcome.status.message or "")
    admitted = next(c for c in outcome.status.conditions if c.type == "Admitted")
    assert admitted.reason == "HeldBack"
    freed = b.decide(b.seen(b.written(job, outcome.status), 200))
    assert freed.candidate
    assert freed.status.message == "queued for admission"
    assert freed.status.phase is Phase.INTERRUPTED


def test_an_ordinary_termination_is_not_worth_a_write() -> None:
    """Thirty seconds of grace after every interruption: the message stays, and a wake-up is set for when it matters."""
    job = b.job(Phase.INTERRUPTED, queued=100, interrupted_count=1, message="interrupted", job_name="job")
    job = b.written(job, b.decide(b.seen(job, 101, None, b.pod(deleted=100))).status)
    outcome = b.decide(b.seen(job, 110, None, b.pod(deleted=100)))
    assert not outcome.changed
    assert outcome.status.message == "interrupted"
    assert outcome.requeue_after == 100 + 30 + 15 - 110


def test_the_worst_of_many_is_named() -> None:
    pods = [b.pod(0, deleted=99), b.pod(1, deleted=99, node="node-2"), b.pod(2, deleted=99)]
    nodes: Nodes = {"node-1": READY, "node-2": b.node("node-2", ready=False)}
    outcome = b.decide(b.seen(b.job(Phase.INTERRUPTED, queued=100), 101, None, *pods, nodes=nodes))
    assert "job-1" in (outcome.status.message or "")


@pytest.mark.parametrize("owner", ["gone", None])
def test_live_pods_without_a_job_are_deleted(owner: str | None) -> None:
    pod = b.pod(owner=owner)
    outcome = b.decide(b.seen(b.job(Phase.WAITING, queued=100), 101, None, pod))
    assert outcome.actions == (DeletePod("job-0", pod.metadata.uid),)


def test_ended_orphans_do_not_stay() -> None:
    """Nobody else deletes a pod without an owner: released first, deleted when that is done."""
    held, free = b.pod(ended=90, owner=None), b.pod(ended=90, owner=None, held=False)
    job = b.job(Phase.WAITING, queued=100)
    assert b.decide(b.seen(job, 101, None, held)).actions == (ReleasePod("job-0", held.metadata.uid),)
    assert b.decide(b.seen(job, 101, None, free)).actions == (DeletePod("job-0", free.metadata.uid),)


def test_pods_of_a_job_that_stays_although_it_is_deleted_are_deleted() -> None:
    """A finalizer holds it, and the garbage collector waits for the owner to go."""
    pod = b.pod()
    outcome = b.decide(b.seen(b.job(Phase.WAITING, queued=100), 101, b.batch(deleted=100), pod))
    assert outcome.actions == (DeletePod("job-0", pod.metadata.uid),)


def test_a_new_life_beside_ended_pods_of_the_last() -> None:
    old = b.pod(ended=90, code=1, owner="old")
    new = b.pod(queued=100, owner="new", started=105)
    job = b.job(Phase.STARTING, queued=100, interrupted_count=1)
    outcome = b.decide(b.seen(job, 110, b.batch(100, uid="new"), old, new))
    assert outcome.status.phase is Phase.RUNNING
    assert outcome.actions == (ReleasePod("job-0", old.metadata.uid),)


def test_pods_of_a_run_in_progress_are_held_until_it_is_decided() -> None:
    pods = (b.pod(0, ended=50), b.pod(1))
    outcome = b.decide(b.seen(b.job(Phase.RUNNING, running=[10], spec=b.gang(2)), 60, b.batch(), *pods))
    assert outcome.actions == ()


@pytest.mark.parametrize("phase", [Phase.COMPLETED, Phase.FAILED])
def test_finished_releases_whatever_is_left(phase: Phase) -> None:
    pods = (b.pod(0, ended=50, code=1), b.pod(1, deleted=51), b.pod(2, started=None, deleted=51, node=""))
    job = b.job(phase, running=[10], finished_timestamp=b.at(50), spec=b.gang(3))
    outcome = b.decide(b.seen(job, 60, b.batch(conditions={"Failed": 51}), *pods))
    assert {action.name for action in outcome.actions if isinstance(action, ReleasePod)} == {"job-0", "job-1", "job-2"}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, DeletePod),
        ({"held": False}, DeletePod),
        ({"deleted": 50}, ReleasePod),
        ({"deleted": 50, "held": False}, None),
        ({"ended": 50}, ReleasePod),
        ({"ended": 50, "held": False}, DeletePod),
        ({"ended": 50, "final": 51}, ReleasePod),
        ({"ended": 50, "final": 51, "held": False}, None),
    ],
)
def test_orphans(fields: dict[str, Any], expected: type | None) -> None:
    actions = clear_orphans([b.pod(**fields)])
    assert [type(action) for action in actions] == ([expected] if expected else [])


def test_no_orphans() -> None:
    assert clear_orphans([]) == ()


@pytest.mark.parametrize(
    ("name", "spec", "now", "node", "free"),
    [
        ("for five minutes", {}, 425, DEAD, False),
        ("no longer", {}, 430, DEAD, True),
        ("a node that answers", {}, 9000, READY, False),
        ("a volume", {"persistentVolumeClaims": [{"name": "data", "mountPath": "/data"}]}, 9000, DEAD, False),
        ("peers", b.gang(), 9000, DEAD, False),
    ],
)
def test_who_shares_nothing_does_not_wait_for_a_dead_node_for_ever(
    name: str, spec: dict[str, Any], now: float, node: kinds.Node, free: bool
) -> None:
    """Deleted at 100, its grace period over at 130."""
    job = b.job(Phase.INTERRUPTED, queued=100, spec=spec)
    outcome = b.decide(b.seen(job, now, None, b.pod(deleted=100), nodes={"node-1": node}))
    assert outcome.candidate == free, name
    if free:
        assert not [action for action in outcome.actions if isinstance(action, ReleasePod)], "it may still compute"
    elif now == 425:
        assert outcome.requeue_after == 5
