"""The admitter as a process, under its own service account, on a real control plane with ten fake nodes."""

from __future__ import annotations

import asyncio
import re
import threading
import time
import uuid
from bisect import bisect
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from scavenger_admitter.writer import SCAVENGERJOBS
from scavenger_api import names
from scavenger_cluster import Cluster, ClusterError, stack
from scavenger_cluster.kwok import RUN_SECONDS
from scavenger_kube.client import ApiClient
from scavenger_kube.errors import ApiError
from scavenger_kube.kinds import Job, ObjectMeta, Pod, Struct
from scavenger_kube.resources import JOBS, MERGE_PATCH, PODS, Resource
from scavenger_runtime import Informer
from scavenger_runtime.cache import Change
from scavenger_testing.cluster_names import cluster_name
from scavenger_testing.waiting import TIMEOUT, wait

NODES = 10
CPUS = 16
ENDED = ("Succeeded", "Failed")
"""Of each node; the admission level without a regulator leaves just under 112 of the 160."""

SETTINGS = {
    "SCAVENGER_UNSCHEDULABLE_AFTER": "5",
    "SCAVENGER_START_BACKOFF": "2",
    "SCAVENGER_EXPLAIN_AFTER": "1",
    # An API server that is away for half a minute, and slow to come back, is not to cost the lease.
    "SCAVENGER_LEASE_DURATION": "240",
    "SCAVENGER_RENEW_DEADLINE": "200",
    "SCAVENGER_RETRY_PERIOD": "1",
    "PYTEST_CURRENT_TEST": "",  # or every test would have another environment, and a restart
}

Object = dict[str, Any]


@dataclass(frozen=True)
class Created:
    """A batch/v1 Job that there has been.

    revision: of the API server's store, at which it was created. A watch first shows every object as it was created;
    one that was found in a list, after somebody had changed it, does not tell: 0.
    """

    uid: str
    run: str
    at: str
    revision: int


class LeaseSpec(Struct, frozen=True, gc=False, rename="camel"):
    """Who leads."""

    holder_identity: str | None = None


class Lease(Struct, frozen=True, gc=False, rename="camel"):
    """coordination.k8s.io/v1 Lease, with its holder."""

    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec = LeaseSpec()


LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", True, Lease)


class Recorder:
    """Remembers every Job and pod of scavenger jobs that there has ever been, and has pods end where it is told to.

    holders: who has held the admitter's Lease, one after the other, and from which revision on; empty for nobody.
    run_seconds: by namespace, for how long each pod runs. ScavengerJobs cannot annotate their pods, so that what kwok
    is to do is written on the pods themselves.
    """

    def __init__(self, kubeconfig: Path) -> None:
        self.jobs: dict[str, dict[str, Created]] = defaultdict(dict)
        self.pods: dict[str, set[str]] = defaultdict(set)
        self.phases: dict[str, list[str]] = defaultdict(list)
        self.holders: list[tuple[int, str]] = []
        self.run_seconds: dict[str, str] = {}
        self._kubeconfig = str(kubeconfig)
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)

    def start(self) -> None:
        self._thread.start()
        assert self._ready.wait(60), "the recorder has seen nothing"

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._main.cancel)
        self._thread.join(30)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._main = self._loop.create_task(self._follow())
        try:
            self._loop.run_until_complete(self._main)
        except asyncio.CancelledError:
            pass
        finally:
            self._loop.run_until_complete(asyncio.sleep(0.3))  # TLS connections take leave of each other
            self._loop.close()

    async def _follow(self) -> None:
        async with await ApiClient.connect(kubeconfig=self._kubeconfig, user_agent="recorder") as client:
            self._client = client
            self._patches: set[asyncio.Task[None]] = set()
            informers: list[Informer[Any]] = [
                Informer(client, SCAVENGERJOBS),
                Informer(client, JOBS, label_selector=names.LABEL_JOB),
                Informer(client, PODS, label_selector=names.LABEL_JOB),
                Informer(
                    client,
                    LEASES,
                    namespace=names.SYSTEM_NAMESPACE,
                    field_selector=f"metadata.name={names.ADMITTER}",
                ),
            ]
            informers[0].add_handler(self._on_owner)
            informers[1].add_handler(self._on_job)
            informers[2].add_handler(self._on_pod)
            informers[3].add_handler(self._on_lease)
            async with asyncio.TaskGroup() as group:
                for informer in informers:
                    group.create_task(informer.run())
                for informer in informers:
                    await informer.wait_synced()
                self._ready.set()

    def _on_owner(self, change: Change[Any]) -> None:
        phase = change.new.status.phase if change.new is not None else None
        if phase and self.phases[change.key][-1:] != [phase]:
            self.phases[change.key].append(str(phase))

    def _on_job(self, change: Change[Job]) -> None:
        meta = change.obj.metadata
        run = meta.annotations.get(names.ANNOTATION_RUN, "")
        # What the Job controller writes first has the startTime in it, and nobody else changes a Job.
        revision = int(meta.resource_version) if change.obj.status.start_time is None else 0
        self.jobs[change.key].setdefault(meta.uid, Created(meta.uid, run, meta.creation_timestamp or "", revision))

    def _on_lease(self, change: Change[Lease]) -> None:
        holder = (change.new.spec.holder_identity or "") if change.new is not None else ""
        if holder != (self.holders[-1][1] if self.holders else ""):
            self.holders.append((int(change.obj.metadata.resource_version), holder))

    def _on_pod(self, change: Change[Pod]) -> None:
        meta = change.obj.metadata
        key = f"{meta.namespace}/{meta.labels[names.LABEL_JOB]}"
        if meta.uid in self.pods[key]:
            return
        self.pods[key].add(meta.uid)
        seconds = self.run_seconds.get(meta.namespace)
        if seconds is not None:
            task = self._loop.create_task(self._end_after(meta.namespace, meta.name, seconds))
            self._patches.add(task)
            task.add_done_callback(self._patches.discard)

    async def _end_after(self, namespace: str, pod: str, seconds: str) -> None:
        patch = {"metadata": {"annotations": {RUN_SECONDS: seconds}}}
        try:
            await self._client.merge_patch(PODS, namespace, pod, patch)
        except ApiError as error:
            print(f"{namespace}/{pod} not annotated: {error}", flush=True)  # noqa: T201


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

    def create_pod(self, name: str, cpu: str, node: str) -> None:
        """An ordinary pod."""
        resources = {"requests": {"cpu": cpu, "memory": "64Mi"}}
        container = {"name": "main", "image": "none", "resources": resources}
        spec = {"terminationGracePeriodSeconds": 1, "containers": [container], "nodeSelector": _selector(node)}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        self.cluster.client.request("POST", self.path("pods"), body)

    def edit_status(self, name: str, status: Any) -> None:
        """What `kubectl edit --subresource=status` can do."""
        path = f"{self.path('scavengerjobs')}/{name}/status"
        if status is None:
            body = {**self.get("scavengerjobs", name), "status": {}}
            self.cluster.client.request("PUT", path, body)
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
        """Jobs of which an admitter logged that the API server did not take a start, or did not answer in time."""
        found: set[str] = set()
        for instance in (1, 2):
            try:
                logs = self.cluster.service_logs("admitter", instance=instance).splitlines()
            except ClusterError:
                continue
            refusals = "".join(line for line in logs if '"event":"start refused"' in line)
            found.update(re.findall(rf'"job":"{self.namespace}/([^"]+)"', refusals))
        return found

    def pods_ever(self, name: str) -> int:
        return len(self.recorder.pods[f"{self.namespace}/{name}"])

    # --- waiting ------------------------------------------------------------------------------------

    def wait(self, what: str, condition: Callable[[], Any], timeout: float = TIMEOUT) -> float:
        """Poll until the condition holds; returns the seconds that took."""
        began = time.monotonic()
        wait(what, condition, timeout, self.describe)
        return time.monotonic() - began

    def wait_phase(self, name: str, phase: str, timeout: float = TIMEOUT) -> Object:
        self.wait(f"{name} {phase}", lambda: self.phase(name) == phase, timeout)
        return self.status(name)

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
