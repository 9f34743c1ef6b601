"""What each queue deserves: the weighted shares of the queues in what scavenging may use.

    usable   = what scavenger jobs request now + what may still start under the admission threshold
    deserved = weight / sum of the weights of the queues with demand * usable            per resource
    share    = the greatest, over the resources, of what the queue holds / usable        (the dominant share)

A queue is within its share while no resource of it is above what it deserves; it is over its share when one is. This is
dominant resource fairness (Ghodsi et al., NSDI 2011) with weights, on requests and what stands for them: a
reclaimed CPU is a CPU. The slots that nodes have for pods are a resource as any other: small pods use them up first.

A queue that takes has to be within its share for certain, and a donor has to be over its share for certain. What donors
deserve is reckoned from all that scavenging might use, if what may be in the load and counts beside it as well
(`load_overlap.py`) is in it.

Namespaces of a queue that says so take turns in the same way: by what each holds / usable / its weight. Nothing else is
theirs. The under-served namespace goes first, so each may use what no other namespace has a job for. No running job is
interrupted for another one of its queue.

Demand: jobs that run or start, or queued jobs that could ever start. What a queue deserves does not depend on how much
it asks for: what it leaves is lent to the others (backfill), in the order of their shares.

Why `usable` is taken from both ends: without measurements it is the admission threshold of allocatable less what
regular pods request, as docs/queues.md says. With measurements it is not known which part of the load is whose, but
what may still start is known. What has started holds its requests.

All comparisons are of whole products, without division: equal situations are decided equally.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from scavenger_api.states import QueueState

from scavenger_admitter.core.admission.load import PPM, LoadLimit
from scavenger_admitter.core.admission.shape import Requests, Shape
from scavenger_admitter.core.admission.snapshot import Snapshot, namespace_of
from scavenger_admitter.core.admission.sums import add

Rank = tuple[int, int, str]
"""What turns are taken by; the least goes first. The last part is the name."""

_SCALE: Final = 10**12
"""Shares are ranked as whole trillionths."""


@dataclass(frozen=True, slots=True)
class QueueShare:
    """What a queue has and deserves, for its status.

    Attributes:
        allocated: what its pods and its starts under way request, pods that are terminating included.
        deserved: its part of what scavenging may use; of a queue without demand, what it would be if it had any. None
            while the load is not known.
    """

    allocated: Mapping[str, int]
    deserved: Mapping[str, int] | None


def usable(snapshot: Snapshot, overlap: Mapping[str, int]) -> dict[str, int]:
    """What scavenging may use of each resource, its running jobs included. overlap: what the limits count twice."""
    limits: dict[str, int] = {}
    for limit in snapshot.limits:
        limits[limit.resource] = limits.get(limit.resource, 0) + _headroom(limit)
    total: dict[str, int] = {}
    for name in sorted(snapshot.capacity.keys() | snapshot.scavenged.keys()):
        held = snapshot.scavenged.get(name, 0)
        left = limits.get(name)
        if left is None:
            free = snapshot.capacity.get(name, 0) - snapshot.requested.get(name, 0)
        else:  # of a load only, as requests go with their pods
            free = left + snapshot.recently_terminated.get(name, 0) + overlap.get(name, 0)
        total[name] = max(0, held + free)
    return total


def _headroom(limit: LoadLimit) -> int:
    """What may still be requested under the level; negative when the load is above it."""
    return (limit.admission_ppm - limit.load_ppm) * limit.allocatable // PPM - limit.requested


class Shares:
    """The shares during one cycle: what each queue holds changes with every start and every victim.

    Pods that are terminating are not counted as held: they cannot be taken back a second time.

    Args:
        snapshot: of the cycle.
        demanding: the queues with demand.
    """

    def __init__(self, snapshot: Snapshot, demanding: Collection[str]) -> None:
        self._queues = snapshot.queues
        self._demanding = frozenset(demanding)
        self._usable = usable(snapshot, {})
        self._weights = sum(snapshot.queues[name].weight for name in self._demanding)
        self._held = {name: dict(queue.allocated) for name, queue in snapshot.queues.items()}
        self._by_namespace = {
            name: {namespace: dict(held) for namespace, held in queue.by_namespace.items()}
            for name, queue in snapshot.queues.items()
            if queue.namespace_weights is not None
        }
        for pod in snapshot.terminating:
            if pod.queue in self._held:
                self.allocate(pod.queue, pod.job, pod.counted, -1)
        # Compared are `held * weights` and `usable * weight`, both whole.
        self._scale = {name: self._weights_with(name) for name in snapshot.queues}
        self._due = self._due_of(self._usable)
        self._due_at_most = self._due_of(usable(snapshot, snapshot.overlap)) if snapshot.overlap else self._due
        self._beyond: set[tuple[str, Shape, int]] = set()

    # --- asking ---

    @property
    def contested(self) -> bool:
        """Whether more than one queue has demand: a queue alone may use everything."""
        return len(self._demanding) > 1

    def held(self, queue: str) -> Mapping[str, int]:
        """What a queue holds now."""
        return self._held[queue]

    def deserved(self, queue: str) -> dict[str, int]:
        """What a queue deserves of each resource, rounded down."""
        return {name: due // self._scale[queue] for name, due in self._due[queue].items()}

    def within(self, queue: str, shape: Shape, count: int) -> bool:
        """Whether a queue stays within its share with `count` pods of a shape more."""
        if not self.contested:
            return True
        key = (queue, shape, count)
        if key in self._beyond:  # within a cycle a queue only ever holds more, but for victims, who stay at the share
            return False
        held, due, scale = self._held[queue], self._due[queue], self._scale[queue]
        for name, value in shape.counted:
            if name in due and (held.get(name, 0) + value * count) * scale > due[name]:
                self._beyond.add(key)
                return False
        return True

    def over(self, queue: str) -> bool:
        """Whether a queue holds more than it may deserve of anything."""
        return self.contested and self._exceeds(queue, {}, strictly=True)

    def keeps(self, queue: str, taken: Mapping[str, int]) -> bool:
        """Whether a queue still has what it may deserve when `taken` is taken from it."""
        return self._exceeds(queue, taken, strictly=False)

    def _exceeds(self, queue: str, taken: Mapping[str, int], *, strictly: bool) -> bool:
        due, scale = self._due_at_most[queue], self._scale[queue]
        for name, amount in self._held[queue].items():
            left = (amount - taken.get(name, 0)) * scale - due.get(name, 0)
            if left > 0 or (left == 0 and not strictly and due.get(name, 0) > 0):
                return True
        return False

    def rank(self, queue: str, namespace: str = "") -> Rank:
        """The place of a queue between queues, or of a namespace within a queue that has turns between namespaces. The
        smallest goes first.

        1. dominant share / weight;
        2. greater weight;
        3. name.
        """
        if namespace:
            held, weight = self._held_by(queue, namespace), self._queues[queue].weight_of(namespace)
        else:
            held, weight = self._held[queue], self._weight(queue)
        share = max(
            (held[name] * _SCALE // most for name, most in self._usable.items() if most > 0 and name in held),
            default=0,
        )
        return (share // weight, -weight, namespace or queue)

    # --- taking ---

    def allocate(self, queue: str, key: str, counted: Requests, count: int) -> None:
        """A queue holds `count` pods more that count as this each, of the job `namespace/name`; negative, fewer."""
        add(self._held[queue], counted, count)
        if queue in self._by_namespace:
            add(self._held_by(queue, namespace_of(key)), counted, count)

    def _held_by(self, queue: str, namespace: str) -> dict[str, int]:
        return self._by_namespace[queue].setdefault(namespace, {})

    # --- for the status ---

    def table(self, *, known: bool) -> dict[str, QueueShare]:
        """What every queue has and deserves at the beginning of the cycle. `known`: whether the load is."""
        return {
            name: QueueShare(
                dict(queue.allocated),
                None if not known else {} if queue.state is QueueState.RELEASING else self.deserved(name),
            )
            for name, queue in self._queues.items()
        }

    def _due_of(self, most: Mapping[str, int]) -> dict[str, dict[str, int]]:
        return {
            name: {resource: amount * self._weight(name) for resource, amount in most.items()} for name in self._queues
        }

    def _weight(self, queue: str) -> int:
        return max(1, self._queues[queue].weight)

    def _weights_with(self, queue: str) -> int:
        return max(1, self._weights + (0 if queue in self._demanding else self._weight(queue)))


def total(requests: Iterable[tuple[str, int]], count: int) -> dict[str, int]:
    """What `count` pods request together."""
    return {name: value * count for name, value in requests}
