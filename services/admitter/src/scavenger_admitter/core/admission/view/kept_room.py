"""Capacity of jobs that were interrupted in favor of no other pod: kept for them until they are started again.

A user who deletes a pod of a gang, or its Job, has no use for the capacity of the others. Without a promise, newcomers
take it piece by piece while the pods stop, and a large gang does not fit any more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import dataclass

from scavenger_admitter.core.admission.shape import Shape
from scavenger_admitter.core.admission.snapshot import Reservation
from scavenger_admitter.core.admission.view.object_facts import PodFacts


@dataclass(slots=True)
class _Kept:
    queue: str
    shape: Shape
    parallelism: int
    nodes: tuple[str, ...]
    since: int
    lasts: int


class KeptRoom:
    """The capacity that is kept for interrupted jobs.

    Args:
        pods: all scavenger pods by job and key; a live view of the owner's mapping.
    """

    def __init__(self, pods: Mapping[str, Mapping[str, PodFacts]]) -> None:
        self._pods = pods
        self._kept: dict[str, _Kept] = {}
        self._over: set[str] = set()

    def keep(self, key: str, *, queue: str, shape: Shape, parallelism: int, since: int, lasts: int) -> None:
        """Keep the capacity of a job; its pods are terminating. since: microseconds since the epoch; of what was said
        of one interruption the earliest counts. lasts: for so long, microseconds."""
        nodes = tuple(sorted(pod.node for pod in self._pods.get(key, {}).values() if pod.node))
        known = self._kept.get(key)
        if known is not None:
            nodes, since = max(nodes, known.nodes, key=len), min(since, known.since)
        self._kept[key] = _Kept(queue, shape, parallelism, nodes, since, lasts)

    def release(self, key: str) -> None:
        """The job is started again, or is not waiting for that any more."""
        self._kept.pop(key, None)
        self._over.discard(key)

    def keys(self) -> Set[str]:
        """The jobs that capacity is kept for."""
        return self._kept.keys() - self._over

    def expire(self, now: int) -> None:
        """Keep nothing for whose pods do not go in time."""
        for kept in self._kept.values():
            kept.since = min(kept.since, now)  # the clock may have been set back
        self._over = {key for key, kept in self._kept.items() if kept.since + kept.lasts <= now}

    def reservations(self, waiting: Set[str]) -> list[Reservation]:
        """What has become free of that capacity; nothing for jobs that are queued themselves."""
        found: list[Reservation] = []
        for key in sorted(self.keys() - waiting):
            kept = self._kept[key]
            there = [pod.node for pod in self._pods.get(key, {}).values() if pod.node and not pod.ended]
            count = kept.parallelism - len(there)
            if count > 0:
                free = (Counter(kept.nodes) - Counter(there)).elements()
                found.append(Reservation(key, kept.shape, count, tuple(free)[:count], queue=kept.queue))
        return found
