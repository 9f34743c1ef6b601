"""A node that refuses pods from a moment on that nobody has chosen: each job still runs before long."""

from __future__ import annotations

import pytest

from tests.simulation.system.history import TENANTS, simulate
from tests.simulation.system.situations import RefusingNode
from tests.unit.admitter.harness import Object

LONGEST = 90.0
"""Seconds before the node begins to refuse. Jobs come and go all the time."""
AFTER = 5
"""Jobs that are submitted after that."""
GATE, MORE = range(1), range(1, 20)


class RefusesFromAMoment(RefusingNode):
    """Jobs of two tenants follow one another. In the middle of that the node that they go to begins to refuse them."""

    moment = float("inf")
    turned_away = 0

    def run(self, pod: Object) -> None:
        self.refusing = self.clock.monotonic() >= self.moment
        super().run(pod)

    async def comes(self) -> None:
        self.moment, number = self.clock.monotonic() + self.random.uniform(0, LONGEST), 0
        while number < AFTER:
            number += self.clock.monotonic() >= self.moment
            name = f"c{round(self.clock.monotonic() * 1000)}"
            await self.one_more(name, self.random.choice(TENANTS))
        assert self.turned_away > 0, "no pod met the node that refuses"

    def _refuse(self, pod: Object, status: Object) -> None:
        self.turned_away += 1
        super()._refuse(pod, status)


@pytest.mark.parametrize("seed", [*GATE, *(pytest.param(seed, marks=pytest.mark.long) for seed in MORE)])
def test_each_job_runs_within_two_minutes_whenever_a_node_begins_to_refuse(seed: int) -> None:
    simulate(seed, RefusesFromAMoment)
