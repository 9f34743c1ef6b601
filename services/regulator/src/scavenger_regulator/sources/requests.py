"""Requests in place of use, for clusters where nothing measures: what pods have asked for counts as used."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime

from scavenger_api import names
from scavenger_api.levels_text import REQUESTS_SOURCE
from scavenger_kube.kinds import Node, Pod
from scavenger_runtime.threads import in_thread

from scavenger_regulator.core.history import Figures
from scavenger_regulator.core.metrics.metric import RESOURCES
from scavenger_regulator.core.snapshot import Figure, Measurement
from scavenger_regulator.facts import occupies, pod_requests


def measure(nodes: Iterable[Node], pods: Iterable[Pod], now: datetime) -> Measurement:
    """Requests of all pods by node, and of the scavenger pods by UID. A pod that is leaving counts until it has."""
    sums = {node.metadata.name: dict.fromkeys(RESOURCES, 0.0) for node in nodes}
    scavengers = {}
    for pod in pods:
        if not occupies(pod):
            continue
        requests = pod_requests(pod)
        if names.LABEL_JOB in pod.metadata.labels:
            scavengers[pod.metadata.uid] = {r: Figure(requests[r], now) for r in RESOURCES}
        on_node = sums.get(pod.spec.node_name)
        if on_node is not None:
            for resource in RESOURCES:
                on_node[resource] += requests[resource]
    return Measurement(
        nodes={name: {r: Figure(value, now) for r, value in use.items()} for name, use in sums.items()},
        pods=scavengers,
    )


class RequestsSource:
    """Reads the caches the regulator has anyway."""

    name = REQUESTS_SOURCE

    def __init__(
        self,
        nodes: Callable[[], Iterable[Node]],
        pods: Callable[[], Iterable[Pod]],
        now: Callable[[], datetime],
    ) -> None:
        self._nodes = nodes
        self._pods = pods
        self._now = now

    async def measure(self) -> Measurement:
        """As of this moment."""
        return await in_thread(measure, self._nodes(), self._pods(), self._now())

    async def history(self) -> dict[str, Figures] | None:
        """The caches know only now."""
        return None

    async def close(self) -> None:
        """Nothing of its own."""
