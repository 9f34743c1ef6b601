"""The hand-written manifests agree with the contract and with themselves."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from scavenger_api import names
from scavenger_testing import manifests
from scavenger_testing.pod_security import violations

MANIFESTS = Path(__file__).resolve().parents[3] / "manifests"
OPTIONAL = {
    "board",  # decides nothing: the administrator says whether there is to be a page
    "scheduler",  # a second or the default scheduler: the administrator decides which
    "webhook",  # stands in the way of every pod and job: the administrator decides whether
    "default",
    "defaultqueue.yaml",  # needs the CRDs to be served, and the admitter acts the same without it
    "config.yaml",  # made into a ConfigMap by its kustomization
}
FILES = sorted(MANIFESTS.rglob("*.yaml"))


@cache
def documents(file: Path) -> list[dict[str, Any]]:
    return manifests.documents(file.read_text())


def objects(kind: str | None = None) -> list[dict[str, Any]]:
    found = [document for file in FILES if file.name != "kustomization.yaml" for document in documents(file)]
    # A component's configuration file is no object of the API.
    return [document for document in found if "metadata" in document and kind in (None, document["kind"])]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(MANIFESTS)))
def test_parses(file: Path) -> None:
    for document in documents(file):
        assert {"apiVersion", "kind"} <= set(document)


@pytest.mark.parametrize("file", [file for file in FILES if file.name == "kustomization.yaml"], ids=str)
def test_kustomization_lists_the_whole_folder(file: Path) -> None:
    (kustomization,) = documents(file)
    there = {
        entry.name
        for entry in file.parent.iterdir()
        if entry.name != "kustomization.yaml" and (entry.suffix == ".yaml" or (entry / "kustomization.yaml").exists())
    }

    assert set(kustomization["resources"]) == there - OPTIONAL


def test_no_object_is_declared_twice() -> None:
    keys = [(o["kind"], o["metadata"].get("namespace"), o["metadata"]["name"]) for o in objects()]

    assert len(keys) == len(set(keys))


def test_priority_classes() -> None:
    classes = {o["metadata"]["name"]: o for o in objects("PriorityClass")}

    assert {name: o["value"] for name, o in classes.items()} == names.PRIORITY_VALUES
    assert [name for name, o in classes.items() if o["globalDefault"]] == [names.PRIORITY_CLASS_ORDINARY]
    assert {name for name, o in classes.items() if o["preemptionPolicy"] == "Never"} == {
        names.PRIORITY_CLASS_PREEMPTIBLE,
        names.PRIORITY_CLASS_NON_PREEMPTIBLE,
    }


def test_system_namespace() -> None:
    assert [o["metadata"]["name"] for o in objects("Namespace")] == [names.SYSTEM_NAMESPACE]
    elsewhere = [
        o for o in objects() if o["metadata"].get("namespace", names.SYSTEM_NAMESPACE) != names.SYSTEM_NAMESPACE
    ]
    # The one Role of Kubernetes that aggregated authentication is read by can only be bound where it is, and the Leases
    # of nodes can only be read where they are.
    assert {(o["kind"], o["metadata"]["namespace"]) for o in elsewhere} <= {
        ("RoleBinding", "kube-system"),
        ("Role", "kube-node-lease"),
        ("RoleBinding", "kube-node-lease"),
    }


def test_no_role_has_wildcards_or_reads_secrets_of_others() -> None:
    for role in [*objects("ClusterRole"), *objects("Role")]:
        for rule in role["rules"]:
            words = [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
            assert "*" not in words, role["metadata"]["name"]
            own_secret = (rule.get("resourceNames"), rule["verbs"]) == (
                ["scavenger-webhook-authority"],
                ["list", "watch"],
            )
            assert "secrets" not in rule["resources"] or own_secret, role["metadata"]["name"]
            assert "persistentvolumeclaims" not in rule["resources"] or rule["verbs"] == ["get"], role["metadata"][
                "name"
            ]
            own = {names.LEVELS_CONFIGMAP, names.NODES_CONFIGMAP, names.SETTINGS_CONFIGMAP, "scavenger-regulator-state"}
            own |= {"scavenger-regulator-profiles", "extension-apiserver-authentication", *names.LAST_WORDS.values()}
            if "configmaps" in rule["resources"]:
                by_name = role["metadata"]["name"] == names.ADMITTER and rule["verbs"] == ["get"]
                assert by_name or rule["verbs"] == ["create"] or set(rule["resourceNames"]) <= own, role["metadata"]


def test_the_namespace_of_the_system_enforces_restricted_and_all_its_pods_pass() -> None:
    [namespace] = objects("Namespace")
    workloads = [*objects("Deployment"), *objects("Job")]

    assert namespace["metadata"]["labels"][names.LABEL_POD_SECURITY_ENFORCE] == "restricted"
    assert {one["metadata"]["name"] for one in workloads} >= {names.ADMITTER, names.SCHEDULER}
    for one in workloads:
        assert violations(one["spec"]["template"]["spec"]) == [], one["metadata"]["name"]


@pytest.mark.parametrize("deployment", objects("Deployment"), ids=lambda o: o["metadata"]["name"])
def test_pods_of_the_system_are_confined(deployment: dict[str, Any]) -> None:
    pod = deployment["spec"]["template"]["spec"]

    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["priorityClassName"] == "system-cluster-critical"
    for container in pod["containers"]:
        context = container["securityContext"]
        assert context["readOnlyRootFilesystem"]
        assert not context["allowPrivilegeEscalation"]
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert {"startupProbe", "livenessProbe", "readinessProbe", "resources"} <= set(container)
        assert container["livenessProbe"]["timeoutSeconds"] >= 5, "a busy node does not have it restarted"


def test_the_admitter_may_ask_for_the_capabilities_that_a_scavengerjob_may_add() -> None:
    """One list in the definition, and the same in the policies of the admitter's Jobs and pods."""
    rules = [v["expression"] for o in objects("ValidatingAdmissionPolicy") for v in o["spec"]["validations"]]
    [allowed] = {found[1] for rule in rules if (found := re.search(r"capabilities\.add\.all\(a, a in \[(.*?)\]", rule))}

    assert re.findall(r"'(\w+)'", allowed) == sorted(names.BASELINE_CAPABILITIES)
