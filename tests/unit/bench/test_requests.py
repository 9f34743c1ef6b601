"""Figures of recommended requests."""

from __future__ import annotations

import pytest

from bench.simulator.bench_requests import built, percentile, play


def test_what_is_freed_and_held_back() -> None:
    """Half of a machine from the fifth hour on, less a tenth of what is used; and what is used beyond that until the
    recommendation is renewed after ten hours."""
    freed, held = play([[500] * 288], built)
    assert freed == pytest.approx(100 * 0.45 * 240 / 288)
    assert held == 0
    grows = [500] * 60 + [600] * 228
    freed, held = play([grows], built)
    assert held == pytest.approx(100 * 50 * 60 / sum(grows))
    assert freed == pytest.approx(100 * (0.45 * 72 + 0.34 * 168) / 288)


def test_a_percentile_frees_more_and_holds_back_more() -> None:
    bursts = [100] * 24 + [900] + [100] * 263
    assert play([bursts], percentile(0.95, 1.15))[0] > play([bursts], built)[0]
