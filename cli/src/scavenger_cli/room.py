"""Where a job would fit: free places by requests, taints and selectors. Pure.

These are figures to show. The admitter decides, by the same rules (`scavenger_domain`) with more in hand: what it has
just started, what pending regular pods are about to take, and where a turn is kept.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from scavenger_api import names
from scavenger_api.levels import LevelsView, ppm
from scavenger_api.names import LABEL_JOB
from scavenger_api.quantity import amount
from scavenger_api.reclaimed import counted_as, taken_of_headroom
from scavenger_domain.expected_pods import OfferedNode, kept_for_regular_pods
from scavenger_domain.nodes import counts, devices, pool_of, schedulable
from scavenger_domain.pod_reading import measured_from
from scavenger_domain.requests import counted_requests, pod_requests
from scavenger_domain.taints import TolerationLike, blocking, of_resources, tolerates
from scavenger_kube.kinds import Node, Pod

from scavenger_cli.objects import JobSpec

PODS: Final = "pods"
Amounts = Mapping[str, int]
"""Millicores of cpu, bytes of memory, units of others."""


@dataclass(frozen=True, slots=True)
class Use:
    """A resource over all nodes that count: requested and allocatable, in millicores or bytes."""

    used: int
    allocatable: int

    def percent(self, more: int = 0) -> float:
        """How full it would be with `more`; 100 where there is nothing to allocate."""
        return 100.0 * (self.used + more) / self.allocatable if self.allocatable else 100.0


@dataclass(frozen=True, slots=True)
class Place:
    """What one node has to offer a pod."""

    node: str
    amounts: Amounts


@dataclass(frozen=True, slots=True)
class Room:
    """What the cluster has for one job.

    open: nodes it may use now, by labels and taints; ready, not cordoned, not at a level of their own. places: pods
    like these that fit there now. largest_free: what comes closest to one pod; reclaimed capacity as the cpu and memory
    it stands for. nearest: where by requests there is capacity for a pod and nothing fits, as nodes have levels of
    their own: what the node that comes closest has left up to its level. load: requests over the nodes that count for
    the levels. unseen: requests of scavenger pods that no measured load knows yet, as they started after it was
    measured.
    """

    open: int
    places: int
    largest_free: Place | None = None
    nearest: Place | None = None
    load: Mapping[str, Use] = field(default_factory=dict)
    unseen: Amounts = field(default_factory=dict)


def room_for(
    spec: JobSpec,
    nodes: Sequence[Node],
    pods: Sequence[Pod],
    closed: frozenset[str] = frozenset(),
    unseen_since: datetime | None = None,
    headroom: Mapping[str, tuple[int, int]] | None = None,
    counted: Sequence[Node] | None = None,
    kept: Mapping[str, Amounts] | None = None,
) -> Room:
    """What there is for a job now.

    closed: nodes on which nothing new may start, as the regulator publishes them. unseen_since: when the load was
    measured; None where it is not. headroom: thousandths of CPU and memory that nodes have left up to levels of their
    own; jobs on reclaimed capacity are not bounded by it. counted: the nodes by whose levels the job starts; None for
    all. kept: what jobs leave free of each node.

    Raises QuantityError for what is not a quantity, which the API server lets no client write.
    """
    asked = {**spec.placed_by, PODS: 1}
    used = used_by_node(pods)
    open_ = [n for n in nodes if schedulable(n) and n.metadata.name not in closed and _lets_in(n, spec)]
    for name, amounts in (kept or {}).items():
        for resource, value in amounts.items():
            used[name][resource] += value
    free = [Place(n.metadata.name, _free(n, used, asked)) for n in open_]
    by_requests = any(pods_in(place, asked) for place in free)
    left: dict[str, Amounts] = {}
    if headroom and not spec.reclaimed:
        left = _left(open_, headroom, _unseen_by_node(pods, unseen_since))
        free = [Place(place.node, _least(place.amounts, left.get(place.node, {}))) for place in free]
    places = sum(pods_in(place, asked) for place in free)
    largest_free = closest(free, asked)
    return Room(
        open=len(open_),
        places=places,
        largest_free=_as_counted(largest_free) if largest_free is not None else None,
        nearest=largest_free if left and by_requests and not places else None,
        load=load_by_requests(nodes if counted is None else counted, pods),
        unseen=_unseen(_on(counted, pods), unseen_since) if unseen_since is not None else {},
    )


def kept_free(nodes: Iterable[Node], pods: Sequence[Pod], levels: LevelsView) -> dict[str, dict[str, int]]:
    """What jobs leave free of each node for regular pods that may come; empty where no pool keeps anything."""
    pools = {pool: levels.of_pool(pool) for pool in ("", *levels.pools)}
    shares = {
        pool: {r: kept for r in names.LEVELS_RESOURCES if (kept := ppm(view.kept(r)))} for pool, view in pools.items()
    }
    if not any(shares.values()):
        return {}
    mine = [pod for pod in pods if LABEL_JOB in pod.metadata.labels]
    used, scavenger = used_by_node(pods), used_by_node(mine)
    offers = [
        OfferedNode(
            node.metadata.name,
            _pool(node, levels),
            _allocatable(node, names.LEVELS_RESOURCES),
            used.get(node.metadata.name, {}),
            scavenger.get(node.metadata.name, {}),
            schedulable(node),
            counts(node, holds=node.metadata.name in scavenger),
        )
        for node in nodes
    ]
    return {name: dict(amounts) for name, amounts in kept_for_regular_pods(offers, shares, ()).items()}


def _on(nodes: Sequence[Node] | None, pods: Sequence[Pod]) -> Iterable[Pod]:
    """The pods on these nodes, and those without one; all of them where no nodes are given."""
    if nodes is None:
        return pods
    there = {node.metadata.name for node in nodes}
    return [pod for pod in pods if not pod.spec.node_name or pod.spec.node_name in there]


def pool_for(spec: JobSpec, nodes: Iterable[Node], levels: LevelsView) -> str:
    """The pool of nodes by whose levels a job starts; empty for the default pool. Of several it is the first that lets
    new jobs start, the default pool first, as the admitter looks at them."""
    if not levels.pools:
        return ""
    fit = [node for node in nodes if _lets_in(node, spec) and _has_devices(node, spec)]
    found = sorted({_pool(node, levels) for node in fit})
    return next((pool for pool in found if levels.of_pool(pool).admit), found[0] if found else "")


def of_pool(nodes: Iterable[Node], pool: str, levels: LevelsView) -> list[Node]:
    """The nodes of a pool; those of no pool with levels of its own are the default pool's."""
    return [node for node in nodes if _pool(node, levels) == pool]


def _pool(node: Node, levels: LevelsView) -> str:
    found = pool_of(node, levels.pool_ignores)
    return found if found in levels.pools else ""


def _has_devices(node: Node, spec: JobSpec) -> bool:
    return all(name in node.status.allocatable for name in devices(spec.requests))


def _lets_in(node: Node, spec: JobSpec) -> bool:
    """Whether labels and taints of the node let the job in."""
    labels = node.metadata.labels
    if any(labels.get(name) != value for name, value in spec.selected_nodes.items()):
        return False
    tolerations: tuple[TolerationLike, ...] = (*spec.tolerated, *of_resources(spec.requests))
    return all(tolerates(tolerations, taint) for taint in blocking(node.spec.taints))


def _unseen(pods: Iterable[Pod], since: datetime) -> dict[str, int]:
    sums: dict[str, int] = defaultdict(int)
    for pod in _started_since(pods, since):
        for name, value in counted_requests(pod).items():
            sums[name] += value
    return sums


def _started_since(pods: Iterable[Pod], since: datetime) -> Iterator[Pod]:
    """Scavenger pods that started after a moment, or not yet."""
    for pod in pods:
        started = measured_from(pod)
        mine = LABEL_JOB in pod.metadata.labels and pod.spec.node_name and not pod.ended
        if mine and (started is None or started > since):
            yield pod


def _unseen_by_node(pods: Iterable[Pod], since: datetime | None) -> dict[str, dict[str, int]]:
    """What scavenger pods take of the headroom that its figures do not know yet."""
    by_node: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for pod in _started_since(pods, since) if since is not None else ():
        for name, value in taken_of_headroom(pod_requests(pod).items()).items():
            by_node[pod.spec.node_name][name] += value
    return by_node


def _left(
    nodes: Iterable[Node], headroom: Mapping[str, tuple[int, int]], unseen: Mapping[str, Amounts]
) -> dict[str, Amounts]:
    """What nodes have left up to levels of their own, in millicores and bytes; of those of which that is known."""
    found: dict[str, Amounts] = {}
    for node in nodes:
        name = node.metadata.name
        if name in headroom:
            room, taken = _allocatable(node, names.LEVELS_RESOURCES), unseen.get(name, {})
            shares = zip(names.LEVELS_RESOURCES, headroom[name], strict=True)
            found[name] = {r: max(0, room[r] * share // 1000 - taken.get(r, 0)) for r, share in shares}
    return found


def _least(free: Amounts, left: Amounts) -> dict[str, int]:
    return {name: min(value, left.get(name, value)) for name, value in free.items()}


def _as_counted(place: Place) -> Place:
    return Place(place.node, counted_as(place.amounts.items()))


def pods_in(place: Place, asked: Amounts) -> int:
    """How many pods that ask for this fit into the place."""
    return max(0, min(place.amounts.get(name, 0) // value for name, value in asked.items() if value > 0))


def closest(places: Sequence[Place], asked: Amounts) -> Place | None:
    """The place that comes closest to one pod: with the largest share of what it has least of; the first of equals."""

    def share(place: Place) -> float:
        return min(place.amounts.get(name, 0) / value for name, value in asked.items() if value > 0)

    return max(places, key=share, default=None)


def load_by_requests(nodes: Iterable[Node], pods: Collection[Pod]) -> dict[str, Use]:
    """Requests and allocatable of the nodes that count, per resource that has a level; a reclaimed CPU is a CPU."""
    used = used_by_node(pods)
    held = {pod.spec.node_name for pod in pods if LABEL_JOB in pod.metadata.labels and not pod.ended}
    counted = [node for node in nodes if counts(node, holds=node.metadata.name in held)]
    taken = {n.metadata.name: counted_as(used.get(n.metadata.name, {}).items()) for n in counted}
    return {
        name: Use(
            sum(amounts.get(name, 0) for amounts in taken.values()),
            sum(amount(name, n.status.allocatable.get(name, 0)) for n in counted),
        )
        for name in names.LEVELS_RESOURCES
    }


def used_by_node(pods: Iterable[Pod]) -> dict[str, dict[str, int]]:
    """What the pods that have not ended request, by node; the slot of a pod is the resource `pods`."""
    used: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for pod in pods:
        if pod.spec.node_name and not pod.ended:
            sums = used[pod.spec.node_name]
            sums[PODS] += 1
            for name, value in pod_requests(pod).items():
                sums[name] += value
    return used


def _allocatable(node: Node, asked: Iterable[str]) -> dict[str, int]:
    return {name: amount(name, node.status.allocatable.get(name, 0)) for name in asked}


def _free(node: Node, used: Mapping[str, Amounts], asked: Amounts) -> dict[str, int]:
    taken = used.get(node.metadata.name, {})
    return {name: max(0, value - taken.get(name, 0)) for name, value in _allocatable(node, asked).items()}
