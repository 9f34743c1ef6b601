"""Random histories. Each test is one, and its number is the seed; HISTORIES=100-200 plays others."""

from __future__ import annotations

import os

import pytest

from tests.simulation.system.history import simulate


@pytest.mark.parametrize("seed", range(*map(int, os.environ.get("HISTORIES", "20").split("-"))))
def test_nothing_is_done_twice_or_lost(seed: int) -> None:
    simulate(seed)


def test_a_seed_decides_everything() -> None:
    assert simulate(7).digest == simulate(7).digest
