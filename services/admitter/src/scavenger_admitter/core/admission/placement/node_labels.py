"""Which nodes carry which labels: sets of nodes by selector.

Any user may submit ten thousand jobs with as many selectors, and most of them say the same of all nodes. Large sets are
met as bits of one integer, and equal ones are one object.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import compress
from typing import Final

from scavenger_admitter.core.admission.placement.inputs import NodeView

Selector = tuple[tuple[str, str], ...]

FEW: Final = 128
"""So few nodes are gone through one by one: the scheduler itself looks at all nodes where there are no more than a
hundred (`minFeasibleNodesToFind`)."""

_BOOLEANS: Final = bytes.maketrans(b"01", b"\0\1")


class NodeSet(list[int]):
    """Positions of nodes, in order; not to be changed. As a key it stands for itself alone: comparing thousands of
    positions would cost more than what is kept for a set of nodes saves."""

    __slots__ = ()
    __hash__ = object.__hash__  # type: ignore[assignment]
    __eq__ = object.__eq__


class NodeLabels:
    """Nodes by their labels.

    Args:
        nodes: of the index, in order.

    Attributes:
        all: the set of all nodes.
    """

    def __init__(self, nodes: Sequence[NodeView]) -> None:
        self.all: Final = NodeSet(range(len(nodes)))
        self._labels: Final = [node.labels for node in nodes]
        self._by_label: dict[str, dict[str, NodeSet]] = {}
        self._masks: dict[tuple[str, str], int] = {}
        self._selected: dict[Selector | int, NodeSet] = {(): self.all, (1 << len(nodes)) - 1: self.all}

    def selected(self, selector: Selector) -> NodeSet:
        """The nodes with these labels. The same object where other labels say the same of all nodes."""
        found = self._selected.get(selector)
        if found is None:
            found = self._selected[selector] = self._select(selector)
        return found

    def _select(self, selector: Selector) -> NodeSet:
        smallest = min((self._labelled(*pair) for pair in selector), key=len)
        if len(smallest) <= FEW:
            labels = self._labels
            return NodeSet(i for i in smallest if all(labels[i].get(name) == value for name, value in selector))
        mask = -1
        for pair in selector:
            mask &= self._mask(pair)
        found = self._selected.get(mask)
        if found is None:
            bits = f"{mask:b}"[::-1].encode().translate(_BOOLEANS)
            found = self._selected[mask] = NodeSet(compress(self.all, bits))
        return found

    def _labelled(self, name: str, value: str) -> NodeSet:
        values = self._by_label.get(name)
        if values is None:
            values = self._by_label[name] = {}
            for i, labels in enumerate(self._labels):
                has = labels.get(name)
                if has is not None:
                    values.setdefault(has, NodeSet()).append(i)
        return values.get(value) or NodeSet()

    def _mask(self, pair: tuple[str, str]) -> int:
        mask = self._masks.get(pair)
        if mask is None:
            mask = self._masks[pair] = _bits(self._labelled(*pair), len(self._labels))
        return mask


def _bits(positions: Iterable[int], size: int) -> int:
    """An integer with these bits set."""
    digits = bytearray(b"0" * (size + 1))
    for i in positions:
        digits[size - i] = 0x31
    return int(digits, 2)
