"""Which nodes new pods may come to, and which the load is measured over: one rule for all who reckon it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from scavenger_domain.taints import PASSING, PRESSURE, TaintLike, blocking

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
    if not available(node):
        return False
    return holds or all(taint.key in tolerated_taints or taint.key in PRESSURE for taint in blocking(node.spec.taints))
