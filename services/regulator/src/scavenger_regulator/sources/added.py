"""Metrics beside CPU and memory, which Prometheus is asked for whatever the source of these two is.

What it does not answer is not measured, and nothing is done about it: CPU and memory are regulated all the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from scavenger_runtime.logging import get_logger
from scavenger_runtime.prometheus import Vector

from scavenger_regulator.core.history import Figures
from scavenger_regulator.core.metrics.added import AddedMetric
from scavenger_regulator.core.metrics.metric import SORT
from scavenger_regulator.core.snapshot import AddedFigures, Figure, Measurement
from scavenger_regulator.sources import Source, SourceError
from scavenger_regulator.sources.prometheus import PrometheusSource, Queries, figure_of, pod_key, times_of

log = get_logger(__name__)


def joined(
    measurement: Measurement, answers: Mapping[AddedMetric, Sequence[Vector]], taken: Vector, queries: Queries
) -> Measurement:
    """The measurement with what was answered of each metric: use of nodes, capacity of nodes, use of pods, and by what
    pods are ordered.

    Raises:
        SourceError: where a time is none.
    """
    times = times_of(taken, queries)
    everywhere, newest = times.get(""), max(times.values(), default=None)
    pods = {key: dict(figures) for key, figures in measurement.pods.items()}
    added = {}
    for one, (use, room, of_pods, order) in answers.items():
        window = queries.window if one.metric.averaged else 0.0
        nodes: dict[str, Figure] = {}
        for labels, value in use:
            node = labels.get(queries.node_label, "")
            at = times.get(node, everywhere)
            if node and at is not None:
                nodes[node] = figure_of(value, at, window)
        capacity = {labels.get(queries.node_label, ""): value for labels, value in room}
        added[one.metric.name] = AddedFigures(nodes, capacity)
        for name, vector in {one.metric.name: of_pods, SORT + one.metric.name: order}.items():
            for labels, value in vector if newest is not None else ():
                pods.setdefault(pod_key(labels, queries), {})[name] = figure_of(value, newest or 0.0, window)
    return replace(measurement, pods=pods, added=added)


class AddedSource:
    """A source, and beside it Prometheus for the metrics that it does not have."""

    def __init__(
        self, source: Source, prometheus: PrometheusSource, metrics: Iterable[AddedMetric], queries: Queries
    ) -> None:
        self.name = source.name
        self._source = source
        self._prometheus = prometheus
        self._metrics = tuple(metrics)
        self._queries = queries
        self._silent: frozenset[str] = frozenset()

    async def measure(self) -> Measurement:
        """What the source says, with the metrics that Prometheus answers for. Raises SourceError as the source does."""
        measurement, (taken, answers) = await asyncio.gather(self._source.measure(), self._ask())
        try:
            return joined(measurement, answers, taken, self._queries)
        except SourceError as error:
            log.warning("added metrics not measured", error=str(error))
            return measurement

    async def _ask(self) -> tuple[Vector, dict[AddedMetric, list[Vector]]]:
        """When samples were taken, and what is answered of each metric."""
        taken, *found = await asyncio.gather(
            self._answers("taken", [self._queries.taken]),
            *(self._answers(one.metric.name, [one.node, one.capacity, one.pod, one.sort]) for one in self._metrics),
        )
        answers = {one: answer for one, answer in zip(self._metrics, found, strict=True) if answer is not None}
        silent = {one.metric.name for one in self._metrics if one not in answers}
        self._silent = frozenset(silent if taken is not None else silent | {"taken"})
        return (taken[0], answers) if taken is not None else ([], {})

    async def history(self) -> dict[str, Figures] | None:
        """That of the source."""
        return await self._source.history()

    async def close(self) -> None:
        """Close the connections of both."""
        await self._source.close()
        await self._prometheus.close()

    async def _answers(self, name: str, queries: list[str]) -> list[Vector] | None:
        """The answers to the queries, none to one that is empty; None where they do not come."""
        try:
            return await self._prometheus.ask_all(queries)
        except SourceError as error:
            if name not in self._silent:
                log.warning("metric not measured", metric=name, error=str(error))
            return None
