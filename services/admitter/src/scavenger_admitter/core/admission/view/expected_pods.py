"""Capacity that jobs leave free for regular pods that may come (`keptRoom` of the regulator): how much on which node.

The regulator says how much of a pool. It is kept on the largest nodes, so that large regular pods fit there: on one
after the other all that regular pods do not request, until it is enough, CPU and memory each for itself. Jobs that run
there stay; where they end, no other job starts.

A node on which a turn is kept (`turns.py`) is left out, and another one kept. So a job that fits nowhere else does not
wait for ever.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from scavenger_admitter.core.admission.load import PPM
from scavenger_admitter.core.admission.placement.inputs import Amounts, NodeView


def kept_for_regular_pods(
    nodes: Mapping[str, NodeView], kept: Mapping[str, Amounts], turns: Collection[str]
) -> dict[str, Amounts]:
    """What is kept on each node, by its name; nodes of which nothing is are missing.

    Args:
        nodes: of the snapshot.
        kept: millionths of what the nodes can allocate, by pool and resource; the default pool has no name. All other
            pools with levels of their own are in it, whether anything is kept there or not.
        turns: names of nodes on which a turn is kept.
    """
    found: dict[str, dict[str, int]] = {}
    pools: dict[str, list[NodeView]] = {}
    for node in nodes.values():
        if node.counts:
            pools.setdefault(node.pool if node.pool in kept else "", []).append(node)
    for pool, members in pools.items():
        members.sort(key=lambda node: (-node.allocatable.get("cpu", 0), node.name))
        for resource, ppm in kept.get(pool, {}).items():
            left = sum(node.allocatable.get(resource, 0) for node in members) * ppm // PPM
            for node in members:
                if left <= 0:
                    break
                part = min(left, _not_requested(node, resource))
                if part > 0 and node.schedulable and node.name not in turns:
                    found.setdefault(node.name, {})[resource] = part
                    left -= part
    return dict(found)


def _not_requested(node: NodeView, resource: str) -> int:
    """What regular pods leave of a node."""
    regular = node.used.get(resource, 0) - node.scavenger.get(resource, 0)
    return node.allocatable.get(resource, 0) - regular
