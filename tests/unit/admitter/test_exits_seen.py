"""An exit that was seen stays what ended a run, where the kubelet says later that it does not know how it ended."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from scavenger_admitter.core.lifecycle.exits_seen import MOST_EXITS, SeenExit, remembered, restored
from scavenger_domain.pod_ends import removal, succeeded
from scavenger_kube import kinds
from scavenger_kube.resources import NODES
from scavenger_testing import terminated

from . import builders as b
from .harness import Harness, Object, empty_harness, runs

pytestmark = pytest.mark.slow


def exits(c: Harness, pod: Object, code: int) -> None:
    """Its container ends, and its kubelet has not written the phase."""
    ended = terminated(code, finished=c.stamp())
    ended["state"]["terminated"]["startedAt"] = pod["status"]["containerStatuses"][0]["state"]["running"]["startedAt"]
    c._status(pod, containerStatuses=[ended])


def forgets(c: Harness, pod: Object) -> None:
    """Its kubelet was started again, and does not find the container (kubelet_pods.go)."""
    said = terminated(137, reason="ContainerStatusUnknown", finished=c.stamp())
    said["state"]["terminated"] |= {"startedAt": None, "finishedAt": None}
    c._status(pod, phase="Failed", containerStatuses=[said])


async def start(c: Harness, **spec: Any) -> list[Object]:
    """A job `a` that runs. Returns its pods."""
    c.node(cpu="10")
    c.admitter()
    c.submit("a", **spec)
    await runs(c, "a")
    await c.until(lambda: all("running" in str(pod["status"].get("containerStatuses")) for pod in c.pods("a")))
    await c.pass_time(30)
    return c.pods("a")


@pytest.mark.parametrize("spec", [{}, {"parallelism": 3}], ids=["job", "gang"])
async def test_finished_work_is_not_run_again(spec: dict[str, Any]) -> None:
    async with empty_harness() as c:
        pods = await start(c, **spec)
        for pod in pods:
            exits(c, pod, 0)
        await c.pass_time(2)
        forgets(c, pods[0])
        for pod in pods[1:]:
            c._status(pod, phase="Succeeded")
        await c.until(lambda: c.phase("a") == "Completed")
        assert not c.status("a").get("interruptedCount")


async def test_a_task_that_was_done_is_completed() -> None:
    async with empty_harness() as c:
        first, _ = await start(c, array={"tasks": 2})
        exits(c, first, 0)
        await c.pass_time(2)
        forgets(c, first)
        await c.until(lambda: c.status("a")["array"].get("completed") == 1)
        assert not c.status("a").get("interruptedCount")


@pytest.mark.parametrize("spec", [{}, {"parallelism": 2}, {"array": {"tasks": 1}}], ids=["job", "gang", "array"])
async def test_a_failure_of_its_own_stays_one(spec: dict[str, Any]) -> None:
    async with empty_harness() as c:
        pods = await start(c, **spec)
        exits(c, pods[0], 3)
        await c.pass_time(2)
        forgets(c, pods[0])
        await c.until(lambda: c.phase("a") == "Failed", limit=200)
        assert not c.status("a").get("interruptedCount")


@pytest.mark.parametrize("spec", [{}, {"array": {"tasks": 1}}], ids=["job", "array"])
async def test_a_success_still_has_to_be_proven(spec: dict[str, Any]) -> None:
    """The machine has booted, and that is why its kubelet does not find the container."""
    async with empty_harness() as c:

        def boots(identity: str) -> None:
            c.api.edit(NODES, None, "n1", lambda node: node["status"].update(nodeInfo={"bootID": identity}))

        (pod,) = await start(c, **spec)
        boots("one")
        await c.pass_time(1)
        exits(c, pod, 0)
        await c.pass_time(2)
        c.kubelet = False
        await c.pass_time(40)
        boots("two")
        c.kubelet = True
        forgets(c, pod)
        await c.until(lambda: c.status("a").get("interruptedCount") == 1, limit=200)


UNKNOWN = kinds.ContainerStatus(
    "main", kinds.ContainerState(terminated=kinds.Terminated(137, 0, "ContainerStatusUnknown"))
)


def unknown(pod: kinds.Pod) -> kinds.Pod:
    status = msgspec.structs.replace(pod.status, phase="Failed", container_statuses=(UNKNOWN,))
    return msgspec.structs.replace(pod, status=status)


def test_it_ended_before_it_was_deleted_and_the_kubelet_knew_of_no_deletion() -> None:
    done = b.pod(ended=100, generations=(1, 1))
    known = remembered({}, [done])
    later = restored(unknown(b.pod(ended=100, deleted=110, generations=(2, 2))), known)
    assert removal(later) is None
    assert succeeded(later)


def test_of_one_that_was_told_to_stop_before_the_same_is_known() -> None:
    told = b.pod(ended=100, deleted=90, generations=(2, 2))
    assert removal(restored(unknown(told), remembered({}, [told]))) is not None


def test_what_is_kept() -> None:
    """Of pods that are there and not counted, as the first look showed their ends."""
    first, second, counted = b.pod(0, ended=100), b.pod(1, ended=100), b.pod(2, ended=100, held=False)
    known = remembered({}, [first, second, counted, b.pod(3)])
    assert known.keys() == {first.metadata.uid, second.metadata.uid}
    assert remembered(known, [unknown(first)]) == {first.metadata.uid: known[first.metadata.uid]}
    assert remembered(known, [b.pod(0, ended=120, code=1)])[first.metadata.uid] == SeenExit.of(first)
    many = [b.pod(number, ended=100) for number in range(MOST_EXITS + 5)]
    assert len(remembered({}, many)) == MOST_EXITS
