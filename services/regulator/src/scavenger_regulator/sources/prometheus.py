"""Prometheus: any PromQL for the use of nodes and pods, and for the history of the regular load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from scavenger_runtime.prometheus import TAKEN, PrometheusClient, PrometheusError, Vector, pod_uid
from scavenger_runtime.threads import in_thread

from scavenger_regulator.core.history import Figures
from scavenger_regulator.core.metrics.metric import AVERAGED, RESOURCES
from scavenger_regulator.core.snapshot import Figure, Measurement
from scavenger_regulator.sources import SourceError

# max before sum, as for pods (`scavenger_runtime.prometheus`).
NODE_CPU: Final = 'sum by (node) (max by (node, cpu) (irate(container_cpu_usage_seconds_total{id="/"}[2m])))'
NODE_MEMORY: Final = 'max by (node) (container_memory_working_set_bytes{id="/"})'


@dataclass(frozen=True, slots=True)
class Queries:
    """PromQL. node: use of each node, or of the cluster where a result has no node label. pod: use of each scavenger
    pod, with its UID in the label `uid` where that is known; others are ignored. In cores and bytes. taken: Unix time
    of the samples, per node or for all. history: the regular load in percent, by resource; empty: the regulator keeps
    its own history.

    window: seconds over which the CPU queries average. history_window, history_step: seconds.
    """

    node: Mapping[str, str]
    pod: Mapping[str, str]
    taken: str = TAKEN
    history: Mapping[str, str] | None = None
    node_label: str = "node"
    namespace_label: str = "namespace"
    pod_label: str = "pod"
    window: float = 60.0
    history_window: float = 86_400.0
    history_step: float = 300.0


def combine(node: Mapping[str, Vector], pod: Mapping[str, Vector], taken: Vector, queries: Queries) -> Measurement:
    """The answers as one measurement. What has no time has no figure. Raises SourceError where a time is none."""
    times = times_of(taken, queries)
    everywhere = times.get("")
    nodes: dict[str, dict[str, Figure]] = {}
    total: dict[str, Figure] = {}
    for resource, vector in node.items():
        for labels, value in vector:
            name = labels.get(queries.node_label, "")
            at = times.get(name, everywhere) if name else everywhere if everywhere is not None else _oldest(times)
            if at is not None:
                figure = figure_of(value, at, queries.window if resource in AVERAGED else 0.0)
                (nodes.setdefault(name, {}) if name else total)[resource] = figure
    newest = max(times.values(), default=None)
    pods: dict[str, dict[str, Figure]] = {}
    for resource, vector in pod.items() if newest is not None else ():
        for labels, value in vector:
            # A pod's figures are as old as its node's; a node whose figures are too old is not looked at.
            window = queries.window if resource in AVERAGED else 0.0
            pods.setdefault(pod_key(labels, queries), {})[resource] = figure_of(value, newest or 0.0, window)
    return Measurement(nodes=nodes, pods=pods, total=total)


def _oldest(times: Mapping[str, float]) -> float | None:
    return min(times.values(), default=None)


def times_of(taken: Vector, queries: Queries) -> dict[str, float]:
    """When samples were taken, by node; of all others under an empty name."""
    return {labels.get(queries.node_label, ""): value for labels, value in taken}


def pod_key(labels: Mapping[str, str], queries: Queries) -> str:
    """Of the pod that a series is of, its UID where the series has it (as a UID is written, or with underscores, as in
    the names of control groups), else `namespace/name`."""
    return pod_uid(labels) or f"{labels.get(queries.namespace_label, '')}/{labels.get(queries.pod_label, '')}"


def figure_of(value: float, at: float, window: float) -> Figure:
    """A value that was taken at a Unix time, as an average over `window` seconds. Raises SourceError for no time."""
    try:
        taken = datetime.fromtimestamp(at, UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise SourceError(f"the query `prometheus-taken` gave {at:g}: it must give a Unix time in seconds") from error
    return Figure(value, taken, window)


class PrometheusSource:
    """Asks Prometheus over HTTP.

    client: to ask with. queries: what to ask.
    """

    name = "prometheus"

    def __init__(self, client: PrometheusClient, queries: Queries) -> None:
        self._client = client
        self._queries = queries

    async def measure(self) -> Measurement:
        """All queries at once. Raises SourceError."""
        queries = self._queries
        asked = [*(queries.node[r] for r in RESOURCES), *(queries.pod[r] for r in RESOURCES), queries.taken]
        *use, taken = await self.ask_all(asked)
        count = len(RESOURCES)
        node = dict(zip(RESOURCES, use[:count], strict=True))
        pod = dict(zip(RESOURCES, use[count:], strict=True))
        return await in_thread(combine, node, pod, taken, queries)

    async def history(self) -> dict[str, Figures] | None:
        """Mean, deviation and number of samples over the window, as Prometheus computes them. Raises SourceError."""
        if not self._queries.history:
            return None
        found = {}
        span = f"[{self._queries.history_window:.0f}s:{self._queries.history_step:.0f}s]"
        for resource, query in self._queries.history.items():
            mean, stdev, count = await self.ask_all(
                [
                    f"{function}(({query}){span})"
                    for function in ("avg_over_time", "stddev_over_time", "count_over_time")
                ]
            )
            if mean and stdev and count:
                found[resource] = Figures(mean[0][1], stdev[0][1], int(count[0][1]))
        return found

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def ask_all(self, queries: list[str]) -> list[Vector]:
        """The answers to all queries at once, and to an empty one nothing. Raises SourceError."""
        try:
            return await self._client.ask_all(queries)
        except PrometheusError as error:
            raise SourceError(f"Prometheus: {error}") from error
