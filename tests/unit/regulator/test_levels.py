from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scavenger_regulator.core.levels import (
    INITIAL,
    PERCENTAGE,
    LevelPolicy,
    WaterLevels,
    apart,
    linear_percentage,
    preemptible_percentage,
    step_toward,
    water_levels,
)

percent = st.floats(0, 100)
anything = st.floats(allow_nan=True, allow_infinity=True)


@st.composite
def any_levels(draw: st.DrawFn) -> WaterLevels:
    return WaterLevels(*sorted(draw(st.tuples(percent, percent, percent))))


@pytest.mark.parametrize(
    ("stdev", "reserve", "lower", "admission", "upper"),
    [
        (0, 20, 80, 100 - 20 / 3, 100 - 20 / 3),  # admission is held under upper
        (5, 20, 75, 100 - 20 / 3 - 5, 100 - 20 / 3 - 5),
        (10, 20, 70, 80, 100 - 20 / 3 - 10),
        (20, 20, 60, 60, 100 - 20 / 3 - 20),  # stdev = reserve: nothing is let in beyond lower
        (30, 20, 50, 60, 100 - 20 / 3 - 30),
        (50, 20, 30, 100 - 20 / 3 - 50, 100 - 20 / 3 - 50),
        (10, 0, 90, 90, 90),  # no reserve: lower = upper
        (0, 0, 100, 100, 100),
        (50, 90, 0, 0, 20),  # what the formulas put below zero is zero
        (50, 100, 0, 0, 100 - 100 / 3 - 50),
        (50, 300, 0, 0, 0),
    ],
)
def test_levels_by_the_formulas(stdev: float, reserve: float, lower: float, admission: float, upper: float) -> None:
    levels = water_levels(50, stdev, reserve)
    assert (levels.lower, levels.admission, levels.upper) == pytest.approx((lower, admission, upper))


@pytest.mark.parametrize(
    ("mean", "stdev", "reserve"),
    [(math.nan, 5, 20), (50, math.nan, 20), (50, 5, math.nan), (50, math.inf, 20), (50, -1, 20), (50, 5, -1)],
)
def test_levels_of_nonsense_are_the_initial_ones(mean: float, stdev: float, reserve: float) -> None:
    assert water_levels(mean, stdev, reserve) == INITIAL == WaterLevels(70, 80, 85)


@given(anything, anything, anything)
def test_levels_are_in_order_whatever_comes_in(mean: float, stdev: float, reserve: float) -> None:
    levels = water_levels(mean, stdev, reserve)
    assert 0 <= levels.lower <= levels.admission <= levels.upper <= 100


@pytest.mark.parametrize(
    ("load", "percentage"),
    [
        (0, 33),
        (69.999, 33),
        (70, 33),  # eta is 1 there, the floor holds
        (77.5, 33),  # eta is 10
        (82.5, math.exp(math.log(100) * 12.5 / 15)),
        (84.999, pytest.approx(99.97, abs=0.01)),
        (85, 100),
        (100, 100),
        (-5, 33),
        (250, 100),
        (math.inf, 100),
        (-math.inf, 33),
        (math.nan, 33),
    ],
)
def test_percentage(load: float, percentage: float) -> None:
    assert preemptible_percentage(load, INITIAL) == percentage


def test_percentage_without_a_floor_runs_from_1_to_100() -> None:
    assert preemptible_percentage(70, INITIAL, 0) == 1
    assert preemptible_percentage(77.5, INITIAL, 0) == pytest.approx(10)
    assert preemptible_percentage(85 - 1e-9, INITIAL, 0) == pytest.approx(100)


@pytest.mark.parametrize(("load", "percentage"), [(69, 33), (70, 100), (71, 100), (math.nan, 33)])
def test_percentage_where_lower_is_upper(load: float, percentage: float) -> None:
    assert preemptible_percentage(load, WaterLevels(70, 70, 70)) == percentage


@pytest.mark.parametrize(
    ("load", "percentage"), [(0, 33), (69, 33), (70, 33), (75, 38), (84, 47), (85, 100), (math.nan, 33)]
)
def test_linear(load: float, percentage: float) -> None:
    assert linear_percentage(load, INITIAL) == percentage


@given(any_levels(), anything, percent, st.sampled_from(LevelPolicy))
def test_percentage_stays_between_floor_and_100(
    levels: WaterLevels, load: float, floor: float, policy: LevelPolicy
) -> None:
    value = PERCENTAGE[policy](load, levels, floor)
    assert floor <= value <= 100
    if load >= levels.upper:
        assert value == 100


@given(any_levels(), st.lists(percent, min_size=2), st.sampled_from(LevelPolicy))
def test_percentage_never_falls_while_the_load_rises(
    levels: WaterLevels, loads: list[float], policy: LevelPolicy
) -> None:
    values = [PERCENTAGE[policy](load, levels, 33) for load in sorted(loads)]
    assert all(a <= b for a, b in pairwise(values))


@given(any_levels(), any_levels(), st.floats(0.01, 50))
def test_levels_move_a_step_at_a_time_and_stay_in_order(old: WaterLevels, target: WaterLevels, step: float) -> None:
    new = step_toward(old, target, step)
    assert 0 <= new.lower <= new.admission <= new.upper <= 100
    for before, after in zip((old.lower, old.admission, old.upper), (new.lower, new.admission, new.upper), strict=True):
        assert abs(after - before) <= step + 1e-9


@given(any_levels(), any_levels())
def test_levels_arrive(old: WaterLevels, target: WaterLevels) -> None:
    assume(old != target)
    for _ in range(101):
        old = step_toward(old, target, 1.0)
    assert (old.lower, old.admission, old.upper) == pytest.approx(
        (target.lower, target.admission, target.upper), abs=1e-6
    )


@pytest.mark.parametrize("step", [0.0, -1.0, math.nan])
def test_no_step_is_no_limit(step: float) -> None:
    assert step_toward(INITIAL, WaterLevels(0, 0, 0), step) == WaterLevels(0, 0, 0)


# --- the margin between admission and upper ---


@pytest.mark.parametrize(
    ("levels", "margin", "admission"),
    [
        (WaterLevels(79, 92, 92), 5, 87),
        (WaterLevels(70, 80, 85), 5, 80),
        (WaterLevels(70, 80, 83), 0, 80),
        (WaterLevels(79, 92, 92), 40, 79),
        (WaterLevels(0, 0, 0), 5, 0),
    ],
)
def test_admission_keeps_its_distance(levels: WaterLevels, margin: float, admission: float) -> None:
    assert apart(levels, margin) == WaterLevels(levels.lower, admission, levels.upper)
