"""Each service under its service account as shipped may do what it needs, and nothing on a list of other things.

Asked twice: the authorizer (SubjectAccessReview), and by doing it, which goes through the policies as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from scavenger_api import names
from scavenger_cluster import Cluster
from scavenger_testing import place as place_of_tests
from scavenger_testing.place import (
    JOB_CONTROLLER,
    MASTERS,
    MERGE_PATCH,
    Answer,
    Object,
    Place,
    Server,
    account,
    job,
    namespace,
    pod,
)
from scavenger_testing.waiting import wait

from tools import rights
from tools.generate_charts import USERS

from .table_admitter import NETWORK, OF_ROOT, confined, of_job
from .table_guard import LABELS, SCAVENGER, SJ, workload

ROOT = Path(__file__).resolve().parents[3]
TEXTS = [file.read_text() for file in sorted((ROOT / "manifests").rglob("*.yaml"))]
MANIFESTS = [one for text in TEXTS for one in yaml.safe_load_all(text) if one]
POLICIES = rights.policies_of(TEXTS)
SERVICES = ("admitter", "regulator", "prioritizer", "webhook")
SYSTEM = "scavenger-system"

# (verb, group, resource[/subresource], name, namespace): "*" is a namespace of users.
NEEDED: dict[str, list[tuple[str, str, str, str, str]]] = {
    "admitter": [
        ("watch", "scavenger.dev", "scavengerjobs", "", "*"),
        ("patch", "scavenger.dev", "scavengerjobs/status", "", "*"),
        ("create", "batch", "jobs", "", "*"),
        ("delete", "batch", "jobs", "", "*"),
        ("patch", "batch", "jobs/status", "", "*"),
        ("update", "batch", "jobs/finalizers", "", "*"),
        ("create", "", "pods", "", "*"),
        ("patch", "", "pods", "", "*"),
        ("watch", "", "nodes", "", ""),
        ("watch", "", "namespaces", "", ""),
        ("create", "", "services", "", "*"),
        ("create", "", "secrets", "", "*"),
        ("create", "", "secrets", "", SYSTEM),  # RBAC leaves no namespace out; the policy does
        ("get", "", "configmaps", "kube-root-ca.crt", "*"),
        ("update", "coordination.k8s.io", "leases", "scavenger-admitter", SYSTEM),
    ],
    "regulator": [
        ("watch", "", "nodes", "", ""),
        ("list", "metrics.k8s.io", "nodes", "", ""),
        ("create", "", "pods/eviction", "", "*"),
        ("patch", "", "configmaps", "scavenger-levels", SYSTEM),
        ("patch", "", "pods", "", "*"),
        ("delete", "", "pods", "", "*"),
    ],
    "prioritizer": [
        ("patch", "", "pods", "", "*"),
        ("list", "metrics.k8s.io", "pods", "", "*"),
        ("create", "policy", "poddisruptionbudgets", "", "*"),
        ("delete", "policy", "poddisruptionbudgets", "scavenger-non-preemptible", "*"),
    ],
    "webhook": [
        ("watch", "scavenger.dev", "scavengerqueues", "", ""),
        ("get", "scavenger.dev", "scavengerqueues", "any", ""),
        ("get", "", "namespaces", "any", ""),
        ("watch", "scheduling.k8s.io", "priorityclasses", "", ""),
        ("watch", "", "secrets", "scavenger-webhook-authority", SYSTEM),
    ],
}

FORBIDDEN: list[tuple[str, str, str, str, str]] = [
    ("get", "", "secrets", "token", "*"),
    ("list", "", "secrets", "", "*"),
    ("list", "", "secrets", "", SYSTEM),
    ("create", "", "secrets", "", SYSTEM),
    ("create", "", "serviceaccounts/token", "scavenger-admitter", SYSTEM),
    ("impersonate", "", "serviceaccounts", "", SYSTEM),
    ("create", "rbac.authorization.k8s.io", "clusterrolebindings", "", ""),
    ("create", "rbac.authorization.k8s.io", "clusterroles", "", ""),
    ("escalate", "rbac.authorization.k8s.io", "clusterroles", "", ""),
    ("bind", "rbac.authorization.k8s.io", "clusterroles", "cluster-admin", ""),
    ("create", "", "pods", "", "*"),
    ("create", "", "pods/exec", "", "*"),
    ("create", "", "pods/portforward", "", "*"),
    ("get", "", "pods/log", "", "*"),
    ("get", "", "configmaps", "kube-root-ca.crt", "*"),
    ("list", "", "configmaps", "", "*"),
    ("list", "", "persistentvolumeclaims", "", "*"),
    ("create", "apps", "deployments", "", "*"),
    ("delete", "apps", "deployments", "", "*"),
    ("delete", "", "namespaces", "*", ""),
    ("patch", "", "namespaces", "*", ""),
    ("patch", "", "nodes", "", ""),
    ("delete", "", "nodes", "", ""),
    ("get", "", "nodes/proxy", "", ""),
    ("create", "admissionregistration.k8s.io", "mutatingwebhookconfigurations", "", ""),
    ("delete", "admissionregistration.k8s.io", "validatingadmissionpolicybindings", "", ""),
    ("patch", "admissionregistration.k8s.io", "validatingwebhookconfigurations", "other", ""),
    ("update", "scavenger.dev", "scavengerjobs", "", "*"),
    ("create", "scavenger.dev", "scavengerjobs", "", "*"),
    ("create", "scheduling.k8s.io", "priorityclasses", "", ""),
    ("delete", "policy", "poddisruptionbudgets", "other", "*"),
    ("create", "certificates.k8s.io", "certificatesigningrequests", "", ""),
]


@pytest.fixture(scope="module")
def place(cluster: Cluster, server: Server) -> Iterator[Place]:
    """An ordinary pod and a Secret, and a running scavenger job."""
    with namespace(cluster, server) as made:
        assert made.create("pods", pod("ordinary", nodeSelector={"nobody": "here"})).allowed
        assert made.create("secrets", {"metadata": {"name": "token"}, "stringData": {"a": "b"}}).allowed
        assert made.create("configmaps", {"metadata": {"name": "mine"}}).allowed
        assert made.create("jobs", {**workload("Job"), "metadata": {"name": "ordinary"}}).allowed
        service = {"metadata": {"name": "ordinary"}, "spec": {"clusterIP": "None", "ports": [{"port": 1}]}}
        assert made.create("services", service).allowed
        queue = {
            "apiVersion": names.API_VERSION,
            "kind": "ScavengerQueue",
            "metadata": {"name": made.namespace},
            "spec": {},
        }
        assert made.create("scavengerqueues", queue).allowed
        wait("jobs are let in", lambda: made.create("scavengerjobs", job("runs")).allowed)
        wait("it runs", lambda: made.get("scavengerjobs", "runs").get("status", {}).get("phase") == "Running")
        try:
            yield made
        finally:
            made.delete("scavengerqueues", made.namespace)


def may(place: Place, service: str, verb: str, group: str, resource: str, name: str, where: str) -> bool:
    """ "*" is the namespace of the test."""
    name, where = (place.namespace if one == "*" else one for one in (name, where))
    return place_of_tests.may(place.server, service, verb, group, resource, name, where)


@pytest.mark.parametrize("service", SERVICES)
def test_what_it_needs(place: Place, service: str) -> None:
    assert [right for right in NEEDED[service] if not may(place, service, *right)] == []


@pytest.mark.parametrize("service", SERVICES)
def test_what_it_must_not(place: Place, service: str) -> None:
    assert len(FORBIDDEN) >= 20
    forbidden = [
        right for right in FORBIDDEN if right not in NEEDED[service]
    ]  # a policy narrows what the admitter creates
    assert [right for right in forbidden if may(place, service, *right)] == []


ATTEMPTS: list[tuple[str, str, str, Object | None]] = [
    ("read a Secret", "GET", "secrets/token", None),
    ("list Secrets", "GET", "secrets", None),
    ("read a ConfigMap", "GET", "configmaps/mine", None),
    ("create a pod", "POST", "pods", pod("sneaked")),
    ("delete an ordinary pod", "DELETE", "pods/ordinary", None),
    ("delete all pods", "DELETE", "pods", None),
    ("label an ordinary pod", "PATCH", "pods/ordinary", {"metadata": {"labels": {"a": "b"}}}),
    (
        "protect an ordinary pod",
        "PATCH",
        "pods/ordinary",
        {"metadata": {"labels": {"scavenger.dev/preemption-class": "non-preemptible"}}},
    ),
    ("annotate an ordinary pod", "PATCH", "pods/ordinary", {"metadata": {"annotations": {"a": "b"}}}),
    ("free an ordinary pod", "PATCH", "pods/ordinary", {"metadata": {"finalizers": ["a.b/c"]}}),
    (
        "evict an ordinary pod",
        "POST",
        "pods/ordinary/eviction",
        {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "ordinary"}},
    ),
    (
        "own an ordinary pod",
        "PATCH",
        "pods/ordinary",
        {"metadata": {"ownerReferences": [{**SJ, "name": "runs"}]}},
    ),
    ("create a Secret", "POST", "secrets", {"metadata": {"name": "x"}}),
    ("create a ServiceAccount", "POST", "serviceaccounts", {"metadata": {"name": "x"}}),
    ("create a ConfigMap", "POST", "configmaps", {"metadata": {"name": "x"}}),
]
CLUSTER_WIDE: list[tuple[str, str, str, Object | None]] = [
    (
        "bind cluster-admin",
        "POST",
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        {
            "metadata": {"name": "x"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        },
    ),
    ("cordon a node", "PATCH", "/api/v1/nodes/fake-001", {"spec": {"unschedulable": True}}),
    ("delete a node", "DELETE", "/api/v1/nodes/fake-001", None),
    ("pods of the system", "DELETE", "/api/v1/namespaces/kube-system/pods/x", None),
    (
        "a budget for everybody",
        "POST",
        "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
        {"metadata": {"name": "x"}, "spec": {"minAvailable": 1, "selector": {}}},
    ),
    (
        "a Job of its own",
        "POST",
        "/apis/batch/v1/namespaces/default/jobs",
        {
            "metadata": {"name": "x"},
            "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "m", "image": "n"}]}}},
        },
    ),
    (
        "the account that aggregates roles",
        "POST",
        "/apis/batch/v1/namespaces/kube-system/jobs",
        workload(
            "Job",
            **SCAVENGER,
            serviceAccountName="clusterrole-aggregation-controller",
            initContainers=[{"name": "i", "image": "n", "securityContext": {"privileged": True}}],
        ),
    ),
    (
        "a Job of a ScavengerJob in kube-system",
        "POST",
        "/apis/batch/v1/namespaces/kube-system/jobs",
        workload("Job", **SCAVENGER),
    ),
    (
        "a headless Service in kube-system",
        "POST",
        "/api/v1/namespaces/kube-system/services",
        {
            "metadata": {"name": "x", "labels": LABELS},
            "spec": {"clusterIP": "None", "selector": LABELS, "ports": [{"port": 1}]},
        },
    ),
    (
        "a Service of its own",
        "POST",
        "/api/v1/namespaces/default/services",
        {"metadata": {"name": "x"}, "spec": {"ports": [{"port": 1}]}},
    ),
]


@pytest.mark.parametrize("service", SERVICES)
def test_attempts(place: Place, service: str) -> None:
    """The same by doing it. A 404 would mean that it was let through to look."""
    succeeded = []
    for name, method, path, body in [*ATTEMPTS, *CLUSTER_WIDE]:
        whole = path if path.startswith("/") else f"/api/v1/namespaces/{place.namespace}/{path}"
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        answer = place.server(method, whole + "?dryRun=All", body, user=account(service), content_type=kind)
        nothing_there = answer.code == 404 and name == "pods of the system" and service in ("admitter", "regulator")
        denied = answer.code == 403 or "ValidatingAdmissionPolicy" in answer.message
        looks = name == "read a ConfigMap" and service == "admitter"  # whether what a job refers to is there
        if not denied and not nothing_there and not looks:
            succeeded.append((name, answer.code, answer.message))
    assert succeeded == []
    assert place.get("pods", "ordinary")["metadata"].get("labels") is None


ORDINARY: dict[str, tuple[str, str, Object | None]] = {
    "create jobs.batch": ("POST", "/apis/batch/v1/namespaces/{namespace}/jobs", workload("Job")),
    "create poddisruptionbudgets.policy": (
        "POST",
        "/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets",
        {"metadata": {"name": "x"}, "spec": {"minAvailable": 1, "selector": {}}},
    ),
    "create pods": ("POST", "/api/v1/namespaces/{namespace}/pods", pod("sneaked")),
    "create pods/eviction": (
        "POST",
        "/api/v1/namespaces/{namespace}/pods/ordinary/eviction",
        {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "ordinary"}},
    ),
    "create secrets": ("POST", "/api/v1/namespaces/{namespace}/secrets", {"metadata": {"name": "x"}}),
    "create services": (
        "POST",
        "/api/v1/namespaces/{namespace}/services",
        {"metadata": {"name": "x"}, "spec": {"ports": [{"port": 1}]}},
    ),
    "delete jobs.batch": ("DELETE", "/apis/batch/v1/namespaces/{namespace}/jobs/ordinary", None),
    "delete pods": ("DELETE", "/api/v1/namespaces/{namespace}/pods/ordinary", None),
    "delete services": ("DELETE", "/api/v1/namespaces/{namespace}/services/ordinary", None),
    "patch jobs/status.batch": (
        "PATCH",
        "/apis/batch/v1/namespaces/{namespace}/jobs/ordinary/status",
        {"status": {"active": 7}},
    ),
    "patch pods": ("PATCH", "/api/v1/namespaces/{namespace}/pods/ordinary", {"metadata": {"labels": {"a": "b"}}}),
    "patch pods/resize": (
        "PATCH",
        "/api/v1/namespaces/{namespace}/pods/ordinary/resize",
        {"metadata": {"labels": {"a": "b"}}},
    ),
    "patch scavengerjobs/status.scavenger.dev": (
        "PATCH",
        "/apis/scavenger.dev/v1alpha1/namespaces/{namespace}/scavengerjobs/runs/status",
        {"status": {"phase": "Completed"}},
    ),
    "patch scavengerqueues.scavenger.dev": (
        "PATCH",
        "/apis/scavenger.dev/v1alpha1/scavengerqueues/{namespace}",
        {"spec": {"weight": 7}},
    ),
}
"""For each write that a policy narrows: the same write of what is none of the component's business."""
WRITES = [
    (role["metadata"]["name"], write, found)
    for role in MANIFESTS
    if role["kind"] == "ClusterRole" and not role["metadata"]["name"].startswith(USERS)
    for rule in role["rules"]
    if not rule.get("resourceNames")
    for write, found, _ in rights.bounds(role["metadata"]["name"], rule, POLICIES)
    if found
]
WRITES.append(("scavenger-admitter", "create secrets", ["keys"]))  # with settings.snapshotImage


@pytest.mark.parametrize(("service", "write", "policies"), WRITES, ids=lambda value: str(value))
def test_each_write_of_a_component_is_narrowed(place: Place, service: str, write: str, policies: list[str]) -> None:
    """By a policy that docs/charts.md names, under the rights that the component has."""
    method, path, body = ORDINARY[write]
    kind = MERGE_PATCH if method == "PATCH" else "application/json"
    user = account(service.removeprefix("scavenger-"))
    answer = place.server(
        method, f"{path.format(namespace=place.namespace)}?dryRun=All", body, user=user, content_type=kind
    )
    by = [name for name in policies if f"'scavenger-guard-{name}' with binding" in answer.message]
    assert (answer.code, bool(by)) == (403, True), answer


# --- with more rights than it has ---

TAKEN_OVER: list[tuple[str, str, str, str, Object | None]] = [
    ("admitter", "delete an ordinary pod", "DELETE", "pods/ordinary", None),
    ("admitter", "label a scavenger pod", "PATCH", "pods/{member}", {"metadata": {"labels": {"a": "b"}}}),
    ("admitter", "change a scavenger pod", "PATCH", "pods/{member}", {"spec": {"activeDeadlineSeconds": 1}}),
    ("admitter", "disown a scavenger pod", "PATCH", "pods/{member}", {"metadata": {"ownerReferences": None}}),
    ("prioritizer", "hold a scavenger pod", "PATCH", "pods/{member}", {"metadata": {"finalizers": ["a.example/b"]}}),
    ("prioritizer", "annotate a scavenger pod", "PATCH", "pods/{member}", {"metadata": {"annotations": {"a": "b"}}}),
    ("prioritizer", "delete an ordinary pod", "DELETE", "pods/ordinary", None),
    ("regulator", "delete an ordinary pod", "DELETE", "pods/ordinary", None),
    ("regulator", "delete pods, whatever they are", "DELETE", "pods", None),
    ("regulator", "label a scavenger pod", "PATCH", "pods/{member}", {"metadata": {"labels": {"a": "b"}}}),
    (
        "regulator",
        "turn the class of a scavenger pod",
        "PATCH",
        "pods/{member}",
        {"metadata": {"labels": {"scavenger.dev/preemption-class": "non-preemptible"}}},
    ),
]
"""Service, what it tries, and how: {member} is a pod of the running scavenger job."""

ORDINARY_JOB, JOB = (f"/apis/batch/v1/namespaces/{{namespace}}/jobs/{name}/status" for name in ("ordinary", "runs"))
LEAVES: Object = {"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "1-2"}
TAKEN_OVER += [
    (
        "admitter",
        "end an ordinary Job",
        "PATCH",
        ORDINARY_JOB,
        {"status": {"conditions": [{"type": "FailureTarget", "status": "True", "reason": "R", "message": "m"}]}},
    ),
    ("admitter", "label an ordinary Job", "PATCH", ORDINARY_JOB, {"metadata": {"labels": {"scavenger.dev/job": "x"}}}),
    ("admitter", "let an ordinary Job go", "PATCH", ORDINARY_JOB, {"metadata": {"ownerReferences": [LEAVES]}}),
    ("regulator", "write the status of a Job", "PATCH", JOB, {"status": {"active": 7}}),
    ("prioritizer", "write the status of an ordinary Job", "PATCH", ORDINARY_JOB, {"status": {"active": 7}}),
    *(
        ("admitter", f"change {field} of its Job by its status", "PATCH", JOB, {"metadata": {field: value}})
        for field, value in {
            "labels": {"a": "b"},
            "annotations": {"a": "b"},
            "finalizers": ["a.example/b"],
            "ownerReferences": [LEAVES],
        }.items()
    ),
]


def as_administrator(place: Place, service: str, method: str, path: str, body: Object | None) -> tuple[int, str]:
    """What becomes of it when RBAC allows the service everything: the policies hold by themselves."""
    found = path.format(namespace=place.namespace, member=member(place))
    whole = f"{found if path.startswith('/') else f'/api/v1/namespaces/{place.namespace}/{found}'}?dryRun=All"
    kind = MERGE_PATCH if method == "PATCH" else "application/json"
    answer = place.server(method, whole, body, user=account(service), groups=(MASTERS,), content_type=kind)
    return answer.code, answer.message


def member(place: Place) -> str:
    """The name of the pod of the running job."""
    found = [p["metadata"] for p in place.items("pods") if "scavenger.dev/job" in p["metadata"].get("labels", {})]
    assert len(found) == 1
    return str(found[0]["name"])


@pytest.mark.parametrize(("service", "name", "method", "path", "body"), TAKEN_OVER, ids=lambda v: str(v)[:40])
def test_a_service_that_somebody_has_taken_over(
    place: Place, service: str, name: str, method: str, path: str, body: Object | None
) -> None:
    code, message = as_administrator(place, service, method, path, body)
    assert (code, "ValidatingAdmissionPolicy" in message) == (403, True), (name, message)


def test_the_status_of_a_managed_job_is_the_admitters(place: Place) -> None:
    """Neither an administrator nor the Job controller writes it; the status of any other Job is as before."""
    change = {"status": {"active": 1}}
    assert place.try_patch("jobs", "runs", change, sub="status", user=account("admitter")).allowed
    for user in ("anybody", JOB_CONTROLLER):
        answer = place.try_patch("jobs", "runs", change, sub="status", user=user, groups=(MASTERS,))
        assert (answer.code, "the admitter alone writes the status" in answer.message) == (403, True), answer
        assert place.try_patch("jobs", "ordinary", change, sub="status", user=user, groups=(MASTERS,)).allowed


def test_the_admitter_holds_a_queue_and_changes_nothing_else_of_it(place: Place) -> None:
    def finalizers() -> bool:
        held: Object = place.get("scavengerqueues", place.namespace)["metadata"]
        return bool(held.get("finalizers") == [names.QUEUE_FINALIZER])

    wait("the admitter holds the queue", finalizers)
    for change in (
        {"metadata": {"labels": {"a": "b"}}},
        {"metadata": {"finalizers": ["a.example/b", names.QUEUE_FINALIZER]}},
    ):
        answer = place.try_patch("scavengerqueues", place.namespace, change, user=account("admitter"))
        assert (answer.code, "changes the finalizer" in answer.message) == (403, True), answer
        assert place.try_patch("scavengerqueues", place.namespace, change).allowed
    release: Object = {"metadata": {"finalizers": []}}
    assert place.try_patch("scavengerqueues", place.namespace, release, user=account("admitter")).allowed


def test_escalation_takes_the_administrators_word_for_the_namespace(place: Place) -> None:
    """Nobody else may label a namespace; privileged is not to be had at all."""

    def asks(**context: bool) -> Answer:
        body = workload("Job", **{**SCAVENGER, "containers": [confined(**context)]})
        return place.try_create("jobs", body, user=account("admitter"))

    def say(word: str | None) -> None:
        label = {"metadata": {"labels": {"scavenger.dev/pod-security": word}}}
        assert place.patch("namespaces", place.namespace, label).allowed

    assert "without escalation" in asks(allowPrivilegeEscalation=True).message
    say("baseline")
    wait("the label is seen", lambda: asks(allowPrivilegeEscalation=True).allowed)
    assert asks(privileged=True).code == 403
    say(None)
    wait("its end is seen", lambda: not asks(allowPrivilegeEscalation=True).allowed)


def test_an_image_of_an_injector_sets_up_the_network(place: Place) -> None:
    """As root, with the capabilities of the network and no other, by what the image runs; other images may not."""
    image = "docker.io/istio/proxyv2"
    path = place.path("validatingadmissionpolicies", "scavenger-guard-job-pods")
    policy = place.server("GET", path).body
    ((place_of, before),) = [(n, v) for n, v in enumerate(policy["spec"]["variables"]) if v["name"] == "injected"]
    named = before["expression"].replace("[].exists", f"['{image}'].exists")
    assert named != before["expression"]

    def asks(image: str = f"{image}:1.2", container: Object | None = None, **context: Any) -> Answer:
        injected = {
            **confined(**{**NETWORK, **OF_ROOT, **context}),
            "name": "init",
            "image": image,
            **(container or {}),
        }
        body = of_job("", initContainers=[injected]).body
        return place.try_create("pods", body, user=account("admitter"))

    def say(expression: str) -> None:
        change = [{"op": "replace", "path": f"/spec/variables/{place_of}/expression", "value": expression}]
        assert place.server("PATCH", path, change, content_type="application/json-patch+json").allowed

    assert asks().code == 403
    say(named)
    try:
        wait("the image is known", lambda: asks().allowed)
        assert asks(f"{image}@sha256:{'0' * 64}").allowed
        assert asks(image).allowed
        for other in (f"{image}-of-others:1", f"registry.example.com/{image}:1", "istio/proxyv2:1"):
            assert asks(other).code == 403, other
        assert asks(container={"command": ["sh"]}).code == 403
        assert asks(capabilities={"add": ["SYS_MODULE"]}).code == 403
        assert asks(privileged=True).code == 403
    finally:
        say(before["expression"])
    wait("the image is no longer known", lambda: asks().code == 403)


def test_the_regulator_deletes_preemptible_pods_only(place: Place) -> None:
    path = place.path("pods", member(place))
    classes = {"preemptible": 200, "non-preemptible": 403}
    for class_, code in classes.items():
        label = {"metadata": {"labels": {"scavenger.dev/preemption-class": class_}}}
        changed = place.patch("pods", member(place), label, user=account("prioritizer"))
        assert changed.allowed, changed
        assert as_administrator(place, "regulator", "DELETE", "pods/{member}", None)[0] == code, class_
    assert place.server("GET", path).allowed


# --- the webhook and its certificates ---

CONFIGURATIONS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
CERTIFICATES: list[tuple[str, str, str, str, str]] = [
    *(
        (verb, "admissionregistration.k8s.io", kind, "scavenger-webhook", "")
        for kind in CONFIGURATIONS
        for verb in ("patch", "update", "delete", "list", "watch")
    ),
    ("update", "", "secrets", "scavenger-webhook-authority", SYSTEM),
    ("patch", "", "secrets", "scavenger-webhook-authority", SYSTEM),
]
"""What it needs for its certificates in no way."""


def test_the_webhook_may_not_change_whom_the_api_server_asks(place: Place) -> None:
    assert [right for right in CERTIFICATES if may(place, "webhook", *right)] == []
    for kind in CONFIGURATIONS:
        path = f"/apis/admissionregistration.k8s.io/v1/{kind}/scavenger-webhook?dryRun=All"
        everything = [{"op": "replace", "path": "/webhooks/0/rules/0/resources", "value": ["*"]}]
        answer = place.server(
            "PATCH", path, everything, user=account("webhook"), content_type="application/json-patch+json"
        )
        assert answer.code == 403, answer
