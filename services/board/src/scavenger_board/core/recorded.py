"""What Prometheus is asked about a moment, and its answers read. Metrics are those of docs/metrics.md."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

import msgspec
from scavenger_api.levels_text import DEFAULT_POOL
from scavenger_api.times import format_time

from scavenger_board.core.history import LINES, LoadRow, Point
from scavenger_board.core.past import Recorded, RecordedPool
from scavenger_board.core.picture import ResourceRow

LOAD: Final = 'max by (resource) (scavenger_regulator_load_ratio{scope="cluster",pool=~"default|"})'
REGULAR: Final = 'max by (resource) (scavenger_regulator_ordinary_load_ratio{scope="cluster",pool=~"default|"})'
STATE: Final = 'max by (state) (scavenger_regulator_state{pool=~"default|"}) == 1'
LEVELS: Final = 'max by (resource, level) (scavenger_regulator_level_ratio{scope="cluster",pool=~"default|"})'
SPAN: Final = (LOAD, REGULAR, LEVELS, STATE)
"""Queries over a span of time, of the default pool. Figures of older versions have no label `pool`."""

MOMENT: Final[Mapping[str, str]] = {
    "load": 'max by (pool, resource) (scavenger_regulator_load_ratio{scope="cluster"})',
    "levels": 'max by (pool, resource, level) (scavenger_regulator_level_ratio{scope="cluster"})',
    "state": "max by (pool, state) (scavenger_regulator_state) == 1",
    "admit": "max by (pool) (scavenger_regulator_admit)",
    "nodes": 'max by (scope, resource) (scavenger_regulator_load_ratio{scope!="cluster"})',
    "allocated": "max by (queue, resource) (scavenger_queue_allocated)",
    "deserved": "max by (queue, resource) (scavenger_queue_deserved)",
    "waiting": "max(scavenger_ordinary_pods_waiting)",
}
"""Instant queries. The maximum, as of two replicas only the one that leads shows figures."""

OF_POOLS: Final = ("load", "levels", "state", "admit")
"""Those that have a figure of each pool of nodes."""

Labels = Mapping[str, str]
Vector = list[tuple[Labels, float]]
Matrix = Sequence[tuple[Labels, Mapping[float, float]]]


class AnswerError(ValueError):
    """Not an answer that can be read; the message says what it is instead."""


class _Series(msgspec.Struct):
    metric: dict[str, str]
    value: tuple[float, str] | None = None
    values: list[tuple[float, str]] = []


class _Data(msgspec.Struct):
    result: list[_Series] = []


class _Answer(msgspec.Struct):
    status: str
    data: _Data = msgspec.field(default_factory=_Data)
    error: str = "no reason given"


def _result(body: bytes) -> list[_Series]:
    try:
        answer = msgspec.json.decode(body, type=_Answer)
    except msgspec.MsgspecError as error:
        raise AnswerError(f"its answer is not from Prometheus: {error}") from error
    if answer.status != "success":
        raise AnswerError(f"it says {answer.error}")
    return answer.data.result


def read_vector(body: bytes) -> Vector:
    """Labels and value of each series of an instant query; what is not finite is left out. Raises AnswerError."""
    found = ((one.metric, _number(one.value[1])) for one in _result(body) if one.value is not None)
    return [(labels, value) for labels, value in found if value is not None]


def read_matrix(body: bytes) -> Matrix:
    """Labels and values by time of each series of a range query, likewise. Raises AnswerError."""
    return [
        (one.metric, {at: value for at, text in one.values if (value := _number(text)) is not None})
        for one in _result(body)
    ]


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def recorded(answers: Mapping[str, Vector], at: datetime) -> Recorded:
    """What the answers to MOMENT come to."""
    nodes: dict[str, dict[str, float]] = {}
    for labels, value in answers["nodes"]:
        nodes.setdefault(labels.get("scope", ""), {})[labels.get("resource", "")] = round(100.0 * value, 1)
    of_pools = {name for one in OF_POOLS for labels, _ in answers[one] if (name := _pool(labels)) != DEFAULT_POOL}
    default, waiting = _of_pool(answers, DEFAULT_POOL, at), answers["waiting"]
    return Recorded(
        levels=default.levels,
        admit=default.admit,
        pools={name: _of_pool(answers, name, at) for name in sorted(of_pools)},
        node_load=nodes,
        allocated=_amounts(answers["allocated"]),
        deserved=_amounts(answers["deserved"]),
        waiting_pods=int(waiting[0][1]) if waiting else None,
    )


def _pool(labels: Labels) -> str:
    """Figures of older versions have no label `pool`."""
    return labels.get("pool") or DEFAULT_POOL


def _of_pool(answers: Mapping[str, Vector], pool: str, at: datetime) -> RecordedPool:
    of_it = {name: [one for one in answers[name] if _pool(one[0]) == pool] for name in OF_POOLS}
    load = {labels.get("resource", ""): 100.0 * value for labels, value in of_it["load"]}
    levels: dict[str, dict[str, float]] = {}
    for labels, value in of_it["levels"]:
        levels.setdefault(labels.get("resource", ""), {})[labels.get("level", "")] = 100.0 * value
    state = next((labels.get("state", "") for labels, _ in of_it["state"]), "")
    rows = {
        name: ResourceRow(load.get(name), one.get("lower"), one.get("admission"), one.get("upper"))
        for name in sorted({*load, *levels})
        for one in (levels.get(name, {}),)
    }
    admit = of_it["admit"]
    return RecordedPool(Point(at, state, 0.0, rows) if rows or state else None, bool(admit[0][1]) if admit else None)


def _amounts(vector: Vector) -> dict[str, dict[str, int]]:
    """Millicores and bytes by queue: the metrics are in cores and bytes."""
    found: dict[str, dict[str, int]] = {}
    for labels, value in vector:
        resource = labels.get("resource", "")
        found.setdefault(labels.get("queue", ""), {})[resource] = round(value * (1000 if resource == "cpu" else 1))
    return found


def load_row(answers: Sequence[Matrix], start: datetime, end: datetime) -> LoadRow:
    """Load and levels over a span. answers: to the queries of SPAN."""
    series: dict[tuple[str, str], Mapping[float, float]] = {}
    load, regular, levels, states = answers
    for name, matrix in (("load", load), ("regular", regular)):
        for labels, values in matrix:
            series[labels.get("resource", ""), name] = values
    for labels, values in levels:
        series[labels.get("resource", ""), labels.get("level", "")] = values
    times = sorted({at for values in series.values() for at in values})
    lines = {
        resource: {line: _line(times, series.get((resource, line), {})) for line in LINES}
        for resource in sorted({resource for resource, _ in series})
    }
    source = "Prometheus recorded" if times else ""
    at = {moment: labels.get("state", "") for labels, values in states for moment in values}
    found = [at.get(moment, "") for moment in times]
    return LoadRow(format_time(start), format_time(end), source, times, lines, states=found)


def _line(times: Sequence[float], values: Mapping[float, float]) -> list[float | None]:
    return [round(100.0 * values[at], 2) if at in values else None for at in times]
