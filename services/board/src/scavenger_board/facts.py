"""From the objects of the API to what pictures are made of: plain values. Pure: no clock, no client.

Never raises: what cannot be read counts as absent, as nothing is decided by it.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any, Final

import msgspec
from scavenger_api import names
from scavenger_api.indexes import MAX_TASKS, IndexesError, all_of, parse_indexes
from scavenger_api.job_keys import job_key
from scavenger_api.ledger import LedgerError
from scavenger_api.quantity import QuantityError, readable_amounts
from scavenger_api.reclaimed import RECLAIMED
from scavenger_api.states import Capacity, ConditionType, Phase
from scavenger_api.task_numbers import parse_numbers
from scavenger_api.times import checkpoint_time, micros, parse_time
from scavenger_domain import adopted
from scavenger_domain.gang import task_index
from scavenger_domain.nodes import marks_of
from scavenger_domain.plain_text import plain
from scavenger_domain.pod_reading import interval_of, read
from scavenger_domain.queues import in_line_since, place_in_queue, queue_state
from scavenger_domain.requests import pod_requests
from scavenger_domain.taints import blocking
from scavenger_kube.kinds import Condition, Event, Node, ObjectMeta, ObjectReference, Pod, Struct, condition
from scavenger_kube.resources import Lease, Resource, scavenger_jobs, scavenger_queues
from scavenger_kube.scavenger_kinds import ScavengerJob, ShownStatus

from scavenger_board.core.snapshot import ArrayFacts, EventFacts, JobFacts, NodeFacts, PodFacts, QueueFacts

NAME_LABEL: Final = "app.kubernetes.io/name"
PART_LABEL: Final = "app.kubernetes.io/part-of"
PART_OF_US: Final = "scavenger-jobs"
"""Labels that the charts give to the pods of services."""

ZONE_LABEL: Final = "topology.kubernetes.io/zone"
POOL_LABELS: Final = (
    "karpenter.sh/nodepool",
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "kubernetes.azure.com/agentpool",
    "node.kubernetes.io/instance-type",
)
"""By which a node's pool is known, the first that it has."""


class Job(ScavengerJob, frozen=True, gc=False, rename="camel"):
    """A ScavengerJob."""

    status: ShownStatus = ShownStatus()


class BatchJob(Struct, frozen=True, gc=False, rename="camel"):
    """A Job of batch/v1, as `scavenger_domain.adopted` reads it."""

    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] = {}  # noqa: RUF012 - msgspec copies it
    status: dict[str, Any] = {}  # noqa: RUF012 - msgspec copies it


class QueueSpec(Struct, frozen=True, gc=False, rename="camel"):
    """spec of a ScavengerQueue."""

    weight: int = 1
    closed: bool = False
    per_namespace: dict[str, Any] | None = None


class QueueStatus(Struct, frozen=True, gc=False, rename="camel"):
    """status of a ScavengerQueue."""

    jobs: dict[str, int] = {}  # noqa: RUF012 - msgspec copies it
    allocated: dict[str, str | int | float] = {}  # noqa: RUF012 - msgspec copies it
    deserved: dict[str, str | int | float] = {}  # noqa: RUF012 - msgspec copies it


class Queue(Struct, frozen=True, gc=False, rename="camel"):
    """A ScavengerQueue."""

    metadata: ObjectMeta = ObjectMeta()
    spec: QueueSpec = QueueSpec()
    status: QueueStatus = QueueStatus()


class BoardEvent(Event, frozen=True, gc=False, rename="camel"):
    """core/v1 Event, with whom it is about beside its object."""

    related: ObjectReference | None = None
    first_timestamp: str | None = None


JOBS: Final = scavenger_jobs(Job)
BATCH_JOBS: Final = Resource("batch", "v1", "jobs", names.KIND_JOB, True, BatchJob)
QUEUES: Final = scavenger_queues(Queue)
EVENTS: Final = Resource("", "v1", "events", "Event", True, BoardEvent)


def job_facts(job: Job) -> JobFacts:
    """What is shown of a ScavengerJob."""
    meta, spec, status = job.metadata, job.spec, job.status
    asked = job.requests
    admitted = condition(status.conditions, ConditionType.ADMITTED)
    interrupted = condition(status.conditions, ConditionType.INTERRUPTED)
    created = parse_time(meta.creation_timestamp)
    queued, runs = parse_time(status.queued_timestamp), _moments(status.running_timestamps)
    place = place_in_queue(queued, runs[-1] if runs else None, array=spec.array is not None)
    return JobFacts(
        key=meta.key,
        uid=meta.uid,
        queue=spec.queue,
        phase=status.phase,
        created=created,
        finished=parse_time(status.finished_timestamp),
        deleting=meta.deletion_timestamp is not None,
        suspended=status.phase == Phase.SUSPENDED,
        reclaimed=spec.capacity == Capacity.RECLAIMED,
        cpu=asked.get("cpu", 0),
        memory=asked.get("memory", 0),
        pods=spec.parallelism,
        queued=micros(place) if place is not None else None,
        since=in_line_since(queued, parse_time(status.ended_timestamp)),
        runs=runs if spec.array is None else runs[:1],
        interruptions=_moments(status.interrupted_timestamps),
        interrupted=status.interrupted_count,
        earned=job.precedence,
        priority=spec.priority,
        reason=admitted.reason if admitted is not None and admitted.status != "True" else "",
        message=_message(admitted, status),
        cause=interrupted.reason if interrupted is not None and interrupted.status == "True" else "",
        useful=status.useful_cpu_seconds,
        lost=status.lost_cpu_seconds,
        preemption_class=status.preemption.class_ or names.PREEMPTIBLE,
        at_risk=status.preemption.running_priority,
        ended=parse_time(status.ended_timestamp),
        checkpoint=parse_time(status.last_checkpoint_timestamp),
        annotated=checkpoint_time(meta.annotations.get(names.ANNOTATION_LAST_CHECKPOINT)),
        start_over=parse_time(status.priority_start_over_timestamp),
        interval=interval_of(spec.checkpoint_due),
        array=_array(job),
    )


_READ_OF_CONTAINERS: Final = ("name", "resources", "restartPolicy")


def short_job(job: BatchJob, _known: BatchJob | None = None) -> BatchJob:
    """A Job of whose template is left what pods request. Users choose how large templates are."""
    template = job.spec.get("template") or {}
    pod = template.get("spec") or {}
    kept: dict[str, Any] = {name: pod[name] for name in ("restartPolicy", "overhead", "resources") if name in pod}
    for name in ("containers", "initContainers"):
        kept[name] = [{key: one[key] for key in _READ_OF_CONTAINERS if key in one} for one in pod.get(name) or ()]
    return msgspec.structs.replace(job, spec={**job.spec, "template": {"spec": kept}})


def adopted_facts(job: BatchJob) -> JobFacts | None:
    """What is shown of an adopted Job, as of a ScavengerJob; None of another one. Where its ledger is of a later
    version, nothing is known but what it asks for."""
    meta = msgspec.to_builtins(job.metadata)
    written = {"metadata": meta, "spec": job.spec, "status": job.status}
    if not adopted.adopted(written):
        return None
    try:
        words = adopted.in_own_words(written)
    except LedgerError:
        words = adopted.in_own_words({**written, "status": {}})
    key = job_key(job.metadata.namespace, job.metadata.name, names.KIND_JOB)
    found = job_facts(msgspec.convert(words, Job))
    return replace(found, key=key, array=replace(found.array, by_pods=True) if found.array is not None else None)


def _array(job: Job) -> ArrayFacts | None:
    array, status = job.spec.array, job.status.array
    if array is None:
        return None
    try:
        sets = [parse_indexes(getattr(status, f"{name}_indexes")) for name in STATES.values()]
    except IndexesError:
        sets = []
    grid = cells(array.tasks, dict(zip(STATES, sets, strict=False)))
    return ArrayFacts(array.tasks, status.completed, status.failed, status.running, grid, _readable(array.indexes))


def _readable(indexes: str) -> str:
    """No page expands a text that stands for more tasks than an array has."""
    try:
        parse_numbers(indexes)
    except IndexesError:
        return ""
    return indexes


MOST_CELLS: Final = 400
"""Of an array, whatever its size: thousands of arrays may be shown at once."""

STATES: Final = {"f": "failed", "r": "running", "i": "interrupted", "c": "completed"}
"""What a cell says, the first that is true of any of its tasks; `c` where all of them completed, `-` where some did."""


def cells(tasks: int, sets: dict[str, int]) -> str:
    """All tasks in up to `MOST_CELLS` cells, one letter each: of `STATES`, or `.` where all tasks wait.

    Args:
        tasks: how many there are.
        sets: the tasks in each of `STATES`; none where that cannot be read.

    Returns:
        Nothing where one of them cannot be read.
    """
    if not sets or not 0 < tasks <= MAX_TASKS:
        return ""
    each = -(-tasks // MOST_CELLS)
    return "".join(
        _cell(all_of(min(each, tasks - first)), {name: tasks_in >> first for name, tasks_in in sets.items()})
        for first in range(0, tasks, each)
    )


def _cell(own: int, sets: dict[str, int]) -> str:
    for name in ("f", "r", "i"):
        if sets[name] & own:
            return name
    completed = sets["c"] & own
    return "." if not completed else "c" if completed == own else "-"


def _message(admitted: Condition | None, status: ShownStatus) -> str:
    waits = admitted is not None and admitted.status != "True"
    return plain((admitted.message if waits and admitted is not None else "") or status.message)


def _moments(stamps: tuple[str, ...]) -> tuple[datetime, ...]:
    return tuple(at for stamp in stamps if (at := parse_time(stamp)) is not None)


def pod_facts(pod: Pod, system: str) -> PodFacts:
    """What is shown of a pod that has not ended. system: the namespace of the components; labels alone are no proof."""
    meta = pod.metadata
    job = meta.labels.get(names.LABEL_JOB, "")
    ready = condition(pod.status.conditions, "Ready")
    service = meta.labels.get(NAME_LABEL, "") if is_ours(pod, system) else ""
    return PodFacts(
        key=meta.key,
        node=pod.spec.node_name,
        job=job_key(meta.namespace, job, meta.labels.get(names.LABEL_KIND, "")) if job else "",
        requests=_requests(pod),
        service=service,
        image=_image(pod, service) if service else "",
        ready=bool(service) and ready is not None and ready.status == "True",
        waits=not job and not pod.spec.node_name and meta.deletion_timestamp is None,
        **(_of_task(pod) if job else {}),
    )


def is_ours(pod: Pod, system: str) -> bool:
    """Whether it is a pod of a component. system: the namespace of the components; labels alone are no proof."""
    return pod.metadata.namespace == system and pod.metadata.labels.get(PART_LABEL) == PART_OF_US


def _of_task(pod: Pod) -> dict[str, int | None]:
    task = task_index(pod)
    if task is None:
        return {}
    seen = read(pod)
    return {"task": task, "started": seen.started if seen.computes else None, "checkpoint": seen.checkpoint}


def _image(pod: Pod, service: str) -> str:
    """Of the service's own container, which the chart calls by the service's name."""
    own = service.removeprefix("scavenger-")
    return next((container.image for container in pod.spec.containers if container.name == own), "")


def held(pod: Pod) -> str | None:
    """The key of a pod that has ended and is deleted, and that the admitter's finalizer keeps; None for others."""
    meta = pod.metadata
    return meta.key if meta.deletion_timestamp is not None and names.FINALIZER in meta.finalizers else None


def _requests(pod: Pod) -> dict[str, int]:
    try:
        return pod_requests(pod)
    except QuantityError:
        return {}


def node_facts(node: Node) -> NodeFacts:
    """What is shown of a node."""
    allocatable = readable_amounts(node.status.allocatable)
    offered = {resource: allocatable.get(extended, 0) * unit for resource, (extended, unit) in RECLAIMED.items()}
    return NodeFacts(
        name=node.metadata.name,
        allocatable={resource: allocatable.get(resource, 0) for resource in names.LEVELS_RESOURCES},
        offered=offered,
        note=_note(node),
        zone=node.metadata.labels.get(ZONE_LABEL, ""),
        pool=next(filter(None, map(node.metadata.labels.get, POOL_LABELS)), "") or "",
        marks=marks_of(node),
    )


def _note(node: Node) -> str:
    """Why nothing new starts there that does not tolerate it."""
    if node.metadata.deletion_timestamp is not None:
        return "being deleted"
    if not node.ready:
        return "not ready"
    if node.spec.unschedulable:
        return "cordoned"
    taints = sorted({taint.key for taint in blocking(node.spec.taints)})
    return f"taint {', '.join(taints)}" if taints else ""


def queue_facts(queue: Queue) -> QueueFacts:
    """What is shown of a ScavengerQueue."""
    return QueueFacts(
        name=queue.metadata.name,
        state=queue_state(deleting=queue.metadata.deletion_timestamp is not None, closed=queue.spec.closed).value,
        weight=queue.spec.weight,
        jobs=dict(queue.status.jobs),
        allocated=readable_amounts(queue.status.allocated),
        deserved=readable_amounts(queue.status.deserved),
        turns=queue.spec.per_namespace is not None,
    )


def event_facts(event: BoardEvent) -> EventFacts | None:
    """What is shown of an Event; None for one without a time, or about an object of another namespace, which any user
    may write. Those of the newer API have an eventTime only."""
    stamps = (event.last_timestamp, event.event_time, event.first_timestamp, event.metadata.creation_timestamp)
    at = next((moment for stamp in stamps if (moment := parse_time(stamp)) is not None), None)
    about = event.involved_object
    if at is None or about.namespace not in ("", event.metadata.namespace):
        return None
    return EventFacts(
        key=event.metadata.key,
        at=at,
        about=reference(about),
        uid=about.uid,
        reason=event.reason,
        message=plain(event.message),
        related=reference(event.related) if event.related is not None else "",
    )


def reference(about: ObjectReference) -> str:
    """`Kind namespace/name`."""
    return f"{about.kind} {about.namespace}/{about.name}" if about.namespace else f"{about.kind} {about.name}"


def renewed_at(lease: Lease) -> datetime | None:
    """When the leader last renewed its Lease; None where it has no holder."""
    return parse_time(lease.spec.renew_time) if lease.spec.holder_identity else None
