"""From the objects of the API to the facts a decision is made of. Pure: objects in, facts out; never raises."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from scavenger_api import names
from scavenger_api.duration import parse_duration
from scavenger_api.quantity import QuantityError, parse_quantity
from scavenger_api.reclaimed import RECLAIMED
from scavenger_api.times import parse_time, seen_time
from scavenger_domain.gang import MICROSECONDS, job_of, moment
from scavenger_domain.nodes import available, counts, keeping_out, pool_of, pressed
from scavenger_domain.pod_reading import PodReading, read
from scavenger_domain.requests import counted_requests, on_reclaimed_capacity
from scavenger_domain.unit import Unit, unit_of, units
from scavenger_kube.kinds import Container, Node, Pod, true_because
from scavenger_kube.scavenger_kinds import ScavengerJob

from scavenger_regulator.core.level_policies import NodeLevels, levels_of, lines_of
from scavenger_regulator.core.metrics.metric import RESOURCES
from scavenger_regulator.core.snapshot import Gang, NodeFacts, PodFacts

DEFAULT_INTERVAL: Final = parse_duration(names.DEFAULT_INTERRUPTION_AFTER).total_seconds()
DEFAULT_GRACE: Final = 30.0
NEARLY_EQUAL: Final = 0.0015
"""Cores by which a CPU limit may be above its request and a throttled pod still use what it requests: the admitter
makes it a millicore."""


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
    node: Node,
    tolerated_taints: Collection[str],
    *,
    holds: bool = False,
    policies: Iterable[NodeLevels] = (),
    pool_ignores: Collection[str] = (),
) -> NodeFacts:
    """A node.

    Args:
        node: of the API.
        tolerated_taints: as in `scavenger_domain.nodes.counts`.
        holds: as there.
        policies: of which some may select it.
        pool_ignores: as in `scavenger_domain.nodes.pool_of`.
    """
    published = _offered(node.status.capacity)
    counted = counts(node, tolerated_taints, holds=holds)
    return NodeFacts(
        name=node.metadata.name,
        allocatable={r: quantity(node.status.allocatable.get(r)) for r in RESOURCES},
        capacity={r: quantity(node.status.capacity.get(r)) for r in RESOURCES},
        counts=counted,
        pool=pool_of(node, pool_ignores),
        kept_out=keeping_out(node, tolerated_taints) if not counted and available(node) else (),
        pressed=pressed(node),
        created=parse_time(node.metadata.creation_timestamp),
        offered=published,
        copied=published == _offered(node.status.allocatable),
        levels=levels_of(policies, node.metadata.labels),
        lines=lines_of(policies, node.metadata.labels),
    )


def _offered(resources: Mapping[str, str | int | float]) -> dict[str, int]:
    """The reclaimed capacity in a node's capacity or allocatable, in millicores and MiB."""
    return {r: int(quantity(resources[extended])) for r, (extended, _) in RECLAIMED.items() if extended in resources}


def occupies(pod: Pod) -> bool:
    """Whether the pod takes capacity of a node: bound to one, and not ended."""
    return bool(pod.spec.node_name) and not pod.ended


def regular_requests(pods: Iterable[Pod]) -> dict[str, dict[str, float]]:
    """What regular pods request, by node, in cores and bytes."""
    found: dict[str, dict[str, float]] = {}
    for pod in pods:
        if names.LABEL_JOB in pod.metadata.labels or not occupies(pod):
            continue
        sums = found.setdefault(pod.spec.node_name, dict.fromkeys(RESOURCES, 0.0))
        for resource, amount in pod_requests(pod).items():
            sums[resource] += amount
    return found


def ended_at(pod: Pod) -> datetime | None:
    """When the last of its containers ended, by the clock of its node, which dates its figures as well; None where that
    is not known of all of them."""
    states = [status.state.terminated for status in pod.status.container_statuses]
    ends = [seen_time(state.finished_at) if state is not None else None for state in states]
    known = [end for end in ends if end is not None]
    return max(known) if known and len(known) == len(ends) else None


def pod_facts(pod: Pod, seen: PodReading | None = None) -> PodFacts:
    """A scavenger pod. seen: what was read of it, where that has been done."""
    meta, seen = pod.metadata, seen or read(pod)
    reclaimed = on_reclaimed_capacity(pod)
    program = next((c for c in pod.spec.containers if c.name == names.MAIN_CONTAINER and not reclaimed), Container())
    cpu = program.resources.requests.get("cpu")
    above = max(0.0, quantity(program.resources.limits.get("cpu")) - quantity(cpu))
    own, asked = pod.spec.termination_grace_period_seconds, meta.deletion_grace_period_seconds
    grace = DEFAULT_GRACE if own is None else float(own)
    given = grace if asked is None else float(asked)
    deadline = parse_time(meta.deletion_timestamp)
    if deadline is not None:
        deadline -= timedelta(seconds=max(0.0, given - grace))
    since = _at(seen.measured)
    return PodFacts(
        key=seen.name,
        uid=seen.uid,
        node=seen.node,
        requests=pod_requests(pod),
        preemptible=seen.class_ != names.NON_PREEMPTIBLE,
        running_since=since,
        started=since if seen.started == seen.measured else _at(seen.started),
        birth=seen.birth,
        deletion_deadline=deadline,
        checkpoint=_at(seen.checkpoint),
        index=seen.index,
        grace=min(grace, given),
        resizable={program.name: quantity(cpu)} if cpu is not None and above <= NEARLY_EQUAL else {},
        limit_above=above,
        refused_resize=true_because(pod.status.conditions, "PodResizePending", "Infeasible"),
        reclaimed=reclaimed,
        computes_with=seen.requests,
        sizes=seen.sizes,
        prolonged=given > grace,
    )


def _at(micros: int | None) -> datetime | None:
    return moment(micros) if micros else None


def gang_facts(job: ScavengerJob, unit: Unit, pods: tuple[PodFacts, ...], finished: tuple[PodFacts, ...] = ()) -> Gang:
    """A unit with its pods that take capacity, and those of them that have succeeded."""
    spec = job.spec
    if spec.template is not None:  # of several containers, or requests beside limits, none is resized
        pods = tuple([replace(pod, resizable={}) for pod in pods])
    return Gang(
        key=unit.key,
        uid=unit.uid,
        pods=pods,
        interval=unit.interval / MICROSECONDS,
        cores=job.requests.get("cpu", 0) / 1000,
        running=unit.running,
        created=_at(unit.created),
        started=_at(unit.started),
        start_over=_at(unit.start_over),
        checkpoint=_at(max(unit.checkpoints, default=None)),
        interruptions=unit.interruptions,
        returned=unit.returned,
        parallelism=unit.parallelism,
        stopping=unit.stopping,
        finished=finished,
    )


class _Seen(NamedTuple):
    """A scavenger pod, and what was read of it."""

    pod: Pod
    reading: PodReading
    facts: PodFacts


class SeenPods:
    """What was read of pods: read again only of those that are not the very objects that they were the last time."""

    def __init__(self) -> None:
        self._known: dict[str, _Seen] = {}

    def refresh(self, pods: Iterable[Pod]) -> dict[str, _Seen]:
        """By UID, those of these pods that are of jobs and take capacity, or have succeeded."""
        before, known = self._known, dict[str, _Seen]()
        for pod in pods:
            if names.LABEL_JOB in pod.metadata.labels and (occupies(pod) or pod.succeeded):
                seen = before.get(pod.metadata.uid)
                if seen is None or seen.pod is not pod:
                    reading = read(pod)
                    seen = _Seen(pod, reading, pod_facts(pod, reading))
                known[pod.metadata.uid] = seen
        self._known = known
        return known


def gangs(jobs: Iterable[ScavengerJob], pods: Iterable[Pod], seen: SeenPods | None = None) -> tuple[Gang, ...]:
    """Each unit (`scavenger_domain.unit.units`) with those of its pods that take capacity of a node; those without any
    are left out.

    The status does not speak of a start that takes a few seconds, nor of what is left of the last run; the Job of
    either has the ScavengerJob's own name. Pods of another run, or of a job that is deleted, are gangs of their own as
    long as they are stopping: they still use what they use, and it is about to come free.

    Args:
        jobs: all of them.
        pods: all of them.
        seen: what was read of pods before.
    """
    members: dict[str, list[PodReading]] = {}
    there = (seen or SeenPods()).refresh(pods)
    for one in there.values():
        members.setdefault(job_of(one.reading.unit), []).append(one.reading)
    found: list[Gang] = []
    for job in jobs:
        own = members.pop(job.key, None)
        if own is None:
            continue
        whole = unit_of(job)
        for unit in units(whole, own):
            present = tuple([there[pod.uid].facts for pod in unit.members if not pod.ended])
            if present:
                finished = [] if unit.task else [there[pod.uid].facts for pod in unit.members if pod.ended]
                found.append(gang_facts(job, unit, present, tuple(finished)))
        found.extend(_stopping_runs([pod for pod in own if pod.run != whole.run], there))
    for left in members.values():
        found.extend(_stopping_runs(left, there))
    return tuple(found)


def _stopping_runs(pods: Iterable[PodReading], there: Mapping[str, _Seen]) -> Iterable[Gang]:
    """The runs of these pods, as far as they are stopping; no pod of one is ever asked to go."""
    runs: dict[tuple[str, str], list[PodReading]] = {}
    for pod in pods:
        if pod.run and pod.terminating:
            runs.setdefault((pod.run, pod.unit), []).append(pod)
    for (run, key), members in sorted(runs.items()):
        facts = tuple([there[pod.uid].facts for pod in members])
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
