"""From the objects of the API to the facts that classes are decided on: plain values. Pure: no clock, no client.

Facts of ten thousand pods are asked for every few seconds and few of these have changed, so facts are kept for as long
as the informer holds the very same object.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from datetime import timedelta
from functools import lru_cache
from typing import Any, Final, Generic, Protocol, TypeVar

from msgspec.structs import replace
from scavenger_api import names
from scavenger_api.checkpoints import completion_index
from scavenger_api.duration import DurationError, parse_duration
from scavenger_api.job import Capacity
from scavenger_api.reasons import InterruptionReason
from scavenger_api.states import ConditionType, Phase
from scavenger_api.times import micros, parse_time
from scavenger_api.weights import DEFAULT_WEIGHTS, Weights
from scavenger_domain.gang import MICROSECONDS, run_name, task_unit
from scavenger_domain.nodes import LEAVING, cordoned
from scavenger_domain.requests import computing_requests, on_reclaimed_capacity
from scavenger_kube.kinds import Node, ObjectMeta, Pod, true_because
from scavenger_kube.resources import PodDisruptionBudget, scavenger_jobs
from scavenger_kube.scavenger_kinds import ScavengerJob

from scavenger_prioritizer.core.snapshot import Gang, JobFacts, PodFacts

MIN_AVAILABLE: Final = 1_000_000
"""An integer no namespace reaches, so that no disruption of what the budget selects is ever allowed. An integer,
because a percentage needs a controller with a scale subresource, which a Job is not (disruption.go of
kube-controller-manager). A number that is met would have the eviction API take pods that have just become unready
(docs/designs/0030-budgets-that-are-met.md).
"""

BUDGET_SPEC: Final[Mapping[str, Any]] = {
    "minAvailable": MIN_AVAILABLE,
    "selector": {
        "matchLabels": {names.LABEL_PREEMPTION_CLASS: names.NON_PREEMPTIBLE},
        "matchExpressions": [
            {"key": names.LABEL_JOB, "operator": "Exists"},
            {"key": names.LABEL_BUDGET, "operator": "NotIn", "values": [names.NO_BUDGET]},
        ],
    },
}

_DEFAULT_INTERVAL: Final = parse_duration(names.DEFAULT_INTERRUPTION_AFTER)
_WHOLE: Final = re.compile(r"[0-9]{1,18}", re.ASCII)


SCAVENGERJOBS: Final = scavenger_jobs(ScavengerJob)


# --- facts ---


def _moment(text: str | None) -> int | None:
    if text is None:
        return None
    parsed = parse_time(text)
    return None if parsed is None else micros(parsed)


def job_facts(job: ScavengerJob) -> JobFacts:
    """What a plan needs of a ScavengerJob. Never raises: what is unreadable counts as absent."""
    status, preemption = job.status, job.status.preemption
    runs = status.running_timestamps
    written = preemption.running_priority
    checkpoints = (
        _moment(status.last_checkpoint_timestamp),
        _moment(job.metadata.annotations.get(names.ANNOTATION_LAST_CHECKPOINT)),
    )
    return JobFacts(
        namespace=job.metadata.namespace,
        name=job.metadata.name,
        uid=job.metadata.uid,
        phase=status.phase,
        interval=_interval(job.spec.checkpoint_due),
        run=run_name(status.job_name, job.metadata.name),
        parallelism=job.spec.parallelism,
        reclaimed=job.spec.capacity == Capacity.RECLAIMED,
        created=_moment(job.metadata.creation_timestamp) or 0,
        started=_moment(runs[-1]) if runs else None,
        start_over=_moment(status.priority_start_over_timestamp),
        checkpoints=tuple(c for c in checkpoints if c is not None),
        ended=_moment(status.ended_timestamp),
        preempted=true_because(status.conditions, ConditionType.INTERRUPTED, InterruptionReason.PREEMPTED),
        interruptions=job.earned_count,
        stopping=job.metadata.deletion_timestamp is not None or job.spec.suspend,
        class_=preemption.class_,
        written=None if written is None else round(written),
    )


@lru_cache(maxsize=1024)
def _interval(text: str) -> int:
    try:
        span = parse_duration(text)
    except (DurationError, OverflowError):
        span = _DEFAULT_INTERVAL
    return max(1, span // timedelta(microseconds=1))


def pod_facts(pod: Pod, weights: Weights = DEFAULT_WEIGHTS) -> PodFacts:
    """What a plan needs of a pod. Never raises: what is unreadable counts as absent."""
    meta, requests = pod.metadata, computing_requests(pod)
    controller = meta.controller
    deleted = meta.deletion_timestamp is not None
    written = meta.annotations.get(names.ANNOTATION_RUNNING_PRIORITY, "")
    return PodFacts(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        cost=weights.cost(requests),
        requests=requests if on_reclaimed_capacity(pod) else {},
        job=meta.labels.get(names.LABEL_JOB, ""),
        task=meta.labels.get(names.LABEL_TASK, ""),
        run=controller.name if controller is not None and controller.kind == "Job" else "",
        node=pod.spec.node_name,
        live=not pod.ended and not deleted,
        terminating=deleted and not pod.ended,
        finished=pod.succeeded,
        told_to_go=_told_to_go(meta),
        preempted=pod.preempted,
        started=_moment(pod.status.start_time),
        index=completion_index(meta.annotations, meta.labels),
        checkpoint=_moment(meta.annotations.get(names.ANNOTATION_LAST_CHECKPOINT)),
        class_=meta.labels.get(names.LABEL_PREEMPTION_CLASS, ""),
        written=int(written) if _WHOLE.fullmatch(written) else None,
        exempt=meta.labels.get(names.LABEL_BUDGET) == names.NO_BUDGET,
    )


def _told_to_go(meta: ObjectMeta) -> int | None:
    """When an object was deleted. `deletionTimestamp` is when it has to be gone, its grace period later."""
    by = _moment(meta.deletion_timestamp)
    return None if by is None else by - (meta.deletion_grace_period_seconds or 0) * MICROSECONDS


def is_cordoned(node: Node, taints: Collection[str] = LEAVING) -> bool:
    """Whether the node is on its way out: cordoned, being deleted, or carrying one of the drain taints."""
    return cordoned(node) or any(taint.key in taints for taint in node.spec.taints)


def budget_is_right(budget: PodDisruptionBudget) -> bool | None:
    """Whether the budget selects and forbids what it should; fields that the API server fills in do not matter. None
    where it is somebody else's."""
    return None if not budget.ours else all(budget.spec.get(key) == value for key, value in BUDGET_SPEC.items())


# --- facts that are kept ---


class HasMetadata(Protocol):
    """Anything with metadata."""

    @property
    def metadata(self) -> ObjectMeta:
        """The object's metadata."""
        ...


Obj = TypeVar("Obj", bound=HasMetadata)
F = TypeVar("F", JobFacts, PodFacts)


class FactsCache(Generic[Obj, F]):
    """Facts about objects, made anew only for objects that are not the same as the last time."""

    def __init__(self, describe: Callable[[Obj], F]) -> None:
        self._describe: Callable[[Obj], F] = describe
        self._entries: dict[str, tuple[Obj, F]] = {}

    def refresh(self, objects: Iterable[Obj]) -> list[F]:
        """The facts about exactly these objects."""
        entries: dict[str, tuple[Obj, F]] = {}
        facts: list[F] = []
        known = self._entries
        for obj in objects:
            uid = obj.metadata.uid
            entry = known.get(uid)
            if entry is None or entry[0] is not obj:
                entry = (obj, self._describe(obj))
            entries[uid] = entry
            facts.append(entry[1])
        self._entries = entries
        return facts

    def note(self, planned: F, **written: str | int | None) -> None:
        """Remember what was written to an object until the informer shows it, so that it is not written twice. Of what
        is None nothing was written.

        Does nothing when the informer has shown another version meanwhile: that one is nearer to the truth.
        """
        obj, facts = self._entries.get(planned.uid, (None, None))
        if obj is not None and facts is planned:
            changes = {name: value for name, value in written.items() if value is not None}
            self._entries[planned.uid] = (obj, replace(planned, **changes))


def gangs(jobs: Iterable[JobFacts], pods: Iterable[PodFacts]) -> list[Gang]:
    """Each job with the pods of its present run, and each task of an array with its pod.

    Pods count when the Job that the status names controls them: a pod of an earlier run stuck on a dead node is not the
    job's CPU time, and a pod with a borrowed label must not make a job look expensive.
    """
    members: dict[tuple[str, str], list[PodFacts]] = {}
    for pod in pods:
        members.setdefault((pod.namespace, pod.job), []).append(pod)
    found: list[Gang] = []
    for job in jobs:
        own = members.get((job.namespace, job.name), ())
        run = tuple(pod for pod in own if pod.run == job.run)
        tasks = [pod for pod in run if pod.task]
        found.extend(Gang(_task(job, pod), (pod,)) for pod in tasks)
        rest = tuple(pod for pod in run if not pod.task) if tasks else run
        if rest or not tasks:
            found.append(Gang(job, rest))
    return found


def _task(job: JobFacts, pod: PodFacts) -> JobFacts:
    """One task of an array: all but its promise and its spec stands on its pod."""
    return JobFacts(
        namespace=job.namespace,
        name=job.name,
        uid=task_unit(job.uid, pod.task),
        phase=Phase.STARTING if pod.started is None else Phase.RUNNING,
        interval=job.interval,
        run=job.run,
        reclaimed=job.reclaimed,
        created=job.created,
        stopping=job.stopping,
        task=pod.task,
    )


# --- changes that a new pass is worth ---


def pod_signature(pod: Pod) -> Hashable:
    """What of a pod a class depends on; our own label and figure are not part of it."""
    meta = pod.metadata
    checkpoint = meta.annotations.get(names.ANNOTATION_LAST_CHECKPOINT)
    # Of a task nothing else says that it runs.
    started = pod.status.start_time if names.LABEL_TASK in meta.labels else None
    return pod.spec.node_name, pod.ended, meta.deletion_timestamp is not None, checkpoint, started


def job_signature(job: ScavengerJob) -> Hashable:
    """What of a ScavengerJob a class depends on. Not `status.preemption` and the start-overs: both are computed."""
    status, meta = job.status, job.metadata
    return (
        status.phase,
        status.running_timestamps,
        job.earned_count,
        status.last_checkpoint_timestamp,
        status.job_name,
        job.spec.suspend,
        meta.deletion_timestamp is not None,
        meta.annotations.get(names.ANNOTATION_LAST_CHECKPOINT),
    )
