"""Programs without checkpoints, in ordinary restricted pods, go on where they were interrupted."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from scavenger_api.names import LABEL_POD_SECURITY_ENFORCE
from scavenger_cluster import stack
from scavenger_testing.world import World, ordinary_pod, scavenger_job

from tests.e2e.test_restricted import label

pytestmark = [pytest.mark.real, pytest.mark.long]

STEPS = 320
KILLED_STEPS = 450
"""More time than two periodic snapshots are apart."""
PROGRAM = """
import sys, time
with open("/state/" + sys.argv[1], "a") as told:
    told.write("started ")
total = 0
for step in range(int(sys.argv[2])):
    total += step * step
    print(step, flush=True)
    time.sleep(0.1)
with open("/state/" + sys.argv[1], "a") as told:
    told.write(str(total))
"""


def right(steps: int) -> str:
    """What a program writes that starts once."""
    return f"started {sum(step * step for step in range(steps))}"


def test_programs_without_checkpoints_go_on_where_they_were(world: World, shared: str, tmp_path: Path) -> None:
    """Each job is interrupted once, as a second short run would be followed by a pause. One is killed before it can
    save anything more, and goes on from its last periodic snapshot."""
    stack.build_snapshot_image(world.cluster)
    stack.allow_snapshots(world.cluster)
    label(world, LABEL_POD_SECURITY_ENFORCE, "restricted")
    world.apply(
        _summing("drained-$(SCAVENGER_TASK)", shared, "drained", array={"tasks": 2}),
        _summing("preempted", shared, "preempted", cpu="1100m"),
        _summing("killed", shared, "killed", KILLED_STEPS, cpu="100m"),
    )
    volume = tmp_path / "volume"
    world.wait("them to compute", lambda: _compute(world, "drained", 2) and _compute(world, "preempted", 1))
    for pod in world.pods("drained"):
        evict(world, pod["metadata"]["name"])
    (pod,) = world.pods("preempted")
    node = {"kubernetes.io/hostname": pod["spec"]["nodeName"]}
    world.apply(_restricted(ordinary_pod("ordinary", "1500m", nodeSelector=node)))
    world.wait("it to be preempted", lambda: world.status("preempted").get("interruptedCount") == 1)
    world.kubectl("delete", "pod", "ordinary", "--wait=false")
    (uid,) = (one["metadata"]["uid"] for one in world.objects("scavengerjobs") if one["metadata"]["name"] == "killed")
    folder = volume / ".snapshot" / f"{world.namespace}_{uid}"
    world.wait("a periodic snapshot", lambda: (folder / "gen-000001").is_dir())
    (pod,) = world.pods("killed")
    for process in processes(pod["metadata"]["uid"]):
        os.kill(process, signal.SIGSTOP)
    world.kubectl("delete", "pod", pod["metadata"]["name"], "--grace-period=1", "--wait=false")

    interruptions = {"drained": 2, "preempted": 1, "killed": 1}
    assert {job: world.wait_phase(job, "Completed")["interruptedCount"] for job in interruptions} == interruptions
    programs = ("drained-0", "drained-1", "preempted")
    assert {name: (volume / name).read_text() for name in programs} == dict.fromkeys(programs, right(STEPS))
    assert (volume / "killed").read_text() == right(KILLED_STEPS)


def evict(world: World, pod: str) -> None:
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
    path = f"/api/v1/namespaces/{world.namespace}/pods/{pod}/eviction"
    world.cluster.kubectl("create", "--raw", path, "-f", "-", input=json.dumps(eviction))


def processes(pod: str) -> list[int]:
    """Those of a pod on this machine, by its uid: cgroup drivers write it with underscores or hyphens."""
    names = (pod, pod.replace("-", "_"))
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            cgroup = (folder / "cgroup").read_text()
        except OSError:  # it has ended
            continue
        if any(name in cgroup for name in names):
            found.append(int(folder.name))
    assert found, f"no process is of pod {pod}"
    return found


def _summing(program: str, claim: str, name: str, steps: int = STEPS, **spec: Any) -> dict[str, Any]:
    return scavenger_job(
        name,
        command=["python3", "-u", "-c", PROGRAM, program, str(steps)],
        persistentVolumeClaims=[{"name": claim, "mountPath": "/state"}],
        snapshot={"volume": claim, "every": "30s"},
        **{"terminationGracePeriodSeconds": 60, **spec},
    )


def _compute(world: World, job: str, count: int) -> bool:
    pods = world.staying(job)
    return len(pods) == count and all(world.log(pod["metadata"]["name"]).count("\n") > 10 for pod in pods)


def _restricted(pod: dict[str, Any]) -> dict[str, Any]:
    """The pod as PodSecurity `restricted` wants it."""
    (main,) = pod["spec"]["containers"]
    main["securityContext"] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    pod["spec"]["securityContext"] = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    return pod
