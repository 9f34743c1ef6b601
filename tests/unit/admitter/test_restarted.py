"""A container that its kubelet starts again in the same pod, as on a machine that returns under its name.

No pod of a job restarts a container, so its machine has lost it, however it ended. Where somebody else has changed the
restart policy, its end before decides: of one boot it is a failure of its own, of another one, or unseen, an
interruption.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from scavenger_admitter.core.lifecycle.actions import DeletePod
from scavenger_admitter.core.lifecycle.plan import plan_job
from scavenger_admitter.core.lifecycle.pods_seen import bucket_of
from scavenger_api.job import Phase
from scavenger_api.reasons import InterruptionReason as Cause
from scavenger_domain.pod_ends import goes_on, own_exit, removal, succeeded
from scavenger_kube import kinds
from scavenger_kube.resources import NODES

from . import builders as b
from .harness import running_job, runs
from .test_array import array, see, task

CRASH = kinds.Terminated(3, 0, "Error", "out of range", b.stamp(10), b.stamp(100))
KILL = kinds.Terminated(143, 0, "Error", "", b.stamp(10), b.stamp(100))
UNSEEN = kinds.Terminated(255, 0, "Unknown", "", "1970-01-01T00:00:00Z", "1970-01-01T00:00:00Z")


def again(before: kinds.Terminated | None, **fields: Any) -> kinds.Pod:
    """A pod whose container runs since 130 s for the second time."""
    policy = fields.pop("policy", "Never")
    pod = b.pod(**{"started": 130, "taken": 5, **fields})
    pod = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, restart_policy=policy))
    (main,) = pod.status.container_statuses
    last = kinds.ContainerState(terminated=before)
    main = msgspec.structs.replace(main, restart_count=1, last_state=last)
    return msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, container_statuses=(main,)))


@pytest.mark.parametrize(("before", "lost"), [(CRASH, 180), (KILL, 180), (UNSEEN, 240), (None, 240)])
def test_a_pod_that_restarts_nothing_has_lost_its_machine(before: Any, lost: float) -> None:
    """Whether or not the admitter was there to see another boot."""
    job = b.job(Phase.RUNNING, running=[10])
    outcome = b.decide(b.seen(job, 140, b.batch(), again(before)))
    assert (outcome.status.phase, outcome.figures.interruption) == (Phase.INTERRUPTED, Cause.NODE_LOST)
    assert outcome.status.lost_cpu_seconds == lost


@pytest.mark.parametrize(
    ("before", "reboots", "now", "phase", "lost"),
    [
        (CRASH, {}, 140, Phase.RUNNING, None),
        (CRASH, {}, 221, Phase.FAILED, 180),
        (CRASH, {"node-1": b.at(120)}, 140, Phase.INTERRUPTED, 180),
        (KILL, {"node-1": b.at(120)}, 140, Phase.INTERRUPTED, 180),
        (UNSEEN, {}, 140, Phase.INTERRUPTED, 240),
        (None, {}, 140, Phase.INTERRUPTED, 240),
    ],
    ids=["one boot, for now", "one boot", "another boot", "a signal, another boot", "unseen", "nothing is known"],
)
@pytest.mark.parametrize("policy", ["OnFailure", "Always", ""])
def test_under_another_policy_its_end_before_decides(
    before: Any, reboots: Any, now: float, phase: Phase, lost: float | None, policy: str
) -> None:
    job = b.job(Phase.RUNNING, running=[10])
    outcome = b.decide(b.seen(job, now, b.batch(), again(before, policy=policy), reboots=reboots))
    assert outcome.status.phase is phase
    assert outcome.status.interrupted_count == (phase is Phase.INTERRUPTED)
    if phase is Phase.INTERRUPTED:
        assert outcome.figures.interruption is Cause.NODE_LOST
    assert lost is None or outcome.status.lost_cpu_seconds == lost


@pytest.mark.parametrize("code", [0, 3])
def test_its_second_life_is_no_success_and_no_failure_of_its_own(code: int) -> None:
    pod = again(UNSEEN, ended=150, code=code)
    assert not succeeded(pod)
    assert own_exit(pod) is None
    found = removal(pod)
    assert found is not None
    assert (found.cause, found.at) == (Cause.NODE_LOST, b.at(130))


def test_an_exit_with_0_before_is_an_interruption_too() -> None:
    """Programs end with 0 on SIGTERM, and a kubelet starts nothing again that has done its work."""
    done = kinds.Terminated(0, 0, "Completed", "", b.stamp(10), b.stamp(100))
    found = removal(again(done))
    assert found is not None
    assert (found.cause, found.at) == (Cause.NODE_LOST, b.at(100))


def test_it_is_read_one_by_one() -> None:
    assert not goes_on(again(UNSEEN))
    assert bucket_of(again(UNSEEN), ()) is None


def test_a_task_is_told_to_go_and_counted_when_it_has_ended() -> None:
    """Its time is that of its first life."""
    main = again(UNSEEN).status.container_statuses
    runs_on = _with(task(5, started=130, taken=5), main)
    outcome = plan_job(see(array(), runs_on, now=140))
    assert [action.uid for action in outcome.actions if isinstance(action, DeletePod)] == [runs_on.metadata.uid]
    assert not outcome.counted
    (last,) = again(UNSEEN, ended=150, code=143).status.container_statuses
    ended = _with(task(5, started=130, taken=5, deleted=140, ended=150, code=143), (last,))
    outcome = plan_job(see(array(), ended, now=160))
    assert (outcome.counted, outcome.interruptions) == (1, (Cause.NODE_LOST,))
    assert outcome.status.lost_cpu_seconds == 250


def _with(pod: kinds.Pod, containers: tuple[kinds.ContainerStatus, ...]) -> kinds.Pod:
    return msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, container_statuses=containers))


async def test_a_machine_that_returns_under_its_name_costs_an_interruption() -> None:
    async with running_job("a") as c:
        (pod,) = c.pods("a")
        c.api.edit(NODES, None, "n1", lambda node: node["status"].update(nodeInfo={"bootID": "one"}))
        await c.pass_time(10)
        c.api.edit(NODES, None, "n1", lambda node: node["status"].update(nodeInfo={"bootID": "two"}))
        (main,) = pod["status"]["containerStatuses"]
        main = {**main, "restartCount": 1, "state": {"running": {"startedAt": c.stamp()}}, "lastState": {}}
        c._status(pod, containerStatuses=[main])
        await c.until(lambda: c.status("a").get("interruptedCount") == 1)
        await runs(c, "a")
        (second,) = [one for one in c.pods("a") if "deletionTimestamp" not in one["metadata"]]
        assert second["metadata"]["uid"] != pod["metadata"]["uid"]
