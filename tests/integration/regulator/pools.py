"""Two pools of fake nodes on a real control plane, with figures that a test sets."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from scavenger_api import names
from scavenger_api.levels import LevelsState, PublishedLevels
from scavenger_cluster import Cluster, stack

GPU: Final = "nvidia.com/gpu"
CORES: Final = 8
NODES: Final = 3

Object = dict[str, Any]


@dataclass
class Metrics:
    """Answers as Prometheus does, for fake nodes, which measure nothing. cores: used by node; pods: by pod, which has
    its namespace before it."""

    cores: dict[str, float] = field(default_factory=dict)
    pods: dict[str, float] = field(default_factory=dict)

    def answer(self, query: str) -> bytes:
        """An instant query by the name of a metric."""
        of_nodes = {
            "node_cpu": self.cores,
            "node_memory": dict.fromkeys(self.cores, 2.0**30),
            "taken": dict.fromkeys(self.cores, time.time()),
        }.get(query, {})
        of_pods = {"pod_cpu": self.pods, "pod_memory": dict.fromkeys(self.pods, 2.0**20)}.get(query, {})
        series = [({"node": node}, value) for node, value in of_nodes.items()]
        for key, value in of_pods.items():
            namespace, _, pod = key.partition("/")
            series.append(({"namespace": namespace, "pod": pod}, value))
        result = [{"metric": labels, "value": [time.time(), str(value)]} for labels, value in series]
        return json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}).encode()


@contextmanager
def prometheus() -> Iterator[tuple[Metrics, str]]:
    """The figures, and the URL under which the regulator asks for them."""
    found = Metrics()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(urlsplit(self.path).query)

        def do_POST(self) -> None:
            self._answer(self.rfile.read(int(self.headers["Content-Length"])).decode())

        def _answer(self, asked: str) -> None:
            body = found.answer(parse_qs(asked)["query"][0])
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    yield found, f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@dataclass
class Pools:
    """Two CPU nodes, and one with a device and its taint: a pool of one node."""

    cluster: Cluster
    metrics: Metrics
    namespace: str
    cpus: tuple[str, ...]
    gpu: str

    def use(self, *, cpus: float, gpus: float) -> None:
        """Use of each node, in percent."""
        self.metrics.cores = dict.fromkeys(self.cpus, CORES * cpus / 100) | {self.gpu: CORES * gpus / 100}

    def submit(self, name: str, **asked: str) -> None:
        spec = {"image": "none", "resources": {"requests": asked, "limits": asked}, "terminationGracePeriodSeconds": 1}
        path = f"/apis/scavenger.dev/v1alpha1/namespaces/{self.namespace}/scavengerjobs"
        job = {"apiVersion": names.API_VERSION, "kind": "ScavengerJob", "metadata": {"name": name}, "spec": spec}
        self.cluster.client.create_all(path, [job])

    def status(self, name: str) -> Object:
        path = f"/apis/scavenger.dev/v1alpha1/namespaces/{self.namespace}/scavengerjobs/{name}"
        found: Object = self.cluster.client.get(path).get("status", {})
        return found

    def levels(self) -> PublishedLevels:
        path = f"/api/v1/namespaces/{names.SYSTEM_NAMESPACE}/configmaps/{names.LEVELS_CONFIGMAP}"
        found = self.cluster.client.find(path)
        return PublishedLevels.parse(found["data"]) if found else PublishedLevels(LevelsState.BLIND)

    def pods_of(self, name: str) -> list[Object]:
        path = f"/api/v1/namespaces/{self.namespace}/pods?labelSelector={names.LABEL_JOB.replace('/', '%2F')}%3D{name}"
        found: list[Object] = self.cluster.client.get(path)["items"]
        return found

    def nodes_of(self, name: str) -> list[str]:
        return [pod["spec"].get("nodeName", "") for pod in self.pods_of(name)]

    def measure(self, **cores: float) -> None:
        """Use of the pods of jobs, in cores. Without it they have no figures, and are no victims."""
        self.metrics.pods = {
            f"{self.namespace}/{pod['metadata']['name']}": used
            for name, used in cores.items()
            for pod in self.pods_of(name)
        }

    def seen(self) -> str:
        asked = ("get", "sj,pods,nodes", "-A", "-o", "wide")
        return f"{self.levels()}\n{self.cluster.kubectl(*asked)}"


def two_pools(cluster: Cluster, figures: Metrics) -> Pools:
    """Bring up the nodes, and make one of them a pool of its own."""
    cluster.up(f"fake:{NODES}", fake_cpu=str(CORES), fake_memory="64Gi", scheduler="stock")
    *cpus, gpu = sorted(one["metadata"]["name"] for one in cluster.client.get("/api/v1/nodes")["items"])
    cluster.kubectl("taint", "node", gpu, f"{GPU}=present:NoSchedule")
    devices = {kind: {GPU: "2"} for kind in ("capacity", "allocatable")}
    cluster.kubectl("patch", "node", gpu, "--subresource=status", "--type=merge", "-p", json.dumps({"status": devices}))
    namespace = f"it-{uuid.uuid4().hex[:8]}"
    cluster.kubectl("create", "namespace", namespace)
    return Pools(cluster, figures, namespace, tuple(cpus), gpu)


def settings_of(url: str) -> dict[str, str]:
    """Of services that ask these figures every two seconds."""
    return {
        **stack.FIXED_LEVELS,
        "PYTEST_CURRENT_TEST": "",
        "SCAVENGER_COOLDOWN": "1",
        "SCAVENGER_FLOOR": "100",
        "SCAVENGER_PERIOD": "2",
        "SCAVENGER_SOURCE": "prometheus",
        "SCAVENGER_PROMETHEUS_URL": url,
        "SCAVENGER_PROMETHEUS_NODE_CPU": "node_cpu",
        "SCAVENGER_PROMETHEUS_NODE_MEMORY": "node_memory",
        "SCAVENGER_PROMETHEUS_POD_CPU": "pod_cpu",
        "SCAVENGER_PROMETHEUS_POD_MEMORY": "pod_memory",
        "SCAVENGER_PROMETHEUS_TAKEN": "taken",
        "SCAVENGER_PROMETHEUS_WINDOW": "1",
    }
