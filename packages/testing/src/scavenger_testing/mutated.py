"""Objects as tenants may store them: complete ones of each kind that a component lists, with something odd in each.

What the API server refuses is no object. So few of the oddities are of a wrong type, and each object has one to three.
The bytes go to the API server as they are, since no encoder writes them: numbers that no float holds, halves of
characters, bytes that are no UTF-8, and nesting that ends every recursion.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from typing import Any, Final

import orjson
from scavenger_api import names

Object = dict[str, Any]

DEEPEST: Final = 9_900
"""Levels; the API server reads 10,000 (sigs.k8s.io/json)."""
WIDEST: Final = 20_000
"""Fields of one object."""
SELDOM: Final = 0.01
"""How many objects have something that makes them large or deep."""

_SPOT: Final = "__spot__"
"""Stands for what is put in as bytes."""

STRINGS: Final = (
    "",
    " ",
    "\x00",
    "\x1b[2J\x9b",
    "\u202eresu\u2066",
    "\U0001f600" * 50,
    "\ufffd\uffff\u2028",
    "a" * 4096,
    "-1",
    "007",
    "1e999",
    "9" * 400,
    "null",
    '{"a":[1,{"b":2}]}',
    "[" * 300,
    "0-99999,100001",
    "9999-12-31T23:59:59.999999999Z",
    "0000-01-01T00:00:00Z",
    "0001-01-01T00:00:00+14:00",
    "2026-02-30T25:61:61Z",
    "99999999999999999999h",
    "1h" * 500,
    "1Ei",
    "1e30",
    "1n",
    "-5",
    "../../etc",
)
"""What a field for text may have."""

NUMBERS: Final = (0, 1, -1, 2**31 - 1, 2**31, -(2**31), 2**53 + 1, 2**63 - 1, -(2**63), 1.5, 1e300, 1e-300, 600)
"""What a field for a number may have."""

TIMES: Final = (
    "9999-12-31T23:59:59Z",
    "0001-01-01T00:00:00Z",
    "0000-01-01T00:00:00Z",
    "0001-01-01T00:00:00+14:00",
    "1969-12-31T23:59:59.999999Z",
    "2026-11-29T12:00:00+00:00",
)
"""What a field for a time may have."""

QUANTITIES: Final = (
    "0",
    "1n",
    "1m",
    ".5",
    "5.",
    "1e3",
    "1E3",
    "1e-9",
    "1Ei",
    "9223372036854775807",
    "-1",
    "+1",
    "1e18",
)
"""What a field for an amount may have: no component sees another one, as the API server writes them."""

LABELS: Final = ("", "a", "0", "a" * 63, "99999999999999999999", "NaN", "True", "x.y_z-1")
"""Values that the API server takes for labels."""

RAW: Final = (b"-0.0", b'"\xff\xed\xa0\x80"', rb'"\u0000"', b'{"a":1,"a":2}', b"9" * 300, b"null", b"true")
"""Values that go in as bytes."""

NEVER: Final = (b"1e999", b"1" * 5000, rb'"\ud800"', rb'"\udc00\ud800"')
"""Such as the API server refuses, or stores as others."""

OWN: Final = tuple(
    sorted(
        {
            value
            for name, value in vars(names).items()
            if name.startswith(("ANNOTATION_", "LABEL_")) and type(value) is str
        }
    )
)
"""Keys of labels and annotations that components read."""


def _meta(**more: Any) -> Object:
    return {"name": "x", "labels": {"app": "a"}, "annotations": {"example.com/a": "b"}, **more}


_RESOURCES: Final = {"requests": {"cpu": "1", "memory": "64Mi"}, "limits": {"cpu": "2", "memory": "64Mi"}}
_CONTAINER: Final = {
    "name": "main",
    "image": "example.org/app:1",
    "command": ["run"],
    "args": ["--a", "b"],
    "env": [{"name": "A", "value": "b"}],
    "resources": _RESOURCES,
    "volumeMounts": [{"name": "v", "mountPath": "/v"}],
}
_POD: Final = {
    "containers": [_CONTAINER, {"name": "beside", "image": "example.org/b:1"}],
    "initContainers": [{"name": "init", "image": "example.org/c:1", "restartPolicy": "Always"}],
    "volumes": [{"name": "v", "emptyDir": {}}, {"name": "c", "configMap": {"name": "c"}}],
    "nodeSelector": {"zone": "a"},
    "tolerations": [{"key": "k", "operator": "Equal", "value": "v", "effect": "NoExecute", "tolerationSeconds": 60}],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
            }
        },
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "a"}}}
            ]
        },
    },
    "terminationGracePeriodSeconds": 30,
    "schedulerName": "default-scheduler",
}
_JOB: Final = {
    "queue": "default",
    "resources": {"requests": {"cpu": "1", "memory": "64Mi"}},
    "image": "example.org/app:1",
    "command": ["run"],
    "env": [{"name": "A", "value": "b"}],
    "interruptionAfter": "30m",
    "parallelism": 2,
    "priority": 0,
    "backoffLimit": 1,
    "nodeSelector": {"zone": "a"},
    "terminationGracePeriodSeconds": 30,
    "suspend": False,
    "configMaps": [{"name": "c", "mountPath": "/c"}],
}
_EVENT: Final = {
    "involvedObject": {"kind": "Pod", "namespace": "NAMESPACE", "name": "p", "uid": "u", "fieldPath": "spec"},
    "message": "MountVolume.SetUp failed",
    "type": "Warning",
    "firstTimestamp": "2026-11-29T12:00:00Z",
    "lastTimestamp": "2026-11-29T12:00:00Z",
    "count": 3,
    "source": {"component": "kubelet", "host": "n"},
}
_REASONS: Final = ("FailedMount", "FailedAttachVolume", "FailedCreate", "Preempted", "Interrupted", "Started")
_TEMPLATE: Final = {"metadata": _meta(), "spec": {**_POD, "restartPolicy": "Never"}}


_ENDED: Final = {
    "exitCode": 1,
    "reason": "Error",
    "message": "checkpoint",
    "startedAt": "2026-11-29T12:00:00Z",
    "finishedAt": "2026-11-29T12:00:00Z",
}
_CONDITION: Final = {
    "type": "Ready",
    "status": "True",
    "reason": "r",
    "message": "m",
    "lastTransitionTime": "2026-11-29T12:00:00Z",
}
_CONTAINER_STATUS: Final = {
    "name": "main",
    "image": "example.org/app:1",
    "imageID": "i",
    "ready": False,
    "restartCount": 1,
    "state": {"terminated": _ENDED},
    "lastState": {"terminated": _ENDED},
}
_POD_STATUS: Final = {
    "phase": "Failed",
    "reason": "Evicted",
    "message": "m",
    "startTime": "2026-11-29T12:00:00Z",
    "conditions": [_CONDITION, {**_CONDITION, "type": "DisruptionTarget"}, {**_CONDITION, "type": "PodScheduled"}],
    "containerStatuses": [_CONTAINER_STATUS],
    "initContainerStatuses": [{**_CONTAINER_STATUS, "name": "init"}],
}
_JOB_STATUS: Final = {
    "phase": "Running",
    "message": "m",
    "queuedTimestamp": "2026-11-29T12:00:00Z",
    "runningTimestamps": ["2026-11-29T12:00:00Z"],
    "interruptedTimestamps": ["2026-11-29T12:00:00Z"],
    "interruptedCount": 1,
    "usefulCpuSeconds": 1.5,
    "conditions": [{**_CONDITION, "type": "Admitted"}],
    "preemption": {"class": "preemptible", "runningPriority": 5},
}
_NODE_STATUS: Final = {
    "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
    "conditions": [_CONDITION],
    "nodeInfo": {"bootID": "b"},
}


def _job(chance: random.Random) -> Object:
    spec = copy.deepcopy(_JOB)
    kind = chance.choice(("gang", "array", "template"))
    if kind == "array":
        spec |= {"array": {"tasks": 5, "maxRunning": 2}}
        del spec["parallelism"]
    if kind == "template":
        template = {"metadata": _meta(), "spec": copy.deepcopy(_POD)}
        template["spec"]["containers"][0]["resources"] = copy.deepcopy(_JOB["resources"])
        template["spec"]["containers"][1]["resources"] = copy.deepcopy(_JOB["resources"])
        spec = {"queue": "default", "template": template}
    return {
        "apiVersion": names.API_VERSION,
        "kind": "ScavengerJob",
        "metadata": _meta(),
        "spec": spec,
        "status": _JOB_STATUS,
    }


SEEDS: Final[dict[str, Callable[[random.Random], Object]]] = {
    "pods": lambda _: {"apiVersion": "v1", "kind": "Pod", "metadata": _meta(), "spec": _POD, "status": _POD_STATUS},
    "jobs": lambda _: {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _meta(),
        "spec": {"parallelism": 1, "completions": 1, "suspend": True, "template": _TEMPLATE},
        "status": {"active": 1, "startTime": "2026-11-29T12:00:00Z", "conditions": [_CONDITION]},
    },
    "scavengerjobs": _job,
    "events": lambda chance: {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": _meta(),
        "reason": chance.choice(_REASONS),
        **_EVENT,
    },
    "scavengerqueues": lambda _: {
        "apiVersion": names.API_VERSION,
        "kind": "ScavengerQueue",
        "metadata": _meta(),
        "spec": {"weight": 1, "quota": {"cpu": "1", "memory": "1Gi"}},
    },
    "nodes": lambda _: {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": _meta(),
        "spec": {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}], "unschedulable": True},
        "status": _NODE_STATUS,
    },
    "namespaces": lambda _: {"apiVersion": "v1", "kind": "Namespace", "metadata": _meta()},
    "configmaps": lambda _: {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _meta(),
        "data": {"state": "Admitting", "load.cpu": "50", "observedAt": "2026-11-29T12:00:00Z"},
    },
    "leases": lambda _: {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": _meta(),
        "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": "2026-11-29T12:00:00.000000Z"},
    },
    "poddisruptionbudgets": lambda _: {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": _meta(),
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}},
    },
    "priorityclasses": lambda _: {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": _meta(),
        "value": 5,
        "description": "d",
    },
    "secrets": lambda _: {"apiVersion": "v1", "kind": "Secret", "metadata": _meta(), "data": {"tls.crt": "YQ=="}},
}
"""A complete object of each kind that a component lists, by its plural."""


def mutated(plural: str, name: str, namespace: str, chance: random.Random, *, never: float = 0.0) -> bytes:
    """One object.

    Args:
        plural: of its kind, as in `SEEDS`.
        name: of the object, which stays as it is.
        namespace: of the object, for kinds that have one, and of what it refers to.
        chance: decides what is odd.
        never: how many of the values that go in as bytes are of `NEVER`.
    """
    made: Object = copy.deepcopy(SEEDS[plural](chance))
    if "involvedObject" in made:
        made["involvedObject"]["namespace"] = namespace
    raw: list[bytes] = []
    for _ in range(chance.choice((1, 1, 2, 3))):
        chance.choice(_ODDITIES)(made, chance, raw)
    made["metadata"]["name"] = name
    if plural not in CLUSTER_SCOPED:
        made["metadata"]["namespace"] = namespace
    body = orjson.dumps(made)
    for value in raw:
        chosen = chance.choice(NEVER) if chance.random() < never else value
        body = body.replace(f'"{_SPOT}"'.encode(), chosen, 1)
    return body


CLUSTER_SCOPED: Final = ("scavengerqueues", "nodes", "namespaces", "priorityclasses")
"""The kinds of `SEEDS` without a namespace."""


# --- what may be odd ------------------------------------------------------------------------------------


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place of a value: what it is in, and its key or number there."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield value, key
        yield from _places(one)


def _leaf(made: Object, chance: random.Random, _raw: list[bytes]) -> None:
    """A value is another one of its type."""
    body = {name: value for name, value in made.items() if name not in ("metadata", "kind", "apiVersion")}
    holder, key = chance.choice([*_places(body), *_places(made["metadata"])])
    holder = made if holder is body else holder
    holder[key] = chance.choice(QUANTITIES) if key in ("cpu", "memory", "pods") else _other(holder[key], chance)


def _other(value: Any, chance: random.Random) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return chance.choice(NUMBERS)
    if isinstance(value, str):
        return chance.choice(TIMES if "T12:00:00" in value else STRINGS)
    return chance.choice((None, [], {}))


def _annotation(made: Object, chance: random.Random, _raw: list[bytes]) -> None:
    key = chance.choice((*OWN, "example.com/a"))
    _add(made, "annotations", key, chance.choice((*STRINGS, *TIMES)))


def _label(made: Object, chance: random.Random, _raw: list[bytes]) -> None:
    _add(made, "labels", chance.choice((*OWN, "example.com/a")), chance.choice(LABELS))


def _add(made: Object, field: str, key: str, value: str) -> None:
    made["metadata"][field] = {**(made["metadata"].get(field) or {}), key: value}


def _large_annotation(made: Object, chance: random.Random, _raw: list[bytes]) -> None:
    size = 200_000 if chance.random() < SELDOM else 5000
    made["metadata"]["annotations"] = {f"example.com/{number}": "\u20ac" * (size // 30) for number in range(10)}


def _unknown(made: Object, chance: random.Random, raw: list[bytes]) -> None:
    """A field that is not known: in a pod template of a ScavengerJob it stays."""
    inner = [holder[key] for holder, key in _places(made) if isinstance(holder[key], dict) and key not in _MAPS]
    holders = [made, *inner]
    chance.choice(holders)[f"x{chance.randrange(100)}"] = _SPOT
    raw.append(_nested(chance, b'{"x":') if chance.random() < 0.3 else chance.choice(RAW))


_MAPS: Final = (
    "labels",
    "annotations",
    "matchLabels",
    "nodeSelector",
    "requests",
    "limits",
    "quota",
    "allocatable",
    "data",
)
"""Objects that have any names, and text only."""


def _nested(chance: random.Random, opening: bytes) -> bytes:
    levels = chance.choice((5, 127, 128, 129, 1000)) if chance.random() > SELDOM else DEEPEST
    return opening * levels + b"{}" + b"}" * levels


def _managed_fields(made: Object, chance: random.Random, raw: list[bytes]) -> None:
    """The API server keeps what it can read of them for their managers."""
    version = made["apiVersion"] if chance.random() < 0.9 else "v99"
    entry = {"manager": chance.choice(("m", "\u202e", "")), "operation": "Update", "apiVersion": version}
    times = {"time": chance.choice(TIMES)} if chance.random() < 0.3 else {}
    made["metadata"]["managedFields"] = [{**entry, **times, "fieldsType": "FieldsV1", "fieldsV1": _SPOT}]
    raw.append(chance.choice(_FIELDS)(chance))


_FIELDS: Final[tuple[Callable[[random.Random], bytes], ...]] = (
    lambda chance: _nested(chance, b'{"f:a":'),
    lambda chance: b'{"f:\xff\xed":{},"f:b":{"f:\xc3":{}}}',
    lambda chance: rb'{"f:\u0000":{},"v:1e300":{},"v:null":{}}',
    lambda chance: b'{"f:a":{"k:{\\"x\\":99999999999999999999}":{".":{}}},"i:1":{},"i:-5":{}}',
    lambda chance: b'{"f:a":%s}' % chance.choice(RAW),
    lambda chance: _wide(WIDEST if chance.random() < SELDOM else 200),
)


def _wide(size: int) -> bytes:
    return b"{" + b",".join(b'"f:x%d":{}' % number for number in range(size)) + b"}"


_ODDITIES: Final = (_leaf, _leaf, _annotation, _label, _large_annotation, _unknown, _managed_fields, _managed_fields)
