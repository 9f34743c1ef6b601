"""The kept turn: capacity for a job that has waited long while others started where it does not fit. A pure step.

A job that does not fit does not block those behind it, so one that is larger than its neighbours would wait for as long
as these come: what one of them leaves the next one takes. So a job's turn is kept once it has waited for `patience` and
another one has started in a cycle that refused it capacity or load. From the next cycle on no other job starts on the
nodes where it will fit first, nor under the threshold that it needs. This is the one reservation of EASY backfilling
(Lifka, JSSPP 1995). When a program ends is not known, so others start beside the reservation and never within it.

  1. One turn at a time in each pool of nodes: more would leave nodes empty for jobs that wait for each other. A job has
     its turn in all pools where it may run. While others have theirs in some of these, no job behind it gets one in the
     rest. So a job for several pools waits no longer than its turn in the queue (`Overdue.next_turns`).
  2. It is kept for a job that its queue admits, within its share and quota, and that would fit if no scavenger pod were
     there. While what regular workloads take is too much for that, nothing is kept and the others pass.
  3. Where it will fit first: on the nodes that lack the smallest part of what it asks for. It stays with these as long
     as it can fit there, so that all it waits for is the end of what ran there when its turn began.
  4. No job is interrupted for it, but by the rules of fair-share preemption, which it is the first to be asked for.

Which jobs these are is remembered from cycle to cycle (`ClusterState.turns`). A successor finds them again with the
next starts that pass them.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from functools import partial
from itertools import islice
from typing import Final

from scavenger_api.reasons import WaitReason
from scavenger_api.times import EPOCH, format_time

from scavenger_admitter.core.admission.placement.headroom import HEADROOM
from scavenger_admitter.core.admission.placement.inputs import NodeView
from scavenger_admitter.core.admission.placement.placement import Room
from scavenger_admitter.core.admission.shown import Shown
from scavenger_admitter.core.admission.snapshot import Candidate, Turn
from scavenger_admitter.core.waits import Wait

PATIENCE: Final = 3600 * 1_000_000
"""Default of how long a job waits before its turn is kept, microseconds."""

MOST_OVERDUE: Final = 4
"""Kinds of jobs, of those that were passed in a cycle, for which a turn is considered in each pool."""

NEVER: Final = -(1 << 62)
"""Before any time, microseconds."""


class Overdue:
    """Jobs that have waited for long and were refused capacity: the first of each kind, in the order of the cycle.

    Args:
        before: a job of interest has been queued since before this, microseconds since the epoch; NEVER: none is.
        pools: of the cluster.
        pools_of: those where a job may run.

    Attributes:
        before: as given; NEVER once no pool takes note of another job.
    """

    def __init__(self, before: int, pools: Iterable[str], pools_of: Callable[[Candidate], frozenset[str]]) -> None:
        self.before = before
        self._left = dict.fromkeys(pools, MOST_OVERDUE)
        self._pools_of = pools_of
        self._kept: set[str] = set()
        self._kinds: set[tuple[int, int]] = set()
        self._jobs: list[tuple[Candidate, frozenset[str]]] = []
        self._passed: dict[str, int] = {}  # by pool, how many there were when the last job started there

    def note(self, candidate: Candidate) -> None:
        """A job that was queued before `before` is refused capacity."""
        kind = (id(candidate.shape), candidate.parallelism)
        if kind in self._kinds:
            return
        self._kinds.add(kind)
        pools = self._pools_of(candidate)
        takes = [pool for pool in pools if self._left.get(pool)]
        if takes:
            self._jobs.append((candidate, pools))
            self._close({pool: self._left[pool] - 1 for pool in takes})

    def may_keep(self, candidate: Candidate) -> bool:
        """Whether no turn of another job is kept in a pool where this one may run."""
        return self._kept.isdisjoint(self._pools_of(candidate))

    def keep(self, candidate: Candidate) -> None:
        """The turn of a job is still kept: no other one is found in the pools where it may run."""
        pools = self._pools_of(candidate)
        self._kept |= pools
        self._close(dict.fromkeys(pools, 0))

    def _close(self, left: Mapping[str, int]) -> None:
        self._left.update(left)
        if not any(self._left.values()):
            self.before = NEVER

    def passed_in(self, pools: Iterable[str]) -> None:
        """A job starts in these pools, and passes those that were refused before it and may run there."""
        self._passed.update(dict.fromkeys(pools, len(self._jobs)))

    def next_turns(self, will_fit: Callable[[Candidate], bool]) -> Iterator[Turn]:
        """The turns to keep from the next cycle on, beside those that are kept.

        Args:
            will_fit: whether a job still lacks capacity, and would have it if no scavenger pod were there.
        """
        taken = set(self._kept)
        for i, (candidate, pools) in enumerate(self._jobs):
            passed = any(self._passed.get(pool, 0) > i for pool in pools)
            if passed and not pools <= taken and will_fit(candidate):
                if taken.isdisjoint(pools):
                    yield Turn(candidate)
                taken |= pools


def places_in_time(
    candidate: Candidate,
    room: Room,
    nodes: Mapping[str, NodeView],
    shown: Shown,
    before: tuple[str, ...] = (),
) -> tuple[str, ...] | None:
    """Where the pods of a job will fit first when scavenger pods leave; None where they would not all fit even then.
    Where capacity is kept for regular pods that may come, only if they fit nowhere else.

    Args:
        candidate: the job.
        room: what is free; nothing is taken.
        nodes: the same nodes, with what scavenger pods request there.
        shown: what the headroom of nodes has of these pods.
        before: where its capacity was kept until now: it stays there as long as it can.
    """
    positions = room.places(candidate.shape, closed=True)
    names = room.names
    kept = [i for i in positions if names[i] in before] if before else []
    for anywhere in (False, True) if room.expects else (False,):
        for among in (kept, positions):
            leaving = _Leaving(candidate, room, nodes, shown, anywhere=anywhere)
            found = tuple(islice(leaving.fill(among), candidate.parallelism))
            if len(found) == candidate.parallelism:
                return found
    return None


class _Leaving:
    """What pods of a job lack on nodes that scavenger pods leave. Args: see `places_in_time`; anywhere: also where
    capacity is kept for regular pods that may come."""

    def __init__(
        self, candidate: Candidate, room: Room, nodes: Mapping[str, NodeView], shown: Shown, *, anywhere: bool
    ) -> None:
        self._domain = partial(room.domain, candidate.shape)
        self._asks = [(name, amount, room.free(name, anywhere=anywhere)) for name, amount in room.asks(candidate.shape)]
        self._names = room.names
        self._nodes = nodes
        self._shown = shown

    def fill(self, positions: Iterable[int]) -> Iterator[str]:
        """A node for one pod after the other, the one that lacks least first."""
        heap = [(part, i) for i in positions if (part := self._lacks(i)) is not None]
        heapq.heapify(heap)
        used: set[str] = set()
        while heap:
            _, i = heapq.heappop(heap)
            if (domain := self._domain(i)) is not None:
                if domain in used:
                    continue
                used.add(domain)
            yield self._names[i]
            for _, amount, free in self._asks:
                free[i] -= amount
            if (part := self._lacks(i)) is not None:
                heapq.heappush(heap, (part, i))

    def _lacks(self, i: int) -> float | None:
        """The largest part of what one pod asks for that is not free on a node; None where it never will be."""
        most = 0.0
        for name, amount, free in self._asks:
            if free[i] < amount:
                if free[i] + self._leaves(self._nodes[self._names[i]], name) < amount:
                    return None
                most = max(most, 1 - free[i] / amount)
        return most

    def _leaves(self, node: NodeView, name: str) -> int:
        """What comes free of a resource when all scavenger pods have left a node."""
        if name.startswith(HEADROOM):
            resource = name.removeprefix(HEADROOM)
            return self._shown.part(resource, node.scavenger.get(resource, 0))
        return node.scavenger.get(name, 0)


def turn_kept(candidate: Candidate, nodes: tuple[str, ...], lack: Wait) -> Wait:
    """Why a job waits whose turn is kept: for what, and since when it is queued."""
    since = format_time(EPOCH + timedelta(microseconds=candidate.queued_at))
    return Wait(
        WaitReason.TURN_KEPT,
        lambda: (
            f"{lack.message}; its turn is kept, as it has waited since {since}: no other job starts on"
            f" {_spell_nodes(nodes)} or under the level it needs before it"
        ),
        lack.reason,
    )


_MOST_NAMED: Final = 3


def _spell_nodes(nodes: tuple[str, ...]) -> str:
    names = sorted(set(nodes))
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"{', '.join(names[:_MOST_NAMED])}{more}"
