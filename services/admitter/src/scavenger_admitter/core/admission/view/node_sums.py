"""What the pods on nodes take: by node, and over the nodes that count for the load.

Kept up to date change by change. Pods and nodes may come in any order: a pod bound to a node that is not known yet
counts as soon as the node appears.

Units as in `snapshot.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from scavenger_api.reasons import WaitReason
from scavenger_api.reclaimed import counted_as
from scavenger_domain.requests import RECLAIMED_RESOURCES
from scavenger_kube.kinds import Node

from scavenger_admitter.core.admission.departures import DepartedPod, Departures
from scavenger_admitter.core.admission.placement.empty_cluster import EmptyCluster
from scavenger_admitter.core.admission.placement.inputs import NodeView
from scavenger_admitter.core.admission.placement.node_index import NodeIndex
from scavenger_admitter.core.admission.shape import Requests, Shape
from scavenger_admitter.core.admission.sums import SumsBySecond, add
from scavenger_admitter.core.admission.view.object_facts import NodeFacts, PodFacts, node_facts
from scavenger_admitter.core.admission.view.recent_starts import RecentStarts

_CYCLES_PER_INDEX: Final = 100
"""For so many cycles what is known of nodes that do not change is kept."""

_ASKS_PER_INDEX: Final = 1000
"""After so many questions the index that answers them is made again, for the same reason."""


@dataclass(slots=True)
class _Node:
    """Sums of one node name; there as long as the node is, or a pod is bound to that name."""

    node: NodeFacts | None = None
    used: dict[str, int] = field(default_factory=dict)
    scavenger: dict[str, int] = field(default_factory=dict)
    scavengers: dict[str, PodFacts] = field(default_factory=dict)
    counts: bool = False


class PoolSums:
    """Sums over nodes that count: all of them, or those of one pool.

    Attributes:
        capacity: allocatable, without reclaimed capacity.
        used: what all pods on them count as.
        starts: what scavenger pods on them count as, by the second they started in.
        creations: the same by the second they were created in.
    """

    __slots__ = ("capacity", "creations", "starts", "used")

    def __init__(self) -> None:
        self.capacity: Final[dict[str, int]] = {}
        self.used: Final[dict[str, int]] = {}
        self.starts: Final = SumsBySecond()
        self.creations: Final = SumsBySecond()

    def date(self, pod: PodFacts, each: Requests, times: int) -> None:
        """Put a scavenger pod on one of the nodes into the sums by second (+1), or take it out (-1)."""
        self.starts.add(pod.started, each, times)
        self.creations.add(pod.created, each, times)


class NodeSums:
    """Nodes, and the sums of the pods that are bound to them.

    Args:
        tolerated_taints: keys of NoSchedule and NoExecute taints that do not take a node out of the load.
        pool_ignores: keys of taints and names of devices that tell no pools apart.

    Attributes:
        counting: whether nodes count for the load, by name.
        all: over all nodes that count.
        pools: the same of each pool, by name.
        recent: scavenger pods that measurements may not know yet, wherever they are.
        departures: scavenger pods that have gone from the nodes that count.
    """

    def __init__(self, tolerated_taints: Iterable[str], pool_ignores: Iterable[str] = ()) -> None:
        self._tolerated = frozenset(tolerated_taints)
        self._pool_ignores = frozenset(pool_ignores)
        self._nodes: dict[str, _Node] = {}
        self._views: dict[str, NodeView] = {}
        self._stale_views: set[str] = set()
        self._changed: set[str] = set()  # since the index was renewed
        self._index: NodeIndex | None = None
        self._index_left = 0
        self._empty: EmptyCluster | None = None
        self._empty_left = 0
        self._nodes_changed = False  # since the last views
        self.counting: Final[dict[str, bool]] = {}
        self.all: Final = PoolSums()
        self.pools: Final[dict[str, PoolSums]] = {}
        self.recent: Final = RecentStarts()
        self.departures: Final = Departures()

    # --- nodes ---

    def apply(self, node: Node) -> None:
        """A node was added or changed."""
        facts = node_facts(node, self._tolerated, self._pool_ignores)
        sums = self._nodes.setdefault(node.metadata.name, _Node())
        if sums.node != facts:
            self._set_node(node.metadata.name, sums, facts)

    def delete(self, name: str) -> None:
        """A node is gone. Pods still bound to it stay known, and count again if it comes back."""
        sums = self._nodes.get(name)
        if sums is not None and sums.node is not None:
            self._set_node(name, sums, None)
            self._drop_empty(name, sums)

    def _set_node(self, name: str, sums: _Node, facts: NodeFacts | None) -> None:
        self._count(sums, -1)
        sums.node, sums.counts = facts, False
        self.counting[name] = False
        self._recount(name, sums)
        self._stale_views.add(name)
        self._index = None
        self._nodes_changed = True

    def _recount(self, name: str, sums: _Node) -> None:
        """Whether the node counts, as it is now and with the pods that are on it now."""
        node = sums.node
        counts = node is not None and (node.counts_held if sums.scavengers else node.counts)
        if counts != sums.counts:
            self._count(sums, -1)
            self.counting[name] = sums.counts = counts
            self._count(sums, +1)

    def _count(self, sums: _Node, times: int) -> None:
        """Take a node into the sums over the nodes that count, or out of them."""
        if not sums.counts or sums.node is None:
            return
        # Reclaimed capacity is no capacity beside the node's: what is placed on it counts as cpu and memory.
        offered = [(name, value) for name, value in sums.node.allocatable.items() if name not in RECLAIMED_RESOURCES]
        for where in self._sums_of(sums.node):
            add(where.capacity, offered, times)
            add(where.used, counted_as(sums.used.items()).items(), times)
            for pod in sums.scavengers.values():
                where.date(pod, pod.counted, times)
        if times < 0 and not self.pools[sums.node.pool].capacity:
            del self.pools[sums.node.pool]

    def _sums_of(self, node: NodeFacts) -> tuple[PoolSums, PoolSums]:
        pool = self.pools.get(node.pool)
        if pool is None:
            pool = self.pools[node.pool] = PoolSums()
        return self.all, pool

    def _drop_empty(self, name: str, sums: _Node) -> None:
        if sums.node is None and not sums.used:
            del self._nodes[name]
            self.counting.pop(name, None)

    # --- pods ---

    def account(self, pod: PodFacts, times: int) -> None:
        """Put a pod that is bound and has not ended into all sums (+1), or take it out (-1)."""
        sums = self._nodes.setdefault(pod.node, _Node())
        add(sums.used, pod.requests, times)
        each = pod.counted
        counted_in = self._sums_of(sums.node) if sums.counts and sums.node is not None else ()
        for where in counted_in:
            add(where.used, each, times)
        if pod.job:
            add(sums.scavenger, pod.requests, times)
            if times > 0:
                sums.scavengers[pod.key] = pod
                self.recent.add(pod)
            else:
                del sums.scavengers[pod.key]
                self.recent.remove(pod)
            for where in counted_in:
                where.date(pod, each, times)
            self._recount(pod.node, sums)
        self._stale_views.add(pod.node)
        self._drop_empty(pod.node, sums)

    def depart(self, pod: PodFacts) -> None:
        """A pod has gone, or ended, that may have been running."""
        if pod.job and pod.node in self._nodes and not pod.ended and self._nodes[pod.node].counts:
            self.departures.add(DepartedPod(pod.node, pod.requests, pod.started, pod.created))

    def pool_of(self, name: str) -> str:
        """The pool of a node; that of no node at all is empty."""
        sums = self._nodes.get(name)
        return sums.node.pool if sums is not None and sums.node is not None else ""

    # --- between snapshots ---

    def may_hold(self, shape: Shape) -> bool:
        """Whether a node would hold a pod of this shape if no pod ran there. True where there are no nodes yet. Nodes
        are as of the last snapshot at least."""
        if self._empty is None or self._empty_left <= 0:
            # Another index than that of the snapshots: those are looked up in another thread.
            self._empty, self._empty_left = EmptyCluster(NodeIndex(self.views())), _ASKS_PER_INDEX
        self._empty_left -= 1
        found = self._empty.impossible(shape, 1)
        return found is None or found.reason is WaitReason.NO_NODE

    # --- for the snapshot ---

    def views(self) -> dict[str, NodeView]:
        """The nodes as they are now. Only views that have changed since they were last asked for are built again."""
        for name in self._stale_views:
            sums = self._nodes.get(name)
            if sums is None or sums.node is None:
                self._views.pop(name, None)
                continue
            node = sums.node
            self._views[name] = NodeView(
                name=name,
                allocatable=node.allocatable,
                used=dict(sums.used),
                scavenger=dict(sums.scavenger),
                labels=node.labels,
                taints=node.taints,
                schedulable=node.schedulable,
                counts=sums.counts,
                pool=node.pool,
            )
        if self._nodes_changed:
            self._nodes_changed, self._empty = False, None
        self._changed |= self._stale_views
        self._stale_views.clear()
        return dict(self._views)

    def index(self, nodes: Mapping[str, NodeView]) -> NodeIndex:
        """The index of these views. Nodes change far less often than cycles look them up. It is built again now and
        then all the same: it remembers every selector that it was asked for, and any user may make some up."""
        index = self._index
        self._index_left -= 1
        if index is None or self._index_left <= 0:
            self._index_left = _CYCLES_PER_INDEX
            index = NodeIndex(nodes)
        else:
            index = index.renewed(nodes, self._changed)
        self._changed.clear()
        self._index = index
        return index
