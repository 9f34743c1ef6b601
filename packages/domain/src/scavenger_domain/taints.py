"""Which taints of a node keep a pod away (k8s.io/api core/v1 ToleratesTaint; kube-scheduler plugin TaintToleration)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from scavenger_api.quantity import TAINT_EFFECT, resources_with_taints

BLOCKING_EFFECTS: Final = ("NoSchedule", "NoExecute")
"""Effects of a taint that keep pods away; PreferNoSchedule only makes a node less liked."""

PRESSURE: Final = frozenset(
    (
        "node.kubernetes.io/memory-pressure",
        "node.kubernetes.io/disk-pressure",
        "node.kubernetes.io/pid-pressure",
    )
)
"""Keys of taints that Kubernetes sets for as long as a kubelet is short of memory, disk space or process IDs."""

PASSING: Final = PRESSURE | {
    "node.kubernetes.io/unschedulable",
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
}
"""Keys of taints that Kubernetes sets for as long as a node is cordoned, not ready or under pressure.

`spec.unschedulable` and the conditions of the node say the same. A pod waits until that has passed, whatever it
tolerates.
"""


class TaintLike(Protocol):
    """spec.taints[] of a node."""

    @property
    def key(self) -> str:
        """What it is about."""
        ...

    @property
    def value(self) -> str:
        """Its value; may be empty."""
        ...

    @property
    def effect(self) -> str:
        """NoSchedule, PreferNoSchedule or NoExecute."""
        ...


class TolerationLike(Protocol):
    """spec.tolerations[] of a pod or of a ScavengerJob; what is absent is empty or None."""

    @property
    def key(self) -> str | None:
        """Of the taints it covers; empty covers all keys."""
        ...

    @property
    def operator(self) -> str | None:
        """Exists, or Equal, which empty means."""
        ...

    @property
    def value(self) -> str | None:
        """What Equal compares with."""
        ...

    @property
    def effect(self) -> str | None:
        """Of the taints it covers; empty covers all effects."""
        ...


T = TypeVar("T", bound=TaintLike)


def tolerates(tolerations: Iterable[TolerationLike], taint: TaintLike) -> bool:
    """Whether one of the tolerations covers the taint.

    An empty effect covers all effects, an empty key all keys; unknown operators cover nothing.
    """
    return any(
        (not t.effect or t.effect == taint.effect)
        and (not t.key or t.key == taint.key)
        and (t.operator == "Exists" or ((not t.operator or t.operator == "Equal") and (t.value or "") == taint.value))
        for t in tolerations
    )


@dataclass(frozen=True, slots=True)
class ResourceToleration:
    """A toleration of the taint by which nodes are set apart for those who ask for a resource of theirs."""

    key: str
    operator: str = "Exists"
    value: None = None
    effect: str = TAINT_EFFECT


def of_resources(requested: Iterable[str]) -> tuple[ResourceToleration, ...]:
    """The tolerations of a pod that requests these resources, beside its own.

    Nodes with GPUs carry a taint named like the resource, and the API server or the provider adds the toleration as a
    pod is created (kube-apiserver plugin ExtendedResourceToleration; GKE). So who asks for one has it from the start.
    """
    return tuple(ResourceToleration(name) for name in sorted(resources_with_taints(requested)))


def blocking(taints: Iterable[T]) -> tuple[T, ...]:
    """The taints that keep pods away which do not tolerate them."""
    return tuple(taint for taint in taints if taint.effect in BLOCKING_EFFECTS)


def lasting(taints: Iterable[T]) -> tuple[T, ...]:
    """The blocking taints that do not pass by themselves: without PASSING."""
    return tuple(taint for taint in blocking(taints) if taint.key not in PASSING)


def spell_taint(taint: TaintLike) -> str:
    """A taint as kubectl writes it: `key=value:effect`, or `key:effect`."""
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"
