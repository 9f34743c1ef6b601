"""The metrics API (metrics.k8s.io) as it answers: what nodes and pods use. Read as it comes; nothing is judged here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec
from scavenger_api.duration import DurationError, parse_duration

from scavenger_kube.kinds import Struct

NODE_METRICS: Final = "/apis/metrics.k8s.io/v1beta1/nodes"
POD_METRICS: Final = "/apis/metrics.k8s.io/v1beta1/pods"

Usage = dict[str, str | int | float]
"""Quantities by resource."""


class MetricsMeta(Struct, frozen=True, gc=False, rename="camel"):
    """metadata of an item: there is no more to it."""

    name: str = ""
    namespace: str = ""


class NodeMetrics(Struct, frozen=True, gc=False, rename="camel"):
    """metrics.k8s.io NodeMetrics: an average over the `window` before `timestamp`."""

    metadata: MetricsMeta = MetricsMeta()
    timestamp: str = ""
    window: str = ""
    usage: Usage = {}  # noqa: RUF012 - msgspec copies it


class ContainerMetrics(Struct, frozen=True, gc=False, rename="camel"):
    """containers[] of a PodMetrics."""

    usage: Usage = {}  # noqa: RUF012 - msgspec copies it


class PodMetrics(Struct, frozen=True, gc=False, rename="camel"):
    """metrics.k8s.io PodMetrics: an average over the `window` before `timestamp`."""

    metadata: MetricsMeta = MetricsMeta()
    timestamp: str = ""
    window: str = ""
    containers: tuple[ContainerMetrics, ...] = ()

    @property
    def key(self) -> str:
        """`namespace/name`: the metrics API knows no UIDs."""
        return f"{self.metadata.namespace}/{self.metadata.name}"


class _Nodes(Struct, frozen=True, gc=False, rename="camel"):
    items: list[NodeMetrics] | None = None


class _Pods(Struct, frozen=True, gc=False, rename="camel"):
    items: list[msgspec.Raw] | None = None


_nodes = msgspec.json.Decoder(_Nodes)
_pods = msgspec.json.Decoder(_Pods)
_pod = msgspec.json.Decoder(PodMetrics)


def decode_node_metrics(body: bytes) -> list[NodeMetrics]:
    """The items of a NodeMetricsList. Raises ValueError where it is none."""
    return _nodes.decode(body).items or []


def decode_pod_metrics(body: bytes) -> Iterator[PodMetrics]:
    """The items of a PodMetricsList, each decoded when it is taken. Raises ValueError where it is none.

    Servers answer with the whole list, whatever page was asked for. Nothing else runs in the process while a list is
    decoded, also in a thread.
    """
    return map(_pod.decode, _pods.decode(body).items or ())


def window_seconds(window: str) -> float:
    """Seconds of a `window`; 0 for what is no duration."""
    try:
        return parse_duration(window).total_seconds()
    except (DurationError, OverflowError):
        return 0.0
