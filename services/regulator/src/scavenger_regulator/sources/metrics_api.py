"""The metrics API (metrics.k8s.io), served by metrics-server or an adapter: real use, measured by the kubelets.

Two lists in each period, however many nodes and pods there are. Each item says when it was taken and over which window,
so what is stale is found out node by node.
"""

from __future__ import annotations

import asyncio

from scavenger_api import names
from scavenger_api.times import parse_time
from scavenger_kube.client import ApiClient
from scavenger_kube.errors import ApiError, NotFound
from scavenger_kube.metrics_api import (
    NODE_METRICS,
    POD_METRICS,
    Usage,
    decode_node_metrics,
    decode_pod_metrics,
    window_seconds,
)
from scavenger_runtime.threads import in_thread

from scavenger_regulator.core.history import Figures
from scavenger_regulator.core.metrics.metric import RESOURCES
from scavenger_regulator.core.snapshot import Figure, Measurement
from scavenger_regulator.facts import quantity
from scavenger_regulator.sources import SourceError


def parse(nodes: bytes, pods: bytes) -> Measurement:
    """A NodeMetricsList and a PodMetricsList as a measurement. Raises SourceError where they are none."""
    try:
        return Measurement(
            nodes={
                item.metadata.name: _figures([item.usage], item.timestamp, item.window)
                for item in decode_node_metrics(nodes)
            },
            pods={
                item.key: _figures([container.usage for container in item.containers], item.timestamp, item.window)
                for item in decode_pod_metrics(pods)
                if item.containers
            },
        )
    except (ValueError, RecursionError) as error:
        raise SourceError(f"the metrics API answered with something else: {error}") from error


def _figures(usages: list[Usage], timestamp: str, window: str) -> dict[str, Figure]:
    """The sum over containers, of the resources for which each of them has a figure."""
    at = parse_time(timestamp)
    if at is None:
        return {}
    seconds = window_seconds(window)
    return {
        resource: Figure(sum(quantity(usage[resource]) for usage in usages), at, seconds)
        for resource in RESOURCES
        if all(resource in usage for usage in usages)
    }


class MetricsApiSource:
    """Asks the metrics API through the API server."""

    name = "metrics-api"

    def __init__(self, client: ApiClient, *, timeout: float) -> None:
        self._client = client
        self._timeout = timeout

    async def measure(self) -> Measurement:
        """Both lists at once. Raises SourceError."""
        try:
            nodes, pods = await asyncio.gather(
                self._client.request("GET", NODE_METRICS, timeout=self._timeout),
                self._client.request(
                    "GET", POD_METRICS, params={"labelSelector": names.LABEL_JOB}, timeout=self._timeout
                ),
            )
        except NotFound as error:
            raise SourceError(
                "there is no metrics API here: install metrics-server, or choose another source"
            ) from error
        except ApiError as error:
            raise SourceError(f"the metrics API does not answer: {error}") from error
        return await in_thread(parse, nodes, pods)  # tens of megabytes of a large cluster

    async def history(self) -> dict[str, Figures] | None:
        """The metrics API knows only now."""
        return None

    async def close(self) -> None:
        """Nothing of its own."""
