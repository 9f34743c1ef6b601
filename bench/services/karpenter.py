"""Karpenter on a cluster of fake nodes: the program itself, with its provider that makes nodes for kwok to play."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import yaml
from scavenger_cluster import Cluster, neighbours
from scavenger_cluster.errors import CommandError
from scavenger_cluster.waiting import wait_for

CPUS: Final = 8
"""Of every node that it may buy. Its provider keeps 100m of them for the kubelet."""
NODE_CLAIMS: Final = "/apis/karpenter.sh/v1/nodeclaims"
ZONE: Final = "zone-a"
DEFINITIONS: Final = ("pkg/apis/crds", "kwok/apis/crds")

Object = dict[str, Any]


@contextmanager
def running(cluster: Cluster) -> Iterator[Path]:
    """Karpenter with one kind of nodes, for the length of a block. Yields its log. ClusterError, CommandError."""
    program = neighbours.build(neighbours.KARPENTER, print)
    source = neighbours.source(neighbours.KARPENTER)
    for folder in DEFINITIONS:
        cluster.kubectl("apply", "--server-side", f"--filename={source / folder}")
    with tempfile.TemporaryDirectory() as scratch:
        types, log = Path(scratch) / "types.json", Path(scratch) / "log"
        types.write_text(json.dumps([instance_type()]))
        environment = {
            "KUBECONFIG": str(cluster.kubeconfig),
            "DISABLE_LEADER_ELECTION": "true",
            "SYSTEM_NAMESPACE": "kube-system",
            "INSTANCE_TYPES_FILE_PATH": str(types),
            "BATCH_IDLE_DURATION": "1s",
            "BATCH_MAX_DURATION": "3s",
            "METRICS_PORT": "0",  # a free one: there may be several
            "HEALTH_PROBE_PORT": "0",
            "PATH": os.environ["PATH"],
        }
        wait_for("the kinds of Karpenter", lambda: _applied(cluster), timeout=60)
        with log.open("wb") as output:
            process = subprocess.Popen([program], env=environment, stdout=output, stderr=subprocess.STDOUT)
        try:
            yield log
        finally:
            process.terminate()
            process.wait(30)


def _applied(cluster: Cluster) -> bool:
    """Whether the API server has taken the pool: for a moment it may not know its kind."""
    try:
        cluster.apply(yaml.safe_dump_all([node_class(), pool()]))
    except CommandError:
        return False
    return True


def instance_type() -> Object:
    """The one kind of machine."""
    where = {"karpenter.sh/capacity-type": "on-demand", "topology.kubernetes.io/zone": ZONE}
    return {
        "name": f"c-{CPUS}x-amd64-linux",
        "offerings": [
            {
                "Price": 1.0,
                "Available": True,
                "Requirements": [{"key": key, "operator": "In", "values": [value]} for key, value in where.items()],
            }
        ],
        "architecture": "amd64",
        "operatingSystems": ["linux"],
        "resources": {"cpu": str(CPUS), "memory": "64Gi", "pods": "110", "ephemeral-storage": "100Gi"},
    }


def node_class() -> Object:
    """What its provider asks for."""
    return {"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"}}


def pool() -> Object:
    """A pool of nodes that may go at any time, all at once, when Karpenter finds that they are not needed."""
    requirements = [
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
        {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
    ]
    template = {
        "requirements": requirements,
        "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
        "expireAfter": "720h",
    }
    disruption = {
        "consolidationPolicy": "WhenEmptyOrUnderutilized",
        "consolidateAfter": "5s",
        "budgets": [{"nodes": "100%"}],
    }
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "default"},
        "spec": {"template": {"spec": template}, "disruption": disruption},
    }
