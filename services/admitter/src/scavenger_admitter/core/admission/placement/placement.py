"""Capacity of the nodes during one cycle: which pods fit where, and what is taken.

Which node is chosen. kube-scheduler, not this plan, binds the pods in the end, and by default it spreads. The node with
the most capacity left wins (LeastAllocated: the mean of free cpu and memory after placement, in whole percent of
allocatable). The plan follows the same score, so that the capacity it takes from a node is the capacity that is really
taken. Two jobs of one cycle do not both count on the place that the scheduler gives to the first. A pod that requests
no cpu and no memory (reclaimed capacity) is scored by what is free. The 100m and 200Mi that the scheduler puts in place
of a *missing* request do not count: scavenger pods say 0 (component-helpers resource/helpers.go applyNonMissing).
Packing tightly instead would leave larger holes on paper only. Where the score is equal the scheduler picks at random;
the plan then picks the smaller node, so that the larger ones stay whole for large jobs, and then by name.

Why it is quick: what of the nodes does not change is looked up in a `NodeIndex`, and the best place is found without
looking at every node (`place_search.py`). All pods of a gang are equal, so how many fit is a sum over nodes, known
before the first is taken: nothing is ever rolled back. What no waiting will change is told apart in `empty_cluster.py`.

Where an autoscaler removes nodes, jobs leave it those that regular pods hardly use. They fill one node after the other,
from that of which regular pods request the largest share. A start is bound to the nodes that it was granted, as the
scheduler would take the emptiest.

Closed nodes (at or above their own admission threshold, or nodes that have refused pods) take no new scavenger job. The
others take no more than their headroom (`headroom.py`). A shape may avoid further nodes (`Shape.avoids`). Regular pods
and starts under way may still land there, so they reserve capacity there as well, and what they reserve comes off the
headroom. The score stays that of the scheduler.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from functools import cached_property
from typing import Final

from scavenger_api.reasons import WaitReason
from scavenger_api.reclaimed import counted_as
from scavenger_domain.requests import RECLAIMED_RESOURCES

from scavenger_admitter.core.admission.placement.headroom import HEADROOM, UNKNOWN, Headroom, beside, takes
from scavenger_admitter.core.admission.placement.inputs import Amounts, PendingPod
from scavenger_admitter.core.admission.placement.node_index import MOST_SEARCHES, SCORED, NodeIndex
from scavenger_admitter.core.admission.placement.node_labels import FEW, NodeSet
from scavenger_admitter.core.admission.placement.place_search import Ask, Places, PlaceSearch
from scavenger_admitter.core.admission.shape import PODS, Requests, Shape
from scavenger_admitter.core.waits import Wait, spell

MOST_LOOKS: Final = 200_000
"""Nodes looked at in a cycle to see whether whole gangs fit: about a tenth of a second."""

MOST_KEPT_LOOKS: Final = 50_000
"""Nodes looked at in a cycle to see whether regular pods to which some nodes are barred fit anywhere else. Pods that
are not judged any more hold nothing."""

MOST_HOLDERS: Final = 3
"""Pods that a message names."""

_ANY: Final = 1 << 62


class Among(Enum):
    """Which nodes are looked at."""

    OPEN = "those that new jobs may use"
    ALL = "closed ones as well, which regular pods may use"


class Room:
    """Free amounts of all nodes, from which a cycle takes.

    Args:
        index: of the nodes.
        closed: names of nodes that take no new scavenger job.
        terminating: per node what counts as free, though pods that have been told to go still request it.
        leaving: per node what the figures behind the headroom show of them, and of those that have gone.
        headroom: up to the levels that nodes have of their own.
        ranks: of the nodes, by which jobs choose instead of by what is free: the smallest first.
        pools: with levels of their own, by name; all other nodes are of the default pool.

    Attributes:
        looks: nodes that were looked at to see whether whole gangs fit; counted down from `MOST_LOOKS`.
    """

    def __init__(
        self,
        index: NodeIndex,
        closed: frozenset[str] = frozenset(),
        terminating: Mapping[str, Amounts] | None = None,
        headroom: Headroom = UNKNOWN,
        leaving: Mapping[str, Amounts] | None = None,
        ranks: list[int] | None = None,
        pools: frozenset[str] = frozenset(),
    ) -> None:
        self._index = index
        self._nodes = index.nodes
        self._schedulable = index.schedulable
        self._usable_by: Final = {Among.ALL: index.schedulable, Among.OPEN: index.schedulable}
        if closed:
            self._usable_by[Among.OPEN] = [node.schedulable and node.name not in closed for node in self._nodes]
        self._every: Final = {among: all(usable) for among, usable in self._usable_by.items()}
        self._terminating = terminating or {}
        # One column per resource, made when first asked for: a filter over one list of integers is the
        # fastest loop there is in Python.
        self._free: dict[str, list[int]] = {}
        self._ranks: Final = ranks
        self._left: Final = headroom.columns(self._nodes, leaving or {})
        self.looks = MOST_LOOKS
        self._taken: list[int] = []
        self._usable: dict[tuple[NodeSet, Among], NodeSet] = {}
        self._without: dict[tuple[NodeSet, tuple[str, ...]], NodeSet] = {}
        self._searches: dict[tuple[NodeSet, Among], PlaceSearch] = {}
        self._among: dict[NodeSet, frozenset[int]] = {}
        found: dict[Shape, Places] = {}  # open places, for jobs
        self._found: Final[dict[Among, dict[Shape, Places]]] = {
            Among.OPEN: found,
            Among.ALL: {} if closed or self._left or ranks else found,
        }
        self._found_in: dict[tuple[Shape, str], Places] = {}
        self._kept: list[tuple[int, PendingPod]] = []
        self._promised: list[str] = []
        self._expected: dict[int, Amounts] = {}
        self._pools: Final = pools
        self._pool_of_kind: Final = [pool if pool in pools else "" for pool in index.pool_of_kind]
        self._in_pool: dict[tuple[NodeSet, str], NodeSet] = {}
        self._kinds_in_pool: dict[tuple[frozenset[int], str], frozenset[int]] = {}
        self._pools_of: dict[tuple[NodeSet, frozenset[int]], tuple[str, ...]] = {}
        self._unbarred: dict[tuple[Shape, int], int] = {}
        self._kept_looks = MOST_KEPT_LOOKS
        # No more than this many pods of a shape fit; learnt when a gang did not.
        self._at_most: dict[tuple[Shape, str | None], int] = {}

    # --- taking capacity ---

    def place(self, shape: Shape, count: int = 1, pool: str | None = None) -> tuple[str, ...] | None:
        """Take capacity for `count` pods of a shape, in one pool where that is given: their nodes. None, and nothing is
        taken, when not all fit."""
        if shape.apart and count > 1:
            return self._place_apart(shape, count, pool)
        places = self._places_of(shape) if pool is None or not self._pools else self._places_in(shape, pool)
        if count > 1 and not self._fits(shape, count, places, pool):
            return None
        taken = []
        for _ in range(count):
            i = places.best()
            if i is None:
                return None  # the first and only one: how many of a gang fit was known before
            self._take(i, shape)
            taken.append(self._nodes[i].name)
        return tuple(taken)

    def _place_apart(self, shape: Shape, count: int, pool: str | None) -> tuple[str, ...] | None:
        """As `place`, for pods that may not share a value of a node label: the best node of each value, best first."""
        places = self._apart(shape, count, pool)
        self.looks -= len(self.places(shape))
        if len(places) < count:
            return None
        for i in places:
            self._take(i, shape)
        return tuple(self._nodes[i].name for i in places)

    def _apart(self, shape: Shape, enough: int, pool: str | None = None) -> list[int]:
        """Places for up to `enough` pods that may not share a value of a node label. Nodes without the label are for
        as many as they hold."""
        ask = self._ask(shape, Among.OPEN)
        found: list[int] = []
        used: set[str] = set()
        nodes = self.places(shape) if pool is None else self._nodes_in(shape, pool)
        for i in sorted(ask.fitting(nodes), key=ask.key):
            domain = self.domain(shape, i)
            if domain not in used:
                found += [i] * (1 if domain is not None else ask.holds(i))
            if domain is not None:
                used.add(domain)
            if len(found) >= enough:
                break
        return found[:enough]

    def _fits(self, shape: Shape, count: int, places: Places, pool: str | None) -> bool:
        """Whether that many pods of a shape fit now, all at once."""
        return self._holding(shape, count, places, pool) >= count

    def _holding(self, shape: Shape, count: int, places: Places, pool: str | None) -> int:
        known = self._at_most.get((shape, pool))
        if known is not None and known < count:
            return known
        room, looks = places.room(count)
        self.looks -= looks
        if room < count:
            self._at_most[shape, pool] = room
        return min(room, count)

    def holding(self, shape: Shape, count: int, pool: str) -> int:
        """How many of so many pods of a shape a pool has capacity for now."""
        return self._holding(shape, count, self._places_in(shape, pool), pool)

    def pools(self, shape: Shape, *, closed: bool = False) -> tuple[str, ...]:
        """The pools of the nodes that would let a new job of this shape in and have what it asks for, the default pool
        (empty) first. closed: of those that take no new job as well."""
        if not self._pools:
            return ("",)
        among = Among.ALL if closed else Among.OPEN
        nodes, kinds = self._usable_nodes(self._index.matching(shape), among), self._index.kinds(shape)
        found = self._pools_of.get((nodes, kinds))
        if found is None:
            kind_of, pool_of = self._index.kind_of, self._pool_of_kind
            there = {kind_of[i] for i in nodes} & kinds
            found = self._pools_of[nodes, kinds] = tuple(sorted({pool_of[kind] for kind in there}))
        return found

    def reserve(self, shape: Shape, count: int, planned: Iterable[str] = ()) -> None:
        """Take capacity for pods that will come anyway: on the planned nodes where they fit, else on the best.

        Each pod on its own; one that fits nowhere takes nothing.
        """
        for name in planned:
            i = self._index.position.get(name)
            if count and i is not None and self._schedulable[i] and self._holds(i, shape):
                self._take(i, shape)
                count -= 1
        places = self._places_of(shape, Among.ALL)
        for _ in range(count):
            i = places.best()
            if i is None:
                return
            self._take(i, shape)

    def keep(self, pod: PendingPod) -> None:
        """Take capacity for a regular pod that waits: on its nominated node, fit or not, as its victims are still
        terminating. Else on the best where it fits. Nothing is taken where only nodes fit that may be barred to it."""
        i = self._index.position.get(pod.nominated)
        if i is None or not self._schedulable[i]:
            if pod.barred and not self._fits_unbarred(pod):
                return
            i = self._places_of(pod.shape, Among.ALL).best()
            if i is None:
                return
            self._promised.append(pod.key)
        self._take(i, pod.shape)
        self._kept.append((i, pod))

    def _fits_unbarred(self, pod: PendingPod) -> bool:
        """Whether more nodes have capacity for a pod than would not take it; counted down for equal pods. Which ones
        are barred is not known, so a node that has capacity counts as barred as long as it may be."""
        kind = (pod.shape, pod.barred)
        left = self._unbarred.get(kind)
        if left is None:
            nodes = self._usable_nodes(self._index.matching(pod.shape), Among.ALL)
            barred = pod.barred - (len(self._nodes) - len(nodes))  # the scheduler counts nodes that we left out as well
            if barred <= 0:
                left = _ANY
            elif self._kept_looks < len(nodes):
                left = 0
            else:
                self._kept_looks -= len(nodes)
                left = sum(self._holds(i, pod.shape) for i in nodes) - barred
        self._unbarred[kind] = left - 1
        return left > 0

    def take(self, shape: Shape, nodes: Iterable[str]) -> None:
        """Take capacity on these nodes, one pod for each mention, fit or not: other pods have it already."""
        for name in nodes:
            i = self._index.position.get(name)
            if i is not None:
                self._take(i, shape)

    def expect(self, name: str, amounts: Amounts) -> None:
        """Keep so much of a node for regular pods that may come, whether it is free now or not."""
        i = self._index.position.get(name)
        if i is None:
            return
        for resource, amount in amounts.items():
            self._column(resource)[i] -= amount
        self._expected[i] = amounts
        self._taken.append(i)

    def _take(self, i: int, shape: Shape) -> None:
        for resource, amount in shape.requests:
            self._column(resource)[i] -= amount
        for resource, amount in takes(shape.requests) if self._left else ():
            self._left[resource][i] -= amount
        self._taken.append(i)

    # --- looking ---

    @property
    def promised(self) -> tuple[str, ...]:
        """The regular pods that capacity was found for, and that may take it now."""
        return tuple(self._promised)

    @property
    def names(self) -> list[str]:
        """The nodes, in the order of `free` and `places`."""
        return [node.name for node in self._nodes]

    @property
    def expects(self) -> bool:
        """Whether capacity is kept for regular pods that may come."""
        return bool(self._expected)

    def free(self, resource: str, *, anywhere: bool = False) -> list[int]:
        """What requests leave of a resource on every node, or what is left up to the nodes' levels where it has the
        prefix HEADROOM: a copy, negative where there is less than nothing. anywhere: with what is kept for regular pods
        that may come."""
        if resource.startswith(HEADROOM):
            return list(self._left[resource.removeprefix(HEADROOM)])
        column = list(self._column(resource))
        for i, amounts in self._expected.items() if anywhere else ():
            column[i] += amounts.get(resource, 0)
        return column

    def asks(self, shape: Shape) -> Requests:
        """What a pod has to find on a node, by the names of `free`."""
        if not self._left or shape.reclaimed:
            return shape.requests
        return beside(shape.requests, takes(shape.requests))

    def places(self, shape: Shape, *, closed: bool = False) -> NodeSet:
        """Positions of the nodes that would let a new job of this shape in, if they had the capacity. closed: with
        those at or above their own admission threshold."""
        if closed:
            return self._usable_nodes(self._index.matching(shape), Among.ALL)
        usable = self._usable_nodes(self._index.matching(shape), Among.OPEN)
        return self._not_avoided(usable, shape) if shape.avoids else usable

    def domain(self, shape: Shape, i: int) -> str | None:
        """The value that no two pods of a shape may share, of a node; None where they may."""
        return self._nodes[i].labels.get(shape.apart) if shape.apart else None

    def _column(self, resource: str) -> list[int]:
        column = self._free.get(resource)
        if column is None:
            column = self._free[resource] = list(self._index.free(resource))
            for name, amounts in self._terminating.items():
                if name in self._index.position:
                    column[self._index.position[name]] += amounts.get(resource, 0)
        return column

    def _holds(self, i: int, shape: Shape) -> bool:
        return all(self._column(resource)[i] >= amount for resource, amount in shape.requests)

    def _usable_nodes(self, matching: NodeSet, among: Among) -> NodeSet:
        key = (matching, among)
        found = self._usable.get(key)
        if found is None:
            usable = self._usable_by[among]
            every = self._every[among]
            found = self._usable[key] = matching if every else NodeSet(i for i in matching if usable[i])
        return found

    def _not_avoided(self, usable: NodeSet, shape: Shape) -> NodeSet:
        """These nodes without those that a shape avoids."""
        key = (usable, shape.avoids)
        found = self._without.get(key)
        if found is None:
            avoided = {self._index.position.get(name) for name in shape.avoids}
            found = self._without[key] = NodeSet(i for i in usable if i not in avoided)
        return found

    def _nodes_in(self, shape: Shape, pool: str) -> NodeSet:
        """The nodes of a pool that would let a new job of this shape in."""
        nodes = self.places(shape)
        if not self._pools:
            return nodes
        found = self._in_pool.get((nodes, pool))
        if found is None:
            kind_of, pool_of = self._index.kind_of, self._pool_of_kind
            found = self._in_pool[nodes, pool] = NodeSet(i for i in nodes if pool_of[kind_of[i]] == pool)
        return found

    def _kinds_in(self, shape: Shape, pool: str) -> frozenset[int]:
        """The kinds of nodes of a pool that let a shape in and offer what it asks for."""
        kinds = self._index.kinds(shape)
        found = self._kinds_in_pool.get((kinds, pool))
        if found is None:
            found = self._kinds_in_pool[kinds, pool] = frozenset(i for i in kinds if self._pool_of_kind[i] == pool)
        return found

    def _places_in(self, shape: Shape, pool: str) -> Places:
        """The places of a shape in one pool."""
        if len(self.pools(shape)) == 1:  # the places of all pools, which are kept up to date anyway
            return self._places_of(shape)
        key = (shape, pool)
        places = self._found_in.get(key)
        if places is None:
            nodes = self._nodes_in(shape, pool)
            places = self._found_in[key] = self._seek(shape, Among.OPEN, nodes, self._kinds_in(shape, pool))
        return places

    def _places_of(self, shape: Shape, among: Among = Among.OPEN) -> Places:
        if shape.avoids and among is Among.ALL:
            shape = shape.avoiding(())
        known = self._found[among]
        places = known.get(shape)
        if places is None:
            nodes = self._usable_nodes(self._index.matching(shape), among)
            nodes = self._not_avoided(nodes, shape) if shape.avoids else nodes
            places = known[shape] = self._seek(shape, among, nodes, self._index.kinds(shape))
        return places

    @cached_property
    def _scored(self) -> list[tuple[str, list[int], list[int]]]:
        """What nodes are compared by: what is free of it, and what they offer. CPU comes first."""
        return [(name, self._column(name), self._index.offered(name)) for name in SCORED]

    def _ask(self, shape: Shape, among: Among) -> Ask:
        asked, scored = dict(shape.requests), self._scored
        needs = [(self._column(name), amount) for name, amount in shape.requests]
        if self._left and among is not Among.ALL and not shape.reclaimed:
            needs += [(self._left[name], amount) for name, amount in takes(shape.requests)]
        return Ask(
            needs=tuple(needs),
            scored=tuple([(free, asked.get(name, 0), offered) for name, free, offered in scored]),
            size=scored[0][2],
            ranks=self._ranks if among is Among.OPEN else None,
        )

    def _seek(self, shape: Shape, among: Among, nodes: NodeSet, kinds: frozenset[int]) -> Places:
        """The places of a shape among the nodes that it may use, which are all that there are of their kinds."""
        ask = self._ask(shape, among)
        if len(nodes) <= FEW:
            return Places(ask, nodes)
        selected = self._index.chosen(shape)
        everywhere = self._index.selected(())
        only: Collection[int] | None = None
        if shape.avoids:
            only = self._among.setdefault(nodes, frozenset(nodes))
        if (selected, among) not in self._searches and len(self._searches) >= MOST_SEARCHES:
            only = self._among.setdefault(nodes, frozenset(nodes))
            selected = everywhere
        return Places(ask, nodes, self._search(selected, among), kinds, only)

    def _search(self, selected: NodeSet, among: Among) -> PlaceSearch:
        key = (selected, among)
        search = self._searches.get(key)
        if search is None:
            cpu, memory = SCORED
            search = self._searches[key] = PlaceSearch(
                self._index.blocks(selected),
                self._usable_by[among],
                (self._column(cpu), self._column(memory)),
                (self._index.offered(cpu), self._index.offered(memory)),
                self._taken,
            )
        return search

    # --- the sentence for those that wait for capacity ---

    @cached_property
    def _publishes(self) -> bool:
        """Whether a node publishes reclaimed capacity, be it none at the moment."""
        return any(not RECLAIMED_RESOURCES.isdisjoint(node.allocatable) for node in self._nodes)

    def no_place(self, shape: Shape, count: int) -> Wait:
        """The hold of a gang that does not fit now."""
        if shape.reclaimed and not self._publishes:
            return Wait(WaitReason.NOTHING_RECLAIMED, lambda: f"{_needs(shape, count)}; {_UNPUBLISHED}", count)
        if self._lacks_headroom(shape):
            return Wait(WaitReason.NO_HEADROOM, lambda: self._no_headroom(shape, count), count)
        return Wait(WaitReason.NO_PLACE, lambda: self._no_place(shape, count), count)

    def _lacks_headroom(self, shape: Shape) -> bool:
        """Whether no node takes even one pod, though by requests one has capacity for it."""
        if not self._left or shape.reclaimed or self._places_of(shape).best() is not None:
            return False
        return self._places_of(shape, Among.ALL).best() is not None

    def _no_headroom(self, shape: Shape, count: int) -> str:
        needs, places = _needs(shape, count), self.places(shape)
        if not places:
            return f"{needs}; every node with capacity for it by requests is at its own level"
        most, name = self._closest(shape, places)
        return f"{needs}; no node has that much left up to its own level (most: {most} on node {name})"

    def _no_place(self, shape: Shape, count: int) -> str:
        needs = _needs(shape, count)
        places = self.places(shape)
        if not places:
            return f"{needs}; every node it may run on is not ready, cordoned, at its own level or refuses pods"
        apart = bool(shape.apart) and count > 1
        room = len(self._apart(shape, count)) if apart else self._places_of(shape).room(count)[0]
        if room:
            where = f" on nodes that differ in {shape.apart}" if apart else ""
            return f"{needs}; there is capacity for {room}{where} now{self._holders(shape)}"
        largest = self._largest_free(shape, places)
        if shape.reclaimed:
            return f"{needs}; no node offers that much now (most: {largest})"
        return f"{needs}; the largest free place is {largest}{self._holders(shape)}"

    def _holders(self, shape: Shape) -> str:
        """The regular pods without which a pod of this shape would fit where it does not."""
        held: dict[int, list[PendingPod]] = {}
        for i, pod in self._kept:
            held.setdefault(i, []).append(pod)
        places, names = frozenset(self.places(shape)), []
        for i, pods in sorted(held.items()):
            kept = {resource: sum(pod.shape.request(resource) for pod in pods) for resource, _ in shape.requests}
            fits = all(self._column(resource)[i] + kept[resource] >= amount for resource, amount in shape.requests)
            if i in places and fits and not self._holds(i, shape):
                names += [pod.key for pod in pods]
        if not names:
            return self._kept_free(shape, places)
        more = f" and {len(names) - MOST_HOLDERS} more" if len(names) > MOST_HOLDERS else ""
        return f", as more is held for pods that wait for a node: {', '.join(names[:MOST_HOLDERS])}{more}"

    def _kept_free(self, shape: Shape, places: frozenset[int]) -> str:
        """Whether a pod of this shape would fit where capacity is kept for regular pods that may come."""
        for i, amounts in self._expected.items():
            free = ((self._column(r)[i] + amounts.get(r, 0), amount) for r, amount in shape.requests)
            if i in places and not self._holds(i, shape) and all(left >= amount for left, amount in free):
                return ", as more is kept for regular pods that may come at this hour (keptRoom)"
        return ""

    def _largest_free(self, shape: Shape, places: list[int]) -> str:
        """What there is on the place that comes closest."""
        most, name = self._closest(shape, places)
        if self._column(PODS)[self._index.position[name]] <= 0:
            return f"node {name}, which holds as many pods as it may"
        return most

    def _closest(self, shape: Shape, places: list[int]) -> tuple[str, str]:
        """The place that comes closest to what one pod asks for, with the largest share of what it lacks most: what it
        has, and its name."""
        left, free = {} if shape.reclaimed else self._left, {}
        for name, _ in shape.requests:
            free[name] = self._column(name)
            if name in left:
                free[name] = list(map(min, free[name], left[name]))

        def share(i: int) -> tuple[float, int]:
            return (min(free[name][i] / amount for name, amount in shape.requests), -i)

        best = max(places, key=share)
        return words((name, max(0, free[name][best])) for name in free), self._nodes[best].name


_UNPUBLISHED: Final = "no node offers any: the regulator publishes it when started with --reclaimed"


def _needs(shape: Shape, count: int) -> str:
    return f"needs {count} pods of {words(shape.requests)} each" if count > 1 else f"needs {words(shape.requests)}"


def words(requests: Iterable[tuple[str, int]]) -> str:
    """What is asked of a node as a person reads it: `2 cpu, 1Gi memory of reclaimed capacity, 1 nvidia.com/gpu`."""
    asked = list(requests)
    reclaimed = [(name, value) for name, value in asked if name in RECLAIMED_RESOURCES]
    if not reclaimed:
        return spell(asked)
    others = [(name, value) for name, value in asked if name not in RECLAIMED_RESOURCES and name != PODS]
    text = f"{spell(counted_as(reclaimed).items())} of reclaimed capacity"
    return f"{text}, {spell(others)}" if others else text
