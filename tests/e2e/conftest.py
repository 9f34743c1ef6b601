"""One cluster for all end-to-end tests: real kubelets and containers where root, containerd and runc are there.

Each test has a namespace of its own and leaves nothing in it; what a test stops, it starts again.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from scavenger_cluster import Cluster, cgroups, stack
from scavenger_cluster.requirements import obstacles
from scavenger_testing.cluster_names import cluster_name
from scavenger_testing.world import SETTINGS, World, shared_folder


@pytest.fixture(scope="session", autouse=True)
def _cpu_claim() -> Iterator[None]:
    """Who watches a busy cluster needs CPU as its control plane does."""
    with cgroups.cpu_claim():
        yield


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """The cluster of the session, with everything of this repository on it."""
    name = os.environ.get("SCAVENGER_E2E_CLUSTER") or cluster_name("e2e")
    found = Cluster(name, report=lambda line: print(line, flush=True))  # noqa: T201
    found.up("fake:2" if obstacles() else "real:2")
    try:
        stack.install(found)
        stack.start(found, ["admitter"], SETTINGS)
        if found.state.real:
            stack.build_images(found)
        yield found
    finally:
        if "SCAVENGER_E2E_CLUSTER" not in os.environ:
            found.down()


@pytest.fixture
def world(cluster: Cluster) -> Iterator[World]:
    """A fresh namespace, emptied after the test; nothing may be left hanging in it."""
    namespace = f"e2e-{uuid.uuid4().hex[:8]}"
    cluster.kubectl("create", "namespace", namespace)
    place = World(cluster, namespace)
    yield place
    place.clear()
    cluster.kubectl("delete", "namespace", namespace, "--wait=false")


@pytest.fixture
def shared(world: World, tmp_path: Path) -> Iterator[str]:
    """The name of a PersistentVolumeClaim on a folder of this machine, which pods of every node can write to."""
    with shared_folder(world, tmp_path / "volume", "state"):
        yield "state"
