"""What is left to give during one admission cycle: room, load, quotas and shares, and what of it is promised.

Two views are kept. *Now*: what is free at this moment. *Soon*: what is free once the pods that were told to go have
left. A job starts on what is free now. A job within its queue's share that fits only soon gets a promise: its room is
taken in both views, so that nobody else moves in while its victims are terminating, and no further victim is looked
for. A promise is kept nowhere: the next cycle makes it again from what it sees, after a restart as before.

Room and load only get worse within a cycle, so what was refused once is refused for every equal job, unasked.
"""

from __future__ import annotations

from scavenger_api.states import QueueState

from scavenger_admitter.core.admission.cycle.cycle_limits import CycleLimits
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
    """All that a cycle gives from. Every `take_*` is final.

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
        """Ordinary pods that wait take their room first."""
        for room in self._rooms:
            for pod in self._snapshot.pending:
                room.keep(pod)

    def reserve_starts_under_way(self) -> None:
        """Pods of ours that are not bound yet take theirs."""
        for room in self._rooms:
            for start in self._snapshot.reservations:
                room.reserve(start.shape, start.count, start.nodes)

    def _demands(self, name: str) -> bool:
        """Whether a queue has demand: jobs that run or start, or one in line that could ever start."""
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
        """Take room and load for a job that starts now: its nodes; or why it cannot, and nothing is taken."""
        key = (candidate.shape, candidate.parallelism)
        wait = self._refused.get(key) or self.limits.refusal(candidate)
        if wait is None and candidate.parallelism > 1 and not self.gangs.take():
            wait = NOT_JUDGED
        if wait is None:
            nodes = self._place_now(*key)
            if nodes is not None:
                self._count(candidate, starts=True)
                return nodes
            wait = self.room.no_place(*key)
        self._refused[key] = wait
        return wait

    def move(self, candidate: Candidate, count: int) -> tuple[str, ...] | None:
        """Take room for `count` pods of a job that runs, and the load of all of it: what it would need to start again
        with these pods elsewhere and the others where they are. None, and nothing taken, when it could not. Its queue
        holds it already."""
        if self.limits.refusal(candidate) is not None:
            return None
        nodes = self._place_now(candidate.shape, count)
        if nodes is not None:
            self.limits.take(candidate, starts=True)
        return nodes

    def promise(self, candidate: Candidate) -> bool:
        """Keep room and load for a job that starts when the terminating pods have left; False when that does not
        suffice."""
        key = (candidate.shape, candidate.parallelism)
        changes = self.limits.falls or len(self._rooms) > 1
        if not changes or key in self._unpromised or self._refused.get(key) is NOT_JUDGED:
            return False
        nodes = self.after_termination.place(*key) if self.limits.fits(candidate, self.limits.soon) else None
        if nodes is None:
            self._unpromised.add(key)
            return False
        for room in self._rooms[:-1]:
            room.take(candidate.shape, nodes)
        self._count(candidate, starts=False)
        return True

    def keep_turn(self, candidate: Candidate, before: tuple[str, ...]) -> tuple[str, ...] | None:
        """Keep room and load for a job until enough scavenger pods have left (`turns.py`): the nodes; or None, and
        nothing is taken, where it would not fit without them either. before: where its room was kept until now."""
        nodes = self.places_in_time(candidate, before)
        if nodes is not None:
            for room in self._rooms:
                room.take(candidate.shape, nodes)
            self._count(candidate, starts=False)
        return nodes

    def places_in_time(self, candidate: Candidate, before: tuple[str, ...] = ()) -> tuple[str, ...] | None:
        """Where a job will fit first when scavenger pods leave; None where it would not without them either. It looks
        at every node."""
        seen = self._snapshot
        leaves = {name: seen.shown.part(name, amount) for name, amount in seen.scavenged.items()}
        if not self.limits.fits(candidate, self.limits.without(leaves)):
            return None
        return places_in_time(candidate, self.room, seen.nodes, seen.shown, before)

    def take_promised(self, candidate: Candidate, nodes: tuple[str, ...]) -> None:
        """The room that victims make is nobody else's any more, whether it is free yet or not."""
        self.room.take(candidate.shape, nodes)
        self._count(candidate, starts=False)

    def _place_now(self, shape: Shape, count: int) -> tuple[str, ...] | None:
        """Take room that is free now, which is then taken in both views."""
        nodes = self.room.place(shape, count)
        if nodes is not None:
            for room in self._rooms[1:]:
                room.take(shape, nodes)
        return nodes

    def _count(self, candidate: Candidate, *, starts: bool) -> None:
        self.limits.take(candidate, starts=starts)
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
    now = Room(index, closed, headroom=headroom, ranks=ranks)
    return (now, Room(index, closed, terminating, headroom, leaving, ranks)) if terminating or leaving else (now,)


def _leaving(snapshot: Snapshot) -> dict[str, dict[str, int]]:
    """What the figures of each node still show of pods that are terminating, or have left since."""
    leaving: dict[str, dict[str, int]] = {}
    pods: tuple[TerminatingPod | DepartedPod, ...] = (*snapshot.terminating, *snapshot.departed)
    for pod in pods:
        add(leaving.setdefault(pod.node, {}), snapshot.shown.on_node(pod.requests, pod.started).items())
    return leaving


def _pending_release(snapshot: Snapshot) -> dict[str, int]:
    """What the load still shows of pods that are terminating, or have left since it was measured."""
    shown, seen = snapshot.shown, sums_of(pod.counted for pod in snapshot.departed)
    said = {name: amount - seen.get(name, 0) for name, amount in snapshot.recently_terminated.items()}
    total = {name: shown.part(name, amount) for name, amount in said.items()}
    for gone in snapshot.departed:
        add(total, shown.of(gone.requests, gone.started).items())
    for pod in snapshot.terminating:
        if pod.counts:
            add(total, shown.of(pod.requests, pod.started).items())
    return total
