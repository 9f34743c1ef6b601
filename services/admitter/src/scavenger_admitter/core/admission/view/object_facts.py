"""What is kept of a pod or a node. An update that changes none of it costs one comparison."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from scavenger_api.names import ANNOTATION_GRANT, ANNOTATION_RUN, DEFAULT_QUEUE, LABEL_QUEUE
from scavenger_api.quantity import amounts
from scavenger_api.times import micros, parse_time
from scavenger_domain.gang import job_of, unit
from scavenger_domain.nodes import PLAIN_POOL, counts, pool_of, schedulable
from scavenger_domain.pod_reading import measured_from
from scavenger_domain.taints import lasting
from scavenger_kube.kinds import Node, Pod, Taint

from scavenger_admitter.core.admission.placement.inputs import Amounts, PendingPod
from scavenger_admitter.core.admission.shape import Requests, Shape, counted, requests_of
from scavenger_admitter.core.admission.units import SECOND
from scavenger_admitter.core.admission.view.pending import Verdict, verdict

NOT_STARTED: Final = 1 << 62
"""Start second of a pod that has not started: later than any measurement."""


MAX_DIGITS: Final = 18
"""Of the number of a grant, in microseconds since the epoch. Whatever is longer is none."""

UNTRIED: Final = 60 * SECOND
"""No running scheduler has the `schedulerName` of a pod that no scheduler has looked at for so long."""


@dataclass(frozen=True, slots=True)
class PodFacts:
    """What is kept of a pod."""

    key: str
    uid: str
    node: str
    requests: Requests
    ended: bool
    job: str  # namespace/name of its ScavengerJob, empty for a regular pod
    queue: str = ""
    run: str = ""
    grant: int = 0  # the number of the grant that it was created for; of tasks only
    succeeded: bool = False  # ended by itself, and well; scavenger pods only
    leaves_by: int = 0  # told to be gone by then; scavenger pods only
    created: int = 0  # second; scavenger pods only
    started: int = NOT_STARTED  # second; scavenger pods only
    shape: Shape | None = None  # of unbound pods only: a bound one has its place
    pending: PendingPod | None = None
    task: str = ""  # the unit of a pod of an array (`scavenger_domain.gang.unit`)

    @property
    def unit(self) -> str:
        """What it is part of: its job, or one task of an array."""
        return self.task or self.job

    @property
    def settled(self) -> bool:
        """Whether it has a node, or needs none any more."""
        return bool(self.node) or self.ended

    def same_run(self, other: PodFacts) -> bool:
        """Whether this is an earlier state of the other: no run but the first one counts a pod as one of its own."""
        return (self.uid, self.unit, self.run, self.grant) == (other.uid, other.unit, other.run, other.grant)

    @property
    def counted(self) -> Requests:
        """What it counts as in shares and load."""
        return counted(self.requests)


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What is kept of a node. counts_held: whether it counts while a scavenger pod is on it."""

    allocatable: Amounts
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    schedulable: bool
    counts: bool
    counts_held: bool
    pool: str = PLAIN_POOL


def pod_facts(pod: Pod) -> PodFacts:
    """What is kept of this pod. Raises QuantityError."""
    meta, spec = pod.metadata, pod.spec
    part_of = unit(pod)
    job = job_of(part_of)
    requests = requests_of(pod)
    unbound = not (spec.node_name or pod.ended or meta.deletion_timestamp)
    shape = Shape.of(dict(requests), spec.node_selector, spec.tolerations) if unbound else None
    if not job:
        return PodFacts(
            key=meta.key,
            uid=meta.uid,
            node=spec.node_name,
            requests=requests,
            ended=pod.ended,
            job="",
            pending=_pending(pod, shape, said) if shape and (said := verdict(pod)) is not None else None,
        )
    return PodFacts(
        key=meta.key,
        uid=meta.uid,
        node=spec.node_name,
        requests=requests,
        ended=pod.ended,
        job=job,
        task=part_of if part_of != job else "",
        queue=meta.labels.get(LABEL_QUEUE, DEFAULT_QUEUE),
        run=_run(pod),
        grant=_grant(pod) if part_of != job else 0,
        succeeded=pod.succeeded,
        leaves_by=_leaves_by(pod),
        created=_second(meta.creation_timestamp),
        started=_started(pod),
        shape=shape,
    )


def _run(pod: Pod) -> str:
    """The run a scavenger pod belongs to: its own annotation, or the name of its Job where it has none."""
    owner = pod.metadata.controller
    return pod.metadata.annotations.get(ANNOTATION_RUN) or (owner.name if owner else "")


def _grant(pod: Pod) -> int:
    """The number of the grant that the pod of a task carries; 0 where it carries none."""
    text = pod.metadata.annotations.get(ANNOTATION_GRANT, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS else 0


def _leaves_by(pod: Pod) -> int:
    """The end of its grace period, microseconds since the epoch; 0 when it was not deleted."""
    at = parse_time(pod.metadata.deletion_timestamp)
    return micros(at) if at is not None else 0


def _second(text: str | None) -> int:
    at = parse_time(text)
    return micros(at) // SECOND if at is not None else 0


def _pending(pod: Pod, shape: Shape, said: Verdict) -> PendingPod:
    created = parse_time(pod.metadata.creation_timestamp)
    return PendingPod(
        key=pod.metadata.key,
        shape=shape,
        nominated=pod.status.nominated_node_name,
        priority=pod.spec.priority or 0,
        created=pod.metadata.creation_timestamp or "",
        barred=said.barred,
        untried_until=micros(created) + UNTRIED if created is not None and not said.tried else 0,
    )


def _started(pod: Pod) -> int:
    """Second from which metrics show a pod (`scavenger_domain.pod_reading.measured_from`)."""
    at = measured_from(pod)
    return NOT_STARTED if at is None else micros(at) // SECOND


def node_facts(node: Node, tolerated_taints: frozenset[str], pool_ignores: frozenset[str] = frozenset()) -> NodeFacts:
    """What is kept of this node; `tolerated_taints`: as in `scavenger_domain.nodes.counts`; `pool_ignores`: as in
    `pool_of` there."""
    return NodeFacts(
        allocatable=amounts(node.status.allocatable),
        labels=node.metadata.labels,
        taints=lasting(node.spec.taints),
        schedulable=schedulable(node),
        counts=counts(node, tolerated_taints),
        counts_held=counts(node, tolerated_taints, holds=True),
        pool=pool_of(node, pool_ignores),
    )
