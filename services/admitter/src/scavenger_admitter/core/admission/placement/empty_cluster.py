"""What no waiting will change: jobs that would not fit the cluster either if it were empty.

Nodes that are not ready or cordoned count here: they may be back any time. What is offered of reclaimed capacity
changes by the minute, the node's own size does not: it is the size that counts.

Nodes are judged in groups of nearly equal size, by the smallest and by the largest of the group. Only where the two do
not agree are nodes looked at one by one, and no more than `MOST_LOOKS` of them in a cycle. A job for which that does
not suffice waits for capacity instead, and is judged another time.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from scavenger_api.reasons import WaitReason
from scavenger_domain.taints import spell_taint, tolerates

from scavenger_admitter.core.admission.placement.inputs import Amounts
from scavenger_admitter.core.admission.placement.node_index import NodeIndex
from scavenger_admitter.core.admission.placement.node_labels import NodeSet
from scavenger_admitter.core.admission.shape import Shape
from scavenger_admitter.core.waits import Wait, spell

MOST_LOOKS: Final = 200_000
"""Nodes looked at one by one in a cycle: less than a tenth of a second."""

_NEVER: Final = 1 << 62


class EmptyCluster:
    """The nodes of a cycle as if nothing ran on them.

    Args:
        index: of the nodes.

    Attributes:
        looks: how many nodes may still be looked at one by one.
    """

    def __init__(self, index: NodeIndex) -> None:
        self._index = index
        self._counts: dict[NodeSet, list[tuple[int, int]]] = {}
        self.looks = MOST_LOOKS

    def impossible(self, shape: Shape, count: int) -> Wait | None:
        """Why a gang of `count` pods would not fit either, if so: job or nodes have to change, not the load."""
        return self._too_large(shape, count) or (self._too_close(shape, count) if shape.apart and count > 1 else None)

    def _too_close(self, shape: Shape, count: int) -> Wait | None:
        """Whether the nodes that hold a pod do not differ enough for pods that must be apart."""
        matching, nodes = self._index.matching(shape), self._index.nodes
        if self.looks < len(matching):
            return None
        self.looks -= len(matching)
        values: set[str] = set()
        total = 0
        for i in matching:
            value = nodes[i].labels.get(shape.apart)
            if value in values or not (holds := _holds(nodes[i].allocatable, shape)):
                continue
            total += holds if value is None else 1
            if value is not None:
                values.add(value)
            if total >= count:
                return None
        message = (
            f"needs {count} nodes that differ in the label {shape.apart}, as its pod anti-affinity requires; of the"
            f" nodes it may run on there are {total}: lower parallelism or add nodes"
        )
        return Wait(WaitReason.LARGER_THAN_CLUSTER, message, count)

    def _too_large(self, shape: Shape, count: int) -> Wait | None:
        selected = self._index.chosen(shape)
        tolerated = self._index.tolerated(shape.tolerations)
        sizes, _ = self._index.sizes
        groups = [(n, nodes) for n, nodes in self._sizes_of(selected) if sizes[n].taints in tolerated]
        if not groups:
            return self._mismatch(shape)
        agreed = sure = likely = 0
        unsure: set[int] = set()
        for number, nodes in groups:
            size = sizes[number]
            high = _holds(size.most, shape)
            low = _holds(size.least, shape) if high else 0
            sure += low * nodes
            likely += high * nodes
            if sure >= count:
                return None
            if low == high:
                agreed += low * nodes
            else:
                unsure.add(number)
        total = sure
        if likely >= count or (likely and not sure):  # open whether all fit, or whether even one does
            found = self._count(shape, selected, unsure, count - agreed if likely >= count else 1)
            if found is None or agreed + found >= count:
                return None
            total = agreed + found
        if total == 0:
            return Wait(WaitReason.LARGER_THAN_ANY_NODE, lambda: self._largest_node(shape))
        return Wait(WaitReason.LARGER_THAN_CLUSTER, lambda: self._too_many(shape, count), count)

    def _count(self, shape: Shape, selected: list[int], sizes: set[int], enough: int) -> int | None:
        """How many pods the nodes of these sizes hold, up to `enough`; None when that is not known in this cycle."""
        total = 0
        size_of, nodes = self._index.sizes[1], self._index.nodes
        for i in selected:
            if size_of[i] not in sizes:
                continue
            if self.looks <= 0:
                return None
            self.looks -= 1
            total += _holds(nodes[i].allocatable, shape)
            if total >= enough:
                break
        return total

    def _sizes_of(self, selected: NodeSet) -> list[tuple[int, int]]:
        """The sizes among some nodes, and how many nodes are of each; the most frequent first."""
        counts = self._counts.get(selected)
        if counts is None:
            counted = Counter(map(self._index.sizes[1].__getitem__, selected))
            counts = self._counts[selected] = counted.most_common()
        return counts

    # --- sentences, made when they are asked for ---

    def _mismatch(self, shape: Shape) -> Wait:
        if not self._index.nodes:
            return Wait(WaitReason.NO_NODE, "the cluster has no node")
        selector = ", ".join(f"{name}={value}" for name, value in shape.node_selector)
        selected = self._index.chosen(shape)
        if not selected:
            where = f"of spec.nodeSelector: {selector}" if selector else "that its node affinity requires"
            if shape.volumes and self._index.chosen(shape.where_volumes_are(())):
                where = "that its volumes require" + (" beside its own" if selector or shape.affinity else "")
            return Wait(WaitReason.NO_SELECTOR_MATCH, f"no node has the labels {where}")
        return Wait(WaitReason.TAINT_NOT_TOLERATED, lambda: self._tainted(shape, selector))

    def _tainted(self, shape: Shape, selector: str) -> str:
        index = self._index
        sets = {index.taint_of[i] for i in index.chosen(shape)}
        taints = sorted(
            {spell_taint(t) for one in sets for t in index.taints[one] if not tolerates(shape.tolerations, t)}
        )
        which = f"nodes with the labels {selector}" if selector else "nodes"
        return f"all {which} carry a taint that spec.tolerations does not cover: {', '.join(taints)}"

    def _too_many(self, shape: Shape, count: int) -> str:
        total = sum(_holds(self._index.nodes[i].allocatable, shape) for i in self._index.matching(shape))
        return (
            f"needs {count} pods of {spell(shape.counted)} each; all nodes together would hold {total} of"
            f" them, were they empty: lower parallelism or {field(shape)}, or add nodes"
        )

    def _largest_node(self, shape: Shape) -> str:
        matching = self._index.matching(shape)
        short = []
        for name, amount in shape.counted:
            offered = self._index.offered(name)
            most = max(offered[i] for i in matching)
            if most < amount:
                short.append((name, amount, most))
        asks = "asks for" if shape.reclaimed else "requests"
        if not short:
            return f"{asks} {spell(shape.counted)}; no node offers all of that: lower {field(shape)}"
        asked = spell((name, amount) for name, amount, _ in short)
        offers = spell((name, most) for name, _, most in short)
        return f"{asks} {asked}; the largest node offers {offers}: lower {field(shape)} or add a node"


def _holds(offered: Amounts, shape: Shape) -> int:
    """How many pods of a shape fit a node of that size."""
    most = _NEVER
    for name, amount in shape.counted:
        fit = offered.get(name, 0) // amount
        if fit <= 0:
            return 0
        most = min(most, fit)
    return most


def field(shape: Shape) -> str:
    """The field that says what a job of this shape asks for."""
    return "resources.limits" if shape.reclaimed else "resources.requests"
