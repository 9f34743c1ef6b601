"""Real nodes whose room is requested by idle ordinary pods, and jobs that run on what those do not use.

The machine's CPUs and memory are the node's. Of the memory the node offers a part only (its kubelet reserves the rest
for the system, and limits all pods together to what is left), so that "full" is a few GiB wherever this runs.
"""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Self

from scavenger_api import names
from scavenger_api.quantity import parse_quantity
from scavenger_api.reclaimed import RECLAIMED
from scavenger_cluster import Cluster, stack
from scavenger_testing.world import IMAGE, SETTINGS, World

from bench.reclaimed import program
from bench.reclaimed.groups import PodGroup

MIB: Final = 1 << 20
NODE: Final = "node1"
NODE_STATUS: Final = f"/api/v1/nodes/{NODE}"
ROOM_MIB: Final = 3072
"""What the pods of the node may use together."""
PROGRAM: Final = Path(program.__file__).read_text()
SERVICES: Final = ("admitter", "regulator", "prioritizer")
BURN: Final = "while True: pass"

QUICK: Final = {
    **SETTINGS,
    **stack.FIXED_LEVELS,
    "SCAVENGER_MAX_AGE": "40",  # metrics-server has new figures every ten seconds
    "SCAVENGER_COOLDOWN": "3",
    "SCAVENGER_INITIAL_LOWER": "75",
    "SCAVENGER_YIELD_AT_CHECKPOINT": "false",  # who leaves is to be decided by what is at risk
    "SCAVENGER_PER_NODE": "true",
    "SCAVENGER_RECLAIMED": "true",
    "SCAVENGER_RECLAIMED_MIN_SAMPLES": "1",
    "SCAVENGER_RECLAIMED_STEP": "100",
    "SCAVENGER_RECLAIMED_HALF_LIFE": "60",  # the shortest there is: a burst is soon forgotten
    "SCAVENGER_RECLAIMED_PERCENTILE": "50",  # and so is what it took to start everything a moment ago
}
"""Settings of the services under which a decision takes seconds."""

Body = dict[str, Any]


def whole_node(memory: str = "512Mi") -> dict[str, str]:
    """Requests of an ordinary pod that leave a tenth of a core to others, whatever the machine has."""
    return {"cpu": f"{1000 * (os.cpu_count() or 1) - 100}m", "memory": memory}


def up(name: str) -> Cluster:
    """A cluster of one real node with metrics, and everything of this repository on it but the services."""
    cluster = Cluster(name, report=lambda line: print(line, flush=True))
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // MIB
    cluster.up("real:1", metrics=True, arguments={"kubelet": [f"--system-reserved=memory={machine - ROOM_MIB}Mi"]})
    stack.install(cluster)
    stack.allow_reclaimed(cluster)
    stack.build_images(cluster)
    return cluster


def start_services(cluster: Cluster) -> None:
    """All that take part, with a regulator that knows nothing of the node.

    What the ordinary pods took a moment ago it would rightly keep free for a while, and every experiment would have to
    wait for the one before it to be forgotten.
    """
    cluster.service_stop("regulator")
    cluster.kubectl("-n", names.SYSTEM_NAMESPACE, "delete", "configmap", "--all")
    stack.start(cluster, SERVICES, QUICK)


class Ordinary:
    """A Deployment of one pod that does as it is told (see `program`); it keeps for itself what it requested."""

    def __init__(self, place: Place, name: str, requests: dict[str, str], limits: dict[str, str] | None = None) -> None:
        self.place, self.name = place, name
        container = {
            "name": "main",
            "image": IMAGE,
            "command": ["python3", "-c", PROGRAM],
            "resources": {"requests": requests, "limits": limits or {}},
        }
        labels = {"app": name}
        template = {
            "metadata": {"labels": labels},
            "spec": {"terminationGracePeriodSeconds": 1, "containers": [container]},
        }
        place.apply(
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": name},
                "spec": {"selector": {"matchLabels": labels}, "template": template},
            }
        )
        self.first = place.wait(f"{name} runs and answers", self._answering)
        self.address = f"http://{self.first['status']['podIP']}:{program.PORT}"

    def ask(self, path: str, timeout: float = 120, **arguments: object) -> Any:
        """The answer to a request, as a service's own clients would get it."""
        query = "&".join(f"{key}={value}" for key, value in arguments.items())
        with urllib.request.urlopen(f"{self.address}{path}?{query}", timeout=timeout) as answer:
            return json.load(answer)

    def burn(self, seconds: float) -> float:
        """Throughput, in units of work per second, of all the processes there are: two for each CPU, so that none is
        without one of them while the kernel moves them about."""
        return float(self.ask("/burn", seconds=seconds, processes=program.PROCESSES)) / seconds

    def untouched(self) -> bool:
        """Whether it is still the first pod, never restarted."""
        pods = self.place.objects("pods", f"app={self.name}")
        return [_life(pod) for pod in pods] == [_life(self.first)]

    def group(self) -> PodGroup:
        return PodGroup(self.place.cluster.name, self.first)

    def _answering(self) -> Body | None:
        pods = self.place.objects("pods", f"app={self.name}")
        if len(pods) != 1 or not pods[0].get("status", {}).get("podIP"):
            return None
        self.address = f"http://{pods[0]['status']['podIP']}:{program.PORT}"
        try:
            self.ask("/spin", timeout=5)
        except OSError:
            return None
        return pods[0]


def _life(pod: Body) -> tuple[str, str, int]:
    containers = pod["status"].get("containerStatuses", ())
    return pod["metadata"]["uid"], pod["status"]["phase"], sum(c["restartCount"] for c in containers)


class Place(World):
    """A namespace on the node, what is published there, and the jobs on reclaimed capacity.

    As a context manager: the services as they start on a node they have never seen, and nothing left on it afterwards.
    """

    def __enter__(self) -> Self:
        start_services(self.cluster)
        self.cluster.kubectl("create", "namespace", self.namespace)
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def clear(self) -> None:
        """Leave nothing on the node for the next one."""
        self.kubectl("delete", "deployments", "--all", "--wait=true", "--timeout=110s")
        super().clear()

    def offered(self) -> dict[str, int]:
        """What the node offers: millicores and MiB by resource; nothing where nothing is published."""
        found = self.cluster.client.get(NODE_STATUS)["status"]["allocatable"]
        return {
            resource: int(parse_quantity(found[extended]))
            for resource, (extended, _) in RECLAIMED.items()
            if extended in found
        }

    def allocatable(self) -> dict[str, int]:
        """The bounds of that, in the same units: what the node has for pods at all."""
        found = self.cluster.client.get(NODE_STATUS)["status"]["allocatable"]
        return {"cpu": int(parse_quantity(found["cpu"]) * 1000), "memory": int(parse_quantity(found["memory"]) / MIB)}

    def wait_offer(self, cpu: int, memory: int) -> None:
        """Until the node offers so many millicores and MiB."""

        def enough() -> bool:
            offered = self.offered()
            return offered.get("cpu", 0) >= cpu and offered.get("memory", 0) >= memory

        self.wait(f"{cpu}m and {memory} MiB are on offer", enough, 240)

    def submit(self, name: str, cpu: int, memory: int, code: str = BURN, **spec: Any) -> None:
        """A job on reclaimed capacity: millicores, MiB, and the Python it runs."""
        limits = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}
        self.compute(name, code, **{"capacity": "Reclaimed", "resources": {"limits": limits}, **spec})

    def compute(self, name: str, code: str, **spec: Any) -> None:
        """A job that runs this Python."""
        self.apply(
            {
                "apiVersion": names.API_VERSION,
                "kind": "ScavengerJob",
                "metadata": {"name": name},
                "spec": {
                    "image": IMAGE,
                    "command": ["python3", "-c", code],
                    "terminationGracePeriodSeconds": 1,
                    **spec,
                },
            }
        )

    def describe(self) -> str:
        levels = {name: self.published(name) for name in ("state", "admit", "load.cpu", "load.memory")}
        return f"offered: {self.offered()}; published: {levels}\n{super().describe()}"

    def phase(self, job: str) -> str:
        return str(self.status(job).get("phase", ""))

    def interruptions(self, job: str) -> int:
        return int(self.status(job).get("interruptedCount", 0))

    def published(self, name: str) -> str:
        """A figure of the regulator's; empty before there is one."""
        path = f"/api/v1/namespaces/{names.SYSTEM_NAMESPACE}/configmaps/{names.LEVELS_CONFIGMAP}"
        return str(((self.cluster.client.find(path) or {}).get("data") or {}).get(name, ""))

    def memory_use(self) -> float:
        """What the node uses of its memory, in MiB, as far as the regulator knows."""
        return float(self.published("load.memory") or "nan") / 100 * self.allocatable()["memory"]

    def upper_memory(self) -> float:
        """The upper level of memory in force, in MiB."""
        return float(self.published("upper.memory") or "nan") / 100 * self.allocatable()["memory"]

    def groups(self, jobs: Sequence[str]) -> list[PodGroup]:
        """The control groups of the pods of jobs that run."""
        return [PodGroup(self.cluster.name, pod) for job in jobs for pod in self.staying(job)]

    def running(self, jobs: Sequence[str]) -> bool:
        """Whether each of these jobs has a pod whose container runs."""
        return all(any(_runs(pod) for pod in self.staying(job)) for job in jobs)

    def lives(self, jobs: Sequence[str]) -> list[tuple[str, str, int]]:
        """Which pods these jobs have: to see that they are the same afterwards."""
        return [_life(pod) for job in jobs for pod in self.pods(job)]


def _runs(pod: Body) -> bool:
    return any("running" in c["state"] for c in pod["status"].get("containerStatuses", ()))
