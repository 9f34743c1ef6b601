"""Room on the nodes during one cycle: who fits where, and what is taken.

Which node is chosen. kube-scheduler, not this plan, binds the pods in the end, and out of the box it spreads: the node
with the most room left wins (LeastAllocated: the mean of free cpu and memory after placement, in whole percent of
allocatable). The plan follows the same score, so that the room it takes from a node is the room that is really taken,
and two jobs of one cycle do not both count on the place the scheduler gives to the first. A pod that requests no cpu
and no memory (reclaimed capacity) is scored by what is free, without the 100m and 200Mi that the scheduler puts in
place of a request that is *missing*: ours say 0 (component-helpers resource/helpers.go applyNonMissing). Packing
tightly instead would leave larger holes on paper only. Where the score is equal the scheduler picks at random; the plan
then picks the smaller node, so that the larger ones stay whole for large jobs, and then by name.

Why it is quick. Within a cycle room only shrinks: a node that does not fit a shape never will again, and its score for
a shape only falls. So each shape keeps a heap of its nodes, ranked once, in which only the top is brought up to date
(lazily), and a shape for which no node is left is refused at once from then on. All pods of a gang are equal, so how
many fit is a sum over nodes, known before the first is taken: nothing is ever rolled back.

Closed nodes (at or above a level of their own, says the regulator) take no new scavenger job. Ordinary pods
and starts under way may still land there, so they reserve room there as well.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Final

from scavenger_api.reasons import WaitReason
from scavenger_api.reclaimed import counted_as
from scavenger_domain.requests import RECLAIMED_RESOURCES
from scavenger_domain.taints import spell_taint, tolerates
from scavenger_kube.kinds import Taint, Toleration

from scavenger_admitter.core.admission.shape import PODS, Shape
from scavenger_admitter.core.admission.snapshot import Amounts, NodeView
from scavenger_admitter.core.waits import Wait, spell

_Key = tuple[int, int, int]  # (score negated, allocatable cpu, index): the smallest is the best place


class _Ranking:
    """The places of one shape, best first.

    Holds the columns of the room it reads, not copies: what other shapes take is seen here.

    Args:
        needs: per resource the free column, and what one pod requests.
        scored: per resource that counts for the score the free column, the request, and the allocatable
            column.
        size: what makes a node large, for the choice among equals.
        nodes: indexes of the nodes that may be places.
    """

    __slots__ = ("_heap", "_needs", "_scored", "_size")

    def __init__(
        self,
        needs: list[tuple[list[int], int]],
        scored: list[tuple[list[int], int, list[int]]],
        size: list[int],
        nodes: list[int],
    ) -> None:
        self._needs = needs
        self._scored = scored
        self._size = size
        for free, amount in needs:
            nodes = [i for i in nodes if free[i] >= amount]
        self._heap = [self._key(i) for i in nodes]
        heapq.heapify(self._heap)

    def best(self) -> int | None:
        """The best place, or None when none is left."""
        heap = self._heap
        while heap:
            top = heap[0]
            i = top[2]
            if any(free[i] < amount for free, amount in self._needs):
                heapq.heappop(heap)
                continue
            key = self._key(i)
            if key == top:
                return i
            heapq.heapreplace(heap, key)
        return None

    def room(self, enough: int) -> int:
        """How many pods fit; stops counting at `enough`."""
        if enough == 1:
            return int(self.best() is not None)  # clears away what no longer fits, instead of passing it again
        total = 0
        for _, _, i in self._heap:
            total += max(0, min(free[i] // amount for free, amount in self._needs))
            if total >= enough:
                break
        return total

    def _key(self, i: int) -> _Key:
        """Rank of a node for one more pod (k8s.io/kubernetes noderesources/least_allocated.go)."""
        score = 0
        for free, request, offered in self._scored:
            left = free[i] - request
            if left > 0:
                score += left * 100 // offered[i]
        return (-(score // 2), self._size[i], i)


class Room:
    """Free amounts of all nodes, from which a cycle takes.

    Args:
        nodes: the nodes of the snapshot; their order does not matter.
        closed: names of nodes that take no new scavenger job.
        terminating: per node what counts as free, though pods that have been told to go still use it.
    """

    def __init__(
        self,
        nodes: Mapping[str, NodeView],
        closed: frozenset[str] = frozenset(),
        terminating: Mapping[str, Amounts] | None = None,
    ) -> None:
        self._nodes = [nodes[name] for name in sorted(nodes)]
        self._schedulable = [node.schedulable for node in self._nodes]
        self._open = [node.schedulable and node.name not in closed for node in self._nodes]
        self._index = {node.name: i for i, node in enumerate(self._nodes)}
        self._terminating = terminating or {}
        # One column per resource, made when first asked for: a filter over one list of integers is the
        # fastest loop there is in Python.
        self._free: dict[str, list[int]] = {}
        self._allocatable: dict[str, list[int]] = {}
        self._tolerated: dict[tuple[Toleration, ...], list[int]] = {}
        self._admitted: dict[tuple[tuple[tuple[str, str], ...], tuple[Toleration, ...]], list[int]] = {}
        self._ranked: dict[Shape, _Ranking] = {}  # open places, for jobs
        self._ranked_all: dict[Shape, _Ranking] = {} if closed else self._ranked
        # No more than this many pods of a shape fit; learnt when a gang did not.
        self._at_most: dict[Shape, int] = {}

    # --- taking room ---

    def place(self, shape: Shape, count: int = 1) -> tuple[str, ...] | None:
        """Take room for `count` pods of a shape: their nodes, or None and nothing taken when not all fit."""
        if not self.fits(shape, count):
            return None
        ranking = self._ranking(shape)
        return tuple(self._nodes[self._take_best(ranking, shape)].name for _ in range(count))

    def fits(self, shape: Shape, count: int = 1) -> bool:
        """Whether that many pods of a shape fit now, all at once."""
        if count > self._at_most.get(shape, count):
            return False
        room = self._ranking(shape).room(count)
        if room < count:
            self._at_most[shape] = room
        return room >= count

    def reserve(self, shape: Shape, count: int, planned: Iterable[str] = ()) -> None:
        """Take room for pods that will come anyway: on the planned nodes where they fit, else on the best.

        Each pod on its own; one that fits nowhere takes nothing.
        """
        for name in planned:
            i = self._index.get(name)
            if count and i is not None and self._schedulable[i] and self._holds(i, shape):
                self._take(i, shape)
                count -= 1
        ranking = self._ranking(shape, closed_too=True)
        for _ in range(count):
            if ranking.best() is None:
                return
            self._take_best(ranking, shape)

    def reserve_nominated(self, shape: Shape, node: str) -> bool:
        """Take room on the node a pod is nominated to, fit or not: its victims are still terminating.

        False, and nothing taken, when there is no such place any more.
        """
        i = self._index.get(node)
        if i is None or not self._schedulable[i]:
            return False
        self._take(i, shape)
        return True

    def take(self, shape: Shape, nodes: Iterable[str]) -> None:
        """Take room on these nodes, one pod for each mention, fit or not: it is given to somebody already."""
        for name in nodes:
            i = self._index.get(name)
            if i is not None:
                self._take(i, shape)

    def _take(self, i: int, shape: Shape) -> None:
        for resource, amount in shape.requests:
            self._column(resource)[i] -= amount

    def _take_best(self, ranking: _Ranking, shape: Shape) -> int:
        i = ranking.best()
        assert i is not None, "take only what fits"
        self._take(i, shape)
        return i

    # --- looking ---

    @property
    def names(self) -> list[str]:
        """The nodes, in the order of `free` and `places`."""
        return [node.name for node in self._nodes]

    def free(self, resource: str) -> list[int]:
        """What is free of a resource on every node: a copy, negative where more is used than there is."""
        return list(self._column(resource))

    def places(self, shape: Shape) -> list[int]:
        """Positions of the nodes that would let a new job of this shape in, if they had the room."""
        return [i for i in self._matching(shape) if self._open[i]]

    def _column(self, resource: str) -> list[int]:
        column = self._free.get(resource)
        if column is None:
            offered = self._offered(resource)
            used = [node.used.get(resource, 0) for node in self._nodes]
            column = self._free[resource] = [o - u for o, u in zip(offered, used, strict=True)]
            for name, amounts in self._terminating.items():
                if name in self._index:
                    column[self._index[name]] += amounts.get(resource, 0)
        return column

    def _offered(self, resource: str) -> list[int]:
        column = self._allocatable.get(resource)
        if column is None:
            column = self._allocatable[resource] = [node.allocatable.get(resource, 0) for node in self._nodes]
        return column

    def _holds(self, i: int, shape: Shape) -> bool:
        return all(self._column(resource)[i] >= amount for resource, amount in shape.requests)

    def _ranking(self, shape: Shape, *, closed_too: bool = False) -> _Ranking:
        ranked, usable = (self._ranked_all, self._schedulable) if closed_too else (self._ranked, self._open)
        ranking = ranked.get(shape)
        if ranking is None:
            ranking = ranked[shape] = _Ranking(
                needs=[(self._column(name), amount) for name, amount in shape.requests],
                scored=[(self._column(name), shape.request(name), self._offered(name)) for name in ("cpu", "memory")],
                size=self._offered("cpu"),
                nodes=[i for i in self._matching(shape) if usable[i]],
            )
        return ranking

    def _matching(self, shape: Shape) -> list[int]:
        """Nodes whose labels and taints let a shape in, places or not."""
        key = (shape.node_selector, shape.tolerations)
        found = self._admitted.get(key)
        if found is None:
            found = self._tolerating(shape.tolerations)
            for name, value in shape.node_selector:
                found = [i for i in found if self._nodes[i].labels.get(name) == value]
            self._admitted[key] = found
        return found

    def _tolerating(self, tolerations: tuple[Toleration, ...]) -> list[int]:
        found = self._tolerated.get(tolerations)
        if found is None:
            # Thousands of nodes carry few different sets of taints.
            known: dict[tuple[Taint, ...], bool] = {(): True}
            found = []
            for i, node in enumerate(self._nodes):
                fine = known.get(node.taints)
                if fine is None:
                    fine = known[node.taints] = all(tolerates(tolerations, taint) for taint in node.taints)
                if fine:
                    found.append(i)
            self._tolerated[tolerations] = found
        return found

    # --- what no waiting will change ---

    def impossible(self, shape: Shape, count: int) -> Wait | None:
        """Why a gang would not fit an empty cluster either, if so: job or nodes have to change, not the load.

        Nodes that are not ready or cordoned count here: they may be back any time.
        """
        matching = self._matching(shape)
        if not matching:
            return self._mismatch(shape)
        total = 0
        for i in matching:
            total += self._empty_room(i, shape)
            if total >= count:
                return None
        if total == 0:
            return Wait(WaitReason.LARGER_THAN_ANY_NODE, lambda: self._largest_node(shape))
        return Wait(
            WaitReason.LARGER_THAN_CLUSTER,
            f"needs {count} pods of {spell(shape.counted)} each; all nodes together would hold {total} of"
            f" them, were they empty: lower parallelism or {_field(shape)}, or add nodes",
            count,
        )

    @cached_property
    def _publishes(self) -> bool:
        """Whether anybody publishes reclaimed capacity, be it none at the moment."""
        return any(not RECLAIMED_RESOURCES.isdisjoint(node.allocatable) for node in self._nodes)

    def _empty_room(self, i: int, shape: Shape) -> int:
        # What is offered of reclaimed capacity changes by the minute; the node's own size does not.
        return max(0, min(self._offered(name)[i] // amount for name, amount in shape.counted))

    def _mismatch(self, shape: Shape) -> Wait:
        if not self._nodes:
            return Wait(WaitReason.NO_NODE, "the cluster has no node")
        selector = ", ".join(f"{name}={value}" for name, value in shape.node_selector)
        labels = dict(shape.node_selector)
        selected = [n for n in self._nodes if all(n.labels.get(k) == v for k, v in labels.items())]
        if not selected:
            return Wait(WaitReason.NO_SELECTOR_MATCH, f"no node has the labels of spec.nodeSelector: {selector}")
        taints = sorted(
            {
                spell_taint(taint)
                for node in selected
                for taint in node.taints
                if not tolerates(shape.tolerations, taint)
            }
        )
        which = f"nodes with the labels {selector}" if selector else "nodes"
        return Wait(
            WaitReason.TAINT_NOT_TOLERATED,
            f"all {which} carry a taint that spec.tolerations does not cover: {', '.join(taints)}",
        )

    def _largest_node(self, shape: Shape) -> str:
        matching = self._matching(shape)
        short = []
        for name, amount in shape.counted:
            most = max(self._offered(name)[i] for i in matching)
            if most < amount:
                short.append((name, amount, most))
        asks = "asks for" if shape.reclaimed else "requests"
        if not short:
            return f"{asks} {spell(shape.counted)}; no node offers all of that: lower {_field(shape)}"
        asked = spell((name, amount) for name, amount, _ in short)
        offered = spell((name, most) for name, _, most in short)
        return f"{asks} {asked}; the largest node offers {offered}: lower {_field(shape)} or add a node"

    # --- the sentence for those that wait for room ---

    def no_place(self, shape: Shape, count: int) -> Wait:
        """The hold of a gang that does not fit now."""
        if shape.reclaimed and not self._publishes:
            return Wait(WaitReason.NOTHING_RECLAIMED, lambda: f"{_needs(shape, count)}; {_UNPUBLISHED}", count)
        return Wait(WaitReason.NO_PLACE, lambda: self._no_place(shape, count), count)

    def _no_place(self, shape: Shape, count: int) -> str:
        needs = _needs(shape, count)
        places = [i for i in self._matching(shape) if self._open[i]]
        if not places:
            return f"{needs}; every node it may run on is not ready, cordoned or at its own level"
        room = self._ranking(shape).room(count)
        if room:
            return f"{needs}; there is room for {room} now"
        largest = self._largest_free(shape, places)
        if shape.reclaimed:
            return f"{needs}; no node offers that much now (most: {largest})"
        return f"{needs}; the largest free place is {largest}"

    def _largest_free(self, shape: Shape, places: list[int]) -> str:
        """The place that comes closest to what one pod asks for: the largest share of what it lacks most."""

        def share(i: int) -> tuple[float, int]:
            return (min(self._column(name)[i] / amount for name, amount in shape.requests), -i)

        best = max(places, key=share)
        names = [name for name, _ in shape.requests]
        if self._column(PODS)[best] <= 0:
            return f"node {self._nodes[best].name}, which holds as many pods as it may"
        return words((name, max(0, self._column(name)[best])) for name in names)


_UNPUBLISHED: Final = "no node offers any: the regulator publishes it when started with --reclaimed"


def _needs(shape: Shape, count: int) -> str:
    return f"needs {count} pods of {words(shape.requests)} each" if count > 1 else f"needs {words(shape.requests)}"


def _field(shape: Shape) -> str:
    """The field that says what a job of this shape asks for."""
    return "resources.limits" if shape.reclaimed else "resources.requests"


def words(requests: Iterable[tuple[str, int]]) -> str:
    """What is asked of a node as a person reads it: `2 cpu, 1Gi memory of reclaimed capacity, 1 nvidia.com/gpu`."""
    asked = list(requests)
    reclaimed = [(name, value) for name, value in asked if name in RECLAIMED_RESOURCES]
    if not reclaimed:
        return spell(asked)
    others = [(name, value) for name, value in asked if name not in RECLAIMED_RESOURCES and name != PODS]
    text = f"{spell(counted_as(reclaimed).items())} of reclaimed capacity"
    return f"{text}, {spell(others)}" if others else text
