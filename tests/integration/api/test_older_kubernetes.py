"""What an API server says to charts and definitions that emulates the oldest version it can: three before its own.

It has the kinds, the fields and the CEL of that version and no newer ones. `make test-older` is the real thing.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from scavenger_cluster import Cluster, stack
from scavenger_cluster.build import KUBERNETES_VERSION, ensure_tools
from scavenger_cluster.errors import CommandError
from scavenger_testing.cluster_names import cluster_name
from scavenger_testing.waiting import wait

pytestmark = pytest.mark.long

ROOT: Final = Path(__file__).resolve().parents[3]
SYSTEM: Final = "scavenger-system"
OLDER: Final = f"1.{int(KUBERNETES_VERSION.split('.')[1]) - 3}"
CHARTS: Final = ("crds", "base", "admitter", "regulator", "prioritizer", "board")
ADOPT: Final = ["--set=global.adopt.enabled=true"]
VALUES: Final = {"regulator": ["--set=reclaimed.enabled=true"], **dict.fromkeys(("base", "admitter", "webhook"), ADOPT)}


@pytest.fixture(scope="module")
def older() -> Iterator[Cluster]:
    """A control plane of an older Kubernetes, as far as anybody can tell from outside, with everything installed."""
    cluster = Cluster(cluster_name("it-older"))
    try:
        emulated = [f"--emulated-version={OLDER}"]
        cluster.up("none", scheduler="stock", arguments=dict.fromkeys(("apiserver", "kcm", "scheduler"), emulated))
        cluster.kubectl("apply", "-f", str(ROOT / "manifests" / "base" / "namespace.yaml"))
        for chart in CHARTS:
            _install(cluster, chart)
        yield cluster
    finally:
        cluster.down()


def _install(cluster: Cluster, chart: str) -> None:
    words = ["upgrade", "--install", f"scavenger-{chart}", str(ROOT / "charts" / f"scavenger-{chart}")]
    words += [*VALUES.get(chart, []), f"--namespace={SYSTEM}", f"--kubeconfig={cluster.kubeconfig}"]
    words += [] if chart in ("crds", "base") else ["--set=image.registry=localhost"]
    helm = ensure_tools(["helm"], cluster.report)["helm"]
    home = {f"HELM_{name}_HOME": str(cluster.layout.root / "helm") for name in ("CACHE", "CONFIG", "DATA")}
    done = subprocess.run([helm, *words], env=os.environ | home, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{chart}: {done.stderr}"
    if chart == "crds":
        wait("the definitions to be served", lambda: stack.serves_definitions(cluster))


def _get(cluster: Cluster, *words: str) -> dict[str, Any]:
    return dict(json.loads(cluster.kubectl("get", *words, "-o", "json")))


def test_it_is_an_older_one(older: Cluster) -> None:
    """Or this would try nothing."""
    assert older.client.get("/version")["emulationMinor"] == OLDER.partition(".")[2]
    kinds = older.client.get("/apis/admissionregistration.k8s.io/v1")["resources"]
    assert not [kind for kind in kinds if kind["name"] == "mutatingadmissionpolicies"]


def test_every_expression_of_the_guard_is_typed_there(older: Cluster) -> None:
    """The API server checks the types of what it has compiled, and says in the status what it does not understand."""

    def checked() -> list[dict[str, Any]]:
        policies: list[dict[str, Any]] = _get(older, "validatingadmissionpolicies")["items"]
        return policies if all("typeChecking" in policy.get("status", {}) for policy in policies) else []

    policies = wait("the policies to be checked", checked)
    assert len(policies) > 10
    warnings = {policy["metadata"]["name"]: policy["status"]["typeChecking"] for policy in policies}
    assert {name: found for name, found in warnings.items() if found.get("expressionWarnings")} == {}


def test_definitions_refuse_there_what_they_refuse_here(older: Cluster) -> None:
    job: dict[str, Any] = {
        "apiVersion": "scavenger.dev/v1alpha1",
        "kind": "ScavengerJob",
        "metadata": {"name": "good", "namespace": "default"},
        "spec": {
            "image": "example.org/a:1",
            "parallelism": 2,
            "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
            "interruptionAfter": "30m",
        },
    }
    older.kubectl("create", "--dry-run=server", "-f", "-", input=json.dumps(job))
    job["spec"]["resources"]["limits"] = {"cpu": "500m"}
    with pytest.raises(CommandError, match="limits"):
        older.kubectl("create", "--dry-run=server", "-f", "-", input=json.dumps(job))


def test_pods_are_ranked_there_without_policies_that_change_objects(older: Cluster) -> None:
    """Last, as nobody answers for the webhook here."""
    older.kubectl("delete", "priorityclass", "ordinary-workload")  # or their classes would rank them
    _install(older, "webhook")
    asked = {entry["name"] for entry in _get(older, "mutatingwebhookconfiguration/scavenger-webhook")["webhooks"]}
    assert "pods.scavenger.dev" in asked
    assert "labelled.jobs.scavenger.dev" in asked, "there is no policy that adopts Jobs either"
