"""Arrays on a real control plane: docs/designs/0023-arrays.md."""

from __future__ import annotations

import random
from functools import partial

import pytest
from scavenger_admitter.writer import PODS_AT_ONCE
from scavenger_api.indexes import indexes_of, parse_indexes
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


def test_a_thousand_tasks_of_which_some_are_killed_at_random(cluster: Cluster, place: Place) -> None:
    """Each is done once, by its own account, and every interruption is counted."""
    chosen, done, killed = random.Random(7), set[str](), set[str]()
    place.submit("sweep", cpu="100m", array={"tasks": 1000, "maxRunning": 400})
    rounds = 0

    def play() -> bool:
        nonlocal rounds
        rounds += 1
        for pod in running(place):
            uid, name = pod["metadata"]["uid"], pod["metadata"]["name"]
            if uid in killed or uid in done:
                continue
            if chosen.random() < 0.05:
                killed.add(uid)
                place.delete("pods", name)
            elif chosen.random() < 0.7:
                done.add(uid)
                finish(place, pod)
        if rounds == 3:
            cluster.service_stop("admitter")
            start_admitter(cluster)
        return place.phase("sweep") == "Completed"

    place.wait("all of them", play, timeout=420)
    status = place.status("sweep")
    assert list(indexes_of(parse_indexes(status["array"]["completedIndexes"]))) == list(range(1000))
    assert len(done) == 1000
    # What the admitter that stopped was creating at that moment may be more than maxRunning, and stops again: counted.
    assert 0 <= status["interruptedCount"] - len(killed) <= PODS_AT_ONCE
    place.wait("no finalizer", lambda: not place.held())
