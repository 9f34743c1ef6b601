"""Capacity that jobs leave free for regular pods that may come (`keptRoom` of the regulator): how much on which node.

The regulator says how much of a pool. It is kept on the largest nodes, so that large regular pods fit there: on one
after the other all that regular pods do not request, until it is enough, CPU and memory each for itself. Jobs that run
there stay; where they end, no other job starts.

A node on which a turn is kept (`turns.py`) is left out, and another one kept. So a job that fits nowhere else does not
wait for ever.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

_PPM: Final = 1_000_000
Amounts = Mapping[str, int]


class NodeLike(Protocol):
    """A node, with what pods request there: millicores of cpu, bytes of memory."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def pool(self) -> str:
        """The pool that it is in."""

    @property
    def allocatable(self) -> Amounts:
        """What it offers to pods."""

    @property
    def used(self) -> Amounts:
        """What all pods request there."""

    @property
    def scavenger(self) -> Amounts:
        """The part of it that scavenger pods request."""

    @property
    def schedulable(self) -> bool:
        """Pods may come now."""

    @property
    def counts(self) -> bool:
        """The load is measured over it."""


@dataclass(frozen=True, slots=True)
class OfferedNode:
    """A node, and no more of it than that.

    Attributes:
        name: as of `NodeLike`, and so are the others.
        pool: that it is in.
        allocatable: millicores of cpu, bytes of memory.
        used: by all pods.
        scavenger: by scavenger pods.
        schedulable: now.
        counts: for the load.
    """

    name: str
    pool: str
    allocatable: Amounts
    used: Amounts
    scavenger: Amounts
    schedulable: bool
    counts: bool


def kept_for_regular_pods(
    nodes: Iterable[NodeLike], kept: Mapping[str, Amounts], turns: Collection[str]
) -> dict[str, Amounts]:
    """What is kept on each node, by its name; nodes of which nothing is are missing.

    Args:
        nodes: all of them.
        kept: millionths of what the nodes can allocate, by pool and resource; the default pool has no name. All other
            pools with levels of their own are in it, whether anything is kept there or not.
        turns: names of nodes on which a turn is kept.
    """
    found: dict[str, dict[str, int]] = {}
    pools: dict[str, list[NodeLike]] = {}
    for node in nodes:
        if node.counts:
            pools.setdefault(node.pool if node.pool in kept else "", []).append(node)
    for pool, members in pools.items():
        members.sort(key=lambda node: (-node.allocatable.get("cpu", 0), node.name))
        for resource, ppm in kept.get(pool, {}).items():
            left = sum(node.allocatable.get(resource, 0) for node in members) * ppm // _PPM
            for node in members:
                if left <= 0:
                    break
                part = min(left, _not_requested(node, resource))
                if part > 0 and node.schedulable and node.name not in turns:
                    found.setdefault(node.name, {})[resource] = part
                    left -= part
    return dict(found)


def _not_requested(node: NodeLike, resource: str) -> int:
    """What regular pods leave of a node."""
    regular = node.used.get(resource, 0) - node.scavenger.get(resource, 0)
    return node.allocatable.get(resource, 0) - regular
