"""What others add to pods of jobs, on real kubelets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest
from scavenger_testing.world import IMAGE, World, scavenger_job

pytestmark = pytest.mark.real

POLICIES: Final = "/apis/admissionregistration.k8s.io/v1"
SIDECAR: Final = (
    f'Object.spec.containers{{name: "proxy", image: "{IMAGE}", imagePullPolicy: "IfNotPresent", '
    'command: ["python3", "-c", "import time; time.sleep(3600)"], '
    'resources: Object.spec.containers.resources{requests: {"cpu": "10m", "memory": "32Mi"}, '
    'limits: {"cpu": "10m", "memory": "32Mi"}}}'
)
ADD: Final = f'JSONPatch{{op: "add", path: "/spec/containers/-", value: {SIDECAR}}}'


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
