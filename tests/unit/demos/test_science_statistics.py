"""The test by which interrupted runs are compared with uninterrupted ones, beside tables and a worked example."""

from __future__ import annotations

import importlib.util
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import science_statistics
else:
    FILE = Path(__file__).resolve().parents[3] / "demo-apps" / "science_statistics.py"
    SPEC = importlib.util.spec_from_file_location("science_statistics", FILE)
    science_statistics = sys.modules[SPEC.name] = importlib.util.module_from_spec(SPEC)
    SPEC.loader.exec_module(science_statistics)


@pytest.mark.parametrize(
    ("t", "freedom", "p"),
    [
        (0.0, 5, 1.0),
        (1.0, 1, 0.5),  # Cauchy's distribution: a quarter beyond 1 on either side
        (12.706, 1, 0.05),
        (-2.228, 10, 0.05),
        (4.5**0.5, 4, 0.1012),  # in closed form: 1 - 3/4 x (1 - x^2 / 12), x^2 = 4.5 / 2.125
        (2.145, 14, 0.05),
        (2.977, 14, 0.01),
        (1.960, 1e6, 0.05),
    ],
)
def test_probabilities_are_those_of_the_tables(t: float, freedom: float, p: float) -> None:
    assert science_statistics.two_sided(t, freedom) == pytest.approx(p, abs=1e-4)


def test_two_groups_are_compared_by_their_own_spreads() -> None:
    first, second = [1.0, 2.0, 3.0], [2.0, 4.0, 6.0, 8.0]
    found = science_statistics.compare(first, second)
    assert (found.first.value, found.second.value) == (2, 5)
    # Variances of the means: (1)/3 and (20/3)/4.
    assert found.difference.value == 3
    assert found.difference.error == pytest.approx(math.sqrt(2))
    assert found.t == pytest.approx(3 / math.sqrt(2))
    assert found.freedom == pytest.approx(2**2 / ((1 / 3) ** 2 / 2 + (5 / 3) ** 2 / 3))
    assert science_statistics.compare(second, first).t == pytest.approx(-found.t)
    assert science_statistics.compare(second, first).p == found.p
    assert science_statistics.two_sided(found.t, 5) < found.p < science_statistics.two_sided(found.t, 4)


def test_groups_without_any_spread_differ_or_do_not() -> None:
    assert science_statistics.compare([1.0, 1.0], [1.0, 1.0]).p == 1
    assert science_statistics.compare([1.0, 1.0], [2.0, 2.0]).p == 0


def test_a_mean_takes_two_values() -> None:
    assert str(science_statistics.mean([999.0, 1001.0])) == "1000 ± 1"
    with pytest.raises(ValueError, match="two data points"):
        science_statistics.mean([1.0])
