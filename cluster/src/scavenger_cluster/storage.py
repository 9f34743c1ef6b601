"""Volumes on the disks of real nodes: a StorageClass, and what its provisioner decides. Pure but for `register`.

As Rancher's local-path-provisioner does: a claim waits for its first pod; when the scheduler has chosen the pod's node,
there is a folder for it there and a `local` PersistentVolume that is bound to the node. All other pods of the claim run
on that node. When the claim is deleted, folder and volume go.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from scavenger_cluster.api import ApiClient
from scavenger_cluster.layout import Layout

STORAGE: Final = "local-path"
"""The StorageClass, and the process."""
PROVISIONER: Final = "scavenger-cluster/local-path"
CLASS: Final = f"/apis/storage.k8s.io/v1/storageclasses/{STORAGE}"
VOLUMES: Final = "/api/v1/persistentvolumes"
CLAIMS: Final = "/api/v1/persistentvolumeclaims"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
"""Where the scheduler writes which node the first pod of a claim goes to (k8s.io/component-helpers storage/volume)."""
PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
"""Says to the controller manager that somebody else deletes such a volume."""

Object = dict[str, Any]


def storage_class() -> Object:
    """The cluster's default: what a claim gets that names no class."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": STORAGE, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": PROVISIONER,
        "volumeBindingMode": "WaitForFirstConsumer",
        "reclaimPolicy": "Delete",
    }


def register(client: ApiClient) -> None:
    """Make the StorageClass known."""
    client.apply(CLASS, storage_class())


def due(claims: Iterable[Object], nodes: Sequence[str]) -> list[Object]:
    """The claims that wait for a volume on one of these nodes."""
    return [
        claim
        for claim in claims
        if claim["spec"].get("storageClassName") == STORAGE
        and claim["spec"].get("volumeMode", "Filesystem") == "Filesystem"
        and not claim["spec"].get("volumeName")
        and "deletionTimestamp" not in claim["metadata"]
        and node_of(claim) in nodes
    ]


def released(volumes: Iterable[Object]) -> list[Object]:
    """The volumes of ours whose claim is gone, and that nobody keeps."""
    return [
        volume
        for volume in volumes
        if volume["metadata"].get("annotations", {}).get(PROVISIONED_BY) == PROVISIONER
        and volume.get("status", {}).get("phase") == "Released"
        and volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete"
        and "local" in volume["spec"]
    ]


def node_of(claim: Object) -> str:
    """The node that the scheduler has chosen; empty before it has."""
    return str(claim["metadata"].get("annotations", {}).get(SELECTED_NODE, ""))


def volume_of(claim: Object, folder: Path) -> Object:
    """The volume of a claim: that folder, on the node that was chosen."""
    metadata, spec = claim["metadata"], claim["spec"]
    at = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node_of(claim)]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name_of(claim), "annotations": {PROVISIONED_BY: PROVISIONER}},
        "spec": {
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "accessModes": spec["accessModes"],
            "storageClassName": STORAGE,
            "persistentVolumeReclaimPolicy": "Delete",
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
            },
            "local": {"path": str(folder)},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [at]}]}},
        },
    }


def name_of(claim: Object) -> str:
    """The name of the volume of a claim, and of its folder: there is never another of that name."""
    return f"pvc-{claim['metadata']['uid']}"


def folders(layout: Layout, node: str) -> Path:
    """Where the volumes of a node are: in its folder, which goes with it."""
    return layout.node(node) / "volumes"
