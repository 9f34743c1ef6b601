"""Which pods a real kubelet evicts when its node runs short of memory: docs/designs/0031-quality-of-service.md.

It takes a minute and a half, and nothing of this repository decides here, so it is no part of the gate.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from scavenger_cluster import Cluster, cgroups, wait_for

pytestmark = [pytest.mark.real, pytest.mark.long, pytest.mark.timeout(600)]

CONTAINERFILE = """
ARG BASE=docker.io/library/python:3.12-slim
FROM ${BASE}
COPY use.py /
USER 65532
"""
USE = """
import sys, time
kept = b"x" * (int(sys.argv[1]) << 20)
print("full", flush=True)
time.sleep(3600)
"""
NODE = "node1"
RANKED = re.compile(r'"Eviction manager: pods ranked for eviction" pods=\[(.*?)\]')
ALLOWED = 1000
"""MiB that all processes of the node may use before its kubelet evicts."""
CLASSES = {"regular": 0, "job": -2000}
"""PriorityClasses, those of jobs as the chart scavenger-base has them."""


class Asked(NamedTuple):
    """A pod. Memory in MiB.

    Attributes:
        kind: of its PriorityClass.
        qos: its QoS class.
        request: of memory.
        uses: what its program allocates; the interpreter comes on top.
    """

    kind: str
    qos: str
    request: int
    uses: int


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster of one real node that offers little memory."""
    total = int(Path("/proc/meminfo").read_text().split()[1]) // 1024
    kubelet = [f"--eviction-hard=memory.available<{total - ALLOWED}Mi", "--eviction-pressure-transition-period=1s"]
    cluster = Cluster("it-memory", tmp_path_factory.mktemp("cluster") / "memory")
    try:
        cluster.up("real:1", dns=False, scheduler="stock", arguments={"kubelet": kubelet})
        for name, value in CLASSES.items():
            cluster.kubectl("create", "priorityclass", name, f"--value={value}")
        yield cluster
    finally:
        cluster.down()


@pytest.fixture(scope="module")
def image(node: Cluster, tmp_path_factory: pytest.TempPathFactory) -> str:
    context = tmp_path_factory.mktemp("context")
    (context / "Containerfile").write_text(CONTAINERFILE)
    (context / "use.py").write_text(USE)
    return node.build_image("scavenger/it-memory:dev", context, install=False)


def manifest(name: str, asked: Asked, image: str) -> dict[str, Any]:
    requests = {"cpu": "100m", "memory": f"{asked.request}Mi"}
    limits = requests if asked.qos == "Guaranteed" else {"cpu": "101m", "memory": "400Mi"}
    if asked.kind == "job":  # as the admitter writes it: a millicore more than the request
        limits = {**limits, "memory": requests["memory"]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "nodeName": NODE,
            "restartPolicy": "Never",
            "priorityClassName": asked.kind,
            "containers": [
                {
                    "name": "main",
                    "image": image,
                    "imagePullPolicy": "IfNotPresent",
                    "command": ["python3", "/use.py", str(asked.uses)],
                    "resources": {"requests": requests, "limits": limits},
                }
            ],
        },
    }


@contextmanager
def pressure(cluster: Cluster) -> Iterator[None]:
    """A process of the node outside of pods that uses more than the whole node may."""
    program = f"kept = b'x' * ({ALLOWED + 100} << 20); import time; time.sleep(3600)"
    group = cgroups.daemons_group(cluster.name, NODE)
    with subprocess.Popen(cgroups.joining(group, (sys.executable, "-c", program))) as process:
        try:
            yield
        finally:
            process.kill()


def statuses(cluster: Cluster) -> dict[str, dict[str, Any]]:
    found = json.loads(cluster.kubectl("get", "pods", "-o", "json"))["items"]
    return {pod["metadata"]["name"]: pod["status"] for pod in found}


def measured(cluster: Cluster, asked: dict[str, Asked]) -> bool:
    """Whether the figures by which the kubelet evicts show what all pods use."""
    found = json.loads(cluster.kubectl("get", "--raw", f"/api/v1/nodes/{NODE}/proxy/stats/summary"))["pods"]
    used = {pod["podRef"]["name"]: pod.get("memory", {}).get("workingSetBytes", 0) >> 20 for pod in found}
    return all(used.get(name, 0) >= one.uses for name, one in asked.items())


def evicted_in_order(cluster: Cluster, image: str, asked: dict[str, Asked]) -> list[str]:
    """The pods in the order that the kubelet logs before it evicts the first of them; all of them have to go.

    Their statuses do not tell: a kubelet evicts three pods within a second where the pressure stays.
    """
    pods = [manifest(name, one, image) for name, one in asked.items()]
    cluster.apply(json.dumps({"apiVersion": "v1", "kind": "List", "items": pods}))
    cluster.kubectl("wait", "--for=condition=Ready", "pod", "--all", "--timeout=120s", timeout=130)
    wait_for(
        "all to use their memory", lambda: all("full" in cluster.kubectl("logs", one) for one in asked), timeout=60
    )
    # The kubelet goes by figures that are up to some ten seconds old.
    wait_for("the kubelet to have measured it", lambda: measured(cluster, asked), timeout=90, interval=1)
    assert {name: status["qosClass"] for name, status in statuses(cluster).items()} == {
        name: one.qos for name, one in asked.items()
    }
    log = cluster.data_dir / "logs" / f"{NODE}-kubelet.log"
    before = log.stat().st_size

    def ranked() -> list[str] | None:
        with log.open(errors="replace") as opened:
            opened.seek(before)
            found = RANKED.search(opened.read())
        return [name.strip('"').removeprefix("default/") for name in found[1].split(",")] if found else None

    def all_gone() -> bool:
        return all(status.get("reason") == "Evicted" for status in statuses(cluster).values())

    with pressure(cluster):
        wait_for("all pods to be evicted", all_gone, timeout=150, interval=0.5)
    order = ranked()
    assert order is not None, "the kubelet has not said in which order it evicts"
    cluster.kubectl("delete", "pod", "--all", "--grace-period=1", timeout=60)
    cluster.kubectl("wait", "--for=condition=MemoryPressure=false", f"node/{NODE}", "--timeout=90s", timeout=100)
    return order


@pytest.mark.parametrize(
    ("asked", "order"),
    [
        pytest.param(
            {
                "regular": Asked("regular", "Burstable", 128, 60),
                "burstable": Asked("job", "Burstable", 160, 70),
                "guaranteed": Asked("job", "Guaranteed", 160, 120),
            },
            ["guaranteed", "burstable", "regular"],
            id="all within their requests, the Guaranteed job closest to its own",
        ),
        pytest.param(
            {
                "regular": Asked("regular", "Burstable", 32, 60),
                "burstable": Asked("job", "Burstable", 160, 120),
                "guaranteed": Asked("job", "Guaranteed", 160, 70),
            },
            ["regular", "burstable", "guaranteed"],
            id="the regular pod above its request, the Burstable job closest to its own",
        ),
    ],
)
def test_the_kubelet_evicts_by_use_above_requests_and_by_priority_and_not_by_class(
    node: Cluster, image: str, asked: dict[str, Asked], order: list[str]
) -> None:
    assert evicted_in_order(node, image, asked) == order
