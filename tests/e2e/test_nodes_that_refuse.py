"""A node whose container runtime starts no containers: docs/troubleshooting.md#a-node-starts-no-pods."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scavenger_api import names
from scavenger_api.shunned_nodes import CLOSED, shunned_nodes
from scavenger_cluster import Cluster
from scavenger_cluster.api import namespaced
from scavenger_cluster.services import SYSTEM_NAMESPACE
from scavenger_kube.resources import MERGE_PATCH
from scavenger_testing.world import World, ordinary_pod, scavenger_job

pytestmark = [pytest.mark.real, pytest.mark.timeout(400), pytest.mark.long]

BROKEN, GOOD = "node1", "node2"
RUNC = """#!/bin/sh
# Sandboxes start, so the node stays Ready; the containers in them do not.
for word in "$@"; do
  [ "$before" = --bundle ] && bundle=$word
  before=$word
done
case " $* " in *" create "*)
  if grep -Eq '"io.kubernetes.cri.container-type": *"container"' "$bundle/config.json"; then
    echo "the device is gone" >&2
    exit 1
  fi;;
esac
exec {runc} "$@"
"""


class Runtime:
    """The container runtime of a node, which starts no containers while it is broken."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._pid = next(one.pid for one in cluster.status() if one.name == f"{BROKEN}/containerd")
        found = shutil.which("runc")
        assert found is not None
        self._runc, self._broken = found, folder / "runc"
        real = folder / "runc.real"
        shutil.copy(found, real)
        self._broken.write_text(RUNC.format(runc=real))
        self._broken.chmod(0o755)
        self._fails = False

    def fail(self) -> None:
        """From now on."""
        self._enter("mount", "--bind", str(self._broken), self._runc)
        self._fails = True

    def mend(self) -> None:
        """It works again."""
        if self._fails:
            self._enter("umount", self._runc)
        self._fails = False

    def _enter(self, *words: str) -> None:
        subprocess.run(["nsenter", f"--mount=/proc/{self._pid}/ns/mnt", *words], check=True)


@pytest.fixture
def runtime(cluster: Cluster, tmp_path: Path) -> Iterator[Runtime]:
    broken = Runtime(cluster, tmp_path)
    broken.fail()
    yield broken
    broken.mend()


@pytest.fixture
def other(cluster: Cluster, world: World) -> Iterator[World]:
    """Another namespace: a tenant alone closes no node to others."""
    cluster.kubectl("create", "namespace", f"{world.namespace}-b")
    second = World(cluster, f"{world.namespace}-b")
    yield second
    second.clear()
    cluster.kubectl("delete", "namespace", second.namespace, "--wait=false")


def test_it_is_shunned_after_three_starts_and_used_again_when_it_works(
    cluster: Cluster, world: World, other: World, runtime: Runtime
) -> None:
    world.apply(ordinary_pod("busy", "800m", nodeName=GOOD))  # so the other node looks better
    for number in range(8):
        place = (world, other)[number % 2]
        place.apply(job(f"early-{number}"))
        place.wait_phase(f"early-{number}", "Completed", timeout=120)
        if BROKEN in shunned(cluster):
            break
    assert BROKEN in shunned(cluster), world.describe()
    refused = refusals(world) | refusals(other)
    assert len(refused) == 3
    assert told(cluster, "NodeShunned")
    ready = cluster.kubectl("get", "node", BROKEN, "-o=jsonpath={.status.conditions[?(@.type=='Ready')].status}")
    assert ready == "True"

    for number in range(4):
        place = (world, other)[number % 2]
        place.apply(job(f"later-{number}"))
        place.wait_phase(f"later-{number}", "Completed", timeout=60)
    assert refusals(world) | refusals(other) == refused, "no job was sent there again"

    runtime.mend()
    cluster.service_stop("admitter")
    time_passes(cluster)
    cluster.service_start("admitter", wait="readyz")
    cluster.kubectl("cordon", GOOD)
    try:
        world.apply(job("again"))
        world.wait_phase("again", "Completed", timeout=120)
    finally:
        cluster.kubectl("uncordon", GOOD)
    world.wait("it is trusted", lambda: BROKEN not in shunned(cluster) and told(cluster, "NodeTrusted"))
    assert refusals(world) | refusals(other) == refused


def job(name: str) -> dict[str, Any]:
    return scavenger_job(name, cpu="100m", command=["python3", "-c", "import time; time.sleep(1)"])


def shunned(cluster: Cluster) -> dict[str, str]:
    found = cluster.client.find(namespaced("configmaps", SYSTEM_NAMESPACE, names.NODES_CONFIGMAP))
    return shunned_nodes((found or {}).get("data") or {})


def refusals(world: World) -> set[str]:
    """The pods whose container the runtime of the broken node did not start, as its kubelet says."""
    found = [one for one in world.objects("events") if one["reason"] == "Failed" and one["source"]["host"] == BROKEN]
    return {one["involvedObject"]["name"] for one in found}


def told(cluster: Cluster, reason: str) -> bool:
    words = ("get", "events", "-A", f"--field-selector=reason={reason},involvedObject.name={BROKEN}", "-o", "name")
    return bool(cluster.kubectl(*words).split())


def time_passes(cluster: Cluster) -> None:
    """The five minutes for which a node is closed first are over. No admitter runs."""
    path = namespaced("configmaps", SYSTEM_NAMESPACE, names.NODES_CONFIGMAP)
    rows = json.loads(cluster.client.get(path)["data"][CLOSED])
    for row in rows:
        row["until"] = int((time.time() - 1) * 1_000_000)
    patch = {"data": {CLOSED: json.dumps(rows)}}
    cluster.client.request("PATCH", path, patch, MERGE_PATCH)
