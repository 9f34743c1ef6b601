"""Shapes: what a pod asks of a node. Jobs of one shape are judged once.

Amounts are integers everywhere: cpu in millicores, memory in bytes, all else in whole units; the slot a pod
takes of a node's maximum is the resource `pods`.

What a pod requests is what it is placed by. Where it does not matter how a pod is placed (shares, quotas, load), it is
what it *counts as*: the two differ for pods on reclaimed capacity (`scavenger_api.reclaimed`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from scavenger_api.reclaimed import counted_as
from scavenger_domain.node_affinity import Terms
from scavenger_domain.requests import RECLAIMED_RESOURCES, pod_requests
from scavenger_domain.taints import TolerationLike
from scavenger_kube.kinds import Pod, Toleration

PODS = "pods"

Requests = tuple[tuple[str, int], ...]
"""Amounts by resource, sorted by name, without zeros; always contains ("pods", 1) for one pod."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The placement class of a pod: two pods of one shape fit exactly the same nodes.

    Make it with `Shape.of`, which brings everything into one order, so that equal shapes compare equal.

    Attributes:
        requests: what it is placed by.
        affinity: required node affinity; empty where every node will do.
        volumes: what the volumes of its claims require of a node, one entry for each that not every node can use.
        avoids: nodes on which it is not started for now, sorted.
        apart: the node label in which the nodes of its pods must differ; empty where they need not.
        counted: what it counts as in shares, quotas and load.
        reclaimed: whether it is placed on reclaimed capacity.
    """

    requests: Requests
    node_selector: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    affinity: Terms = ()
    apart: str = ""
    volumes: tuple[Terms, ...] = ()
    avoids: tuple[str, ...] = ()
    counted: Requests = field(init=False, repr=False, compare=False)
    reclaimed: bool = field(init=False, repr=False, compare=False)
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "counted", counted(self.requests))
        object.__setattr__(self, "reclaimed", self.counted != self.requests)
        # A cycle looks shapes up tens of thousands of times; hashing the nested tuples each time would be most of it.
        placed = (self.requests, self.node_selector, self.tolerations, self.affinity, self.apart, self.volumes)
        object.__setattr__(self, "_hash", hash((placed, self.avoids)))

    def __hash__(self) -> int:
        return self._hash

    @classmethod
    def of(
        cls,
        requests: Mapping[str, int],
        node_selector: Mapping[str, str] | None = None,
        tolerations: Iterable[TolerationLike] = (),
        affinity: Terms = (),
        apart: str = "",
        volumes: tuple[Terms, ...] = (),
    ) -> Shape:
        """The shape of a pod that requests these amounts (millicores, bytes, units; `pods` is added)."""
        return _interned(
            normalized(requests),
            tuple(sorted((node_selector or {}).items())),
            tuple(sorted({_plain(t) for t in tolerations}, key=_toleration_order)),
            affinity,
            apart,
            volumes,
        )

    def where_volumes_are(self, volumes: tuple[Terms, ...]) -> Shape:
        """The same pod with volumes that require this of a node."""
        if volumes == self.volumes:
            return self
        placed = (self.requests, self.node_selector, self.tolerations, self.affinity, self.apart)
        return _interned(*placed, volumes, self.avoids)

    def avoiding(self, nodes: tuple[str, ...]) -> Shape:
        """The same pod, which is not started on these nodes (sorted), and on all others."""
        if nodes == self.avoids:
            return self
        placed = (self.requests, self.node_selector, self.tolerations, self.affinity, self.apart)
        return _interned(*placed, self.volumes, nodes)

    def request(self, resource: str) -> int:
        """What one pod requests of a resource; 0 when it does not name it."""
        return next((value for name, value in self.requests if name == resource), 0)

    def counts(self, resource: str) -> int:
        """What one pod counts as of a resource; 0 when it does not name it."""
        for name, value in self.counted:  # asked millions of times in a cycle: a generator costs another call
            if name == resource:
                return value
        return 0


def normalized(requests: Mapping[str, int]) -> Requests:
    """Amounts of one pod in the one order they are compared in; zeros count as absent."""
    return tuple(sorted((name, value) for name, value in {**requests, PODS: 1}.items() if value > 0))


@lru_cache(maxsize=4096)
def counted(requests: Requests) -> Requests:
    """What a pod with these requests counts as: the same, unless it is placed on reclaimed capacity."""
    if RECLAIMED_RESOURCES.isdisjoint(name for name, _ in requests):
        return requests
    return tuple(sorted(counted_as(requests).items()))


@lru_cache(maxsize=4096)
def _interned(
    requests: Requests,
    node_selector: tuple[tuple[str, str], ...],
    tolerations: tuple[Toleration, ...],
    affinity: Terms,
    apart: str,
    volumes: tuple[Terms, ...],
    avoids: tuple[str, ...] = (),
) -> Shape:
    return Shape(requests, node_selector, tolerations, affinity, apart, volumes, avoids)


def _plain(t: TolerationLike) -> Toleration:
    # How long a NoExecute taint is borne says nothing about placement.
    return Toleration(key=t.key or "", operator=t.operator or "Equal", value=t.value or "", effect=t.effect or "")


def _toleration_order(t: Toleration) -> tuple[str, str, str, str]:
    return (t.key, t.operator, t.value, t.effect)


# --- requests of a pod --------------------------------------------------------------------------------------


def requests_of(pod: Pod) -> Requests:
    """What a pod takes of its node (`scavenger_domain.requests.pod_requests`). Raises QuantityError."""
    return _shared(normalized(pod_requests(pod)))


@lru_cache(maxsize=4096)
def _shared(requests: Requests) -> Requests:
    # A hundred thousand pods ask for a few hundred different things; they need not each hold their own copy.
    return requests
