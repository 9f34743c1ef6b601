"""Requests and facts, with only what a test is about spelled out."""

from __future__ import annotations

import copy
import json
from typing import Any

from scavenger_api.queue import QueueState
from scavenger_webhook.core.models import AdmissionRequest, AdmissionResponse
from scavenger_webhook.core.review import review
from scavenger_webhook.core.snapshot import Facts, NodeFacts, PriorityClassFacts, QueueFacts, Rules

Object = dict[str, Any]

GI = 2**30
RESOURCES = {"pods": "", "resourcequotas": "", "scavengerjobs": "scavenger.dev", "jobs": "batch"}


def facts(**changed: Any) -> Facts:
    """A cluster with two nodes, some queues and the classes of the base chart."""
    given: dict[str, Any] = {
        "queues": {
            "open": QueueFacts("open"),
            "closed": QueueFacts("closed", QueueState.CLOSED),
            "going": QueueFacts("going", QueueState.RELEASING),
            "small": QueueFacts("small", quota={"cpu": 2000, "memory": GI}),
        },
        "nodes": (
            NodeFacts("thin", {"size": "s"}, {"cpu": 16_000, "memory": 8 * GI}),
            NodeFacts("wide", {"size": "l"}, {"cpu": 4_000, "memory": 64 * GI}),
        ),
        "priority_classes": {
            "ordinary-workload": PriorityClassFacts("ordinary-workload", 0),
            "low": PriorityClassFacts("low", -1500, "Never"),
        },
        **changed,
    }
    return Facts(**given)


def rules(**changed: Any) -> Facts:
    return facts(rules=Rules(**changed))


def job(**spec: Any) -> Object:
    whole = {"image": "app:1", "resources": {"requests": {"cpu": "1", "memory": "64Mi"}}, **spec}
    return {"apiVersion": "scavenger.dev/v1alpha1", "kind": "ScavengerJob", "metadata": {"name": "j"}, "spec": whole}


def pod(**spec: Any) -> Object:
    containers = [{"name": "m", "image": "n"}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": containers, **spec}}


def raw(
    resource: str, obj: Object | None, *, old: Object | None = None, operation: str = "CREATE", **more: Any
) -> Object:
    """The body of an admission request."""
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "1-2-3",
            "kind": {"group": "", "version": "v1", "kind": "X"},
            "resource": {"group": RESOURCES.get(resource, ""), "version": "v1", "resource": resource},
            "namespace": "ns",
            "name": "x",
            "operation": operation,
            "userInfo": {"username": "researcher", "groups": ["a"], "extra": {"k": ["v"]}},
            "object": obj,
            "oldObject": old,
            "dryRun": False,
            "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
            **more,
        },
    }


def request(*args: Any, **more: Any) -> AdmissionRequest:
    return AdmissionRequest.model_validate_json(json.dumps(raw(*args, **more)["request"]))


def answer_to(resource: str, obj: Object | None, known: Facts | None = None, **more: Any) -> AdmissionResponse:
    return review(request(resource, obj, **more), known or facts())


def problems(response: AdmissionResponse) -> dict[str, str]:
    """Field and message of everything that is wrong."""
    details = response.status.details if response.status else None
    return {cause.field: cause.message for cause in details.causes} if details else {}


def patched(obj: Object, response: AdmissionResponse) -> Object:
    """The object with the response's patch applied, as the API server does it (RFC 6902 `add`)."""
    found = copy.deepcopy(obj)
    for operation in response.operations():
        assert operation["op"] == "add"
        *path, last = operation["path"].lstrip("/").split("/")
        target: Any = found
        last = last.replace("~1", "/")
        for part in path:
            target = target[part]
        if last == "-":
            target.append(operation["value"])
        else:
            target[last] = operation["value"]
    return found
