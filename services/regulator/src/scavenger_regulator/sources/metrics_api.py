"""The metrics API (metrics.k8s.io), served by metrics-server or an adapter: real use, measured by the kubelets.

Two lists in each period, however many nodes and pods there are. Each item says when it was taken and over which window,
so what is stale is found out node by node.
"""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec
from scavenger_api import names
from scavenger_api.duration import DurationError, parse_duration
from scavenger_api.times import parse_time
from scavenger_runtime.errors import ApiError, NotFound
from scavenger_runtime.kinds import Struct
from scavenger_runtime.transport import ApiClient

from scavenger_regulator.history import Figures
from scavenger_regulator.observe import quantity
from scavenger_regulator.snapshot import RESOURCES, Figure, Measurement
from scavenger_regulator.sources import SourceError

NODES: Final = "/apis/metrics.k8s.io/v1beta1/nodes"
PODS: Final = "/apis/metrics.k8s.io/v1beta1/pods"

Usage = dict[str, str | int | float]


class _Meta(Struct, frozen=True, gc=False, rename="camel"):
    name: str = ""
    namespace: str = ""


class _NodeMetrics(Struct, frozen=True, gc=False, rename="camel"):
    metadata: _Meta = _Meta()
    timestamp: str = ""
    window: str = ""
    usage: Usage = {}  # noqa: RUF012 - msgspec copies it


class _ContainerMetrics(Struct, frozen=True, gc=False, rename="camel"):
    usage: Usage = {}  # noqa: RUF012 - msgspec copies it


class _PodMetrics(Struct, frozen=True, gc=False, rename="camel"):
    metadata: _Meta = _Meta()
    timestamp: str = ""
    window: str = ""
    containers: tuple[_ContainerMetrics, ...] = ()


class _Nodes(Struct, frozen=True, gc=False, rename="camel"):
    items: list[_NodeMetrics] | None = None


class _Pods(Struct, frozen=True, gc=False, rename="camel"):
    items: list[_PodMetrics] | None = None


_nodes = msgspec.json.Decoder(_Nodes)
_pods = msgspec.json.Decoder(_Pods)


def parse(nodes: bytes, pods: bytes) -> Measurement:
    """A NodeMetricsList and a PodMetricsList as a measurement. Raises SourceError where they are none."""
    try:
        node_items, pod_items = _nodes.decode(nodes).items or (), _pods.decode(pods).items or ()
    except ValueError as error:
        raise SourceError(f"the metrics API answered with something else: {error}") from error
    return Measurement(
        nodes={item.metadata.name: _figures([item.usage], item.timestamp, item.window) for item in node_items},
        pods={
            f"{item.metadata.namespace}/{item.metadata.name}": _figures(
                [container.usage for container in item.containers], item.timestamp, item.window
            )
            for item in pod_items
            if item.containers
        },
    )


def _figures(usages: list[Usage], timestamp: str, window: str) -> dict[str, Figure]:
    """The sum over containers, of the resources for which each of them has a figure."""
    at = parse_time(timestamp)
    if at is None:
        return {}
    seconds = _seconds(window)
    return {
        resource: Figure(sum(quantity(usage[resource]) for usage in usages), at, seconds)
        for resource in RESOURCES
        if all(resource in usage for usage in usages)
    }


def _seconds(window: str) -> float:
    try:
        return parse_duration(window).total_seconds()
    except (DurationError, OverflowError):
        return 0.0


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
                self._client.request("GET", NODES, timeout=self._timeout),
                self._client.request("GET", PODS, params={"labelSelector": names.LABEL_JOB}, timeout=self._timeout),
            )
        except NotFound as error:
            raise SourceError(
                "there is no metrics API here: install metrics-server, or choose another source"
            ) from error
        except ApiError as error:
            raise SourceError(f"the metrics API does not answer: {error}") from error
        return parse(nodes, pods)

    async def history(self) -> dict[str, Figures] | None:
        """The metrics API knows only now."""
        return None

    async def close(self) -> None:
        """Nothing of its own."""
