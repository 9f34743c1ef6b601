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
from typing import Protocol

from scavenger_api.quantity import amount
from scavenger_api.reclaimed import RECLAIMED, counted_as
from scavenger_kube.kinds import Container, Pod, Taint, Toleration

PODS = "pods"
BLOCKING_EFFECTS = ("NoSchedule", "NoExecute")

Requests = tuple[tuple[str, int], ...]
"""Amounts by resource, sorted by name, without zeros; always contains ("pods", 1) for one pod."""

EXTENDED = frozenset(extended for extended, _ in RECLAIMED.values())
"""The resources that pods on reclaimed capacity are placed by."""


class AnyToleration(Protocol):
    """A toleration of any origin: a pod's, or of the ScavengerJob's spec."""

    @property
    def key(self) -> str | None: ...  # noqa: D102
    @property
    def operator(self) -> str | None: ...  # noqa: D102
    @property
    def value(self) -> str | None: ...  # noqa: D102
    @property
    def effect(self) -> str | None: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class Shape:
    """The placement class of a pod: two pods of one shape fit exactly the same nodes.

    Make it with `Shape.of`, which brings everything into one order, so that equal shapes compare equal.

    Attributes:
        requests: what it is placed by.
        counted: what it counts as in shares, quotas and load.
        reclaimed: whether it is placed on reclaimed capacity.
    """

    requests: Requests
    node_selector: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    counted: Requests = field(init=False, repr=False, compare=False)
    reclaimed: bool = field(init=False, repr=False, compare=False)
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "counted", counted(self.requests))
        object.__setattr__(self, "reclaimed", self.counted != self.requests)
        # A cycle looks shapes up tens of thousands of times; hashing the nested tuples each time would be
        # most of it.
        object.__setattr__(self, "_hash", hash((self.requests, self.node_selector, self.tolerations)))

    def __hash__(self) -> int:
        return self._hash

    @classmethod
    def of(
        cls,
        requests: Mapping[str, int],
        node_selector: Mapping[str, str] | None = None,
        tolerations: Iterable[AnyToleration] = (),
    ) -> Shape:
        """The shape of a pod that requests these amounts (millicores, bytes, units; `pods` is added)."""
        return _interned(
            normalized(requests),
            tuple(sorted((node_selector or {}).items())),
            tuple(sorted({_plain(t) for t in tolerations}, key=_toleration_order)),
        )

    def request(self, resource: str) -> int:
        """What one pod requests of a resource; 0 when it does not name it."""
        return next((value for name, value in self.requests if name == resource), 0)

    def counts(self, resource: str) -> int:
        """What one pod counts as of a resource; 0 when it does not name it."""
        return next((value for name, value in self.counted if name == resource), 0)


def normalized(requests: Mapping[str, int]) -> Requests:
    """Amounts of one pod in the one order they are compared in; zeros count as absent."""
    return tuple(sorted((name, value) for name, value in {**requests, PODS: 1}.items() if value > 0))


@lru_cache(maxsize=4096)
def counted(requests: Requests) -> Requests:
    """What a pod with these requests counts as: the same, unless it is placed on reclaimed capacity."""
    if EXTENDED.isdisjoint(name for name, _ in requests):
        return requests
    return tuple(sorted(counted_as(requests).items()))


@lru_cache(maxsize=4096)
def _interned(
    requests: Requests, node_selector: tuple[tuple[str, str], ...], tolerations: tuple[Toleration, ...]
) -> Shape:
    return Shape(requests, node_selector, tolerations)


def _plain(t: AnyToleration) -> Toleration:
    # How long a NoExecute taint is borne says nothing about placement.
    return Toleration(key=t.key or "", operator=t.operator or "Equal", value=t.value or "", effect=t.effect or "")


def _toleration_order(t: Toleration) -> tuple[str, str, str, str]:
    return (t.key, t.operator, t.value, t.effect)


def tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    """Whether one of the tolerations covers the taint (k8s.io/api core/v1 ToleratesTaint).

    An empty effect covers all effects, an empty key all keys; unknown operators cover nothing.
    """
    return any(
        (not t.effect or t.effect == taint.effect)
        and (not t.key or t.key == taint.key)
        and (t.operator == "Exists" or (t.operator in ("", "Equal") and t.value == taint.value))
        for t in tolerations
    )


# --- requests of a pod --------------------------------------------------------------------------------------


def pod_requests(pod: Pod) -> Requests:
    """What a pod takes of its node, computed as the scheduler does (k8s.io/component-helpers
    resource.PodRequests).

    The sum of the containers and of the init containers that keep running beside them, or the largest moment
    of the init phase, whichever is more, per resource; pod-level requests replace that for the resources they
    may name; the runtime's overhead comes on top.

    Raises:
        QuantityError: when a quantity is not one; the API server lets none such in.
    """
    running: dict[str, int] = {}
    for container in pod.spec.containers:
        _add(running, _container(container))
    if pod.spec.init_containers:
        peak = _init_peak(pod.spec.init_containers, running)
        for name, value in peak.items():
            running[name] = max(running.get(name, 0), value)
    for name, text in pod.spec.resources.requests.items():
        if name in ("cpu", "memory") or name.startswith("hugepages-"):
            running[name] = amount(name, text)
    for name, text in pod.spec.overhead.items():
        running[name] = running.get(name, 0) + amount(name, text)
    return _shared(normalized(running))


def _init_peak(init_containers: Iterable[Container], running: dict[str, int]) -> dict[str, int]:
    """The most the init phase needs at one moment; adds restartable init containers to `running`."""
    peak: dict[str, int] = {}
    sidecars: dict[str, int] = {}
    for container in init_containers:
        own = _container(container)
        if container.restart_policy == "Always":
            _add(running, own)
            _add(sidecars, own)
            moment = sidecars
        else:
            moment = dict(sidecars)
            _add(moment, own)
        for name, value in moment.items():
            peak[name] = max(peak.get(name, 0), value)
    return peak


def _container(container: Container) -> dict[str, int]:
    return {name: amount(name, text) for name, text in container.resources.requests.items()}


def _add(sums: dict[str, int], more: Mapping[str, int]) -> None:
    for name, value in more.items():
        sums[name] = sums.get(name, 0) + value


@lru_cache(maxsize=4096)
def _shared(requests: Requests) -> Requests:
    # A hundred thousand pods ask for a few hundred different things; they need not each hold their own copy.
    return requests
