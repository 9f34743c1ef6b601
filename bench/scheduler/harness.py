"""A cluster of fake nodes with one scheduler or the other, and pods placed on them by hand.

The API server, the schedulers and the pods' life are real; only the kubelets are kwok's. Scavenger pods are created
with their node already chosen, so that a test decides who runs where; ordinary pods are what the scheduler works on.
"""

from __future__ import annotations

import dataclasses
import http.client
import json
import os
import ssl
import urllib.request
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import yaml
from scavenger_api import names
from scavenger_cluster import Cluster, kwok, stack
from scavenger_cluster.build import ensure_tools
from scavenger_cluster.control_plane import SCHEDULER
from scavenger_cluster.process import Program, mark
from scavenger_cluster.services import service_account_token
from scavenger_cluster.waiting import wait_for
from scavenger_kube.errors import Unavailable

REPOSITORY: Final = Path(__file__).resolve().parents[2]
MANIFESTS: Final = REPOSITORY / "manifests"
DEFAULT_NAMESPACE: Final = "/api/v1/namespaces/default"
PODS: Final = f"{DEFAULT_NAMESPACE}/pods"
NODES: Final = "/api/v1/nodes"
MERGE_PATCH: Final = "application/merge-patch+json"
SECOND: Final = "second-scheduler"

Body = dict[str, Any]


# --- the second scheduler ---


def start_second(cluster: Cluster, port: int) -> None:
    """Runs the plugin beside the cluster's own scheduler, as the manifests do: their configuration, their rights."""
    layout = cluster.layout
    kubeconfig = layout.config / f"{SECOND}.kubeconfig"
    token = service_account_token(cluster.client, names.SCHEDULER)
    admin = yaml.safe_load(cluster.kubeconfig.read_text())
    admin["users"][0]["user"] = {"token": token}
    kubeconfig.write_text(yaml.safe_dump(admin))
    kubeconfig.chmod(0o600)
    config = layout.config / f"{SECOND}.yaml"
    config_map = yaml.safe_load((MANIFESTS / "scheduler" / "configmap.yaml").read_text())
    shipped = yaml.safe_load(config_map["data"]["config.yaml"])
    shipped["clientConnection"]["kubeconfig"] = str(kubeconfig)
    config.write_text(yaml.safe_dump(shipped))
    program = ensure_tools([names.SCHEDULER], cluster.report)[names.SCHEDULER]
    argv = (str(program), f"--config={config}", "--bind-address=127.0.0.1", f"--secure-port={port}")
    environment = {"PATH": os.environ["PATH"], "HOME": str(layout.root), **mark(cluster.name, layout.root, SECOND)}
    cluster.processes.start(Program(SECOND, argv, environment))
    _wait_for(f"https://127.0.0.1:{port}/readyz", cluster)


def _wait_for(url: str, cluster: Cluster) -> None:
    context = ssl._create_unverified_context()

    def ready() -> bool:
        try:
            with urllib.request.urlopen(url, timeout=5, context=context) as response:
                return bool(response.status == 200)
        except OSError:
            return False

    wait_for(f"{url} (see {cluster.layout.logs})", ready, timeout=60)


def stop_second(cluster: Cluster) -> None:
    """Ends the second scheduler."""
    cluster.processes.stop(SECOND)


def second_log(cluster: Cluster) -> str:
    """What the second scheduler has logged."""
    return cluster.processes.log(SECOND).read_text()


# --- what a scheduler counted ---


def figures(cluster: Cluster, beginning: str) -> dict[str, float]:
    """The metrics of the running scheduler whose names, with labels, begin so."""
    pki = cluster.layout.pki
    context = ssl._create_unverified_context()
    context.load_cert_chain(str(pki / "admin.crt"), str(pki / "admin.key"))
    connection = http.client.HTTPSConnection("127.0.0.1", cluster.state.ports[SCHEDULER], timeout=10, context=context)
    connection.request("GET", "/metrics")
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    if response.status != 200:
        raise RuntimeError(f"/metrics: {response.status} {text[:200]}")
    found = {}
    for line in text.splitlines():
        if line.startswith(beginning):
            name, _, value = line.rpartition(" ")
            found[name] = float(value)
    return found


# --- nodes and pods ---


def node(name: str, pool: str, cpu: str = "2", memory: str = "64Gi") -> Body:
    """A fake node of a pool; pods of other tests keep off it by their selectors."""
    body = kwok.fake_node(name, cpu=cpu, memory=memory, pods=110, taint=False, now="2026-01-01T00:00:00Z")
    body["metadata"]["labels"]["pool"] = pool
    return body


@dataclasses.dataclass
class Pods:
    """Pods of one pool of nodes."""

    pool: str
    grace: int = 0

    def ordinary(self, name: str, cpu: str = "1", **annotations: str) -> Body:
        """A pending pod that any node of the pool will do for."""
        body = self._pod(name, names.PRIORITY_CLASS_ORDINARY, cpu)
        body["metadata"]["annotations"] = dict(annotations)
        body["spec"]["nodeSelector"] = {"pool": self.pool}
        return body

    def interactive(self, name: str, cpu: str = "1") -> Body:
        """One that somebody sits and waits for."""
        return self.ordinary(name, cpu, **{names.ANNOTATION_LATENCY: names.LATENCY_INTERACTIVE})

    def scavenger(
        self, name: str, on: str, risk: object, *, job: str = "", preemptible: bool = True, cpu: str = "1"
    ) -> Body:
        """A pod of a scavenger job, running on a node; `risk`: what the whole job would lose, in CPU-seconds."""
        body = self._pod(name, names.PRIORITY_CLASS_PREEMPTIBLE, cpu)
        body["metadata"]["labels"] |= {
            names.LABEL_JOB: job or name,
            names.LABEL_PREEMPTION_CLASS: names.PREEMPTIBLE if preemptible else names.NON_PREEMPTIBLE,
        }
        body["metadata"]["annotations"] = {names.ANNOTATION_RUNNING_PRIORITY: str(risk)}
        body["spec"]["nodeName"] = on
        return body

    def gang(self, job: str, on: Sequence[str], risk: object) -> list[Body]:
        """A job with a pod on each of these nodes, every one saying what the whole job would lose, as in a cluster."""
        return [self.scavenger(f"{job}-{i}", node, risk, job=job) for i, node in enumerate(on)]

    def _pod(self, name: str, priority_class: str, cpu: str) -> Body:
        requests = {"cpu": cpu, "memory": "64Mi"}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "labels": {"pool": self.pool}},
            "spec": {
                "priorityClassName": priority_class,
                "terminationGracePeriodSeconds": self.grace,
                "automountServiceAccountToken": False,
                "containers": [
                    {
                        "name": "main",
                        "image": "none",
                        "resources": {"requests": requests, "limits": requests},
                    }
                ],
            },
        }


def listed(cluster: Cluster, pool: str) -> dict[str, Body]:
    """The pods of a pool by name."""
    items = cluster.client.get(f"{PODS}?labelSelector=pool%3D{pool}")["items"]
    return {item["metadata"]["name"]: item for item in items}


def living(cluster: Cluster, pool: str) -> set[str]:
    """The names of the pods of a pool that nobody has begun to remove."""
    return {name for name, pod in listed(cluster, pool).items() if "deletionTimestamp" not in pod["metadata"]}


def is_running(pod: Body) -> bool:
    """Whether a pod runs and nobody has begun to remove it."""
    return pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]


def wait_until_running(
    cluster: Cluster, pool: str, wanted: Iterable[str], timeout: float = 60, interval: float = 0.05
) -> None:
    """Waits until all these pods run."""
    remaining = set(wanted)

    def done() -> bool:
        found = listed(cluster, pool)
        remaining.difference_update({name for name in remaining if name in found and is_running(found[name])})
        return not remaining

    try:
        wait_for(f"{len(remaining)} pods to run", done, timeout=timeout, interval=interval)
    except Exception as error:
        raise TimeoutError(f"not running after {timeout:g} s: {json.dumps(sorted(remaining)[:10])}") from error


def clean(cluster: Cluster, pool: str, nodes: Iterable[str]) -> None:
    """Removes the pods and nodes of a pool, finalizers and all."""
    selected = f"{PODS}?labelSelector=pool%3D{pool}"
    paths = [f"{PODS}/{name}?gracePeriodSeconds=0" for name in listed(cluster, pool)]
    try:
        cluster.client.delete_all(paths)
    except Unavailable:  # the server closed an idle connection
        cluster.client.delete_all(paths)
    for name, pod in listed(cluster, pool).items():
        if pod["metadata"].get("finalizers"):
            body = {"metadata": {"finalizers": None}}
            cluster.client.request("PATCH", f"{PODS}/{name}", body, MERGE_PATCH)
    cluster.client.delete_all(f"{NODES}/{name}" for name in nodes)
    wait_for(
        "the pods to be gone",
        lambda: not cluster.client.get(f"{selected}&limit=1")["items"],
        timeout=120,
        interval=0.5,
    )


def install_base(cluster: Cluster) -> None:
    """Namespace, PriorityClasses, and the rights of a second scheduler; no guard, as pods are made by hand."""
    cluster.kubectl("apply", "--server-side", "-k", str(MANIFESTS / "base"))
    stack.lift_guard(cluster)
    cluster.kubectl("apply", "--server-side", "-f", str(MANIFESTS / "scheduler" / "rbac.yaml"))
