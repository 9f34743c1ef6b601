"""The webhook and the admitter as processes, under their own service accounts, on a real control plane with fake nodes.

The policies and configurations are those of the manifests; only the way to the webhook is a URL instead of a Service.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import pytest
from scavenger_cluster import Cluster, admission, stack
from scavenger_testing.cluster_names import cluster_name
from scavenger_testing.place import Object, Place, Server, namespace

NODES: Final = 2
CPUS: Final = 16
SETTINGS: Final = {
    "SCAVENGER_START_BACKOFF": "1",
    "SCAVENGER_LEASE_DURATION": "60",
    "SCAVENGER_RENEW_DEADLINE": "50",
    "SCAVENGER_RETRY_PERIOD": "1",
    "PYTEST_CURRENT_TEST": "",  # or every test would have another environment, and a restart
}


@pytest.fixture(scope="package")
def cluster() -> Iterator[Cluster]:
    """Two fake nodes with everything installed; the admitter and the webhook run."""
    found = Cluster(cluster_name("it-webhook"), report=lambda line: None)
    try:
        found.up(f"fake:{NODES}", fake_cpu=str(CPUS), fake_memory="64Gi", fake_pods=200)
        stack.install(found)
        stack.allow_snapshots(found)
        stack.start(found, ["admitter", "webhook"], SETTINGS)
        yield found
    finally:
        found.down()


@pytest.fixture(scope="package")
def server(cluster: Cluster) -> Iterator[Server]:
    made = Server(cluster.kubeconfig)
    yield made
    made.close()


@pytest.fixture(scope="module")
def place(cluster: Cluster, server: Server) -> Iterator[Place]:
    """A namespace of the module, deleted afterwards."""
    with namespace(cluster, server) as made:
        yield made


@pytest.fixture
def webhook(cluster: Cluster) -> None:
    """The webhook runs, whatever the test before has done to it."""
    start_webhook(cluster)


@contextmanager
def low_classes(cluster: Cluster, place: Place, classes: Mapping[str, int]) -> Iterator[None]:
    """PriorityClasses of any value, by name, as they may be there when the guard is installed; gone afterwards."""

    def made(name: str, value: int) -> bool:
        return place.create("priorityclasses", {"metadata": {"name": name}, "value": value}).allowed

    stack.lift_guard(cluster, "priority-classes")
    for name, value in classes.items():
        place.wait(f"the class {name} is let in", lambda name=name, value=value: made(name, value))  # type: ignore[misc]
    guard_classes(cluster, place)
    try:
        yield
    finally:
        for name in classes:
            place.delete("priorityclasses", name)


def guard_classes(cluster: Cluster, place: Place) -> None:
    """The guard on PriorityClasses as the manifests have it, whatever has become of it."""
    file = stack.MANIFESTS / "base" / "guard-classes.yaml"
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(file))
    low: Object = {"metadata": {"name": "guarded"}, "value": -1000}
    place.wait("the guard stands", lambda: not place.try_create("priorityclasses", low).allowed)


def start_webhook(cluster: Cluster, *, instance: int = 1, **environment: str) -> int:
    """Start the webhook, unless it runs just so; returns its process id."""
    given = {**admission.environment(cluster), **SETTINGS, **environment}
    return cluster.service_start("webhook", instance=instance, environment=given, wait="readyz").pid
