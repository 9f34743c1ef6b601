"""The model of what the offers of reclaimed capacity give away."""

from __future__ import annotations

import pytest

from bench.regulator.bench_harvest import CELLS, Server, play

pytestmark = pytest.mark.slow


def test_what_was_offered_when_the_node_was_idle_is_not_counted_when_it_is_busy() -> None:
    """8 of 10 cores are idle in the morning, and a job takes them; 5 are in the afternoon."""
    day = play([Server(10.0, [2.0] * (CELLS // 2) + [5.0] * (CELLS // 2))])
    assert day.periods == CELLS * 10
    assert day.over <= 2, "until the offer has followed"
    assert day.share <= 1.0
