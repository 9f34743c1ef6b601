"""Every ending of a running job, brought about for real."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from typing import Any

import pytest
from scavenger_api.checkpoints import COMPLETION_INDEX
from scavenger_api.times import parse_time
from scavenger_cluster import Cluster
from scavenger_testing.world import SETTINGS, World, ordinary_pod, scavenger_job

pytestmark = pytest.mark.real
LONG = pytest.mark.long

FOREVER = ("run", "--dir=/tmp/c", "--seconds=3600", "--steps=100000", "--burn=10")
VOLUME: dict[str, Any] = {"persistentVolumeClaims": [{"name": "state", "mountPath": "/data"}]}
FINALIZER = "scavenger.dev/interruption-record"
ENDING = 3
"""Seconds that a program may take from its last checkpoint to its end: on a busy machine a process is not gone at once,
and moments are written in whole seconds. What it has computed before takes at least twice as long."""


ALIVE_AFTER = 5
"""Seconds after its end until which a node has to show life (`successEvidenceAfter`)."""


def script(text: str) -> dict[str, Any]:
    """Spec fields that run a few lines of Python instead of the counter."""
    return {"command": ["python3", "-u", "-c", text]}


def finalizers(world: World) -> list[str]:
    """Pods of the namespace that still carry our finalizer."""
    held = [pod for pod in world.objects("pods") if FINALIZER in pod["metadata"].get("finalizers", [])]
    return [pod["metadata"]["name"] for pod in held]


@pytest.fixture
def evidence(cluster: Cluster) -> Iterator[None]:
    """The admitter waits for a sign of life after an exit with 0, as it does by default; in other tests it does not."""
    settings = {**SETTINGS, "SCAVENGER_SUCCESS_EVIDENCE_AFTER": str(ALIVE_AFTER)}
    cluster.service_start("admitter", environment=settings, wait="readyz")
    yield
    cluster.service_start("admitter", environment=SETTINGS, wait="readyz")


@pytest.fixture
def admitter_down(cluster: Cluster) -> Iterator[None]:
    """Starts the admitter again, whatever the test does; the test stops it."""
    yield
    cluster.service_start("admitter", environment=SETTINGS, wait="readyz")


@pytest.mark.usefixtures("evidence")
def test_completes_and_lets_go_of_its_pods(world: World) -> None:
    world.apply(scavenger_job("done", "run", "--dir=/tmp/c", "--seconds=1", "--steps=20"))
    [(_, ended)] = world.wait("its program to end", lambda: ended_with_0(world, "done"))
    status = world.wait_phase("done", "Completed")
    assert proven(status, ended) >= ALIVE_AFTER - 1, "of whole seconds"
    assert status["interruptedCount"] == 0
    assert len(status["runningTimestamps"]) == 1
    assert status["finishedTimestamp"]
    world.wait("no finalizer left", lambda: not finalizers(world))
    assert world.kubectl("logs", "-l", "scavenger.dev/job=done")


def ended_with_0(world: World, job: str) -> list[tuple[str, datetime]]:
    """The node of each pod of a job whose program ended with 0, and when it did."""
    found = []
    for pod in world.pods(job):
        for one in pod["status"].get("containerStatuses", ()):
            ended = one["state"].get("terminated")
            if ended is not None and ended["exitCode"] == 0 and (at := parse_time(ended["finishedAt"])) is not None:
                found.append((pod["spec"]["nodeName"], at))
    return found


def proven(status: dict[str, Any], ended: datetime) -> float:
    """Seconds from the end of a program until the job had succeeded."""
    said = next(one for one in status["conditions"] if one["type"] == "Succeeded")
    at = parse_time(said["lastTransitionTime"])
    assert at is not None
    return (at - ended).total_seconds()


@LONG
@pytest.mark.usefixtures("evidence")
def test_a_kubelet_that_is_killed_two_seconds_after_an_exit_with_0_proves_nothing(
    world: World, cluster: Cluster
) -> None:
    """As where a machine goes down: programs end with 0, their kubelet reports that, and nobody hears of it again."""
    world.apply(scavenger_job("down", "run", "--dir=/tmp/c", "--seconds=1", "--steps=5"))
    [(node, _)] = world.wait("its program to end", lambda: ended_with_0(world, "down"))
    time.sleep(2)
    cluster.node_stop(node)
    try:
        world.wait("counted", lambda: world.status("down").get("interruptedCount") == 1, timeout=200)
        again = world.wait_phase("down", "Completed")
        assert again["interruptedCount"] == 1
    finally:
        cluster.node_start(node)


@LONG
@pytest.mark.usefixtures("evidence")
def test_success_is_final_when_its_node_shows_life(world: World) -> None:
    """How long that takes stands in docs/programs.md: it depends on when kubelets renew their Leases."""
    names = [f"done-{number}" for number in range(8)]
    for number, name in enumerate(names):
        steps = f"--steps={5 + 3 * number}"
        world.apply(scavenger_job(name, "run", "--dir=/tmp/c", "--seconds=1", steps, cpu="100m"))
    ends = {name: world.wait(f"{name} to end", partial(ended_with_0, world, name))[0][1] for name in names}
    took = []
    for name in names:
        status = world.wait_phase(name, "Completed")
        assert status["interruptedCount"] == 0
        took.append(proven(status, ends[name]))
    print(f"seconds from the end to Completed: {sorted(took)}")  # noqa: T201
    assert min(took) >= ALIVE_AFTER - 1  # of whole seconds


def test_deleted_pod_that_does_not_answer_is_an_interruption(world: World) -> None:
    world.apply(scavenger_job("victim", *FOREVER, "--on-sigterm=ignore"))
    world.wait_phase("victim", "Running")
    first = world.pods("victim")[0]["metadata"]["name"]
    world.kubectl("delete", "pod", first, "--wait=false")
    world.wait("counted", lambda: world.status("victim").get("interruptedCount") == 1)
    status = world.wait_phase("victim", "Running")
    assert status["interruptedCount"] == 1
    assert len(status["interruptedTimestamps"]) == 1
    assert len(status["runningTimestamps"]) == 2
    [again] = world.staying("victim")
    assert again["metadata"]["name"] != first


def test_own_failure_is_final(world: World) -> None:
    world.apply(scavenger_job("broken", *FOREVER, "--exit-at-step=3", "--exit-code=7"))
    status = world.wait_phase("broken", "Failed")
    assert "exited with code 7" in status["message"]
    assert world.pods("broken")[0]["metadata"]["name"] in status["message"]
    assert status["interruptedCount"] == 0
    world.wait("no finalizer left", lambda: not finalizers(world))
    time.sleep(3)
    assert world.status("broken")["phase"] == "Failed"
    assert not finalizers(world)


@LONG
def test_out_of_memory_is_its_own_failure(world: World) -> None:
    hungry = "import time\nblock = []\nwhile True:\n    block.append(bytearray(8 << 20))\n    time.sleep(0.05)\n"
    world.apply(scavenger_job("hungry", **script(hungry)))
    status = world.wait_phase("hungry", "Failed")
    assert "137" in status["message"]
    assert "OOMKilled" in status["message"]


@pytest.mark.long
def test_gang_is_cancelled_as_one_and_a_member_that_had_succeeded_runs_again(world: World) -> None:
    text = (
        "import os, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *a: sys.exit(1))\n"
        "print('index', os.environ['SCAVENGER_INDEX'], 'restarts', os.environ['SCAVENGER_RESTARTS'])\n"
        "time.sleep(4 if os.environ['SCAVENGER_INDEX'] == '0' or os.environ['SCAVENGER_RESTARTS'] != '0' else 3600)\n"
    )
    world.apply(scavenger_job("gang", parallelism=3, **script(text)))
    world.wait_phase("gang", "Running")
    world.wait("member 0 succeeded", lambda: any(p["status"]["phase"] == "Succeeded" for p in world.pods("gang")))
    assert world.status("gang")["phase"] == "Running"
    running = [p["metadata"]["name"] for p in world.pods("gang") if p["status"]["phase"] == "Running"]
    world.kubectl("delete", "pod", running[0], "--wait=false")
    status = world.wait_phase("gang", "Completed")
    assert status["interruptedCount"] == 1
    indexes = [p["metadata"]["annotations"][COMPLETION_INDEX] for p in world.staying("gang")]
    assert sorted(indexes) == ["0", "1", "2"]


@LONG
def test_gang_member_that_fails_by_itself_fails_the_gang(world: World) -> None:
    text = (
        "import os, sys, time\n"
        "time.sleep(3)\n"
        "sys.exit(3) if os.environ['SCAVENGER_INDEX'] == '1' else time.sleep(3600)\n"
    )
    world.apply(scavenger_job("gang", parallelism=3, **script(text)))
    status = world.wait_phase("gang", "Failed")
    assert "exited with code 3" in status["message"]
    assert status["interruptedCount"] == 0
    world.wait("siblings gone", lambda: all(p["status"]["phase"] != "Running" for p in world.pods("gang")))


@pytest.mark.long
@pytest.mark.parametrize("how", [pytest.param("deleted", marks=LONG), "evicted", pytest.param("preempted", marks=LONG)])
def test_removed_while_the_admitter_is_down_is_counted_once(
    world: World, cluster: Cluster, admitter_down: None, how: str
) -> None:
    wide = "1100m" if how == "preempted" else "200m"
    world.apply(scavenger_job("missed", *FOREVER, "--on-sigterm=checkpoint-exit-0", cpu=wide))
    world.wait_phase("missed", "Running")
    pod = world.pods("missed")[0]
    cluster.service_stop("admitter")
    if how == "deleted":
        world.kubectl("delete", "pod", pod["metadata"]["name"], "--wait=false")
    elif how == "evicted":
        name = pod["metadata"]["name"]
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        path = f"/api/v1/namespaces/{world.namespace}/pods/{name}/eviction"
        cluster.kubectl("create", "--raw", path, "-f", "-", input=json.dumps(eviction))
    else:
        node = pod["spec"]["nodeName"]
        world.apply(ordinary_pod("ordinary", "1500m", nodeSelector={"kubernetes.io/hostname": node}))
        world.wait("ordinary pod", lambda: (world.get("pod", "ordinary") or {})["status"].get("phase") == "Running")
    world.wait("the pod ended", lambda: world.pods("missed")[0]["status"]["phase"] in ("Succeeded", "Failed"))
    assert world.status("missed")["phase"] == "Running", "nobody has looked yet"
    cluster.service_start("admitter", environment=SETTINGS, wait="readyz")
    world.wait("counted", lambda: world.status("missed").get("interruptedCount") == 1)
    if how == "preempted":
        world.kubectl("delete", "pod", "ordinary")
    status = world.wait_phase("missed", "Running")
    assert status["interruptedCount"] == 1
    assert len(status["interruptedTimestamps"]) == 1
    assert "Interrupted" not in {condition["type"] for condition in status["conditions"]}


@LONG
def test_a_pod_over_its_own_storage_limit_fails_its_job(world: World) -> None:
    text = "import os, time\ntime.sleep(2)\nopen('/tmp/big', 'wb').write(os.urandom(24 << 20))\ntime.sleep(3600)\n"
    job = scavenger_job("greedy", **script(text))
    job["spec"]["resources"]["requests"]["ephemeral-storage"] = "8Mi"
    world.apply(job)
    status = world.wait_phase("greedy", "Failed")
    assert "Pod ephemeral local storage usage exceeds the total limit of containers 8Mi" in status["message"]
    assert status["interruptedCount"] == 0


@LONG
def test_job_deleted_by_hand(world: World) -> None:
    world.apply(scavenger_job("orphan", *FOREVER))
    world.wait_phase("orphan", "Running")
    world.kubectl("delete", "job", "orphan", "--cascade=orphan", "--wait=false")
    world.wait("counted", lambda: world.status("orphan").get("interruptedCount") == 1)
    status = world.wait_phase("orphan", "Running")
    assert status["interruptedCount"] == 1
    alive = [p for p in world.pods("orphan") if p["status"]["phase"] == "Running"]
    assert len(alive) == 1, "no second life beside the first"


def test_suspend_and_resume(world: World) -> None:
    world.apply(scavenger_job("paused", *FOREVER, "--on-sigterm=exit-1", suspend=True))
    world.wait_phase("paused", "Suspended")
    assert not world.pods("paused")
    resume = '{"spec": {"suspend": false}}'
    world.kubectl("patch", "scavengerjob", "paused", "--type=merge", "-p", resume)
    world.wait_phase("paused", "Running")
    time.sleep(2)
    world.kubectl("patch", "scavengerjob", "paused", "--type=merge", "-p", resume.replace("false", "true"))
    status = world.wait_phase("paused", "Suspended")
    assert status["interruptedCount"] == 0
    assert status["lostCPUSeconds"] > 0
    world.wait("pods removed", lambda: not world.pods("paused"))
    world.kubectl("patch", "scavengerjob", "paused", "--type=merge", "-p", resume)
    world.wait_phase("paused", "Running")


def test_deleted_job_leaves_nothing(world: World) -> None:
    world.apply(scavenger_job("gone", *FOREVER, "--on-sigterm=ignore", parallelism=2))
    world.wait_phase("gone", "Running")
    world.kubectl("delete", "scavengerjob", "gone", "--wait=true", "--timeout=110s")
    world.wait(
        "everything gone",
        lambda: not world.objects("pods") and not world.objects("jobs") and not world.objects("services"),
    )


@LONG
def test_ttl_deletes_the_job_and_all_it_owns(world: World) -> None:
    job = scavenger_job("brief", "run", "--dir=/tmp/c", "--seconds=1", "--steps=5", ttlSecondsAfterFinished=4)
    world.apply(job)
    world.wait_phase("brief", "Completed")
    world.wait("deleted", lambda: world.get("scavengerjob", "brief") is None)
    world.wait("everything gone", lambda: not world.objects("pods") and not world.objects("jobs"))


def test_checkpoints_survive_and_the_result_is_right(world: World, shared: str) -> None:
    job = scavenger_job("pi", "run", "--steps=160", "--seconds=16", "--checkpoint-every=1", **VOLUME)
    job["spec"]["terminationGracePeriodSeconds"] = 30
    world.apply(job)
    world.wait_phase("pi", "Running")
    logs = ("logs", "-l", "scavenger.dev/job=pi", "--tail=-1")

    def checkpoints() -> int:
        return world.kubectl(*logs).count("reason=interval")

    # A second of work is between two of them, which can be lost. Far more than that is still to be done.
    before = checkpoints()
    world.wait("two checkpoints", lambda: checkpoints() >= before + 2)
    world.kubectl("delete", "pod", world.pods("pi")[0]["metadata"]["name"], "--wait=false")
    world.wait("interrupted", lambda: world.status("pi").get("interruptedCount") == 1)
    status = world.wait_phase("pi", "Completed", timeout=240)
    assert status["interruptedCount"] == 1
    assert status["lostCPUSeconds"] <= 0.2 * ENDING, "it wrote a checkpoint when it was told to stop, and said so"
    assert "event=resumed" in world.kubectl(*logs)
    world.apply(
        scavenger_job("check", "verify", **VOLUME),
    )
    world.wait_phase("check", "Completed")
    assert "every step counted exactly once" in world.kubectl("logs", "-l", "scavenger.dev/job=check", "--tail=-1")


@LONG
@pytest.mark.parametrize("reaction", ["checkpoint-exit-0", "checkpoint-exit-1", "exit-1"])
def test_what_an_interrupted_program_saved_is_not_booked_as_lost(world: World, reaction: str) -> None:
    """It has computed for seconds since its last checkpoint: the one before is the one at its start."""
    settings = ("--checkpoint-every=1000", f"--on-sigterm={reaction}")
    world.apply(scavenger_job("books", *FOREVER, *settings, terminationGracePeriodSeconds=30))
    world.wait_phase("books", "Running")
    world.wait("the first checkpoint", lambda: world.said("books", "event=checkpoint"))
    time.sleep(2 * ENDING)
    world.kubectl("delete", "pod", world.pods("books")[0]["metadata"]["name"], "--wait=false")
    world.wait("interrupted", lambda: world.status("books").get("interruptedCount") == 1)
    status = world.wait_phase("books", "Running")
    useful, lost = status["usefulCPUSeconds"], status["lostCPUSeconds"]
    begun, ended = parse_time(status["runningTimestamps"][0]), parse_time(status["interruptedTimestamps"][0])
    assert begun is not None
    assert ended is not None
    given = 0.2 * (ended - begun).total_seconds()
    assert useful + lost == pytest.approx(given)
    assert given >= 0.2 * 5
    if reaction == "exit-1":
        assert lost > 0.2 * ENDING
    else:
        assert lost <= 0.2 * ENDING
        assert "lastCheckpointTimestamp" in status
    assert "endedTimestamp" not in status
