"""What an admission policy of the cluster adds to pods, on a real API server, before the first pod of its kind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from scavenger_kube.resources import MERGE_PATCH

from .conftest import Place

pytestmark = pytest.mark.timeout(600)

POLICIES = "/apis/admissionregistration.k8s.io/v1"
TAINT = {"key": "example.org/pool", "value": "lab", "effect": "NoSchedule"}
TOLERATION = 'Object.spec.tolerations{key: "example.org/pool", operator: "Exists", effect: "NoSchedule"}'
ADD = (
    'has(object.spec.tolerations) ? JSONPatch{op: "add", path: "/spec/tolerations/-", value: ' + TOLERATION + "} : "
    'JSONPatch{op: "add", path: "/spec/tolerations", value: [' + TOLERATION + "]}"
)
POLICY: dict[str, Any] = {
    "failurePolicy": "Fail",
    "reinvocationPolicy": "Never",
    "matchConstraints": {
        "resourceRules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]},
        ]
    },
    "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": f"[{ADD}]"}}],
}


@pytest.fixture
def set_apart(place: Place) -> Iterator[str]:
    """The name of a node with a taint that nothing tolerates."""
    client = place.cluster.client
    name = sorted(node["metadata"]["name"] for node in client.get("/api/v1/nodes")["items"])[-1]
    client.request("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": [TAINT]}}, MERGE_PATCH)
    yield name
    client.request("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": None}}, MERGE_PATCH)


@pytest.fixture
def tolerating(place: Place) -> Iterator[None]:
    """A policy that has the pods of this namespace tolerate the taint."""
    client, name = place.cluster.client, f"tolerate-{place.namespace}"
    selector = {"matchLabels": {"kubernetes.io/metadata.name": place.namespace}}
    for kind, spec in (
        ("MutatingAdmissionPolicy", POLICY),
        ("MutatingAdmissionPolicyBinding", {"policyName": name, "matchResources": {"namespaceSelector": selector}}),
    ):
        plural = "mutatingadmissionpolicies" if kind.endswith("Policy") else "mutatingadmissionpolicybindings"
        body = {"apiVersion": POLICIES[6:], "kind": kind, "metadata": {"name": name}, "spec": spec}
        client.request("POST", f"{POLICIES}/{plural}", body)
    yield
    for plural in ("mutatingadmissionpolicybindings", "mutatingadmissionpolicies"):
        client.delete(f"{POLICIES}/{plural}/{name}")


@pytest.mark.long
def test_the_first_job_of_a_kind_takes_the_node_that_a_policy_opens_for_it(
    place: Place, set_apart: str, tolerating: None
) -> None:
    place.submit("first", "second", node=set_apart)
    for name in ("first", "second"):
        place.wait_phase(name, "Running")
    (pod,) = place.pods("first")
    assert pod["spec"]["nodeName"] == set_apart
    assert "example.org/pool" in {one.get("key") for one in pod["spec"]["tolerations"]}
    assert place.started() == 2, "and no start was in vain"


@pytest.mark.long
def test_without_the_policy_the_job_waits_and_no_pod_is_made(place: Place, set_apart: str) -> None:
    place.submit("waits", node=set_apart)
    place.wait("it to say why", lambda: "taint" in place.status("waits").get("message", ""))
    assert place.pods_ever("waits") == 0
