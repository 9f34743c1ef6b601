"""The admission cycle: which waiting jobs start now, and why the others do not.

A pure function of one snapshot. The recipe:

  1. Take the free room of every node: allocatable less what the pods bound to it request.
  2. Give room to ordinary pods that wait for a node, in the order the scheduler takes them: those with a
     nominated node there, the others on the best place they fit. Starting a job only to have it preempted a
     second later is pure loss.
  3. Give room to starts under way, whose pods are not bound yet.
  4. Judge the jobs of queues that are not open: they wait.
  5. Take the open queue that is most under-served (dominant share of what is allocated to it / weight; then
     the greater weight, then the name) and go down its line (most interrupted first, then first in, first
     out) to the first job that fits:
       a. it is not held back: no pod of its last run alive, its delay over;
       b. it would fit the cluster if that were empty;
       c. the load stays under the admission level, strictly, for every resource;
       d. its queue's quota allows it;
       e. every pod of the gang has a place.
     One that does not fit does not block those behind it; it is held, with the reason.
  6. Take the room of what was chosen, count it in load and queue, and go on with 5 until every line has been
     gone through, or the limit of starts per cycle is reached.

Room and load only get worse within a cycle, so what was refused once is refused for every equal job, unasked.

Left open here: a queue may not yet be limited to its deserved share, which comes with backfill and reclaim.
They belong into step 5: which queue goes next (`_Lines.next`), and a second pass over the lines for those
over their share.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta

from scavenger_api.quantity import format_amount
from scavenger_api.times import EPOCH, format_time

from scavenger_admitter.holds import Hold, Reason, percent, spell
from scavenger_admitter.load import LoadLimit
from scavenger_admitter.placement import Room
from scavenger_admitter.shape import PODS, Shape
from scavenger_admitter.snapshot import Candidate, QueueState, QueueView, Snapshot, add

_SHARE_SCALE = 10**12
"""Shares are compared as whole trillionths: fine enough, and the same everywhere."""


@dataclass(frozen=True, slots=True)
class Start:
    """A job to start now.

    Attributes:
        candidate: the job.
        nodes: the planned node of each pod; the scheduler decides, but this room is taken.
        load_ppm: load per limited resource with this job, in millionths of allocatable; for the log.
    """

    candidate: Candidate
    nodes: tuple[str, ...]
    load_ppm: tuple[tuple[str, int], ...] = ()

    @property
    def key(self) -> str:
        """namespace/name of the job."""
        return self.candidate.key


@dataclass(frozen=True, slots=True)
class AdmissionPlan:
    """What a cycle decided: every waiting job is either in `starts` or in `held`.

    Attributes:
        starts: jobs to start, in the order they were chosen.
        held: why the others wait, by job.
        truncated: the limit of starts was reached; another cycle right away may start more.
    """

    starts: tuple[Start, ...]
    held: Mapping[str, Hold]
    truncated: bool = False


def plan_admissions(snapshot: Snapshot, *, max_starts_per_cycle: int | None = None) -> AdmissionPlan:
    """Decide who starts; see the recipe at the top.

    Args:
        snapshot: what the cluster looks like.
        max_starts_per_cycle: most jobs to start in one cycle; None for no limit.
    """
    cycle = _Cycle(snapshot, max_starts_per_cycle)
    cycle.reserve_pending_pods()
    cycle.reserve_starts_under_way()
    cycle.hold_jobs_of_queues_not_open()
    cycle.admit()
    return cycle.plan()


class _Cycle:
    """State of one cycle: what is left of the snapshot's room, load and quotas."""

    def __init__(self, snapshot: Snapshot, max_starts: int | None) -> None:
        self._snapshot = snapshot
        self._left = max_starts
        self._room = Room(snapshot.nodes, snapshot.closed_nodes)
        self._limits = list(snapshot.limits)
        self._lines = _Lines(snapshot)
        self._starts: list[Start] = []
        self._held: dict[str, Hold] = {}
        self._truncated = False
        # Why nobody at all can start from here on: no load figures, or the load is at its level without
        # anybody new.
        self._shut = snapshot.shut or self._full()
        self._impossible: dict[tuple[Shape, int], Hold | None] = {}
        self._refused: dict[tuple[Shape, int], Hold] = {}
        self._over_quota: dict[tuple[str, Shape, int], Hold] = {}

    def plan(self) -> AdmissionPlan:
        return AdmissionPlan(tuple(self._starts), self._held, self._truncated)

    # --- steps 2 and 3 ---

    def reserve_pending_pods(self) -> None:
        for pod in self._snapshot.pending:
            if not (pod.nominated and self._room.reserve_nominated(pod.shape, pod.nominated)):
                self._room.reserve(pod.shape, 1)

    def reserve_starts_under_way(self) -> None:
        for start in self._snapshot.reservations:
            self._room.reserve(start.shape, start.count, start.nodes)

    # --- step 4 ---

    def hold_jobs_of_queues_not_open(self) -> None:
        for name, line in self._snapshot.candidates.items():
            closed = _not_open(name, self._snapshot.queues.get(name))
            if closed is not None:
                for candidate in line:
                    self._held[candidate.key] = self._held_back(candidate) or self._never(candidate) or closed

    # --- step 5 ---

    def admit(self) -> None:
        while (line := self._lines.next()) is not None:
            if self._left is not None and len(self._starts) >= self._left:
                self._truncated = True
                for candidate in line:
                    self._held[candidate.key] = _NEXT_CYCLE
            else:
                self._admit_first(line)

    def _admit_first(self, line: Iterator[Candidate]) -> None:
        """Go down a line to the first job that fits, and start it."""
        for candidate in line:
            hold = self._judge(candidate)
            if hold is None:
                nodes = self._room.place(candidate.shape, candidate.parallelism)
                if nodes is not None:
                    self._start(candidate, nodes)
                    return
                hold = self._no_place(candidate)
            self._held[candidate.key] = hold

    def _judge(self, candidate: Candidate) -> Hold | None:
        """Why a job of an open queue cannot start, as far as that is known without looking for places."""
        return (
            self._held_back(candidate)
            or self._refused.get((candidate.shape, candidate.parallelism))
            or self._never(candidate)
            or self._shut
            or self._over_level(candidate)
            or self._beyond_quota(candidate)
        )

    def _held_back(self, candidate: Candidate) -> Hold | None:
        hold = self._snapshot.blocked.get(candidate.key)
        if hold is None and candidate.not_before > self._snapshot.now:
            at = format_time(EPOCH + timedelta(microseconds=candidate.not_before))
            return Hold(Reason.BACKING_OFF, f"its last start did not come off; tried again from {at} on", at)
        return hold

    def _never(self, candidate: Candidate) -> Hold | None:
        key = (candidate.shape, candidate.parallelism)
        if key not in self._impossible:
            self._impossible[key] = self._room.impossible(*key)
        return self._impossible[key]

    def _full(self) -> Hold | None:
        limit = next((limit for limit in self._limits if not limit.under()), None)
        return _at_level(limit) if limit is not None else None

    def _over_level(self, candidate: Candidate) -> Hold | None:
        if not self._snapshot.counted_with_candidate:
            return None  # then only the load without it counts, which `_shut` knows
        for limit in self._limits:
            extra = candidate.shape.request(limit.resource) * candidate.parallelism
            if not limit.under(extra):
                hold = _would_pass_level(limit, extra)
                self._refused[candidate.shape, candidate.parallelism] = hold
                return hold
        return None

    def _beyond_quota(self, candidate: Candidate) -> Hold | None:
        quota = self._lines.quota(candidate.queue)
        if not quota:
            return None
        key = (candidate.queue, candidate.shape, candidate.parallelism)
        hold = self._over_quota.get(key)
        if hold is None:
            allocated = self._lines.allocated(candidate.queue)
            for name, most in sorted(quota.items()):
                extra = candidate.shape.request(name) * candidate.parallelism
                if extra and allocated.get(name, 0) + extra > most:
                    hold = _over_quota(candidate.queue, name, allocated.get(name, 0), most, extra)
                    self._over_quota[key] = hold
                    break
        return hold

    def _no_place(self, candidate: Candidate) -> Hold:
        key = (candidate.shape, candidate.parallelism)
        hold = self._refused[key] = self._room.no_place(*key)
        return hold

    # --- step 6 ---

    def _start(self, candidate: Candidate, nodes: tuple[str, ...]) -> None:
        shape, count = candidate.shape, candidate.parallelism
        self._limits = [limit.plus(shape.request(limit.resource) * count) for limit in self._limits]
        self._shut = self._full()
        self._lines.allocate(candidate.queue, shape, count)
        load = tuple((limit.resource, limit.ppm()) for limit in self._limits)
        self._starts.append(Start(candidate, nodes, load))


class _Lines:
    """The lines of the open queues, and which of them goes next."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._queues = snapshot.queues
        self._capacity = {name: most for name, most in snapshot.capacity.items() if most > 0 and name != PODS}
        self._allocated = {name: dict(queue.allocated) for name, queue in snapshot.queues.items()}
        self._lines = {
            name: _Line(line)
            for name, line in snapshot.candidates.items()
            if _not_open(name, snapshot.queues.get(name)) is None
        }
        self._ranks = {name: self._rank(name) for name in self._lines}

    def next(self) -> Iterator[Candidate] | None:
        """The line of the most under-served open queue that still has jobs to look at."""
        while self._ranks:
            name = min(self._ranks, key=self._ranks.__getitem__)
            if not self._lines[name].done:
                return self._lines[name]
            del self._ranks[name]
        return None

    def quota(self, queue: str) -> Mapping[str, int]:
        return self._queues[queue].quota

    def allocated(self, queue: str) -> Mapping[str, int]:
        return self._allocated[queue]

    def allocate(self, queue: str, shape: Shape, count: int) -> None:
        add(self._allocated[queue], shape.requests, count)
        self._ranks[queue] = self._rank(queue)

    def _rank(self, name: str) -> tuple[int, int, str]:
        """The smallest goes first.

        1. dominant share (the greatest of its shares of what the nodes that count offer) / weight;
        2. greater weight;
        3. name.
        """
        weight = max(1, self._queues[name].weight)
        allocated = self._allocated[name]
        share = max(
            (amount * _SHARE_SCALE // self._capacity[r] for r, amount in allocated.items() if r in self._capacity),
            default=0,
        )
        return (share // weight, -weight, name)


class _Line(Iterator[Candidate]):
    """One queue's candidates, gone through once; it knows when it is through without taking the next."""

    def __init__(self, candidates: tuple[Candidate, ...]) -> None:
        self._candidates = candidates
        self._next = 0

    def __next__(self) -> Candidate:
        if self.done:
            raise StopIteration
        self._next += 1
        return self._candidates[self._next - 1]

    @property
    def done(self) -> bool:
        return self._next >= len(self._candidates)


# --- sentences ----------------------------------------------------------------------------------------------

_NEXT_CYCLE = Hold(Reason.NEXT_CYCLE, "as many jobs as may start at once are starting; the next turn follows at once")


def _not_open(name: str, queue: QueueView | None) -> Hold | None:
    if queue is None:
        return Hold(Reason.QUEUE_MISSING, f"there is no ScavengerQueue {name}", name)
    if queue.state is QueueState.CLOSED:
        return Hold(Reason.QUEUE_CLOSED, f"queue {name} is closed", name)
    if queue.state is QueueState.RELEASING:
        return Hold(Reason.QUEUE_RELEASING, f"queue {name} is being deleted", name)
    return None


def _at_level(limit: LoadLimit) -> Hold:
    if limit.allocatable == 0:
        return Hold(
            Reason.ADMISSION_LEVEL,
            f"no node that counts (ready, not cordoned, not tainted) offers {limit.resource}",
            limit.resource,
        )
    return Hold(
        Reason.ADMISSION_LEVEL,
        lambda: (
            f"{limit.resource} load is {percent(limit.ppm())}; jobs start while it is under the"
            f" admission level of {percent(limit.admission_ppm)}"
        ),
        limit.resource,
    )


def _would_pass_level(limit: LoadLimit, extra: int) -> Hold:
    return Hold(
        Reason.ADMISSION_LEVEL,
        lambda: (
            f"{limit.resource} load would be {percent(limit.ppm(extra))}; it has to stay under the"
            f" admission level of {percent(limit.admission_ppm)}"
        ),
        limit.resource,
    )


def _over_quota(queue: str, resource: str, allocated: int, most: int, extra: int) -> Hold:
    return Hold(
        Reason.QUEUE_QUOTA,
        lambda: (
            f"needs {spell([(resource, extra)])}; queue {queue} has {format_amount(resource, allocated)} of"
            f" its quota of {format_amount(resource, most)} in use"
        ),
        queue,
        resource,
    )
