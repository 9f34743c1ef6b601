"""Nothing in charts and manifests is newer than the oldest Kubernetes that they say they are for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from scavenger_cluster.build import PINNED_KUBERNETES
from scavenger_testing.manifests import documents

from tests.charts.test_charts import CHARTS, EVERYTHING, USERS_OF_THE_LIBRARY, Chart

ROOT = Path(__file__).resolve().parents[2]

SINCE: Final = {
    "admissionregistration.k8s.io/v1 MutatingWebhookConfiguration": 16,
    "admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy": 30,
    "admissionregistration.k8s.io/v1 ValidatingAdmissionPolicyBinding": 30,
    "admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration": 16,
    "apiextensions.k8s.io/v1 CustomResourceDefinition": 16,
    "apps/v1 Deployment": 9,
    "batch/v1 Job": 2,
    "flowcontrol.apiserver.k8s.io/v1 FlowSchema": 29,
    "flowcontrol.apiserver.k8s.io/v1 PriorityLevelConfiguration": 29,
    "networking.k8s.io/v1 NetworkPolicy": 7,
    "policy/v1 PodDisruptionBudget": 21,
    "rbac.authorization.k8s.io/v1 ClusterRole": 8,
    "rbac.authorization.k8s.io/v1 ClusterRoleBinding": 8,
    "rbac.authorization.k8s.io/v1 Role": 8,
    "rbac.authorization.k8s.io/v1 RoleBinding": 8,
    "scheduling.k8s.io/v1 PriorityClass": 14,
    "v1 ConfigMap": 0,
    "v1 Namespace": 0,
    "v1 Secret": 0,
    "v1 Service": 0,
    "v1 ServiceAccount": 0,
}
"""The minor version of Kubernetes that has a kind in this version for everybody. A MutatingAdmissionPolicy (36) is only
there where helm finds such in the cluster, or is told so.
"""

OURS: Final = ("scavenger.dev/", "monitoring.coreos.com/", "cert-manager.io/", "kustomize.config.k8s.io/")


def oldest(name: str) -> int:
    """The minor version that a chart is for at the least."""
    text = (ROOT / "charts" / f"scavenger-{name}" / "Chart.yaml").read_text()
    found = re.search(r'^kubeVersion: ">=1\.(\d+)\.0-0"', text, re.MULTILINE)
    assert found, name
    return int(found[1])


def kinds(objects: Iterator[dict[str, Any]]) -> set[str]:
    found = {f"{object_['apiVersion']} {object_['kind']}" for object_ in objects}
    return {kind for kind in found if not kind.startswith(OURS)}


def settings(name: str, minor: int) -> list[dict[str, Any]]:
    """Values of a chart with which it renders, as little and as much as there is."""
    if name == "scheduler":
        return [{"kubernetesVersion": f"1.{minor}"}]
    return [{}, EVERYTHING] if name in USERS_OF_THE_LIBRARY else [{}]


@pytest.mark.parametrize("name", [path.name.removeprefix("scavenger-") for path in CHARTS])
def test_a_chart_has_nothing_newer_than_the_oldest_cluster_that_it_is_for(helm: Path, name: str) -> None:
    minor = oldest(name)
    cluster = ("--kube-version", f"1.{minor}.0")
    chart = Chart(helm, name)
    for values in settings(name, minor):
        used = kinds(iter(chart.objects(values, more=cluster).values()))
        assert {kind: SINCE[kind] for kind in used if SINCE[kind] > minor} == {}


def test_all_services_and_definitions_are_for_the_same_clusters() -> None:
    names = {path.name.removeprefix("scavenger-") for path in CHARTS} - {"scheduler"}
    assert {oldest(name) for name in names} == {33}


@pytest.mark.parametrize(
    "folder", sorted(path.parent.name for path in (ROOT / "manifests").glob("*/kustomization.yaml"))
)
def test_manifests_have_nothing_newer(folder: str) -> None:
    found = (
        document for file in (ROOT / "manifests" / folder).glob("*.yaml") for document in documents(file.read_text())
    )
    assert {kind: SINCE[kind] for kind in kinds(found) if SINCE[kind] > 33} == {}


def test_the_scheduler_is_not_newer_than_the_cluster(helm: Path) -> None:
    chart = Chart(helm, "scheduler")
    minor = int(PINNED_KUBERNETES.split(".")[1])
    here, before = ("--kube-version", f"1.{minor}.0"), ("--kube-version", f"1.{minor - 1}.9")
    assert chart.objects(more=here)
    refused = chart.run("template", {}, *before)
    assert refused.returncode != 0
    said = f"image of the scheduler is for Kubernetes 1.{minor} and newer, and this cluster has v1.{minor - 1}.9"
    assert said in refused.stderr
    assert chart.objects({"kubernetesVersion": f"1.{minor - 1}"}, more=before)


def test_older_versions_of_the_scheduler_are_those_that_its_chart_is_for() -> None:
    built = re.search(r"set -- (.*)", (ROOT / "services/scheduler/matrix.sh").read_text())
    assert built
    assert min(int(version.split(".")[1]) for version in built[1].split()) == oldest("scheduler")
