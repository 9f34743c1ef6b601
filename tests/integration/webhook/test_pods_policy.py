"""Ordinary pods ranked by a policy of the API server: the same as by the webhook, row by row, and without it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from scavenger_cluster import Cluster, stack
from scavenger_testing.place import Object, Place, Server, namespace, pod

from .conftest import low_classes, start_webhook
from .table import Case, judge
from .table_guard import PODS, PRIORITY_CLASSES
from .test_faults import ORDINARY, confined, make_default, rank, ranks_of_deployment

AS_IT_IS = {"priority": 0}
LOW: Object = {"priorityClassName": "low"}
RAISED = "priority.scavenger.dev/raised"


@pytest.fixture(scope="module")
def place(cluster: Cluster, server: Server) -> Iterator[Place]:
    """A namespace, and classes to choose from."""
    with namespace(cluster, server) as made, low_classes(cluster, made, PRIORITY_CLASSES):
        yield made


@pytest.fixture(scope="module", params=[True, False], ids=["default class", "no default class"])
def default_class(request: pytest.FixtureRequest, place: Place) -> Iterator[None]:
    """Whether `ordinary-workload` is the class of pods that name none, without webhook and policy."""
    make_default(place, there=request.param)
    yield
    make_default(place, there=True)


@pytest.fixture(scope="module", params=["webhook", "policy"])
def ranking(request: pytest.FixtureRequest, cluster: Cluster, place: Place) -> Iterator[None]:
    """Who ranks pods. With the policy the webhook does not even run."""
    start_webhook(cluster)
    if request.param == "policy":
        by_policy(cluster, place)
    yield
    if request.param == "policy":
        by_webhook(cluster)


def by_policy(cluster: Cluster, place: Place, *options: str) -> None:
    """Pods are ranked by the policy, and no webhook is there to do it."""
    stack.rank_by_policy(cluster, *options)
    cluster.service_stop("webhook", grace=0)
    place.wait("pods are not sent", lambda: not place.items("mutatingwebhookconfigurations"))


def by_webhook(cluster: Cluster) -> None:
    """As the manifests have it."""
    start_webhook(cluster)
    stack.rank_by_webhook(cluster)


@pytest.mark.usefixtures("ranking", "default_class")
@pytest.mark.parametrize("case", PODS, ids=lambda case: case.name)
def test_table(place: Place, case: Case) -> None:
    place.wait("all is seen that ranks pods", lambda: ranked(place))
    judge(place, case)


def ranked(place: Place) -> bool:
    """Whether pods get their rank, and their creators a warning: policies and webhook are not seen at one moment."""
    raised = place.try_create("pods", pod(**LOW))
    return rank(raised.body) == rank(place.try_create("pods", pod()).body) == ORDINARY and bool(raised.warnings)


@pytest.fixture
def no_default_class(place: Place) -> Iterator[None]:
    make_default(place, there=False)
    yield
    make_default(place, there=True)


@pytest.fixture
def restored(cluster: Cluster) -> Iterator[None]:
    """Ranked by the webhook again afterwards."""
    yield
    by_webhook(cluster)


@pytest.mark.usefixtures("no_default_class", "restored")
def test_whom_the_policy_leaves_alone_and_whom_it_marks(cluster: Cluster, place: Place) -> None:
    by_policy(cluster, place)
    place.wait("the policy ranks", lambda: rank(place.try_create("pods", pod()).body) == ORDINARY)
    for system in ("kube-system", "scavenger-system"):
        assert rank(place.try_create("pods", confined(), namespace=system).body) == AS_IT_IS
    mirror = pod(meta={"annotations": {"kubernetes.io/config.mirror": "x"}}, nodeName="fake-001")
    assert rank(place.try_create("pods", mirror).body) == AS_IT_IS
    assert RAISED not in place.try_create("pods", pod()).body["metadata"].get("labels", {})
    some: list[Object] = [{}, {"labels": {}, "annotations": {}}, {"labels": {"a": "b"}, "annotations": {"c": "d"}}]
    for meta in some:
        made = place.try_create("pods", pod(meta=dict(meta), **LOW)).body
        assert rank(made) == ORDINARY
        assert made["metadata"]["labels"] == {**meta.get("labels", {}), RAISED: "true"}
        assert made["metadata"]["annotations"] == {**meta.get("annotations", {}), f"{RAISED}-from": "low (-1500)"}
    assert ranks_of_deployment(place, 3) == [ORDINARY] * 3
    place.delete("deployments", "web", "Foreground")
    place.wait("gone", lambda: not place.items("deployments") and not place.items("pods"))


@pytest.mark.usefixtures("no_default_class", "restored")
def test_a_class_that_is_not_there_is_never_named(cluster: Cluster, place: Place) -> None:
    by_policy(cluster, place)
    place.wait("the policy ranks", lambda: rank(place.try_create("pods", pod()).body) == ORDINARY)
    stack.rank_by_policy(cluster, "--set=settings.ordinaryClass=absent")
    place.wait("as they are", lambda: rank(place.try_create("pods", pod()).body) == AS_IT_IS)
    stack.rank_by_policy(cluster, "--set=settings.ordinaryClass=high")
    high = {"priorityClassName": "high", "priority": 5000}
    place.wait("by the other class", lambda: rank(place.try_create("pods", pod()).body) == high)
    stack.rank_by_policy(cluster, "--set=settings.ordinaryClass=low")
    place.wait("not by one that is no better", lambda: rank(place.try_create("pods", pod()).body) == AS_IT_IS)


@pytest.mark.usefixtures("no_default_class", "restored")
def test_only_a_warning_where_that_is_the_rule(cluster: Cluster, place: Place) -> None:
    by_policy(cluster, place, "--set=settings.lowPriority=warn")
    place.wait("the policy ranks", lambda: rank(place.try_create("pods", pod()).body) == ORDINARY)

    def warned() -> list[str]:
        return place.try_create("pods", pod(**LOW)).warnings

    place.wait("the policy warns", warned)
    assert warned()[0].endswith("PriorityClass low (-1500) does not outrank scavenger jobs: name a class above -1000")
    assert rank(place.try_create("pods", pod(**LOW)).body) == {"priority": -1500, "priorityClassName": "low"}
    assert not place.try_create("pods", pod()).warnings
