"""Durations as Go writes them, and days."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scavenger_api.duration import DurationError, format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30m", 1800),
        ("1h30m", 5400),
        ("1.5h", 5400),
        (".5s", 0.5),
        ("500ms", 0.5),
        ("7d", 604800),
        ("0s", 0),
        ("90s", 90),
        ("1m1ms", 60.001),
        ("100us", 0.0001),
    ],
)
def test_parse(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "30", "soon", "1h 30m", "-1h", "1y", "m", "1h30", "1.2.3s"])
def test_what_is_no_duration_says_so(text: str) -> None:
    with pytest.raises(DurationError, match="is not a duration"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["99999999999999999999h", "9" * 400 + "d", "1h" + "9" * 30 + "s"])
def test_what_no_clock_can_hold_is_no_duration(text: str) -> None:
    with pytest.raises(DurationError, match="longer than any duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (45, "45s"), (90, "1m30s"), (5400, "1h30m"), (-60, "-1m"), (90000, "25h")],
)
def test_format(seconds: float, text: str) -> None:
    assert format_duration(timedelta(seconds=seconds)) == text


@given(st.integers(0, 10**9))
def test_round_trip(seconds: int) -> None:
    assert parse_duration(format_duration(timedelta(seconds=seconds))).total_seconds() == seconds
