"""Builders for what `plan_job` sees. Times are seconds after BASE; a run starts from the place in line 0."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import msgspec
from scavenger_admitter.core.lifecycle.confirmed import _PROOF, Confirmed
from scavenger_admitter.core.lifecycle.observation import (
    Granted,
    Known,
    NamespaceSeen,
    Observation,
    Outcome,
    References,
    Seen,
    StartKnown,
)
from scavenger_admitter.core.lifecycle.plan import plan_job
from scavenger_admitter.wakeups import Wakeups
from scavenger_api import names, reasons
from scavenger_api.job import ConditionType, Phase, ScavengerJob, ScavengerJobStatus
from scavenger_api.times import format_micro_time, format_time
from scavenger_kube import kinds

T = TypeVar("T")

BASE = datetime(2026, 1, 1, tzinfo=UTC)
UID = "sj-uid"
BATCH = "batch-uid"
STARTED = 10
"""When the containers of a pod start, unless told otherwise."""


def at(seconds: float) -> datetime:
    return BASE + timedelta(seconds=seconds)


def stamp(seconds: float) -> str:
    return format_time(at(seconds))


def place(queued: float) -> str:
    return format_micro_time(at(queued))


def job(
    phase: Phase | None = None,
    *,
    queued: float | None = 0,
    running: Sequence[float] = (),
    spec: Mapping[str, Any] | None = None,
    deleted: bool = False,
    **status: Any,
) -> ScavengerJob:
    """A ScavengerJob of one 2-CPU pod; `status` fields by their Python names."""
    body = ScavengerJobStatus(
        phase=phase,
        queued_timestamp=None if queued is None or phase is None else at(queued),
        running_timestamps=tuple(at(t) for t in running),
        priority_start_over_timestamp=at(running[-1]) if running else None,
    ).model_copy(update=status)
    parsed = ScavengerJob.model_validate(
        {
            "metadata": {
                "name": "job",
                "namespace": "ns",
                "uid": UID,
                "generation": 1,
                "creationTimestamp": stamp(0),
                "deletionTimestamp": stamp(0) if deleted else None,
            },
            "spec": {
                "image": "image",
                "resources": {"requests": {"cpu": "2", "memory": "1Gi"}},
                **(spec or {}),
            },
        }
    )
    return parsed.model_copy(update={"status": body})


def gang(size: int = 2, **more: Any) -> dict[str, Any]:
    return {"parallelism": size, **more}


def batch(
    queued: float = 0,
    *,
    uid: str = BATCH,
    owner: str | None = UID,
    created: float = 1,
    deleted: float | None = None,
    conditions: Mapping[str, float] | None = None,
    restarts: int = 0,
    managed_by: str = names.MANAGED_BY,
) -> kinds.Job:
    """The batch/v1 Job of the run that started from the place in line `queued`."""
    owners = (kinds.OwnerReference("ScavengerJob", "job", owner, controller=True),) if owner else ()
    return kinds.Job(
        metadata=kinds.ObjectMeta(
            name="job",
            namespace="ns",
            uid=uid,
            creation_timestamp=stamp(created),
            deletion_timestamp=None if deleted is None else stamp(deleted),
            annotations={names.ANNOTATION_RUN: place(queued), names.ANNOTATION_RESTARTS: str(restarts)},
            owner_references=owners,
        ),
        spec=kinds.JobSpec(managed_by=managed_by),
        status=kinds.JobStatus(
            conditions=tuple(
                kinds.Condition(kind, "True", "Reason", "", stamp(since)) for kind, since in (conditions or {}).items()
            )
        ),
    )


def condition(kind: str, status: str, since: float, reason: str = "", message: str = "") -> kinds.Condition:
    return kinds.Condition(kind, status, reason, message, stamp(since))


def disrupted(reason: str, since: float) -> kinds.Condition:
    return condition("DisruptionTarget", "True", since, reason, "")


def unschedulable(since: float, message: str = "0/1 nodes are available") -> kinds.Condition:
    return condition("PodScheduled", "False", since, "Unschedulable", message)


class ObservedStatus(kinds.PodStatus, frozen=True, gc=False, rename="camel"):
    """A pod status as a kubelet that tracks generations writes it, whether the projection reads that or not."""

    observed_generation: int = 0


def pod(
    number: int = 0,
    *,
    queued: float = 0,
    owner: str | None = BATCH,
    started: float | None = STARTED,
    ended: float | None = None,
    code: int = 0,
    exit_reason: str = "",
    message: str = "",
    phase: str | None = None,
    reason: str = "",
    deleted: float | None = None,
    grace: int = 30,
    final: float | None = None,
    conditions: Sequence[kinds.Condition] = (),
    waiting: tuple[str, str] | None = None,
    node: str = "node-1",
    checkpoint: str | None = None,
    held: bool = True,
    generations: tuple[int, int] = (0, 0),
    uid: str | None = None,
    beside: kinds.ContainerState | None = None,
    taken: float | None = None,
    class_: str = "",
    figure: int | None = None,
    requests: Mapping[str, str] | None = None,
) -> kinds.Pod:
    """A pod of the run from `queued`; running since 10 s unless told otherwise.

    `deleted`: when its deletion was requested. `final`: when the kubelet's final DELETE with grace period 0 came, which
    overwrites that. `generations`: metadata.generation and the one the kubelet observed. `beside`: the state of a
    container that a mesh added. `taken`: when its kubelet had it. `class_` and `figure`: the marks of the prioritizer.
    """
    state = kinds.ContainerState()
    if ended is not None:
        begun = None if started is None else stamp(started)
        terminated = kinds.Terminated(code, 0, exit_reason, message, begun, stamp(ended))
        state = kinds.ContainerState(terminated=terminated)
    elif waiting is not None:
        state = kinds.ContainerState(waiting=kinds.Waiting(*waiting))
    elif started is not None:
        state = kinds.ContainerState(running=kinds.Running(stamp(started)))
    if phase is None:
        phase = "Pending" if started is None else "Running"
        if ended is not None:
            phase = "Failed" if code or reason else "Succeeded"
    stamped = final if final is not None else None if deleted is None else deleted + grace
    annotations = {
        names.ANNOTATION_RUN: place(queued),
        "batch.kubernetes.io/job-completion-index": str(number),
    }
    if checkpoint is not None:
        annotations[names.ANNOTATION_LAST_CHECKPOINT] = checkpoint
    if figure is not None:
        annotations[names.ANNOTATION_RUNNING_PRIORITY] = str(figure)
    asked = (kinds.Container(name="main", resources=kinds.Resources(requests={**requests})),) if requests else ()
    owners = (kinds.OwnerReference("Job", "job", owner, controller=True),) if owner else ()
    bare = started is None and ended is None and waiting is None
    proxy = () if beside is None else (kinds.ContainerStatus("proxy", beside),)
    return kinds.Pod(
        metadata=kinds.ObjectMeta(
            name=f"job-{number}",
            namespace="ns",
            uid=uid or f"{owner}-pod-{number}",
            generation=generations[0],
            creation_timestamp=stamp(queued + 2),
            deletion_timestamp=None if stamped is None else stamp(stamped),
            deletion_grace_period_seconds=None if stamped is None else 0 if final is not None else grace,
            labels={names.LABEL_JOB: "job", **({names.LABEL_PREEMPTION_CLASS: class_} if class_ else {})},
            annotations=annotations,
            owner_references=owners,
            finalizers=(names.FINALIZER,) if held else (),
        ),
        spec=kinds.PodSpec(node_name=node, termination_grace_period_seconds=30, containers=asked),
        status=ObservedStatus(
            phase=phase,
            reason=reason,
            message=message if reason else "",
            conditions=tuple(conditions),
            container_statuses=() if bare else (*proxy, kinds.ContainerStatus("main", state)),
            observed_generation=generations[1],
            start_time=None if taken is None else stamp(taken),
        ),
    )


RUNS_ON = kinds.ContainerState(running=kinds.Running(stamp(STARTED)))
"""The state of a container beside main that is still running."""


def gone(ended: float, code: int = 0) -> kinds.ContainerState:
    """The state of a container beside main that has ended."""
    return kinds.ContainerState(terminated=kinds.Terminated(code, 0, "", "", stamp(STARTED), stamp(ended)))


def node(
    name: str = "node-1",
    *,
    ready: bool = True,
    taint: str | None = None,
    value: str = "",
    since: float | None = None,
    conditions: Sequence[kinds.NodeCondition] = (),
) -> kinds.Node:
    """A node. `since`: when it became ready, or stopped being so. `conditions`: beside Ready. `value`: of the taint."""
    changed = None if since is None else stamp(since)
    return kinds.Node(
        metadata=kinds.ObjectMeta(name=name),
        spec=kinds.NodeSpec(taints=(kinds.Taint(taint, value, "NoExecute"),) if taint else ()),
        status=kinds.NodeStatus(
            conditions=(kinds.NodeCondition("Ready", "True" if ready else "Unknown", "", "", changed), *conditions)
        ),
    )


def seen(
    job: ScavengerJob,
    now: float,
    batch: kinds.Job | None = None,
    *pods: kinds.Pod,
    nodes: Mapping[str, kinds.Node | None] | None = None,
    **more: Any,
) -> Observation:
    """What is known of a job. `more`: as for `with_`."""
    known = {"node-1": node()} if nodes is None else nodes
    return with_(Observation(Seen(job=job, batch=batch, pods=pods, nodes=known, now=at(now))), **more)


PARTS = {
    "seen": Seen,
    "seen.namespace": NamespaceSeen,
    "seen.references": References,
    "known": Known,
    "known.start": StartKnown,
    "granted": Granted,
}
"""The parts of an observation, by their paths."""


def with_(observed: Observation, **more: Any) -> Observation:
    """The same with these fields of whichever part has them. `rules`: settings. `decision`: to interrupt its run."""
    if (decision := more.pop("decision", None)) is not None:
        queued = observed.seen.job.status.queued_timestamp
        assert queued is not None
        more["take"] = {format_micro_time(queued): decision}
    for path, part in PARTS.items():
        own = {field.name: more.pop(field.name) for field in fields(part) if field.name in more}
        observed = _with_part(observed, path.split("."), own) if own else observed
    return replace(observed, **more)


def _with_part(whole: Any, path: list[str], own: Mapping[str, Any]) -> Any:
    if not path:
        return replace(whole, **own)
    return replace(whole, **{path[0]: _with_part(getattr(whole, path[0]), path[1:], own)})


def confirmed(value: T) -> Confirmed[T]:
    """As if the API server had been asked."""
    return Confirmed(value, _PROOF)


def written(job: ScavengerJob, status: ScavengerJobStatus) -> ScavengerJob:
    """The job as it is read back: through JSON, as the API server keeps it."""
    kept = ScavengerJobStatus.model_validate(msgspec.json.decode(msgspec.json.encode(status.to_dict())))
    return job.model_copy(update={"status": kept})


def changes(before: ScavengerJobStatus, after: ScavengerJobStatus) -> dict[str, Any]:
    """The fields that differ, as they are written; None for one that is unset now."""
    old, new = before.to_dict(), after.to_dict()
    return {key: new.get(key) for key in {*old, *new} if old.get(key) != new.get(key)}


REASONS = {*Phase, *(word for words in reasons.LISTS for word in words)}


def decide(first: Observation) -> Outcome:
    """`plan_job`, and the proof that its status is a fixed point: seen again once written, nothing more changes.

    Actions come again for as long as what they are about is there: a process that died between the write and the
    actions finds them in its next observation.
    """
    outcome = plan_job(first)
    again = plan_job(with_(first, job=written(first.seen.job, outcome.status), wait=None, refused=None, shown=False))
    assert not again.changed, (outcome.status, again.status)
    assert set(again.actions) == set(outcome.actions)
    assert not again.events
    assert not again.start_failed
    assert again.candidate == outcome.candidate
    words = {c.reason for c in outcome.status.conditions if c.type in ConditionType.__members__.values()}
    assert words <= REASONS, "a word that is in no list"
    return outcome


class Woken(Wakeups):
    """Keeps which jobs are to be reconciled, in that order."""

    def __init__(self) -> None:
        super().__init__()
        self.keys: list[str] = []

    def reconcile(self, key: str, *, after: float = 0.0, priority: int = 0) -> None:
        self.keys.append(key)
