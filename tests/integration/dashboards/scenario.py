"""Six nodes of eight cores, two queues, and what happens to their jobs.

1. `web`, an ordinary pod of 2 cores, runs on the first node.
2. Queue `lab` runs `a` to `f`, of 4 cores each, and `done`, of 2, which completes.
3. Somebody deletes the pod of `a`: it is interrupted and starts again.
4. `burst`, an ordinary pod of 6 cores, takes the node of `b`, which waits from then on.
5. Queue `guest`, of twice the weight, has a job for the node of `c` and `d`: one of them gives it back.
6. `big` finds no place, and neither does `stuck`, an ordinary pod.

`sweep` is an array of five tasks, and suspended.

In the end 5 jobs run, 2 are interrupted, 1 waits, 1 is suspended and 1 has completed. Three interruptions, each of
another cause.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

from scavenger_api import names
from scavenger_cluster import Cluster
from scavenger_cluster.kwok import RUN_SECONDS
from scavenger_testing.place import MERGE_PATCH
from scavenger_testing.waiting import wait

from .prometheus import Prometheus

NODES: Final = 6
CPUS: Final = 8
NAMESPACE: Final = "research"
JOBS: Final = "/apis/scavenger.dev/v1alpha1"
QUEUES: Final = {"lab": 1, "guest": 2}
RAN_SECONDS: Final = 3.0
"""What a job has computed at least when it is interrupted."""

Object = dict[str, Any]


class Scenario:
    """What is done to a cluster, and what its API server says of it."""

    def __init__(self, cluster: Cluster, prometheus: Prometheus) -> None:
        self.cluster = cluster
        self.prometheus = prometheus
        self.client = cluster.client
        self.nodes = sorted(node["metadata"]["name"] for node in self.client.get("/api/v1/nodes")["items"])

    def play(self) -> None:
        """All of it, step by step."""
        self.client.request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        for name, weight in QUEUES.items():
            body = {"apiVersion": names.API_VERSION, "kind": "ScavengerQueue", "metadata": {"name": name}}
            self.client.request("POST", f"{JOBS}/scavengerqueues", {**body, "spec": {"weight": weight}})
        self.ordinary("web", 2, node=0)
        for name, node in {"a": 1, "b": 2, "c": 3, "d": 3, "e": 4, "f": 4}.items():
            self.submit(name, "lab", 4, node)
        self.submit("done", "lab", 2, 5)
        self.submit("sweep", "lab", 1, 5, array={"tasks": 5}, suspend=True)
        started = ("a", "b", "c", "d", "e", "f", "done")
        self.until("all run", lambda: all(self.phase(name) == "Running" for name in started))
        counted = time.time()
        self.until("all have computed", lambda: all(self.ran(name) >= RAN_SECONDS for name in started))
        # A counter that is never seen at 0 has not increased; a busy machine may miss one scrape after the other.
        self.until("all counters seen", lambda: self.prometheus.has_scraped_since(counted))
        self.complete("done")
        self.interrupt("a")
        self.ordinary("burst", 6, node=2)
        self.until("b interrupted", lambda: self.phase("b") == "Interrupted")
        self.until("burst running", lambda: self.running("burst"))
        self.submit("guest", "guest", 4, 3)
        self.until("guest running", lambda: self.phase("guest") == "Running")
        self.submit("big", "lab", 8, 0)
        self.ordinary("stuck", 8, node=0)
        self.until("big waiting", lambda: self.phase("big") == "Waiting")

    # --- doing ---

    def submit(self, name: str, queue: str, cpu: int, node: int, **more: Any) -> None:
        """A job for one node. more: of its spec."""
        spec = {
            "queue": queue,
            "image": "none",
            "resources": {"requests": {"cpu": str(cpu), "memory": "64Mi"}},
            "terminationGracePeriodSeconds": 1,
            "nodeSelector": self._selector(node),
            **more,
        }
        body = {"apiVersion": names.API_VERSION, "kind": "ScavengerJob", "metadata": {"name": name}, "spec": spec}
        self.client.request("POST", f"{JOBS}/namespaces/{NAMESPACE}/scavengerjobs", body)

    def ordinary(self, name: str, cpu: int, node: int) -> None:
        """An ordinary pod for one node. In a new namespace none is taken before it has an account to run under."""
        account = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default"
        self.until("the service account", lambda: self.client.find(account))
        requests = {"cpu": str(cpu), "memory": "64Mi"}
        container = {"name": "main", "image": "none", "resources": {"requests": requests}}
        spec = {"terminationGracePeriodSeconds": 1, "containers": [container], "nodeSelector": self._selector(node)}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        self.client.request("POST", self._pods(), body)

    def complete(self, name: str) -> None:
        """The pod of a job ends, and well."""
        (pod,) = self.pods(name)
        patch = {"metadata": {"annotations": {RUN_SECONDS: "1"}}}
        self.client.request("PATCH", f"{self._pods()}/{pod}", patch, MERGE_PATCH)
        self.until(f"{name} completed", lambda: self.phase(name) == "Completed")

    def interrupt(self, name: str) -> None:
        """Somebody deletes the pod of a job, which then starts again."""
        (pod,) = self.pods(name)
        self.client.delete(f"{self._pods()}/{pod}")
        self.until(f"{name} counted", lambda: self.status(name).get("interruptedCount") == 1)
        self.until(f"{name} running again", lambda: self.phase(name) == "Running")

    def _selector(self, node: int) -> dict[str, str]:
        return {"kubernetes.io/hostname": self.nodes[node]}

    def _pods(self) -> str:
        return f"/api/v1/namespaces/{NAMESPACE}/pods"

    # --- seeing ---

    def statuses(self, queue: str | None = None) -> dict[str, Object]:
        """The statuses of all jobs, or of those of one queue."""
        found = self.client.get(f"{JOBS}/namespaces/{NAMESPACE}/scavengerjobs")["items"]
        chosen = (job for job in found if queue in (None, job["spec"]["queue"]))
        return {job["metadata"]["name"]: job.get("status") or {} for job in chosen}

    def status(self, name: str) -> Object:
        """The status of a job."""
        return self.statuses()[name]

    def phase(self, name: str) -> str:
        """The phase of a job; empty before it has one."""
        return str(self.status(name).get("phase", ""))

    def total(self, field: str, queue: str | None = None) -> float:
        """The sum of a figure over the statuses."""
        return sum(float(status.get(field, 0)) for status in self.statuses(queue).values())

    def ran(self, name: str) -> float:
        """Seconds since a job has been running; 0 when it does not."""
        status = self.status(name)
        if status.get("phase") != "Running":
            return 0.0
        return time.time() - datetime.fromisoformat(status["runningTimestamps"][-1]).timestamp()

    def pods(self, job: str) -> list[str]:
        """The names of the pods of a job."""
        found = self.client.get(f"{self._pods()}?labelSelector=scavenger.dev%2Fjob%3D{job}")["items"]
        return [pod["metadata"]["name"] for pod in found]

    def running(self, pod: str) -> bool:
        """Whether a pod runs."""
        return bool(self.client.get(f"{self._pods()}/{pod}")["status"].get("phase") == "Running")

    def until(self, what: str, condition: Callable[[], Any]) -> None:
        """Wait for something."""
        wait(what, condition, describe=self.describe)

    def describe(self) -> str:
        """What there is, for a failure."""
        seen = self.cluster.kubectl("-n", NAMESPACE, "get", "scavengerjobs,jobs,pods", "-o", "wide")
        return f"{seen}\n{self.cluster.service_logs('admitter')[-4000:]}"
