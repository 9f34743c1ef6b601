"""Whether a job is ever forgotten: jobs come and go while parts of the cluster are silent, killed and restarted.

The control plane, the services and the scheduler with the plugin are real, the nodes are kwok's. For some minutes jobs
of one to four pods are submitted and ordinary pods come and go; every few seconds something happens to a component of
the control plane or to a service (SIGSTOP for seconds, SIGKILL), or somebody deletes a pod or a Job. Then there is
peace, and every job has to complete. What happens is drawn by a generator with a seed; when it happens to whom depends
on the machine, so that no two runs are the same.

    BENCH_CHAOS_SEED, BENCH_CHAOS_SECONDS of faults, BENCH_CHAOS_JOBS, BENCH_CHAOS_NODES
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http.client import HTTPException
from typing import Final, TypeVar

from scavenger_api import names
from scavenger_cluster import Cluster, ClusterError, stack
from scavenger_cluster.api import namespaced
from scavenger_cluster.kwok import RUN_SECONDS
from scavenger_kube.errors import ApiError
from scavenger_kube.resources import MERGE_PATCH

from bench.services.harness import Figure, Object, ordinary_pod, scavenger_job

T = TypeVar("T")

SEED: Final = int(os.environ.get("BENCH_CHAOS_SEED", "1"))
SECONDS: Final = float(os.environ.get("BENCH_CHAOS_SECONDS", "240"))
JOBS: Final = int(os.environ.get("BENCH_CHAOS_JOBS", "600"))
NODES: Final = int(os.environ.get("BENCH_CHAOS_NODES", "10"))
PEACE_SECONDS: Final = 600.0
"""In which all jobs have to complete, after the last fault."""

NAMESPACES: Final = ("chaos-a", "chaos-b", "chaos-c")
COMPONENTS: Final = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")
SERVICES: Final = ("admitter", "admitter", "regulator", "prioritizer", "webhook")
"""The admitter twice, as it has most to lose."""

SETTINGS: Final = {**stack.FIXED_LEVELS, "SCAVENGER_COOLDOWN": "10"}
"""With five minutes without an admission after each eviction there would be little to disturb."""

MOST_ORDINARY: Final = 20
TROUBLE: Final = (ClusterError, ApiError, OSError, HTTPException)
"""What whoever speaks to an API server in such times has to live with."""


class Chaos:
    """One run: who acts, each in a thread, until there is peace.

    Attributes:
        services: those that are stopped and killed.
        faults: how often what happened to whom.
    """

    services: tuple[str, ...] = SERVICES

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._peace = threading.Event()
        self._drawn = threading.Lock()
        self._random = random.Random(SEED)
        self.faults = Counter[str]()

    @contextmanager
    def at_work(self, *actors: Callable[[], None]) -> Iterator[None]:
        """Actors act for the length of a block; an error of one of them is raised at its end."""
        with ThreadPoolExecutor(len(actors)) as pool:
            self._peace.clear()
            found = [pool.submit(actor) for actor in actors]
            try:
                yield
            finally:
                self._peace.set()
        for each in found:
            each.result()

    def submit(self) -> None:
        """A user, who tries again what was not answered."""
        for number in range(JOBS):
            job = scavenger_job(number, "chaos", parallelism=self._draw(1, 1, 1, 2, 4))
            job["spec"]["terminationGracePeriodSeconds"] = self._draw(1, 5)
            job["spec"]["resources"]["requests"]["cpu"] = self._draw("1", "2", "4")
            namespace = self._draw(*NAMESPACES)
            while not self._created(namespaced("scavengerjobs", namespace), job):
                time.sleep(0.5)
            if self._draw(True, *[False] * 9):
                self._peace.wait(self._seconds(0, 4 * SECONDS / JOBS))

    def _created(self, path: str, body: Object) -> bool:
        with suppress(*TROUBLE):
            self._cluster.client.create_all(path, [body])
            return True
        return False

    def end_pods(self) -> None:
        """Each pod of a job ends by itself after a while. ScavengerJobs cannot say so to kwok, their pods can."""
        told = set[str]()
        while not self._peace.wait(2):
            with suppress(*TROUBLE):
                selector = names.LABEL_JOB.replace("/", "%2F")
                for pod in self._cluster.client.get(f"/api/v1/pods?labelSelector={selector}")["items"]:
                    meta = pod["metadata"]
                    if meta["uid"] not in told and not meta.get("deletionTimestamp"):
                        patch = {"metadata": {"annotations": {RUN_SECONDS: str(self._draw(*range(5, 60)))}}}
                        path = namespaced("pods", meta["namespace"], meta["name"])
                        with suppress(*TROUBLE):
                            self._cluster.client.request("PATCH", path, patch, MERGE_PATCH)
                            told.add(meta["uid"])

    def come_and_go(self) -> None:
        """Ordinary workloads."""
        there: list[str] = []
        number = 0
        while not self._peace.wait(self._seconds(0, 3)):
            with suppress(*TROUBLE):
                if len(there) < MOST_ORDINARY and self._draw(True, False):
                    for _ in range(self._draw(1, 1, 5, 10)):
                        number += 1
                        there.append(f"ordinary-{number}")
                        pod = ordinary_pod(number, cpu=self._draw("1", "4"))
                        self._cluster.client.create_all(namespaced("pods", "default"), [pod])
                for _ in range(min(len(there), self._draw(0, 0, 5, 10))):
                    self._cluster.client.delete(namespaced("pods", "default", there[0]))
                    del there[0]

    def disturb(self) -> None:
        """One fault after the other."""
        while not self._peace.wait(self._seconds(1, 7)):
            fault = self._draw(self._silence, self._silence, self._silence, self._kill, self._kill, self._delete)
            with suppress(*TROUBLE):
                self.faults[fault()] += 1

    def _silence(self) -> str:
        services = ((f"service/{one}", 25.0) for one in self.services)
        name, most = self._draw(*((one, 8.0) for one in COMPONENTS), *services)
        self._cluster.component_silence(name, self._seconds(1, most))
        return f"silent {name.removeprefix('service/')}"

    def _kill(self) -> str:
        # etcd may lose what it has not yet written, as on any machine
        name = self._draw(*COMPONENTS[1:], *self.services)
        if name in self.services:
            self._cluster.service_kill(name)
        else:
            self._cluster.component_kill(name)
            time.sleep(self._seconds(0, 5))
            self._cluster.component_start(name)
        return f"killed {name}"

    def _delete(self) -> str:
        kind, namespace = self._draw("pods", "jobs"), self._draw(*NAMESPACES)
        found = self._cluster.client.get(namespaced(kind, namespace))["items"]
        if found:
            path = namespaced(kind, namespace, self._draw(*found)["metadata"]["name"])
            self._cluster.client.delete(f"{path}?propagationPolicy=Background")
        return f"deleted one of the {kind}"

    def _draw(self, *choices: T) -> T:
        with self._drawn:
            return self._random.choice(choices)

    def _seconds(self, least: float, most: float) -> float:
        with self._drawn:
            return self._random.uniform(least, most)


def run() -> list[Figure]:
    """The figures; brings up a cluster of its own and takes it down."""
    cluster = Cluster("bench-chaos", report=lambda line: None)
    try:
        cluster.up(f"fake:{NODES}", scheduler="plugin")
        stack.install(cluster)
        stack.start(cluster, settings=SETTINGS)
        for name in NAMESPACES:
            cluster.kubectl("create", "namespace", name)
        return _measure(cluster, Chaos(cluster))
    finally:
        cluster.down()


def _measure(cluster: Cluster, chaos: Chaos) -> list[Figure]:
    began = time.monotonic()
    with chaos.at_work(chaos.submit, chaos.end_pods, chaos.come_and_go, chaos.disturb):
        time.sleep(SECONDS)
    for name in COMPONENTS:
        cluster.component_start(name)
    for pod in cluster.client.get(namespaced("pods", "default"))["items"]:
        cluster.client.delete(namespaced("pods", "default", pod["metadata"]["name"]))
    peace = time.monotonic()
    with chaos.at_work(chaos.end_pods):
        while (left := _left(cluster)) and time.monotonic() < peace + PEACE_SECONDS:
            time.sleep(2)
    took = time.monotonic() - peace
    return [
        {"name": "chaos.jobs_left", "value": len(left), "unit": "jobs", "goal": "<= 0"},
        {"name": "chaos.pods_held", "value": _held(cluster), "unit": "pods", "goal": "<= 0"},
        {"name": "chaos.completed_after_seconds", "value": round(took, 1), "unit": "s", "goal": None},
        {"name": "chaos.faults", "value": chaos.faults.total(), "unit": "", "goal": None},
        {"name": "chaos.seconds", "value": round(peace - began, 1), "unit": "s", "goal": None},
    ]


def _left(cluster: Cluster) -> list[str]:
    """The jobs that have not completed."""
    jobs = [job for one in NAMESPACES for job in cluster.client.get(namespaced("scavengerjobs", one))["items"]]
    return [job["metadata"]["name"] for job in jobs if (job.get("status") or {}).get("phase") != "Completed"]


def _held(cluster: Cluster) -> int:
    """How many pods that have ended our finalizer still keeps."""
    pods = [pod for one in NAMESPACES for pod in cluster.client.get(namespaced("pods", one))["items"]]
    return sum(names.FINALIZER in pod["metadata"].get("finalizers", ()) for pod in pods)
