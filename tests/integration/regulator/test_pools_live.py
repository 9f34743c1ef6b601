"""Levels by pool of nodes on a real control plane: idle GPUs beside a full CPU pool, on fake nodes with metrics."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import pytest
from scavenger_api import names
from scavenger_api.levels import LevelsState, PublishedLevels
from scavenger_cluster import Cluster, stack
from scavenger_testing.cluster_names import cluster_name
from scavenger_testing.waiting import wait

pytestmark = [pytest.mark.timeout(600), pytest.mark.long]

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


@pytest.fixture(scope="module")
def metrics() -> Iterator[tuple[Metrics, str]]:
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


@pytest.fixture(scope="module")
def pools(metrics: tuple[Metrics, str]) -> Iterator[Pools]:
    figures, url = metrics
    cluster = Cluster(cluster_name("it-pools"), report=lambda line: None)
    try:
        cluster.up(f"fake:{NODES}", fake_cpu=str(CORES), fake_memory="64Gi", scheduler="stock")
        stack.install(cluster)
        *cpus, gpu = sorted(one["metadata"]["name"] for one in cluster.client.get("/api/v1/nodes")["items"])
        cluster.kubectl("taint", "node", gpu, f"{GPU}=present:NoSchedule")
        devices = {kind: {GPU: "2"} for kind in ("capacity", "allocatable")}
        cluster.kubectl(
            "patch", "node", gpu, "--subresource=status", "--type=merge", "-p", json.dumps({"status": devices})
        )
        namespace = f"it-{uuid.uuid4().hex[:8]}"
        cluster.kubectl("create", "namespace", namespace)
        found = Pools(cluster, figures, namespace, tuple(cpus), gpu)
        found.use(cpus=94, gpus=5)
        settings = {
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
        stack.start(cluster, ["admitter", "regulator"], settings)
        yield found
    finally:
        cluster.down()


def test_a_job_starts_on_an_idle_gpu_while_the_cpu_pool_is_shut_and_the_reverse(pools: Pools) -> None:
    pools.submit("cpus", cpu="1", memory="16Mi")
    pools.submit("gpus", cpu="1", memory="16Mi", **{GPU: "1"})
    wait("the job on GPUs", lambda: pools.status("gpus").get("phase") == "Running", describe=pools.seen)
    assert pools.nodes_of("gpus") == [pools.gpu]
    levels = pools.levels()
    (name,) = levels.pools
    assert name.startswith("gpu-")
    assert (levels.admit, levels.state, levels.pools[name].admit) == (False, LevelsState.EVICTING, True)
    assert levels.pools[name].state is LevelsState.FILLING
    assert levels.pools[name].load("cpu") == pytest.approx(5, abs=0.1), "of one node alone"
    assert pools.status("cpus").get("phase", "Waiting") == "Waiting"

    pools.use(cpus=5, gpus=99)
    wait("the job on CPUs", lambda: pools.status("cpus").get("phase") == "Running", describe=pools.seen)
    assert set(pools.nodes_of("cpus")) <= set(pools.cpus)
    wait("the GPU pool is shut", lambda: pools.gpu in pools.levels().closed_nodes, describe=pools.seen)
    levels = pools.levels()
    assert (levels.admit, levels.pools[name].admit) == (True, False)
    assert not levels.closed_nodes.intersection(pools.cpus)


def test_a_job_leaves_the_full_gpu_pool_and_that_on_the_idle_cpu_pool_stays(pools: Pools) -> None:
    """Both run, and the GPU pool is above its eviction threshold."""
    assert (pools.status("gpus").get("phase"), pools.status("cpus").get("phase")) == ("Running", "Running")
    pools.measure(gpus=4, cpus=4)
    wait("the job on GPUs has left", lambda: pools.status("gpus").get("interruptedCount") == 1, describe=pools.seen)
    (condition,) = (one for one in pools.status("gpus")["conditions"] if one["type"] == "Interrupted")
    assert condition["reason"] == "AboveUpperLevel"

    pools.use(cpus=5, gpus=5)
    pools.measure(cpus=4)
    wait("it runs again", lambda: pools.status("gpus").get("phase") == "Running", describe=pools.seen)
    assert pools.nodes_of("gpus") == [pools.gpu]
    assert not pools.status("cpus").get("interruptedCount")
    assert pools.status("cpus")["phase"] == "Running"
