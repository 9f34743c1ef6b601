"""The simulator and the services play the same scripts, start by start and victim by victim, round by round."""

from __future__ import annotations

import pytest

from bench.simulator.scripts import SCRIPTS, Script, mismatches, simulated
from tests.simulation.replay import DIFFERENCES, drawn, played

pytestmark = pytest.mark.long

SEEDS = range(200)


@pytest.mark.parametrize("script", [*SCRIPTS, *map(drawn, SEEDS)], ids=lambda script: script.name)
def test_the_services_do_as_the_simulator_does(script: Script) -> None:
    found = mismatches(simulated(script), played(script))
    assert found == DIFFERENCES.get(script.name, [])
