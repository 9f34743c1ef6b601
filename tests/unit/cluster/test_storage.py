"""Which claims get a volume, where it is, and which volumes go: decided from what the API server has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from scavenger_cluster.storage import (
    PROVISIONED_BY,
    PROVISIONER,
    SELECTED_NODE,
    STORAGE,
    due,
    name_of,
    released,
    storage_class,
    volume_of,
)

NODES = ["node1", "node2"]


def claim(metadata: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """A claim that waits for its volume on node1."""
    return {
        "metadata": {
            "name": "data",
            "namespace": "n",
            "uid": "1234",
            "annotations": {SELECTED_NODE: "node1"},
            **(metadata or {}),
        },
        "spec": {
            "storageClassName": STORAGE,
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            **spec,
        },
    }


def volume(phase: str = "Released", policy: str = "Delete", by: str = PROVISIONER) -> dict[str, Any]:
    made = volume_of(claim(), Path("/somewhere"))
    made["metadata"]["annotations"] = {PROVISIONED_BY: by}
    made["spec"]["persistentVolumeReclaimPolicy"] = policy
    return {**made, "status": {"phase": phase}}


def volume_without_folder() -> dict[str, Any]:
    """One that somebody has written who may write volumes, with our annotation."""
    made = volume()
    made["spec"]["hostPath"] = made["spec"].pop("local")
    return made


def test_a_claim_is_provisioned_for_once_its_pod_has_a_node() -> None:
    assert due([claim()], NODES) == [claim()]


@pytest.mark.parametrize(
    "other",
    [
        claim({"annotations": {}}),
        claim({"annotations": {SELECTED_NODE: "fake-000"}}),
        claim({"deletionTimestamp": "2026-01-05T08:00:00Z"}),
        claim(storageClassName="other"),
        claim(storageClassName=None),
        claim(volumeName="pvc-1234"),
        claim(volumeMode="Block"),
    ],
    ids=["no node yet", "not a real node", "deleted", "another class", "no class", "has one", "a device"],
)
def test_others_are_not(other: dict[str, Any]) -> None:
    assert due([other], NODES) == []


def test_a_volume_is_the_claims_own_on_the_node_of_its_pod() -> None:
    made = volume_of(claim(), Path("/data/nodes/node1/volumes/pvc-1234"))

    assert made["metadata"]["name"] == name_of(claim()) == "pvc-1234"
    spec = made["spec"]
    assert spec["local"] == {"path": "/data/nodes/node1/volumes/pvc-1234"}
    assert (spec["claimRef"]["namespace"], spec["claimRef"]["name"], spec["claimRef"]["uid"]) == ("n", "data", "1234")
    assert (spec["capacity"], spec["accessModes"]) == ({"storage": "1Gi"}, ["ReadWriteOnce"])
    (term,) = spec["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["node1"]}]
    assert spec["storageClassName"] == storage_class()["metadata"]["name"]


def test_a_volume_goes_when_its_claim_has_gone() -> None:
    assert released([volume()]) == [volume()]


@pytest.mark.parametrize(
    "other",
    [
        volume("Bound"),
        volume("Available"),
        volume(policy="Retain"),
        volume(by="somebody.else/provisioner"),
        volume_without_folder(),
    ],
)
def test_others_stay(other: dict[str, Any]) -> None:
    assert released([other]) == []
