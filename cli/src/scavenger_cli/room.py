"""Where a job would fit: free places by requests, taints and selectors. Pure.

The admitter decides by the same rules (design section 4.2) with more in hand: what it has just started, and what
pending ordinary pods are about to take. What is computed here explains; it decides nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from scavenger_api import names
from scavenger_api.names import LABEL_JOB
from scavenger_api.quantity import amount
from scavenger_api.reclaimed import counted_as
from scavenger_api.times import parse_time
from scavenger_domain.nodes import counts, is_place
from scavenger_domain.requests import RECLAIMED_RESOURCES, counted_requests, pod_requests
from scavenger_domain.taints import lasting, spell_taint, tolerates
from scavenger_runtime.kinds import Node, Pod, Taint, Toleration

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

    nodes: all. selected: with the labels of spec.nodeSelector. tolerated: of these, without a taint in the way.
    open: of these, ready, not cordoned, not at a level of their own. offering: of these, with reclaimed capacity.
    places: pods like these that fit now. empty_places: that would fit were every node empty. largest_free,
    largest_node: what comes closest to one pod, now and when empty; reclaimed capacity as the cpu and memory it stands
    for. taints: those that keep the job off selected nodes. load: requests over the nodes that count for the levels.
    """

    nodes: int
    selected: int
    tolerated: int
    open: int
    offering: int
    places: int
    empty_places: int
    largest_free: Place | None = None
    largest_node: Place | None = None
    taints: tuple[str, ...] = ()
    load: Mapping[str, Use] = field(default_factory=dict)
    unseen: Amounts = field(default_factory=dict)
    """Requests of scavenger pods that no measured load knows yet, as they started after it was measured."""


def room_for(
    spec: JobSpec,
    nodes: Sequence[Node],
    pods: Sequence[Pod],
    closed: frozenset[str] = frozenset(),
    unseen_since: datetime | None = None,
) -> Room:
    """What there is for a job now.

    closed: nodes on which nothing new may start, as the regulator publishes them. unseen_since: when the load was
    measured; None where nobody does. Raises QuantityError for what is not a quantity, which the API server lets nobody
    write.
    """
    asked, whole = {**spec.placed_by, PODS: 1}, {**spec.requests, PODS: 1}
    used = used_by_node(pods)
    labels = spec.node_selector.items()
    selected = [n for n in nodes if all(n.metadata.labels.get(k) == v for k, v in labels)]
    tolerated = [n for n in selected if not untolerated(n, spec.tolerations)]
    open_ = [n for n in tolerated if is_place(n) and n.metadata.name not in closed]
    free = [Place(n.metadata.name, _free(n, used, asked)) for n in open_]
    # However much a node offers of reclaimed capacity now, it may offer all it has one day.
    empty = [Place(n.metadata.name, _allocatable(n, whole)) for n in tolerated]
    largest_free = closest(free, asked)
    return Room(
        nodes=len(nodes),
        selected=len(selected),
        tolerated=len(tolerated),
        open=len(open_),
        offering=sum(any(_allocatable(n, RECLAIMED_RESOURCES).values()) for n in open_),
        places=sum(pods_in(place, asked) for place in free),
        empty_places=sum(pods_in(place, whole) for place in empty),
        largest_free=_as_counted(largest_free) if largest_free is not None else None,
        largest_node=closest(empty, whole),
        taints=tuple(sorted({spell_taint(t) for n in selected for t in untolerated(n, spec.tolerations)})),
        load=load_by_requests(nodes, used),
        unseen=_unseen(pods, unseen_since) if unseen_since is not None else {},
    )


def _unseen(pods: Iterable[Pod], since: datetime) -> dict[str, int]:
    sums: dict[str, int] = defaultdict(int)
    for pod in pods:
        started = parse_time(pod.status.start_time)
        mine = LABEL_JOB in pod.metadata.labels and pod.spec.node_name and not pod.ended
        if mine and (started is None or started > since):
            for name, value in counted_requests(pod).items():
                sums[name] += value
    return sums


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


def load_by_requests(nodes: Iterable[Node], used: Mapping[str, Amounts]) -> dict[str, Use]:
    """Requests and allocatable of the nodes that count, per resource that has a level; a reclaimed CPU is a CPU."""
    counted = [node for node in nodes if counts(node)]
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


def untolerated(node: Node, tolerations: Iterable[Toleration]) -> list[Taint]:
    """The taints of a node that keep the job off it for good.

    The cordon's own taint is left out: `spec.unschedulable` says the same, and goes with it.
    """
    return [taint for taint in lasting(node.spec.taints) if not tolerates(tolerations, taint)]


def _allocatable(node: Node, asked: Iterable[str]) -> dict[str, int]:
    return {name: amount(name, node.status.allocatable.get(name, 0)) for name in asked}


def _free(node: Node, used: Mapping[str, Amounts], asked: Amounts) -> dict[str, int]:
    taken = used.get(node.metadata.name, {})
    return {name: max(0, value - taken.get(name, 0)) for name, value in _allocatable(node, asked).items()}
