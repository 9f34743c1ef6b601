"""The option that keeps scavenger pods out of the quotas of namespaces."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from scavenger_cluster import Cluster, admission, stack
from scavenger_testing.place import Object, Place, job, pod


def quota(name: str, **hard: str) -> Object:
    limits = {key.replace("_", "."): value for key, value in hard.items()}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}, "spec": {"hard": limits}}


@pytest.fixture
def option(cluster: Cluster) -> Iterator[None]:
    """The chart's configurations with `admission.quotas`, and those of the manifests again afterwards."""
    values = (stack.NO_IMAGE, stack.NO_AUTHORITY, "--set=admission.quotas=true")
    admission.apply(
        cluster, stack.rendered("scavenger-webhook", cluster.report, *values, templates=("configurations",))
    )
    yield
    admission.activate(cluster, stack.MANIFESTS / "webhook")


@pytest.mark.usefixtures("webhook", "option")
def test_a_full_quota_holds_ordinary_pods_back_and_no_scavenger_job(place: Place) -> None:
    place.wait(
        "the webhook is asked about quotas",
        lambda: "scopeSelector" in place.try_create("resourcequotas", quota("q", pods="0")).body["spec"],
    )
    assert place.create("resourcequotas", quota("none", pods="0")).allowed
    place.wait("the quota counts", lambda: "hard" in place.get("resourcequotas", "none").get("status", {}))
    place.wait("ordinary pods are held back", lambda: "exceeded quota" in place.try_create("pods", pod()).message)
    assert place.create("scavengerjobs", job("past-the-quota")).allowed
    place.wait(
        "the scavenger job runs",
        lambda: place.get("scavengerjobs", "past-the-quota").get("status", {}).get("phase") == "Running",
    )
    whole = place.try_create("resourcequotas", quota("gpus", pods="1", **{"requests.nvidia.com/gpu": "1"}))
    assert whole.allowed
    assert "scopeSelector" in whole.body["spec"]
    assert whole.body["metadata"]["annotations"] == {"scavenger.dev/quota-scope": "added"}
    disk = place.try_create("resourcequotas", quota("disk", pods="1", **{"requests.ephemeral-storage": "1Gi"}))
    assert disk.allowed, disk.message
    assert "move requests.ephemeral-storage into" in disk.warnings[0]
    mixed = place.try_create("resourcequotas", quota("mixed", pods="1", services="1"))
    assert mixed.allowed
    assert mixed.warnings == ["scavenger pods count in this quota: move services into a ResourceQuota of their own"]
