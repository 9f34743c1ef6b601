"""The manifests on a real API server: they apply, twice, and the admitter may do its work, no more."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from scavenger_api import names
from scavenger_testing.waiting import wait

if TYPE_CHECKING:
    from tests.integration.conftest import Kubectl

ADMITTER = f"system:serviceaccount:{names.SYSTEM_NAMESPACE}:{names.ADMITTER}"
SYSTEM = f"--namespace={names.SYSTEM_NAMESPACE}"


@pytest.fixture(scope="module")
def kubectl(api_cluster: Kubectl) -> Kubectl:
    manifests = str(Path(__file__).resolve().parents[3] / "manifests")
    api_cluster.ok("apply", "--server-side", "--force-conflicts", "-k", manifests)
    again = api_cluster.ok("apply", "--server-side", "-k", manifests)
    assert "deployment.apps/scavenger-admitter serverside-applied" in again
    return api_cluster


@pytest.mark.parametrize(
    ("allowed", "words"),
    [
        (True, ("list", "scavengerjobs.scavenger.dev", "--all-namespaces")),
        (True, ("delete", "scavengerjobs.scavenger.dev")),
        (True, ("patch", "scavengerjobs.scavenger.dev", "--subresource=status")),
        (True, ("update", "scavengerjobs.scavenger.dev", "--subresource=finalizers")),
        (False, ("patch", "scavengerjobs.scavenger.dev")),
        (False, ("create", "scavengerjobs.scavenger.dev")),
        (True, ("watch", "scavengerqueues.scavenger.dev")),
        (False, ("delete", "scavengerqueues.scavenger.dev")),
        (True, ("create", "jobs.batch")),
        (True, ("delete", "jobs.batch")),
        (True, ("patch", "pods")),
        (True, ("delete", "pods")),
        (True, ("create", "pods")),
        (False, ("create", "pods", "--subresource=exec")),
        (False, ("create", "pods", "--subresource=eviction")),
        (True, ("create", "services")),
        (True, ("watch", "nodes")),
        (False, ("patch", "nodes")),
        (False, ("patch", "nodes", "--subresource=status")),
        (True, ("create", "events.events.k8s.io")),
        (True, ("list", "events")),
        (False, ("list", "secrets")),
        (False, ("get", "secrets", SYSTEM)),
        (True, ("get", "configmaps")),
        (False, ("list", "configmaps")),
        (False, ("list", "persistentvolumeclaims")),
        (True, ("watch", f"configmaps/{names.LEVELS_CONFIGMAP}", SYSTEM)),
        (False, ("watch", "configmaps", SYSTEM)),
        (False, ("patch", f"configmaps/{names.LEVELS_CONFIGMAP}", SYSTEM)),
        (True, ("create", "leases.coordination.k8s.io", SYSTEM)),
        (True, ("update", f"leases.coordination.k8s.io/{names.ADMITTER}", SYSTEM)),
        (False, ("update", "leases.coordination.k8s.io/other", SYSTEM)),
        (False, ("create", "leases.coordination.k8s.io")),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else "",
)
def test_rights_of_the_admitter(kubectl: Kubectl, allowed: bool, words: tuple[str, ...]) -> None:
    def answer() -> str:
        return kubectl("auth", "can-i", f"--as={ADMITTER}", *words).stdout.strip()

    if allowed:  # the API server hears of roles and bindings by watches
        wait("the right", lambda: answer() == "yes")
    else:
        assert answer() == "no"


def test_priority_classes_have_the_values_of_the_contract(kubectl: Kubectl) -> None:
    for name, value in names.PRIORITY_VALUES.items():
        stored = kubectl.get("priorityclass", name)
        assert stored["value"] == value
        assert stored.get("globalDefault", False) == (name == names.PRIORITY_CLASS_ORDINARY)
        assert (stored["preemptionPolicy"] == "Never") == (name != names.PRIORITY_CLASS_ORDINARY)


def test_who_may_edit_jobs_may_edit_scavenger_jobs_but_not_their_status(kubectl: Kubectl) -> None:
    labels = kubectl.get("clusterrole", "scavenger-jobs-edit")["metadata"]["labels"]
    assert labels["rbac.authorization.k8s.io/aggregate-to-edit"] == "true"
    assert "scavengerjobs/status" not in str(kubectl.get("clusterrole", "scavenger-jobs-edit")["rules"])
