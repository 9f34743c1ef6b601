"""The admitter as a process, under its own service account, on a real control plane with ten fake nodes."""

from __future__ import annotations

import re
import time
import uuid
from bisect import bisect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import groupby
from typing import Any

import pytest
from scavenger_api import names
from scavenger_cluster import Cluster, ClusterError, stack
from scavenger_kube.resources import JSON_PATCH, MERGE_PATCH
from scavenger_testing.cluster_names import cluster_name
from scavenger_testing.waiting import TIMEOUT, wait

from .recorder import Created, Recorder

NODES = 10
CPUS = 16
ENDED = ("Succeeded", "Failed")
"""Of each node; the admission level without a regulator leaves just under 112 of the 160."""

SETTINGS = {
    "SCAVENGER_UNSCHEDULABLE_AFTER": "5",
    "SCAVENGER_START_BACKOFF": "2",
    "SCAVENGER_EXPLAIN_AFTER": "1",
    "SCAVENGER_SUCCESS_EVIDENCE_AFTER": "0",  # kwok renews Leases every 10 s
    # An API server that is away for half a minute, and slow to come back, is not to cost the lease.
    "SCAVENGER_LEASE_DURATION": "240",
    "SCAVENGER_RENEW_DEADLINE": "200",
    "SCAVENGER_RETRY_PERIOD": "1",
    "PYTEST_CURRENT_TEST": "",  # or every test would have another environment, and a restart
}

ADOPT = {"SCAVENGER_ADOPT": "true", "SCAVENGER_EXPLAIN_AFTER": "5"}
"""Settings of an admitter that runs adopted Jobs."""

Object = dict[str, Any]


class Place:
    """A namespace, and what a test does and sees in it."""

    def __init__(self, cluster: Cluster, recorder: Recorder, namespace: str) -> None:
        self.cluster = cluster
        self.recorder = recorder
        self.namespace = namespace

    # --- doing --------------------------------------------------------------------------------------

    def submit(self, *names_: str, cpu: str = "1", node: str | None = None, **spec: Any) -> None:
        bodies = (_scavenger_job(name, cpu, node, spec) for name in names_)
        self.cluster.client.create_all(self.path("scavengerjobs"), bodies)

    def wait_account(self) -> None:
        """In a new namespace no pod is taken before there is an account for it to run under."""
        account = f"{self.path('serviceaccounts')}/default"
        self.wait("its service account", lambda: self.cluster.client.find(account))

    def create_pod(self, name: str, cpu: str, node: str) -> None:
        """An ordinary pod."""
        self.wait_account()
        resources = {"requests": {"cpu": cpu, "memory": "64Mi"}}
        container = {"name": "main", "image": "none", "resources": resources}
        spec = {"terminationGracePeriodSeconds": 1, "containers": [container], "nodeSelector": _selector(node)}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        self.cluster.client.request("POST", self.path("pods"), body)

    def edit_status(self, name: str, status: Any) -> None:
        """What `kubectl edit --subresource=status` can do."""
        path = f"{self.path('scavengerjobs')}/{name}/status"
        if status is None:  # whatever the admitter writes meanwhile
            patch = [{"op": "replace", "path": "/status", "value": {}}]
            self.cluster.client.request("PATCH", path, patch, JSON_PATCH)
        else:
            self.cluster.client.request("PATCH", path, {"status": status}, MERGE_PATCH)

    def delete(self, kind: str, name: str) -> None:
        self.cluster.client.delete(f"{self.path(kind)}/{name}")

    # --- seeing -------------------------------------------------------------------------------------

    def path(self, kind: str) -> str:
        group = {"scavengerjobs": "/apis/scavenger.dev/v1alpha1", "jobs": "/apis/batch/v1"}.get(kind, "/api/v1")
        return f"{group}/namespaces/{self.namespace}/{kind}"

    def all(self, kind: str) -> list[Object]:
        found: list[Object] = self.cluster.client.get(self.path(kind))["items"]
        return found

    def get(self, kind: str, name: str) -> Object:
        return dict(self.cluster.client.get(f"{self.path(kind)}/{name}"))

    def status(self, name: str) -> Object:
        return dict(self.get("scavengerjobs", name).get("status") or {})

    def phase(self, name: str) -> str:
        return str(self.status(name).get("phase", ""))

    def phases(self) -> dict[str, str]:
        found = self.all("scavengerjobs")
        return {job["metadata"]["name"]: str((job.get("status") or {}).get("phase", "")) for job in found}

    def pods(self, name: str) -> list[Object]:
        return [pod for pod in self.all("pods") if pod["metadata"].get("labels", {}).get(names.LABEL_JOB) == name]

    def alive(self) -> list[str]:
        """Pods that have not ended, or that our finalizer keeps."""
        return [p["metadata"]["name"] for p in self.all("pods") if _held(p) or p["status"].get("phase") not in ENDED]

    def last_phases(self) -> list[str]:
        """The phase of every job as the watch has shown it: costs the API server nothing, however often one asks."""
        seen = self.recorder.phases
        return [phases[-1] for key, phases in list(seen.items()) if key.startswith(f"{self.namespace}/")]

    def started(self) -> int:
        """How many of its jobs have been started at least once, as the watch has shown it."""
        return sum(key.startswith(f"{self.namespace}/") for key in list(self.recorder.jobs))

    def held(self) -> list[str]:
        """Pods with our finalizer."""
        return [p["metadata"]["name"] for p in self.all("pods") if _held(p)]

    def created(self, name: str) -> list[Created]:
        """Every Job of that name there has been."""
        return list(self.recorder.jobs[f"{self.namespace}/{name}"].values())

    def shows_job(self, name: str) -> bool:
        """Whether the watch has shown the Job of that name that there is."""
        uid = self.get("jobs", name)["metadata"]["uid"]
        return any(one.uid == uid for one in self.created(name))

    def line(self) -> list[str]:
        """Its jobs by the places in line that they were started from."""
        return [name for _, name in sorted((one.run, name) for name in self.phases() for one in self.created(name))]

    def terms(self) -> list[list[str]]:
        """Its jobs in the order in which the API server created their Jobs: a list for each admitter that led meanwhile
        and started any."""
        found = sorted((one.revision, name) for name in self.phases() for one in self.created(name))
        unknown = [name for revision, name in found if not revision]
        assert not unknown, f"first seen after a change, so that nobody can say when they were created: {unknown}"
        since = [revision for revision, _ in self.recorder.holders]
        return [[name for _, name in term] for _, term in groupby(found, lambda one: bisect(since, one[0]))]

    def unanswered(self) -> set[str]:
        """Jobs of which an admitter logged that the API server did not take a start, or not within two seconds."""
        said = ('"event":"start refused"', '"event":"start hangs"')
        refusals = "".join(line for line in self._logs() if any(event in line for event in said))
        return set(re.findall(rf'"job":"{self.namespace}/([^"]+)"', refusals))

    def logs_of(self, jobs: Iterable[str]) -> str:
        """What admitters logged of some of its jobs, and of none at all at warning or worse."""
        keys = tuple(f'"{self.namespace}/{name}"' for name in jobs)
        return "\n".join(
            line for line in self._logs() if any(key in line for key in keys) or '"level":"info"' not in line
        )

    def _logs(self) -> Iterator[str]:
        """The lines of all admitters that there are."""
        for instance in (1, 2):
            with suppress(ClusterError):
                yield from self.cluster.service_logs("admitter", instance=instance).splitlines()

    def pods_ever(self, name: str) -> int:
        return len(self.recorder.pods[f"{self.namespace}/{name}"])

    # --- waiting ------------------------------------------------------------------------------------

    def wait(self, what: str, condition: Callable[[], Any], timeout: float = TIMEOUT) -> float:
        """Poll until the condition holds; returns the seconds that took."""
        began = time.monotonic()
        wait(what, condition, timeout, self.describe)
        return time.monotonic() - began

    def wait_phase(self, name: str, phase: str, timeout: float = TIMEOUT) -> Object:
        """Returns the status that has the phase: a moment later it may have another one."""

        def reached() -> Object | None:
            found = self.status(name)
            return found if found.get("phase") == phase else None

        found: Object = wait(f"{name} {phase}", reached, timeout, self.describe)
        return found

    def wait_created(self, jobs: Mapping[str, int]) -> None:
        """Until the watches, of which each has its own delay, have shown so many Jobs of each of these names, and a pod
        of each name; asserts that there are no more."""

        def late() -> list[str]:
            return [name for name, count in jobs.items() if len(self.created(name)) < count or not self.pods_ever(name)]

        self.wait("their Jobs and pods to be shown", lambda: not late())
        assert {name: len(self.created(name)) for name in jobs} == dict(jobs)

    def wait_interrupted(self, name: str, timeout: float = TIMEOUT) -> None:
        self.wait(f"{name} counted", lambda: self.status(name).get("interruptedCount") == 1, timeout)

    def describe(self) -> str:
        seen = self.cluster.kubectl("-n", self.namespace, "get", "scavengerjobs,jobs,pods", "-o", "wide")
        return f"{seen[-6000:]}\n{self.cluster.service_logs('admitter')[-6000:]}"

    def clear(self) -> None:
        """Leave nothing for the next test."""
        self.cluster.client.delete_all(f"{self.path('scavengerjobs')}/{name}" for name in self.phases())
        ordinary = [p for p in self.all("pods") if names.LABEL_JOB not in p["metadata"].get("labels", {})]
        self.cluster.client.delete_all(f"{self.path('pods')}/{pod['metadata']['name']}" for pod in ordinary)
        # What has ended is the garbage collector's, which takes its time after an API server that was away.
        self.wait("nothing holds room", lambda: not self.alive(), timeout=180)
        self.cluster.client.delete(f"/api/v1/namespaces/{self.namespace}")


def _held(pod: Object) -> bool:
    return names.FINALIZER in pod["metadata"].get("finalizers", ())


def _selector(node: str) -> dict[str, str]:
    return {"kubernetes.io/hostname": node}


def _scavenger_job(name: str, cpu: str, node: str | None, spec: Object) -> Object:
    return {
        "apiVersion": names.API_VERSION,
        "kind": "ScavengerJob",
        "metadata": {"name": name},
        "spec": {
            "image": "none",
            "resources": {"requests": {"cpu": cpu, "memory": "16Mi"}},
            "terminationGracePeriodSeconds": 1,
            **({"nodeSelector": _selector(node)} if node else {}),
            **spec,
        },
    }


def bring_up(cluster: Cluster) -> None:
    """Start what does not run, and create the nodes that are missing."""
    cluster.up(f"fake:{NODES}", fake_cpu=str(CPUS), fake_memory="64Gi", fake_pods=200)


@pytest.fixture(scope="package")
def cluster() -> Iterator[Cluster]:
    """Ten fake nodes, with the definitions and roles of this repository; services are started by the tests."""
    found = Cluster(cluster_name("it-admitter"), report=lambda line: None)
    try:
        bring_up(found)
        stack.install(found)
        stack.lift_guard(found, "statuses")  # tests edit them by hand
        yield found
    finally:
        found.down()


@pytest.fixture(scope="package")
def recorder(cluster: Cluster) -> Iterator[Recorder]:
    made = Recorder(cluster.kubeconfig)
    made.start()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def adopting(cluster: Cluster) -> Iterator[None]:
    """The policies that adopt Jobs, and that let the admitter create pods as users write them."""
    stack.adopt_jobs(cluster)
    yield
    stack.adopt_no_jobs(cluster)


@pytest.fixture
def other_place(cluster: Cluster, recorder: Recorder) -> Iterator[Place]:
    """One more namespace; whichever is asked for first has an admitter at work."""
    start_admitter(cluster)
    with namespace(cluster, recorder) as made:
        yield made


@pytest.fixture
def place(cluster: Cluster, recorder: Recorder) -> Iterator[Place]:
    """A fresh namespace, with one admitter at work; emptied afterwards."""
    start_admitter(cluster)
    with namespace(cluster, recorder) as made:
        yield made


@contextmanager
def namespace(cluster: Cluster, recorder: Recorder) -> Iterator[Place]:
    name = f"it-{uuid.uuid4().hex[:8]}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    cluster.client.request("POST", "/api/v1/namespaces", body)
    made = Place(cluster, recorder, name)
    yield made
    made.clear()


def start_admitter(cluster: Cluster, **environment: str) -> int:
    """Start the admitter, unless it runs just so; returns its process id."""
    return cluster.service_start("admitter", environment={**SETTINGS, **environment}, wait="readyz").pid
