"""The regular pods on the nodes, followed only where Karpenter removes nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, TypeVar

from scavenger_api import names
from scavenger_domain.nodes import karpenter_made
from scavenger_kube.client import ApiClient
from scavenger_kube.decode import Cacheable
from scavenger_kube.kinds import Node, OwnerReference, Struct
from scavenger_kube.resources import LIVING, Resource
from scavenger_runtime.clock import Clock
from scavenger_runtime.informer import Change, Informer

from scavenger_prioritizer.core.lone import lone_nodes

T = TypeVar("T", bound=Cacheable)

OF_THE_NODE: Final = ("DaemonSet", "Node")
"""Controllers of pods that go with their node: they keep no autoscaler from removing it."""


class PlacedMeta(Struct, frozen=True, gc=False, rename="camel"):
    """Metadata of a pod, as far as it tells whose it is."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    owner_references: tuple[OwnerReference, ...] = ()

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"


class PlacedSpec(Struct, frozen=True, gc=False, rename="camel"):
    """spec of a pod, as far as it tells where it is."""

    node_name: str = ""


class PlacedPod(Struct, frozen=True, gc=False, rename="camel"):
    """core/v1 Pod: where it is, and whose."""

    metadata: PlacedMeta = PlacedMeta()
    spec: PlacedSpec = PlacedSpec()

    @property
    def holds(self) -> bool:
        """Whether its node is not for the taking."""
        return not any(owner.controller and owner.kind in OF_THE_NODE for owner in self.metadata.owner_references)


PLACED_PODS: Final = Resource("", "v1", "pods", "Pod", True, PlacedPod)


def regular_pods_on_nodes(
    client: ApiClient,
    resource: Resource[T],
    name: str,
    clock: Clock,
    transform: Callable[[T, T | None], T] | None = None,
) -> Informer[T]:
    """An informer of the regular pods that have a node and have not ended.

    Args:
        client: to follow them with.
        resource: pods, as far as they are read.
        name: of the informer, as in logs and metrics.
        clock: for the watch.
        transform: what is kept of a pod, as `Informer` takes it.
    """
    return Informer(
        client,
        resource,
        label_selector=f"!{names.LABEL_JOB}",
        field_selector=f"spec.nodeName!=,{LIVING}",
        name=name,
        transform=transform,
        clock=clock,
    )


class Neighbours:
    """Knows on which nodes there is no regular pod, once it has been told that this matters.

    Args:
        client: to follow pods with.
        clock: for the watch.
        wanted: whether it matters: None, from when a node of Karpenter is seen.
        after: microseconds without a regular pod, until a node counts as without.
        came: called when a regular pod comes to a node that counted as without.
    """

    def __init__(
        self, client: ApiClient, clock: Clock, *, wanted: bool | None, after: int, came: Callable[[], None]
    ) -> None:
        self._wanted = wanted
        self._after = after
        self._came = came
        self._begin = asyncio.Event()
        self._since: Mapping[str, int] = {}
        self._lone: frozenset[str] = frozenset()
        self.pods = regular_pods_on_nodes(client, PLACED_PODS, "ordinary-pods", clock)
        self.pods.add_handler(self._on_pod)
        if wanted:
            self._begin.set()

    async def run(self) -> None:
        """Follow the regular pods until cancelled, from when they matter."""
        await self._begin.wait()
        await self.pods.run()

    def saw(self, node: Node) -> None:
        """Begin with the first node of Karpenter."""
        if self._wanted is None and karpenter_made(node):
            self._begin.set()

    def lone(self, nodes: Iterable[str], known: Collection[str], now: int) -> frozenset[str] | None:
        """Nodes without a regular pod, as `lone_nodes`; None while that is not known."""
        if not self._begin.is_set():
            return frozenset()
        if not self.pods.synced or not self.pods.healthy():
            return None
        held = {pod.spec.node_name for pod in self.pods.items() if pod.holds}
        self._lone, self._since = lone_nodes(nodes, held, known, self._since, now, self._after)
        return self._lone

    def _on_pod(self, change: Change[PlacedPod]) -> None:
        if change.new is not None and change.new.holds and change.new.spec.node_name in self._lone:
            self._came()
