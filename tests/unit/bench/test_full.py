"""What is harvested of nodes that are reserved to the last core."""

from __future__ import annotations

import pytest

from bench.regulator.bench_full import Full, play, squeezed_by
from bench.regulator.bench_harvest import CELLS, Server

pytestmark = pytest.mark.slow

ENDLESS = [1e9]


def harm(found: Full) -> float:
    return found.squeezed / found.wanted


def test_jobs_keep_what_is_idle_of_their_places_when_the_offer_has_shrunk() -> None:
    """8 of 10 cores are idle in the morning, 1 is in the afternoon: six or seven jobs have it between them."""
    morning = play([Server(10.0, [2.0] * CELLS)], ENDLESS)
    day = play([Server(10.0, [2.0] * (CELLS // 2) + [9.0] * (CELLS // 2))], ENDLESS)
    assert morning.got < morning.under, "whole cores of what is under the threshold"
    assert morning.got / morning.idle > 0.7
    assert day.got == pytest.approx(morning.got / 2 + day.wanted / 11, rel=0.01)
    assert harm(day) == 0


def test_a_full_node_is_harmed_by_the_weight_of_the_jobs_alone() -> None:
    """In the afternoon the machines want all that they reserved, and six jobs of two shares each are there."""
    day = play([Server(10.0, [2.0] * (CELLS // 2) + [10.0] * (CELLS // 2))], ENDLESS)
    assert 0 < harm(day) < 0.002
    assert squeezed_by(6, 10.0, 10.0) == pytest.approx(10.0 * 12 / (10 * 1024 + 12))
    assert squeezed_by(6, 10.0, 9.9) == 0


def test_places_that_come_free_are_taken_again_only_where_there_is_an_offer() -> None:
    short = play([Server(10.0, [2.0] * (CELLS // 2) + [9.5] * (CELLS // 2))], [600.0])
    endless = play([Server(10.0, [2.0] * (CELLS // 2) + [9.5] * (CELLS // 2))], ENDLESS)
    assert short.got < endless.got
    assert short.slots < 0.6 * endless.slots, "nobody takes a place in the afternoon"
