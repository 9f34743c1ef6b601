"""Prometheus metrics of the process: one registry, names beginning with `scavenger_`, shared buckets.

Units are Prometheus' base units: seconds, bytes, ratios of 0 to 1. Every value of a label comes from a list that the
code or the cluster bounds, never from what a user writes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)

REGISTRY = CollectorRegistry()
"""What /metrics shows; the one piece of global state in this package."""

ProcessCollector(registry=REGISTRY)
PlatformCollector(registry=REGISTRY)
GCCollector(registry=REGISTRY)

PREFIX = "scavenger_"

LATENCY_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Seconds: from a cache hit to a request that was given up."""

WAIT_BUCKETS = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 86400.0)
"""Seconds: for objects that are queued rather than for an answer."""

_UNITS = {"cpu": "core", "memory": "byte", "ephemeral-storage": "byte"}

M = TypeVar("M", Counter, Gauge, Histogram)


def counter(name: str, text: str, labels: Sequence[str] = ()) -> Counter:
    """A counter `scavenger_<name>`; the exposition appends `_total`. The same name twice is the same counter."""
    return _once(name, lambda full: Counter(full, text, labels, registry=REGISTRY))


def gauge(name: str, text: str, labels: Sequence[str] = ()) -> Gauge:
    """A gauge `scavenger_<name>`. The same name twice is the same gauge."""
    return _once(name, lambda full: Gauge(full, text, labels, registry=REGISTRY))


def histogram(
    name: str, text: str, labels: Sequence[str] = (), buckets: Sequence[float] = LATENCY_BUCKETS
) -> Histogram:
    """A histogram `scavenger_<name>`, in seconds unless its name says otherwise."""
    return _once(name, lambda full: Histogram(full, text, labels, registry=REGISTRY, buckets=buckets))


def unit_of(resource: str) -> str:
    """The label `unit` of an amount of a resource, in the words of kube-state-metrics: core, byte or integer."""
    return _UNITS.get(resource, "integer")


def exposition() -> bytes:
    """The registry in Prometheus' text format."""
    return generate_latest(REGISTRY)


_made: dict[str, Any] = {}


def _once(name: str, make: Callable[[str], M]) -> M:
    full = name if name.startswith(PREFIX) else PREFIX + name
    if full not in _made:
        _made[full] = make(full)
    metric: M = _made[full]
    return metric
