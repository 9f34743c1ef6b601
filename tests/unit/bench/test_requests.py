"""Figures of recommended requests."""

from __future__ import annotations

import pytest

from bench.simulator.bench_requests import built, percentile, play


def test_what_is_freed_and_held_back() -> None:
    """Half of a machine from the fifth hour on, less a tenth of what is used; and what is used beyond that until the
    recommendation is renewed after ten hours."""
    freed, held, slack = play([[500] * 288], built)
    assert slack == pytest.approx(100 * 50 / 550)
    assert freed == pytest.approx(100 * 0.45 * 240 / 288)
    assert held == 0
    grows = [500] * 60 + [600] * 228
    freed, held, _ = play([grows], built)
    assert held == pytest.approx(100 * 50 * 60 / sum(grows))
    assert freed == pytest.approx(100 * (0.45 * 72 + 0.34 * 168) / 288)


def test_a_percentile_frees_more_and_holds_back_more() -> None:
    bursts = [100] * 24 + [900] + [100] * 263
    assert play([bursts], percentile(0.95, 1.15))[0] > play([bursts], built)[0]


def test_a_moving_window_forgets_what_the_past_was_like() -> None:
    falls = [900] * 144 + [100] * 144
    rules = percentile(0.95, 1.0), percentile(0.95, 1.0, 3600)
    whole, window = (rule(falls) for rule in rules)
    assert whole == pytest.approx(900, rel=0.12)
    assert window == pytest.approx(100, rel=0.12)  # a bucket
