"""Read what an explanation needs. What the user may not read is left out and said."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

import msgspec
from scavenger_api.events import SNAPSHOT_WARNING
from scavenger_api.levels import LevelsView
from scavenger_api.names import LABEL_TASK
from scavenger_api.pod_sums import running_total
from scavenger_api.quantity import readable_amounts
from scavenger_api.shunned_nodes import shunned_nodes
from scavenger_api.states import Phase
from scavenger_kube.errors import Forbidden, NotFound, Unavailable
from scavenger_kube.kinds import ConfigMap, Event, Node, ObjectMeta, Pod, Struct
from scavenger_kube.metrics_api import decode_pod_metrics
from scavenger_kube.resources import LIVING

from scavenger_cli import objects, paths
from scavenger_cli.access import Access
from scavenger_cli.details import last_told
from scavenger_cli.facts import Facts
from scavenger_cli.objects import Job, JobPod, decode, decode_items, place_in_line
from scavenger_cli.room import Room, kept_free, of_pool, pool_for, room_for

T = TypeVar("T")


class NodeUse(Struct, frozen=True, gc=False, rename="camel"):
    """metrics.k8s.io NodeMetrics: what a node really uses."""

    metadata: ObjectMeta = ObjectMeta()
    usage: dict[str, str] = {}  # noqa: RUF012 - msgspec copies it


class Variable(Struct, frozen=True, gc=False, rename="camel"):
    """An environment variable; its value is empty where it comes from elsewhere."""

    name: str = ""
    value: str = ""


class Container(Struct, frozen=True, gc=False, rename="camel"):
    """A container of a Deployment, as far as its version and its settings are concerned."""

    image: str = ""
    env: tuple[Variable, ...] = ()


class PodTemplateSpec(Struct, frozen=True, gc=False, rename="camel"):
    """spec of what a Deployment starts."""

    containers: tuple[Container, ...] = ()


class PodTemplate(Struct, frozen=True, gc=False, rename="camel"):
    """What a Deployment starts."""

    spec: PodTemplateSpec = PodTemplateSpec()


class DeploymentSpec(Struct, frozen=True, gc=False, rename="camel"):
    """spec of a Deployment."""

    replicas: int = 1
    template: PodTemplate = PodTemplate()


class DeploymentStatus(Struct, frozen=True, gc=False, rename="camel"):
    """status of a Deployment: how many of its pods are ready."""

    ready_replicas: int = 0


class Deployment(Struct, frozen=True, gc=False, rename="camel"):
    """apps/v1 Deployment: which images a service runs."""

    metadata: ObjectMeta = ObjectMeta()
    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()

    @property
    def images(self) -> list[str]:
        """The images of its containers."""
        return [one.image for one in self.spec.template.spec.containers]

    def variable(self, name: str) -> str:
        """The value of an environment variable of its containers; empty without one."""
        env = (one for container in self.spec.template.spec.containers for one in container.env)
        return next((one.value for one in env if one.name == name), "")


class Reader:
    """Reads what is permitted, and remembers what was read, and what is not permitted."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self.read: list[str] = []
        self.unreadable: list[str] = []

    def optional(self, what: str, read: Callable[[], T]) -> T | None:
        """What was read; None where the user may not, noted as `what`."""
        try:
            found = read()
        except Forbidden:
            self.unreadable.append(what)
            return None
        self.read.append(f"{what} ({len(found)})" if isinstance(found, list) else what)
        return found

    def levels(self, now: datetime) -> LevelsView | None:
        """The published levels; fixed ones where there are none; None where they may not be read."""

        def read() -> LevelsView:
            try:
                body = self.access.of_services(paths.levels)
            except NotFound:
                return LevelsView.of(None, now)
            return LevelsView.of(decode(body, ConfigMap).data, now)

        return self.optional("the levels", read)

    def nodes(self) -> list[Node] | None:
        """All nodes."""
        return self.optional("nodes", lambda: decode_items(self.access.client.get(paths.NODES), Node))

    def pods(self) -> list[Pod] | None:
        """All pods that occupy a node, of all namespaces."""
        params = {"fieldSelector": LIVING}
        return self.optional(
            "pods of other namespaces", lambda: decode_items(self.access.client.get(paths.PODS, params), Pod)
        )

    def job_pods(self, job: Job, task: int | None = None) -> list[JobPod]:
        """The pods of one job. task: only those of this task."""
        of_task = f",{LABEL_TASK}={task}" if task is not None else ""
        params = {"labelSelector": f"{job.pods_selector}{of_task}"}
        read = lambda: decode_items(self.access.client.get(paths.pods(job.namespace), params), JobPod)  # noqa: E731
        return self.optional("the job's pods", read) or []

    def snapshot_warning(self, job: Job) -> str:
        """What `snap` last warned of; empty where nothing is known of that."""
        if job.spec.snapshot is None:
            return ""
        params = {"fieldSelector": f"involvedObject.uid={job.metadata.uid},reason={SNAPSHOT_WARNING}"}
        read = lambda: decode_items(self.access.client.get(paths.events(job.namespace), params), Event)  # noqa: E731
        events = self.optional("the job's Events", read) or []
        return max(events, key=last_told).message if events else ""

    def shunned_nodes(self) -> dict[str, str]:
        """Nodes on which no job starts, and what each has said. Empty where that may not be read, as it has words about
        pods of all namespaces: administrators may read it, and a line to others would not help them."""
        try:
            return shunned_nodes(decode(self.access.of_services(paths.nodes), ConfigMap).data)
        except (Forbidden, NotFound):
            return {}

    def all_jobs(self) -> list[Job] | None:
        """The jobs of all namespaces: they share the queues."""
        return self.optional("jobs of other namespaces", lambda: self.access.jobs(None))

    def admitter_seen(self) -> tuple[datetime | None, bool]:
        """When the admitter last renewed its Lease, and whether that could be read at all."""
        return self.access.admitter_seen()

    def services(self) -> list[Deployment] | None:
        """The Deployments of the charts; None where they may not be listed."""
        params = {"labelSelector": paths.PART_OF_US}
        path = paths.deployments(self.access.system_namespace)
        return self.optional(
            "Deployments of the components", lambda: decode_items(self.access.client.get(path, params), Deployment)
        )

    def node_use(self) -> dict[str, dict[str, str]] | None:
        """Real use by node; None where it is not measured."""
        try:
            body = self.access.client.get(paths.NODE_METRICS)
        except (NotFound, Forbidden, Unavailable, msgspec.DecodeError):  # a broken metrics API answers 503
            return None
        return {use.metadata.name: dict(use.usage) for use in decode_items(body, NodeUse)}

    def pod_use(self, job: Job) -> dict[str, dict[str, int]]:
        """Real use of the pods of a job, by name and resource; empty where it is not measured."""
        params = {"labelSelector": job.pods_selector}
        try:
            found = list(decode_pod_metrics(self.access.client.get(paths.pod_metrics(job.namespace), params)))
        except (NotFound, Forbidden, Unavailable, ValueError):
            return {}
        uses = {pod.metadata.name: [readable_amounts(one.usage) for one in pod.containers] for pod in found}
        return {name: running_total(containers, ()) for name, containers in uses.items()}


def gather(access: Access, name: str, task: int | None = None) -> Facts:
    """Everything that is to be known about a job, or the task of an array that users call by this number. Raises
    CliError for one that does not exist, ApiError."""
    job = access.job(name).sized
    index = job.place_of(task) if task is not None else 0 if job.alone else None
    now = access.now()
    reader = Reader(access)
    warning = reader.snapshot_warning(job)
    if job.phase in objects.FINISHED:
        pods = reader.job_pods(job, index) if index is not None else []
        return Facts(job, now, pods=pods, snapshot_warning=warning)
    levels = reader.levels(now)
    pods = reader.job_pods(job)
    seen, known = reader.admitter_seen()
    waits = job.phase in ("", *objects.QUEUED)
    judged = _judge(reader, job, levels) if waits or job.spec.array is not None else _Judged(levels)
    if not waits:
        return Facts(
            job,
            now,
            admitter_seen=seen,
            admitter_known=known,
            levels=judged.levels,
            pool=judged.pool,
            pods=pods,
            pull_secrets=sorted({one.name for pod in pods for one in pod.spec.image_pull_secrets}),
            shared=access.shared,
            queues=reader.optional("queues", access.queues) if job.spec.array is not None else None,
            room=judged.room,  # of an array, other tasks may wait
            snapshot_warning=warning,
            pod_use=reader.pod_use(job) if job.phase == Phase.RUNNING else {},
            unreadable=tuple(reader.unreadable),
        )
    queues = reader.optional("queues", access.queues)
    jobs = reader.all_jobs()
    line = place_in_line(job, jobs if jobs is not None else access.jobs(job.namespace), queues or ())
    return Facts(
        job,
        now,
        levels=judged.levels,
        pool=judged.pool,
        queues=queues,
        line=line if jobs is not None else None,
        room=judged.room,
        pods=pods,
        admitter_seen=seen,
        admitter_known=known,
        snapshot_warning=warning,
        shunned=reader.shunned_nodes(),
        unreadable=tuple(reader.unreadable),
    )


@dataclass(frozen=True, slots=True)
class _Judged:
    """By which levels a job starts, and what the nodes have for it. pool: whose levels they are; empty for the default
    pool."""

    levels: LevelsView | None = None
    room: Room | None = None
    pool: str = ""


def _judge(reader: Reader, job: Job, levels: LevelsView | None) -> _Judged:
    nodes = reader.nodes()
    pods = reader.pods() if nodes is not None else None
    if nodes is None or pods is None:
        return _Judged(levels)
    if levels is None:
        return _Judged(levels, room_for(job.spec, nodes, pods))
    pool = pool_for(job.spec, nodes, levels)
    own = levels.of_pool(pool)
    counted = of_pool(nodes, pool, levels) if levels.pools else None
    kept = kept_free(nodes, pods, levels)
    room = room_for(job.spec, nodes, pods, levels.closed_nodes, own.unseen_since, levels.headroom, counted, kept)
    return _Judged(own, room, pool)
