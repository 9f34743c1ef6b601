"""The nodes of one cycle by what placing sees of them: labels, taints, what they offer, and what of it is free before
the cycle gives any of it away. Nothing of it changes while it does.

Every look at all nodes is paid once for a question, never once for a shape. Any user may submit ten thousand jobs of as
many shapes, and thousands of nodes carry few different sets of taints and labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from scavenger_domain.node_affinity import Terms, selects_node
from scavenger_domain.requests import RECLAIMED_RESOURCES
from scavenger_domain.taints import tolerates
from scavenger_kube.kinds import Taint, Toleration

from scavenger_admitter.core.admission.placement.inputs import Amounts, NodeView
from scavenger_admitter.core.admission.placement.node_labels import NodeLabels, NodeSet, Selector
from scavenger_admitter.core.admission.placement.place_search import Blocks
from scavenger_admitter.core.admission.shape import Shape

MOST_AFFINITIES: Final = 256
"""So many different node affinities are looked at, each on all nodes."""

SCORED: Final = ("cpu", "memory")
"""What the scheduler compares nodes by."""
MOST_SEARCHES: Final = 8
"""Sets of nodes, by selector, that are searched on their own; those of further selectors among all nodes."""

_LEADING: Final = 6


@dataclass(frozen=True, slots=True)
class Size:
    """Nodes with the same taints and nearly the same size. `least` and `most`: of any of them, per resource, without
    reclaimed capacity."""

    taints: int
    least: Amounts
    most: Amounts


class NodeIndex:
    """Nodes in the order of their names, found by selector and tolerations.

    Args:
        nodes: of the snapshot; their order does not matter.

    Attributes:
        source: the nodes it was made of.
        nodes: in order; positions in it stand for nodes everywhere.
        position: of a node, by name.
        taints: the different sets of taints.
        taint_of: which of them each node carries.
        kind_of: nodes of one kind are of one pool, carry the same taints, offer the same resources, and nearly as much
            cpu and memory.
        pool_of_kind: the pool of each kind, whether it has levels of its own or not.
        schedulable: whether pods that tolerate the taints may come, of each node.
    """

    def __init__(self, nodes: Mapping[str, NodeView]) -> None:
        self.source = nodes
        self.nodes = [nodes[name] for name in sorted(nodes)]
        self.position: Final = {node.name: i for i, node in enumerate(self.nodes)}
        ids: dict[tuple[Taint, ...], int] = {}
        self.taint_of: Final = [ids.setdefault(node.taints, len(ids)) for node in self.nodes]
        self.taints: Final = list(ids)
        kinds: dict[tuple[str, int, frozenset[str], int, int], int] = {}
        self.kind_of: Final = [
            kinds.setdefault((node.pool, taints, *_kind(node.allocatable)), len(kinds))
            for taints, node in zip(self.taint_of, self.nodes, strict=True)
        ]
        self.pool_of_kind: Final = [pool for pool, *_ in kinds]
        self._kinds: Final = list(kinds)
        self.schedulable: Final = [node.schedulable for node in self.nodes]
        self._free: dict[str, list[int]] = {}
        self._blocks: dict[NodeSet, Blocks] = {}
        self._moved = 0
        self._letting_in: dict[tuple[frozenset[int], tuple[str, ...]], frozenset[int]] = {}
        self._offered: dict[str, list[int]] = {}
        self._tolerated: dict[tuple[Toleration, ...], frozenset[int]] = {}
        self._labels: Final = NodeLabels(self.nodes)
        self._chosen: dict[tuple[NodeSet, Terms, tuple[Terms, ...]], NodeSet] = {}
        self._matching: dict[tuple[NodeSet, frozenset[int]], NodeSet] = {}

    def renewed(self, nodes: Mapping[str, NodeView], changed: Iterable[str]) -> NodeIndex:
        """The index of the same nodes after pods have come and gone: all but what is free is as it was.

        changed: names of the nodes that pods came to or left, at least; names of others do no harm.
        """
        index = copy(self)
        index.source, index.nodes = nodes, list(self.nodes)
        index._free = {resource: list(column) for resource, column in self._free.items()}
        for name in changed:
            i = self.position.get(name)
            if i is not None:
                index.nodes[i] = node = nodes[name]
                index._moved += 1
                for resource, column in index._free.items():
                    column[i] = node.allocatable.get(resource, 0) - node.used.get(resource, 0)
        if index._moved > len(self.nodes) // 2:  # neighbours of then are none any more
            index._moved, index._blocks = 0, {}
        return index

    def free(self, resource: str) -> list[int]:
        """What bound pods leave of a resource on every node, negative where they request more than there is. The
        index's own list: not to be changed."""
        column = self._free.get(resource)
        if column is None:
            used = [node.used.get(resource, 0) for node in self.nodes]
            column = self._free[resource] = [o - u for o, u in zip(self.offered(resource), used, strict=True)]
        return column

    def blocks(self, selected: NodeSet) -> Blocks:
        """Nodes that `selected` gave, in blocks of neighbours. They are kept over many cycles, those of a few sets."""
        found = self._blocks.get(selected)
        if found is None:
            free, offered = [self.free(name) for name in SCORED], [self.offered(name) for name in SCORED]
            found = Blocks(selected, self.kind_of, free, offered)
            if len(self._blocks) < MOST_SEARCHES:
                self._blocks[selected] = found
        return found

    @cached_property
    def sizes(self) -> tuple[list[Size], list[int]]:
        """The different sizes of nodes, and of which each node is."""
        numbers: dict[tuple[int, tuple[tuple[str, int], ...]], int] = {}
        amounts: list[list[Amounts]] = []
        size_of = []
        for taints, node in zip(self.taint_of, self.nodes, strict=True):
            rounded = ((n, rough(value)) for n, value in node.allocatable.items() if n not in RECLAIMED_RESOURCES)
            number = numbers.setdefault((taints, tuple(sorted(rounded))), len(numbers))
            if number == len(amounts):
                amounts.append([])
            amounts[number].append(node.allocatable)
            size_of.append(number)
        sizes = []
        for (taints, size), found in zip(numbers, amounts, strict=True):
            least = {name: min([one[name] for one in found]) for name, _ in size}
            most = {name: max([one[name] for one in found]) for name, _ in size}
            sizes.append(Size(taints, least, most))
        return sizes, size_of

    def offered(self, resource: str) -> list[int]:
        """What every node offers of a resource."""
        column = self._offered.get(resource)
        if column is None:
            column = self._offered[resource] = [node.allocatable.get(resource, 0) for node in self.nodes]
        return column

    def tolerated(self, tolerations: tuple[Toleration, ...]) -> frozenset[int]:
        """The sets of taints that do not keep a pod with these tolerations away."""
        found = self._tolerated.get(tolerations)
        if found is None:
            found = self._tolerated[tolerations] = frozenset(
                i for i, taints in enumerate(self.taints) if all(tolerates(tolerations, taint) for taint in taints)
            )
        return found

    def selected(self, selector: Selector) -> NodeSet:
        """The nodes with these labels. The same object where other labels say the same of all nodes."""
        return self._labels.selected(selector)

    def chosen(self, shape: Shape) -> NodeSet:
        """The nodes that the labels, the affinity and the volumes of a shape select."""
        selected = self.selected(shape.node_selector)
        if not shape.affinity and not shape.volumes:
            return selected
        key = (selected, shape.affinity, shape.volumes)
        found = self._chosen.get(key)
        if found is None:
            if len(self._chosen) >= MOST_AFFINITIES:
                return selected  # the scheduler knows better, and a failed start is taken back
            nodes, required = self.nodes, (shape.affinity, *shape.volumes)
            found = self._chosen[key] = NodeSet(
                i for i in selected if all(selects_node(terms, nodes[i].name, nodes[i].labels) for terms in required)
            )
        return found

    def matching(self, shape: Shape) -> NodeSet:
        """The nodes whose labels and taints let a shape in, places or not."""
        selected = self.chosen(shape)
        tolerated = self.tolerated(shape.tolerations)
        if len(tolerated) == len(self.taints):
            return selected
        key = (selected, tolerated)
        found = self._matching.get(key)
        if found is None:
            taint_of = self.taint_of
            found = self._matching[key] = NodeSet(i for i in selected if taint_of[i] in tolerated)
        return found

    def kinds(self, shape: Shape) -> frozenset[int]:
        """The kinds of nodes that let a shape in and offer what it asks for."""
        key = (self.tolerated(shape.tolerations), tuple(name for name, _ in shape.requests))
        found = self._letting_in.get(key)
        if found is None:
            tolerated, asked = key
            found = self._letting_in[key] = frozenset(
                i
                for i, (_, taints, names, _, _) in enumerate(self._kinds)
                if taints in tolerated and all(name in names for name in asked)
            )
        return found


def rough(value: int) -> int:
    """An amount by its leading bits: what counts as nearly equal (to 2-3 %) has the same."""
    spare = max(0, value.bit_length() - _LEADING)
    return value >> spare << spare


def _kind(offered: Amounts) -> tuple[frozenset[str], int, int]:
    names = frozenset(name for name, value in offered.items() if value > 0)
    return names, rough(offered.get("cpu", 0)), rough(offered.get("memory", 0))
