"""What placing sees of nodes, and of regular pods that come first.

Units: cpu in millicores, memory in bytes, all else in whole units, `pods` is a resource. Times are microseconds since
the epoch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from scavenger_domain.nodes import PLAIN_POOL
from scavenger_kube.kinds import Taint

from scavenger_admitter.core.admission.shape import Shape

Amounts = Mapping[str, int]
"""Amounts by resource, in the units of this module."""

_GPUS: Final = ("nvidia.com/gpu", "amd.com/gpu")
"""Resources of devices for which alone a node is kept."""


@dataclass(frozen=True, slots=True)
class NodeView:
    """One node.

    Attributes:
        name: its name.
        allocatable: what it offers to pods, reclaimed capacity included.
        used: requests of all pods bound to it that have not ended, as they are placed.
        scavenger: the part of `used` that scavenger pods request.
        labels: its labels.
        taints: those that keep pods away, whatever becomes of the node; not those that pass by themselves.
        schedulable: pods that tolerate the taints may come now (`scavenger_domain.nodes.schedulable`).
        counts: the load is measured over it (`scavenger_domain.nodes.counts`).
        pool: the pool that it is in (`scavenger_domain.nodes.pool_of`).
    """

    name: str
    allocatable: Amounts
    used: Amounts = field(default_factory=dict)
    scavenger: Amounts = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    schedulable: bool = True
    counts: bool = True
    pool: str = PLAIN_POOL

    @property
    def ordinary_share(self) -> int:
        """How much of it regular pods request, in thousandths: of CPU and memory the larger share, and on a node with
        GPUs that of these alone. By that Cluster Autoscaler decides which nodes it removes
        (cluster-autoscaler/simulator/utilization/info.go, Calculate)."""
        judged = [name for name in _GPUS if self.allocatable.get(name)] or ("cpu", "memory")
        return max(self._ordinary_share(name) for name in judged)

    def _ordinary_share(self, resource: str) -> int:
        offered = self.allocatable.get(resource, 0)
        ordinary = self.used.get(resource, 0) - self.scavenger.get(resource, 0)
        return ordinary * 1000 // offered if offered else 0


@dataclass(frozen=True, slots=True)
class PendingPod:
    """A regular pod that may take free capacity (`pending.py`), and outranks every scavenger job.

    Attributes:
        key: namespace/name.
        shape: what it asks of a node.
        nominated: the node on which preemption freed capacity, or empty.
        priority: of the pod.
        created: creationTimestamp as written.
        barred: how many nodes would not take it, whatever runs there.
        untried_until: until then a scheduler may still try it for the first time, microseconds since the epoch; 0 for
            one that was tried.
    """

    key: str
    shape: Shape
    nominated: str = ""
    priority: int = 0
    created: str = ""
    barred: int = 0
    untried_until: int = 0

    @property
    def order(self) -> tuple[bool, int, str, str]:
        """Those with a nominated node first, then as the scheduler takes them: priority, then age."""
        return (not self.nominated, -self.priority, self.created, self.key)
