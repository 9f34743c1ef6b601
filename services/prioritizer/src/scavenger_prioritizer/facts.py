"""From the objects of the API to the facts that classes are decided on: plain values. Pure: no clock, no client.

Facts of ten thousand pods are asked for every few seconds and few of these have changed, so facts are kept for as long
as the informer holds the very same object.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import Any, Final, Generic, Protocol, TypeVar

from msgspec.structs import replace
from scavenger_api import names
from scavenger_api.reasons import InterruptionReason
from scavenger_api.states import ConditionType, Phase
from scavenger_api.weights import DEFAULT_WEIGHTS, Weights
from scavenger_domain.gang import job_key_of
from scavenger_domain.nodes import LEAVING, cordoned
from scavenger_domain.pod_reading import moment_of, over, read, started_at
from scavenger_domain.requests import on_reclaimed_capacity
from scavenger_domain.unit import split, task_of, unit_of
from scavenger_kube.kinds import Node, ObjectMeta, Pod, true_because
from scavenger_kube.resources import PodDisruptionBudget
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


# --- facts ---


def job_facts(job: ScavengerJob) -> JobFacts:
    """What a plan needs of a job. Never raises: what is unreadable counts as absent."""
    status, unit = job.status, unit_of(job)
    return JobFacts(
        namespace=job.metadata.namespace,
        name=unit.key.partition("/")[2],
        uid=unit.uid,
        phase=status.phase,
        interval=unit.interval,
        run=unit.run,
        parallelism=unit.parallelism,
        reclaimed=unit.reclaimed,
        created=unit.created,
        started=unit.started,
        start_over=unit.start_over,
        checkpoints=unit.checkpoints,
        ended=moment_of(status.ended_timestamp),
        preempted=true_because(status.conditions, ConditionType.INTERRUPTED, InterruptionReason.PREEMPTED),
        interruptions=unit.interruptions,
        stopping=unit.stopping,
        class_=status.preemption.class_ or "",
    )


def pod_facts(pod: Pod, weights: Weights = DEFAULT_WEIGHTS) -> PodFacts:
    """What a plan needs of a pod. Never raises: what is unreadable counts as absent."""
    meta, seen = pod.metadata, read(pod, weights)
    return PodFacts(
        namespace=meta.namespace,
        name=meta.name,
        uid=seen.uid,
        cost=seen.cost,
        past=seen.past,
        requests=seen.requests if on_reclaimed_capacity(pod) else {},
        job=job_key_of(pod).partition("/")[2],
        task=seen.task,
        run=seen.run,
        node=seen.node,
        live=seen.live,
        terminating=seen.terminating,
        finished=seen.finished,
        computes=seen.computes,
        told_to_go=seen.told_to_go,
        preempted=pod.preempted,
        birth=seen.birth,
        started=seen.started,
        index=seen.index,
        checkpoint=seen.checkpoint,
        returned=seen.returned,
        interval=seen.interval,
        class_=seen.class_,
        written=seen.written,
        exempt=meta.labels.get(names.LABEL_BUDGET) == names.NO_BUDGET,
    )


def is_cordoned(node: Node, taints: Collection[str] = LEAVING) -> bool:
    """Whether the node is on its way out: cordoned, being deleted, or carrying one of the drain taints."""
    return cordoned(node) or any(taint.key in taints for taint in node.spec.taints)


def budget_is_right(budget: PodDisruptionBudget) -> bool | None:
    """Whether the budget selects and forbids what it should; fields that the API server fills in do not matter. None
    where it is another owner's."""
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
    """Facts about objects, built again only for objects that are not the same as the last time."""

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

    def describe_with(self, describe: Callable[[Obj], F]) -> None:
        """Build the facts again, by another rule. What was written is seen again as the informer shows it: until then
        it may be written twice."""
        self._describe, self._entries = describe, {}

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
    """The units of all jobs: each with the pods of its present run, and each task of an array with its pod."""
    members: dict[tuple[str, str], list[PodFacts]] = {}
    for pod in pods:
        members.setdefault((pod.namespace, pod.job), []).append(pod)
    found: list[Gang] = []
    for job in jobs:
        tasks, run = split(job.run, members.get((job.namespace, job.name), ()))
        found.extend([Gang(_task(job, pod), (pod,)) for pod in tasks])
        if run or not tasks:
            found.append(Gang(job, tuple(run)))
    return found


def _task(job: JobFacts, pod: PodFacts) -> JobFacts:
    unit = task_of(job, pod)
    ran = unit.started is not None and not pod.live  # it ended, or is about to, and may be back in a moment
    return JobFacts(
        namespace=job.namespace,
        name=job.name,
        uid=unit.uid,
        phase=Phase.RUNNING if unit.running or ran else Phase.STARTING,
        interval=unit.interval,
        run=unit.run,
        reclaimed=unit.reclaimed,
        created=unit.created,
        started=unit.started,
        interruptions=unit.interruptions,
        stopping=unit.stopping,
        task=unit.task,
    )


# --- changes that a new pass is worth ---


def pod_signature(pod: Pod) -> Hashable:
    """What of a pod a class depends on; the prioritizer's own label and figure are not part of it."""
    meta = pod.metadata
    checkpoint = meta.annotations.get(names.ANNOTATION_LAST_CHECKPOINT)
    # Of a task nothing else says that it runs.
    runs = (started_at(pod), over(pod)) if names.LABEL_TASK in meta.labels else None
    return pod.spec.node_name, pod.ended, meta.deletion_timestamp is not None, checkpoint, runs


def job_signature(job: ScavengerJob) -> Hashable:
    """What of a job a class depends on. Not `status.preemption` and the assumed checkpoints: both are computed."""
    status, meta = job.status, job.metadata
    return (
        status.phase,
        status.running_timestamps,
        job.precedence,
        status.last_checkpoint_timestamp,
        status.job_name,
        job.spec.suspend,
        meta.deletion_timestamp is not None,
        meta.annotations.get(names.ANNOTATION_LAST_CHECKPOINT),
    )
