"""From the objects of the API to the facts a decision is made of. Pure: objects in, facts out; never raises."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from scavenger_api import names
from scavenger_api.checkpoints import completion_index
from scavenger_api.duration import DurationError, parse_duration
from scavenger_api.quantity import QuantityError, parse_quantity
from scavenger_api.reclaimed import RECLAIMED
from scavenger_api.times import parse_time, seen_time
from scavenger_domain.gang import run_name, task_unit, unit
from scavenger_domain.nodes import counts, pressed
from scavenger_domain.requests import computing_requests, counted_requests, on_reclaimed_capacity
from scavenger_kube.kinds import Container, Node, Pod, true_because
from scavenger_kube.resources import scavenger_jobs
from scavenger_kube.scavenger_kinds import ScavengerJob

from scavenger_regulator.core.level_policies import NodeLevels, levels_of
from scavenger_regulator.core.metrics.metric import RESOURCES
from scavenger_regulator.core.snapshot import Gang, NodeFacts, PodFacts

DEFAULT_INTERVAL: Final = parse_duration(names.DEFAULT_INTERRUPTION_AFTER).total_seconds()
DEFAULT_GRACE: Final = 30.0


SCAVENGERJOBS: Final = scavenger_jobs(ScavengerJob)


# --- amounts ------------------------------------------------------------------------------------------------


def quantity(text: str | int | float | None) -> float:
    """Cores or bytes; 0 for what is absent or unreadable."""
    if text is None:
        return 0.0
    try:
        return float(parse_quantity(text))
    except (QuantityError, OverflowError):
        return 0.0


def pod_requests(pod: Pod) -> dict[str, float]:
    """CPU and memory that a pod takes of its node, in cores and bytes (`scavenger_domain.requests`). Reclaimed capacity
    counts as what it stands for; of a pod with an unreadable quantity nothing is known to be taken."""
    try:
        counted = counted_requests(pod)
    except QuantityError:
        counted = {}
    return {"cpu": counted.get("cpu", 0) / 1000, "memory": float(counted.get("memory", 0))}


# --- facts --------------------------------------------------------------------------------------------------


def node_facts(
    node: Node, tolerated_taints: Collection[str], *, holds: bool = False, policies: Iterable[NodeLevels] = ()
) -> NodeFacts:
    """A node. tolerated_taints, holds: as in `scavenger_domain.nodes.counts`. policies: of which some may select it."""
    published = _offered(node.status.capacity)
    return NodeFacts(
        name=node.metadata.name,
        allocatable={r: quantity(node.status.allocatable.get(r)) for r in RESOURCES},
        capacity={r: quantity(node.status.capacity.get(r)) for r in RESOURCES},
        counts=counts(node, tolerated_taints, holds=holds),
        pressed=pressed(node),
        created=parse_time(node.metadata.creation_timestamp),
        offered=published,
        copied=published == _offered(node.status.allocatable),
        levels=levels_of(policies, node.metadata.labels),
    )


def _offered(resources: Mapping[str, str | int | float]) -> dict[str, int]:
    """The reclaimed capacity in a node's capacity or allocatable, in millicores and MiB."""
    return {r: int(quantity(resources[extended])) for r, (extended, _) in RECLAIMED.items() if extended in resources}


def occupies(pod: Pod) -> bool:
    """Whether the pod takes room on a node: bound to one, and not ended."""
    return bool(pod.spec.node_name) and not pod.ended


def ended_at(pod: Pod) -> datetime | None:
    """When the last of its containers ended, by the clock of its node, which dates its figures as well; None where that
    is not known of all of them."""
    states = [status.state.terminated for status in pod.status.container_statuses]
    ends = [seen_time(state.finished_at) if state is not None else None for state in states]
    known = [end for end in ends if end is not None]
    return max(known) if known and len(known) == len(ends) else None


def pod_facts(pod: Pod) -> PodFacts:
    """A scavenger pod."""
    meta = pod.metadata
    reclaimed = on_reclaimed_capacity(pod)
    program = next((c for c in pod.spec.containers if c.name == names.MAIN_CONTAINER and not reclaimed), Container())
    cpu = program.resources.requests.get("cpu")
    own, asked = pod.spec.termination_grace_period_seconds, meta.deletion_grace_period_seconds
    grace = DEFAULT_GRACE if own is None else float(own)
    given = grace if asked is None else float(asked)
    deadline = parse_time(meta.deletion_timestamp)
    if deadline is not None:
        deadline -= timedelta(seconds=max(0.0, given - grace))
    started = [s.state.running.started_at for s in pod.status.container_statuses if s.state.running is not None]
    return PodFacts(
        key=meta.key,
        uid=meta.uid,
        node=pod.spec.node_name,
        requests=pod_requests(pod),
        preemptible=meta.labels.get(names.LABEL_PREEMPTION_CLASS, names.PREEMPTIBLE) != names.NON_PREEMPTIBLE,
        running_since=max((t for text in started if (t := parse_time(text)) is not None), default=None)
        or (parse_time(pod.status.start_time) if pod.status.phase == "Running" else None),
        deletion_deadline=deadline,
        checkpoint=parse_time(meta.annotations.get(names.ANNOTATION_LAST_CHECKPOINT)),
        index=completion_index(meta.annotations, meta.labels),
        grace=min(grace, given),
        resizable={program.name: quantity(cpu)} if cpu is not None else {},
        limit_above=max(0.0, quantity(program.resources.limits.get("cpu")) - quantity(cpu)),
        refused_resize=true_because(pod.status.conditions, "PodResizePending", "Infeasible"),
        reclaimed=reclaimed,
        computes_with=computing_requests(pod),
        prolonged=given > grace,
    )


def gang_facts(job: ScavengerJob, pods: tuple[PodFacts, ...], finished: tuple[PodFacts, ...] = ()) -> Gang:
    """A ScavengerJob with the pods of its present run, and those of them that have succeeded."""
    status, spec = job.status, job.spec
    running = status.phase == "Running"
    checkpoints = [
        parse_time(status.last_checkpoint_timestamp),
        parse_time(job.metadata.annotations.get(names.ANNOTATION_LAST_CHECKPOINT)),
    ]
    if spec.template is not None:  # of several containers, or requests beside limits, none is resized
        pods = tuple([replace(pod, resizable={}) for pod in pods])
    return Gang(
        key=job.metadata.key,
        uid=job.metadata.uid,
        pods=pods,
        interval=_interval(spec.checkpoint_due),
        cores=spec.requests.get("cpu", 0) / 1000,
        running=running,
        # of a job that is still starting, the last entry is that of its last run
        started=parse_time(status.running_timestamps[-1]) if running and status.running_timestamps else None,
        start_over=parse_time(status.priority_start_over_timestamp),
        checkpoint=max((c for c in checkpoints if c is not None), default=None),
        interruptions=job.earned_count,
        returned=status.interrupted_count > 0,
        parallelism=max(1, spec.parallelism),
        stopping=spec.suspend or job.metadata.deletion_timestamp is not None,
        finished=finished,
    )


def task_facts(job: ScavengerJob, pod: Pod) -> Gang:
    """A task of an array, which is a gang of one: all but its promise and its spec stands on its pod."""
    task, facts = pod.metadata.labels[names.LABEL_TASK], pod_facts(pod)
    return Gang(
        key=unit(pod),
        uid=task_unit(job.metadata.uid, task),
        pods=(replace(facts, resizable={}) if job.spec.template is not None else facts,),
        interval=_interval(job.spec.checkpoint_due),
        cores=job.spec.requests.get("cpu", 0) / 1000,
        running=facts.running_since is not None,
        stopping=job.spec.suspend or job.metadata.deletion_timestamp is not None,
    )


def _interval(text: str) -> float:
    try:
        return max(timedelta(milliseconds=1), parse_duration(text)).total_seconds()
    except (DurationError, OverflowError):
        return DEFAULT_INTERVAL


def gangs(jobs: Iterable[ScavengerJob], pods: Iterable[Pod]) -> tuple[Gang, ...]:
    """Each job, or task of an array, with those of its pods that take room on a node; those without any are left out.

    Pods count when the Job that the status names controls them: a pod with a borrowed label is not the job's, and must
    not be evicted for it. The status does not speak of a start that takes a few seconds, nor of what is left of the
    last run; the Job of either has the ScavengerJob's own name. Pods of another run, or of a job that is deleted, are
    gangs of their own as long as they are stopping: they still use what they use, and it is about to come free.
    """
    members: dict[tuple[str, str], list[Pod]] = {}
    for pod in pods:
        name = pod.metadata.labels.get(names.LABEL_JOB)
        if name and (occupies(pod) or pod.succeeded):
            members.setdefault((pod.metadata.namespace, name), []).append(pod)
    found: list[Gang] = []
    for job in jobs:
        own = members.pop((job.metadata.namespace, job.metadata.name), [])
        name = run_name(job.status.job_name, job.metadata.name)
        run = [pod for pod in own if _of_run(pod, name)]
        found.extend(_gangs_of(job, run))
        if len(run) < len(own):
            found.extend(_stopping_runs(pod for pod in own if not _of_run(pod, name)))
    for left in members.values():
        found.extend(_stopping_runs(left))
    return tuple(found)


def _gangs_of(job: ScavengerJob, run: Iterable[Pod]) -> Iterable[Gang]:
    """The gang of a job, or those of its tasks."""
    present: list[PodFacts] = []
    finished: list[PodFacts] = []
    for pod in run:
        if names.LABEL_TASK not in pod.metadata.labels:
            (present if occupies(pod) else finished).append(pod_facts(pod))
        elif occupies(pod):
            yield task_facts(job, pod)
    if present:
        yield gang_facts(job, tuple(present), tuple(finished))


def _stopping_runs(pods: Iterable[Pod]) -> Iterable[Gang]:
    """The runs of these pods, as far as they are stopping; nobody is ever asked to go from one."""
    runs: dict[tuple[str, str], list[Pod]] = {}
    for pod in pods:
        owner = pod.metadata.controller
        if owner is not None and owner.kind == "Job" and pod.leaving:
            runs.setdefault((owner.name, unit(pod)), []).append(pod)
    for (run, key), members in sorted(runs.items()):
        facts = tuple(pod_facts(pod) for pod in members)
        yield Gang(
            key,
            f"{key}/{run}",
            facts,
            DEFAULT_INTERVAL,
            cores=0.0,
            running=False,
            parallelism=len(facts),
            stopping=True,
        )


def _of_run(pod: Pod, run: str) -> bool:
    owner = pod.metadata.controller
    return owner is not None and owner.kind == "Job" and owner.name == run
