"""The Job and Service of a run."""

from __future__ import annotations

from typing import Any

import pytest
from scavenger_admitter.core.manifest import job_manifest, peers, service_manifest
from scavenger_admitter.facts import shape_of
from scavenger_api.job import ScavengerJob
from scavenger_domain.pod_security import Level, breaches
from scavenger_testing.pod_security import violations

from . import builders as b

RUN = "2026-01-01T00:00:00.000007Z"


def manifest(*, grace: int = 300, restarts: int = 3, token: bool = False, **spec: Any) -> dict[str, Any]:
    return job_manifest(b.job(spec=spec), restarts=restarts, run=RUN, max_grace_seconds=grace, token=token)


def pod_spec(**spec: Any) -> Any:
    return manifest(**spec)["spec"]["template"]["spec"]


def container(**spec: Any) -> Any:
    (only,) = pod_spec(**spec)["containers"]
    return only


def env(**spec: Any) -> dict[str, Any]:
    return env_of(b.job(spec=spec))


def env_of(job: ScavengerJob) -> dict[str, Any]:
    made = job_manifest(job, restarts=3, run=RUN, max_grace_seconds=300)
    (only,) = made["spec"]["template"]["spec"]["containers"]
    return {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in only["env"]}


def test_the_smallest_job_to_the_letter() -> None:
    """Everything else is left to Kubernetes' own defaults."""
    labels = {"scavenger.dev/job": "job", "scavenger.dev/queue": "default"}
    assert manifest() == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "job",
            "namespace": "ns",
            "labels": labels,
            "annotations": {"scavenger.dev/run": RUN, "scavenger.dev/restarts": "3"},
            "ownerReferences": [
                {
                    "apiVersion": "scavenger.dev/v1alpha1",
                    "kind": "ScavengerJob",
                    "name": "job",
                    "uid": b.UID,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "backoffLimit": 0,
            "managedBy": "scavenger.dev/admitter",
            "template": {
                "metadata": {
                    "labels": {**labels, "scavenger.dev/preemption-class": "preemptible"},
                    "annotations": {
                        "scavenger.dev/run": RUN,
                        "scavenger.dev/pod-suffix": "dts07",
                        "controller.kubernetes.io/pod-deletion-cost": "-2147483648",
                    },
                    "finalizers": ["scavenger.dev/interruption-record"],
                },
                "spec": {
                    "restartPolicy": "Never",
                    "priorityClassName": "scavenger-preemptible",
                    "terminationGracePeriodSeconds": 30,
                    "automountServiceAccountToken": False,
                    "containers": [
                        {
                            "name": "main",
                            "image": "image",
                            "securityContext": {
                                "seccompProfile": {"type": "RuntimeDefault"},
                                "runAsNonRoot": True,
                                "allowPrivilegeEscalation": False,
                                "capabilities": {"drop": ["ALL"]},
                            },
                            "resources": {
                                "requests": {"cpu": "2", "memory": "1Gi"},
                                "limits": {"cpu": "2", "memory": "1Gi"},
                            },
                            "env": [
                                {"name": "SCAVENGER_INDEX", "value": "0"},
                                {"name": "SCAVENGER_PARALLELISM", "value": "1"},
                                {"name": "SCAVENGER_PEERS", "value": "job-0"},
                                {"name": "SCAVENGER_RESTARTS", "value": "3"},
                                {"name": "SCAVENGER_CHECKPOINT_INTERVAL", "value": "1800"},
                            ],
                        }
                    ],
                },
            },
        },
    }


def test_every_field_of_the_spec_arrives() -> None:
    spec: dict[str, Any] = {
        "queue": "physics",
        "imagePullPolicy": "Always",
        "imagePullSecrets": [{"name": "registry"}],
        "command": ["run"],
        "args": ["-n", "4"],
        "env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
        "envFrom": [{"prefix": "P_", "configMapRef": {"name": "c", "optional": True}}],
        "serviceAccountName": "robot",
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "t", "operator": "Exists", "effect": "NoSchedule"}],
        "runAsUser": 6,
        "runAsGroup": 7,
        "fsGroup": 8,
        "securityContext": {
            "readOnlyRootFilesystem": True,
            "allowPrivilegeEscalation": False,
            "seccompProfile": {"type": "Localhost", "localhostProfile": "p.json"},
            "capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]},
        },
        "terminationGracePeriodSeconds": 0,
        "interruptionAfter": "90s",
        "parallelism": 2,
    }
    whole = manifest(**spec)
    assert whole["metadata"]["labels"]["scavenger.dev/queue"] == "physics"
    assert whole["spec"]["template"]["metadata"]["labels"]["scavenger.dev/queue"] == "physics"
    assert (whole["spec"]["parallelism"], whole["spec"]["completions"]) == (2, 2)
    pod = pod_spec(**spec)
    assert pod["imagePullSecrets"] == [{"name": "registry"}]
    assert pod["serviceAccountName"] == "robot"
    assert pod["automountServiceAccountToken"] is False
    whole = manifest(token=True, **spec)["spec"]["template"]["spec"]
    assert whole["automountServiceAccountToken"] is True
    assert pod["nodeSelector"] == {"disk": "ssd"}
    assert pod["tolerations"] == [{"key": "t", "operator": "Exists", "effect": "NoSchedule"}]
    assert pod["securityContext"] == {"runAsUser": 6, "runAsGroup": 7, "fsGroup": 8}
    assert pod["terminationGracePeriodSeconds"] == 0
    assert pod["subdomain"] == "sj-job"
    main = container(**spec)
    assert main["imagePullPolicy"] == "Always"
    assert main["securityContext"] == {**spec["securityContext"], "runAsNonRoot": True}
    assert (main["command"], main["args"]) == (["run"], ["-n", "4"])
    assert main["env"][5:] == [
        {"name": "A", "value": "1"},
        {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
    ]
    assert main["envFrom"] == [{"prefix": "P_", "configMapRef": {"name": "c", "optional": True}}]


# --- PodSecurity ----------------------------------------------------------------------------------------------------

MOUNTS: dict[str, Any] = {
    name: [{"name": "a", "mountPath": f"/{name}"}] for name in ("persistentVolumeClaims", "configMaps", "secrets")
}


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"parallelism": 2, **MOUNTS},
        {"runAsUser": 65532, "runAsGroup": 0, "fsGroup": 0},
        {"capacity": "Reclaimed"},
        {"securityContext": {}},
        {"securityContext": {"readOnlyRootFilesystem": True, "capabilities": {}}},
        {"securityContext": {"capabilities": {"drop": ["NET_RAW"]}}},
        {"securityContext": {"capabilities": {"add": ["NET_BIND_SERVICE"]}}},
        {"securityContext": {"seccompProfile": {"type": "Localhost", "localhostProfile": "p.json"}}},
        {"securityContext": {"privileged": False, "runAsNonRoot": True, "allowPrivilegeEscalation": False}},
    ],
    ids=str,
)
def test_pods_pass_restricted_by_default(spec: dict[str, Any]) -> None:
    assert not list(breaches(b.job(spec=spec).spec, Level.RESTRICTED))
    assert violations(pod_spec(**spec)) == []


@pytest.mark.parametrize(
    "spec",
    [
        {"runAsUser": 0},
        {"securityContext": {"runAsNonRoot": False}},
        {"securityContext": {"allowPrivilegeEscalation": True}},
        {"securityContext": {"capabilities": {"add": ["CHOWN"]}}},
    ],
    ids=str,
)
def test_at_baseline_a_job_has_what_it_asks_for_and_that_is_what_it_may_not_ask_for_otherwise(
    spec: dict[str, Any],
) -> None:
    """`breaches` knows what `restricted` forbids: each field alone makes a pod that would not pass."""
    job = b.job(spec=spec)
    assert list(breaches(job.spec, Level.RESTRICTED))
    made = job_manifest(job, restarts=0, run=RUN, max_grace_seconds=300, level=Level.BASELINE)
    pod = made["spec"]["template"]["spec"]
    (main,) = pod["containers"]
    assert main.get("securityContext", {}) == spec.get("securityContext", {})
    assert pod.get("securityContext", {}).get("runAsUser") == spec.get("runAsUser")
    (plain,) = pod_spec()["containers"]
    asked = main.get("securityContext", {})
    merged = {**plain["securityContext"], **asked}
    assert violations({**pod, "containers": [{**main, "securityContext": merged}]})


def test_volumes() -> None:
    spec: dict[str, Any] = {
        "persistentVolumeClaims": [
            {"name": "data", "mountPath": "/data"},
            {"name": "data", "mountPath": "/raw", "subPath": "raw", "readOnly": True},
        ],
        "configMaps": [{"name": "conf", "mountPath": "/etc/app.conf", "subPath": "app.conf"}],
        "secrets": [{"name": "key", "mountPath": "/key", "readOnly": False}],
    }
    assert pod_spec(**spec)["volumes"] == [
        {"name": "pvc-0", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "configmap-0", "configMap": {"name": "conf"}},
        {"name": "secret-0", "secret": {"secretName": "key"}},
    ]
    assert container(**spec)["volumeMounts"] == [
        {"name": "pvc-0", "mountPath": "/data"},
        {"name": "pvc-0", "mountPath": "/raw", "subPath": "raw", "readOnly": True},
        {"name": "configmap-0", "mountPath": "/etc/app.conf", "subPath": "app.conf"},
        {"name": "secret-0", "mountPath": "/key", "readOnly": False},
    ]


@pytest.mark.parametrize(("wanted", "most", "given"), [(30, 300, 30), (3600, 300, 300), (30, 10, 10), (0, 300, 0)])
def test_the_administrator_bounds_the_grace_period(wanted: int, most: int, given: int) -> None:
    pod = pod_spec(terminationGracePeriodSeconds=wanted, grace=most)
    assert pod["terminationGracePeriodSeconds"] == given


@pytest.mark.parametrize(
    "resources",
    [
        {"limits": {"cpu": 1, "memory": "1Gi", "nvidia.com/gpu": "2"}},
        {"requests": {"cpu": 1, "memory": "1Gi"}, "limits": {"nvidia.com/gpu": "2"}},
        {"requests": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": 2}, "limits": {"cpu": "1000m"}},
    ],
)
def test_requests_equal_limits(resources: dict[str, Any]) -> None:
    given = container(resources=resources)["resources"]
    assert given["requests"] == given["limits"] == {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "2"}


@pytest.mark.parametrize(
    ("interval", "seconds"), [("30m", "1800"), ("7d", "604800"), ("1500ms", "1"), ("1h30m", "5400")]
)
def test_checkpoint_interval(interval: str, seconds: str) -> None:
    assert env(interruptionAfter=interval)["SCAVENGER_CHECKPOINT_INTERVAL"] == seconds


def test_peers_of_a_gang_in_index_order() -> None:
    expected = "job-0.sj-job.ns.svc,job-1.sj-job.ns.svc,job-2.sj-job.ns.svc"
    assert env(parallelism=3)["SCAVENGER_PEERS"] == expected


def named(name: str, parallelism: int = 2) -> ScavengerJob:
    job = b.job(spec={"parallelism": parallelism})
    return job.model_copy(update={"metadata": job.metadata.model_copy(update={"name": name})})


@pytest.mark.parametrize("name", ["job", "a" * 52])
def test_peers_of_a_gang_too_large_to_list_are_a_pattern(name: str) -> None:
    """Linux starts no program with a string of more than 128 KiB in its environment, name and final NUL included."""
    room, listed = 128 * 1024 - len("SCAVENGER_PEERS=\0"), 0
    while (room := room - len(f"{name}-{listed}.sj-{name}.ns.svc")) >= 0:
        listed, room = listed + 1, room - len(",")
    assert env_of(named(name, listed))["SCAVENGER_PEERS"].count(",") == listed - 1
    assert env_of(named(name, listed + 1))["SCAVENGER_PEERS"] == f"{name}-[0-{listed}].sj-{name}.ns.svc"


@pytest.mark.parametrize("name", ["job", "7up", "a" * 52, "0"])
def test_a_gang_has_a_headless_service(name: str) -> None:
    job = named(name)
    service = service_manifest(job)
    assert service is not None
    assert service["metadata"]["name"] == f"sj-{name}"
    assert len(service["metadata"]["name"]) <= 63
    assert service["metadata"]["name"][0].isalpha()
    assert service["metadata"]["ownerReferences"] == [job.owner_reference()]
    assert service["spec"] == {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {"scavenger.dev/job": name},
    }
    pod = job_manifest(job, restarts=0, run=RUN, max_grace_seconds=1)["spec"]["template"]["spec"]
    assert pod["subdomain"] == service["metadata"]["name"]
    assert peers(job)[1] == f"{name}-1.sj-{name}.ns.svc"


def test_a_single_pod_needs_no_service() -> None:
    assert service_manifest(named("job", 1)) is None


def test_a_job_with_gpus_tolerates_the_taint_of_their_nodes() -> None:
    """In the manifest and in the plan alike: else it waits for ever where the API server adds the toleration."""
    made = b.job(spec={"resources": {"limits": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}}})
    pod = job_manifest(made, restarts=0, run=RUN, max_grace_seconds=300)["spec"]["template"]["spec"]
    assert pod["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    assert [(t.key, t.operator, t.effect) for t in shape_of(made).tolerations] == [
        ("nvidia.com/gpu", "Exists", "NoSchedule")
    ]


ONE = {"cpu": "1", "memory": "1Gi"}
MORE = {"requests": ONE, "limits": {"cpu": "1001m", "memory": "1Gi"}}
LARGE = {"limits": {"cpu": "2200m", "memory": "4Gi"}}
HALF_LARGE = {"limits": {"cpu": "1", "memory": "4Gi"}}
UNEQUAL_WHOLE = {**HALF_LARGE, "requests": {"memory": "1Gi"}}
CPU, CPU_MORE = {"cpu": "1"}, {"cpu": "1001m", "memory": "4Gi"}
SOME = {"requests": {"cpu": "500m"}, "limits": {"cpu": "1", "memory": "1Gi"}}


def of_template(**pod: Any) -> dict[str, Any]:
    containers = [{"name": "main", "image": "i", "resources": {"limits": ONE}}, {"name": "log", "image": "l"}]
    return {"template": {"spec": {"containers": containers, **pod}}, "image": None, "resources": None}


@pytest.mark.parametrize(
    ("spec", "container", "whole"),
    [
        ({"resources": {"limits": ONE}}, MORE, None),
        (of_template(), MORE, None),
        (of_template(resources={"limits": ONE}), {"limits": ONE}, MORE),
        (of_template(resources=SOME), {"limits": ONE}, SOME),
        (of_template(resources=LARGE), {"limits": ONE}, LARGE),
        (of_template(resources=HALF_LARGE), {"limits": ONE}, {**HALF_LARGE, "requests": CPU, "limits": CPU_MORE}),
        (of_template(resources=UNEQUAL_WHOLE), {"limits": ONE}, UNEQUAL_WHOLE),
    ],
    ids=[
        "fields",
        "a template",
        "the pod as a whole",
        "Burstable as a whole",
        "a limit as a whole above what its containers request",
        "a memory limit as a whole above what its containers request",
        "as a whole a memory limit above its request",
    ],
)
def test_a_burstable_pod_has_one_cpu_limit_a_millicore_above_the_request(
    spec: dict[str, Any], container: dict[str, Any], whole: dict[str, Any] | None
) -> None:
    made = job_manifest(b.job(spec=spec), restarts=0, run=RUN, max_grace_seconds=300, burstable=True)
    pod = made["spec"]["template"]["spec"]
    assert pod["containers"][0]["resources"] == container
    assert pod.get("resources") == whole


def test_pods_on_reclaimed_capacity_are_burstable_as_they_are() -> None:
    one, other = (
        job_manifest(
            b.job(spec={"capacity": "Reclaimed"}), restarts=0, run=RUN, max_grace_seconds=300, burstable=burstable
        )
        for burstable in (False, True)
    )
    assert one == other


@pytest.mark.parametrize(
    ("sides", "requests", "limits"),
    [
        ({"requests": ONE}, ONE, ONE),
        ({"limits": ONE}, ONE, ONE),
        ({"requests": ONE, "limits": {"memory": "1.2Gi"}}, ONE, {"cpu": "1", "memory": "1.2Gi"}),
        ({"requests": {"cpu": "1"}, "limits": {"cpu": "4", "memory": "1Gi"}}, ONE, {"cpu": "4", "memory": "1Gi"}),
    ],
)
def test_one_side_fills_in_the_other_and_both_stay_as_they_are(
    sides: dict[str, Any], requests: dict[str, str], limits: dict[str, str]
) -> None:
    made = b.job(spec={"resources": sides})
    pod = job_manifest(made, restarts=0, run=RUN, max_grace_seconds=300)["spec"]["template"]["spec"]
    assert pod["containers"][0]["resources"] == {"requests": requests, "limits": limits}
    assert dict(made.spec.requests) == {"cpu": 1000, "memory": 1 << 30}, "which capacity, shares and ranks go by"
