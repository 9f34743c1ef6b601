from __future__ import annotations

import json
import math
import statistics
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scavenger_regulator.core.history import (
    DEFAULT_BUCKETS,
    DEFAULT_WINDOW,
    History,
    Moments,
    dump_histories,
    load_histories,
)

START = datetime(2026, 1, 2, tzinfo=UTC)
percents = st.lists(st.floats(0, 100), min_size=1, max_size=60)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def filled(
    values: list[float], every: float = 30.0, *, window: float = DEFAULT_WINDOW, buckets: int = DEFAULT_BUCKETS
) -> History:
    history = History(window, buckets)
    for i, value in enumerate(values):
        assert history.add(at(i * every), value)
    return history


@given(percents)
def test_mean_and_stdev_are_those_of_the_samples(values: list[float]) -> None:
    figures = filled(values, every=500).figures
    assert figures is not None
    assert figures.samples == len(values)
    assert figures.mean == pytest.approx(statistics.fmean(values), abs=1e-6)
    assert figures.stdev == pytest.approx(statistics.pstdev(values), abs=1e-5)


@given(percents, percents)
def test_merging_is_like_having_seen_all(first: list[float], second: list[float]) -> None:
    def moments(values: list[float]) -> Moments:
        total = Moments()
        for value in values:
            total = total.add(value)
        return total

    merged, whole = moments(first).merge(moments(second)), moments(first + second)
    assert merged.count == whole.count
    assert (merged.mean, merged.stdev) == pytest.approx((whole.mean, whole.stdev), abs=1e-5)


@given(st.lists(st.tuples(st.sampled_from((1, 30, 200, 2000, -30, -5000)), st.floats(0, 100)), max_size=60))
def test_figures_are_the_same_whether_asked_for_before_or_not(samples: list[tuple[int, float]]) -> None:
    history, moment = History(3000, 6), 0.0
    for step, value in samples:
        moment += step
        history.add(at(moment), value)
        assert history.figures == replace(history, _earlier=None).figures


def test_no_sample_no_figures() -> None:
    assert History().figures is None
    assert History().samples == 0


def test_one_sample_has_no_deviation() -> None:
    figures = filled([42]).figures
    assert figures is not None
    assert (figures.mean, figures.stdev, figures.samples) == (42, 0, 1)


@pytest.mark.parametrize("value", [math.nan, math.inf, -0.1, 100.1])
def test_what_is_no_percentage_is_not_taken(value: float) -> None:
    history = History()
    assert not history.add(START, value)
    assert history.figures is None


def test_the_same_measurement_counts_once() -> None:
    history = filled([10])
    assert not history.add(at(0), 90)
    assert not history.add(at(-30), 90)
    assert history.samples == 1


def test_the_window_moves_and_the_size_stays() -> None:
    history = History(window=3600, buckets=12)
    for i in range(2000):
        history.add(at(i * 30), 10 if i < 1000 else 50)
    figures = history.figures
    assert figures is not None
    assert (figures.mean, figures.stdev) == (50, 0)
    assert 110 <= figures.samples <= 120
    assert len(history.dump()["moments"]) <= 12


def test_a_clock_set_back_by_more_than_the_window_starts_over() -> None:
    history = filled([10] * 5, window=3600, buckets=12)
    assert history.add(at(-86400), 80)
    figures = history.figures
    assert figures is not None
    assert (figures.mean, figures.samples) == (80, 1)


@given(percents)
def test_a_restart_loses_nothing(values: list[float]) -> None:
    history = filled(values, every=700)
    text = dump_histories({"": {"cpu": history}}, 100_000)
    now = at(len(values) * 700)
    back = load_histories(text, None, history.window, history.buckets, now)[""]["cpu"]
    old, new = history.figures, back.figures
    assert old is not None
    assert new is not None
    assert new.samples == old.samples
    assert (new.mean, new.stdev) == pytest.approx((old.mean, old.stdev), abs=0.02)
    assert not back.add(at((len(values) - 1) * 700), 0.0), "the last sample is still the last"


def test_what_left_the_window_while_the_process_was_down_is_gone() -> None:
    text = dump_histories({"": {"cpu": filled([50] * 100)}}, 100_000)
    back = load_histories(text, None, 86_400, 96, at(3 * 86_400))
    assert back[""]["cpu"].figures is None


def test_a_window_configured_anew_keeps_what_fits() -> None:
    text = dump_histories({"": {"cpu": filled([50] * 100)}}, 100_000)
    figures = load_histories(text, None, 7200, 24, at(3000))[""]["cpu"].figures
    assert figures is not None
    assert figures.mean == pytest.approx(50)
    assert figures.samples == 100


def test_the_text_is_bounded_and_the_cluster_comes_first() -> None:
    long = filled([50] * 2000, every=30)
    histories = {"": {"cpu": filled([50] * 10)}} | {f"node-{i:04}": {"cpu": long} for i in range(50)}
    text = dump_histories(histories, 10_000)
    assert len(text.encode()) <= 10_000
    back = load_histories(text, None, 86_400, 96, at(60_000))
    assert "" in back
    assert 1 < len(back) < 51
    assert set(load_histories(text, ["", "node-9999"], 86_400, 96, at(60_000))) == {""}


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=10,
)


@given(
    st.text(max_size=30)
    | json_values.map(json.dumps)
    | st.builds(
        lambda w, b, last, m: json.dumps(
            {
                "version": 1,
                "scopes": {"": {"cpu": {"window": w, "buckets": b, "last": last, "moments": m}}},
            }
        ),
        json_values,
        json_values,
        json_values,
        st.lists(st.lists(st.floats() | st.integers(), min_size=3, max_size=5), max_size=4),
    )
)
def test_garbage_is_no_history(text: str) -> None:
    for histories in load_histories(text, None, 86_400, 96, START).values():
        for history in histories.values():
            figures = history.figures
            assert figures is None or (0 <= figures.mean <= 100.01 and 0 <= figures.stdev <= 100.01)
            history.add(at(10), 50)
