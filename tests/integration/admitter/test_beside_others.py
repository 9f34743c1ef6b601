"""Jobs beside what others run, write and announce, on a real control plane: pods that no room helps, a Service and a
controller that get in the way, a node that is about to go, and a program that hangs. All of it at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest
from scavenger_cluster import Cluster
from scavenger_kube.resources import MERGE_PATCH
from scavenger_testing.waiting import wait

from .conftest import NODES, Place, namespace, start_admitter
from .recorder import Recorder

pytestmark = pytest.mark.timeout(600)

POLICIES: Final = "/apis/admissionregistration.k8s.io/v1"
REPLICAS: Final = 3 * NODES
"""One on every node. By requests alone the others would fit as well, and leave no job of `CPU` a place."""
ORDINARY_CPU: Final = "5"
CPU: Final = "2"
SMALL: Final = ("a", "b", "c", "d", "e")
LEAVING: Final = {"key": "aws-node-termination-handler/spot-itn", "value": "1", "effect": "NoSchedule"}
SUSPEND: Final = 'JSONPatch{op: "add", path: "/spec/suspend", value: true}'

Object = dict[str, Any]


@pytest.fixture(scope="module")
def queued(cluster: Cluster, recorder: Recorder) -> Iterator[Place]:
    """A namespace in which somebody suspends every Job, and a job in it."""
    start_admitter(cluster)
    with namespace(cluster, recorder) as place:
        place.wait_account()
        _suspend_jobs(cluster, place.namespace)
        place.submit("suspended")
        yield place
        for kind in ("mutatingadmissionpolicybindings", "mutatingadmissionpolicies"):
            cluster.client.delete(f"{POLICIES}/{kind}/{place.namespace}")


@pytest.fixture(scope="module")
def scene(cluster: Cluster, recorder: Recorder, queued: Place) -> Iterator[Place]:
    """Others at work, and then the jobs of these tests."""
    client = cluster.client
    with namespace(cluster, recorder) as place:
        place.wait_account()
        client.request("POST", f"/apis/apps/v1/namespaces/{place.namespace}/deployments", _deployment())
        place.wait("all but a pod on every node to be refused", lambda: _refused(place) == REPLICAS - NODES)
        service = {"metadata": {"name": "sj-gang"}, "spec": {"ports": [{"port": 80}]}}
        client.request("POST", f"/api/v1/namespaces/{place.namespace}/services", service)
        place.submit(*SMALL, cpu=CPU)
        place.submit("gang", parallelism=2)
        place.submit("moves")
        place.submit("hangs", interruptionAfter="2s", progressDeadlineIntervals=2)
        yield place
        client.delete(f"/apis/apps/v1/namespaces/{place.namespace}/deployments/ordinary")


def test_jobs_start_beside_pods_that_no_room_helps(scene: Place) -> None:
    for name in SMALL:
        scene.wait_phase(name, "Running")
    assert _refused(scene) == REPLICAS - NODES, "they wait on"


def test_a_node_that_is_about_to_go_interrupts_its_jobs(scene: Place) -> None:
    scene.wait_phase("moves", "Running")
    (pod,) = scene.pods("moves")
    path = f"/api/v1/nodes/{pod['spec']['nodeName']}"
    scene.cluster.client.request("PATCH", path, {"spec": {"taints": [LEAVING]}}, MERGE_PATCH)
    try:
        scene.wait_interrupted("moves")
        scene.wait("it runs elsewhere", lambda: _elsewhere(scene, "moves", pod["spec"]["nodeName"]))
    finally:
        scene.cluster.client.request("PATCH", path, {"spec": {"taints": None}}, MERGE_PATCH)


def test_a_service_of_somebody_else_holds_a_gang_back(scene: Place) -> None:
    scene.wait("it to say so", lambda: "Service sj-gang" in scene.status("gang").get("message", ""))
    assert _admitted(scene, "gang") == "NameTaken"
    assert scene.pods_ever("gang") == 0
    scene.delete("services", "sj-gang")
    scene.wait_phase("gang", "Running")


def test_a_controller_that_suspends_jobs_is_named(queued: Place) -> None:
    queued.wait("it to say so", lambda: "is suspended (spec.suspend)" in queued.status("suspended").get("message", ""))
    assert _admitted(queued, "suspended") == "CreationRefused"


def test_a_program_that_reports_no_progress_is_at_its_end(scene: Place) -> None:
    status = scene.wait_phase("hangs", "Failed")
    assert "no checkpoint reported since" in status["message"]


def _deployment() -> Object:
    labels = {"app": "ordinary"}
    apart = {"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}
    spec = {
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}},
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": ORDINARY_CPU}}}],
    }
    template = {"metadata": {"labels": labels}, "spec": spec}
    body = {"replicas": REPLICAS, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "ordinary"}, "spec": body}


def _suspend_jobs(cluster: Cluster, where: str) -> None:
    """Whatever Job is created in the namespace is suspended, as by a controller that queues Jobs."""
    rule = {"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["jobs"]}
    policy = {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "matchConstraints": {"resourceRules": [rule]},
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": f"[{SUSPEND}]"}}],
    }
    selector = {"matchLabels": {"kubernetes.io/metadata.name": where}}
    binding = {"policyName": where, "matchResources": {"namespaceSelector": selector}}
    for kind, plural, spec in (
        ("MutatingAdmissionPolicy", "mutatingadmissionpolicies", policy),
        ("MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings", binding),
    ):
        body = {"apiVersion": POLICIES[6:], "kind": kind, "metadata": {"name": where}, "spec": spec}
        cluster.client.request("POST", f"{POLICIES}/{plural}", body)
    container = {"name": "main", "image": "none"}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    probe = {"metadata": {"generateName": "probe-"}, "spec": {"template": template}}
    path = f"/apis/batch/v1/namespaces/{where}/jobs?dryRun=All"
    wait("the policy", lambda: cluster.client.request("POST", path, probe)["spec"].get("suspend"))


def _refused(place: Place) -> int:
    """Ordinary pods of which the scheduler has said that no node takes them."""
    conditions = [one for pod in place.all("pods") for one in pod["status"].get("conditions", ())]
    return sum(one["type"] == "PodScheduled" and one.get("reason") == "Unschedulable" for one in conditions)


def _elsewhere(place: Place, job: str, left: str) -> bool:
    nodes = [pod["spec"].get("nodeName") for pod in place.pods(job) if "deletionTimestamp" not in pod["metadata"]]
    return place.phase(job) == "Running" and bool(nodes) and left not in nodes


def _admitted(place: Place, job: str) -> str:
    conditions = place.status(job).get("conditions", ())
    return next((str(one["reason"]) for one in conditions if one["type"] == "Admitted"), "")
