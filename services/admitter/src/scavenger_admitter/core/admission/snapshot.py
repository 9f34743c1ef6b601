"""What one admission cycle sees.

A `Snapshot` is immutable and shares nothing that later changes, so `plan_admissions` is a pure function of it. It is
taken from a `ClusterState` (`state.py`).

Units: cpu in millicores, memory in bytes, all else in whole units, `pods` is a resource. Times are microseconds since
the epoch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from scavenger_api.names import DEFAULT_QUEUE
from scavenger_api.states import QueueState
from scavenger_domain.gang import Place, Rank, line_order
from scavenger_domain.node_affinity import Terms
from scavenger_domain.selectors import Selector

from scavenger_admitter.core.admission.departures import DepartedPod
from scavenger_admitter.core.admission.load import LoadLimit
from scavenger_admitter.core.admission.placement.headroom import UNKNOWN, Headroom
from scavenger_admitter.core.admission.placement.inputs import Amounts, NodeView, PendingPod
from scavenger_admitter.core.admission.placement.node_index import NodeIndex
from scavenger_admitter.core.admission.running import Gang, TerminatingPod
from scavenger_admitter.core.admission.shape import Shape
from scavenger_admitter.core.admission.shown import BY_REQUESTS, Shown
from scavenger_admitter.core.waits import Wait


def namespace_of(key: str) -> str:
    """The namespace of a `namespace/name`."""
    return key.partition("/")[0]


@dataclass(frozen=True, slots=True)
class Grant:
    """Capacity that one decision of admission gave to a job, or to tasks of an array.

    A run of a job is granted once, so the run identifies its grant. All tasks of an array have one run. So each grant
    of an array has a number, and the pods of its tasks carry that number (annotation `scavenger.dev/grant`).

    Attributes:
        run: of the job, as its pods carry it (annotation `scavenger.dev/run`, else the name of the Job).
        shape: of each pod.
        pods: how many.
        nodes: where the plan put them (`Start.nodes`); may be fewer.
        number: the moment of the decision, in microseconds, and never one that this process gave before; 0 for a job.
    """

    run: str
    shape: Shape
    pods: int
    nodes: tuple[str, ...] = ()
    number: int = 0


@dataclass(frozen=True, slots=True)
class Reservation:
    """Capacity that is held for pods of one job which no node shows yet.

    Attributes:
        key: namespace/name of the job.
        shape: of each pod.
        count: how many pods are still to be bound.
        nodes: where they were planned; may be fewer than `count`.
        queue: that the capacity counts for.
        grant: whose pods these are; None for a pod that holds capacity by itself, and for an interrupted job.
        pod: the pod that holds capacity by itself, `namespace/name`.
    """

    key: str
    shape: Shape
    count: int
    nodes: tuple[str, ...] = ()
    queue: str = DEFAULT_QUEUE
    grant: Grant | None = None
    pod: str = ""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A waiting job.

    Attributes:
        key: namespace/name.
        uid: of the ScavengerJob.
        queue: it waits in.
        shape: of each pod of the gang.
        parallelism: pods in the gang.
        interrupted_count: how often others interrupted it; more goes first.
        queued_at: its place in the queue, microseconds since the epoch; of an array, at least when its last task
            started.
        not_before: not looked at before, microseconds since the epoch; after a start that failed.
        kind: jobs of one kind and namespace meet the same quotas, policies and webhooks.
        priority: among jobs of its namespace; more goes first.
        tasks: of an array, how many may start now; 0 for a job.
        volumes: what the volumes of its claims require of a node, as far as that is known.
    """

    key: str
    uid: str
    queue: str
    shape: Shape
    parallelism: int = 1
    interrupted_count: int = 0
    queued_at: int = 0
    not_before: int = 0
    kind: int = 0
    priority: int = 0
    tasks: int = 0
    volumes: tuple[Terms, ...] = ()

    @property
    def namespace(self) -> str:
        """Of the job."""
        return namespace_of(self.key)

    @property
    def order(self) -> Place:
        """Place in the queue before priorities count (`scavenger_domain.gang.line_order`)."""
        return line_order(self.interrupted_count, self.queued_at, self.uid)

    @property
    def own_order(self) -> Place:
        """Place among the jobs of its namespace."""
        return line_order(self.interrupted_count, self.queued_at, self.uid, self.priority)

    @property
    def rank(self) -> Rank:
        """What `scavenger_domain.gang.by_priority` asks for."""
        return self.namespace, self.interrupted_count, self.priority, self.tasks > 0


@dataclass(frozen=True, slots=True)
class Turn:
    """The waiting job whose turn is kept (`turns.py`).

    Attributes:
        candidate: the job.
        nodes: where its capacity is kept, one entry for each pod; empty until a cycle has chosen them.
    """

    candidate: Candidate
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class QueueView:
    """A queue.

    Attributes:
        name: its name.
        weight: of its share, at least 1.
        quota: the most its jobs may count as together, per resource named.
        state: Open, Closed, Releasing.
        allocated: what its running jobs and starts under way count as; filled in by `ClusterState.snapshot`.
        selector: of the namespaces whose jobs may use it; None for all.
        namespaces: those that it selects; None for all. Filled in by `ClusterState.snapshot`.
        namespace_weights: where namespaces take turns within the queue, the weights of those that have one; else None.
        by_namespace: `allocated` by namespace, where they do. Filled in by `ClusterState.snapshot`.
    """

    name: str
    weight: int = 1
    quota: Amounts = field(default_factory=dict)
    state: QueueState = QueueState.OPEN
    allocated: Amounts = field(default_factory=dict)
    selector: Selector | None = None
    namespaces: frozenset[str] | None = None
    namespace_weights: Mapping[str, int] | None = None
    by_namespace: Mapping[str, Amounts] = field(default_factory=dict)

    def weight_of(self, namespace: str) -> int:
        """What a namespace counts as within the queue, at least 1."""
        return max(1, (self.namespace_weights or {}).get(namespace, 1))

    @property
    def bars_some(self) -> bool:
        """Whether there may be jobs that do not start from it, whatever the free capacity."""
        return self.state is not QueueState.OPEN or self.namespaces is not None

    def selects(self, candidate: Candidate) -> bool:
        """Whether a job's namespace may use the queue."""
        return self.namespaces is None or candidate.namespace in self.namespaces

    def admits(self, line: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
        """Those of a line that may start from the queue, in the same order."""
        if self.state is not QueueState.OPEN:
            return ()
        return line if self.namespaces is None else tuple(filter(self.selects, line))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything one admission cycle decides on.

    Attributes:
        now: time of the snapshot, microseconds since the epoch.
        nodes: all nodes by name.
        pending: regular pods about to take capacity, in the order they do.
        reservations: starts under way, by job.
        candidates: waiting jobs per queue, in order; also of queues that do not exist.
        queues: the queues by name; `default` is always there.
        capacity: allocatable, summed over the nodes that count; without reclaimed capacity, which is part of it.
        requested: what all pods bound to the nodes that count, and starts under way, count as.
        scavenged: what all scavenger jobs count as: their pods, wherever bound, and starts under way.
        terminating: scavenger pods that have been told to go and still fill their nodes.
        recently_terminated: what has gone since the load was measured, which still shows it.
        departed: the pods that were seen to go of it; of others only the statuses of their jobs tell.
        overlap: the most that pods count as which are both in the load and counted beside it (`load_overlap.py`).
        gangs: the jobs all of whose pods run.
        limits: the load rule, one entry per limited resource, and pool with levels of its own that is not shut.
        shown: what the load of these limits has of scavenger pods.
        pools: names of the pools with levels of their own; the nodes of all others are of the default pool.
        shut_pools: why nothing starts in a pool, by name, where it does in another one; the default pool has none.
        counted_with_candidate: whether the load is counted with the job that asks.
        closed_nodes: nodes at or above a level of their own, or of a pool that is shut: no new job starts there.
        shunned: nodes that start no pods for now (`node_trust.py`): no new job starts there either.
        tested: nodes that take one start, which shows whether they start pods again.
        headroom: of nodes with a level of their own.
        expected: what jobs leave free for regular pods that may come, by node (`scavenger_domain.expected_pods`).
        packs: whether jobs start where regular pods request most, for an autoscaler removes the other nodes.
        shut: why nothing may start, if so.
        blocked: waiting jobs that must not start, whatever the capacity: pods of theirs are alive, or their start
            is under way.
        index: of exactly these nodes, where it is known already; it says nothing that they do not.
        futile: jobs and namespaces whose last starts failed, and whether no job is interrupted for them now.
        returning: waiting jobs whose capacity was kept for them until now, in the order of `Candidate.order`.
        turns: whose turns are kept, one at most in each pool.
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
    terminating: tuple[TerminatingPod, ...] = ()
    recently_terminated: Amounts = field(default_factory=dict)
    departed: tuple[DepartedPod, ...] = ()
    overlap: Amounts = field(default_factory=dict)
    gangs: tuple[Gang, ...] = ()
    limits: tuple[LoadLimit, ...] = ()
    shown: Shown = BY_REQUESTS
    pools: frozenset[str] = frozenset()
    shut_pools: Mapping[str, Wait] = field(default_factory=dict)
    counted_with_candidate: bool = True
    closed_nodes: frozenset[str] = frozenset()
    shunned: frozenset[str] = frozenset()
    tested: frozenset[str] = frozenset()
    headroom: Headroom = UNKNOWN
    expected: Mapping[str, Amounts] = field(default_factory=dict)
    packs: bool = False
    shut: Wait | None = None
    blocked: Mapping[str, Wait] = field(default_factory=dict)
    futile: Mapping[str, bool] = field(default_factory=dict)
    returning: tuple[Candidate, ...] = ()
    turns: tuple[Turn, ...] = ()
    index: NodeIndex | None = field(default=None, repr=False, compare=False)

    def pool(self, node: str) -> str:
        """The pool of a node whose levels hold there; empty for the default pool."""
        if not self.pools:
            return ""
        view = self.nodes.get(node)
        return view.pool if view is not None and view.pool in self.pools else ""
