"""How the victims of fair-share preemption are found. The rules are in `fair_share_preemption.py`.

For each pod of the waiting gang, the node on which the cheapest victims make a place is looked for. A place is what is
free there or will soon be, plus capacity of victims in the order of rule 6. Cheap is no non-preemptible job, then least
unsaved CPU time, then fewest jobs. Nodes are looked at in the order of a lower bound of that cost. A gang that goes
frees capacity on all of its nodes. Where the load, not the capacity, is in the way, further victims follow in the order
of rule 6 wherever they are. A victim that then turns out not to be needed is spared, the most expensive first.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from scavenger_admitter.core.admission.cycle.cycle_usage import CycleUsage
from scavenger_admitter.core.admission.load import LoadLimit
from scavenger_admitter.core.admission.running import Gang
from scavenger_admitter.core.admission.shape import Requests, Shape
from scavenger_admitter.core.admission.snapshot import Candidate, Snapshot
from scavenger_admitter.core.admission.sums import add
from scavenger_admitter.core.admission.units import SECOND

MAX_LOOKS: Final = 2000
"""Nodes that are looked at for victims in one cycle: bounds its time where nothing comes of it."""

MAX_RELIEVING: Final = 10_000
"""Jobs that are tried for the load in one cycle: where each uses little of what it asked for, it takes many."""

MAX_TRIES: Final = 16
"""Jobs that are tried as the first to go, where the cheapest ones do not come to anything."""

_Cost = tuple[bool, int, int]
"""Whether a non-preemptible job goes, unsaved CPU time, jobs."""
_CostAt = tuple[_Cost, int]
_FREE: Final = (False, 0, 0)
_NEVER: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class Victim:
    """A job that may go. `order`: rule 6. `frees`: what each of its pods frees on its node, by the names of
    `Room.free`."""

    gang: Gang
    risk: int
    order: tuple[bool, int, int, str]
    frees: Requests


class VictimSearch:
    """Finds victims for one waiting job after the other; what was decided for one is given for the next."""

    def __init__(self, snapshot: Snapshot, usage: CycleUsage, victims: list[Victim]) -> None:
        self.usage = usage
        self._shares = usage.shares
        self._shown = snapshot.shown
        self._counts = {name: node.counts for name, node in snapshot.nodes.items()}
        self._pool = snapshot.pool
        self.names = usage.after_termination.names
        self._index = {name: i for i, name in enumerate(self.names)}
        self._free: dict[str, list[int]] = {}
        self._victims = victims
        self._on_node: dict[int, list[Victim]] = {}
        for victim in victims:
            for name in victim.gang.on:
                if name in self._index:
                    self._on_node.setdefault(self._index[name], []).append(victim)
        self._bounds = {i: _sums(there) for i, there in self._on_node.items()}
        self._most: dict[str, list[int]] = {}
        self._heaps: dict[Shape, list[_CostAt]] = {}
        self._looks = MAX_LOOKS
        self._relieving = MAX_RELIEVING
        self._gone: set[str] = set()
        self._failed: set[tuple[Shape, int]] = set()

    def serve(self, candidate: Candidate) -> list[Victim] | None:
        """Free capacity for a waiting job: its victims. None, and nothing is changed, when that cannot be done."""
        kind = (candidate.shape, candidate.parallelism)
        if kind in self._failed or self._looks <= 0 or not self._may_have(candidate):
            return None
        attempt = self._attempt(candidate)
        if attempt is None:
            self._failed.add(kind)
            return None
        attempt.spare()
        chosen = sorted(attempt.chosen.values(), key=lambda victim: victim.order)
        self.usage.limits.soon = attempt.limits
        self.usage.take_promised(candidate, tuple(self.names[i] for i in attempt.places))
        return chosen

    def _attempt(self, candidate: Candidate) -> _Attempt | None:
        """The cheapest victims; where they leave a donor too little for the last ones that are needed, one of the
        largest that may go is taken first, and the cheapest beside it."""
        attempt = _Attempt(self, candidate)
        if attempt.succeeds():
            return attempt
        if self._looks <= 0 or self._relieving <= 0:
            return None
        for victim in heapq.nlargest(MAX_TRIES, self.rest(), key=lambda v: (len(v.gang.nodes), *v.gang.takes.values())):
            attempt = _Attempt(self, candidate, victim)
            if attempt.succeeds():
                return attempt
        return None

    def _may_have(self, candidate: Candidate) -> bool:
        """Whether an exchange is all it takes; it may have become too much for its queue's share or quota meanwhile."""
        shape, count = candidate.shape, candidate.parallelism
        return (
            self._shares.within(candidate.queue, shape, count)
            and self.usage.quotas.refusal(candidate) is None
            and any(self._may_have_in(pool, shape, count) for pool in self.usage.after_termination.pools(shape))
        )

    def _may_have_in(self, pool: str, shape: Shape, count: int) -> bool:
        limits = [limit for limit in self.usage.limits.soon if limit.pool == pool]
        return all(limit.under(-shape.counts(limit.resource) * count) for limit in limits)

    # --- capacity ---

    def asks(self, shape: Shape) -> Requests:
        """What a pod has to find on a node."""
        return self.usage.after_termination.asks(shape)

    def column(self, resource: str) -> list[int]:
        """What will be free of a resource per node, with the victims gone and the promises kept."""
        column = self._free.get(resource)
        if column is None:
            column = self._free[resource] = self.usage.after_termination.free(resource)
        return column

    def move(self, victim: Victim, times: int) -> None:
        """Let a victim go (+1), or have it back (-1)."""
        for name, count in victim.gang.on.items():
            i = self._index.get(name)
            if i is not None:
                for resource, amount in victim.frees:
                    self.column(resource)[i] += amount * count * times
                self._cheaper(i)
        job = victim.gang.job
        self._shares.allocate(job.queue, job.key, victim.gang.counted, -len(victim.gang.nodes) * times)
        (self._gone.add if times > 0 else self._gone.discard)(victim.gang.job.key)

    def take(self, shape: Shape, i: int, times: int = 1) -> None:
        """Take the capacity of a pod on a node (+1), or give it back (-1)."""
        for resource, amount in self.asks(shape):
            self.column(resource)[i] -= amount * times
        if times < 0:
            self._cheaper(i)

    def relieving(self) -> Iterator[Victim]:
        """Who may still go, in order: as many as may be tried for the load in this cycle."""
        for victim in self.rest():
            if self._relieving <= 0:
                return
            self._relieving -= 1
            yield victim

    def relieves(self, victim: Victim, over: Iterable[LoadLimit]) -> bool:
        """Whether a victim brings one of these loads down."""
        gives, pods = self._shown_of(victim), self._pods_of(victim)
        return any(gives.get(limit.resource, 0) > 0 and pods.get(limit.pool, 0) > 0 for limit in over)

    def relieved(self, limits: list[LoadLimit], victim: Victim, times: int = 1) -> list[LoadLimit]:
        """The load without a victim (+1), or with it again (-1)."""
        pods, gives = self._pods_of(victim), self._shown_of(victim)
        return [limit.plus(-times * pods.get(limit.pool, 0) * gives.get(limit.resource, 0)) for limit in limits]

    def _pods_of(self, victim: Victim) -> Mapping[str, int]:
        """How many of its pods are in the load of each pool."""
        found: dict[str, int] = {}
        for name, count in victim.gang.on.items():
            if self._counts.get(name):
                pool = self._pool(name)
                found[pool] = found.get(pool, 0) + count
        return found

    def _shown_of(self, victim: Victim) -> Mapping[str, int]:
        """By how much the load falls for each of its pods."""
        return self._shown.of(victim.gang.requests, victim.gang.job.started // SECOND)

    def rest(self) -> Iterable[Victim]:
        """Who may still go, in order."""
        return (v for v in self._victims if v.gang.job.key not in self._gone and self.spares(v, {}))

    def spares(self, victim: Victim, taken: Mapping[str, Mapping[str, int]]) -> bool:
        """Rule 2, with what else is to be taken from each queue."""
        queue = victim.gang.job.queue
        also = taken.get(queue)
        takes = victim.gang.takes if also is None else {r: n + also.get(r, 0) for r, n in victim.gang.takes.items()}
        return self._shares.keeps(queue, takes)

    # --- the cheapest place for one pod ---

    def cheapest(self, shape: Shape, taken: Iterable[int]) -> tuple[int, list[Victim]] | None:
        """The node on which one pod more costs least, and who has to go there. taken: the nodes of the gang's other
        pods, from which some gangs have to keep apart; `look_again` when they are taken no more."""
        domain = self.usage.after_termination.domain
        used = {domain(shape, i) for i in taken} - {None}
        heap = self._heaps.get(shape)
        if heap is None:
            heap = self._heaps[shape] = self._by_lower_bound(shape)
        while heap and self._looks > 0:
            cost, i = heap[0]
            if used and domain(shape, i) in used:
                heapq.heappop(heap)
                continue
            self._looks -= 1
            found = self._victims_at(i, shape)
            if found is not None and _cost(found) == cost:
                return i, found
            heapq.heappop(heap)
            if found is not None:
                heapq.heappush(heap, (_cost(found), i))
        return None

    def look_again(self, shape: Shape) -> None:
        """Forget what was seen for a shape: nodes that had nothing to give may have again."""
        self._heaps.pop(shape, None)

    def _by_lower_bound(self, shape: Shape) -> list[_CostAt]:
        """The places of a shape by what one pod costs there at least. That is the first victims, as many as it takes if
        each gave as much capacity as the one that gives most."""
        places = self.usage.after_termination.places(shape)
        needed = [0] * len(places)
        for resource, amount in self.asks(shape):
            free, gives = self.column(resource), self._gives(resource)
            for at in [at for at, i in enumerate(places) if free[i] < amount]:
                i = places[at]
                needed[at] = max(needed[at], -((free[i] - amount) // gives[i]) if gives[i] else _NEVER)
        bounds, without = self._bounds, [_FREE]
        found = ((n, i, bounds.get(i, without)) for n, i in zip(needed, places, strict=True))
        heap = [(costs[n], i) for n, i, costs in found if n < len(costs)]
        heapq.heapify(heap)
        return heap

    def _gives(self, resource: str) -> list[int]:
        """Per node, the most of a resource that one victim frees there."""
        most = self._most.get(resource)
        if most is None:
            most = self._most[resource] = [0] * len(self.names)
            for i, victims in self._on_node.items():
                name = self.names[i]
                most[i] = max(dict(v.frees).get(resource, 0) * v.gang.on[name] for v in victims)
        return most

    def _cheaper(self, i: int) -> None:
        """A node may have become cheaper than it was; by how much is seen when it is looked at."""
        for heap in self._heaps.values():
            heapq.heappush(heap, (_FREE, i))

    def _victims_at(self, i: int, shape: Shape) -> list[Victim] | None:
        """The victims for one pod more on a node; None when no victims can free that capacity."""
        short = {}
        for resource, amount in self.asks(shape):
            missing = amount - self.column(resource)[i]
            if missing > 0:
                short[resource] = missing
        if not short:
            return []
        name = self.names[i]
        picked: list[Victim] = []
        taken: dict[str, dict[str, int]] = {}
        for victim in self._on_node.get(i, ()):
            if victim.gang.job.key in self._gone or not _frees(victim, short) or not self.spares(victim, taken):
                continue
            picked.append(victim)
            add(taken.setdefault(victim.gang.job.queue, {}), victim.gang.takes.items())
            for resource, amount in victim.frees:
                if resource in short:
                    short[resource] -= amount * victim.gang.on[name]
            if all(missing <= 0 for missing in short.values()):
                return _needed(picked, name, short)
        return None


def _frees(victim: Victim, short: Mapping[str, int]) -> bool:
    """Whether a victim frees anything that is missing: one on reclaimed capacity frees no requests, and the other way
    round. To take it along would use up what its queue can spare for nothing."""
    return any(short.get(resource, 0) > 0 for resource, _ in victim.frees)


def _needed(picked: list[Victim], node: str, excess: dict[str, int]) -> list[Victim]:
    """The victims of a node without those whose capacity is not needed, the most expensive spared first. `excess`: what
    is missing per resource, zero or less."""
    needed = list(picked)
    for victim in reversed(picked):
        gives = {r: amount * victim.gang.on[node] for r, amount in victim.frees if r in excess}
        if all(missing + gives.get(r, 0) <= 0 for r, missing in excess.items()):
            needed.remove(victim)
            for resource, amount in gives.items():
                excess[resource] += amount
    return needed


def _sums(victims: list[Victim]) -> list[_Cost]:
    """What the first none, one, two, … victims of a node cost."""
    found = [_FREE]
    for victim in victims:
        protected, risk, count = found[-1]
        found.append((max(protected, victim.order[0]), risk + victim.risk, count + 1))
    return found


def _cost(victims: list[Victim]) -> _Cost:
    return (max((v.order[0] for v in victims), default=False), sum(v.risk for v in victims), len(victims))


class _Attempt:
    """The search for one waiting job. It changes the free capacity of the whole search as it goes, or leaves it as it
    was."""

    def __init__(self, search: VictimSearch, candidate: Candidate, first: Victim | None = None) -> None:
        self.chosen: dict[str, Victim] = {}
        self.places: list[int] = []
        self.limits = list(search.usage.limits.soon)
        self._search = search
        self._candidate = candidate
        self._shape = candidate.shape
        if first is not None:
            self._choose(first)

    def succeeds(self) -> bool:
        """Whether everything was found; nothing is changed otherwise."""
        if self._find_places() and self._relieve_load():
            self._search.look_again(self._shape)
            return True
        self._undo()
        return False

    def _find_places(self) -> bool:
        """Rule 4, the nodes: a place for every pod of the gang."""
        for _ in range(self._candidate.parallelism):
            found = self._search.cheapest(self._shape, self.places)
            if found is None:
                return False
            i, victims = found
            for victim in victims:
                self._choose(victim)
            self._search.take(self._shape, i)
            self.places.append(i)
        return True

    def _relieve_load(self) -> bool:
        """Rule 4, the load: under its level with this job."""
        over = self._over()
        for victim in self._search.relieving() if over else ():
            if self._search.relieves(victim, over):
                self._choose(victim)
                over = self._over()
                if not over:
                    break
        return not over

    def _over(self) -> list[LoadLimit]:
        """The loads that are not under their level with this job."""
        return [limit for limit in self.limits if not self._fits_load([limit])]

    def spare(self) -> None:
        """Let stay who is not needed, the most expensive first."""
        for victim in sorted(self.chosen.values(), key=lambda v: v.order, reverse=True):
            limits = self._search.relieved(self.limits, victim, -1)
            if self._fits_load(limits) and not self._uses(victim):
                self._search.move(victim, -1)
                self._search.look_again(self._shape)
                self.limits = limits
                del self.chosen[victim.gang.job.key]

    def _undo(self) -> None:
        """As if nothing had been tried."""
        for i in self.places:
            self._search.take(self._shape, i, -1)
        for victim in self.chosen.values():
            self._search.move(victim, -1)
        self._search.look_again(self._shape)

    def _choose(self, victim: Victim) -> None:
        self.chosen[victim.gang.job.key] = victim
        self._search.move(victim, +1)
        self.limits = self._search.relieved(self.limits, victim)

    def _fits_load(self, limits: list[LoadLimit]) -> bool:
        usage = self._search.usage
        return usage.limits.fits(self._candidate, limits, usage.by_pool(self._search.names[i] for i in self.places))

    def _uses(self, victim: Victim) -> bool:
        """Whether a pod of the waiting gang would run where the victim ran, and the node has no capacity for both."""
        gives = dict(victim.frees)
        for i in set(self.places):
            count = victim.gang.on.get(self._search.names[i], 0)
            for resource, _ in self._search.asks(self._shape):
                if count and self._search.column(resource)[i] < gives.get(resource, 0) * count:
                    return True
        return False
