"""CPU time that pods used, added up from rates."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scavenger_api.names import LABEL_JOB
from scavenger_api.times import micros
from scavenger_kube.resources import Resource
from scavenger_runtime.usage import MAX_POINTS, Life, MetricsApiUsage, PodUsage, Sample, UsageMeter
from scavenger_testing.fake_api import FakeApi

METRICS: Resource[Any] = Resource("metrics.k8s.io", "v1beta1", "pods", "PodMetrics", True, object)


def meter(*samples: tuple[float, float]) -> UsageMeter:
    """A meter that saw one pod use cores at a time, each over 10 s."""
    made = UsageMeter()
    for cores, at in samples:
        made.observe(Sample("a/p", cores, at, 10))
    return made


def test_what_was_watched_is_exact() -> None:
    watched = meter((1, 110), (3, 120), (0, 130))
    assert watched.cpu_seconds("a/p", 100, 130) == pytest.approx(40)
    assert watched.cpu_seconds("a/p", 105, 115) == pytest.approx(5 + 15)
    assert watched.cpu_seconds("a/p", 120, 130) == 0


def test_what_was_not_watched_goes_at_the_mean_of_what_was() -> None:
    watched = meter((1, 110), (3, 120))
    assert watched.cpu_seconds("a/p", 80, 120) == pytest.approx(2 * 40), "before the first figure"
    assert watched.cpu_seconds("a/p", 110, 140) == pytest.approx(3 * 30), "since the last figure"
    assert watched.cpu_seconds("a/p", 200, 210) == pytest.approx(20), "nothing of it seen"


def test_nothing_is_known_of_a_pod_never_seen_or_forgotten() -> None:
    watched = meter((1, 110))
    assert watched.cpu_seconds("a/q", 100, 110) is None
    watched.keep({"a/q"})
    assert watched.cpu_seconds("a/p", 100, 110) is None
    assert watched.watched("a/p", 100, 110) == 0


def test_a_span_that_ends_before_it_begins_is_worth_nothing() -> None:
    assert meter((1, 110)).cpu_seconds("a/p", 110, 100) == 0


@pytest.mark.parametrize("cores", [math.nan, math.inf, -1.0])
def test_what_is_no_rate_is_left_out(cores: float) -> None:
    assert meter((cores, 110)).cpu_seconds("a/p", 100, 110) is None


def test_the_same_figure_seen_twice_counts_once() -> None:
    assert meter((1, 110), (1, 110), (9, 105)).cpu_seconds("a/p", 100, 110) == pytest.approx(10)


def test_a_gap_counts_at_the_rate_after_it() -> None:
    assert meter((1, 110), (2, 210)).cpu_seconds("a/p", 100, 210) == pytest.approx(10 + 200)


def test_the_share_that_was_watched() -> None:
    watched = meter((1, 110), (1, 120))
    assert watched.watched("a/p", 100, 120) == 1
    assert watched.watched("a/p", 90, 130) == 0.5
    assert watched.watched("a/p", 200, 300) == 0


@given(st.lists(st.floats(0, 64), min_size=2, max_size=5 * MAX_POINTS))
def test_long_runs_are_kept_in_bounded_size_and_their_whole_is_exact(rates: list[float]) -> None:
    watched = meter(*((cores, 110.0 + 10 * i) for i, cores in enumerate(rates)))
    assert len(watched._curves["a/p"].times) <= MAX_POINTS
    whole = watched.cpu_seconds("a/p", 100, 100 + 10 * len(rates))
    assert whole == pytest.approx(10 * sum(rates))


async def test_figures_that_cannot_be_read_are_left_out(api: FakeApi) -> None:
    def put(name: str, *cpus: str, at: str = "2026-01-01T00:00:10Z") -> None:
        containers = [{"name": "main", "usage": {"cpu": cpu, "memory": "1Mi"}} for cpu in cpus]
        meta = {"namespace": "a", "name": name, "labels": {LABEL_JOB: "j"}}
        api.put(METRICS, {"metadata": meta, "timestamp": at, "window": "10.5s", "containers": containers})

    put("good", "250m", "1")
    put("odd", "much")
    put("when", "1", at="soon")
    put("empty")
    found = await MetricsApiUsage(api.client(), timeout=5).measure()
    assert [(s.pod, s.cores, s.window) for s in found if s.cores] == [("a/good", 1.25, 10.5)]


async def test_a_figure_of_an_earlier_life_of_a_pod_is_not_of_this_one(api: FakeApi) -> None:
    """A task of an array runs again under the name of its pod, and the metrics API knows nothing but names."""
    now = datetime(2026, 1, 1, 0, 2, tzinfo=UTC)

    def put(at: str, window: str) -> None:
        containers = [{"name": "main", "usage": {"cpu": "4", "memory": "1Mi"}}]
        meta = {"namespace": "a", "name": "p", "labels": {LABEL_JOB: "j"}}
        api.put(METRICS, {"metadata": meta, "timestamp": at, "window": window, "containers": containers})

    usage = PodUsage(MetricsApiUsage(api.client(), timeout=5))
    pods = {"a/p": Life("second", micros(now - timedelta(seconds=60)))}
    for at, window in (("2026-01-01T00:00:50Z", "10s"), ("2026-01-01T00:01:10Z", "30s")):
        put(at, window)
        assert await usage.poll(pods, now)
        assert usage.meter.cpu_seconds("second", now.timestamp() - 10, now.timestamp()) is None, at
    put("2026-01-01T00:01:40Z", "30s")
    assert await usage.poll(pods, now)
    assert usage.meter.cpu_seconds("second", now.timestamp() - 10, now.timestamp()) == pytest.approx(40)
