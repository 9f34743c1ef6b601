"""Arrays on a real control plane: docs/designs/0023-arrays.md."""

from __future__ import annotations

from functools import partial

import pytest
from scavenger_cluster import Cluster

from .conftest import Object, Place, start_admitter
from .test_managed_jobs import finish, kubectl

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def place(place: Place) -> Place:
    """A namespace that takes pods, and an admitter."""
    place.wait_account()
    return place


def running(place: Place, name: str = "sweep") -> list[Object]:
    return [
        pod
        for pod in place.pods(name)
        if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
    ]


def sets(place: Place, name: str = "sweep") -> Object:
    return dict(place.status(name).get("array") or {})


def runs(place: Place, count: int) -> bool:
    return len(running(place)) == count


def completed(place: Place, count: int) -> bool:
    return sets(place).get("completed") == count


def test_an_array_that_completes(place: Place) -> None:
    place.submit("sweep", cpu="100m", array={"tasks": 20, "maxRunning": 8})
    for part, done in ((8, 8), (8, 16), (4, 20)):
        place.wait("as many as may run", partial(runs, place, part))
        for pod in running(place):
            finish(place, pod)
        place.wait("them counted", partial(completed, place, done))
    place.wait_phase("sweep", "Completed")
    assert sets(place)["completedIndexes"] == "0-19"
    kubectl(place, "wait", "--for=condition=Complete", "job/sweep", "--timeout=30s")
    assert not place.held()
    assert place.pods_ever("sweep") == 20


def test_a_statefulset_of_the_same_name_gets_its_pods(place: Place) -> None:
    """The pods of completed tasks are there beside those of the StatefulSet."""
    place.submit("postgres", cpu="100m", array={"tasks": 2})
    place.wait("its tasks", lambda: len(running(place, "postgres")) == 2)
    for pod in running(place, "postgres"):
        finish(place, pod)
    place.wait_phase("postgres", "Completed")
    sets_of_pods = f"/apis/apps/v1/namespaces/{place.namespace}/statefulsets"
    place.cluster.client.request("POST", sets_of_pods, _stateful_set("postgres"))
    try:
        place.wait("its pods", lambda: {"postgres-0", "postgres-1"} <= {pod["metadata"]["name"] for pod in _all(place)})
        assert len(place.pods("postgres")) == 2
    finally:
        place.cluster.client.delete(f"{sets_of_pods}/postgres")


def _all(place: Place) -> list[Object]:
    return place.all("pods")


def _stateful_set(name: str) -> Object:
    labels = {"app": name}
    spec = {"containers": [{"name": "main", "image": "none"}], "terminationGracePeriodSeconds": 1}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name},
        "spec": {
            "replicas": 2,
            "serviceName": name,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def test_half_of_a_start_of_an_admitter_that_died(cluster: Cluster, place: Place) -> None:
    place.submit("sweep", cpu="100m", array={"tasks": 60})
    place.wait("a part of it", lambda: len(place.pods("sweep")) >= 5)
    cluster.service_stop("admitter")
    start_admitter(cluster)
    place.wait("all of it", lambda: len(running(place)) == 60)
    for pod in running(place):
        finish(place, pod)
    place.wait_phase("sweep", "Completed")
    assert place.pods_ever("sweep") == 60
    assert place.status("sweep")["interruptedCount"] == 0
