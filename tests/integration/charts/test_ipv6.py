"""The umbrella on a cluster whose nodes, Services and pods have addresses of IPv6 alone."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from scavenger_cluster import Cluster, service_images, stack
from scavenger_cluster.errors import ClusterError
from scavenger_testing.cluster_names import cluster_name
from scavenger_testing.waiting import wait
from scavenger_testing.world import scavenger_job

from .conftest import ROOT, SYSTEM, Helm, get
from .shell import Shell

pytestmark = [pytest.mark.long, pytest.mark.real, pytest.mark.cpu, pytest.mark.timeout(900)]
PORTS = dict.fromkeys(("admitter", "regulator", "prioritizer", "webhook", "board"), 8080)
"""Of the probes and metrics of each component."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """With all images in its node."""
    found = Cluster(cluster_name("it-ipv6"), report=lambda line: print(line, flush=True))  # noqa: T201
    try:
        found.up("real:1", ipv6=True, scheduler="stock", metrics=True)
        service_images.load(found)
        stack.build_images(found)
        yield found
    finally:
        found.down()


def is_ipv6(address: str) -> bool:
    return ipaddress.ip_address(address).version == 6


def test_all_components_work_on_ipv6_alone(cluster: Cluster, helm: Helm, tmp_path: Path) -> None:
    (node,) = get(cluster, "nodes")["items"]
    assert all(is_ipv6(one["address"]) for one in node["status"]["addresses"] if one["type"] == "InternalIP")
    words = ("--set=global.image.registry=localhost", "--set=components.scheduler=true", "--wait", "--timeout=300s")
    said = helm("install", "scavenger", str(ROOT / "charts" / "scavenger"), *words)
    commands = said.partition("The next commands:\n\n")[2].partition("  kubectl get sj --watch")[0]

    def pods() -> list[dict[str, Any]]:
        return list(get(cluster, "pods", "-n", SYSTEM)["items"])

    components = {pod["metadata"]["labels"]["app.kubernetes.io/name"] for pod in pods()}
    assert components == {f"scavenger-{name}" for name in (*PORTS, "scheduler")}
    for pod in pods():
        assert all(is_ipv6(one["ip"]) for one in pod["status"]["podIPs"])
        assert all(one["ready"] for one in pod["status"]["containerStatuses"])
    services = [one for one in get(cluster, "services", "-n", SYSTEM)["items"] if one["spec"]["clusterIP"] != "None"]
    assert services
    assert all(is_ipv6(one["spec"]["clusterIP"]) for one in services)

    # The API server reaches the webhook, and refuses; the admitter starts what is right.
    cluster.kubectl("create", "namespace", "research")
    said = wait("the webhook to answer", lambda: refusal(cluster), describe=helm.describe)
    assert "there is no queue 'nowhere'" in said
    job = scavenger_job("counter", "run", "--dir=/tmp/c", "--seconds=1", "--steps=10", cpu="50m")
    cluster.kubectl("apply", "-n", "research", "-f", "-", input=yaml.safe_dump(job))
    phase = ("get", "sj", "counter", "-n", "research", "-o=jsonpath={.status.phase}")
    wait("the job to complete", lambda: cluster.kubectl(*phase) == "Completed", 120, helm.describe)

    # The regulator measures, and an administrator sees it.
    levels = ("get", "configmap", "scavenger-levels", "-n", SYSTEM, "--ignore-not-found", "-o=json")
    wait(
        "levels", lambda: "load.cpu" in json.loads(cluster.kubectl(*levels) or "{}").get("data", {}), 120, helm.describe
    )

    # What helm tells an administrator to type works; doctor finds nothing to mend.
    (tmp_path / "bin").mkdir()
    said = Shell(cluster, helm, tmp_path / "bin").paste(commands, ("busybox:1.37", stack.COUNTER_IMAGE))
    assert "addresses       ok" in said, said
    running = ("get", "sj", "first", "-n", "default", "-o=jsonpath={.status.phase}")
    wait("the first job to run", lambda: cluster.kubectl(*running) == "Running", 120, helm.describe)
    cluster.kubectl("delete", "sj", "first", "-n", "default")
    for name, port in PORTS.items():
        (pod, *_) = get(cluster, "pods", "-n", SYSTEM, "-l", f"app.kubernetes.io/name=scavenger-{name}")["items"]
        path = f"/api/v1/namespaces/{SYSTEM}/pods/{pod['metadata']['name']}:{port}/proxy/metrics"
        assert "process_resident_memory_bytes" in cluster.kubectl("get", "--raw", path)
    restarts = {pod["metadata"]["name"]: pod["status"]["containerStatuses"][0]["restartCount"] for pod in pods()}
    assert not any(restarts.values()), restarts
    cluster.kubectl("delete", "namespace", "research", "--timeout=110s", timeout=120)
    helm("uninstall", "scavenger", "--wait")


def refusal(cluster: Cluster) -> str:
    """What is said of a job in a queue that is not there; empty while nothing is said."""
    bad = yaml.safe_dump(scavenger_job("bad", "run", queue="nowhere"))
    try:
        cluster.kubectl("apply", "-n", "research", "--dry-run=server", "-f", "-", input=bad)
    except ClusterError as error:
        return str(error) if "nowhere" in str(error) else ""
    return ""
