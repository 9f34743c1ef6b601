"""What the prioritizer may write on regular pods and on Workloads of Kueue, on a real API server.

Kueue is not there: its kind is a definition without a schema.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest
from scavenger_api import names
from scavenger_cluster import Cluster, stack
from scavenger_testing.place import Answer, Object, Place, Server, account, namespace, pod, sized_spec

pytestmark = pytest.mark.long

PRIORITIZER: Final = account("prioritizer")
COST: Final = names.ANNOTATION_DELETION_COST
BOOST: Final = names.ANNOTATION_PRIORITY_BOOST
WORKLOADS: Final = "/apis/kueue.x-k8s.io/v1beta2"
ONLY: Final = "(0 to 20)"
DEFINITION: Final[Object] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "workloads.kueue.x-k8s.io"},
    "spec": {
        "group": "kueue.x-k8s.io",
        "scope": "Namespaced",
        "names": {"plural": "workloads", "singular": "workload", "kind": "Workload"},
        "versions": [
            {
                "name": "v1beta2",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}
DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture(scope="module")
def told(cluster: Cluster, server: Server) -> Iterator[Place]:
    """A namespace that an administrator has switched on, with a pod and a Workload."""
    assert server("POST", DEFINITIONS, DEFINITION).allowed
    stack.tell_costs(cluster)
    try:
        with namespace(cluster, server, **{names.LABEL_COSTS: names.COSTS_ENABLED}) as place:
            fill(place)
            place.wait("the policy on pods", lambda: applied(place, cost="3").allowed)
            place.wait("the policy on Workloads", lambda: not applied(place, "w", boost="21").allowed)
            yield place
    finally:
        stack.tell_no_costs(cluster)
        server("DELETE", f"{DEFINITIONS}/workloads.kueue.x-k8s.io")


@pytest.fixture
def other(told: Place, cluster: Cluster, server: Server) -> Iterator[Place]:
    """A namespace like all others."""
    with namespace(cluster, server) as place:
        fill(place)
        yield place


def fill(place: Place) -> None:
    for name, notes in (("p", {}), ("own", {COST: "-5"})):
        assert place.create("pods", pod(name, {"annotations": notes}, **sized_spec())).allowed
    body = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": {"name": "w"}, "spec": {"a": 1}}
    place.wait("Workloads to be served", lambda: place.server("POST", of_workloads(place), body).code in (201, 409))


def of_workloads(place: Place, name: str = "") -> str:
    return f"{WORKLOADS}/namespaces/{place.namespace}/workloads" + (f"/{name}" if name else "")


def applied(
    place: Place, name: str = "p", *, cost: str = "", boost: str = "", meta: Object | None = None, **body: Any
) -> Answer:
    """What the API server says to the prioritizer's apply of a figure, and of more."""
    path = place.path("pods", name)
    whole: Object = {"apiVersion": "v1", "kind": "Pod"}
    if boost:
        path, whole = of_workloads(place, name), {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload"}
    notes = {COST: cost} if cost else {BOOST: boost} if boost else {}
    whole |= {"metadata": {"name": name, "annotations": notes, **(meta or {})}, **body}
    return place.server(
        "PATCH",
        f"{path}?dryRun=All&fieldManager=scavenger-prioritizer",
        json.dumps(whole).encode(),
        user=PRIORITIZER,
        content_type="application/apply-patch+yaml",
    )


@pytest.mark.parametrize(
    "figure", [{"cost": "0"}, {"cost": "20"}, {"boost": "0", "name": "w"}, {"boost": "20", "name": "w"}]
)
def test_the_prioritizer_writes_a_figure_where_it_is_switched_on(told: Place, other: Place, figure: Object) -> None:
    allowed, refused = applied(told, **figure), applied(other, **figure)
    assert allowed.allowed, allowed
    assert ONLY in refused.message, refused


@pytest.mark.parametrize("value", ["21", "-1", "2147483647", "07", ""])
def test_no_other_value(told: Place, value: str) -> None:
    for answer in (
        applied(told, meta={"annotations": {COST: value}}),
        applied(told, "w", boost="1", meta={"annotations": {BOOST: value}}),
    ):
        assert not answer.allowed, answer


@pytest.mark.parametrize(
    "meta",
    [
        {"labels": {"mine": "1"}},
        {"annotations": {COST: "1", "mine": "1"}},
        {"finalizers": ["example.com/held"]},
        {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "b"}]},
    ],
)
def test_nothing_beside_it(told: Place, meta: Object) -> None:
    assert ONLY in applied(told, cost="1", meta=meta).message
    if "annotations" in meta:
        meta = {"annotations": {BOOST: "1", "mine": "1"}}
    assert ONLY in applied(told, "w", boost="1", meta=meta).message


def test_no_spec(told: Place) -> None:
    image = {"containers": [{"name": "main", "image": "other"}]}
    assert "conflict" in applied(told, cost="1", spec=image).message, "another manager has it"
    forced = {"metadata": {"annotations": {COST: "1"}}, "spec": {"activeDeadlineSeconds": 5}}
    assert ONLY in told.try_patch("pods", "p", forced, user=PRIORITIZER).message
    assert ONLY in applied(told, "w", boost="1", spec={"b": 3}).message


def test_a_figure_of_a_user_stays(told: Place) -> None:
    answer = applied(told, "own", cost="3")
    assert answer.code == 409, answer


def test_it_creates_no_pod_and_no_workload(told: Place) -> None:
    assert not applied(told, "none", cost="3").allowed
    assert not applied(told, "none", boost="3").allowed
