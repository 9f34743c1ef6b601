"""A user with the stock role `edit` in one namespace: what they try with a job of theirs, and what they honestly do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from scavenger_cluster import Cluster
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

from .table_guard import OWNER, SJ, workload
from .table_updates import STRATEGIC

USER = "alice"
GROUPS = ("system:authenticated",)
MONTH = 2592000


@pytest.fixture(scope="module")
def place(cluster: Cluster, server: Server) -> Iterator[Place]:
    """The user's namespace, with a running job of one pod and an ordinary pod in it."""
    with namespace(cluster, server) as made:
        subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"}
        path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{made.namespace}/rolebindings"
        assert server("POST", path, {"metadata": {"name": USER}, "subjects": [subject], "roleRef": role}).allowed
        assert made.create("pods", pod("ordinary", nodeSelector={"nobody": "here"})).allowed
        wait("jobs are let in", lambda: made.create("scavengerjobs", job("mine")).allowed)
        wait("it runs", lambda: made.get("scavengerjobs", "mine").get("status", {}).get("phase") == "Running")
        yield made


def member(place: Place) -> str:
    """The name of the job's pod."""
    names = [p["metadata"]["name"] for p in place.items("pods")]
    (found,) = (name for name in names if name != "ordinary")
    return str(found)


def delete(place: Place, kind: str, name: str, options: Object, user: str = USER) -> Answer:
    groups = GROUPS if user == USER else ()
    path = place.path(kind, name) + "?dryRun=All"
    return place.server("DELETE", path, {"dryRun": ["All"], **options}, user=user, groups=groups)


def evict(place: Place, name: str, options: Object, user: str = USER, **labels: str) -> Answer:
    groups = GROUPS if user == USER else ()
    meta = {"name": name, "labels": {f"scavenger.dev/{k}": v for k, v in labels.items()}}
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta}
    path = place.path("pods", name, sub="eviction") + "?dryRun=All"
    return place.server(
        "POST", path, {**body, "deleteOptions": {"dryRun": ["All"], **options}}, user=user, groups=groups
    )


def refused(answer: Answer, says: str) -> None:
    assert answer.code == 403, answer
    assert "ValidatingAdmissionPolicy" in answer.message
    assert says in answer.message


@pytest.mark.parametrize("seconds", [2, 30, MONTH])
def test_a_deletion_asks_for_no_more_grace_than_the_pod(place: Place, seconds: int) -> None:
    """The job's own is one second."""
    refused(delete(place, "pods", member(place), {"gracePeriodSeconds": seconds}), "a grace period of at most its own")
    everything = place.path("pods") + "?dryRun=All&labelSelector=scavenger.dev/job"
    answer = place.server("DELETE", everything, {"gracePeriodSeconds": seconds}, user=USER, groups=GROUPS)
    refused(answer, "a grace period of at most its own")


@pytest.mark.parametrize("options", [{}, {"gracePeriodSeconds": 1}, {"gracePeriodSeconds": 0}], ids=str)
def test_what_a_user_honestly_deletes(place: Place, options: Object) -> None:
    assert delete(place, "pods", member(place), options).allowed
    assert delete(place, "pods", "ordinary", {"gracePeriodSeconds": MONTH}).allowed
    assert delete(place, "jobs", "mine", {"propagationPolicy": "Background"}).allowed
    assert delete(place, "scavengerjobs", "mine", {"propagationPolicy": "Foreground"}).allowed


def test_an_eviction_asks_for_no_more_grace_than_any_job_may_have(place: Place) -> None:
    name = member(place)
    refused(evict(place, name, {"gracePeriodSeconds": MONTH}), "a grace period of at most 300 s")
    refused(evict(place, name, {"gracePeriodSeconds": 301}), "a grace period of at most 300 s")
    for options in ({}, {"gracePeriodSeconds": 1}):
        assert evict(place, name, options).allowed
    assert evict(place, name, {"gracePeriodSeconds": MONTH}, user="").allowed, "who drains nodes is not held to it"


def test_what_else_is_tried(place: Place) -> None:
    """By way of kinds that a user with `edit` may write."""
    owned = {"ownerReferences": [{**SJ, "name": "mine", "uid": place.get("scavengerjobs", "mine")["metadata"]["uid"]}]}
    more = {"spec": {"parallelism": 200}}
    label = {"metadata": {"labels": {"scavenger.dev/preemption-class": "non-preemptible"}}}
    attempts: list[tuple[str, str, str, Object]] = [
        ("more pods", "PATCH", place.path("jobs", "mine"), more),
        ("room while suspended", "PATCH", place.path("jobs", "mine"), {"spec": {"suspend": True}}),
        ("fewer restarts", "PATCH", place.path("jobs", "mine"), annotation("restarts", "2000000000")),
        ("another place in line", "PATCH", place.path("jobs", "mine"), annotation("run", "2022")),
        ("no owner", "PATCH", place.path("jobs", "mine"), {"metadata": {"ownerReferences": None}}),
        ("no job", "PATCH", place.path("jobs", "mine"), {"metadata": {"labels": {"scavenger.dev/job": None}}}),
        ("protected", "PATCH", place.path("pods", member(place)), label),
        ("dear", "PATCH", place.path("pods", member(place)), annotation("running-priority", "1e9")),
        ("covered", "PATCH", place.path("pods", "ordinary"), label),
        ("a Job of theirs", "POST", place.path("jobs"), workload("Job", {"name": "other", **owned})),
        ("a Job of a run", "POST", place.path("jobs"), workload("Job", annotation("run", "2022")["metadata"])),
        ("a pod of theirs", "POST", place.path("pods"), pod("other", meta=owned)),
        ("a pod of the class", "POST", place.path("pods"), pod("other", priorityClassName="scavenger-preemptible")),
    ]
    for name, method, path, body in attempts:
        content_type = MERGE_PATCH if method == "PATCH" else "application/json"
        answer = place.server(method, path + "?dryRun=All", body, user=USER, groups=GROUPS, content_type=content_type)
        assert (answer.code, "ValidatingAdmissionPolicy" in answer.message) == (403, True), (name, answer)


def annotation(name: str, value: str) -> dict[str, Any]:
    return {"metadata": {"annotations": {f"scavenger.dev/{name}": value}}}


def test_what_a_user_honestly_does(place: Place) -> None:
    name = member(place)
    mine = {"metadata": {"labels": {"mine": "1"}, "annotations": {"mine": "1"}}}
    for kind, which in (("pods", name), ("pods", "ordinary"), ("jobs", "mine"), ("scavengerjobs", "mine")):
        assert place.server("GET", place.path(kind, which), user=USER, groups=GROUPS).allowed
        assert place.try_patch(kind, which, mine, user=USER, groups=GROUPS).allowed
    checkpoint = annotation("last-checkpoint", "2026-01-01T00:00:00Z")
    assert place.try_patch("pods", name, checkpoint, user=USER, groups=GROUPS).allowed
    assert place.try_patch("scavengerjobs", "mine", {"spec": {"suspend": True}}, user=USER, groups=GROUPS).allowed
    assert place.try_create("jobs", workload("Job"), user=USER, groups=GROUPS).allowed
    assert place.try_create("pods", pod("other"), user=USER, groups=GROUPS).allowed


# --- the regulator, which evicts and throttles ---


def test_the_regulator_evicts_scavenger_pods_only(place: Place) -> None:
    regulator = account("regulator")
    for options in ({}, {"gracePeriodSeconds": 1}):
        assert evict(place, member(place), options, user=regulator, eviction="checked").allowed
    answer = evict(place, "ordinary", {}, user=regulator, eviction="checked")
    refused(answer, "the regulator evicts pods of ScavengerJobs only")
    for name in ("ordinary", member(place)):
        refused(evict(place, name, {}, user=regulator), "carry the label scavenger.dev/eviction")
    assert evict(place, "ordinary", {}).allowed, "others are not asked"
    assert evict(place, "ordinary", {}, eviction="checked").allowed


@pytest.fixture
def unbound(place: Place) -> Iterator[str]:
    """A pod of a scavenger job on no node, as fake ones know no resize. The admitter deletes it, having no such job; it
    is held meanwhile."""
    hold = "example.com/hold"
    meta = {"labels": {"scavenger.dev/job": "gone"}, "finalizers": [hold], **OWNER}
    cpu = {"cpu": "1", "memory": "64Mi"}
    main = {"name": "main", "image": "none", "resources": {"requests": cpu, "limits": cpu}}
    body = pod("unbound", meta=meta, nodeSelector={"nobody": "here"}, containers=[main])
    answer = place.create("pods", body, user=JOB_CONTROLLER, groups=(MASTERS,))
    assert answer.allowed, answer
    yield "unbound"
    assert place.patch("pods", "unbound", {"metadata": {"finalizers": None}}).allowed
    place.delete("pods", "unbound")


@pytest.mark.parametrize(
    ("user", "resources", "allowed"),
    [
        ("regulator", {"cpu": "2"}, True),
        ("regulator", {"memory": "1Gi"}, False),
        ("prioritizer", {"cpu": "2"}, False),
        ("", {"cpu": "64"}, False),
    ],
)
def test_a_scavenger_pod_is_resized_by_the_regulator_only(
    place: Place, unbound: str, user: str, resources: Object, allowed: bool
) -> None:
    change = {"spec": {"containers": [{"name": "main", "resources": {"requests": resources, "limits": resources}}]}}
    who: dict[str, Any] = {"user": account(user), "groups": (MASTERS,)} if user else {}
    answer = place.try_patch("pods", unbound, change, sub="resize", content_type=STRATEGIC, **who)
    if allowed:
        assert answer.allowed, answer
    else:
        refused(answer, "resized by the regulator only")
