"""Queues on a real control plane with a hundred fake nodes: three that share it, one that is deleted, and an admitter
that is killed in the middle of both."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from scavenger_cluster import Cluster

from .conftest import CPUS, Place, bring_up, start_admitter

pytestmark = pytest.mark.timeout(300)

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

    def running(self) -> dict[str, int]:
        return {name: self.jobs(name).get("running", 0) for name in WEIGHTS}

    def interruptions(self) -> Counter[str]:
        """By job."""
        found = self.place.all("scavengerjobs")
        return Counter({job["metadata"]["name"]: job.get("status", {}).get("interruptedCount", 0) for job in found})


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
    cluster.service_kill("admitter")
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

    def shared_out() -> bool:
        """Within one job of what each deserves."""
        return all(abs(n - WEIGHTS[name] * per_weight) <= 1 for name, n in shared.running().items())

    took = place.wait("5 : 3 : 2", shared_out, timeout=90)
    lost = USABLE // CPU - 1 - 2 * per_weight
    interruptions = shared.interruptions()
    assert set(interruptions.values()) == {0, 1}
    assert all(name.startswith("c") for name, count in interruptions.items() if count)
    assert lost - 1 <= sum(interruptions.values()) <= lost + 2, "as many as were needed"
    time.sleep(3)
    assert shared.interruptions() == interruptions
    for name in WEIGHTS:
        place.wait(f"the status of {name}", lambda name=name: shared.counts(name) == shared.jobs(name), timeout=10)
    status = shared.queue("c")["status"]
    assert status["state"] == "Open"
    assert float(status["deserved"]["cpu"]) == pytest.approx(USABLE * 0.2, rel=0.01)
    assert float(status["allocated"]["cpu"]) == shared.running()["c"] * CPU
    last = "c089"
    place.wait("told why", lambda: "deserves 224 cpu" in place.status(last).get("message", ""), timeout=20)
    assert place.status(last)["message"].startswith("queue c has")
    gone = next(name for name, count in interruptions.items() if count)
    reasons = {c["type"]: c["reason"] for c in place.status(gone)["conditions"]}
    assert reasons["Interrupted"] == "Reclaimed"
    print(f"shared out {took:.1f} s after the admitter was started again")  # noqa: T201


def test_a_deleted_queue_of_200_jobs_goes_though_the_admitter_is_killed_meanwhile(
    cluster: Cluster, shared: Shared
) -> None:
    place = shared.place
    place.submit(*(f"b{i:03}" for i in range(200)), cpu=str(CPU), queue="b")
    place.submit("a", cpu="1", queue="a")
    place.wait("some run", lambda: shared.running()["b"] > 30)
    place.wait("has its finalizer", lambda: shared.queue("b")["metadata"].get("finalizers"))
    shared.client.delete(f"{QUEUES}/b")
    place.wait("releasing", lambda: len(shared.jobs("b")) == 0 or sum(shared.jobs("b").values()) < 190)
    kill(cluster)
    place.submit("late", cpu="1", queue="b")
    assert shared.queue("b"), "its jobs go first"
    start_admitter(cluster)
    place.wait("released", lambda: not shared.queue("b"), timeout=60)
    assert shared.jobs("b") == {}
    place.wait(
        "a runs on", lambda: [pod["metadata"]["labels"]["scavenger.dev/job"] for pod in place.all("pods")] == ["a"]
    )
    assert place.status("a")["interruptedCount"] == 0
