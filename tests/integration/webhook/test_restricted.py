"""Namespaces of every level on the real API server, whose own PodSecurity admission has the say about pods."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from scavenger_cluster import Cluster
from scavenger_testing.place import Object, Place, Server, job, namespace
from scavenger_testing.pod_security import violations

from .conftest import start_webhook

ENFORCE = "pod-security.kubernetes.io/enforce"
OURS = "scavenger.dev/pod-security"
RIGHTS: Object = {"runAsNonRoot": False, "allowPrivilegeEscalation": True, "capabilities": {"add": ["CHOWN"]}}
ASKING: Object = {"runAsUser": 0, "securityContext": RIGHTS}


@contextmanager
def labelled(cluster: Cluster, server: Server, **labels: str) -> Iterator[Place]:
    with namespace(cluster, server, **labels) as place:
        yield place


def label(place: Place, labels: dict[str, Any]) -> bool:
    path = f"/api/v1/namespaces/{place.namespace}"
    patch = {"metadata": {"labels": labels}}
    return place.server("PATCH", path, patch, content_type="application/merge-patch+json").allowed


@pytest.fixture(scope="module", autouse=True)
def _webhook(cluster: Cluster) -> None:
    start_webhook(cluster)


@pytest.fixture(scope="module")
def strict(cluster: Cluster, server: Server) -> Iterator[Place]:
    """A namespace where PodSecurity lets nothing in but what is restricted."""
    with labelled(cluster, server, **{ENFORCE: "restricted"}) as place:
        yield place


def runs(place: Place, name: str) -> None:
    place.wait(f"{name} runs", lambda: status(place, name).get("phase") == "Running")


def status(place: Place, name: str) -> Object:
    return dict(place.get("scavengerjobs", name).get("status", {}))


def pods(place: Place, name: str) -> list[Object]:
    return [pod for pod in place.items("pods") if pod["metadata"].get("labels", {}).get("scavenger.dev/job") == name]


def test_the_namespace_takes_no_other_pods(strict: Place) -> None:
    """Without this the tests below would prove nothing."""
    answer = strict.try_create(
        "pods", {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "m", "image": "n"}]}}
    )

    assert answer.code == 403
    assert 'violates PodSecurity "restricted' in answer.message


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"parallelism": 2},
        {"runAsUser": 1000, "runAsGroup": 0, "fsGroup": 1000},
        {
            "securityContext": {
                "runAsNonRoot": True,
                "readOnlyRootFilesystem": True,
                "seccompProfile": {"type": "Localhost", "localhostProfile": "p.json"},
                "capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["NET_RAW"]},
            }
        },
    ],
    ids=["default", "gang", "ids", "context"],
)
def test_pods_of_scavenger_jobs_pass(strict: Place, request: pytest.FixtureRequest, spec: Object) -> None:
    name = f"job-{request.node.callspec.id}"
    answer = strict.create("scavengerjobs", job(name, **spec))
    assert answer.allowed, answer
    runs(strict, name)

    template = strict.get("jobs", name)["spec"]["template"]["spec"]
    found = pods(strict, name)
    assert len(found) == spec.get("parallelism", 1)
    assert [violations(pod) for pod in (template, *(one["spec"] for one in found))] == [[]] * (1 + len(found))
    assert not answer.warnings
    strict.delete("scavengerjobs", name)


def test_what_it_forbids_is_refused_at_creation_and_the_label_changes_nothing_there(
    cluster: Cluster, server: Server
) -> None:
    """Every pod would be refused, so that nobody is let in to wait for that."""
    with labelled(cluster, server, **{ENFORCE: "restricted", OURS: "baseline"}) as place:
        answer = place.try_create("scavengerjobs", job(**ASKING))

        assert sorted(answer.causes) == [
            "spec.runAsUser",
            "spec.securityContext.allowPrivilegeEscalation",
            "spec.securityContext.capabilities.add",
            "spec.securityContext.runAsNonRoot",
        ]
        assert "ask an administrator to label the namespace scavenger.dev/pod-security=baseline" in answer.message


def test_the_administrator_opts_a_namespace_out_and_in_again(cluster: Cluster, server: Server) -> None:
    with labelled(cluster, server, **{OURS: "baseline", ENFORCE: "baseline"}) as place:
        place.wait("the webhook has seen the label", lambda: place.try_create("scavengerjobs", job(**ASKING)).allowed)
        # That the first one runs says that the admitter, which has a watch of its own, has seen the label as well.
        for name, asked, context in (("asks", ASKING, RIGHTS), ("plain", {}, None)):
            assert place.create("scavengerjobs", job(name, **asked)).allowed
            runs(place, name)
            (main,) = place.get("jobs", name)["spec"]["template"]["spec"]["containers"]
            assert main.get("securityContext") == context

        assert label(place, {OURS: None})
        place.wait("the webhook has seen it go", lambda: place.try_create("scavengerjobs", job(**ASKING)).code == 422)

        def waits() -> bool:
            """The admitter may see the label go later, and start the job once more: then it has to leave again."""
            if status(place, "asks").get("phase") == "Running":
                for pod in pods(place, "asks"):
                    place.delete("pods", pod["metadata"]["name"])
            return "spec.runAsUser: 0 is root" in status(place, "asks").get("message", "")

        place.wait("it waits", waits)
        assert status(place, "asks")["phase"] == "Interrupted"
        assert place.server(
            "PATCH",
            place.path("scavengerjobs", "asks"),
            {"spec": {"suspend": True}},
            content_type="application/merge-patch+json",
        ).allowed


def test_an_edit_user_cannot_set_the_label(strict: Place) -> None:
    """Nor any other of the namespace: its labels belong to who may change the namespace."""
    binding = {
        "metadata": {"name": "editor"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "researcher"}],
    }
    path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{strict.namespace}/rolebindings"
    assert strict.server("POST", path, binding).allowed
    strict.wait(
        "the binding holds",
        lambda: strict.try_create("configmaps", {"metadata": {"name": "c"}}, user="researcher").allowed,
    )

    answer = strict.server(
        "PATCH",
        f"/api/v1/namespaces/{strict.namespace}?dryRun=All",
        {"metadata": {"labels": {OURS: "baseline"}}},
        user="researcher",
        content_type="application/merge-patch+json",
    )

    assert answer.code == 403
