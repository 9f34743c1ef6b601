"""What the regulator says of single nodes: how far they are from their own admission threshold, and which nodes a start
is bound to.

Requests say what is promised on a node, its headroom how much of it may still be used. Where regular pods use more than
they requested, it is less. A job gets the least of both. The regulator's figures are about the past: scavenger pods
that started since, or have not started yet, come off with what they ask for, as in the load of the cluster.

CPU on reclaimed capacity gives way and takes nothing of the headroom; a job on it is bounded by what nodes offer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

from scavenger_api.names import LEVELS_RESOURCES
from scavenger_api.reclaimed import taken_of_headroom

from scavenger_admitter.core.admission.placement.inputs import Amounts, NodeView
from scavenger_admitter.core.admission.shape import Requests, Shape

UNBOUNDED: Final = 1 << 62
"""Left of a node of which the regulator says nothing: its requests bound it."""

HEADROOM: Final = "headroom/"
"""Before the name of a resource: what is left of it up to the level of a node, where that is looked at beside what
requests leave."""

MOST_NAMED: Final = 32
"""Nodes that the affinity of a pod may name, at about a hundred bytes each."""


@lru_cache(maxsize=4096)
def takes(requests: Requests) -> Requests:
    """What a pod with these requests takes of the headroom of its node."""
    return tuple(taken_of_headroom(requests).items())


def beside(requests: Requests, of_headroom: Iterable[tuple[str, int]]) -> Requests:
    """Amounts of requests and of headroom, to be looked at beside each other."""
    return (*requests, *((HEADROOM + name, amount) for name, amount in of_headroom))


@dataclass(frozen=True, slots=True)
class Headroom:
    """Up to the levels that nodes have of their own.

    Attributes:
        left: of CPU and memory by node, in thousandths of allocatable; of nodes that are missing nothing is known.
        unseen: per node, what the figures behind these do not know yet.
        crowded: nodes with more placed on reclaimed capacity than they have to offer, though they show more.
    """

    left: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    unseen: Mapping[str, Amounts] = field(default_factory=dict)
    crowded: frozenset[str] = frozenset()

    def columns(self, nodes: Sequence[NodeView], leaving: Mapping[str, Amounts]) -> dict[str, list[int]]:
        """What is left of each resource on every node; empty where nothing is known of any. leaving: by node, what the
        figures show of pods that count as gone."""
        if not self.left:
            return {}
        nothing: Amounts = {}
        columns: dict[str, list[int]] = {}
        for which, resource in enumerate(LEVELS_RESOURCES):
            column = columns[resource] = [UNBOUNDED] * len(nodes)
            for i, node in enumerate(nodes):
                left = self.left.get(node.name)
                if left is not None:
                    column[i] = (
                        left[which] * node.allocatable.get(resource, 0) // 1000
                        - self.unseen.get(node.name, nothing).get(resource, 0)
                        + leaving.get(node.name, nothing).get(resource, 0)
                    )
        return columns

    def target(
        self,
        shape: Shape,
        nodes: Sequence[str],
        closed: frozenset[str],
        *,
        pinned: bool = False,
        shunned: frozenset[str] = frozenset(),
    ) -> Target:
        """Where the pods of a start may go that was granted these nodes.

        Args:
            shape: of each pod.
            nodes: that were granted.
            closed: nodes at or above their level.
            pinned: whether other nodes were left empty on purpose.
            shunned: nodes that start no pods for now. The scheduler sees capacity there, and knows no other reason than
                capacity: the other nodes are as good as ever, so they are not narrowed down unless there are too many.
        """
        full = closed | self.crowded if shape.reclaimed else closed
        if not full and not self.left and not pinned and not shunned:
            return ANYWHERE
        bound = bool(full or self.left or pinned or len(shunned) > MOST_NAMED)
        only, never = tuple(sorted(set(nodes))) if bound else (), full | shunned
        return Target(
            only=only if len(only) <= MOST_NAMED else (),
            never=tuple(sorted(never)) if len(never) <= MOST_NAMED else (),
        )


@dataclass(frozen=True, slots=True)
class Target:
    """The nodes of a start. The scheduler knows requests only, and would put it where those leave most free.

    Attributes:
        only: the nodes that were granted; empty where any will do, or they are too many to name.
        never: nodes that have no capacity, whatever they show; empty where they are too many to name.
        rather: a node to be taken before others; empty where none is.
        rather_not: nodes to be taken after all others.
        rather_not_on: architectures whose nodes are taken after all others.
    """

    only: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    rather: str = ""
    rather_not: tuple[str, ...] = ()
    rather_not_on: tuple[str, ...] = ()

    def unpinned(self) -> Target:
        """The same for a start that may have to go elsewhere than was granted."""
        return replace(self, only=())

    def without(self, nodes: frozenset[str]) -> Target:
        """The same for a start that may not go to these nodes."""
        never = tuple(sorted({*self.never, *nodes}))
        only = tuple(node for node in self.only if node not in nodes)
        return replace(self, only=only, never=never if len(never) <= MOST_NAMED else self.never)


ANYWHERE: Final = Target()
UNKNOWN: Final = Headroom()
"""The regulator says nothing of single nodes."""
