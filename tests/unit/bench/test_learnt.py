"""What is told of learnt levels is how far they are from what the deviation makes of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from bench.regulator import bench_learnt
from bench.regulator.bench_learnt import CELL, Reading, course, figures_of, known_stdev

BEGAN = datetime(2026, 1, 2, tzinfo=UTC)


def reading(minutes: float, stdev: float, *, off: float = 0.0, load: float = 80.0) -> Reading:
    upper = 100 - 20 / 3 - stdev
    levels = (80 - stdev, upper - 5 + off, upper)
    return Reading(BEGAN + timedelta(minutes=minutes), load, stdev, levels, "Speculative", 9, 3)


def test_only_the_second_part_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_learnt, "MINUTES", (30.0, 60.0))
    planned = course(95)
    late = [reading(40, 7.0, off=0.5), reading(60, 7.0, load=95.0)]
    found = {figure["name"]: figure["value"] for figure in figures_of([reading(1, 20.0), *late], planned, BEGAN)}
    assert found["loop.learnt.level_error_points"] == 0.5
    assert found["loop.learnt.above_upper_percent"] == 50.0
    assert found["loop.learnt.initial_share"] == 0.0
    expected = max(abs(7.0 - known_stdev(planned, BEGAN, one.at)) for one in late)
    assert found["loop.learnt.stdev_error_points"] == pytest.approx(expected, abs=0.001)


def test_the_deviation_of_the_course_is_that_of_the_half_hour_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_learnt, "MINUTES", (30.0, 60.0))
    cells = round(30 * 60 / CELL)
    planned = [10.0] * cells + [30.0] * cells
    assert known_stdev(planned, BEGAN, BEGAN + timedelta(minutes=29)) == 0.0
    assert known_stdev(planned, BEGAN, BEGAN + timedelta(minutes=45, seconds=-1)) == pytest.approx(10.0)
    assert known_stdev(planned, BEGAN, BEGAN + timedelta(minutes=60, seconds=-1)) == 0.0
