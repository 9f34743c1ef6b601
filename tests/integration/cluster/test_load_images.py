"""`make load-images` into nodes that are neither of kind nor of minikube: a build, an archive, and containerd."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from scavenger_cluster import Cluster, requirements
from scavenger_cluster.build import ensure_tools
from scavenger_cluster.node import RealNode
from scavenger_testing.cluster_names import cluster_name

from tools import load_images

pytestmark = [pytest.mark.long, pytest.mark.real, pytest.mark.cpu, pytest.mark.timeout(900)]
SNAPSHOT = "snapshot"
"""Of all images the one that is built from nothing: the others need a base, which is in no registry here."""


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    found = Cluster(cluster_name("it-load"), report=lambda line: print(line, flush=True))  # noqa: T201
    try:
        found.up("real:1", dns=False, scheduler="stock")
        yield found
    finally:
        found.down()


def test_an_image_is_built_and_comes_into_a_node_by_ssh(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ssh and sudo are stand-ins: no node of the embedded cluster has a daemon that one could log in to."""
    requirements.install(requirements.missing_image_packages(), cluster.report, allowed=True)
    node = RealNode(cluster.state, cluster.layout, cluster.processes, cluster.report, 1)
    (tmp_path / "sudo").write_text('#!/bin/sh\nexec "$@"\n')
    (tmp_path / "ssh").write_text(
        f'#!/bin/sh\n[ "$1" = admin@{node.address} ] || exit 255\nshift\nexec {shlex.join(node._enter())} "$@"\n'
    )
    for name in ("sudo", "ssh"):
        (tmp_path / name).chmod(0o755)
    (tmp_path / "kubectl").symlink_to(ensure_tools(["kubectl"], cluster.report)["kubectl"])
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    monkeypatch.setattr(load_images, "BUILDERS", ("buildah",))
    monkeypatch.setattr(load_images, "ARCHIVES", tmp_path)
    assert load_images.image_of(SNAPSHOT) not in node.images()
    assert load_images.main(["--ssh", "admin", SNAPSHOT]) == 0
    assert load_images.image_of(SNAPSHOT) in node.images()
