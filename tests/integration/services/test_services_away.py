"""Drains and deletions of namespaces go on while services are away, on a real control plane with fake nodes.

Budgets and finalizers of a service that is away are removed a minute after its last renewal of the Lease, or by the
command of the runbook.
"""

from __future__ import annotations

import re
import subprocess
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest
from scavenger_api import names
from scavenger_cluster import Cluster, stack
from scavenger_testing.cluster_names import cluster_name
from scavenger_testing.waiting import wait

pytestmark = [pytest.mark.timeout(900), pytest.mark.long]

ROOT: Final = Path(__file__).resolve().parents[3]
NODES: Final = 3
JOBS: Final = ("a", "b")
SERVICES: Final = ("admitter", "prioritizer", "regulator", "webhook")
SETTINGS: Final = {
    **stack.FIXED_LEVELS,
    "SCAVENGER_DEBOUNCE": "200ms",
    "SCAVENGER_FLOOR": "0",  # all jobs are non-preemptible, and a budget refuses the eviction of each
    "SCAVENGER_SOURCE": "requests",
    "SCAVENGER_START_OVER_WINDOW": "0",
    "PYTEST_CURRENT_TEST": "",  # or every test would have another environment, and a restart
}
DRAIN: Final = ("--ignore-daemonsets", "--delete-emptydir-data", "--timeout=200s")

Object = dict[str, Any]


class Lab:
    """A namespace with non-preemptible jobs on one node."""

    def __init__(self, cluster: Cluster, node: str) -> None:
        self.cluster = cluster
        self.node = node
        self.namespace = f"it-{uuid.uuid4().hex[:8]}"
        cluster.kubectl("create", "namespace", self.namespace)
        path = f"/apis/scavenger.dev/v1alpha1/namespaces/{self.namespace}/scavengerjobs"
        cluster.client.create_all(path, (self._job(name) for name in JOBS))
        wait("the budget that covers the jobs", self._protected, describe=self.seen)

    def _job(self, name: str) -> Object:
        spec = {
            "image": "none",
            "resources": {"requests": {"cpu": "1", "memory": "16Mi"}},
            "terminationGracePeriodSeconds": 1,
            "nodeSelector": {"kubernetes.io/hostname": self.node},
        }
        return {"apiVersion": names.API_VERSION, "kind": "ScavengerJob", "metadata": {"name": name}, "spec": spec}

    def _protected(self) -> bool:
        """Whether the jobs run, and the eviction of each would be refused now."""
        running = [pod for pod in self.pods() if pod["status"].get("phase") == "Running"]
        label = names.LABEL_PREEMPTION_CLASS
        held = [pod for pod in running if pod["metadata"]["labels"].get(label) == names.NON_PREEMPTIBLE]
        path = f"/apis/policy/v1/namespaces/{self.namespace}/poddisruptionbudgets/{names.DISRUPTION_BUDGET}"
        status = (self.cluster.client.find(path) or {}).get("status", {})
        counted = (status.get("currentHealthy"), status.get("disruptionsAllowed")) == (len(JOBS), 0)
        return len(running) == len(held) == len(JOBS) and counted

    def pods(self) -> list[Object]:
        found: list[Object] = self.cluster.client.get(f"/api/v1/namespaces/{self.namespace}/pods")["items"]
        return found

    def drain(self) -> None:
        """`kubectl drain`; raises CommandError when it has not ended in time."""
        self.cluster.kubectl("drain", self.node, *DRAIN, timeout=240)

    def remove(self) -> None:
        """`kubectl delete namespace`; raises CommandError when it is not gone in time."""
        self.cluster.kubectl("delete", "namespace", self.namespace, "--timeout=200s", timeout=240)

    def seen(self) -> str:
        return self.cluster.kubectl("-n", self.namespace, "get", "sj,pods,pdb", "-o", "wide", "--show-labels")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    found = Cluster(cluster_name("it-away"), report=lambda line: None)
    try:
        found.up(f"fake:{NODES}", fake_cpu="8", fake_memory="64Gi", scheduler="stock")
        stack.install(found)
        yield found
    finally:
        found.down()


@pytest.fixture
def labs(cluster: Cluster) -> Iterator[tuple[Lab, Lab]]:
    """All services, and two namespaces on a node each: one is for a drain, and one for its deletion."""
    stack.start(cluster, SERVICES, SETTINGS)
    drained, doomed = (Lab(cluster, node) for node in sorted(_nodes(cluster))[:2])
    yield drained, doomed
    cluster.kubectl("uncordon", drained.node)
    stack.start(cluster, SERVICES, SETTINGS)
    cluster.kubectl("delete", "namespace", drained.namespace, "--wait=false")


@pytest.fixture
def background() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


def test_nothing_waits_for_services_without_marks(cluster: Cluster, labs: tuple[Lab, Lab]) -> None:
    drained, doomed = labs
    for service in ("regulator", "webhook"):
        cluster.service_stop(service, grace=0)
    drained.drain()  # the prioritizer takes the budget off the jobs of a cordoned node
    doomed.remove()
    assert all(pod["spec"].get("nodeName") != drained.node for pod in drained.pods())


def test_another_service_removes_what_hangs_others(
    cluster: Cluster, labs: tuple[Lab, Lab], background: ThreadPoolExecutor
) -> None:
    drained, doomed = labs
    for service in ("admitter", "prioritizer"):
        cluster.service_stop(service, grace=0)
    asked = [background.submit(drained.drain), background.submit(doomed.remove)]
    time.sleep(5)
    assert not any(one.done() for one in asked), "marks of a service that may only be restarting stay"
    _end(asked, drained)


def test_the_command_of_the_runbook_helps_where_all_are_away(
    cluster: Cluster, labs: tuple[Lab, Lab], background: ThreadPoolExecutor
) -> None:
    drained, doomed = labs
    for service in SERVICES:
        cluster.service_stop(service, grace=0)
    asked = [background.submit(drained.drain), background.submit(doomed.remove)]
    wait("the deletion to hang at pods that have ended", lambda: _hangs(doomed), describe=doomed.seen)
    assert not any(one.done() for one in asked)
    assert not any("deletionTimestamp" in pod["metadata"] for pod in drained.pods()), "the budget refuses evictions"
    wait("both to end", lambda: _run_command(cluster) and all(one.done() for one in asked), describe=drained.seen)
    _end(asked, drained)


def _hangs(lab: Lab) -> bool:
    """Whether a deleted pod of the namespace has ended, and is there."""
    ended = (pod for pod in lab.pods() if pod["status"].get("phase") in ("Succeeded", "Failed"))
    return any("deletionTimestamp" in pod["metadata"] for pod in ended)


def _run_command(cluster: Cluster) -> bool:
    """Runs the command of the runbook as it stands there. A pod may be gone before its turn comes."""
    runbook = (ROOT / "docs" / "runbooks.md").read_text()
    found = re.search(r"```sh\n(kubectl delete poddisruptionbudgets.*?)```", runbook, re.DOTALL)
    assert found is not None
    words = " ".join(f"'{word}'" for word in cluster.kubectl_command)
    script = f'kubectl() {{ {words} "$@"; }}\n{found[1]}'
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False, timeout=60)
    assert all("(NotFound)" in line for line in done.stderr.splitlines()), done.stderr
    return True


def _end(asked: list[Future[None]], lab: Lab) -> None:
    for one in asked:
        one.result(timeout=240)
    assert all(pod["spec"].get("nodeName") != lab.node for pod in lab.pods())


def _nodes(cluster: Cluster) -> list[str]:
    return [node["metadata"]["name"] for node in cluster.client.get("/api/v1/nodes")["items"]]
