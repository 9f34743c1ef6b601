"""The load of metrics beside CPU and memory, joined to that of these two.

A metric that is not measured has no load in a period, and nothing is done about it: levels, state and victims are those
of the others. What is believed of figures is the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from scavenger_regulator.core.load import MAX_USE, PLAUSIBLE, WRONG_UNIT, Fresh, Reading, Trust, median_time
from scavenger_regulator.core.metrics.metric import Metric
from scavenger_regulator.core.snapshot import Figure, Figures, Gang, Measurement

_Running = tuple[str, Figures]
"""The node of a scavenger pod that runs, and its figures."""


@dataclass(frozen=True, slots=True)
class _Load:
    """Of one metric. `room`: the capacity of the nodes. `ordinary`: used by others than scavenger pods; None: not
    known.
    sampled_at: the median over nodes. since: when the oldest sample's averaging began."""

    used: float
    room: float
    ordinary: float | None
    sampled_at: datetime
    since: datetime


def with_added(
    reading: Reading,
    metrics: Iterable[Metric],
    gangs: Iterable[Gang],
    measurement: Measurement,
    fresh: Fresh,
    trust: Trust,
) -> Reading:
    """The reading with the metrics that enough nodes are measured of, of those that have any."""
    running = [
        (pod.node, measurement.of(pod))
        for gang in gangs
        for pod in gang.pods
        if pod.running_since is not None and pod.node in reading.nodes
    ]
    loads = {metric.name: _load(metric.name, reading, running, measurement, fresh, trust) for metric in metrics}
    found = {name: load for name, load in loads.items() if load is not None}
    if not found:
        return reading
    points = {name: 100.0 * load.used / load.room for name, load in found.items()}
    cut = {name: min(100.0, one) for name, one in points.items()}
    room = {name: load.room for name, load in found.items()}
    ordinary = reading.ordinary
    if ordinary is not None:
        known = {
            n: min(100.0, 100.0 * load.ordinary / load.room) for n, load in found.items() if load.ordinary is not None
        }
        ordinary = {**ordinary, **known}
    return replace(
        reading,
        load={**reading.load, **cut},
        firm={**reading.firm, **cut},
        beyond={**reading.beyond, **points},
        ordinary=ordinary,
        ramping={**reading.ramping, **dict.fromkeys(found, 0.0)},
        room={**reading.room, **room},
        whole={**reading.whole, **room},
        sampled_at={**reading.sampled_at, **{name: load.sampled_at for name, load in found.items()}},
        shown=min(reading.shown, *(load.since for load in found.values())),
    )


def _load(
    name: str, reading: Reading, running: Sequence[_Running], measurement: Measurement, fresh: Fresh, trust: Trust
) -> _Load | None:
    """What the measured nodes use of a metric; None where fewer than the share `coverage` of those that have any of it
    have a figure."""
    figures = measurement.added.get(name)
    if figures is None:
        return None
    having = {node: room for node in reading.nodes if 0 < (room := figures.capacity.get(node, 0.0)) <= MAX_USE}
    known: dict[str, tuple[Figure, float]] = {}
    for node, capacity in having.items():
        figure = figures.nodes.get(node)
        if figure is not None and figure.value <= WRONG_UNIT * capacity and fresh.has(figure):
            known[node] = figure, capacity
    if not known or len(known) < trust.coverage * len(having):
        return None
    used = sum(min(figure.value, PLAUSIBLE * capacity) for figure, capacity in known.values())
    of_pods = [figures.get(name) for node, figures in running if node in known]
    measured = [figure.value for figure in of_pods if figure is not None and fresh.has(figure)]
    return _Load(
        used=used,
        room=sum(capacity for _, capacity in known.values()),
        ordinary=max(0.0, used - sum(measured)) if len(measured) >= trust.pod_coverage * len(of_pods) else None,
        sampled_at=median_time(figure for figure, _ in known.values()),
        since=min(figure.at - timedelta(seconds=figure.window) for figure, _ in known.values()),
    )
