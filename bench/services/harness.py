"""A cluster of fake nodes that is plain Kubernetes first and has all services afterwards, and the jobs for both.

Both kinds of jobs run one after the other on the same control plane, so only their ratio means something on a noisy
machine. The API server, etcd, the controller manager and the scheduler are real; the nodes are kwok's.
"""

from __future__ import annotations

import asyncio
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, Final

import msgspec
from scavenger_api import names
from scavenger_cluster import Cluster, stack
from scavenger_kube.client import ApiClient
from scavenger_kube.kinds import Pod
from scavenger_kube.resources import PODS, Resource
from scavenger_runtime.cache import Change
from scavenger_runtime.informer import Informer

from bench.figures import lags, worst_lag

IN_FLIGHT: Final = 32
TIMEOUT: Final = 400.0
JOB_LABEL: Final = "batch.kubernetes.io/job-name"
TEMPLATE_VARIABLES: Final = 73
"""So many make it 8 KiB."""
LOW_CLASS: Final = "bench-low"
"""PriorityClass of plain Jobs: any ordinary pod displaces them, as it does scavenger jobs."""

Figure = dict[str, Any]
Object = dict[str, Any]


# --- the cluster ---


@contextmanager
def plain_cluster(name: str, nodes: int, **options: Any) -> Iterator[Cluster]:
    """Plain Kubernetes with the stock scheduler; the definitions of ours are there, and nobody who acts on them."""
    cluster = Cluster(name, report=lambda line: None)
    cluster.down()  # a run that was killed may have left its objects: with them, this one measures another cluster
    try:
        cluster.up(f"fake:{nodes}", scheduler="stock", **options)
        cluster.client.apply(f"/apis/scheduling.k8s.io/v1/priorityclasses/{LOW_CLASS}", low_class())  # before the guard
        stack.install(cluster)
        yield cluster
    finally:
        cluster.down()


def start_ours(cluster: Cluster, settings: Mapping[str, str] | None = None, scheduler: str = "plugin") -> None:
    """From here on it is ours: the scheduler with the plugin, and all services. Levels stay where they begin."""
    cluster.use_scheduler(scheduler)
    stack.start(cluster, settings={**stack.FIXED_LEVELS, **(settings or {})})


@asynccontextmanager
async def followed(informer: Informer[Any], handler: Callable[[Change[Any]], None]) -> AsyncIterator[None]:
    """Runs an informer for the length of a block."""
    informer.add_handler(handler)
    task = asyncio.create_task(informer.run())
    try:
        await informer.wait_synced()
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class LagWatch:
    """How long the event loops of all services were held up, for the length of a block. On a machine without a core to
    spare that is mostly the time in which they waited for one."""

    def __init__(self, cluster: Cluster) -> None:
        self._urls = {name: cluster.service(name).url for name in stack.existing_services()}
        self._before: dict[str, dict[float, float]] = {}
        self.worst: dict[str, float] = {}
        """Seconds by service; without those that do not say."""

    async def __aenter__(self) -> LagWatch:
        self._before = await asyncio.to_thread(self._ask)
        return self

    async def __aexit__(self, *_: object) -> None:
        for name, seen in (await asyncio.to_thread(self._ask)).items():
            if (lag := worst_lag(seen, self._before.get(name, {}))) is not None:
                self.worst[name] = lag

    def _ask(self) -> dict[str, dict[float, float]]:
        found: dict[str, dict[float, float]] = {}
        for name, url in self._urls.items():
            with suppress(OSError), urllib.request.urlopen(f"{url}/metrics", timeout=5) as response:
                found[name] = lags(response.read().decode())
        return found

    def figures(self, name: str) -> list[Figure]:
        """The worst of all services, in milliseconds, under this name; none where no service says."""
        if not self.worst:
            return []
        return [{"name": name, "value": 1000 * max(self.worst.values()), "unit": "ms", "goal": None}]


# --- objects ---


async def each(count: int, work: Callable[[int], Awaitable[Any]], in_flight: int = IN_FLIGHT) -> None:
    """Do something for 0, 1 and so on, some at a time."""
    places = asyncio.Semaphore(in_flight)

    async def one(number: int) -> None:
        async with places:
            await work(number)

    await asyncio.gather(*(one(number) for number in range(count)))


async def delete_all(client: ApiClient, resource: Resource[Any], prefix: str, count: int) -> None:
    """Delete `prefix-0` and so on, one by one: a collection of thousands takes the API server longer than it may.
    Returns when no pod is left."""
    await each(count, lambda number: client.delete(resource, "default", f"{prefix}-{number}"))
    async with asyncio.timeout(TIMEOUT):
        while await counted(client, PODS.path("default")):  # noqa: ASYNC110 - no informer: it would cost, too
            await asyncio.sleep(1)


async def counted(client: ApiClient, path: str) -> int:
    """How many objects a collection has."""
    page = msgspec.json.decode(await client.request("GET", path, params={"limit": 1}))
    return len(page["items"]) + int(page["metadata"].get("remainingItemCount", 0))


def pod_runs(pod: Pod) -> bool:
    """Whether a pod runs and nobody has told it to go."""
    return pod.status.phase == "Running" and not pod.metadata.deletion_timestamp


def low_class() -> Object:
    """The PriorityClass of plain Jobs, with the value of that of scavenger jobs."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": LOW_CLASS},
        "value": -2000,
        "preemptionPolicy": "Never",
        "description": "plain Jobs that give way",
    }


def plain_job(number: int, name: str = "plain", *, gives_way: bool = False) -> Object:
    """A batch/v1 Job of one core. `gives_way`: ordinary pods displace it, and a displaced pod is made anew."""
    resources = {"cpu": "1", "memory": "64Mi"}
    container = {"name": "main", "image": "none", "resources": {"requests": resources, "limits": resources}}
    pod: Object = {"restartPolicy": "Never", "containers": [container]}
    spec: Object = {"backoffLimit": 0}
    if gives_way:
        pod |= {"priorityClassName": LOW_CLASS, "terminationGracePeriodSeconds": 1}
        disruption = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
        spec["podFailurePolicy"] = {"rules": [disruption]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": f"{name}-{number}", "labels": {"bench": name}},
        "spec": {**spec, "template": {"metadata": {"labels": {"bench": name}}, "spec": pod}},
    }


def scavenger_job(number: int, name: str = "bench", parallelism: int = 1) -> Object:
    """A ScavengerJob of one core in each pod."""
    return {
        "apiVersion": names.API_VERSION,
        "kind": "ScavengerJob",
        "metadata": {"name": f"{name}-{number}"},
        "spec": {
            "image": "none",
            "parallelism": parallelism,
            "terminationGracePeriodSeconds": 1,
            "resources": {"requests": {"cpu": "1", "memory": "64Mi"}},
        },
    }


def templated_job(number: int, name: str = "templated") -> Object:
    """The same job as a pod template of 8 KiB: an init container, volumes and much in the environment."""
    requests = {"cpu": "1", "memory": "64Mi"}
    resources = {"requests": requests, "limits": requests}
    mount = {"name": "scratch", "mountPath": "/scratch"}
    env = [{"name": f"PARAMETER_{n}", "value": "x" * 64} for n in range(TEMPLATE_VARIABLES)]
    main = {"name": "main", "image": "none", "resources": resources, "env": env, "volumeMounts": [mount]}
    pod = {
        "terminationGracePeriodSeconds": 1,
        "initContainers": [{"name": "prepare", "image": "none", "resources": resources, "volumeMounts": [mount]}],
        "containers": [main],
        "volumes": [{"name": "scratch", "emptyDir": {}}],
    }
    return {
        "apiVersion": names.API_VERSION,
        "kind": "ScavengerJob",
        "metadata": {"name": f"{name}-{number}"},
        "spec": {"template": {"metadata": {"labels": {"app": name}}, "spec": pod}},
    }


def ordinary_pod(number: int, cpu: str = "4") -> Object:
    """A pod that outranks all of those jobs; it names no class."""
    resources = {"cpu": cpu, "memory": "64Mi"}
    container = {"name": "main", "image": "none", "resources": {"requests": resources, "limits": resources}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"ordinary-{number}", "labels": {"bench": "ordinary"}},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": False,
            "containers": [container],
        },
    }
