"""Objects for tests, with only what the test is about spelled out.

`*_dict` return manifests as the API server would store them (for the fake server, or a real one); the others
the projections of `scavenger_kube.kinds`.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from scavenger_api import names
from scavenger_kube import kinds

Quantities = Mapping[str, str]

_numbers = itertools.count(1)

CREATED = "2026-01-05T08:00:00Z"


def metadata(
    name: str,
    *,
    namespace: str | None = "default",
    uid: str | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    owner: Mapping[str, Any] | None = None,
    finalizers: Sequence[str] = (),
    created: str = CREATED,
    deleted: str | None = None,
    resource_version: str | None = None,
    generation: int | None = None,
) -> dict[str, Any]:
    """metadata of any object; namespace None for cluster-scoped ones. owner: an object that controls this one."""
    found = {
        "name": name,
        "namespace": namespace,
        "uid": uid or f"00000000-0000-4000-8000-{next(_numbers):012d}",
        "resourceVersion": resource_version,
        "generation": generation,
        "creationTimestamp": created,
        "deletionTimestamp": deleted,
        "labels": dict(labels or {}) or None,
        "annotations": dict(annotations or {}) or None,
        "ownerReferences": [owner_reference(owner)] if owner else None,
        "finalizers": list(finalizers) or None,
    }
    return {key: value for key, value in found.items() if value is not None}


def owner_reference(owner: Mapping[str, Any]) -> dict[str, Any]:
    """The reference by which `owner` controls an object."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"].get("uid", ""),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def pod_dict(
    name: str = "pod",
    *,
    node: str | None = None,
    cpu: str = "1",
    memory: str = "1Gi",
    requests: Quantities | None = None,
    limits: Quantities | None = None,
    phase: str = "Pending",
    priority_class: str | None = None,
    priority: int | None = None,
    scheduler: str = "default-scheduler",
    node_selector: Mapping[str, str] | None = None,
    tolerations: Sequence[Mapping[str, Any]] = (),
    conditions: Sequence[Mapping[str, Any]] = (),
    container_statuses: Sequence[Mapping[str, Any]] = (),
    reason: str | None = None,
    message: str | None = None,
    nominated_node: str | None = None,
    started: str | None = None,
    grace_seconds: int = 30,
    **meta: Any,
) -> dict[str, Any]:
    """A pod of one container. cpu, memory: its requests and limits, unless `requests` and `limits` say otherwise.
    started: its startTime; where it is Running and no container_statuses are given, the container started then as well.
    """
    if phase == "Running" and started is not None and not container_statuses:
        container_statuses = [running(started=started)]
    asked = dict(requests if requests is not None else {"cpu": cpu, "memory": memory})
    spec = {
        "containers": [
            {
                "name": "main",
                "image": "example.org/app:1",
                "resources": {"requests": asked, "limits": dict(limits if limits is not None else asked)},
            }
        ],
        "restartPolicy": "Never",
        "nodeName": node,
        "priorityClassName": priority_class,
        "priority": priority,
        "schedulerName": scheduler,
        "nodeSelector": dict(node_selector or {}) or None,
        "tolerations": [dict(toleration) for toleration in tolerations] or None,
        "terminationGracePeriodSeconds": grace_seconds,
    }
    status = {
        "phase": phase,
        "reason": reason,
        "message": message,
        "conditions": [dict(condition) for condition in conditions] or None,
        "containerStatuses": [dict(one) for one in container_statuses] or None,
        "nominatedNodeName": nominated_node,
        "startTime": started,
    }
    return _object("v1", "Pod", metadata(name, **meta), spec=_without_none(spec), status=_without_none(status))


def pod(name: str = "pod", **fields: Any) -> kinds.Pod:
    """A pod as an informer holds it. fields: as for `pod_dict`."""
    return msgspec.convert(pod_dict(name, **fields), kinds.Pod)


def node_dict(
    name: str = "node",
    *,
    cpu: str = "8",
    memory: str = "32Gi",
    pods: str = "110",
    allocatable: Quantities | None = None,
    ready: bool = True,
    unschedulable: bool = False,
    taints: Sequence[Mapping[str, str]] = (),
    **meta: Any,
) -> dict[str, Any]:
    """A node. allocatable: in place of cpu, memory and pods."""
    room = dict(allocatable if allocatable is not None else {"cpu": cpu, "memory": memory, "pods": pods})
    spec = {"unschedulable": unschedulable or None, "taints": [dict(taint) for taint in taints] or None}
    status = {
        "allocatable": room,
        "capacity": dict(room),
        "conditions": [{"type": "Ready", "status": "True" if ready else "False", "reason": "KubeletReady"}],
    }
    meta.setdefault("labels", {"kubernetes.io/hostname": name})
    return _object("v1", "Node", metadata(name, namespace=None, **meta), spec=_without_none(spec), status=status)


def node(name: str = "node", **fields: Any) -> kinds.Node:
    """A node as an informer holds it. fields: as for `node_dict`."""
    return msgspec.convert(node_dict(name, **fields), kinds.Node)


def job_dict(
    name: str = "job",
    *,
    parallelism: int = 1,
    suspend: bool = False,
    conditions: Sequence[Mapping[str, Any]] = (),
    status: Mapping[str, Any] | None = None,
    template: Mapping[str, Any] | None = None,
    **meta: Any,
) -> dict[str, Any]:
    """An Indexed batch/v1 Job. conditions: in its status. template: its pods' template."""
    spec = {
        "parallelism": parallelism,
        "completions": parallelism,
        "completionMode": "Indexed",
        "backoffLimit": 0,
        "suspend": suspend,
        "template": dict(template or {"spec": {"restartPolicy": "Never", "containers": []}}),
    }
    found = {**(status or {}), **({"conditions": [dict(one) for one in conditions]} if conditions else {})}
    return _object("batch/v1", "Job", metadata(name, **meta), spec=spec, status=found)


def job(name: str = "job", **fields: Any) -> kinds.Job:
    """A Job as an informer holds it. fields: as for `job_dict`."""
    return msgspec.convert(job_dict(name, **fields), kinds.Job)


def scavengerjob_dict(
    name: str = "sj",
    *,
    cpu: str = "1",
    memory: str = "1Gi",
    queue: str = "default",
    parallelism: int = 1,
    image: str = "example.org/app:1",
    interruption_after: str = "30m",
    phase: str | None = None,
    status: Mapping[str, Any] | None = None,
    **fields: Any,
) -> dict[str, Any]:
    """A ScavengerJob. phase, status: its status. Other fields: metadata where `metadata` takes them, else spec."""
    meta = {key: fields.pop(key) for key in _METADATA & fields.keys()}
    amounts = {"cpu": cpu, "memory": memory}
    spec: dict[str, Any] = {
        "queue": queue,
        "image": image,
        "parallelism": parallelism,
        "interruptionAfter": interruption_after,
        "resources": {"requests": amounts, "limits": dict(amounts)},
        **fields,
    }
    found = {**(status or {}), **({"phase": phase} if phase else {})}
    return _object("scavenger.dev/v1alpha1", "ScavengerJob", metadata(name, **meta), spec=spec, status=found)


def configmap_dict(name: str = "configmap", data: Mapping[str, str] | None = None, **meta: Any) -> dict[str, Any]:
    """A ConfigMap."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(name, **meta),
        "data": dict(data or {}),
    }


def settings_dict(**data: str) -> dict[str, Any]:
    """The ConfigMap with what all components read alike. The same object each time it is stored, so that it changes."""
    return configmap_dict(
        names.SETTINGS_CONFIGMAP, data, namespace=names.SYSTEM_NAMESPACE, uid=names.SETTINGS_CONFIGMAP
    )


def condition(type: str, status: str = "True", reason: str = "", message: str = "") -> dict[str, str]:
    """A condition for pods, nodes and jobs."""
    return {
        "type": type,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": CREATED,
    }


def terminated(exit_code: int = 0, *, reason: str = "", finished: str = CREATED, name: str = "main") -> dict[str, Any]:
    """The status of a container that has ended."""
    state = {"exitCode": exit_code, "reason": reason or ("Completed" if exit_code == 0 else "Error")}
    return {"name": name, "state": {"terminated": {**state, "finishedAt": finished}}}


def running(*, started: str = CREATED, ready: bool = True, name: str = "main") -> dict[str, Any]:
    """The status of a container that runs."""
    return {"name": name, "ready": ready, "state": {"running": {"startedAt": started}}}


def waiting(reason: str, message: str = "", *, name: str = "main") -> dict[str, Any]:
    """The status of a container that does not run yet, e.g. ImagePullBackOff."""
    return {"name": name, "state": {"waiting": {"reason": reason, "message": message}}}


_METADATA = frozenset(metadata.__kwdefaults__ or ())


def _object(version: str, kind: str, meta: dict[str, Any], **parts: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": meta, **parts}


def _without_none(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}


def adopted_job_dict(
    name: str = "job",
    *,
    namespace: str = "default",
    queue: str = "default",
    cpu: str = "1",
    memory: str = "1Gi",
    annotations: Mapping[str, str] | None = None,
    created: str = CREATED,
    pod: Mapping[str, Any] | None = None,
    uid: str | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A Job of a user that the admitter has, with what the API server fills in (pkg/registry/batch/job/strategy.go).

    pod: over the spec of its pods. spec: of the Job, over that of one pod that runs once.
    """
    uid = uid or f"00000000-0000-4000-8000-{next(_numbers):012d}"
    labels = {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "job-name": name,
    }
    asked = {"cpu": cpu, "memory": memory}
    container = {"name": "work", "image": "example.org/app:1", "resources": {"requests": asked, "limits": asked}}
    template = {"restartPolicy": "Never", "containers": [container], "terminationGracePeriodSeconds": 30, **(pod or {})}
    defaults = {"completions": 1, "parallelism": 1, "completionMode": "NonIndexed", "backoffLimit": 6, "suspend": False}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata(
            name,
            namespace=namespace,
            uid=uid,
            labels={names.LABEL_QUEUE: queue, **labels},
            annotations=annotations,
            created=created,
            generation=1,
        ),
        "spec": {
            **defaults,
            "managedBy": names.MANAGED_BY_ADOPTER,
            "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}},
            "template": {"metadata": {"labels": labels}, "spec": template},
            **spec,
        },
        "status": {},
    }
