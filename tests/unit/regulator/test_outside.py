"""Nothing that is read from outside ends the process: what makes no sense is no measurement, with a message."""

from __future__ import annotations

import base64
import json
import zlib
from datetime import UTC, datetime
from typing import Any

import pytest
from scavenger_regulator.core.history import load_histories
from scavenger_regulator.core.load import Fresh, Trust
from scavenger_regulator.core.reclaimed.profile import Profiles
from scavenger_regulator.core.snapshot import CLUSTER, Figure
from scavenger_regulator.core.state import load_states
from scavenger_regulator.sources import SourceError, metrics_api
from scavenger_regulator.sources.prometheus import Queries, combine
from scavenger_runtime.prometheus import PrometheusError, Vector, parse_vector

NOW = datetime(2026, 1, 1, tzinfo=UTC)
BRACKETS = "[" * 200_000
PACKED = base64.b64encode(zlib.compress(BRACKETS.encode())).decode()


def vector(metric: Any) -> bytes:
    result = [{"metric": metric, "value": [0, "1"]}]
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}).encode()


@pytest.mark.parametrize("metric", [None, 3, ["node"], {"node": ["n1"]}, {"node": None}])
def test_labels_that_are_none(metric: Any) -> None:
    with pytest.raises(PrometheusError, match="not an answer of Prometheus"):
        parse_vector(vector(metric))


@pytest.mark.parametrize("at", [NOW.timestamp() * 1000, 1e300, -1e300])
def test_a_time_that_is_not_in_seconds(at: float) -> None:
    use: dict[str, Vector] = {"cpu": [({"node": "n1"}, 1.0)]}
    with pytest.raises(SourceError, match=r"query `prometheus-taken`.*Unix time in seconds"):
        combine(use, {}, [({"node": "n1"}, at)], Queries({}, {}))


@pytest.mark.parametrize(("value", "window"), [(1e300, 0.0), (1.0, 1e300), (1.0, -1.0), (1.0, float("nan"))])
def test_a_figure_that_cannot_be(value: float, window: float) -> None:
    fresh = Fresh(NOW, Trust())
    figure = Figure(value, NOW, window)
    assert fresh.has(Figure(1.0, NOW, 30.0))
    assert not fresh.has(figure)
    assert fresh.values({"cpu": figure, "memory": figure}) is None


def test_brackets_in_what_was_kept() -> None:
    assert load_states(BRACKETS, NOW, 300) == {}
    assert load_histories(BRACKETS, [CLUSTER], 86_400, 96, NOW) == {}
    assert Profiles.load(PACKED, 86_400, ["n1"], NOW).nodes == {}


@pytest.mark.parametrize(
    ("window", "row"), [(1e308, [10**11, 1, 50, 0]), (86_400, [20_454 * 96, 10**300, 50, 0]), (86_400, [1, 1, 1, None])]
)
def test_buckets_that_cannot_be(window: float, row: list[Any]) -> None:
    one = {"window": window, "buckets": 96, "last": NOW.timestamp(), "moments": [row]}
    text = json.dumps({"version": 1, "scopes": {CLUSTER: {"cpu": one}}})
    assert load_histories(text, [CLUSTER], 86_400, 96, NOW)[CLUSTER]["cpu"].figures is None


@pytest.mark.parametrize("parse", [lambda body: metrics_api.parse(body, body), parse_vector])
def test_brackets_in_an_answer(parse: Any) -> None:
    with pytest.raises((SourceError, PrometheusError)):
        parse(b'{"items": [], "other": ' + BRACKETS.encode())
