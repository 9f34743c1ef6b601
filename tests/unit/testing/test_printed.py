"""Comparing what is printed with what a page shows."""

from __future__ import annotations

import pytest
from scavenger_testing.printed import as_shown, normalised


def test_what_differs_from_run_to_run_is_left_out() -> None:
    text = "gang-0-8885m   Running   2m10s ago\n2026-01-02 03:04:05  12.5 s lost (40 %)\n"
    assert normalised(text) == ["gang-0-POD  Running  SPAN ago", "TIME  CPUTIME lost (40 %)"]


@pytest.mark.parametrize(
    ("printed", "shown", "same"),
    [
        ("a\nb\nc\n", "a\n…\n", True),
        ("a\n", "a\n…\n", True),
        ("b\n", "a\n…\n", False),
        ("a\nb\nc\n", "…\nc\n", True),
        ("a\nb\nc\n", "a\nc\n", False),
        ("a [b] c\n", "a … c\n", True),
        ("a [b] c\nd\n", "a … c\n", False),
        ("running for 3s\n", "running for 12m\n", True),
        ("place 2nd of 3\n", "place 1st of 3\n", False),
        ("a.b\n", "axb\n", False),
    ],
)
def test_a_page_may_leave_out_lines_and_words_and_nothing_else(printed: str, shown: str, same: bool) -> None:
    assert as_shown(printed, shown) is same
