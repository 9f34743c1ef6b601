"""The hand-written manifests agree with the contract and with themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from scavenger_api import names

MANIFESTS = Path(__file__).resolve().parents[3] / "manifests"
FILES = sorted(MANIFESTS.rglob("*.yaml"))


def objects(kind: str | None = None) -> list[dict[str, Any]]:
    found = [
        document
        for file in FILES
        if file.name != "kustomization.yaml"
        for document in yaml.safe_load_all(file.read_text())
    ]
    return [document for document in found if kind in (None, document["kind"])]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(MANIFESTS)))
def test_parses(file):
    for document in yaml.safe_load_all(file.read_text()):
        assert {"apiVersion", "kind"} <= set(document)


@pytest.mark.parametrize("file", [file for file in FILES if file.name == "kustomization.yaml"], ids=str)
def test_kustomization_lists_the_whole_folder(file):
    listed = set(yaml.safe_load(file.read_text())["resources"])
    there = {
        entry.name
        for entry in file.parent.iterdir()
        if entry.name != "kustomization.yaml" and (entry.suffix == ".yaml" or (entry / "kustomization.yaml").exists())
    }

    assert listed == there


def test_no_object_is_declared_twice():
    keys = [(o["kind"], o["metadata"].get("namespace"), o["metadata"]["name"]) for o in objects()]

    assert len(keys) == len(set(keys))


def test_priority_classes():
    classes = {o["metadata"]["name"]: o for o in objects("PriorityClass")}

    assert {name: o["value"] for name, o in classes.items()} == names.PRIORITY_VALUES
    assert [name for name, o in classes.items() if o["globalDefault"]] == [names.PRIORITY_CLASS_ORDINARY]
    assert {name for name, o in classes.items() if o["preemptionPolicy"] == "Never"} == {
        names.PRIORITY_CLASS_PREEMPTIBLE,
        names.PRIORITY_CLASS_NON_PREEMPTIBLE,
    }


def test_system_namespace():
    assert [o["metadata"]["name"] for o in objects("Namespace")] == [names.SYSTEM_NAMESPACE]
    assert {o["metadata"].get("namespace", names.SYSTEM_NAMESPACE) for o in objects()} == {names.SYSTEM_NAMESPACE}


def test_no_role_has_wildcards_or_reads_secrets():
    for role in [*objects("ClusterRole"), *objects("Role")]:
        for rule in role["rules"]:
            words = [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
            assert "*" not in words, role["metadata"]["name"]
            assert not {"secrets", "persistentvolumeclaims"} & set(rule["resources"]), role["metadata"]["name"]
            assert "configmaps" not in rule["resources"] or rule["resourceNames"] == [names.LEVELS_CONFIGMAP]


@pytest.mark.parametrize("deployment", objects("Deployment"), ids=lambda o: o["metadata"]["name"])
def test_pods_of_the_system_are_confined(deployment):
    pod = deployment["spec"]["template"]["spec"]

    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["priorityClassName"] == "system-cluster-critical"
    for container in pod["containers"]:
        context = container["securityContext"]
        assert context["readOnlyRootFilesystem"]
        assert not context["allowPrivilegeEscalation"]
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert {"livenessProbe", "readinessProbe", "resources"} <= set(container)
