"""The figures of the benchmark on reclaimed capacity, from samples to what is printed."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.figures import median_ratio, percentile, yielded_after


def use(*cores: float, every: float = 0.02) -> list[tuple[float, float]]:
    """Samples of a job that uses so many cores from one to the next, from time 0 on."""
    samples, used = [(0.0, 0.0)], 0.0
    for number, one in enumerate(cores, 1):
        used += one * every
        samples.append((number * every, used))
    return samples


@pytest.mark.parametrize(
    ("cores", "since", "seconds"),
    [
        pytest.param([1.0] * 10 + [0.0] * 10, 0.1, 0.1, id="at once, 0.1 s after it was asked for"),
        pytest.param([1.0] * 10 + [0.0] * 10, 0.2, 0.0, id="it had already given way"),
        pytest.param([1.0] * 20, 0.1, math.inf, id="never"),
        pytest.param([1.0, 0.0, 1.0, 1.0, 1.0] * 4, 0.0, math.inf, id="a moment of rest is none"),
        pytest.param([0.0] * 10 + [1.0] * 10 + [0.0] * 10, 0.12, 0.28, id="rest before the burst does not count"),
        pytest.param([1.0] * 10 + [0.0] * 3, 0.1, math.inf, id="not watched long enough to tell"),
        pytest.param([], 0.0, math.inf, id="not watched"),
    ],
)
def test_when_a_job_has_given_way(cores: list[float], since: float, seconds: float) -> None:
    assert yielded_after(use(*cores), since, cores=0.1, span=0.1) == pytest.approx(seconds, abs=1e-9)


@given(st.lists(st.floats(0, 1e6), min_size=1), st.integers(1, 100))
def test_a_percentile_is_the_smallest_value_that_so_many_do_not_exceed(values: list[float], percent: int) -> None:
    found = percentile(values, percent)
    assert found in values
    assert sum(value <= found for value in values) * 100 >= percent * len(values)
    assert sum(value < found for value in values) * 100 < percent * len(values)


def test_one_disturbed_pair_does_not_move_the_ratio() -> None:
    assert median_ratio([(99, 100), (98, 98), (97, 97), (10, 100), (100, 99)]) == 1
