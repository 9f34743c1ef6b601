"""Installing changes nobody's rank, with the plugin as the scheduler; with the stock one in test_plain.py."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from .conftest import Pool
from .ranks import SCENARIOS, play


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_nobody_is_displaced(pool: Pool, scenario: Callable[[Pool], None]) -> None:
    play(pool, scenario)
