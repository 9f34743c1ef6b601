"""Jobs on reclaimed capacity, before a real API server and scheduler: on a node whose CPU is requested to the last."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from scavenger_api.names import RESOURCE_RECLAIMED_CPU as RECLAIMED_CPU
from scavenger_api.names import RESOURCE_RECLAIMED_MEMORY as RECLAIMED_MEMORY
from scavenger_cluster import Cluster
from scavenger_kube.resources import MERGE_PATCH

from .conftest import CPUS, Place

pytestmark = pytest.mark.timeout(900)

NODE = "fake-002"
STATUS = f"/api/v1/nodes/{NODE}/status"
QUEUES = "/apis/scavenger.dev/v1alpha1/scavengerqueues"
QUEUE = "on-reclaimed"


def offer(cluster: Cluster, **amounts: str | None) -> None:
    """What the regulator writes: `cpu` in millicores, `memory` in MiB. The kubelet copies capacity to allocatable."""
    known = {"cpu": RECLAIMED_CPU, "memory": RECLAIMED_MEMORY}
    offered = {known[name]: value for name, value in amounts.items()}
    cluster.client.request("PATCH", STATUS, {"status": {"capacity": offered, "allocatable": offered}}, MERGE_PATCH)


@pytest.fixture
def full_node(cluster: Cluster, place: Place) -> Iterator[None]:
    """Every core of the node is requested by an ordinary pod, and 3 of them are said to be idle."""
    body = {"apiVersion": "scavenger.dev/v1alpha1", "kind": "ScavengerQueue", "metadata": {"name": QUEUE}, "spec": {}}
    cluster.client.request("POST", QUEUES, body)
    place.create_pod("ordinary", cpu=str(CPUS), node=NODE)
    place.wait("ordinary runs", lambda: place.get("pods", "ordinary")["status"].get("phase") == "Running")
    offer(cluster, cpu="3000", memory="4096")
    yield
    offer(cluster, cpu=None, memory=None)
    cluster.client.delete(f"{QUEUES}/{QUEUE}")


@pytest.mark.usefixtures("full_node")
def test_a_job_runs_on_what_is_requested_and_idle_and_one_that_is_too_large_waits(
    cluster: Cluster, place: Place
) -> None:
    place.submit("runs", cpu="2", capacity="Reclaimed", queue=QUEUE)
    place.wait_phase("runs", "Running")
    (pod,) = place.pods("runs")
    assert pod["spec"]["nodeName"] == NODE
    (container,) = pod["spec"]["containers"]
    placed = {RECLAIMED_CPU: "2k", RECLAIMED_MEMORY: "16"}
    assert container["resources"] == {
        "requests": {"cpu": "0", "memory": "0", **placed},
        "limits": {"cpu": "2", "memory": "16Mi", **placed},
    }
    assert pod["status"]["qosClass"] == "Burstable"

    def allocated() -> Any:
        return cluster.client.get(f"{QUEUES}/{QUEUE}").get("status", {}).get("allocated")

    place.wait("its queue counts it", lambda: allocated() == {"cpu": "2", "memory": "16Mi", "pods": "1"})

    place.submit("waits", cpu="2", capacity="Reclaimed", queue=QUEUE)
    place.wait("told why", lambda: "of reclaimed capacity" in place.status("waits").get("message", ""))
    status = place.status("waits")
    assert status["phase"] == "Waiting"
    assert status["message"] == (
        "needs 2 cpu, 16Mi memory of reclaimed capacity; no node offers that much now"
        " (most: 1 cpu, 4080Mi memory of reclaimed capacity)"
    )
    assert place.created("waits") == []

    offer(cluster, cpu="1000")  # below what is placed: that evicts nobody, and makes room for nobody
    # Nodes and jobs reach the admitter by watches of their own, and `small` is not to be seen before the new offer is.
    # A job that has no room either way says when that is.
    place.submit("probe", cpu="2", capacity="Reclaimed", queue=QUEUE)
    place.wait("the offer is seen", lambda: "most: 0 cpu" in place.status("probe").get("message", ""))
    place.delete("scavengerjobs", "probe")
    place.submit("small", cpu="500m", capacity="Reclaimed", queue=QUEUE)
    place.wait("told why", lambda: "most: 0 cpu" in place.status("small").get("message", ""))
    assert place.phase("runs") == "Running"
    assert place.status("runs")["interruptedCount"] == 0
    offer(cluster, cpu="4500")
    for name in ("waits", "small"):
        place.wait_phase(name, "Running")
        assert place.pods(name)[0]["spec"]["nodeName"] == NODE
        place.wait_created({name: 1})  # the planned node is the real one
