"""API objects turned into what the decisions see: plain values, and nothing of the API around them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from datetime import datetime, timedelta
from typing import TypeAlias

from scavenger_api import names
from scavenger_api.job import ConditionType, ScavengerJob
from scavenger_api.quantity import amounts
from scavenger_api.queue import ScavengerQueue
from scavenger_api.states import precedence
from scavenger_api.times import micros, parse_time
from scavenger_domain.gang import job_key_of
from scavenger_domain.marks import class_of, figure_of
from scavenger_domain.node_affinity import required_terms
from scavenger_domain.pod_affinity import apart_by
from scavenger_domain.pod_reading import read
from scavenger_domain.pod_security import Level, level_of
from scavenger_domain.taints import of_resources
from scavenger_kube.kinds import Job, Node, ObjectMeta, Pod, condition
from scavenger_kube.resources import Namespace

from scavenger_admitter.core.admission.queue_status import state_of
from scavenger_admitter.core.admission.running import RunningJob
from scavenger_admitter.core.admission.shape import Shape
from scavenger_admitter.core.admission.snapshot import Candidate, QueueView
from scavenger_admitter.core.lifecycle import accounting
from scavenger_admitter.core.manifest import pod_labels
from scavenger_admitter.core.units import unit_of_task
from scavenger_admitter.core.volume_topology import EVERYWHERE, VolumeTopology

Rate: TypeAlias = Callable[[datetime], float | None]
"""Cores that a job used on average since a moment; None when that is now."""


def version(text: str) -> int:
    """A resourceVersion as the growing integer it is (KEP-5504); 0 for what is none."""
    return int(text) if text.isdecimal() else 0


def newer(one: ScavengerJob, other: ScavengerJob) -> bool:
    """Whether `one` is the later version."""
    return version(one.metadata.resource_version) > version(other.metadata.resource_version)


def run_of(job: ScavengerJob) -> str:
    """The run that a start from the job's present place in the queue is; empty before it has one."""
    queued = job.status.queued_timestamp
    return accounting.run_id(queued) if queued is not None else ""


def job_key(pod: Pod) -> tuple[str, ...]:
    """The key of the job that a pod belongs to (`scavenger_api.job_keys`); nothing for a regular pod."""
    key = job_key_of(pod)
    return (key,) if key else ()


def signals_pressure(pod: Pod) -> bool:
    """Whether a pod needs the API server more than the admitter's writes do: a victim that leaves, or a regular pod
    that found no capacity. A pod that the scheduler has yet to look at does not."""
    if job_key(pod):
        return pod.leaving
    if pod.spec.node_name or pod.ended or pod.metadata.deletion_timestamp:
        return False
    scheduled = condition(pod.status.conditions, "PodScheduled")
    return bool(pod.status.nominated_node_name) or (scheduled is not None and scheduled.reason == "Unschedulable")


def job_progress(job: Job) -> Hashable:
    """What of a Job the lifecycle of its ScavengerJob depends on; how many of its pods are where is none of it."""
    meta = job.metadata
    suspended, conditions = job.spec.suspend, job.status.conditions
    return meta.uid, meta.deletion_timestamp, _others(meta), meta.owner_references, suspended, conditions


def pod_progress(pod: Pod) -> Hashable:
    """The same of a pod; its class and its unsaved work are the prioritizer's and none of it."""
    meta = pod.metadata
    return (
        meta.uid,
        meta.deletion_timestamp,
        meta.deletion_grace_period_seconds,
        _others(meta),
        meta.owner_references,
        meta.finalizers,
        pod.spec.node_name,
        pod.status,
    )


def marks(pod: Pod) -> Hashable:
    """What the prioritizer says of the run of a pod."""
    meta = pod.metadata
    return meta.labels.get(names.LABEL_PREEMPTION_CLASS), meta.annotations.get(names.ANNOTATION_RUNNING_PRIORITY)


def _others(meta: ObjectMeta) -> Hashable:
    return tuple(item for item in meta.annotations.items() if item[0] != names.ANNOTATION_RUNNING_PRIORITY)


def on_its_way(pod: Pod) -> bool:
    """Whether a pod has yet to run: it was made, or bound, and nothing has gone wrong that its status could say."""
    return not pod.status.container_statuses and not pod.ended and pod.metadata.deletion_timestamp is None


def loses_labels(old: Pod | None, new: Pod | None) -> bool:
    """Whether a pod of an adopted Job has just been deleted: clients must not see how it ends."""
    if old is None or new is None or names.LABEL_KIND not in new.metadata.labels:
        return False
    return old.metadata.deletion_timestamp is None and new.metadata.deletion_timestamp is not None


def waited_seconds(old: Pod | None, new: Pod | None, now: datetime) -> float | None:
    """How long a regular pod had been there until this change gave it a node; None for any other change. Whole
    seconds, as those of its creation are."""
    if old is None or new is None or old.metadata.uid != new.metadata.uid or job_key(new):
        return None
    created = parse_time(old.metadata.creation_timestamp)
    if created is None or old.spec.node_name or not new.spec.node_name:
        return None
    return max(0.0, float((now - created) // timedelta(seconds=1)))


def shape_of(job: ScavengerJob) -> Shape:
    """What each pod of the job asks of a node."""
    spec = job.spec
    tolerations = (*spec.tolerated, *of_resources(spec.requests))
    apart = apart_by(spec.affinity, pod_labels(job)) if spec.affinity and spec.parallelism > 1 else ""
    return Shape.of(spec.placed_by, spec.selected_nodes, tolerations, required_terms(spec.affinity), apart)


def candidate(
    job: ScavengerJob,
    not_before: int,
    *,
    tasks: int = 0,
    interrupted: bool = False,
    place: int = 0,
    volumes: VolumeTopology = EVERYWHERE,
) -> Candidate:
    """A queued job.

    Args:
        job: what waits.
        not_before: it is not looked at before, microseconds since the epoch.
        tasks: of an array, those that may start now.
        interrupted: whether others interrupted one of them.
        place: in the queue, microseconds since the epoch, where that is not `queuedTimestamp`; else 0.
        volumes: where its claims can be used.
    """
    queued = job.status.queued_timestamp
    spec, shape = job.spec, shape_of(job)
    return Candidate(
        key=job.key,
        uid=job.metadata.uid,
        queue=spec.queue,
        shape=shape,
        parallelism=job.spec.parallelism,
        interrupted_count=precedence(int(interrupted), job.status.served_level) if tasks else job.precedence,
        queued_at=(place or micros(queued)) if queued else 0,
        not_before=not_before,
        priority=spec.priority,
        tasks=tasks,
        volumes=volumes.required,
        kind=hash((spec.queue, shape, spec.parallelism, spec.main_image, spec.account)),
    )


def running_job(job: ScavengerJob, pods: Iterable[Pod], rate: Rate | None) -> RunningJob:
    """A job in phase Running.

    Args:
        job: what runs.
        pods: of the run, which carry its class and its figure.
        rate: how fast it has been computing, where that is measured.
    """
    status, members = job.status, [read(pod) for pod in pods]
    shown = status.preemption.class_ if status.preemption is not None else None
    figure = figure_of(members)
    start = accounting.run_start(status)
    since = accounting.recorded_reference(status, start) if start is not None else None
    cores = rate(since) if rate is not None and since is not None else None
    return RunningJob(
        key=job.key,
        uid=job.metadata.uid,
        queue=job.spec.queue,
        parallelism=job.spec.parallelism,
        preemptible=class_of(members, shown) != names.NON_PREEMPTIBLE,
        priority=None if figure is None else float(figure),
        since=micros(since) if since is not None else 0,
        started=micros(start) if start is not None else 0,
        interval=max(1, job.spec.checkpoint_interval // timedelta(microseconds=1)),
        interrupted_at=micros(max(status.interrupted_timestamps)) if status.interrupted_timestamps else 0,
        computes_with=tuple(sorted(job.spec.requests.items())),
        millicores=round(cores * 1000) if cores is not None else None,
    )


def told_with_tasks(job: ScavengerJob) -> Hashable:
    """What `running_task` takes from the array."""
    spec, meta = job.spec, job.metadata
    stops = spec.suspend, meta.deletion_timestamp
    return (
        meta.uid,
        job.status.job_name,
        spec.checkpoint_interval,
        spec.capacity,
        tuple(sorted(spec.requests.items())),
        stops,
    )


def running_task(job: ScavengerJob, pod: Pod) -> RunningJob | None:
    """A task of an array that runs; None for one that does not. What is known of a run stands on its pod."""
    task = unit_of_task(job, pod)
    (seen,) = task.members
    if not task.running or task.started is None:
        return None
    return RunningJob(
        key=task.key,
        uid=task.uid,
        queue=seen.queue,
        preemptible=seen.class_ != names.NON_PREEMPTIBLE,
        priority=None if seen.written is None else float(seen.written),
        since=task.started if seen.checkpoint is None else seen.checkpoint,
        started=task.started,
        interval=task.interval,
        # When others interrupted a task is kept nowhere: not after this run of it began.
        interrupted_at=task.started if task.returned else 0,
        computes_with=tuple(sorted(job.spec.requests.items())),
        pod=seen.name,
        life=seen.uid,
    )


def cause_of(job: ScavengerJob) -> str:
    """Why the job was interrupted last, until it runs again; empty when it was not."""
    found = job.status.condition(ConditionType.INTERRUPTED)
    return found.reason if found is not None and found.status == "True" else ""


def queue_view(queue: ScavengerQueue) -> QueueView:
    """A queue as the admission cycle sees it."""
    return QueueView(
        queue.metadata.name,
        weight=queue.spec.weight,
        quota=amounts(queue.spec.quota or {}),
        state=state_of(queue),
        selector=queue.spec.namespace_selector,
        namespace_weights=queue.spec.per_namespace.weights if queue.spec.per_namespace is not None else None,
    )


def namespace_level(namespace: Namespace | None) -> Level:
    """What pods of scavenger jobs in a namespace keep to; restricted in one that is not known."""
    return level_of(namespace.metadata.labels if namespace is not None else {})


def rebooted(old: Node | None, new: Node | None) -> bool:
    """Whether the machine of a node has started again: the kubelet reports another bootID."""
    before, after = (node.status.node_info.boot_id if node is not None else "" for node in (old, new))
    return bool(before and after) and before != after


def failed_by_itself(old: Node | None, new: Node | None) -> str:
    """How a node that was ready has failed, in words; empty where it has not. It is silent before most reboots, and
    that counts once."""
    if old is None or new is None or not old.ready:
        return ""
    if rebooted(old, new):
        return "the node has rebooted"
    return "" if new.ready else "the node is not ready any more"


def placing_facts(node: Node) -> tuple[bool, object, object, object]:
    """What a decision about the pods of a node, or about new ones, depends on."""
    return node.ready, node.spec, node.status.allocatable, node.metadata.labels
