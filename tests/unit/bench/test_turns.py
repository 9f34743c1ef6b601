from __future__ import annotations

from bench.scheduler.turns import interval, ratio


def test_the_median_of_ten_is_between_the_second_and_the_ninth() -> None:
    """2.1 % are outside: either tail has the chance of no head or one in ten throws."""
    assert interval([float(i) for i in range(1, 11)]) == (2.0, 9.0)
    assert interval([float(i) for i in range(1, 13)]) == (3.0, 10.0)


def test_of_few_pairs_nothing_is_certain_but_that_they_were_seen() -> None:
    assert interval([1.0, 2.0, 3.0]) == (1.0, 3.0)


def test_a_ratio_is_the_median_over_pairs_and_says_how_certain_it_is() -> None:
    plugin, stock = [float(i) for i in range(10, 20)], [10.0] * 10
    found = {figure["name"]: figure["value"] for figure in ratio("r", plugin, stock, ">= 1.0")}
    assert found == {"r": 1.45, "r.from": 1.1, "r.to": 1.8}
