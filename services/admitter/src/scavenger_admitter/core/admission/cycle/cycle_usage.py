"""What is left to give during one admission cycle: capacity, load, quotas and shares, and what of it is promised.

Two views are kept. *Now*: what is free at this moment. *Soon*: what is free once the pods that were told to go have
left. A job starts on what is free now. A job within its queue's share that fits only soon gets a promise. Its capacity
is taken in both views, so that no other job takes it while the victims are terminating. No further victim is looked
for. A promise is kept nowhere: the next cycle makes it again from what it sees, after a restart as before.

Capacity and load only get worse within a cycle, so what was refused once is refused for every equal job, unasked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from scavenger_api.reclaimed import counted_as
from scavenger_api.states import QueueState

from scavenger_admitter.core.admission.cycle.cycle_limits import ByPool, CycleLimits
from scavenger_admitter.core.admission.cycle.cycle_quotas import CycleQuotas
from scavenger_admitter.core.admission.cycle.gang_looks import NOT_JUDGED, GangLooks
from scavenger_admitter.core.admission.cycle.turns import places_in_time
from scavenger_admitter.core.admission.departures import DepartedPod
from scavenger_admitter.core.admission.placement.empty_cluster import EmptyCluster
from scavenger_admitter.core.admission.placement.node_index import NodeIndex
from scavenger_admitter.core.admission.placement.placement import Room
from scavenger_admitter.core.admission.running import TerminatingPod
from scavenger_admitter.core.admission.shape import Shape
from scavenger_admitter.core.admission.shares import Shares
from scavenger_admitter.core.admission.snapshot import Candidate, Snapshot
from scavenger_admitter.core.admission.sums import add, sums_of
from scavenger_admitter.core.waits import Wait

_Kind = tuple[Shape, int]


class CycleUsage:
    """All that a cycle gives from. What is taken stays taken.

    Attributes:
        room: free now.
        after_termination: free once the terminating pods have left; the same object where none leaves.
        limits: the load, in both views.
        quotas: of the queues.
        shares: of the queues.
        gangs: how many kinds of gangs may still be looked at.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        index = snapshot.index
        if index is None or index.source is not snapshot.nodes:
            index = NodeIndex(snapshot.nodes)
        self._rooms = _rooms(snapshot, index)
        self.room, self.after_termination = self._rooms[0], self._rooms[-1]
        self._empty = EmptyCluster(index)
        released = _pending_release(snapshot)
        self.limits = CycleLimits(snapshot.limits, released, with_candidate=snapshot.counted_with_candidate)
        self.quotas = CycleQuotas(snapshot.queues)
        self.gangs = GangLooks(snapshot, self.room)
        self._impossible: dict[_Kind, Wait | None] = {}
        self._refused: dict[_Kind, Wait] = {}
        self._unpromised: set[_Kind] = set()
        self.shares = Shares(snapshot, [name for name in snapshot.queues if self._demands(name)])

    def reserve_pending_pods(self) -> None:
        """Regular pods that wait take their capacity first."""
        for room in self._rooms:
            for pod in self._snapshot.pending:
                room.keep(pod)

    def reserve_starts_under_way(self) -> None:
        """Scavenger pods that are not bound yet take theirs."""
        for room in self._rooms:
            for start in self._snapshot.reservations:
                room.reserve(start.shape, start.count, start.nodes)

    def reserve_for_regular_pods_that_may_come(self) -> None:
        """What jobs leave free is not there for them."""
        for room in self._rooms:
            for node, amounts in self._snapshot.expected.items():
                room.expect(node, amounts)

    def _demands(self, name: str) -> bool:
        """Whether a queue has demand: jobs that run or start, or a queued one that could ever start."""
        queue = self._snapshot.queues[name]
        if queue.state is QueueState.RELEASING:
            return False
        if any(queue.allocated.values()):
            return True
        line = queue.admits(self._snapshot.candidates.get(name, ()))
        return any(self.never(candidate) is None and not self.quotas.refusal(candidate) for candidate in line)

    def never(self, candidate: Candidate) -> Wait | None:
        """Why a job would not fit an empty cluster either, if so."""
        key = (candidate.shape, candidate.parallelism)
        if key not in self._impossible:
            self._impossible[key] = self._empty.impossible(*key)
        return self._impossible[key]

    # --- starts and promises ---

    def start(self, candidate: Candidate) -> tuple[str, ...] | Wait:
        """Take capacity and load for a job that starts now: its nodes; or why it cannot, and nothing is taken."""
        key = (candidate.shape, candidate.parallelism)
        wait = self._refused.get(key)
        if wait is None:
            found = self._find(candidate, candidate.parallelism)
            if not isinstance(found, Wait):
                self._count(candidate, found, starts=True)
                return found
            wait = found
        self._refused[key] = wait
        return wait

    def _find(self, candidate: Candidate, count: int) -> tuple[str, ...] | Wait:
        """Take capacity that is free now for `count` pods of a job; or why that cannot be, and nothing is taken."""
        pools = self.room.pools(candidate.shape)
        refused = self.limits.refusals(candidate, pools)
        barred = refused[pools[0]] if pools and len(refused) == len(pools) else None
        wait = barred if len(pools) == 1 else self._barred(candidate, pools, barred)
        if wait is None and candidate.parallelism > 1 and not self.gangs.take():
            wait = NOT_JUDGED
        if wait is not None:
            return wait
        fitting = [pool for pool in pools if pool not in refused] if refused else pools
        nodes = self._place(self.room, candidate, count, fitting)
        if nodes is None and len(pools) > 1 and count > 1:
            most = {pool: self.limits.most(candidate, pool) for pool in pools}
            nodes = self._place_over(self.room, candidate, count, most)
        if nodes is None:
            return barred or self.room.no_place(candidate.shape, count)
        for room in self._rooms[1:]:
            room.take(candidate.shape, nodes)
        return nodes

    def _barred(self, candidate: Candidate, pools: Sequence[str], barred: Wait | None) -> Wait | None:
        """Why a job starts in none of several pools that it may run in, or has none.

        barred: why the load of each of them keeps all of it from starting, if so: one pod of a gang may start where not
        all of it may.
        """
        if not pools:
            return self._shut(candidate)
        if barred is not None and candidate.parallelism > 1:
            return None if any(self.limits.most(candidate, pool) for pool in pools) else barred
        return barred

    def _shut(self, candidate: Candidate) -> Wait | None:
        """Why nothing starts in the pools that a job may run in, if all of them are shut."""
        pools = self.room.pools(candidate.shape, closed=True)
        shut = [self._snapshot.shut_pools.get(pool) for pool in pools]
        return shut[0] if shut and None not in shut else None

    def _place(self, room: Room, candidate: Candidate, count: int, pools: Sequence[str]) -> tuple[str, ...] | None:
        """Take capacity in the first of these pools that has enough for all of the pods."""
        for pool in pools:
            nodes = room.place(candidate.shape, count, pool)
            if nodes is not None:
                return nodes
        return None

    def _place_over(self, room: Room, candidate: Candidate, count: int, most: ByPool) -> tuple[str, ...] | None:
        """Take capacity for a gang in several pools: as much in each as fits there, and no more than `most`.

        A gang whose pods have to keep apart starts within one pool. How many fit is known before the first is taken.
        """
        if candidate.shape.apart:
            return None
        parts: dict[str, int] = {}
        left = count
        for pool, limit in most.items():
            parts[pool] = room.holding(candidate.shape, min(limit, left), pool) if min(limit, left) > 0 else 0
            left -= parts[pool]
        if left > 0:
            return None
        found: list[str] = []
        for pool, part in parts.items():
            found += (part and room.place(candidate.shape, part, pool)) or ()
        return tuple(found)

    def by_pool(self, nodes: Iterable[str]) -> ByPool:
        """How many pods come to each pool that come to these nodes."""
        if not self._snapshot.pools:
            return {"": len(tuple(nodes))}
        return Counter(self._snapshot.pool(node) for node in nodes)

    def pinned(self, candidate: Candidate) -> bool:
        """Whether a job has to stay on the nodes that it was granted. It has to when it may run in a pool that has no
        capacity for more of it, as the scheduler knows no thresholds."""
        pools = self.room.pools(candidate.shape) if self._snapshot.pools else ()
        return len(pools) > 1 and any(self.limits.refusal(candidate, pool) is not None for pool in pools)

    def move(self, candidate: Candidate, count: int) -> tuple[str, ...] | None:
        """Take capacity for `count` pods of a job that runs, and the load of all of it. That is what it would need to
        start again with these pods elsewhere and the others where they are. None, and nothing taken, when it could not.
        Its queue holds it already."""
        pools = self.room.pools(candidate.shape) or ("",)
        open_pools = [pool for pool in pools if self.limits.refusal(candidate, pool) is None]
        nodes = self._place(self.room, candidate, count, open_pools) if open_pools else None
        if nodes is not None:
            for room in self._rooms[1:]:
                room.take(candidate.shape, nodes)
            self.limits.take(candidate, {self._snapshot.pool(nodes[0]): candidate.parallelism}, starts=True)
        return nodes

    def promise(self, candidate: Candidate) -> bool:
        """Keep capacity and load for a job that starts when the terminating pods have left; False when that does not
        suffice."""
        key = (candidate.shape, candidate.parallelism)
        changes = self.limits.falls or len(self._rooms) > 1
        if not changes or key in self._unpromised or self._refused.get(key) is NOT_JUDGED:
            return False
        soon, count, room = self.limits.soon, candidate.parallelism, self.after_termination
        pools = room.pools(candidate.shape) or ("",)
        fitting = [pool for pool in pools if self.limits.fits(candidate, soon, {pool: count})]
        nodes = self._place(room, candidate, count, fitting) if fitting else None
        if nodes is None and len(pools) > 1 and count > 1:
            most = {pool: self.limits.most(candidate, pool, soon) for pool in pools}
            nodes = self._place_over(room, candidate, count, most)
        if nodes is None:
            self._unpromised.add(key)
            return False
        for room in self._rooms[:-1]:
            room.take(candidate.shape, nodes)
        self._count(candidate, nodes, starts=False)
        return True

    def pools_of(self, candidate: Candidate) -> frozenset[str]:
        """The pools where a job may run, be they open or not."""
        return frozenset(self.room.pools(candidate.shape, closed=True))

    def keep_turn(self, candidate: Candidate, before: tuple[str, ...]) -> tuple[str, ...] | None:
        """Keep capacity and load for a job until enough scavenger pods have left (`turns.py`): the nodes. None, and
        nothing is taken, where it would not fit without them either. before: where its capacity was kept until now."""
        nodes = self.places_in_time(candidate, before)
        if nodes is not None:
            for room in self._rooms:
                room.take(candidate.shape, nodes)
            self._count(candidate, nodes, starts=False)
        return nodes

    def places_in_time(self, candidate: Candidate, before: tuple[str, ...] = ()) -> tuple[str, ...] | None:
        """Where a job will fit first when scavenger pods leave; None where it would not without them either. It looks
        at every node."""
        seen = self._snapshot
        empty = self.limits.without(_scavenged(seen))
        if not seen.pools and not self.limits.fits(candidate, empty, {"": candidate.parallelism}):
            return None
        nodes = places_in_time(candidate, self.room, seen.nodes, seen.shown, before)
        if nodes is None or (seen.pools and not self.limits.fits(candidate, empty, self.by_pool(nodes))):
            return None
        return nodes

    def take_promised(self, candidate: Candidate, nodes: tuple[str, ...]) -> None:
        """The capacity that victims free is not for other jobs any more, whether it is free yet or not."""
        self.room.take(candidate.shape, nodes)
        self._count(candidate, nodes, starts=False)

    def _count(self, candidate: Candidate, nodes: tuple[str, ...], *, starts: bool) -> None:
        pods = self.by_pool(nodes) if self._snapshot.pools else {"": candidate.parallelism}
        self.limits.take(candidate, pods, starts=starts)
        self.shares.allocate(candidate.queue, candidate.key, candidate.shape.counted, candidate.parallelism)
        self.quotas.take(candidate)


def _rooms(snapshot: Snapshot, index: NodeIndex) -> tuple[Room, ...]:
    """What is free now, and, where pods are terminating, once these have left."""
    closed, headroom = snapshot.closed_nodes | snapshot.shunned, snapshot.headroom
    ranks = [-node.ordinary_share for node in index.nodes] if snapshot.packs else None
    terminating: dict[str, dict[str, int]] = {}
    for pod in snapshot.terminating:
        add(terminating.setdefault(pod.node, {}), pod.requests)
    leaving = _leaving(snapshot) if headroom.left else {}
    now = Room(index, closed, headroom=headroom, ranks=ranks, pools=snapshot.pools)
    if not terminating and not leaving:
        return (now,)
    return now, Room(index, closed, terminating, headroom, leaving, ranks, snapshot.pools)


def _leaving(snapshot: Snapshot) -> dict[str, dict[str, int]]:
    """What the figures of each node still show of pods that are terminating, or have left since."""
    leaving: dict[str, dict[str, int]] = {}
    pods: tuple[TerminatingPod | DepartedPod, ...] = (*snapshot.terminating, *snapshot.departed)
    for pod in pods:
        add(leaving.setdefault(pod.node, {}), snapshot.shown.on_node(pod.requests, pod.started).items())
    return leaving


def _scavenged(snapshot: Snapshot) -> dict[tuple[str, str], int]:
    """What the load shows of all scavenger pods, by pool and resource."""
    shown = snapshot.shown
    if not snapshot.pools:
        return {("", name): shown.part(name, amount) for name, amount in snapshot.scavenged.items()}
    total: dict[tuple[str, str], int] = {}
    for node in snapshot.nodes.values():
        if node.counts:
            of_jobs = counted_as(node.scavenger.items())
            _add_in(total, snapshot.pool(node.name), {r: shown.part(r, n) for r, n in of_jobs.items()})
    return total


def _pending_release(snapshot: Snapshot) -> dict[tuple[str, str], int]:
    """What the load still shows of pods that are terminating, or have left since it was measured, by pool and resource.
    The pool of pods that only the status of their job mentions is not known: they count in the default pool."""
    shown, seen = snapshot.shown, sums_of(pod.counted for pod in snapshot.departed)
    said = {name: amount - seen.get(name, 0) for name, amount in snapshot.recently_terminated.items()}
    total = {("", name): shown.part(name, amount) for name, amount in said.items()}
    for gone in snapshot.departed:
        _add_in(total, snapshot.pool(gone.node), shown.of(gone.requests, gone.started))
    for pod in snapshot.terminating:
        if pod.counts:
            _add_in(total, snapshot.pool(pod.node), shown.of(pod.requests, pod.started))
    return total


def _add_in(total: dict[tuple[str, str], int], pool: str, amounts: Mapping[str, int]) -> None:
    for name, amount in amounts.items():
        total[pool, name] = total.get((pool, name), 0) + amount
