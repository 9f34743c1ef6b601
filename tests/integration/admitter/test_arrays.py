"""Arrays on a real control plane: docs/designs/0023-arrays.md."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus

import pytest
from scavenger_admitter.writer import PODS_AT_ONCE
from scavenger_api.indexes import indexes_of, parse_indexes
from scavenger_api.names import ANNOTATION_LAST_CHECKPOINT
from scavenger_api.times import format_time
from scavenger_cluster import Cluster
from scavenger_kube.errors import ApiError, NotFound
from scavenger_kube.resources import MERGE_PATCH
from scavenger_testing.lives import assert_books, lives_of

from .conftest import Object, Place, start_admitter
from .test_faults import QUICK_LEASE
from .test_managed_jobs import finish, kubectl

pytestmark = pytest.mark.timeout(600)

TASKS = 200
"""Killed at random."""


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


@pytest.fixture
def prioritizer(cluster: Cluster) -> Iterator[None]:
    cluster.service_start("prioritizer", environment=QUICK_LEASE, wait="readyz")
    yield
    cluster.service_stop("prioritizer")


@pytest.mark.usefixtures("prioritizer")
def test_tasks_killed_at_random_together_with_their_services(cluster: Cluster, place: Place) -> None:
    """Each is done once, by its own account, and the books say what the pods did. A driver reports checkpoints."""
    start_admitter(cluster, **QUICK_LEASE)  # another one takes over soon
    chosen = random.Random(7)
    done, asked = set[str](), set[str]()
    killed = iter(sorted(chosen.sample(range(TASKS // 10, TASKS * 9 // 10), 3)))
    services, next_one = iter(("admitter", "prioritizer", "admitter")), next(killed)

    def play() -> bool:
        nonlocal next_one
        for pod in running(place):
            uid, luck = pod["metadata"]["uid"], chosen.random()
            if uid in asked or uid in done:
                continue
            with suppress(NotFound):  # it stopped since
                if luck < 0.05:
                    asked.add(uid)
                    remove(place, pod["metadata"]["name"], evicted=luck < 0.025)
                elif luck < 0.35:
                    report_checkpoint(place, pod["metadata"]["name"])
                elif luck < 0.75 and "deletionTimestamp" not in finish(place, pod)["metadata"]:
                    done.add(uid)
            if len(done) >= next_one:
                cluster.service_kill(next(services))
                next_one = next(killed, TASKS + 1)
        return place.phase("sweep") == "Completed"

    with lives_of(cluster.client, place.namespace, "sweep") as lives:
        place.submit("sweep", cpu="100m", array={"tasks": TASKS, "maxRunning": TASKS * 2 // 5}, interruptionAfter="2h")
        place.wait("all of them", play, timeout=420)
        place.wait("no finalizer", lambda: not place.held())
        place.wait("their ends to be shown", lambda: sum(life.done for life in lives.ended) >= TASKS)
    assert next(services, None) is None, "all three were killed"
    status, ended = place.status("sweep"), lives.ended
    assert list(indexes_of(parse_indexes(status["array"]["completedIndexes"]))) == list(range(TASKS))
    assert Counter(int(life.task) for life in ended if life.done) == Counter(range(TASKS))
    # What the admitter that was killed was creating may be more than maxRunning, and stops again: counted, too.
    assert 0 <= sum(not life.done for life in ended) - len(asked) <= 2 * PODS_AT_ONCE
    assert_books(status, ended, cores=0.1)


def remove(place: Place, pod: str, *, evicted: bool) -> None:
    """Take a pod away; one that its budget protects is not evicted. Raises NotFound."""
    path, client = f"{place.path('pods')}/{pod}", place.cluster.client
    try:
        if evicted:
            body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
            client.request("POST", f"{path}/eviction", body)
            return
    except ApiError as error:
        if error.status != HTTPStatus.TOO_MANY_REQUESTS:
            raise
    client.request("DELETE", path)


def report_checkpoint(place: Place, pod: str) -> None:
    """What a driver writes of a program that saves its work. Raises NotFound."""
    note = {"metadata": {"annotations": {ANNOTATION_LAST_CHECKPOINT: format_time(datetime.now(UTC))}}}
    place.cluster.client.request("PATCH", f"{place.path('pods')}/{pod}", note, MERGE_PATCH)
