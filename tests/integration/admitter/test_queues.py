"""Queues on a real control plane with a hundred fake nodes: three that share it, one that is deleted, and an admitter
that is killed in the middle of both."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from scavenger_cluster import Cluster
from scavenger_kube.resources import MERGE_PATCH

from .conftest import CPUS, Place, bring_up, start_admitter

pytestmark = [pytest.mark.cpu, pytest.mark.timeout(900), pytest.mark.long]

QUEUES = "/apis/scavenger.dev/v1alpha1/scavengerqueues"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/scavenger-system/leases/scavenger-admitter"
NODES = 100
USABLE = NODES * CPUS * 0.7
WEIGHTS = {"a": 5, "b": 3, "c": 2}
CPU = 16
"""Of each job: a node has room for one."""

Object = dict[str, Any]


class Shared:
    """A place in a cluster of a hundred nodes, and the queues."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.client = place.cluster.client

    def create(self, name: str, **spec: Any) -> None:
        body = {"apiVersion": "scavenger.dev/v1alpha1", "kind": "ScavengerQueue", "metadata": {"name": name}}
        self.client.request("POST", QUEUES, {**body, "spec": spec})

    def queue(self, name: str) -> Object:
        found = [queue for queue in self.client.get(QUEUES)["items"] if queue["metadata"]["name"] == name]
        return found[0] if found else {}

    def counts(self, name: str) -> dict[str, int]:
        """What the status says, without zeros."""
        jobs = self.queue(name).get("status", {}).get("jobs", {})
        return {phase: count for phase, count in jobs.items() if count}

    def jobs(self, name: str) -> dict[str, int]:
        """What there is."""
        found = [job for job in self.place.all("scavengerjobs") if job["spec"]["queue"] == name]
        return dict(Counter((job.get("status") or {}).get("phase", "unknown").lower() for job in found))

    def running(self) -> Counter[str]:
        """By queue."""
        return running(self.place.all("scavengerjobs"))

    def interruptions(self) -> Counter[str]:
        """By job."""
        return interruptions(self.place.all("scavengerjobs"))

    def settle(self, fits: Callable[[Counter[str]], bool], timeout: float) -> Counter[str]:
        """Wait until what runs in each queue is as it should be and nobody has been interrupted for three seconds more;
        returns the interruptions. Both are read from one list: from two, taken while jobs come and go, what runs may
        seem to fit while somebody still has to go."""
        seen, since = Counter[str](), time.monotonic()

        def settled() -> bool:
            nonlocal seen, since
            jobs, before = self.place.all("scavengerjobs"), seen
            seen = interruptions(jobs)
            if not fits(running(jobs)) or seen != before:
                since = time.monotonic()
            return time.monotonic() - since >= 3

        self.place.wait("all as it should be", settled, timeout)
        return seen

    def set_finalizers(self, job: str, *finalizers: str) -> None:
        path = f"{self.place.path('scavengerjobs')}/{job}"
        self.client.request("PATCH", path, {"metadata": {"finalizers": list(finalizers)}}, MERGE_PATCH)


def running(jobs: list[Object]) -> Counter[str]:
    """How many run, by queue."""
    return Counter(job["spec"]["queue"] for job in jobs if job.get("status", {}).get("phase") == "Running")


def interruptions(jobs: list[Object]) -> Counter[str]:
    """How often each has been interrupted."""
    return Counter({job["metadata"]["name"]: job.get("status", {}).get("interruptedCount", 0) for job in jobs})


@pytest.fixture(scope="module")
def hundred_nodes(cluster: Cluster) -> Iterator[None]:
    cluster.up(f"fake:{NODES}", fake_cpu=str(CPUS), fake_memory="64Gi", fake_pods=200)
    yield
    bring_up(cluster)


@pytest.fixture
def shared(hundred_nodes: None, place: Place) -> Iterator[Shared]:
    made = Shared(place)
    for name, weight in WEIGHTS.items():
        made.create(name, weight=weight)
    yield made
    start_admitter(place.cluster)
    for name in WEIGHTS:
        if made.queue(name):
            made.client.delete(f"{QUEUES}/{name}")
    place.wait("queues gone", lambda: not any(made.queue(name) for name in WEIGHTS))


def kill(cluster: Cluster) -> None:
    """Without a chance to give its lease back, which then nobody has to wait for."""
    cluster.service_stop("admitter", grace=0)
    cluster.client.delete(LEASE)


def test_three_queues_share_a_hundred_nodes_and_the_admitter_is_killed_meanwhile(
    cluster: Cluster, shared: Shared
) -> None:
    place, per_weight = shared.place, USABLE / sum(WEIGHTS.values()) / CPU
    place.submit(*(f"c{i:03}" for i in range(90)), cpu=str(CPU), queue="c")
    place.wait("all is lent to c", lambda: shared.running()["c"] >= USABLE // CPU - 1)
    place.submit(*(f"a{i:03}" for i in range(50)), cpu=str(CPU), queue="a")
    place.submit(*(f"b{i:03}" for i in range(30)), cpu=str(CPU), queue="b")
    place.wait("the first have gone", lambda: sum(shared.interruptions().values()) > 5)
    kill(cluster)
    start_admitter(cluster)

    def shared_out(running: Counter[str]) -> bool:
        """Within one job of what each deserves."""
        return all(abs(running[name] - weight * per_weight) <= 1 for name, weight in WEIGHTS.items())

    def counted(queue: str) -> bool:
        return shared.counts(queue) == shared.jobs(queue)

    began = time.monotonic()
    interruptions = shared.settle(shared_out, timeout=180)
    took = time.monotonic() - began
    lost = USABLE // CPU - 1 - 2 * per_weight
    assert set(interruptions.values()) == {0, 1}
    assert all(name.startswith("c") for name, count in interruptions.items() if count)
    assert lost - 1 <= sum(interruptions.values()) <= lost + 2, "as many as were needed"
    for name in WEIGHTS:
        place.wait(f"the status of {name}", partial(counted, name))
    status = shared.queue("c")["status"]
    assert status["state"] == "Open"
    assert float(status["deserved"]["cpu"]) == pytest.approx(USABLE * 0.2, rel=0.01)
    # There may be room for one more job, which comes when it comes.
    place.wait(
        "what c has", lambda: float(shared.queue("c")["status"]["allocated"]["cpu"]) == shared.running()["c"] * CPU
    )
    why = re.compile(r"queue c has.*deserves 224 cpu", re.DOTALL)
    place.wait("told why", lambda: why.match(place.status("c089").get("message", "")))
    gone = next(name for name, count in interruptions.items() if count)
    reasons = {c["type"]: c["reason"] for c in place.status(gone)["conditions"]}
    assert reasons["Interrupted"] == "QueueReclaimed"
    print(f"shared out {took:.1f} s after the admitter was started again")  # noqa: T201


def test_a_deleted_queue_of_200_jobs_goes_though_the_admitter_is_killed_meanwhile(
    cluster: Cluster, shared: Shared
) -> None:
    place = shared.place
    place.submit(*(f"b{i:03}" for i in range(200)), cpu=str(CPU), queue="b")
    place.submit("a", cpu="1", queue="a")
    place.wait("some run", lambda: shared.running()["b"] > 30)
    place.wait("has its finalizer", lambda: shared.queue("b")["metadata"].get("finalizers"))
    # One job stays for as long as the test wants it to, or all might go before the admitter is killed.
    shared.set_finalizers("b199", "test.scavenger.dev/hold")
    try:
        shared.client.delete(f"{QUEUES}/b")
        place.wait("releasing", lambda: sum(shared.jobs("b").values()) < 190)
        kill(cluster)
        place.submit("late", cpu="1", queue="b")
        assert shared.queue("b"), "its jobs go first"
        start_admitter(cluster)
    finally:
        shared.set_finalizers("b199")
    place.wait("released", lambda: not shared.queue("b"))
    assert shared.jobs("b") == {}
    place.wait(
        "a runs on", lambda: [pod["metadata"]["labels"]["scavenger.dev/job"] for pod in place.all("pods")] == ["a"]
    )
    assert place.status("a")["interruptedCount"] == 0
