"""What is left to give during one admission cycle: room, load, quotas and shares, and what of it is promised.

Two views are kept. *Now*: what is free at this moment. *Soon*: what is free once the pods that were told to go have
left. A job starts on what is free now. A job within its queue's share that fits only soon gets a promise: its room is
taken in both views, so that nobody else moves in while its victims are terminating, and no further victim is looked
for. A promise is kept nowhere: the next cycle makes it again from what it sees, after a restart as before.

Room and load only get worse within a cycle, so what was refused once is refused for every equal job, unasked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from scavenger_api.quantity import format_amount
from scavenger_api.reasons import WaitReason
from scavenger_api.states import QueueState

from scavenger_admitter.core.admission.cycle.turns import places_in_time
from scavenger_admitter.core.admission.departures import DepartedPod
from scavenger_admitter.core.admission.load import LoadLimit
from scavenger_admitter.core.admission.placement.empty_cluster import EmptyCluster
from scavenger_admitter.core.admission.placement.node_index import NodeIndex
from scavenger_admitter.core.admission.placement.placement import MOST_LOOKS, Room
from scavenger_admitter.core.admission.running import TerminatingPod
from scavenger_admitter.core.admission.shape import Shape
from scavenger_admitter.core.admission.shares import Shares
from scavenger_admitter.core.admission.snapshot import Candidate, QueueView, Snapshot
from scavenger_admitter.core.admission.sums import add, sums_of
from scavenger_admitter.core.waits import Wait, percent, spell

_Kind = tuple[Shape, int]

_IN_TURN: Final = 16
"""Gangs beyond the front of the lines that are looked at in a cycle, where there are too many kinds of them."""
_PRIME: Final = 1_000_003


class CycleUsage:
    """All that a cycle gives from. Every `take_*` is final.

    Attributes:
        room: free now.
        soon: free once the terminating pods have left; the same object where none leaves.
        limits_after_termination: the load once they have left, promises included.
        shares: of the queues.
        postponed: kinds of gangs that had to wait for their turn to be looked at.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        terminating: dict[str, dict[str, int]] = {}
        for pod in snapshot.terminating:
            add(terminating.setdefault(pod.node, {}), pod.requests)
        leaving = _leaving(snapshot) if snapshot.headroom.left else {}
        index = snapshot.index
        if index is None or index.source is not snapshot.nodes:
            index = NodeIndex(snapshot.nodes)
        closed, headroom = snapshot.closed_nodes, snapshot.headroom
        ranks = [-node.ordinary_share for node in index.nodes] if snapshot.packs else None
        self.room = self.after_termination = Room(index, closed, headroom=headroom, ranks=ranks)
        if terminating or leaving:
            self.after_termination = Room(index, closed, terminating, headroom, leaving, ranks)
        self._empty = EmptyCluster(index)
        self._snapshot = snapshot
        self._limits = list(snapshot.limits)
        release = _pending_release(snapshot)
        self.limits_after_termination = [limit.plus(-release.get(limit.resource, 0)) for limit in snapshot.limits]
        self._changing = self.limits_after_termination != self._limits or self.after_termination is not self.room
        self._impossible: dict[_Kind, Wait | None] = {}
        self._refused: dict[_Kind, Wait] = {}
        self.postponed = 0
        self._gangs = 0
        self._unpromised: set[_Kind] = set()
        self._over_quota: dict[tuple[str, Shape, int], Wait] = {}
        self._quota_used = {name: dict(queue.allocated) for name, queue in snapshot.queues.items() if queue.quota}
        self._full = self._find_full()
        self.shares = Shares(snapshot, [name for name in snapshot.queues if self._demands(name)])

    def reserve_pending_pods(self) -> None:
        """Ordinary pods that wait take their room first."""
        for room in self._rooms():
            for pod in self._snapshot.pending:
                room.keep(pod)

    def reserve_starts_under_way(self) -> None:
        """Pods of ours that are not bound yet take theirs."""
        for room in self._rooms():
            for start in self._snapshot.reservations:
                room.reserve(start.shape, start.count, start.nodes)

    def _rooms(self) -> tuple[Room, ...]:
        return (self.room,) if self.after_termination is self.room else (self.room, self.after_termination)

    def _demands(self, name: str) -> bool:
        """Whether a queue has demand: jobs that run or start, or one in line that could ever start."""
        queue = self._snapshot.queues[name]
        if queue.state is QueueState.RELEASING:
            return False
        if any(queue.allocated.values()):
            return True
        line = queue.admits(self._snapshot.candidates.get(name, ()))
        return any(self.never(candidate) is None and not self.beyond_quota(candidate) for candidate in line)

    # --- what does not depend on room ---

    def never(self, candidate: Candidate) -> Wait | None:
        """Why a job would not fit an empty cluster either, if so."""
        key = (candidate.shape, candidate.parallelism)
        if key not in self._impossible:
            self._impossible[key] = self._empty.impossible(*key)
        return self._impossible[key]

    def beyond_quota(self, candidate: Candidate) -> Wait | None:
        """Why the quota of its queue keeps a job waiting, if so."""
        queue = self._snapshot.queues[candidate.queue]
        if not queue.quota:
            return None
        key = (candidate.queue, candidate.shape, candidate.parallelism)
        hold = self._over_quota.get(key)
        if hold is None:
            hold = _beyond(queue, self._quota_used[candidate.queue], candidate)
            if hold is not None:
                self._over_quota[key] = hold
        return hold

    # --- starts and promises ---

    def start(self, candidate: Candidate) -> tuple[str, ...] | Wait:
        """Take room and load for a job that starts now: its nodes; or why it cannot, and nothing is taken."""
        key = (candidate.shape, candidate.parallelism)
        hold = self._refused.get(key) or self._full or self._over_level(candidate)
        if hold is None and candidate.parallelism > 1 and not self._has_its_turn():
            hold = _NOT_JUDGED
        if hold is None:
            nodes = self.room.place(*key)
            if nodes is not None:
                if self.after_termination is not self.room:
                    self.after_termination.take(candidate.shape, nodes)
                self._limits = _with(self._limits, candidate)
                self._count(candidate)
                self._full = self._find_full()
                return nodes
            hold = self.room.no_place(*key)
        self._refused[key] = hold
        return hold

    def _has_its_turn(self) -> bool:
        """Whether one more kind of gang may be looked at in this cycle. Those at the front of the lines always are, and
        of the others some, in every cycle different ones."""
        if self.room.looks > MOST_LOOKS // 2:
            return True
        if not self.postponed:
            lines = self._snapshot.candidates.values()
            self._gangs = len({(job.shape, job.parallelism) for line in lines for job in line if job.parallelism > 1})
        self.postponed += 1
        first = self._snapshot.now // 1_000_000 * _PRIME
        return self.room.looks > 0 and (self.postponed - first) % self._gangs < _IN_TURN

    def move(self, candidate: Candidate, count: int) -> tuple[str, ...] | None:
        """Take room for `count` pods of a job that runs, and the load of all of it: what it would need to start again
        with these pods elsewhere and the others where they are. None, and nothing taken, when it could not. Its queue
        holds it already."""
        if self._full or self._over_level(candidate):
            return None
        nodes = self.room.place(candidate.shape, count)
        if nodes is not None:
            if self.after_termination is not self.room:
                self.after_termination.take(candidate.shape, nodes)
            self._limits = _with(self._limits, candidate)
            self.limits_after_termination = _with(self.limits_after_termination, candidate)
            self._full = self._find_full()
        return nodes

    def promise(self, candidate: Candidate) -> bool:
        """Keep room and load for a job that starts when the terminating pods have left; False when that does not
        suffice."""
        key = (candidate.shape, candidate.parallelism)
        if not self._changing or key in self._unpromised or self._refused.get(key) is _NOT_JUDGED:
            return False
        nodes = self.after_termination.place(*key) if self.fits_load(candidate, self.limits_after_termination) else None
        if nodes is None:
            self._unpromised.add(key)
            return False
        self.take_promised(candidate, nodes)
        return True

    def keep_turn(self, candidate: Candidate, before: tuple[str, ...]) -> tuple[str, ...] | None:
        """Keep room and load for a job until enough scavenger pods have left (`turns.py`): the nodes; or None, and
        nothing is taken, where it would not fit without them either. before: where its room was kept until now."""
        nodes = self.places_in_time(candidate, before)
        if nodes is not None:
            if self.after_termination is not self.room:
                self.after_termination.take(candidate.shape, nodes)
            self.take_promised(candidate, nodes)
        return nodes

    def places_in_time(self, candidate: Candidate, before: tuple[str, ...] = ()) -> tuple[str, ...] | None:
        """Where a job will fit first when scavenger pods leave; None where it would not without them either. It looks
        at every node."""
        seen = self._snapshot
        leaves = {name: seen.shown.part(name, amount) for name, amount in seen.scavenged.items()}
        without = [limit.plus(-leaves.get(limit.resource, 0)) for limit in self.limits_after_termination]
        if not self.fits_load(candidate, without):
            return None
        return places_in_time(candidate, self.room, seen.nodes, seen.shown, before)

    def take_promised(self, candidate: Candidate, nodes: tuple[str, ...]) -> None:
        """The room of a promise is nobody else's any more, whether it is free yet or not."""
        self.room.take(candidate.shape, nodes)
        self._count(candidate)
        self._full = self._find_full()

    def fits_load(self, candidate: Candidate, limits: list[LoadLimit]) -> bool:
        """Whether the load stays under its level with this job; counted with or without it, as configured."""
        return all(limit.under(self._extra(candidate, limit.resource)) for limit in limits)

    def load_ppm(self) -> tuple[tuple[str, int], ...]:
        """The load per limited resource, in millionths of allocatable."""
        return tuple((limit.resource, limit.ppm()) for limit in self._limits)

    def _count(self, candidate: Candidate) -> None:
        counted, count = candidate.shape.counted, candidate.parallelism
        self.limits_after_termination = _with(self.limits_after_termination, candidate)
        self.shares.allocate(candidate.queue, counted, count)
        if candidate.queue in self._quota_used:
            add(self._quota_used[candidate.queue], counted, count)

    def _extra(self, candidate: Candidate, resource: str) -> int:
        if not self._snapshot.counted_with_candidate:
            return 0
        return candidate.shape.counts(resource) * candidate.parallelism

    def _find_full(self) -> Wait | None:
        """Why nobody can start any more, however small: the load is at its level without anybody new."""
        for limit in (*self._limits, *self.limits_after_termination):
            if not limit.under():
                return _at_level(limit)
        return None

    def _over_level(self, candidate: Candidate) -> Wait | None:
        for limit in (*self._limits, *self.limits_after_termination):
            extra = self._extra(candidate, limit.resource)
            if not limit.under(extra):
                return _would_pass_level(limit, extra)
        return None


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


def _with(limits: list[LoadLimit], candidate: Candidate) -> list[LoadLimit]:
    return [limit.plus(candidate.shape.counts(limit.resource) * candidate.parallelism) for limit in limits]


# --- sentences ----------------------------------------------------------------------------------------------

_NOT_JUDGED: Final = Wait(
    WaitReason.NEXT_CYCLE, "there are too many different gangs in line to look at all of them at once; it has its turn"
)


def _beyond(queue: QueueView, used: Mapping[str, int], candidate: Candidate) -> Wait | None:
    for name, most in sorted(queue.quota.items()):
        extra = candidate.shape.counts(name) * candidate.parallelism
        if extra > most:
            return _larger_than_quota(queue.name, name, most, extra)
        if extra and used.get(name, 0) + extra > most:
            return _over_quota(queue.name, name, used.get(name, 0), most, extra)
    return None


def _at_level(limit: LoadLimit) -> Wait:
    if limit.allocatable == 0:
        return Wait(
            WaitReason.ADMISSION_LEVEL,
            f"no node that counts (ready, not cordoned, not tainted) offers {limit.resource}",
            limit.resource,
        )
    return Wait(
        WaitReason.ADMISSION_LEVEL,
        lambda: (
            f"{limit.resource} load is {percent(limit.ppm())}; jobs start while it is under the"
            f" admission level of {percent(limit.admission_ppm)}"
        ),
        limit.resource,
    )


def _would_pass_level(limit: LoadLimit, extra: int) -> Wait:
    return Wait(
        WaitReason.ADMISSION_LEVEL,
        lambda: (
            f"{limit.resource} load would be {percent(limit.ppm(extra))}; it has to stay under the"
            f" admission level of {percent(limit.admission_ppm)}"
        ),
        limit.resource,
    )


def _larger_than_quota(queue: str, resource: str, most: int, extra: int) -> Wait:
    return Wait(
        WaitReason.LARGER_THAN_QUOTA,
        lambda: (
            f"needs {spell([(resource, extra)])}; the whole quota of queue {queue} is {format_amount(resource, most)}"
        ),
        queue,
        resource,
    )


def _over_quota(queue: str, resource: str, allocated: int, most: int, extra: int) -> Wait:
    return Wait(
        WaitReason.QUEUE_QUOTA,
        lambda: (
            f"needs {spell([(resource, extra)])}; queue {queue} has {format_amount(resource, allocated)} of"
            f" its quota of {format_amount(resource, most)} in use"
        ),
        queue,
        resource,
    )
