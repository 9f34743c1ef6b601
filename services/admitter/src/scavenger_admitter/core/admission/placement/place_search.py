"""The best place for a pod, without looking at every node for every shape.

Within a cycle free capacity only shrinks, which is what makes all of this quick. A node that does not fit a shape never
will again, and its score for a shape only falls; its rank stays. There are three ways to the same answer:

  * `Ranking`: all nodes of one shape in a heap, of which only the top is brought up to date. Ranking five thousand
    nodes takes milliseconds, so it pays where there are few nodes, or many pods of one shape.
  * `PlaceSearch`: nodes in blocks of neighbours, by what is free of cpu and memory. Of each block the most that any of
    its nodes has free of a resource is known, and so is a bound of the score. A shape looks at a few dozen bounds and
    then at the nodes of one or two blocks; one that fits nowhere looks at no node. So ten thousand different shapes,
    which any user may submit, cost not much more than one.
  * `Places` chooses between them.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

Key = tuple[int, int, int]
"""(score negated or rank, allocatable cpu, position): the smallest is the best place."""

Column = list[int]

BLOCK: Final = 32
"""Nodes in a block, at most."""

MANY: Final = 24
"""After so many pods of one shape all of its nodes are ranked."""


@dataclass(slots=True)
class Ask:
    """What one pod asks for. Holds the columns of free capacity, not copies: what others take is seen here.

    Attributes:
        needs: per resource what is free on every node, and what the pod requests.
        scored: per resource that counts for the score what is free, the request, and what every node offers.
        size: what makes a node large, for the choice among equals.
        ranks: which nodes are better than others, the smaller ones; None: the score says so.
    """

    needs: tuple[tuple[Column, int], ...]
    scored: tuple[tuple[Column, int, Column], ...]
    size: Column
    ranks: Column | None = None

    def key(self, i: int) -> Key:
        """What sorts nodes for one more pod: the rank, or the score of the scheduler (k8s.io/kubernetes
        noderesources/least_allocated.go)."""
        if self.ranks is not None:
            return (self.ranks[i], self.size[i], i)
        score = 0
        for free, request, offered in self.scored:
            left = free[i] - request
            if left > 0:
                score += left * 100 // offered[i]
        return (-(score // 2), self.size[i], i)

    def holds(self, i: int) -> int:
        """How many pods a node has capacity for."""
        return max(0, min(free[i] // amount for free, amount in self.needs))

    def fitting(self, nodes: Sequence[int]) -> Sequence[int]:
        """Those of some nodes that have capacity for one pod."""
        for free, amount in self.needs:
            nodes = [i for i in nodes if free[i] >= amount]
        return nodes


class Ranking:
    """The places of one shape, best first."""

    def __init__(self, ask: Ask, nodes: Sequence[int]) -> None:
        self._ask = ask
        self._heap = [ask.key(i) for i in ask.fitting(nodes)]
        heapq.heapify(self._heap)

    def best(self) -> int | None:
        """The best place, or None when none is left."""
        heap, ask = self._heap, self._ask
        while heap:
            top = heap[0]
            i = top[2]
            if any(free[i] < amount for free, amount in ask.needs):
                heapq.heappop(heap)
                continue
            key = ask.key(i)
            if key == top:
                return i
            heapq.heapreplace(heap, key)
        return None

    def candidates(self) -> Iterator[int]:
        """The nodes that may have capacity, each once."""
        return (i for _, _, i in self._heap)


@dataclass(frozen=True, slots=True)
class _Block:
    """Nodes of one kind with about as much free.

    Attributes:
        nodes: their positions.
        first: the smallest size and the first position, for the choice among equals.
        size: which of the largest sizes bounds them.
    """

    nodes: list[int]
    first: tuple[int, int]
    size: int


class Blocks:
    """Nodes in blocks of neighbours. Who is whose neighbour makes a search quick and changes nothing of what it finds,
    so blocks serve as long as about as much is free on most nodes, with nodes among them that are no places just now.

    Args:
        nodes: those that may be places.
        kinds: of each node: shapes are let in by whole kinds.
        free: what is free of the resources that are scored.
        offered: what nodes offer of them, in the same order.

    Attributes:
        blocks: all of them; they are known by their number here.
        block_of: which of them a node is in.
        largest: per kind the most that any node of it offers, per scored resource.
    """

    def __init__(
        self, nodes: Sequence[int], kinds: Sequence[int], free: Sequence[Column], offered: Sequence[Column]
    ) -> None:
        self.blocks: list[_Block] = []
        self.block_of: dict[int, int] = {}
        self.largest: list[tuple[int, ...]] = []
        self._of_kind: dict[int, list[int]] = {}
        members: dict[int, list[int]] = {}
        for i in nodes:
            members.setdefault(kinds[i], []).append(i)
        for kind, found in members.items():
            for part in _neighbours(found, free, 0):
                self.block_of.update(dict.fromkeys(part, len(self.blocks)))
                self._of_kind.setdefault(kind, []).append(len(self.blocks))
                first = (min([offered[0][i] for i in part]), min(part))
                self.blocks.append(_Block(part, first, len(self.largest)))
            self.largest.append(tuple(max([column[i] for i in found]) for column in offered))

    def of_kinds(self, kinds: frozenset[int]) -> list[int]:
        """The numbers of the blocks with nodes of these kinds, in order."""
        return sorted(number for kind in kinds for number in self._of_kind.get(kind, ()))


def _neighbours(nodes: list[int], free: Sequence[Column], depth: int) -> Iterator[list[int]]:
    """Blocks by halves: of what is free of one resource, then of the other, and so on."""
    if len(nodes) <= BLOCK:
        yield nodes
        return
    nodes = sorted(nodes, key=free[depth % len(free)].__getitem__)
    half = len(nodes) // 2
    yield from _neighbours(nodes[:half], free, depth + 1)
    yield from _neighbours(nodes[half:], free, depth + 1)


class PlaceSearch:
    """The best place among many nodes.

    Args:
        blocks: of the nodes that may be places.
        usable: of each node of the cluster, whether it is one now.
        free: what is free of the resources that are scored.
        offered: what nodes offer of them, in the same order.
        taken: a log of the nodes from which something was taken, by position; it only grows.
    """

    def __init__(
        self,
        blocks: Blocks,
        usable: Sequence[bool],
        free: tuple[Column, Column],
        offered: tuple[Column, Column],
        taken: Sequence[int],
    ) -> None:
        self._free, self._offered = free, offered
        self._taken = taken
        self._read = len(taken)
        self._blocks = blocks
        self._nodes = [block.nodes for block in blocks.blocks]
        if not all(usable):
            self._nodes = [[i for i in nodes if usable[i]] for nodes in self._nodes]
        self._of_kinds: dict[frozenset[int], list[int]] = {}
        # Of every block: the most that any node has free, per resource; and the highest share free that any has, in
        # percent, summed over what is scored.
        self._most: dict[int, tuple[Column, list[int]]] = {}
        self._best_ranks: list[int] | None = None
        self._shares = [self._highest(nodes) for nodes in self._nodes]

    def best(self, ask: Ask, kinds: frozenset[int], among: Collection[int] | None) -> int | None:
        """The best place for one pod on nodes of these kinds, or None. `among`: only these nodes."""
        bounds = self._bounds(ask, numbers) if (numbers := self._open(ask, kinds)) else []
        ranked = ask.ranks is not None
        heapq.heapify(bounds)
        found: Key | None = None
        while bounds:
            bound, number = heapq.heappop(bounds)
            first = self._blocks.blocks[number].first
            least = int(bound) if ranked else -int((_ROUNDING - bound) // 2)
            if found is not None and (least, *first) > found:
                if least > found[0]:
                    break
                continue
            nodes = ask.fitting(self._nodes[number])
            if among is not None:
                nodes = [i for i in nodes if i in among]
            if nodes:
                best = min([ask.key(i) for i in nodes])
                found = best if found is None or best < found else found
        return None if found is None else found[2]

    def candidates(self, ask: Ask, kinds: frozenset[int], among: Collection[int] | None) -> Iterator[int]:
        """The nodes that may have capacity for a pod, each once."""
        for number in self._open(ask, kinds):
            for i in self._nodes[number]:
                if among is None or i in among:
                    yield i

    def _bounds(self, ask: Ask, numbers: list[int]) -> list[tuple[float, int]]:
        """The best score that any node of a block could have: negated, in percent, summed over what is scored. Or the
        best rank that one has."""
        if ask.ranks is not None:
            if self._best_ranks is None:
                ranks = ask.ranks
                self._best_ranks = [min([ranks[i] for i in nodes], default=0) for nodes in self._nodes]
            return [(self._best_ranks[number], number) for number in numbers]
        asked = [request * 100 for _, request, _ in ask.scored]
        less = [
            sum([request / most for request, most in zip(asked, largest, strict=True) if request and most])
            for largest in self._blocks.largest
        ]
        shares, blocks = self._shares, self._blocks.blocks
        return [(less[blocks[number].size] - shares[number], number) for number in numbers]

    def _open(self, ask: Ask, kinds: frozenset[int]) -> list[int]:
        """The blocks in which no resource is too scarce for a pod."""
        self._catch_up()
        found = self._of_kinds.get(kinds)
        if found is None:
            found = self._of_kinds[kinds] = [n for n in self._blocks.of_kinds(kinds) if self._nodes[n]]
        for free, amount in ask.needs:
            if not found:
                break
            most = self._most_free(free)
            found = [number for number in found if most[number] >= amount]
        return found

    def _most_free(self, free: Column) -> list[int]:
        known = self._most.get(id(free))
        if known is None:
            most = [max([free[i] for i in nodes], default=0) for nodes in self._nodes]
            known = self._most[id(free)] = (free, most)
        return known[1]

    def _catch_up(self) -> None:
        """Look again at the blocks where something was taken since."""
        taken = self._taken
        if self._read == len(taken):
            return
        block_of = self._blocks.block_of
        stale = {block_of[i] for i in taken[self._read :] if i in block_of}
        self._read = len(taken)
        for number in stale:
            nodes = self._nodes[number]
            for free, most in self._most.values():
                most[number] = max([free[i] for i in nodes], default=0)
            self._shares[number] = self._highest(nodes)

    def _highest(self, nodes: list[int]) -> float:
        # Both resources in one pass over the nodes: every cycle looks at all of them once.
        (cpu, memory), (all_cpu, all_memory) = self._free, self._offered
        shares = [
            (cpu[i] * 100 / all_cpu[i] if cpu[i] > 0 else 0.0)
            + (memory[i] * 100 / all_memory[i] if memory[i] > 0 else 0.0)
            for i in nodes
        ]
        return max(shares, default=0.0)


_ROUNDING: Final = 1e-6
"""A bound of a score is a sum of fractions, the score one of whole numbers."""


class Places:
    """The places of one shape, by the way that suits.

    Args:
        ask: what a pod of it asks for.
        nodes: those that would let it in.
        search: finds the best of many nodes; None: they are few.
        kinds: that let it in and have what it asks for.
        among: the search knows nodes beside these; None: it does not.
    """

    __slots__ = ("_among", "_ask", "_gone", "_kinds", "_nodes", "_ranking", "_search", "_sought")

    def __init__(
        self,
        ask: Ask,
        nodes: Sequence[int],
        search: PlaceSearch | None = None,
        kinds: frozenset[int] = frozenset(),
        among: Collection[int] | None = None,
    ) -> None:
        self._ask = ask
        self._nodes = nodes
        self._search = search
        self._kinds = kinds
        self._among = among
        self._sought = 0
        self._gone = False
        self._ranking = Ranking(ask, nodes) if search is None else None

    def best(self) -> int | None:
        """The best place, or None when none is left."""
        if self._gone:
            return None
        if self._ranking is None:
            self._sought += 1
            if self._sought > MANY:
                self._ranking = Ranking(self._ask, self._nodes)
        if self._ranking is not None:
            found = self._ranking.best()
        else:
            assert self._search is not None
            found = self._search.best(self._ask, self._kinds, self._among)
        self._gone = found is None
        return found

    def room(self, enough: int) -> tuple[int, int]:
        """How many pods fit, and how many nodes were looked at for that; stops counting at `enough`."""
        total = looks = 0
        for i in self._candidates():
            looks += 1
            total += self._ask.holds(i)
            if total >= enough:
                break
        return total, looks

    def _candidates(self) -> Iterator[int]:
        if self._ranking is not None:
            return self._ranking.candidates()
        assert self._search is not None
        return self._search.candidates(self._ask, self._kinds, self._among)
