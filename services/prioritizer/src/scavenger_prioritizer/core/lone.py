"""Which nodes no regular pod is on: an autoscaler may remove these, and the scavenger jobs on them are in its way."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping


def lone_nodes(
    nodes: Iterable[str], held: Collection[str], known: Collection[str], since: Mapping[str, int], now: int, after: int
) -> tuple[frozenset[str], dict[str, int]]:
    """The nodes that no regular pod has been on for long enough, and since when there is none on each.

    A regular pod ends it at once, and the time is counted from its end: labels of a node's pods change twice in it at
    most, however often regular pods come and go.

    Args:
        nodes: names of all nodes.
        held: those with a regular pod.
        known: those that counted as lone before this process started, by the labels of their pods.
        since: what this returned the last time.
        now, after: microseconds.
    """
    first = {node: since.get(node, 0 if node in known else now) for node in nodes if node not in held}
    return frozenset(node for node, at in first.items() if now - at >= after), first
