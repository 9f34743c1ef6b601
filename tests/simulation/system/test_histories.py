"""Random histories. Each test is one, and its number is the seed; HISTORIES=100 plays as many, 100-200 others.

The admitter alone meets fewer faults, so it plays a quarter of them. A sixteenth is played where Jobs of users are
adopted.
"""

from __future__ import annotations

import os

import pytest

from tests.simulation.system.adopting import Adopting
from tests.simulation.system.history import History, simulate
from tests.simulation.system.world import World

SEEDS = range(*map(int, os.environ.get("HISTORIES", "5").split("-")))


@pytest.mark.parametrize("seed", SEEDS[: max(2, len(SEEDS) // 4)])
def test_the_admitter_does_nothing_twice_and_loses_nothing(seed: int) -> None:
    simulate(seed, History)


@pytest.mark.parametrize("seed", SEEDS[: max(2, len(SEEDS) // 16)])
def test_jobs_of_users_see_only_that_they_took_longer(seed: int) -> None:
    simulate(seed, Adopting)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_system_does_nothing_twice_and_loses_nothing(seed: int) -> None:
    simulate(seed, World)


@pytest.mark.parametrize("kind", [History, World])
def test_a_seed_decides_everything(kind: type[History]) -> None:
    assert simulate(7, kind).digest == simulate(7, kind).digest
