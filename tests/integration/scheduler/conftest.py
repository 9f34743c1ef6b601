"""One control plane with the plugin as its scheduler; every test has nodes of its own."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from scavenger_cluster import Cluster
from scavenger_cluster.waiting import wait_for
from scavenger_testing.cluster_names import cluster_name

from bench.scheduler import harness

WAIT_SECONDS = 40
"""nonPreemptibleWait in these tests: long beside what anything takes that need not wait, on a machine that is busy."""


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """The embedded control plane with fake pods."""
    embedded = Cluster(cluster_name("sched"))
    try:
        arguments = {"nonPreemptibleWait": f"{WAIT_SECONDS}s"}
        embedded.up("fake:1", fake_cpu="0", scheduler="plugin", scheduler_args=arguments)
        harness.install_base(embedded)
        yield embedded
    finally:
        embedded.down()


class Pool:
    """Some nodes, and the pods on them."""

    wait_seconds = WAIT_SECONDS

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.client = cluster.client
        self.name = f"pool-{uuid.uuid4().hex[:8]}"
        self.pods = harness.Pods(self.name)
        self.nodes: list[str] = []

    def with_nodes(self, count: int, cpu: str = "2") -> list[str]:
        """More nodes; they are Ready from the start."""
        fresh = [f"{self.name}-{len(self.nodes) + number:03d}" for number in range(count)]
        self.client.create_all(harness.NODES, (harness.node(name, self.name, cpu) for name in fresh))
        self.nodes += fresh
        ready = {"node.kubernetes.io/not-ready"}

        def schedulable() -> bool:
            items = self.client.get(f"{harness.NODES}?labelSelector=pool%3D{self.name}")["items"]
            return not any(t["key"] in ready for item in items for t in item["spec"].get("taints", []))

        wait_for("the nodes to be free of their first taint", schedulable, timeout=90)
        return fresh

    def run(self, *bodies: dict[str, Any]) -> None:
        """Creates pods whose node is chosen, and waits until they run."""
        self.client.create_all(harness.PODS, bodies)
        self.wait_running(*(body["metadata"]["name"] for body in bodies))

    def submit(self, *bodies: dict[str, Any]) -> None:
        """Creates pods for the scheduler."""
        self.client.create_all(harness.PODS, bodies)

    def wait_running(self, *names: str, timeout: float = 120) -> None:
        harness.wait_until_running(self.cluster, self.name, names, timeout)

    def wait_unschedulable(self, name: str) -> None:
        """Until the scheduler has tried a pod and found no room for it."""

        def tried() -> bool:
            pod = self.pod(name)
            conditions = pod["status"].get("conditions", []) if pod is not None else []
            return any(condition.get("reason") == "Unschedulable" for condition in conditions)

        self.until(f"{name} to find no room", tried)

    def living(self) -> set[str]:
        return harness.living(self.cluster, self.name)

    def pod(self, name: str) -> dict[str, Any] | None:
        return self.client.find(f"{harness.PODS}/{name}")

    def patch(self, name: str, body: dict[str, Any]) -> None:
        self.client.request("PATCH", f"{harness.PODS}/{name}", body, harness.MERGE_PATCH)

    def until(self, what: str, condition: Callable[[], Any], timeout: float = 90) -> Any:
        return wait_for(what, condition, timeout=timeout, interval=0.05)


@pytest.fixture
def pool(cluster: Cluster) -> Iterator[Pool]:
    made = Pool(cluster)
    yield made
    harness.clean(cluster, made.name, made.nodes)
