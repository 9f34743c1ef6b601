"""The manifests on a real API server: they apply, twice, and the admitter may do its work, no more."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from scavenger_api import names
from scavenger_testing.place import Server, may
from scavenger_testing.waiting import wait

if TYPE_CHECKING:
    from tests.integration.conftest import Kubectl

SYSTEM = names.SYSTEM_NAMESPACE
USERS = "default"


@pytest.fixture(scope="module")
def kubectl(api_cluster: Kubectl) -> Kubectl:
    manifests = str(Path(__file__).resolve().parents[3] / "manifests")
    api_cluster.ok("apply", "--server-side", "--force-conflicts", "-k", manifests)
    again = api_cluster.ok("apply", "--server-side", "-k", manifests)
    assert "deployment.apps/scavenger-admitter serverside-applied" in again
    return api_cluster


@pytest.mark.parametrize(
    ("allowed", "right"),
    [
        (True, ("list", "scavenger.dev", "scavengerjobs", "", "")),
        (True, ("delete", "scavenger.dev", "scavengerjobs", "", USERS)),
        (True, ("patch", "scavenger.dev", "scavengerjobs/status", "", USERS)),
        (True, ("update", "scavenger.dev", "scavengerjobs/finalizers", "", USERS)),
        (False, ("patch", "scavenger.dev", "scavengerjobs", "", USERS)),
        (False, ("create", "scavenger.dev", "scavengerjobs", "", USERS)),
        (True, ("watch", "scavenger.dev", "scavengerqueues", "", "")),
        (False, ("delete", "scavenger.dev", "scavengerqueues", "", "")),
        (True, ("create", "batch", "jobs", "", USERS)),
        (True, ("delete", "batch", "jobs", "", USERS)),
        (True, ("patch", "", "pods", "", USERS)),
        (True, ("delete", "", "pods", "", USERS)),
        (True, ("create", "", "pods", "", USERS)),
        (False, ("create", "", "pods/exec", "", USERS)),
        (False, ("create", "", "pods/eviction", "", USERS)),
        (True, ("create", "", "services", "", USERS)),
        (True, ("watch", "", "nodes", "", "")),
        (False, ("patch", "", "nodes", "", "")),
        (False, ("patch", "", "nodes/status", "", "")),
        (True, ("create", "events.k8s.io", "events", "", USERS)),
        (True, ("list", "", "events", "", USERS)),
        (False, ("list", "", "secrets", "", USERS)),
        (False, ("get", "", "secrets", "", SYSTEM)),
        (True, ("get", "", "configmaps", "", USERS)),
        (False, ("list", "", "configmaps", "", USERS)),
        (False, ("list", "", "persistentvolumeclaims", "", USERS)),
        (True, ("watch", "", "configmaps", names.LEVELS_CONFIGMAP, SYSTEM)),
        (False, ("watch", "", "configmaps", "", SYSTEM)),
        (False, ("patch", "", "configmaps", names.LEVELS_CONFIGMAP, SYSTEM)),
        (True, ("create", "coordination.k8s.io", "leases", "", SYSTEM)),
        (True, ("update", "coordination.k8s.io", "leases", names.ADMITTER, SYSTEM)),
        (False, ("update", "coordination.k8s.io", "leases", "other", SYSTEM)),
        (False, ("create", "coordination.k8s.io", "leases", "", USERS)),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else "",
)
@pytest.mark.usefixtures("kubectl")
def test_rights_of_the_admitter(server: Server, allowed: bool, right: tuple[str, str, str, str, str]) -> None:
    """Verb, group, resource, name and namespace."""
    if allowed:  # the API server hears of roles and bindings by watches
        wait("the right", lambda: may(server, "admitter", *right))
    else:
        assert not may(server, "admitter", *right)


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
