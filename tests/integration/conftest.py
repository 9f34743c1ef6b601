"""A real API server for all integration tests: control plane without nodes, CRDs and base manifests applied.

Set SCAVENGER_TEST_KUBECONFIG to use a cluster that runs already instead of starting one.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from scavenger_cluster import Cluster, cgroups
from scavenger_cluster.build import ensure_tools
from scavenger_testing import debian
from scavenger_testing.cluster_names import cluster_name
from scavenger_testing.place import Server
from scavenger_testing.waiting import TIMEOUT, wait

_log = logging.getLogger(__name__)
REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Kubectl:
    """kubectl against one cluster. A refusal is an answer here, not an exception."""

    program: str
    kubeconfig: Path
    namespace: str = ""

    def __call__(self, *words: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [
                self.program,
                f"--kubeconfig={self.kubeconfig}",
                f"--cache-dir={self.kubeconfig.parent / 'kubectl-cache'}",
                *([f"--namespace={self.namespace}"] if self.namespace else []),
                *words,
            ],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )

    def ok(self, *words: str, stdin: str | None = None) -> str:
        done = self(*words, stdin=stdin)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def refused(self, *words: str, stdin: str | None = None) -> str:
        """What the server said; asserts that it said no."""
        done = self(*words, stdin=stdin)
        assert done.returncode != 0, f"accepted: {done.stdout}"
        return done.stderr

    def get(self, *words: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.ok("get", *words, "-o", "json"))
        return found

    def inside(self, namespace: str) -> Kubectl:
        return Kubectl(self.program, self.kubeconfig, namespace)


@pytest.fixture(scope="session", autouse=True)
def _cpu_claim() -> Iterator[None]:
    """Who watches a busy cluster needs CPU as its control plane does."""
    with cgroups.cpu_claim():
        yield


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """The embedded control plane without nodes; one per pytest process, gone afterwards."""
    embedded = Cluster(cluster_name("it"))
    try:
        embedded.up("none")
        yield embedded
    finally:
        embedded.down()


@pytest.fixture(scope="session")
def kubeconfig(request: pytest.FixtureRequest) -> Path:
    """The kubeconfig of the cluster under test, as an administrator."""
    given = os.environ.get("SCAVENGER_TEST_KUBECONFIG")
    if given:
        return Path(given)
    cluster: Cluster = request.getfixturevalue("cluster")
    return cluster.kubeconfig


@pytest.fixture(scope="session")
def api_cluster(kubeconfig: Path) -> Kubectl:
    """kubectl on a cluster with the CRDs and the base manifests, which have been applied and are served."""
    kubectl = Kubectl(str(ensure_tools(["kubectl"], _log.info)["kubectl"]), kubeconfig)
    for folder in ("crds", "base"):
        kubectl.ok("apply", "--server-side", "--force-conflicts", "-k", str(REPOSITORY / "manifests" / folder))
        # Established is not all: for a moment the API server may still say that there is no such kind.
        wait("the definitions to be served", lambda: kubectl("get", "scavengerjobs,scavengerqueues").returncode == 0)
    return kubectl


@pytest.fixture(scope="session")
def server(api_cluster: Kubectl) -> Iterator[Server]:
    """The same API server, for tables of objects that are sent without kubectl."""
    made = Server(api_cluster.kubeconfig)
    yield made
    made.close()


@pytest.fixture(scope="session")
def prometheus_program() -> Path:
    """Prometheus itself."""
    found = debian.program("prometheus", "prometheus")
    if found is None:
        pytest.skip("no prometheus here, and no Debian package of it (apt-get download)")
    return found


@pytest.fixture(scope="module")
def module_namespace(api_cluster: Kubectl) -> Iterator[str]:
    """A namespace shared by the tests of one module."""
    yield from _namespace(api_cluster)


@pytest.fixture
def namespace(api_cluster: Kubectl) -> Iterator[str]:
    """A namespace of the test's own."""
    yield from _namespace(api_cluster)


def _namespace(kubectl: Kubectl) -> Iterator[str]:
    name = f"it-{uuid.uuid4().hex[:8]}"
    kubectl.ok("create", "namespace", name)
    yield name
    kubectl.ok("delete", "namespace", name, "--wait=false")
