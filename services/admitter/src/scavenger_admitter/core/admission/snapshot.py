"""What one admission cycle sees, and the state it is taken from.

`ClusterState` is fed one change at a time (pods, nodes, queues, waiting jobs, starts) and keeps every sum a
cycle needs, so that an event costs microseconds and a `Snapshot` of thousands of nodes and a hundred thousand
pods a few milliseconds: only what changed since the last one is made anew. A `Snapshot` is immutable and
shares nothing that later changes, so `plan_admissions` is a pure function of it.

Changes may come in any order: a pod bound to a node that is not known yet counts as soon as the node appears.

Units: cpu in millicores, memory in bytes, all else in whole units, `pods` is a resource. Times are
microseconds since the epoch.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from scavenger_api.names import ANNOTATION_RUN, DEFAULT_QUEUE, LABEL_JOB, LABEL_QUEUE, RESOURCE_RECLAIMED_CPU
from scavenger_api.quantity import amounts
from scavenger_api.reasons import WaitReason
from scavenger_api.reclaimed import counted_as
from scavenger_api.states import QueueState
from scavenger_api.times import micros, parse_time
from scavenger_domain.nodes import counts, is_place
from scavenger_domain.requests import RECLAIMED_RESOURCES
from scavenger_domain.taints import lasting
from scavenger_kube.kinds import Node, Pod, Taint, condition

from scavenger_admitter.core.admission.load import PPM, LoadLimit, LoadRule
from scavenger_admitter.core.admission.running import Gang, Leaving, RunningJobs
from scavenger_admitter.core.admission.shape import Requests, Shape, counted, requests_of
from scavenger_admitter.core.waits import Wait

Amounts = Mapping[str, int]
"""Amounts by resource, in the units of this module."""

NOT_STARTED: Final = 1 << 62
"""Start second of a pod that has not started: later than any measurement."""


# --- what a cycle sees --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NodeView:
    """One node.

    Attributes:
        name: its name.
        allocatable: what it offers to pods, reclaimed capacity included.
        used: requests of all pods bound to it that have not ended, as they are placed.
        scavenger: the part of `used` that scavenger pods request.
        labels: its labels.
        taints: those that keep pods away, whatever becomes of the node; not those of a cordon or a silent kubelet.
        place: pods that tolerate the taints may come now (`scavenger_domain.nodes.is_place`).
        counts: a place without any taint outside the configured list: the load is measured over these.
    """

    name: str
    allocatable: Amounts
    used: Amounts = field(default_factory=dict)
    scavenger: Amounts = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    place: bool = True
    counts: bool = True


@dataclass(frozen=True, slots=True)
class PendingPod:
    """An ordinary pod without a node, not gated: it is about to take room, and outranks every scavenger job.

    Attributes:
        key: namespace/name.
        shape: what it asks of a node.
        nominated: the node preemption made room on, or empty.
        priority: of the pod.
        created: creationTimestamp as written.
    """

    key: str
    shape: Shape
    nominated: str = ""
    priority: int = 0
    created: str = ""

    @property
    def order(self) -> tuple[bool, int, str, str]:
        """Those with a nominated node first, then as the scheduler takes them: priority, then age."""
        return (not self.nominated, -self.priority, self.created, self.key)


@dataclass(frozen=True, slots=True)
class Reservation:
    """Room of a start under way: pods of one job that no node shows yet.

    Attributes:
        key: namespace/name of the job.
        shape: of each pod.
        count: how many pods are still to be bound.
        nodes: where they were planned; may be fewer than `count`.
    """

    key: str
    shape: Shape
    count: int
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Candidate:
    """A waiting job.

    Attributes:
        key: namespace/name.
        uid: of the ScavengerJob.
        queue: it waits in.
        shape: of each pod of the gang.
        parallelism: pods in the gang.
        interrupted_count: how often it was interrupted; more goes first.
        queued_at: its place in line, microseconds since the epoch.
        not_before: not looked at before, microseconds since the epoch; after a start that did not come off.
    """

    key: str
    uid: str
    queue: str
    shape: Shape
    parallelism: int = 1
    interrupted_count: int = 0
    queued_at: int = 0
    not_before: int = 0

    @property
    def order(self) -> tuple[int, int, str, str]:
        """Place in line inside a queue.

        1. highest interruptedCount: better finish what we started;
        2. first in, first out;
        3. uid, so that the order is the same whoever computes it.
        """
        return (-self.interrupted_count, self.queued_at, self.uid, self.key)


@dataclass(frozen=True, slots=True)
class QueueView:
    """A queue.

    Attributes:
        name: its name.
        weight: of its share, at least 1.
        quota: the most its jobs may count as together, per resource named.
        state: Open, Closed, Releasing.
        allocated: what its running jobs and starts under way count as; filled in by `ClusterState.snapshot`.
    """

    name: str
    weight: int = 1
    quota: Amounts = field(default_factory=dict)
    state: QueueState = QueueState.OPEN
    allocated: Amounts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything one admission cycle decides on.

    Attributes:
        now: time of the snapshot, microseconds since the epoch.
        nodes: all nodes by name.
        pending: ordinary pods about to take room, in the order they do.
        reservations: starts under way, by job.
        candidates: waiting jobs per queue, in line; also of queues that do not exist.
        queues: the queues by name; `default` is always there.
        capacity: allocatable, summed over the nodes that count; without reclaimed capacity, which is part of it.
        requested: what all pods bound to the nodes that count, and starts under way, count as.
        scavenged: what all scavenger jobs count as: their pods, wherever bound, and starts under way.
        leaving: scavenger pods that have been told to go and still fill their nodes.
        settling: what was taken back since the load was measured, and has left: the measurement still shows it.
        gangs: the jobs all of whose pods run.
        limits: the load rule, one entry per limited resource.
        counted_with_candidate: whether the load is counted with the job that asks.
        closed_nodes: nodes at or above a level of their own: no new job starts there.
        shut: why nothing may start, if so.
        blocked: waiting jobs that must not start, whatever the room: pods of theirs are alive, or their start
            is under way.
    """

    now: int = 0
    nodes: Mapping[str, NodeView] = field(default_factory=dict)
    pending: tuple[PendingPod, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    candidates: Mapping[str, tuple[Candidate, ...]] = field(default_factory=dict)
    queues: Mapping[str, QueueView] = field(default_factory=dict)
    capacity: Amounts = field(default_factory=dict)
    requested: Amounts = field(default_factory=dict)
    scavenged: Amounts = field(default_factory=dict)
    leaving: tuple[Leaving, ...] = ()
    settling: Amounts = field(default_factory=dict)
    gangs: tuple[Gang, ...] = ()
    limits: tuple[LoadLimit, ...] = ()
    counted_with_candidate: bool = True
    closed_nodes: frozenset[str] = frozenset()
    shut: Wait | None = None
    blocked: Mapping[str, Wait] = field(default_factory=dict)


# --- sums ---------------------------------------------------------------------------------------------------


def add(sums: dict[str, int], requests: Iterable[tuple[str, int]], times: int = 1) -> None:
    """Add requests to sums in place; zeros vanish, so that sums do not remember what is gone."""
    for name, value in requests:
        total = sums.get(name, 0) + value * times
        if total:
            sums[name] = total
        else:
            sums.pop(name, None)


class _Starts:
    """Requests of scavenger pods by the second they started in, to sum those that started since a time."""

    __slots__ = ("_seconds", "_sums")

    def __init__(self) -> None:
        self._seconds: list[int] = []
        self._sums: dict[int, dict[str, int]] = {}

    def add(self, second: int, requests: Requests, times: int) -> None:
        sums = self._sums.get(second)
        if sums is None:
            sums = self._sums[second] = {}
            insort(self._seconds, second)
        add(sums, requests, times)
        if not sums:
            del self._sums[second]
            del self._seconds[bisect_left(self._seconds, second)]

    def since(self, observed_at: int) -> dict[str, int]:
        """Sums from the second of `observed_at` (microseconds) on: pod times have no finer resolution."""
        total: dict[str, int] = {}
        for second in self._seconds[bisect_left(self._seconds, observed_at // 1_000_000) :]:
            add(total, self._sums[second].items())
        return total


# --- what is kept of an object ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _PodFacts:
    """What is kept of a pod. A status update that changes none of this costs one comparison."""

    key: str
    uid: str
    node: str
    requests: Requests
    ended: bool
    job: str  # namespace/name of its ScavengerJob, empty for an ordinary pod
    queue: str = ""
    run: str = ""
    leaves_by: int = 0  # told to be gone by then; scavenger pods only
    started: int = NOT_STARTED  # second; scavenger pods only
    shape: Shape | None = None  # of unbound pods only: a bound one has its place
    pending: PendingPod | None = None

    @property
    def counted(self) -> Requests:
        """What it counts as in shares and load."""
        return counted(self.requests)


@dataclass(frozen=True, slots=True)
class _NodeFacts:
    allocatable: Amounts
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    place: bool
    counts: bool


@dataclass(slots=True)
class _NodeSums:
    """Sums of one node name; there as long as the node is, or a pod is bound to that name."""

    node: _NodeFacts | None = None
    used: dict[str, int] = field(default_factory=dict)
    scavenger: dict[str, int] = field(default_factory=dict)
    scavengers: dict[str, _PodFacts] = field(default_factory=dict)
    counts: bool = False


@dataclass(slots=True)
class _Assumed:
    """A start of ours whose pods are not all bound yet."""

    run: str
    shape: Shape
    parallelism: int
    queue: str
    nodes: list[str]
    # Pods of this run that need no reservation any more: bound, ended or deleted. By uid, and never taken
    # back: a pod that was bound and then deleted has given its room back, it does not get a second
    # reservation.
    released: set[str] = field(default_factory=set)

    @property
    def remaining(self) -> int:
        return self.parallelism - len(self.released)

    def release(self, pod: _PodFacts) -> None:
        if pod.uid in self.released:
            return
        self.released.add(pod.uid)
        if pod.node in self.nodes:
            self.nodes.remove(pod.node)
        elif len(self.nodes) > self.remaining:
            self.nodes.pop()


def _pod_facts(pod: Pod) -> _PodFacts:
    meta, spec = pod.metadata, pod.spec
    label = meta.labels.get(LABEL_JOB, "")
    requests = requests_of(pod)
    unbound = not (spec.node_name or pod.ended or meta.deletion_timestamp)
    shape = Shape.of(dict(requests), spec.node_selector, spec.tolerations) if unbound else None
    if not label:
        pending = shape and not _gated(pod)
        return _PodFacts(
            key=meta.key,
            uid=meta.uid,
            node=spec.node_name,
            requests=requests,
            ended=pod.ended,
            job="",
            pending=_pending(pod, shape) if shape and pending else None,
        )
    return _PodFacts(
        key=meta.key,
        uid=meta.uid,
        node=spec.node_name,
        requests=requests,
        ended=pod.ended,
        job=f"{meta.namespace}/{label}",
        queue=meta.labels.get(LABEL_QUEUE, DEFAULT_QUEUE),
        run=_run(pod),
        leaves_by=_leaves_by(pod),
        started=_started(pod),
        shape=shape,
    )


def _run(pod: Pod) -> str:
    """The run a scavenger pod belongs to: its own annotation, or the name of its Job where it has none."""
    owner = pod.metadata.controller
    return pod.metadata.annotations.get(ANNOTATION_RUN) or (owner.name if owner else "")


def _leaves_by(pod: Pod) -> int:
    """The end of its grace period, microseconds since the epoch; 0 when nobody told it to go."""
    at = parse_time(pod.metadata.deletion_timestamp)
    return micros(at) if at is not None else 0


def _gated(pod: Pod) -> bool:
    """Held back by a scheduling gate: it takes no room before somebody opens the gate."""
    scheduled = condition(pod.status.conditions, "PodScheduled")
    return scheduled is not None and scheduled.reason == "SchedulingGated"


def _pending(pod: Pod, shape: Shape) -> PendingPod:
    return PendingPod(
        key=pod.metadata.key,
        shape=shape,
        nominated=pod.status.nominated_node_name,
        priority=pod.spec.priority or 0,
        created=pod.metadata.creation_timestamp or "",
    )


def _started(pod: Pod) -> int:
    """Second in which the last of a pod's running containers started: from then on metrics show it."""
    if pod.status.phase != "Running":
        return NOT_STARTED
    running = [c.state.running.started_at for c in pod.status.container_statuses if c.state.running]
    times = [parse_time(text) for text in running] or [parse_time(pod.status.start_time)]
    known = [micros(time) // 1_000_000 for time in times if time is not None]
    return max(known, default=NOT_STARTED)


def _node_facts(node: Node, tolerated_taints: frozenset[str]) -> _NodeFacts:
    return _NodeFacts(
        allocatable=amounts(node.status.allocatable),
        labels=node.metadata.labels,
        taints=lasting(node.spec.taints),
        place=is_place(node),
        counts=counts(node, tolerated_taints),
    )


# --- the state ----------------------------------------------------------------------------------------------


class ClusterState:
    """Pods, nodes, queues, waiting jobs and starts under way, with all sums kept up to date.

    Not safe for use from several threads; every method is quick and none awaits.

    Args:
        tolerated_taints: keys of NoSchedule and NoExecute taints that do not take a node out of the load.
    """

    def __init__(self, *, tolerated_taints: Iterable[str] = ()) -> None:
        self._tolerated = frozenset(tolerated_taints)
        self._pods: dict[str, _PodFacts] = {}
        self._nodes: dict[str, _NodeSums] = {}
        self._views: dict[str, NodeView] = {}
        self._stale_views: set[str] = set()
        # over the nodes that count
        self._capacity: dict[str, int] = {}
        self._used: dict[str, int] = {}
        self._starts = _Starts()
        # scavenger pods by job
        self._by_job: dict[str, dict[str, _PodFacts]] = {}
        self.running: Final = RunningJobs(self._by_job)
        self._unbound: dict[str, dict[str, _PodFacts]] = {}
        self._allocated: dict[str, dict[str, int]] = {}
        self._reclaimed: dict[str, int] = {}
        self._assumed: dict[str, _Assumed] = {}
        # ordinary pods about to take room
        self._pending: dict[str, PendingPod] = {}
        self._pending_view: tuple[PendingPod, ...] | None = ()
        # waiting jobs
        self._queues: dict[str, QueueView] = {}
        self._waiting: dict[str, Candidate] = {}
        self._lines: dict[str, list[Candidate]] = {}
        self._line_views: dict[str, tuple[Candidate, ...]] = {}

    # --- nodes ---

    def apply_node(self, node: Node) -> None:
        """A node was added or changed."""
        facts = _node_facts(node, self._tolerated)
        sums = self._nodes.setdefault(node.metadata.name, _NodeSums())
        if sums.node != facts:
            self._set_node(node.metadata.name, sums, facts)

    def delete_node(self, name: str) -> None:
        """A node is gone. Pods still bound to it stay known, and count again if it comes back."""
        sums = self._nodes.get(name)
        if sums is not None and sums.node is not None:
            self._set_node(name, sums, None)
            self._drop_empty(name, sums)

    def _set_node(self, name: str, sums: _NodeSums, facts: _NodeFacts | None) -> None:
        self._count(sums, -1)
        sums.node, sums.counts = facts, facts is not None and facts.counts
        self._count(sums, +1)
        self._stale_views.add(name)

    def _count(self, sums: _NodeSums, times: int) -> None:
        """Take a node into the sums over the nodes that count, or out of them."""
        if not sums.counts or sums.node is None:
            return
        # Reclaimed capacity is no capacity beside the node's: what is placed on it counts as cpu and memory.
        offered = ((name, value) for name, value in sums.node.allocatable.items() if name not in RECLAIMED_RESOURCES)
        add(self._capacity, offered, times)
        add(self._used, counted_as(sums.used.items()).items(), times)
        for pod in sums.scavengers.values():
            self._starts.add(pod.started, pod.counted, times)

    def _drop_empty(self, name: str, sums: _NodeSums) -> None:
        if sums.node is None and not sums.used:
            del self._nodes[name]

    # --- pods ---

    def apply_pod(self, pod: Pod) -> None:
        """A pod was added or changed; a new uid under an old name replaces the old pod."""
        facts = _pod_facts(pod)
        old = self._pods.get(facts.key)
        if old == facts:
            return
        if old is not None:
            self._remove_pod(old, gone=old.uid != facts.uid)
        self._pods[facts.key] = facts
        self._account(facts, +1)
        if facts.job:
            self._by_job.setdefault(facts.job, {})[facts.key] = facts
            self.running.touched(facts, there=True)
            if facts.node or facts.ended:
                self._release(facts)

    def delete_pod(self, key: str) -> None:
        """The pod `namespace/name` is gone from the API."""
        old = self._pods.pop(key, None)
        if old is not None:
            self._remove_pod(old, gone=True)

    def _remove_pod(self, pod: _PodFacts, *, gone: bool) -> None:
        self._account(pod, -1)
        if pod.job:
            _drop(self._by_job, pod.job, pod.key)
            self.running.touched(pod, there=False)
            if gone:
                self._release(pod)

    def _account(self, pod: _PodFacts, times: int) -> None:
        """Put a pod into all sums, or take it out; what has ended is in none."""
        if pod.ended:
            return
        if pod.node:
            self._account_bound(pod, times)
        elif pod.job:
            self._account_unbound(pod, times)
        elif pod.pending is not None:
            self._pending_view = None
            if times > 0:
                self._pending[pod.key] = pod.pending
            else:
                del self._pending[pod.key]

    def _account_bound(self, pod: _PodFacts, times: int) -> None:
        sums = self._nodes.setdefault(pod.node, _NodeSums())
        add(sums.used, pod.requests, times)
        each = pod.counted
        if sums.counts:
            add(self._used, each, times)
        if pod.job:
            add(sums.scavenger, pod.requests, times)
            self._allocate(pod.queue, each, times)
            add(self._reclaimed, ((name, value) for name, value in pod.requests if name in RECLAIMED_RESOURCES), times)
            if times > 0:
                sums.scavengers[pod.key] = pod
            else:
                del sums.scavengers[pod.key]
            if sums.counts:
                self._starts.add(pod.started, each, times)
        self._stale_views.add(pod.node)
        self._drop_empty(pod.node, sums)

    def _account_unbound(self, pod: _PodFacts, times: int) -> None:
        if pod.shape is None:  # being deleted before it got a node: it will not take any room
            return
        if times > 0:
            self._unbound.setdefault(pod.job, {})[pod.key] = pod
        else:
            _drop(self._unbound, pod.job, pod.key)

    def _allocate(self, queue: str, each: Requests, times: int) -> None:
        sums = self._allocated.setdefault(queue, {})
        add(sums, each, times)
        if not sums:
            del self._allocated[queue]

    @property
    def reclaimed(self) -> Amounts:
        """What all bound pods together take of reclaimed capacity: counted as millicores and bytes."""
        return counted_as(self._reclaimed.items())

    # --- starts under way ---

    def assume(
        self,
        key: str,
        run: str,
        shape: Shape,
        parallelism: int,
        *,
        queue: str = DEFAULT_QUEUE,
        nodes: Iterable[str] = (),
    ) -> None:
        """We start a job: hold its room until its pods are bound, whatever the informers show so far.

        The room of each pod of the run is held until that pod is bound, has ended or is deleted, and after
        the last one the assumption is over. Call it before the Job is created, and for a Job found with pods
        missing after a restart. Assuming a key again replaces what was assumed before.

        Args:
            key: namespace/name of the job.
            run: identity of the run, as its pods carry it (annotation `scavenger.dev/run`, else the Job's
                name).
            shape: of each pod.
            parallelism: pods in the gang.
            queue: of the job.
            nodes: where the plan put the pods (`Start.nodes`); without, the next cycle looks for places.
        """
        assumed = self._assumed[key] = _Assumed(run, shape, parallelism, queue, list(nodes)[:parallelism])
        for pod in list(self._by_job.get(key, {}).values()):
            if pod.node or pod.ended:
                self._release(pod)
        if assumed.remaining <= 0:
            self._assumed.pop(key, None)

    def forget(self, key: str) -> None:
        """The start of a job was undone, or is over: hold nothing for it beyond the pods that exist."""
        self._assumed.pop(key, None)

    @property
    def assumed(self) -> Mapping[str, str]:
        """Runs of the starts that room is held for, by job."""
        return {key: start.run for key, start in self._assumed.items()}

    def _release(self, pod: _PodFacts) -> None:
        start = self._assumed.get(pod.job)
        if start is not None and start.run == pod.run:
            start.release(pod)
            if start.remaining <= 0:
                del self._assumed[pod.job]

    def _reservations(self) -> list[tuple[str, Reservation]]:
        """Starts under way as (queue, reservation), by job: assumed ones, and unbound pods nobody assumed."""
        found: list[tuple[str, Reservation]] = []
        for key in sorted(self._assumed.keys() | self._unbound.keys()):
            start = self._assumed.get(key)
            if start is not None:
                nodes = tuple(start.nodes)
                found.append((start.queue, Reservation(key, start.shape, start.remaining, nodes)))
            for _, pod in sorted(self._unbound.get(key, {}).items()):
                if pod.shape is not None and (start is None or start.run != pod.run):
                    found.append((pod.queue, Reservation(key, pod.shape, 1)))
        return found

    # --- queues and waiting jobs ---

    def apply_queue(self, queue: QueueView) -> None:
        """A queue was added or changed; `allocated` is ignored, it is counted here."""
        self._queues[queue.name] = queue

    def delete_queue(self, name: str) -> None:
        """A queue is gone; its jobs wait until it is back."""
        self._queues.pop(name, None)

    def apply_candidate(self, candidate: Candidate) -> None:
        """A job waits, or what it waits with has changed."""
        old = self._waiting.get(candidate.key)
        if old == candidate:
            return
        if old is not None:
            self._leave_line(old)
        self._waiting[candidate.key] = candidate
        insort(self._lines.setdefault(candidate.queue, []), candidate, key=_order)
        self._line_views.pop(candidate.queue, None)

    def delete_candidate(self, key: str) -> None:
        """A job waits no longer."""
        old = self._waiting.pop(key, None)
        if old is not None:
            self._leave_line(old)

    def _leave_line(self, candidate: Candidate) -> None:
        line = self._lines[candidate.queue]
        del line[bisect_left(line, candidate.order, key=_order)]
        self._line_views.pop(candidate.queue, None)
        if not line:
            del self._lines[candidate.queue]

    # --- the snapshot ---

    def snapshot(self, *, now: int, rule: LoadRule) -> Snapshot:
        """What a cycle at `now` (microseconds since the epoch) sees, under this load rule."""
        reservations = self._reservations()
        requested, scavenged = self._totals(reservations)
        return Snapshot(
            now=now,
            nodes=_honest(self._node_views(), rule.crowded_nodes),
            pending=self._pending_pods(),
            reservations=tuple(reservation for _, reservation in reservations),
            candidates=self._candidates(),
            queues=self._queue_views(reservations),
            capacity=dict(self._capacity),
            requested=requested,
            scavenged=scavenged,
            leaving=self.running.leaving(now, {name: sums.counts for name, sums in self._nodes.items()}),
            settling=self.running.settling(rule.observed_at),
            gangs=self.running.gangs(),
            limits=self._limits(rule, reservations),
            counted_with_candidate=rule.counted_with_candidate,
            closed_nodes=rule.closed_nodes,
            shut=rule.shut,
            blocked=self._blocked(),
        )

    def _totals(self, reservations: list[tuple[str, Reservation]]) -> tuple[dict[str, int], dict[str, int]]:
        """Requests over the nodes that count, and of all scavenger jobs; starts under way are in both."""
        requested: dict[str, int] = dict(self._used)
        scavenged: dict[str, int] = {}
        for sums in self._allocated.values():
            add(scavenged, sums.items())
        for _, reservation in reservations:
            add(requested, reservation.shape.counted, reservation.count)
            add(scavenged, reservation.shape.counted, reservation.count)
        return requested, scavenged

    def _node_views(self) -> dict[str, NodeView]:
        for name in self._stale_views:
            sums = self._nodes.get(name)
            if sums is None or sums.node is None:
                self._views.pop(name, None)
                continue
            node = sums.node
            self._views[name] = NodeView(
                name=name,
                allocatable=node.allocatable,
                used=dict(sums.used),
                scavenger=dict(sums.scavenger),
                labels=node.labels,
                taints=node.taints,
                place=node.place,
                counts=node.counts,
            )
        self._stale_views.clear()
        return dict(self._views)

    def _pending_pods(self) -> tuple[PendingPod, ...]:
        if self._pending_view is None:
            self._pending_view = tuple(sorted(self._pending.values(), key=_pending_order))
        return self._pending_view

    def _candidates(self) -> dict[str, tuple[Candidate, ...]]:
        for queue, line in self._lines.items():
            if queue not in self._line_views:
                self._line_views[queue] = tuple(line)
        return {queue: self._line_views[queue] for queue in self._lines}

    def _queue_views(self, reservations: list[tuple[str, Reservation]]) -> dict[str, QueueView]:
        queues = {DEFAULT_QUEUE: QueueView(DEFAULT_QUEUE), **self._queues}
        allocated = {name: dict(self._allocated.get(name, {})) for name in queues}
        for name, reservation in reservations:
            if name in allocated:
                add(allocated[name], reservation.shape.counted, reservation.count)
        return {name: replace(queue, allocated=allocated[name]) for name, queue in queues.items()}

    def _limits(self, rule: LoadRule, reservations: list[tuple[str, Reservation]]) -> tuple[LoadLimit, ...]:
        if rule.shut is not None:
            return ()
        by_requests = rule.load_ppm is None or rule.observed_at is None
        requested = dict(self._used) if by_requests else self._starts.since(rule.observed_at or 0)
        for _, reservation in reservations:
            add(requested, reservation.shape.counted, reservation.count)
        load = dict(rule.load_ppm or ())
        return tuple(
            LoadLimit(
                resource=name,
                allocatable=self._capacity.get(name, 0),
                requested=requested.get(name, 0),
                # A resource that has a level but no measurement counts as full, not as empty.
                load_ppm=0 if by_requests else load.get(name, PPM),
                admission_ppm=admission,
            )
            for name, admission in rule.admission_ppm
        )

    def _blocked(self) -> dict[str, Wait]:
        """No second life beside the first: jobs in line that have pods alive, or are just being started."""
        blocked = dict.fromkeys(self._assumed.keys() & self._waiting.keys(), _PODS_STARTING)
        for key in self._by_job.keys() & self._waiting.keys() - blocked.keys():
            alive = sorted((pod.node, pod.key) for pod in self._by_job[key].values() if not pod.ended)
            if alive:
                blocked[key] = _pods_remain(*alive[0])
        return blocked


def _honest(nodes: dict[str, NodeView], crowded: Mapping[str, int]) -> dict[str, NodeView]:
    """The nodes with what they really have to offer of reclaimed CPU, which may be less than what is placed there."""
    for name in crowded.keys() & nodes.keys():
        view = nodes[name]
        nodes[name] = replace(view, allocatable={**view.allocatable, RESOURCE_RECLAIMED_CPU: crowded[name]})
    return nodes


_PODS_STARTING: Final = Wait(WaitReason.STARTING, "its start is under way")


def _pods_remain(node: str, pod: str) -> Wait:
    if not node:
        return Wait(
            WaitReason.PODS_REMAIN, f"pod {pod} of its last run still exists; the job starts when it is gone", ""
        )
    return Wait(
        WaitReason.PODS_REMAIN,
        f"pod {pod} of its last run has not ended on node {node}; the job starts again when that pod has"
        f" ended, or when the pod or node {node} is deleted",
        node,
    )


def _order(candidate: Candidate) -> tuple[int, int, str, str]:
    return candidate.order


def _pending_order(pod: PendingPod) -> tuple[bool, int, str, str]:
    return pod.order


def _drop(groups: dict[str, dict[str, _PodFacts]], group: str, key: str) -> None:
    members = groups.get(group)
    if members is not None and members.pop(key, None) is not None and not members:
        del groups[group]
