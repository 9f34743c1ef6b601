"""How old a figure may be, so that levels that are published hold until the next ones are."""

from __future__ import annotations

from typing import Any

import pytest
from scavenger_api.shared_settings import SharedSettings
from scavenger_regulator.settings import RegulatorSettings

from bench.simulator.staleness import stale_percent

PROMETHEUS = {"source": "prometheus", "prometheus_url": "http://prometheus"}


@pytest.mark.parametrize(
    ("settings", "interval", "late"),
    [
        ({}, 15.0, (0.0, 0.0)),
        ({}, 15.0, (65.0, 80.0)),
        ({}, 15.0, (40.0, 65.0)),
        ({"period": 5}, 15.0, (0.0, 0.0)),
        ({"period": 5}, 15.0, (65.0, 80.0)),
        ({"period": 60}, 15.0, (100.0, 130.0)),
        ({**PROMETHEUS}, 60.0, (0.0, 0.0)),
        ({**PROMETHEUS, "period": 5}, 60.0, (0.0, 0.0)),
        ({"max_age": 120}, 15.0, (100.0, 110.0)),
    ],
)
def test_levels_are_never_stale_while_the_regulator_works(
    settings: dict[str, Any], interval: float, late: tuple[float, float]
) -> None:
    rules = RegulatorSettings(**settings).rules(SharedSettings())
    assert stale_percent(rules, interval=interval, nodes=20, late=late) == 0


def test_a_regulator_that_falls_silent_is_noticed_soon() -> None:
    """Three periods, and as long as a measurement may take."""
    settings = RegulatorSettings()
    assert settings.believed == 2 * settings.period
    assert settings.stale_after <= 3 * settings.period + settings.source_timeout + 1
