"""What the tuner pays beside a grid search, on speeds that are known."""

from __future__ import annotations

import pytest
from scavenger_tuner.core.learning import candidates
from scavenger_tuner.core.trial import Shape

from bench.science.bench_grid import MODELS, figures_of


def _values(speeds: dict[Shape, float]) -> dict[str, float]:
    found = figures_of({(model, shape): speed for model in MODELS for shape, speed in speeds.items()}, 2)
    return {figure["name"].removeprefix("science.grid."): figure["value"] for figure in found}


def test_shapes_that_waste_nothing_cost_both_the_same_for_each_run() -> None:
    """The tuner runs 27 configurations, the grid search 27 and 18 more to compare."""
    values = _values({Shape(1, 1): 100.0, Shape(1, 2): 200.0, Shape(2, 1): 200.0})
    assert values["core_hours_over_best"] == 1
    assert values["core_hours_ratio"] == pytest.approx(27 / 45, abs=1e-4)
    assert values["best_shapes"] == len(MODELS)


def test_it_ends_with_the_best_shape_and_tries_each_other_one_once() -> None:
    assert candidates(2) == (Shape(1, 1), Shape(1, 2), Shape(2, 1))
    values = _values({Shape(1, 1): 50.0, Shape(1, 2): 200.0, Shape(2, 1): 100.0})
    assert values["best_shapes"] == len(MODELS)
    best, other = 2 / 200, 2 / 100
    assert values["core_hours_over_best"] == pytest.approx((7 * best + 2 * other) / (9 * best), abs=1e-4)
    assert values["search_over_best"] == pytest.approx((9 * best + 6 * other) / (9 * best), abs=1e-4)
    assert values["spread"] == 2
