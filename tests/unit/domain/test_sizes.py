"""What a pod that is resized in place has requested since when."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scavenger_domain.sizes import MOST, area, format_sizes, parse_sizes, resized

SECOND = 1_000_000
CASES_FILE = Path(__file__).parents[3] / "services/scheduler/pkg/preemption/testdata/size_cases.json"
CASES: list[dict[str, Any]] = json.loads(CASES_FILE.read_text())


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_a_note_is_read_as_the_table_says(case: dict[str, Any]) -> None:
    """The scheduler plugin, in Go, is tested against the same table."""
    found = parse_sizes(case["note"])
    assert [[since // SECOND, cpu] for since, cpu in found] == case["sizes"]
    assert not found or format_sizes(found) == case["note"]


def test_600_seconds_at_4_cpu_are_2400_core_seconds() -> None:
    sizes = resized((), before=1000, since=600 * SECOND, cpu=4000)
    assert area(sizes, 600 * SECOND, 1200 * SECOND) == 2400 * 1000 * SECOND
    assert area(sizes, 0, 1200 * SECOND) == 3000 * 1000 * SECOND
    assert area(sizes, 0, 300 * SECOND) == 300 * 1000 * SECOND
    assert area(sizes, 700 * SECOND, 700 * SECOND) == area(sizes, 900 * SECOND, 700 * SECOND) == 0


def test_changes_within_a_second_are_one() -> None:
    sizes = resized((), 1000, 10 * SECOND, 4000)
    assert resized(sizes, 1000, 10 * SECOND + 5, 2000) == ((0, 1000), (10 * SECOND, 2000))
    assert resized(sizes, 1000, 9 * SECOND, 2000) == ((0, 1000), (10 * SECOND, 2000)), "the clock was set back"
    assert resized(sizes, 1000, 10 * SECOND, 1000) == ((0, 1000),)
    assert resized(sizes, 1000, 20 * SECOND, 4000) == sizes, "nothing changed"


changes = st.lists(st.tuples(st.integers(1, 5000), st.integers(0, 64_000)), max_size=60)


@given(changes)
def test_a_note_stays_short_and_says_how_much_was_requested(steps: list[tuple[int, int]]) -> None:
    """However often a pod is resized: within a millicore for each change."""
    sizes, at, cpu, requested = resized((), 7, SECOND, 7), SECOND, 7, 7 * SECOND
    for seconds, much in steps:
        requested += cpu * seconds * SECOND
        at, cpu = at + seconds * SECOND, much
        sizes = resized(sizes, 7, at, much)
        assert len(sizes) <= MOST
        assert sizes[0] == (0, 7), "books compare with what it was created with"
        assert sizes[-1][1] == cpu
        assert parse_sizes(format_sizes(sizes)) == sizes
    assert abs(requested - area(sizes, 0, at)) <= len(steps) * at
