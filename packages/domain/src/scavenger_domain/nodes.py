"""Which nodes new pods may come to, and which the load is measured over: one rule for all who reckon it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from scavenger_api.names import GROUP
from scavenger_api.quantity import resources_with_taints

from scavenger_domain.taints import PASSING, PRESSURE, TaintLike, blocking, of_resources, spell_taint, tolerates

ENDS: Final = (
    "karpenter.sh/disrupted",
    "karpenter.sh/disruption",
    "node.cloudprovider.kubernetes.io/shutdown",
    "cloud.google.com/impending-node-termination",
    "aws-node-termination-handler/spot-itn",
    "aws-node-termination-handler/scheduled-maintenance",
    "aws-node-termination-handler/asg-lifecycle-termination",
)
"""Keys of taints by which a node ends soon: of karpenter (pkg/apis/v1 taints.go), cloud-provider
(api/well_known_taints.go), GKE, and aws-node-termination-handler (pkg/node)."""

HINTS: Final[Mapping[str, timedelta]] = MappingProxyType(
    {
        # Taken back when a regular pod cannot be evicted for max-pod-eviction-time, 2 minutes. Its value is the second
        # in which it was set (cluster-autoscaler, utils/taints).
        "ToBeDeletedByClusterAutoscaler": timedelta(minutes=2),
        # EC2 promises no time: hours, or none at all.
        "aws-node-termination-handler/rebalance-recommendation": timedelta(0),
    }
)
"""Keys of taints by which a node may end, with the notice that each gives. A notice of 0 only closes the node."""

LEAVING: Final = (*ENDS, *HINTS)
"""Keys of taints that announce the end of a node, certain or not: new pods stay away."""

AUTOSCALER_TAINTS: Final = (
    "DeletionCandidateOfClusterAutoscaler",
    "ToBeDeletedByClusterAutoscaler",
    "karpenter.sh/disrupted",
)
"""Keys of the taints by which autoscalers take nodes away."""

_DIGITS: Final = 10
"""Of a second since the epoch, for the next 250 years."""

COMING_AND_GOING: Final = (
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "startup-taint.cluster-autoscaler.kubernetes.io/",
    "ignore-taint.cluster-autoscaler.kubernetes.io/",
    "node.cilium.io/",
    "karpenter.sh/",
    "aws-node-termination-handler/",
    "DeletionCandidateOfClusterAutoscaler",
    *LEAVING,
)
"""How keys of taints begin that say how a node fares, and not what it is for: they make no pool of it."""

PLAIN_POOL: Final = "plain"
"""The pool of nodes without lasting taints and devices."""

MOST_SLUG: Final = 32
"""Characters of the readable part of the name of a pool."""

KARPENTER_NODEPOOL: Final = "karpenter.sh/nodepool"
"""A label of every node that Karpenter has made (pkg/apis/v1 labels.go)."""


class _Metadata(Protocol):
    @property
    def labels(self) -> Mapping[str, str]: ...
    @property
    def deletion_timestamp(self) -> str | None: ...


class _NodeSpec(Protocol):
    @property
    def unschedulable(self) -> bool: ...
    @property
    def taints(self) -> Sequence[TaintLike]: ...


class _NodeStatus(Protocol):
    @property
    def allocatable(self) -> Mapping[str, str | int | float]: ...


class NodeLike(Protocol):
    """A node, as far as it is looked at here: any projection of core/v1 Node."""

    @property
    def metadata(self) -> _Metadata:
        """Its labels, and whether it is being deleted."""
        ...

    @property
    def spec(self) -> _NodeSpec:
        """Its cordon and its taints."""
        ...

    @property
    def status(self) -> _NodeStatus:
        """What it can allocate."""
        ...

    @property
    def ready(self) -> bool:
        """Whether its kubelet reports Ready."""
        ...


def cordoned(node: NodeLike) -> bool:
    """Whether the node is closed to new pods by an administrator or an autoscaler: cordoned, or being deleted."""
    return node.spec.unschedulable or node.metadata.deletion_timestamp is not None


def leaving(node: NodeLike) -> str:
    """The key of the taint that announces the end of the node; empty where none does."""
    return next((taint.key for taint in node.spec.taints if taint.key in LEAVING), "")


def ends(node: NodeLike, certain: Collection[str] = ()) -> str:
    """The key of the taint by which the node ends soon; empty where none says so. certain: keys of hints that count as
    ends."""
    return next((taint.key for taint in node.spec.taints if taint.key in ENDS or taint.key in certain), "")


class Hint(NamedTuple):
    """A taint by which a node may end.

    Attributes:
        taint: its key.
        since: when it was set.
        until: when its notice is over.
    """

    taint: str
    since: datetime
    until: datetime


def hint(node: NodeLike) -> Hint | None:
    """The hint with a notice that the node shows; None where there is none, or where it does not say since when."""
    for taint in node.spec.taints:
        notice, since = HINTS.get(taint.key, timedelta(0)), _second(taint.value)
        if notice and since is not None:
            return Hint(taint.key, since, since + notice)
    return None


def _second(text: str) -> datetime | None:
    """Seconds since the epoch as a moment; None for other text."""
    if not text.isascii() or not text.isdecimal() or len(text) > _DIGITS:
        return None
    return datetime.fromtimestamp(int(text), UTC)


def karpenter_made(node: NodeLike) -> bool:
    """Whether Karpenter has made the node, and may remove it."""
    return KARPENTER_NODEPOOL in node.metadata.labels


def autoscaled(node: NodeLike) -> bool:
    """Whether the node shows that an autoscaler looks after it: a label of Karpenter, a taint of either."""
    return karpenter_made(node) or any(taint.key in AUTOSCALER_TAINTS for taint in node.spec.taints)


def available(node: NodeLike) -> bool:
    """Whether pods that tolerate its taints may come: Ready and not cordoned."""
    return node.ready and not cordoned(node)


def schedulable(node: NodeLike) -> bool:
    """Whether pods that tolerate its lasting taints may come now: available, and without the taints that Kubernetes
    takes off by itself: of a cordon, of a silent kubelet, of pressure. Never where the end of the node is announced."""
    return (
        available(node) and not leaving(node) and not any(taint.key in PASSING for taint in blocking(node.spec.taints))
    )


def pressed(node: NodeLike) -> bool:
    """Whether its kubelet is short of memory, disk space or process IDs: the node is full, whatever is left of it."""
    return any(taint.key in PRESSURE for taint in blocking(node.spec.taints))


def counts(node: NodeLike, tolerated_taints: Collection[str] = (), *, holds: bool = False) -> bool:
    """Whether the levels are about this node: available, and scavenger pods are there or may come without tolerating
    a taint. A taint of pressure takes no node out: the load of a full node is load.

    Args:
        node: to judge.
        tolerated_taints: keys of blocking taints that do not take a node out of the load.
        holds: whether a scavenger pod is on it, whatever that pod tolerates.
    """
    return available(node) and (holds or not keeping_out(node, tolerated_taints))


def keeping_out(node: NodeLike, tolerated_taints: Collection[str] = ()) -> tuple[str, ...]:
    """Keys of the taints that keep a node out of the load. One that is named like a device of the node is none: pods
    that ask for the device tolerate it (`taints.of_resources`).

    Args:
        node: to judge.
        tolerated_taints: as in `counts`.
    """
    found = [one for one in blocking(node.spec.taints) if one.key not in tolerated_taints and one.key not in PRESSURE]
    if not found:
        return ()
    own = of_resources(devices(node.status.allocatable))
    return tuple(taint.key for taint in found if not tolerates(own, taint))


def devices(allocatable: Iterable[str]) -> frozenset[str]:
    """The names of the devices of a node among its resources, whether it has any of them left or not: a device plugin
    that restarts takes them away for a moment. Reclaimed capacity is none."""
    return frozenset(name for name in resources_with_taints(allocatable) if not name.startswith(f"{GROUP}/"))


class Marks(NamedTuple):
    """What sets the pool of a node apart.

    Attributes:
        taints: those that last, as they are spelt, each with its key.
        devices: names of devices.
    """

    taints: tuple[tuple[str, str], ...] = ()
    devices: tuple[str, ...] = ()

    def pool(self, ignored: Collection[str] = ()) -> str:
        """The name of the pool of nodes with these marks. ignored: as in `pool_of`."""
        if not self.taints and not self.devices:
            return PLAIN_POOL
        return _pool_name(
            tuple(one for one in self.taints if one[1] not in ignored),
            tuple(one for one in self.devices if one not in ignored),
        )


UNMARKED: Final = Marks()
"""Of a node without lasting taints and devices."""


def marks_of(node: NodeLike) -> Marks:
    """What sets the pool of a node apart."""
    spec, status = node.spec, node.status
    if not spec.taints and not any("/" in name for name in status.allocatable):
        return UNMARKED
    taints = {(spell_taint(one), one.key) for one in blocking(spec.taints) if not one.key.startswith(COMING_AND_GOING)}
    return Marks(tuple(sorted(taints)), tuple(sorted(devices(status.allocatable))))


def pool_of(node: NodeLike, ignored: Collection[str] = ()) -> str:
    """The name of the pool of a node: nodes are one pool that are alike in lasting taints and in devices.

    Every reader of the levels finds the pool of a node by itself, so the name follows from these alone. It is at
    most 41 characters of what a key of a ConfigMap may have, and no dot.

    Args:
        node: to judge.
        ignored: keys of taints and names of devices that tell no pools apart.
    """
    return marks_of(node).pool(ignored)


@lru_cache(maxsize=4096)
def _pool_name(taints: tuple[tuple[str, str], ...], of_devices: tuple[str, ...]) -> str:
    """The last words of what sets the pool apart, and a hash of all of it."""
    if not taints and not of_devices:
        return PLAIN_POOL
    known = dict.fromkeys([*of_devices, *(spelt.partition(":")[0] for spelt, key in taints if key not in of_devices)])
    words = "-".join(re.sub(r"[^a-z0-9]+", "-", name.rpartition("/")[2].lower()).strip("-") for name in known)
    exact = "\n".join([*of_devices, "", *(spelt for spelt, _ in taints)])
    return f"{words[:MOST_SLUG].strip('-') or 'nodes'}-{_hash(exact):08x}"


def _hash(text: str) -> int:
    """FNV-1a of 32 bits: it only has to be the same everywhere, and pools are a handful."""
    found = 0x811C9DC5
    for byte in text.encode():
        found = (found ^ byte) * 0x01000193 & 0xFFFFFFFF
    return found
