"""What others do to pods and nodes of jobs, on real kubelets: they add containers, and switch nodes off."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from scavenger_api.names import FINALIZER
from scavenger_cluster import Cluster
from scavenger_testing.world import IMAGE, World, scavenger_job

pytestmark = pytest.mark.real

POLICIES: Final = "/apis/admissionregistration.k8s.io/v1"
SIDECAR: Final = (
    f'Object.spec.containers{{name: "proxy", image: "{IMAGE}", imagePullPolicy: "IfNotPresent", '
    'command: ["python3", "-c", "import time; time.sleep(3600)"], '
    "securityContext: Object.spec.containers.securityContext{allowPrivilegeEscalation: false, runAsNonRoot: true}, "
    'resources: Object.spec.containers.resources{requests: {"cpu": "10m", "memory": "32Mi"}, '
    'limits: {"cpu": "10m", "memory": "32Mi"}}}'
)
ADD: Final = f'JSONPatch{{op: "add", path: "/spec/containers/-", value: {SIDECAR}}}'
SILENT_AFTER: Final = "20s"
"""A kubelet renews its Lease every 10 s."""


@pytest.fixture
def sidecar(world: World) -> Iterator[None]:
    """A policy that adds an ordinary container to the pods of this namespace, which never ends."""
    client, name = world.cluster.client, f"sidecar-{world.namespace}"
    spec = {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "matchConstraints": {
            "resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
            ]
        },
        "mutations": [
            {"patchType": "JSONPatch", "jsonPatch": {"expression": f"[{ADD}]"}},
        ],
    }
    selector = {"matchLabels": {"kubernetes.io/metadata.name": world.namespace}}
    binding = {"policyName": name, "matchResources": {"namespaceSelector": selector}}
    for kind, plural, body in (
        ("MutatingAdmissionPolicy", "mutatingadmissionpolicies", spec),
        ("MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings", binding),
    ):
        made = {"apiVersion": POLICIES[6:], "kind": kind, "metadata": {"name": name}, "spec": body}
        client.request("POST", f"{POLICIES}/{plural}", made)
    account = f"/api/v1/namespaces/{world.namespace}/serviceaccounts/default"
    world.wait("an account for pods", lambda: client.find(account))
    probe = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "probe-"},
        "spec": {"containers": [{"name": "main", "image": IMAGE}]},
    }
    path = f"/api/v1/namespaces/{world.namespace}/pods?dryRun=All"
    world.wait("the policy", lambda: len(client.request("POST", path, probe)["spec"]["containers"]) == 2)
    yield
    for plural in ("mutatingadmissionpolicybindings", "mutatingadmissionpolicies"):
        client.delete(f"{POLICIES}/{plural}/{name}")


@pytest.fixture
def quick_verdicts(cluster: Cluster) -> Iterator[None]:
    """Kubernetes finds a node silent after 20 seconds instead of 50."""
    before = cluster.state.arguments
    cluster.up(arguments={**before, "kcm": [f"--node-monitor-grace-period={SILENT_AFTER}"]})
    yield
    cluster.up(arguments=before)


def _program(*lines: str) -> dict[str, Any]:
    return {"command": ["python3", "-u", "-c", "\n".join(lines)]}


def test_a_job_ends_with_its_program_beside_a_container_that_admission_adds(world: World, sidecar: None) -> None:
    world.apply(
        scavenger_job("good", **_program("import time", "time.sleep(2)")),
        scavenger_job("bad", **_program("import sys, time", "time.sleep(2)", "sys.exit(3)")),
    )
    good = world.wait_phase("good", "Completed")
    bad = world.wait_phase("bad", "Failed")
    assert "exited with code 3" in bad["message"]
    assert good["usefulCPUSeconds"] < 0.2 * 30, "no time after the end of the program counts"
    world.wait("what ran beside them is stopped", lambda: not world.staying("good") and not world.staying("bad"))


@pytest.mark.long
def test_a_gang_whose_member_fails_beside_containers_that_run_on_is_failed_once(world: World, sidecar: None) -> None:
    """The admitter deletes both pods itself, as the containers beside the programs would keep them. These deletions
    interrupt nothing, whatever generation the kubelet has observed."""
    fails = ("import os, sys, time", "time.sleep(3)", "sys.exit(1) if os.environ['SCAVENGER_INDEX'] == '1' else None")
    world.apply(scavenger_job("gang", parallelism=2, backoffLimit=0, **_program(*fails, "time.sleep(3600)")))
    status = world.wait_phase("gang", "Failed")
    assert "exited with code 1" in status["message"]
    assert (status["interruptedCount"], len(status["runningTimestamps"])) == (0, 1)
    world.wait("both are stopped", lambda: not world.staying("gang") and not _with_finalizer(world, "gang"))
    ended = world.status("gang")
    assert (ended["phase"], ended["interruptedCount"]) == ("Failed", 0)
    assert "removing" not in ended


@pytest.mark.long
def test_jobs_of_a_node_that_is_switched_off_run_again_elsewhere(
    world: World, cluster: Cluster, quick_verdicts: None
) -> None:
    """Without graceful node shutdown the signals of the machine end containers before anybody marks their pods."""
    node, other = cluster.state.nodes.real_names[-1], cluster.state.nodes.real_names[0]
    heeds = _program(
        "import signal, sys, time",
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))",
        "print('ready')",
        "time.sleep(3600)",
    )
    signals = {"told": signal.SIGTERM, "killed": signal.SIGKILL}
    cluster.kubectl("cordon", other)
    try:
        world.apply(*(scavenger_job(name, **heeds) for name in signals))
        for name in signals:
            world.wait_phase(name, "Running")
            world.wait(f"{name} listens", partial(world.said, name, "ready"))
    finally:
        cluster.kubectl("uncordon", other)
    try:
        for name, number in signals.items():
            _signal(world.pods(name)[0], number)
        for name, code in (("told", 143), ("killed", 137)):
            world.wait(f"the kubelet to report {code}", partial(_ended_by, world, name, code))
        cluster.node_stop(node)
        assert [world.status(name)["phase"] for name in signals] == ["Running"] * 2, "the node may be well"
        for name in signals:
            world.wait(f"{name} runs elsewhere", partial(_runs_on, world, name, other))
            assert world.status(name)["interruptedCount"] == 1
    finally:
        cluster.node_start(node)


def _signal(pod: dict[str, Any], number: int) -> None:
    """Send a signal to the processes of a pod's container, as the machine does that it runs on."""
    container = pod["status"]["containerStatuses"][0]["containerID"].rpartition("/")[2]
    sent = 0
    for group in Path("/proc").glob("[0-9]*/cgroup"):
        try:
            if container in group.read_text():
                os.kill(int(group.parent.name), number)
                sent += 1
        except (FileNotFoundError, ProcessLookupError):
            continue
    assert sent, f"no process of container {container}"


def _ended_by(world: World, job: str, code: int) -> bool:
    """Whether its pod's status has this exit code."""
    state = world.pods(job)[0]["status"]["containerStatuses"][0]["state"]
    return (state.get("terminated") or {}).get("exitCode") == code


def _runs_on(world: World, job: str, node: str) -> bool:
    nodes = [pod["spec"].get("nodeName") for pod in world.staying(job) if pod["status"].get("phase") == "Running"]
    return world.status(job).get("phase") == "Running" and nodes == [node]


def _with_finalizer(world: World, job: str) -> list[str]:
    """Its pods whose endings are still to be recorded."""
    return [pod["metadata"]["name"] for pod in world.pods(job) if FINALIZER in pod["metadata"].get("finalizers", ())]
