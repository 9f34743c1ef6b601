from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scavenger_cli.words import age, bar, cpu_time, ordinal, percent, plural, short_amount, span, spell

from .cases import NOW, ago


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-3, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (330, "5m30s"),
        (600, "10m"),
        (10799, "179m"),
        (10800, "3h"),
        (10860, "3h1m"),
        (8 * 3600, "8h"),
        (47 * 3600, "47h"),
        (2 * 86400, "2d"),
        (3 * 86400 + 4 * 3600, "3d4h"),
        (9 * 86400, "9d"),
        (800 * 86400, "2y70d"),
    ],
)
def test_spans_are_those_of_kubectl(seconds: float, text: str) -> None:
    """apimachinery pkg/util/duration HumanDuration; hours without rest above 8 h, days above 8 d."""
    assert span(seconds) == text


def test_age() -> None:
    assert age(ago(90), NOW) == "90s"
    assert age(NOW, NOW) == "0s"
    assert age(None, NOW) == ""
    assert age("nonsense", NOW) == ""
    assert age("1970-01-01T00:00:00Z", NOW) == "", "nobody saw it"


@pytest.mark.parametrize(("seconds", "text"), [(0, "0 s"), (119, "119 s"), (150, "2.5 min"), (18000, "5.0 h")])
def test_cpu_time(seconds: float, text: str) -> None:
    assert cpu_time(seconds) == text


@pytest.mark.parametrize(
    ("resource", "value", "text"),
    [
        ("cpu", 1500, "1.5"),
        ("cpu", 12000, "12"),
        ("memory", 96 * 2**30, "96Gi"),
        ("memory", 1536 * 2**20, "1.5Gi"),
        ("memory", 100, "100"),
        ("nvidia.com/gpu", 3, "3"),
    ],
)
def test_short_amounts(resource: str, value: int, text: str) -> None:
    assert short_amount(resource, value) == text


def test_sentences() -> None:
    assert spell({"cpu": 500, "memory": 2**30, "pods": 1}) == "500m cpu, 1Gi memory"
    assert spell({"memory": 33_554_431_999}) == "31.2Gi memory"
    assert spell({}) == "nothing"
    assert (percent(70.0), percent(72.44)) == ("70 %", "72.4 %")
    assert (plural(1, "pod"), plural(2000, "pod")) == ("1 pod", "2,000 pods")
    assert [ordinal(n) for n in (1, 2, 3, 4, 11, 12, 13, 21, 112)] == [
        *("1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "112th")
    ]


@given(st.floats(-1, 3), st.integers(4, 60), st.floats(0, 1))
def test_a_bar_has_its_width_whatever_it_shows(fraction: float, width: int, mark: float) -> None:
    drawn = bar(fraction, width, {mark: "|"})
    assert len(drawn) == width
    assert drawn.count("|") == 1


def test_bars() -> None:
    assert bar(0.5, 10) == "█████░░░░░"
    assert bar(0.001, 4) == "█░░░"
    assert bar(0, 4) == "░░░░"
    assert bar(0.5, 10, {0.8: "┃"}) == "█████░░┃░░"
