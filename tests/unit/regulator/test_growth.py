"""Nodes that come and go are no unrest of the ordinary load. In virtual time, on what periods teach."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from scavenger_regulator.core.history import (
    DEFAULT_BUCKETS,
    DEFAULT_WINDOW,
    Figures,
    History,
    dump_histories,
    load_histories,
)
from scavenger_regulator.core.learning import learn, learned
from scavenger_regulator.core.metrics.metric import RESOURCES
from scavenger_regulator.core.plan import regulate
from scavenger_regulator.core.rules import Rules
from scavenger_regulator.core.snapshot import CLUSTER, Figure, Measurement
from scavenger_regulator.core.state import ScopeState

from .builders import GIB, NOW, ago, node, snapshot

RULES = Rules(yield_at_checkpoint=False)
HALF_A_DAY = 120
"""Periods of six minutes."""

Phase = tuple[int, float, int]
"""Nodes of ten cores, cores that ordinary pods use on them together, and how many of them have no figure."""


class Watched:
    """A cluster that is learnt from."""

    def __init__(self) -> None:
        self.histories: dict[str, dict[str, History]] = {}
        self.states: dict[str, ScopeState] = {}
        self.now = NOW

    @property
    def cpu(self) -> Figures:
        """What has been learnt."""
        return learned(self.histories)[CLUSTER]["cpu"]

    def restart(self) -> None:
        """Go on from what was kept."""
        text = dump_histories(self.histories, 500_000)
        self.histories = load_histories(text, None, DEFAULT_WINDOW, DEFAULT_BUCKETS, self.now)

    def half_a_day(self, phase: Phase) -> None:
        for _ in range(HALF_A_DAY):
            self.now += timedelta(minutes=6)
            self._period(self.now, *phase)

    def _period(self, now: datetime, count: int, cores: float, missing: int) -> None:
        nodes = {f"n{i}": node(f"n{i}", created=ago(86_400)) for i in range(count)}
        used = {"cpu": Figure(cores / count, now, 15.0), "memory": Figure(10 * GIB, now, 15.0)}
        measurement = Measurement(dict.fromkeys(list(nodes)[missing:], used), {})
        decision = regulate(replace(snapshot(nodes=nodes, measurement=measurement), now=now), self.states, RULES)
        learn(self.histories, decision.scopes, DEFAULT_WINDOW)
        self.states = dict(decision.states)


def watched(phases: Iterable[Phase], *, restart: bool = False) -> Figures:
    """What is learnt of the CPU in half a day of each phase."""
    cluster = Watched()
    for phase in phases:
        if restart:
            cluster.restart()
        cluster.half_a_day(phase)
    return cluster.cpu


@pytest.mark.parametrize("restart", [False, True])
def test_growing_with_the_same_use_is_no_unrest(restart: bool) -> None:
    """60 of 100 cores, and then of 200: the deviation was 15 points, and jobs were let in up to 70 instead of 88 %."""
    found = watched([(10, 60.0, 0), (20, 60.0, 0)], restart=restart)
    assert found.stdev == pytest.approx(0.0, abs=0.01)
    assert found.mean == pytest.approx(30.0, abs=0.01), "of what is there now"


def test_growing_as_the_use_does_is_no_unrest_either() -> None:
    """An autoscaler answers the load. Cores alone would call that a deviation of 15 points."""
    assert watched([(10, 60.0, 0), (20, 120.0, 0)]).stdev == pytest.approx(0.0, abs=0.01)


def test_a_late_node_is_no_shrinking() -> None:
    assert watched([(10, 60.0, 0), (10, 60.0, 1), (10, 60.0, 0)]).stdev == pytest.approx(0.0, abs=0.01)


def test_use_that_moves_is_unrest() -> None:
    assert watched([(10, 30.0, 0), (10, 60.0, 0)]).stdev == pytest.approx(15.0, abs=0.1)
    assert watched([(10, 60.0, 0), (20, 30.0, 0)]).stdev == pytest.approx(7.5, abs=0.1)


def test_what_an_older_version_kept_governs_until_there_is_as_much_of_the_new() -> None:
    cluster = Watched()
    cluster.half_a_day((10, 60.0, 0))
    cluster.histories = {CLUSTER: {r: cluster.histories[CLUSTER][r] for r in RESOURCES}}
    cluster.half_a_day((20, 60.0, 0))
    assert cluster.cpu.stdev == pytest.approx(15.0, abs=0.1)
