"""The CRDs on a real API server: one bad manifest per rule, and good ones."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from pydantic.alias_generators import to_camel
from scavenger_api import names
from scavenger_api.job import ScavengerJob, ScavengerJobSpec
from scavenger_api.queue import ScavengerQueue
from scavenger_api.times import format_micro_time, format_time
from scavenger_testing.place import MASTERS, MERGE_PATCH, Object, Server, account, path_of

if TYPE_CHECKING:
    from tests.integration.conftest import Kubectl

REMOVED = object()
Manifest = dict[str, Any]

AS_ADMITTER = (f"--as=system:serviceaccount:{names.SYSTEM_NAMESPACE}:{names.ADMITTER}", "--as-group=system:masters")
"""Nobody else writes a status: the guard sees to it."""

MINIMAL_JOB: Manifest = {
    "apiVersion": "scavenger.dev/v1alpha1",
    "kind": "ScavengerJob",
    "metadata": {"name": "minimal"},
    "spec": {"image": "example/app:1", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}},
}

FULL_JOB: Manifest = {
    "apiVersion": "scavenger.dev/v1alpha1",
    "kind": "ScavengerJob",
    "metadata": {"name": "f" * names.MAX_NAME_LENGTH},
    "spec": {
        "queue": "night-shift",
        "image": "example.org:5000/group/app@sha256:" + "0" * 64,
        "imagePullPolicy": "IfNotPresent",
        "imagePullSecrets": [{"name": "registry.credentials"}],
        "command": ["python3", "-u"],
        "args": ["counter.py", "--steps=10"],
        "env": [
            {"name": "PLAIN", "value": "1"},
            {"name": "EMPTY"},
            {"name": "BOTH", "value": "", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "FROM_CONFIG", "valueFrom": {"configMapKeyRef": {"name": "a", "key": "k"}}},
            {
                "name": "FROM_SECRET",
                "valueFrom": {"secretKeyRef": {"name": "a", "key": "k", "optional": True}},
            },
            {
                "name": "FROM_RESOURCE",
                "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": 1}},
            },
        ],
        "envFrom": [{"configMapRef": {"name": "a"}}, {"prefix": "S_", "secretRef": {"name": "b"}}],
        "serviceAccountName": "researcher",
        "nodeSelector": {"kubernetes.io/arch": "amd64"},
        "tolerations": [
            {"operator": "Exists"},
            {"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"},
            {"key": "gone", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60},
        ],
        "resources": {
            "requests": {"cpu": 1, "memory": "1Gi", "ephemeral-storage": "1e9", "nvidia.com/gpu": 1},
            "limits": {"cpu": "1000m", "memory": "2.1Gi", "hugepages-2Mi": "4Mi"},
        },
        "priority": -10,
        "parallelism": 4,
        "persistentVolumeClaims": [
            {"name": "data", "mountPath": "/data", "subPath": "run/..7", "readOnly": False},
            {"name": "data", "mountPath": "/again"},
        ],
        "configMaps": [{"name": "settings", "mountPath": "/etc/settings", "readOnly": True}],
        "secrets": [{"name": "token", "mountPath": "/etc/token"}],
        "runAsUser": 1000,
        "runAsGroup": 1000,
        "fsGroup": 0,
        "securityContext": {
            "runAsNonRoot": True,
            "allowPrivilegeEscalation": False,
            "privileged": False,
            "readOnlyRootFilesystem": True,
            "seccompProfile": {"type": "Localhost", "localhostProfile": "profiles/app.json"},
            "capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]},
        },
        "interruptionAfter": "1h30m",
        "terminationGracePeriodSeconds": 0,
        "checkpointExitCode": 255,
        "progressDeadlineIntervals": 3,
        "backoffLimit": 2,
        "podFailurePolicy": {
            "rules": [
                {"action": "FailJob", "onExitCodes": {"containerName": "main", "operator": "In", "values": [2]}},
                {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
            ]
        },
        "activeDeadlineSeconds": 600,
        "after": [{"job": "prepare", "when": "Completed"}, {"job": "sweep", "when": "Ended"}],
        "suspend": True,
        "ttlSecondsAfterFinished": 0,
        "capacity": "Guaranteed",
    },
}

RECLAIMED_JOB: Manifest = {
    **MINIMAL_JOB,
    "metadata": {"name": "reclaimed"},
    "spec": {
        "image": "example/app:1",
        "capacity": "Reclaimed",
        "interruptionAfter": "7d",
        "resources": {"requests": {"cpu": 0, "memory": "1Gi"}, "limits": {"cpu": 2, "memory": "1024Mi"}},
    },
}

QUEUE: Manifest = {
    "apiVersion": "scavenger.dev/v1alpha1",
    "kind": "ScavengerQueue",
    "metadata": {"name": "it-good"},
    "spec": {"weight": 3, "quota": {"cpu": "10", "memory": "0", "nvidia.com/gpu": 2}, "closed": True},
}


def changed(manifest: Manifest, edits: Mapping[str, Any]) -> Manifest:
    """A copy with dotted paths set, or removed; a number in a path is an index."""
    result = copy.deepcopy(manifest)
    for path, value in edits.items():
        *parents, last = path.split(".") if "|" not in path else path.split("|")
        target: Any = result
        for part in parents:
            target = target[int(part)] if isinstance(target, list) else target.setdefault(part, {})
        if value is REMOVED:
            del target[last]
        else:
            target[last] = copy.deepcopy(value)
    return result


def job(**spec: Any) -> dict[str, Any]:
    return {f"spec.{name}": value for name, value in spec.items()}


SAVED: dict[str, Any] = {
    "command": ["simulate"],
    "persistentVolumeClaims": [{"name": "data", "mountPath": "/data"}],
    "snapshot": {"volume": "data"},
}


def on_codes(operator: str, *values: int, action: str = "Ignore") -> dict[str, Any]:
    return {"rules": [{"action": action, "onExitCodes": {"operator": operator, "values": list(values)}}]}


def requests(**quantities: Any) -> dict[str, Any]:
    return {"spec|resources|requests": {"cpu": "1", "memory": "1Gi", **quantities}}


def mounts(**lists: Any) -> dict[str, Any]:
    return {f"spec.{to_camel(name)}": entries for name, entries in lists.items()}


def mount(path: str, **more: Any) -> dict[str, Any]:
    return {"name": "a", "mountPath": path, **more}


TEMPLATE_JOB: Manifest = {
    **MINIMAL_JOB,
    "metadata": {"name": "templated"},
    "spec": {
        "mainContainer": "sim",
        "template": {
            "metadata": {"labels": {"team": "blue"}},
            "spec": {
                "initContainers": [{"name": "log", "image": "log:1", "restartPolicy": "Always"}],
                "containers": [
                    {"name": "sim", "image": "sim:1", "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}, "tty": True}
                ],
                "affinity": {"podAntiAffinity": {}},
                "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}],
            },
        },
    },
}
TEMPLATE = TEMPLATE_JOB["spec"]["template"]

BAD_JOBS: list[tuple[str, dict[str, Any], str]] = [
    ("name-long", {"metadata.name": "a" * 53}, "metadata.name: at most 52 characters"),
    ("name-dot", {"metadata.name": "a.b"}, "metadata.name: no dots"),
    ("queue-characters", job(queue="Night_Shift"), "spec.queue in body should match"),
    ("queue-empty", job(queue=""), "spec.queue in body should be at least 1 chars long"),
    ("queue-long", job(queue="q" * 64), "spec.queue: Too long"),
    ("image-missing", job(image=REMOVED), "spec.image: Required value: it is mandatory: name a container image"),
    (
        "mixed",
        job(template=TEMPLATE, nodeSelector={"a": "b"}),
        "spec.template: Invalid value: a template has its place for it; move spec.image to "
        "spec.template.spec.containers[0].image spec.nodeSelector to spec.template.spec.nodeSelector",
    ),
    (
        "rule-of-nothing",
        job(podFailurePolicy={"rules": [{"action": "Ignore"}]}),
        "spec.podFailurePolicy: Invalid value: rules: each has either onExitCodes or onPodConditions",
    ),
    (
        "rule-of-success",
        job(podFailurePolicy=on_codes("In", 0, 1)),
        "spec.podFailurePolicy: Invalid value: rules: exit code 0 is no failure",
    ),
    (
        "rule-for-an-index",
        job(podFailurePolicy=on_codes("In", 1, action="FailIndex")),
        "only a task of an array fails alone",
    ),
    ("snapshot-of-a-gang", job(**SAVED, parallelism=2), "spec.snapshot: Invalid value: only jobs of one pod"),
    ("snapshot-reclaimed", job(**SAVED, capacity="Reclaimed"), "spec.snapshot: Invalid value: a job with snapshots"),
    (
        "snapshot-of-an-entrypoint",
        job(**{n: v for n, v in SAVED.items() if n != "command"}),
        "spec.command: Required value",
    ),
    (
        "snapshot-elsewhere",
        job(**{**SAVED, "snapshot": {"volume": "other"}}),
        "spec.snapshot: Invalid value: volume: it is none of persistentVolumeClaims",
    ),
    ("main-of-nothing", job(mainContainer="main"), "spec.mainContainer: Invalid value: a job without template has one"),
    ("template-empty", job(template={}), "spec.template.spec: Required value"),
    ("template-unknown", job(template={**TEMPLATE, "sepc": {}}), 'unknown field "spec.template.sepc"'),
    ("image-empty", job(image=""), "spec.image in body should be at least 1 chars long"),
    ("image-blank", job(image="my image"), "spec.image in body should match"),
    ("image-long", job(image="i" * 1025), "spec.image: Too long"),
    ("pull-policy", job(imagePullPolicy="Sometimes"), 'spec.imagePullPolicy: Unsupported value: "Sometimes"'),
    (
        "pull-secret-name",
        job(imagePullSecrets=[{"name": "A"}]),
        "spec.imagePullSecrets[0].name in body should match",
    ),
    (
        "pull-secret-twice",
        job(imagePullSecrets=[{"name": "a"}] * 2),
        "spec.imagePullSecrets[1]: Duplicate value",
    ),
    (
        "pull-secrets-many",
        job(imagePullSecrets=[{"name": f"a{i}"} for i in range(17)]),
        "spec.imagePullSecrets: Too many: 17",
    ),
    ("command-many", job(command=["a"] * 1025), "spec.command: Too many: 1025"),
    ("args-many", job(args=["a"] * 1025), "spec.args: Too many: 1025"),
    ("args-type", job(args=[1]), "spec.args[0]: Invalid value"),
    ("env-twice", job(env=[{"name": "A"}, {"name": "A"}]), "spec.env[1]: Duplicate value"),
    ("env-name", job(env=[{"name": "1A"}]), "spec.env[0].name in body should match"),
    (
        "env-two-values",
        job(env=[{"name": "A", "value": "1", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]),
        "spec.env[0]: Invalid value: a variable has a value or a valueFrom",
    ),
    (
        "env-no-source",
        job(env=[{"name": "A", "valueFrom": {}}]),
        "spec.env[0].valueFrom: Invalid value: name exactly one of",
    ),
    (
        "env-two-sources",
        job(
            env=[
                {
                    "name": "A",
                    "valueFrom": {
                        "configMapKeyRef": {"name": "a", "key": "k"},
                        "secretKeyRef": {"name": "a", "key": "k"},
                    },
                }
            ]
        ),
        "spec.env[0].valueFrom: Invalid value: name exactly one of",
    ),
    ("env-many", job(env=[{"name": f"A{i}"} for i in range(257)]), "spec.env: Too many: 257"),
    *(
        (
            f"env-reserved-{name}",
            job(env=[{"name": name, "value": "1"}]),
            "spec.env[0].name: Invalid value: the names",
        )
        for name in names.RESERVED_ENV
    ),
    *(
        (f"{field}-large", job(**{field: value}), f"spec.{field}: Invalid value: more than the 262144 characters")
        for field, value in (
            ("env", [{"name": f"A{i}", "value": "x" * 100_000} for i in range(3)]),
            ("args", ["x" * 100_000] * 3),
            ("command", ["x" * 100_000] * 3),
        )
    ),
    ("selector-long", job(nodeSelector={"a": "x" * 64}), "spec.nodeSelector.a: Too long"),
    (
        "env-from-both",
        job(envFrom=[{"configMapRef": {"name": "a"}, "secretRef": {"name": "a"}}]),
        "spec.envFrom[0]: Invalid value: each entry names exactly one",
    ),
    (
        "env-from-none",
        job(envFrom=[{"prefix": "A"}]),
        "spec.envFrom[0]: Invalid value: each entry names exactly one",
    ),
    ("env-from-many", job(envFrom=[{"secretRef": {"name": "a"}}] * 65), "spec.envFrom: Too many: 65"),
    ("service-account", job(serviceAccountName="A"), "spec.serviceAccountName in body should match"),
    (
        "node-selector-many",
        job(nodeSelector={f"k{i}": "v" for i in range(65)}),
        "spec.nodeSelector: Too many: 65",
    ),
    (
        "toleration-no-key",
        job(tolerations=[{"value": "a"}]),
        "spec.tolerations[0]: Invalid value: an empty key needs",
    ),
    (
        "toleration-value",
        job(tolerations=[{"key": "a", "operator": "Exists", "value": "b"}]),
        "spec.tolerations[0]: Invalid value: operator: Exists takes no value",
    ),
    (
        "toleration-seconds",
        job(tolerations=[{"key": "a", "operator": "Exists", "tolerationSeconds": 1}]),
        "spec.tolerations[0]: Invalid value: tolerationSeconds needs effect: NoExecute",
    ),
    (
        "toleration-effect",
        job(tolerations=[{"operator": "Exists", "effect": "Never"}]),
        "spec.tolerations[0].effect: Unsupported value",
    ),
    (
        "toleration-operator",
        job(tolerations=[{"key": "a", "operator": "In"}]),
        "spec.tolerations[0].operator: Unsupported value",
    ),
    ("tolerations-many", job(tolerations=[{"operator": "Exists"}] * 65), "spec.tolerations: Too many: 65"),
    ("resources-missing", job(resources=REMOVED), "spec.resources: Required value: they are mandatory"),
    (
        "cpu-missing",
        {"spec.resources.requests": {"memory": "1Gi"}},
        "spec.resources: Invalid value: cpu is mandatory",
    ),
    (
        "memory-missing",
        {"spec.resources.requests": {"cpu": 1}},
        "spec.resources: Invalid value: memory is mandatory",
    ),
    (
        "above-its-limit",
        {"spec.resources.limits": {"cpu": "499m"}},
        "spec.resources: Invalid value: a request is more than 0 and at most its limit",
    ),
    (
        "unequal-devices",
        {"spec|resources": {"requests": {"cpu": 1, "memory": "1Gi", "a.b/c": 1}, "limits": {"a.b/c": 2}}},
        "spec.resources: Invalid value: a request is more than 0 and at most its limit",
    ),
    (
        "reclaimed-unequal",
        {"spec.capacity": "Reclaimed", "spec.resources.limits": {"cpu": "499m"}},
        "spec.resources: Invalid value: capacity: Reclaimed sets nothing aside",
    ),
    (
        "nothing-set-aside-guaranteed",
        {"spec.resources": {"requests": {"cpu": 0}, "limits": {"cpu": 1, "memory": "1Gi"}}},
        "spec.resources: Invalid value: a request is more than 0 and at most its limit",
    ),
    (
        "negative-reclaimed",
        {
            "spec.capacity": "Reclaimed",
            "spec.resources": {"requests": {"cpu": -1}, "limits": {"cpu": 1, "memory": "1Gi"}},
        },
        "spec.resources: Invalid value: capacity: Reclaimed sets nothing aside",
    ),
    ("zero", requests(cpu=0), "spec.resources: Invalid value: every quantity must be greater than zero"),
    (
        "negative",
        requests(memory="-1Gi"),
        "spec.resources: Invalid value: every quantity must be greater than zero",
    ),
    (
        "zero-limit",
        {"spec.resources.limits": {"nvidia.com/gpu": 0}},
        "spec.resources: Invalid value: every quantity must be greater than zero",
    ),
    ("resource-name", requests(gpu=1), "spec.resources: Invalid value: name cpu, memory"),
    (
        "half-device",
        requests(**{"nvidia.com/gpu": "500m"}),
        "spec.resources: Invalid value: name cpu, memory",
    ),
    (
        "own-resources",
        requests(**{"scavenger.dev/reclaimed-cpu": 1}),
        "spec.resources: Invalid value: scavenger.dev/* resources are set by the admitter",
    ),
    ("quantity-word", requests(cpu="two"), "spec.resources.requests.cpu in body should match"),
    ("quantity-exponent", requests(cpu="1e1.5"), "spec.resources.requests.cpu in body should match"),
    ("quantity-long", requests(cpu="1" * 65), "spec.resources.requests.cpu: Too long"),
    (
        "quantity-float",
        requests(cpu=0.5),
        "spec.resources.requests.cpu in body must be of type integer,string",
    ),
    ("resources-many", requests(**{f"a/{i}": 1 for i in range(15)}), "spec.resources.requests: Too many: 17"),
    ("priority-high", job(priority=11), "spec.priority in body should be less than or equal to 10"),
    ("parallelism-zero", job(parallelism=0), "spec.parallelism in body should be greater than or equal to 1"),
    (
        "parallelism-many",
        job(parallelism=10001),
        "spec.parallelism in body should be less than or equal to 10000",
    ),
    ("parallelism-type", job(parallelism="2"), "spec.parallelism in body must be of type int"),
    ("mount-relative", mounts(secrets=[mount("data")]), "spec.secrets[0].mountPath in body should match"),
    ("mount-colon", mounts(secrets=[mount("/a:b")]), "spec.secrets[0].mountPath in body should match"),
    ("mount-no-path", mounts(secrets=[{"name": "a"}]), "spec.secrets[0].mountPath: Required value"),
    ("mount-no-name", mounts(secrets=[{"mountPath": "/a"}]), "spec.secrets[0].name: Required value"),
    (
        "mount-name",
        mounts(config_maps=[{"name": "A", "mountPath": "/a"}]),
        "spec.configMaps[0].name in body should match",
    ),
    *(
        (
            f"mount-twice-{name}",
            mounts(**{name: [mount("/a")] * 2}),
            f"spec.{to_camel(name)}[1]: Duplicate value",
        )
        for name in ("persistent_volume_claims", "config_maps", "secrets")
    ),
    *(
        (
            f"mount-shared-{one}-{other}",
            mounts(**{one: [mount("/b"), mount("/a")], other: [mount("/a")]}),
            "spec: Invalid value: mountPath: two mounts share a path",
        )
        for one, other in (
            ("persistent_volume_claims", "config_maps"),
            ("persistent_volume_claims", "secrets"),
            ("config_maps", "secrets"),
        )
    ),
    *(
        (
            f"sub-path-{path}",
            mounts(persistent_volume_claims=[mount("/a", subPath=path)]),
            "spec.persistentVolumeClaims[0].subPath: Invalid value: write a relative path",
        )
        for path in ("/abs", "..", "../a", "a/../b", "a/..")
    ),
    (
        "mounts-many",
        mounts(config_maps=[mount(f"/{i}") for i in range(65)]),
        "spec.configMaps: Too many: 65",
    ),
    *(
        (f"{name}-{value}", {f"spec.{name}": value}, f"spec.{name} in body should be {what} than or equal to")
        for name in ("runAsUser", "runAsGroup", "fsGroup")
        for value, what in ((-1, "greater"), (2**31, "less"))
    ),
    (
        "security-privileged",
        job(securityContext={"privileged": True}),
        "spec.securityContext.privileged: Forbidden: scavenger jobs get nothing of the node; leave it out",
    ),
    (
        "security-profile-missing",
        job(securityContext={"seccompProfile": {"type": "Localhost"}}),
        "spec.securityContext.seccompProfile.localhostProfile: Invalid value: type: Localhost needs it",
    ),
    (
        "security-capability-prefixed",
        job(securityContext={"capabilities": {"drop": ["cap_chown"]}}),
        "spec.securityContext.capabilities.drop[0] in body should match",
    ),
    (
        "security-unconfined",
        job(securityContext={"seccompProfile": {"type": "Unconfined"}}),
        'spec.securityContext.seccompProfile.type: Unsupported value: "Unconfined": supported values: "RuntimeDefault"',
    ),
    (
        "security-capability",
        job(securityContext={"capabilities": {"add": ["SYS_ADMIN"]}}),
        'spec.securityContext.capabilities.add[0]: Unsupported value: "SYS_ADMIN": supported values: ',
    ),
    *(
        (
            f"security-profile-{path}",
            job(securityContext={"seccompProfile": {"type": "Localhost", "localhostProfile": path}}),
            "spec.securityContext.seccompProfile.localhostProfile: Invalid value: write a relative path",
        )
        for path in ("/abs", "..", "../a", "a/../b")
    ),
    (
        "security-profile-without-its-type",
        job(securityContext={"seccompProfile": {"type": "RuntimeDefault", "localhostProfile": "a"}}),
        "spec.securityContext.seccompProfile.localhostProfile: Invalid value: type: Localhost needs it",
    ),
    (
        "security-non-root-as-root",
        job(runAsUser=0, securityContext={"runAsNonRoot": True}),
        "spec.runAsUser: Invalid value: 0 is root, and securityContext.runAsNonRoot is true",
    ),
    *(
        (f"interruption-{text}", job(interruptionAfter=text), "spec.interruptionAfter: Invalid value")
        for text in ("0s", "999ms", "0d", "8d", "168h1s", "30", "soon", "1h1d", "-1h", "")
    ),
    (
        "grace-negative",
        job(terminationGracePeriodSeconds=-1),
        "spec.terminationGracePeriodSeconds in body should be",
    ),
    (
        "grace-long",
        job(terminationGracePeriodSeconds=3601),
        "spec.terminationGracePeriodSeconds in body should be less",
    ),
    *(
        (f"exit-code-{code}", job(checkpointExitCode=code), f"spec.checkpointExitCode in body should be {words}")
        for code, words in ((0, "greater than or equal to 1"), (-1, "greater"), (256, "less than or equal to 255"))
    ),
    ("exit-code-type", job(checkpointExitCode="85"), "spec.checkpointExitCode in body must be of type integer"),
    ("suspend-type", job(suspend="yes"), "spec.suspend in body must be of type boolean"),
    (
        "ttl-negative",
        job(ttlSecondsAfterFinished=-1),
        "spec.ttlSecondsAfterFinished in body should be greater",
    ),
    ("ttl-long", job(ttlSecondsAfterFinished=2**31), "spec.ttlSecondsAfterFinished in body should be less"),
    ("after-itself", {"metadata.name": "me", **job(after=[{"job": "me"}])}, "spec.after: Invalid value"),
    ("after-twice", job(after=[{"job": "a"}, {"job": "a", "when": "Ended"}]), "spec.after[1]: Duplicate value"),
    ("after-started", job(after=[{"job": "a", "when": "Started"}]), 'Unsupported value: "Started"'),
    ("after-elsewhere", job(after=[{"job": "other/a"}]), "spec.after[0].job in body should match"),
    ("after-many", job(after=[{"job": f"a-{n}"} for n in range(17)]), "spec.after: Too many: 17"),
    ("after-nobody", job(after=[{"when": "Ended"}]), "spec.after[0].job: Required value"),
    ("capacity", job(capacity="Plenty"), 'spec.capacity: Unsupported value: "Plenty"'),
    ("unknown-field", job(paralellism=2), 'unknown field "spec.paralellism"'),
]


def where(**requirement: Any) -> dict[str, Any]:
    """A queue for namespaces with this label."""
    return {"spec.namespaceSelector": {"matchExpressions": [requirement]}}


BAD_QUEUES: list[tuple[str, dict[str, Any], str]] = [
    ("name-long", {"metadata.name": "q" * 64}, "metadata.name: at most 63 characters"),
    ("name-dot", {"metadata.name": "a.b"}, "metadata.name: at most 63 characters and no dots"),
    ("weight-zero", {"spec.weight": 0}, "spec.weight in body should be greater than or equal to 1"),
    (
        "weight-huge",
        {"spec.weight": 1_000_001},
        "spec.weight in body should be less than or equal to 1000000",
    ),
    ("weight-type", {"spec.weight": 1.5}, "spec.weight in body must be of type int"),
    (
        "quota-negative",
        {"spec.quota": {"cpu": "-1"}},
        "spec.quota: Invalid value: every quantity must be zero or more",
    ),
    ("quota-word", {"spec.quota": {"cpu": "many"}}, "spec.quota.cpu in body should match"),
    ("closed-type", {"spec.closed": "yes"}, "spec.closed in body must be of type boolean"),
    ("unknown-field", {"spec.wieght": 2}, 'unknown field "spec.wieght"'),
    (
        "selector-operator",
        where(key="team", operator="Like"),
        'spec.namespaceSelector.matchExpressions[0].operator: Unsupported value: "Like": supported values: "In"',
    ),
    (
        "selector-without-values",
        where(key="team", operator="In"),
        "spec.namespaceSelector.matchExpressions[0].values: Invalid value: operators In and NotIn need at least one "
        "value, Exists and DoesNotExist take none; add values, or remove them",
    ),
    ("selector-with-values", where(key="team", operator="Exists", values=["a"]), "Exists and DoesNotExist take none"),
    (
        "selector-key",
        where(key="my team", operator="Exists"),
        'matchExpressions[0].key: Invalid value: "my team": write the key of a label: up to 63 letters',
    ),
    ("selector-key-missing", where(operator="Exists"), "matchExpressions[0].key: Required value"),
    ("selector-value", where(key="team", operator="In", values=["a b"]), "values[0] in body should match"),
    (
        "selector-label",
        {"spec.namespaceSelector": {"matchLabels": {"team": "a b"}}},
        "spec.namespaceSelector.matchLabels.team in body should match",
    ),
    (
        "selector-typo",
        {"spec.namespaceSelector": {"matchLabel": {}}},
        'unknown field "spec.namespaceSelector.matchLabel"',
    ),
]


def ids(cases: list[tuple[str, dict[str, Any], str]]) -> list[str]:
    return [case[0] for case in cases]


@pytest.fixture
def kubectl(api_cluster: Kubectl, module_namespace: str) -> Kubectl:
    return api_cluster.inside(module_namespace)


Refused = Callable[..., str]
"""What the API server says to a request that it refuses."""


@pytest.fixture(scope="module")
def refused(server: Server, module_namespace: str) -> Refused:
    """Sends what kubectl would send. One that is not refused fails the test."""

    def ask(method: str, kind: str, body: Object, name: str = "", sub: str = "", **who: Any) -> str:
        path = path_of(kind, module_namespace, name, sub)
        if method == "PATCH":
            answer = server(method, path, body, content_type=MERGE_PATCH, **who)
        else:
            answer = server(method, f"{path}?fieldValidation=Strict", body, **who)
        assert not answer.allowed, answer
        return answer.message

    return ask


@pytest.mark.parametrize(("_name", "edits", "message"), BAD_JOBS, ids=ids(BAD_JOBS))
def test_bad_job_is_refused_naming_the_field(refused: Refused, _name: str, edits: Manifest, message: str) -> None:
    assert message in refused("POST", "scavengerjobs", changed(MINIMAL_JOB, edits))


@pytest.mark.parametrize(("_name", "edits", "message"), BAD_QUEUES, ids=ids(BAD_QUEUES))
def test_bad_queue_is_refused_naming_the_field(refused: Refused, _name: str, edits: Manifest, message: str) -> None:
    assert message in refused("POST", "scavengerqueues", changed(QUEUE, edits))


def test_kubectl_says_what_the_api_server_says(kubectl: Kubectl) -> None:
    """The rest of the table is sent without kubectl, which takes a tenth of a second to start alone."""
    for name in ("queue-long", "unknown-field"):
        ((edits, message),) = [(edits, message) for found, edits, message in BAD_JOBS if found == name]
        assert message in kubectl.refused("create", "-f", "-", stdin=json.dumps(changed(MINIMAL_JOB, edits)))


@pytest.mark.parametrize(
    "manifest",
    [MINIMAL_JOB, FULL_JOB, RECLAIMED_JOB, TEMPLATE_JOB],
    ids=["minimal", "full", "reclaimed", "templated"],
)
def test_good_job_is_accepted_and_read_back_by_the_models(
    api_cluster: Kubectl, namespace: str, manifest: Manifest
) -> None:
    kubectl = api_cluster.inside(namespace)
    kubectl.ok("create", "-f", "-", stdin=json.dumps(manifest))

    stored = kubectl.get("sj", manifest["metadata"]["name"])

    assert stored["spec"].items() >= manifest["spec"].items(), "the server keeps what was written"
    model = ScavengerJob.model_validate(stored)
    assert model.spec == ScavengerJob.model_validate(manifest).spec, "the server's defaults are the models'"


def test_what_the_models_write_is_accepted_unchanged(api_cluster: Kubectl, namespace: str) -> None:
    kubectl = api_cluster.inside(namespace)
    now = datetime.now(UTC)
    status = {
        "phase": "Running",
        "conditions": [
            {
                "type": "Running",
                "status": "True",
                "observedGeneration": 1,
                "lastTransitionTime": format_time(now),
                "reason": names.REASON_RUNNING,
                "message": "",
            }
        ],
        "interruptedCount": 2,
        "queuedTimestamp": format_micro_time(now),
        "runningTimestamps": [format_time(now)],
        "starts": 3,
        "interruptedTimestamps": [format_time(now)] * names.MAX_RECENT_TIMESTAMPS,
        "endedTimestamp": format_time(now),
        "usefulCPUSeconds": 1.5,
        "lostCPUSeconds": 0.0,
        "jobName": "minimal-1",
        "preemption": {"class": "preemptible", "runningPriority": 12.5},
    }
    written = ScavengerJob.model_validate({**MINIMAL_JOB, "status": status}).to_dict()
    manifest = {**written, "metadata": {"name": "minimal"}}
    kubectl.ok("create", "-f", "-", stdin=json.dumps(manifest))
    words = ("--subresource=status", "--type=merge", "-p", json.dumps({"status": status}))
    kubectl.ok("patch", "sj", "minimal", *AS_ADMITTER, *words)

    stored = ScavengerJob.model_validate(kubectl.get("sj", "minimal"))

    assert stored.status.to_dict() == {**written["status"]}


def test_queue_is_accepted_and_its_defaults_are_filled_in(kubectl: Kubectl) -> None:
    bare = {**QUEUE, "metadata": {"name": "it-bare"}}
    del bare["spec"]
    try:
        kubectl.ok("create", "-f", "-", stdin=json.dumps(QUEUE))
        kubectl.ok("create", "-f", "-", stdin=json.dumps(bare))

        assert kubectl.get("sq", "it-good")["spec"] == QUEUE["spec"]
        assert kubectl.get("sq", "it-bare")["spec"] == {"weight": 1, "closed": False}
        assert ScavengerQueue.model_validate(kubectl.get("sq", "it-bare")).spec == ScavengerQueue().spec
        selector = {
            "matchLabels": {"example.com/team": "blue", "stage": ""},
            "matchExpressions": [
                {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["a", "b"]},
                {"key": "hidden", "operator": "DoesNotExist"},
            ],
        }
        kubectl.ok("patch", "sq", "it-good", *patch({"namespaceSelector": selector}))
        assert kubectl.get("sq", "it-good")["spec"]["namespaceSelector"] == selector
        assert ScavengerQueue.model_validate(kubectl.get("sq", "it-good")).spec.namespace_selector is not None
        message = kubectl.refused("patch", "sq", "it-good", "--type=merge", "-p", '{"spec": {"weight": 0}}')
        assert "spec.weight" in message
    finally:
        kubectl("delete", "sq", "it-good", "it-bare", "--ignore-not-found")


# --- updates ---

# Another valid value for every field that may not change; one that is missing here fails a test.
OTHER_VALUES: dict[str, Any] = {
    "array": {"tasks": 5},
    "snapshot": {"volume": "other"},
    "template": {"spec": {"affinity": None, "dnsPolicy": "Default"}},
    "mainContainer": "log",
    "image": "example/app:2",
    "imagePullPolicy": "Always",
    "imagePullSecrets": [{"name": "other"}],
    "command": ["python3"],
    "args": ["counter.py", "--steps=11"],
    "env": [{"name": "PLAIN", "value": "2"}],
    "envFrom": [{"configMapRef": {"name": "b"}}],
    "serviceAccountName": "other",
    "nodeSelector": {"kubernetes.io/arch": None, "disk": "ssd"},
    "tolerations": [{"operator": "Exists", "effect": "NoSchedule"}],
    "resources": {"requests": {"example.org/device": 7}},
    "parallelism": 5,
    "persistentVolumeClaims": [{"name": "other", "mountPath": "/data"}],
    "configMaps": [{"name": "other", "mountPath": "/etc/settings"}],
    "secrets": [{"name": "other", "mountPath": "/etc/token"}],
    "runAsUser": 1001,
    "runAsGroup": 1001,
    "fsGroup": 1,
    "securityContext": {"runAsNonRoot": True, "readOnlyRootFilesystem": False},
    "interruptionAfter": "2h",
    "terminationGracePeriodSeconds": 1,
    "checkpointExitCode": 85,
    "progressDeadlineIntervals": 9,
    "backoffLimit": 3,
    "podFailurePolicy": {"rules": [{"action": "Count", "onExitCodes": {"operator": "NotIn", "values": [0]}}]},
    "activeDeadlineSeconds": 601,
    "after": [{"job": "prepare"}],
    "capacity": "Reclaimed",
}
IMMUTABLE = [
    field.alias or to_camel(name)
    for name, field in ScavengerJobSpec.model_fields.items()
    if (field.alias or to_camel(name)) not in ScavengerJobSpec.MUTABLE
]


@pytest.fixture(scope="module")
def jobs(api_cluster: Kubectl, module_namespace: str) -> Kubectl:
    kubectl = api_cluster.inside(module_namespace)
    full = changed(
        FULL_JOB, {"metadata.name": "full", "spec.capacity": "Guaranteed", "spec.resourcesFrom": "Recommended"}
    )
    limits = {"checkpointExitCode": 85, "progressDeadlineIntervals": 3, "activeDeadlineSeconds": 600}
    of_tasks = {"array": {"tasks": 10}, "podFailurePolicy": on_codes("In", 1, action="FailIndex"), **limits}
    array = changed(MINIMAL_JOB, {"metadata.name": "array", **job(**of_tasks)})
    saved = changed(MINIMAL_JOB, {"metadata.name": "saved", **job(**SAVED)})
    for manifest in (MINIMAL_JOB, full, TEMPLATE_JOB, array, saved):
        kubectl.ok("create", "-f", "-", stdin=json.dumps(manifest))
    return kubectl


def patch(spec: Mapping[str, Any]) -> tuple[str, str, str]:
    return "--type=merge", "-p", json.dumps({"spec": spec})


def test_every_immutable_field_is_tried() -> None:
    assert set(OTHER_VALUES) == set(IMMUTABLE)


TRANSITIONS = [
    (field, how)
    for field in IMMUTABLE
    for how in ("changed", "removed", "added")
    # A required field cannot be removed at all, and to remove a default value changes nothing.
    if not (how == "removed" and field in {"image", "resources", "capacity"})
]


@pytest.mark.parametrize(("field", "how"), TRANSITIONS)
@pytest.mark.usefixtures("jobs")
def test_spec_is_immutable(refused: Refused, field: str, how: str) -> None:
    of = {"template": "templated", "mainContainer": "templated", "array": "array", "snapshot": "saved"}
    name = "minimal" if how == "added" else of.get(field, "full")
    value = None if how == "removed" else OTHER_VALUES[field]

    message = refused("PATCH", "scavengerjobs", {"spec": {field: value}}, name)

    assert f"spec: Forbidden: spec.{field}: immutable; create a new ScavengerJob instead" in message


def test_how_many_tasks_run_may_change_and_retry_only_grows(jobs: Kubectl) -> None:
    jobs.ok("patch", "sj", "array", *patch({"array": {"maxRunning": 3, "retry": 2}}))

    message = jobs.refused("patch", "sj", "array", *patch({"array": {"retry": 1}}))

    assert "spec.array.retry: Invalid value" in message
    assert "it only grows" in message


def test_an_array_has_tasks_or_indexes_for_good(jobs: Kubectl) -> None:
    for array, words in (
        ({}, "write tasks or indexes, one of both"),
        ({"tasks": 3, "indexes": "1-3"}, "write tasks or indexes, one of both"),
        ({"indexes": "1-3%2"}, "should match"),
        ({"indexes": ""}, "at least 1 chars"),
    ):
        manifest = changed(MINIMAL_JOB, {"metadata.name": "odd", "spec.array": array})
        assert words in jobs.refused("create", "-f", "-", stdin=json.dumps(manifest)), array
    manifest = changed(MINIMAL_JOB, {"metadata.name": "numbered", "spec.array": {"indexes": "1-9:4,20"}})
    jobs.ok("create", "-f", "-", stdin=json.dumps(manifest))
    jobs.ok("patch", "sj", "numbered", *patch({"array": {"maxRunning": 3, "retry": 2}}))
    changes: tuple[dict[str, Any], ...] = ({"indexes": "1-9:4,21"}, {"indexes": None, "tasks": 4}, {"tasks": 4})
    for change in changes:
        message = jobs.refused("patch", "sj", "numbered", *patch({"array": change}))
        assert "spec.array: immutable" in message, change


def test_all_fields_that_were_changed_are_named(jobs: Kubectl) -> None:
    message = jobs.refused("patch", "sj", "full", *patch({"image": "other", "args": None, "suspend": True}))

    assert "spec.image: spec.args: immutable; create a new ScavengerJob instead" in message


def test_what_may_change_can_change(api_cluster: Kubectl, namespace: str) -> None:
    kubectl = api_cluster.inside(namespace)
    kubectl.ok("create", "-f", "-", stdin=json.dumps(MINIMAL_JOB))

    kubectl.ok(
        "patch",
        "sj",
        "minimal",
        *patch({"suspend": True, "ttlSecondsAfterFinished": 5, "queue": "other", "priority": 9}),
    )
    kubectl.ok("patch", "sj", "minimal", *patch({"suspend": False, "ttlSecondsAfterFinished": None}))
    kubectl.ok("label", "sj", "minimal", "team=blue")

    spec = kubectl.get("sj", "minimal")["spec"]
    assert (spec["suspend"], spec["queue"], "ttlSecondsAfterFinished" in spec) == (False, "other", False)


def test_queue_cannot_change_while_a_job_exists(api_cluster: Kubectl, namespace: str) -> None:
    kubectl = api_cluster.inside(namespace)
    kubectl.ok("create", "-f", "-", stdin=json.dumps(MINIMAL_JOB))
    set_status(kubectl, "minimal", jobName="minimal-1")

    message = kubectl.refused("patch", "sj", "minimal", *patch({"queue": "other"}))
    kubectl.ok("patch", "sj", "minimal", *patch({"suspend": True}))
    set_status(kubectl, "minimal", jobName=None)
    kubectl.ok("patch", "sj", "minimal", *patch({"queue": "other"}))

    assert "spec.queue: Forbidden: can change only while no pod of the job exists" in message


# --- status ---


def set_status(kubectl: Kubectl, name: str, **status: Any) -> None:
    words = ("--subresource=status", "--type=merge", "-p", json.dumps({"status": status}))
    kubectl.ok("patch", "sj", name, *AS_ADMITTER, *words)


def test_status_is_a_subresource(api_cluster: Kubectl, namespace: str) -> None:
    kubectl = api_cluster.inside(namespace)
    kubectl.ok("create", "-f", "-", stdin=json.dumps({**MINIMAL_JOB, "status": {"phase": "Completed"}}))
    assert "status" not in kubectl.get("sj", "minimal")

    kubectl.ok("patch", "sj", "minimal", "--type=merge", "-p", '{"status": {"phase": "Failed"}}')
    assert "status" not in kubectl.get("sj", "minimal")

    both = json.dumps({"status": {"phase": "Waiting"}, "spec": {"suspend": True}})
    kubectl.ok("patch", "sj", "minimal", *AS_ADMITTER, "--subresource=status", "--type=merge", "-p", both)
    stored = kubectl.get("sj", "minimal")
    assert (stored["status"], stored["spec"]["suspend"]) == ({"phase": "Waiting"}, False)
    assert stored["metadata"]["generation"] == 1, "status does not move the generation"


@pytest.mark.parametrize(
    ("status", "message"),
    [
        ({"phase": "Dancing"}, "status.phase: Unsupported value"),
        ({"interruptedCount": -1}, "status.interruptedCount: Invalid value: -1"),
        ({"usefulCPUSeconds": -0.5}, "status.usefulCPUSeconds: Invalid value: -0.5"),
        ({"runningTimestamps": ["2026-01-01T00:00:00Z"] * 21}, "status.runningTimestamps: Too many: 21"),
        ({"queuedTimestamp": "yesterday"}, 'status.queuedTimestamp: Invalid value: "yesterday"'),
        ({"preemption": {"class": "maybe"}}, "status.preemption.class: Unsupported value"),
        (
            {"conditions": [{"type": "Running", "status": "True"}]},
            "status.conditions[0].reason: Required value",
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
@pytest.mark.usefixtures("jobs")
def test_bad_status_is_refused(refused: Refused, status: dict[str, Any], message: str) -> None:
    who = {"user": account("admitter"), "groups": (MASTERS,)}

    assert message in refused("PATCH", "scavengerjobs", {"status": status}, "minimal", "status", **who)


# --- what people see ---


def columns(table: str) -> list[dict[str, str]]:
    """kubectl's table by the position of its headings, since a cell may be empty."""
    heading, *rows = table.splitlines()
    starts = [i for i, c in enumerate(heading) if c != " " and (i == 0 or heading[i - 1] == " ")]
    spans = list(zip(starts, [*starts[1:], None], strict=True))
    return [{heading[a:b].strip(): row[a:b].strip() for a, b in spans} for row in rows]


def test_printer_columns(api_cluster: Kubectl, namespace: str) -> None:
    kubectl = api_cluster.inside(namespace)
    # In days, and in the middle of one: minutes would go by while kubectl starts again and again.
    start = format_time(datetime.now(UTC) - timedelta(days=100, hours=12))
    for name in ("fresh", "runs", "over"):
        kubectl.ok("create", "-f", "-", stdin=json.dumps(changed(MINIMAL_JOB, {"metadata.name": name})))
    admitted = {
        "type": "Admitted",
        "status": "True",
        "reason": "Fits",
        "message": "",
        "lastTransitionTime": start,
    }
    running = {**admitted, "type": "Running", "reason": names.REASON_RUNNING}
    set_status(
        kubectl,
        "runs",
        phase="Running",
        interruptedCount=2,
        conditions=[admitted, running],
        preemption={"class": "preemptible"},
        lastCheckpointTimestamp=start,
        message="doing well",
        array={"progress": "412/1000"},
    )
    over = {**running, "status": "False", "reason": "Completed"}
    set_status(kubectl, "over", phase="Completed", conditions=[admitted, over], interruptedCount=0)

    fresh, ended, runs = columns(kubectl.ok("get", "sj"))
    assert list(runs) == ["NAME", "QUEUE", "STATUS", "INTERRUPTED", "RUNTIME", "AGE", "REASON"]
    assert [runs[c] for c in ("NAME", "QUEUE", "STATUS", "INTERRUPTED", "RUNTIME")] == [
        "runs",
        "default",
        "Running",
        "2",
        "100d",
    ]
    assert (fresh["STATUS"], fresh["RUNTIME"]) == ("", "")
    assert (ended["STATUS"], ended["INTERRUPTED"], ended["RUNTIME"]) == ("Completed", "0", "")
    assert [row["REASON"] for row in (fresh, ended, runs)] == ["", "Completed", ""]

    wide = columns(kubectl.ok("get", "sj", "runs", "-o", "wide"))[0]
    assert list(wide)[7:] == ["PODS", "TASKS", "CLASS", "LAST-CHECKPOINT", "MESSAGE"]
    assert list(wide.values())[7:] == ["1", "412/1000", "preemptible", "100d", "doing well"]


def test_jobs_are_found_by_phase_and_category(api_cluster: Kubectl, namespace: str) -> None:
    kubectl = api_cluster.inside(namespace)
    for name in ("one", "two"):
        kubectl.ok("create", "-f", "-", stdin=json.dumps(changed(MINIMAL_JOB, {"metadata.name": name})))
    set_status(kubectl, "two", phase="Running")

    assert kubectl.ok("get", "sj", "--field-selector=status.phase=Running", "-o", "name").split() == [
        "scavengerjob.scavenger.dev/two"
    ]
    assert "scavengerjob.scavenger.dev/one" in kubectl.ok("get", "all", "-o", "name")
    assert "scavengerjob.scavenger.dev/one" in kubectl.ok("get", "scavenger", "-o", "name")


def test_queue_columns(kubectl: Kubectl) -> None:
    kubectl.ok("create", "-f", "-", stdin=json.dumps(changed(QUEUE, {"metadata.name": "it-columns"})))
    try:
        status = {"status": {"state": "Closed", "jobs": {"waiting": 1, "running": 2, "interrupted": 3}}}
        words = ("--subresource=status", "--type=merge", "-p", json.dumps(status))
        kubectl.ok("patch", "sq", "it-columns", *AS_ADMITTER, *words)

        row = columns(kubectl.ok("get", "sq", "it-columns"))[0]

        assert list(row) == ["NAME", "WEIGHT", "STATE", "WAITING", "RUNNING", "INTERRUPTED", "AGE"]
        assert list(row.values())[1:6] == ["3", "Closed", "1", "2", "3"]
    finally:
        kubectl.ok("delete", "sq", "it-columns")
