"""The state that snapshots are taken from.

`ClusterState` is fed one change at a time (pods, nodes, queues, waiting jobs, starts) and keeps every sum a cycle
needs. So an event costs microseconds, and a `Snapshot` of thousands of nodes and a hundred thousand pods a few
milliseconds: only what changed since the last one is built again. What pods take of nodes is in `node_sums.py`.

Changes may come in any order: a pod bound to a node that is not known yet counts as soon as the node appears.

Units as in `snapshot.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final

from scavenger_api.names import DEFAULT_QUEUE, RESOURCE_RECLAIMED_CPU
from scavenger_api.reasons import WaitReason
from scavenger_api.reclaimed import counted_as
from scavenger_domain.expected_pods import kept_for_regular_pods
from scavenger_domain.gang import by_priority
from scavenger_domain.nodes import autoscaled
from scavenger_domain.requests import RECLAIMED_RESOURCES
from scavenger_domain.soundness import CHECKS
from scavenger_kube.kinds import Node, Pod

from scavenger_admitter.core.admission.departures import DepartedPod
from scavenger_admitter.core.admission.futile import FutileStarts
from scavenger_admitter.core.admission.load import PPM, LoadLimit, LoadRule
from scavenger_admitter.core.admission.placement.headroom import Headroom
from scavenger_admitter.core.admission.placement.inputs import Amounts, NodeView
from scavenger_admitter.core.admission.queue_access import QueueAccess
from scavenger_admitter.core.admission.running import RunningJobs
from scavenger_admitter.core.admission.shown import Shown
from scavenger_admitter.core.admission.snapshot import (
    Candidate,
    QueueView,
    Reservation,
    Snapshot,
    Turn,
    namespace_of,
)
from scavenger_admitter.core.admission.sums import add, sums_of
from scavenger_admitter.core.admission.units import SECOND
from scavenger_admitter.core.admission.view.as_created import ShapesAsCreated
from scavenger_admitter.core.admission.view.held_capacity import HeldCapacity
from scavenger_admitter.core.admission.view.load_overlap import overlap
from scavenger_admitter.core.admission.view.node_sums import NodeSums, PoolSums
from scavenger_admitter.core.admission.view.node_trust import OPEN, NodeTrust
from scavenger_admitter.core.admission.view.object_facts import NOT_STARTED, PodFacts, pod_facts
from scavenger_admitter.core.admission.view.refused import RefusedStarts
from scavenger_admitter.core.admission.view.soundness import assert_sound
from scavenger_admitter.core.admission.view.waiting_jobs import WaitingJobs
from scavenger_admitter.core.waits import Wait

UNANSWERED_SECONDS: Final = 10.0
"""Jobs are told of creates that hang in their namespace for longer."""

NONE_CLOSED: Final[Mapping[str, float]] = {}


class ClusterState:
    """Pods, nodes, queues, waiting jobs and starts under way, with all sums kept up to date.

    Not safe for use from several threads; every method is quick and none awaits.

    Args:
        tolerated_taints: keys of NoSchedule and NoExecute taints that do not take a node out of the load.
        pool_ignores: keys of taints and names of devices that tell no pools apart.
        start_backoff: the first and the longest delay of starts that are refused, seconds.
        keep_scale_down: whether jobs start where regular pods request most; None: from when a node
            of an autoscaler is seen.
    """

    def __init__(
        self,
        *,
        tolerated_taints: Iterable[str] = (),
        pool_ignores: Iterable[str] = (),
        start_backoff: tuple[float, float] = (5.0, 300.0),
        keep_scale_down: bool | None = None,
    ) -> None:
        self._keep_scale_down = keep_scale_down
        self._pods: dict[str, PodFacts] = {}
        self._nodes = NodeSums(tolerated_taints, pool_ignores)
        # scavenger pods by unit (`scavenger_domain.gang.unit`)
        self._by_unit: dict[str, dict[str, PodFacts]] = {}
        self.running: Final = RunningJobs(self._by_unit)
        self._unbound: dict[str, dict[str, PodFacts]] = {}
        self._allocated: dict[str, dict[str, int]] = {}
        self._allocated_in: dict[str, dict[str, dict[str, int]]] = {}  # by queue and namespace
        self._reclaimed: dict[str, int] = {}
        self.held: Final = HeldCapacity(self._by_unit, self._unbound)
        self.assumed_starts: Final = self.held.starts
        self.kept_room: Final = self.held.kept
        self.futile: Final = FutileStarts()
        self.trust: Final = NodeTrust()
        self._closed = OPEN
        self.refused: Final = RefusedStarts(
            first=round(start_backoff[0] * SECOND), most=round(start_backoff[1] * SECOND)
        )
        # waiting jobs
        self._queues: dict[str, QueueView] = {}
        self._access = QueueAccess()
        self._waiting = WaitingJobs()
        self._as_created = ShapesAsCreated()
        self.turns: tuple[Turn, ...] = ()
        """Whose turn is kept, as the last cycle decided."""

    # --- nodes ---

    def apply_node(self, node: Node) -> None:
        """A node was added or changed."""
        self._nodes.apply(node)
        if self._keep_scale_down is None and autoscaled(node):
            self._keep_scale_down = True

    def delete_node(self, name: str) -> None:
        """A node is gone. Pods still bound to it stay known, and count again if it comes back."""
        self._nodes.delete(name)
        self.trust.deleted(name)

    # --- pods ---

    def apply_pod(self, pod: Pod) -> None:
        """A pod was added or changed; a new uid under an old name replaces the old pod. Raises QuantityError."""
        self.apply_pod_facts(pod_facts(pod))

    def apply_pod_facts(self, facts: PodFacts) -> None:
        """The same from what is kept of a pod."""
        old = self._pods.get(facts.key)
        if old == facts:
            return
        if old is not None:
            self._remove_pod(old, gone=old.uid != facts.uid)
            if facts.ended or old.uid != facts.uid:
                self._nodes.depart(old)
        self._pods[facts.key] = facts
        self._account(facts, +1)
        if facts.job:
            self._by_unit.setdefault(facts.unit, {})[facts.key] = facts
            self.running.touched(facts, there=True)
            if facts.settled and not (old is not None and old.settled and old.same_run(facts)):
                self.assumed_starts.release(facts)
            if old is not None and old.uid == facts.uid and old.started == NOT_STARTED != facts.started:
                self.trust.started(facts.node, facts.job, facts.requests)

    def may_be_placed(self, key: str) -> bool:
        """Whether the regular pod `namespace/name` waits for a node that would take it if no pod ran there, as far as
        its scheduler (`pending.py`) and the sizes of nodes say."""
        facts = self._pods.get(key)
        pending = facts.pending if facts is not None else None
        return pending is not None and (bool(pending.nominated) or self._nodes.may_hold(pending.shape))

    def delete_pod(self, key: str) -> None:
        """The pod `namespace/name` is gone from the API."""
        old = self._pods.pop(key, None)
        if old is not None:
            self._remove_pod(old, gone=True)
            self._nodes.depart(old)

    def _remove_pod(self, pod: PodFacts, *, gone: bool) -> None:
        self._account(pod, -1)
        if pod.job:
            _drop(self._by_unit, pod.unit, pod.key)
            self.running.touched(pod, there=False)
            if gone and not pod.settled:
                self.assumed_starts.release(pod)
            if gone and pod.task:
                self.running.delete(pod.task)

    def _account(self, pod: PodFacts, times: int) -> None:
        """Put a pod into all sums, or take it out; what has ended is in none."""
        if pod.ended:
            return
        if pod.node:
            self._account_bound(pod, times)
        elif pod.job:
            self._account_unbound(pod, times)
        elif pod.pending is not None:
            if times > 0:
                self.held.add(pod.pending)
            else:
                self.held.remove(pod.key)

    def _account_bound(self, pod: PodFacts, times: int) -> None:
        self._nodes.account(pod, times)
        if pod.job:
            self._allocate(pod, times)
            add(self._reclaimed, ((name, value) for name, value in pod.requests if name in RECLAIMED_RESOURCES), times)

    def _account_unbound(self, pod: PodFacts, times: int) -> None:
        if pod.shape is None:  # being deleted before it got a node: it will not take any capacity
            return
        if times > 0:
            self._unbound.setdefault(pod.job, {})[pod.key] = pod
        else:
            _drop(self._unbound, pod.job, pod.key)

    def _allocate(self, pod: PodFacts, times: int) -> None:
        namespaces = self._allocated_in.setdefault(pod.queue, {})
        for by, name in ((self._allocated, pod.queue), (namespaces, namespace_of(pod.key))):
            sums = by.setdefault(name, {})
            add(sums, pod.counted, times)
            if not sums:
                del by[name]
        if not namespaces:
            del self._allocated_in[pod.queue]

    @property
    def reclaimed(self) -> Amounts:
        """What all bound pods together take of reclaimed capacity: counted as millicores and bytes."""
        return counted_as(self._reclaimed.items())

    # --- queues and waiting jobs ---

    def apply_queue(self, queue: QueueView) -> None:
        """A queue is new or changed; `allocated`, `namespaces` and `by_namespace` are ignored: they are found here."""
        self._queues[queue.name] = queue
        self._access.apply_queue(queue.name, queue.selector)

    def delete_queue(self, name: str) -> None:
        """A queue is gone; its jobs wait until it is back."""
        self._queues.pop(name, None)
        self._access.delete_queue(name)

    def apply_namespace(self, name: str, labels: Mapping[str, str] | None) -> bool:
        """A namespace was added or changed, or is gone (None); whether that changes who may use a queue."""
        return self._access.apply_namespace(name, labels)

    def apply_candidate(self, candidate: Candidate) -> None:
        """A job waits, or what it waits with has changed."""
        self._waiting.apply(self._with_trust(self.as_created(candidate)))

    def _with_trust(self, candidate: Candidate) -> Candidate:
        """The job, avoiding the nodes that are closed to it."""
        shape = candidate.shape.avoiding(self._closed.to(candidate.namespace, candidate.shape.requests))
        return candidate if shape is candidate.shape else replace(candidate, shape=shape)

    def as_created(self, candidate: Candidate) -> Candidate:
        """The job, asking for what pods of its kind were seen to ask for (`as_created.py`)."""
        return self._as_created.of(candidate)

    def learn_shape(self, written: Candidate, pod: Pod) -> None:
        """A run of this job, as its spec says it, has this pod. Raises QuantityError."""
        if not self._as_created.learn(written, pod):
            return
        for line in self._waiting.lines().values():
            for one in line:
                if (one.namespace, one.kind) == (written.namespace, written.kind):
                    self._waiting.apply(self._with_trust(self.as_created(replace(one, shape=written.shape))))

    def delete_candidate(self, key: str) -> None:
        """A job waits no longer."""
        self._waiting.delete(key)

    def groups(self, starts: Iterable[Candidate]) -> list[list[Candidate]]:
        """Jobs that may have exchanged places with these (`WaitingJobs.groups`)."""
        return self._waiting.groups(starts)

    def move(self, places: Mapping[str, int]) -> None:
        """Jobs, as far as they wait, have other places in their queue (`WaitingJobs.move`)."""
        self._waiting.move(places)

    def forget_job(self, key: str) -> None:
        """A job is not to be seen any more. Its pods count as long as they exist, and so does a start that is assumed
        until it is forgotten."""
        self.kept_room.release(key)
        self.futile.forget(key)
        self.trust.forget_job(key)
        self.refused.ended(key)
        self.delete_candidate(key)
        self.running.delete(key)

    def candidate(self, key: str) -> Candidate | None:
        """A job that waits, as it does now; None for one that does not."""
        return self._waiting.get(key)

    # --- the snapshot ---

    def snapshot(self, *, now: int, rule: LoadRule, closed: Mapping[str, float] = NONE_CLOSED) -> Snapshot:
        """What a cycle at `now` (microseconds since the epoch) sees, under this load rule. closed: namespaces of which
        no job starts, and since how many seconds creates of Jobs hang there."""
        self.kept_room.expire(now)
        closed_nodes = self.trust.closed(now)
        if closed_nodes.some != self._closed.some:
            self._closed = closed_nodes
            self._waiting.change(self._with_trust)
        waiting = self._waiting.keys()
        reservations = [*self.assumed_starts.reservations(), *self.kept_room.reservations(waiting)]
        returning = [one for key in self.kept_room.keys() & waiting if (one := self._waiting.get(key)) is not None]
        requested, scavenged = self._totals(reservations)
        nodes, base = _honest(self._nodes.views(), rule.crowded_nodes), rule.open
        departed = self._nodes.departures.since(base.measured_since, now)
        said = self.running.recently_terminated(base.measured_since, now)
        snapshot = Snapshot(
            now=now,
            nodes=nodes,
            index=None if rule.crowded_nodes else self._nodes.index(nodes),
            pending=self.held.pods(now),
            reservations=tuple(reservations),
            candidates=self._waiting.lines(),
            queues=self._queue_views(reservations),
            capacity=dict(self._nodes.all.capacity),
            requested=requested,
            scavenged=scavenged,
            terminating=self.running.terminating(now, self._nodes.counting, self.kept_room.keys()),
            recently_terminated=_recently_terminated(departed, said),
            departed=departed,
            overlap=overlap(self._nodes, base, departed, said),
            gangs=self.running.gangs(),
            limits=self._limits(rule, reservations),
            shown=Shown.under(base),
            pools=frozenset(rule.pools),
            shut_pools=rule.shut_pools if rule.pools else {},
            counted_with_candidate=rule.counted_with_candidate,
            closed_nodes=_closed_nodes(rule, nodes),
            shunned=closed_nodes.everyone,
            tested=closed_nodes.tested,
            headroom=self._headroom(rule),
            expected=self._expected(rule, nodes),
            packs=bool(self._keep_scale_down),
            shut=rule.nothing_starts,
            blocked=self._blocked(closed, now),
            futile=self.futile.barred(now),
            turns=self._turns(),
            returning=tuple(by_priority(sorted(returning, key=lambda one: one.order), lambda one: one.rank)),
        )
        if CHECKS.on:
            assert_sound(snapshot, self._pods.values(), self.assumed_starts.released())
        return snapshot

    def _turns(self) -> tuple[Turn, ...]:
        waiting = ((self._waiting.get(turn.candidate.key), turn.nodes) for turn in self.turns)
        return tuple(Turn(waits, nodes) for waits, nodes in waiting if waits is not None)

    def _totals(self, reservations: list[Reservation]) -> tuple[dict[str, int], dict[str, int]]:
        """Requests over the nodes that count, and of all scavenger jobs; starts under way are in both."""
        requested: dict[str, int] = dict(self._nodes.all.used)
        scavenged: dict[str, int] = {}
        for sums in self._allocated.values():
            add(scavenged, sums.items())
        for reservation in reservations:
            add(requested, reservation.shape.counted, reservation.count)
            add(scavenged, reservation.shape.counted, reservation.count)
        return requested, scavenged

    def _queue_views(self, reservations: list[Reservation]) -> dict[str, QueueView]:
        queues = {DEFAULT_QUEUE: QueueView(DEFAULT_QUEUE), **self._queues}
        allocated = {name: dict(self._allocated.get(name, {})) for name in queues}
        shared = {
            name: {namespace: dict(sums) for namespace, sums in self._allocated_in.get(name, {}).items()}
            for name, queue in queues.items()
            if queue.namespace_weights is not None
        }
        for reservation in reservations:
            if reservation.queue in allocated:
                add(allocated[reservation.queue], reservation.shape.counted, reservation.count)
            if reservation.queue in shared:
                sums = shared[reservation.queue].setdefault(namespace_of(reservation.key), {})
                add(sums, reservation.shape.counted, reservation.count)
        return {
            name: replace(
                queue,
                allocated=allocated[name],
                namespaces=self._access.namespaces(name),
                by_namespace=shared.get(name, {}),
            )
            for name, queue in queues.items()
        }

    def _expected(self, rule: LoadRule, nodes: Mapping[str, NodeView]) -> dict[str, Amounts]:
        kept = rule.kept
        on = {node for turn in self.turns for node in turn.nodes} if kept else ()
        return kept_for_regular_pods(nodes.values(), kept, on) if kept else {}

    def _headroom(self, rule: LoadRule) -> Headroom:
        observed_at = rule.open.observed_at
        unseen = self._nodes.recent.by_node(observed_at) if rule.headroom and observed_at is not None else {}
        return Headroom(rule.headroom, unseen, frozenset(rule.crowded_nodes))

    def _limits(self, rule: LoadRule, reservations: list[Reservation]) -> tuple[LoadLimit, ...]:
        if not rule.pools:
            return self._limits_of(rule, "", reservations)
        limits = self._limits_of(rule, "", reservations, rule.pools)
        for name, pool in rule.pools.items():
            limits += self._limits_of(pool, name, reservations, rule.pools)
        return limits

    def _limits_of(
        self, rule: LoadRule, pool: str, reservations: Iterable[Reservation], apart: Collection[str] = ()
    ) -> tuple[LoadLimit, ...]:
        """The limits of one pool. apart: the pools with levels of their own; what is in none of them is the default
        pool's."""
        if rule.shut is not None:
            return ()
        since = rule.measured_since
        capacity, requested = self._sums_in(pool, since, apart)
        for reservation in reservations:
            here = self._planned_in(reservation, pool, apart) if apart else reservation.count
            add(requested, reservation.shape.counted, here)
        load, gives_way = dict(rule.load_ppm or ()), dict(rule.gives_way_ppm)
        return tuple(
            LoadLimit(
                resource=name,
                allocatable=capacity.get(name, 0),
                requested=requested.get(name, 0),
                # A resource that has a level but no measurement counts as full, not as empty.
                load_ppm=0 if since is None else load.get(name, PPM),
                admission_ppm=admission,
                gives_way_ppm=gives_way.get(name, 0),
                pool=pool,
            )
            for name, admission in rule.admission_ppm
        )

    def _sums_in(
        self, pool: str, since: int | None, apart: Collection[str]
    ) -> tuple[Mapping[str, int], dict[str, int]]:
        """What the nodes of a pool can allocate, and what pods on them request: all of it, or what started since."""

        def requested(sums: PoolSums) -> dict[str, int]:
            return dict(sums.used) if since is None else sums.starts.since(since)

        if pool:
            own = self._nodes.pools.get(pool)
            return (own.capacity, requested(own)) if own is not None else ({}, {})
        capacity, taken = dict(self._nodes.all.capacity), requested(self._nodes.all)
        for name in apart:
            other = self._nodes.pools.get(name)
            if other is not None:
                add(capacity, other.capacity.items(), -1)
                add(taken, requested(other).items(), -1)
        return capacity, taken

    def _planned_in(self, reservation: Reservation, pool: str, apart: Collection[str]) -> int:
        """How many pods of a start under way come to a pool. Those without a node come to where the first has one."""
        found = Counter(self._pool_of(node, apart) for node in reservation.nodes[: reservation.count])
        rest = reservation.count - found.total()
        first = self._pool_of(reservation.nodes[0], apart) if reservation.nodes else ""
        return found[pool] + (rest if pool == first else 0)

    def _pool_of(self, node: str, apart: Collection[str]) -> str:
        pool = self._nodes.pool_of(node)
        return pool if pool in apart else ""

    def _blocked(self, closed: Mapping[str, float], now: int) -> dict[str, Wait]:
        """No second life beside the first: queued jobs that have pods alive, or are just being started. And those of
        namespaces of which no job starts, or which refuse them."""
        waits = {namespace: _closed(namespace, seconds) for namespace, seconds in closed.items()}
        waiting = self._waiting.keys() if closed else ()
        blocked = {key: wait for key in waiting if (wait := waits.get(key.partition("/")[0])) is not None}
        blocked.update(dict.fromkeys(self.assumed_starts.keys() & self._waiting.keys(), _PODS_STARTING))
        for key in self._by_unit.keys() & self._waiting.keys():
            if key in blocked:
                continue
            alive = sorted((pod.node, pod.key) for pod in self._by_unit[key].values() if self._may_compute(pod))
            if alive:
                blocked[key] = _pods_remain(*alive[0])
        return blocked | self.refused.blocked(self._waiting.lines(), blocked, now)

    def _may_compute(self, pod: PodFacts) -> bool:
        """Whether a job waits for the end of this pod. On a node that is lost or deleted the end is not reported, and
        the lifecycle of the job decides how long it is waited for."""
        unseen = pod.leaves_by and pod.node and not self._nodes.counting.get(pod.node)
        return not pod.ended and not unseen


def _closed_nodes(rule: LoadRule, nodes: Mapping[str, NodeView]) -> frozenset[str]:
    """With the nodes of pools that are shut."""
    shut = rule.shut_pools if rule.pools else {}
    if not shut:
        return rule.closed_nodes
    closed = {n for n, one in nodes.items() if (one.pool if one.pool in rule.pools else "") in shut}
    return rule.closed_nodes | closed


def _recently_terminated(departed: Iterable[DepartedPod], said: Mapping[str, int]) -> dict[str, int]:
    """As was seen, or as statuses say: what this process has seen begins with it."""
    seen = sums_of(pod.counted for pod in departed)
    return {name: max(seen.get(name, 0), said.get(name, 0)) for name in sorted(seen.keys() | said.keys())}


def _honest(nodes: dict[str, NodeView], crowded: Mapping[str, int]) -> dict[str, NodeView]:
    """The nodes with what they really have to offer of reclaimed CPU, which may be less than what is placed there."""
    for name in crowded.keys() & nodes.keys():
        view = nodes[name]
        nodes[name] = replace(view, allocatable={**view.allocatable, RESOURCE_RECLAIMED_CPU: crowded[name]})
    return nodes


_PODS_STARTING: Final = Wait(WaitReason.STARTING, "its start is under way")


def _closed(namespace: str, seconds: float) -> Wait:
    """Why jobs of a namespace wait of which no job may be granted a start: as many are granted as may, or their creates
    hang. A busy API server lets creates hang for seconds, and must not get hundreds of writes that say so."""
    if seconds < UNANSWERED_SECONDS:
        return Wait(WaitReason.NEXT_CYCLE, "as many jobs of its namespace as may start at once are starting", namespace)
    return Wait(
        WaitReason.CREATION_UNANSWERED,
        f"the API server, or an admission webhook, does not answer the creation of Jobs in namespace {namespace}",
        namespace,
    )


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


def _drop(groups: dict[str, dict[str, PodFacts]], group: str, key: str) -> None:
    members = groups.get(group)
    if members is not None and members.pop(key, None) is not None and not members:
        del groups[group]
