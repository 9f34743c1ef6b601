"""One sample of the CPU evicts nobody; two do, and memory needs one. In virtual time, on the decisions themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from scavenger_api.shared_settings import SharedSettings
from scavenger_regulator.core.eviction.plan import EvictionRules
from scavenger_regulator.core.plan import regulate
from scavenger_regulator.core.rules import Rules
from scavenger_regulator.core.snapshot import CLUSTER
from scavenger_regulator.settings import RegulatorSettings

from .builders import GIB, figures, gang, measured, snapshot
from .simulation import CORES, Job, World

RULES = Rules(min_samples=10**9, yield_at_checkpoint=False, eviction=EvictionRules(checkpoint_wait=0))


def burst(seconds: float, points: float) -> Callable[[float], tuple[float, float]]:
    """Ordinary workloads use 40 cores; after twenty minutes so many more, for so long."""
    return lambda at: (40.0 + (points * CORES / 100 if 1200 <= at < 1200 + seconds else 0.0), 100 * GIB)


def world(ordinary: Callable[[float], tuple[float, float]], rules: Rules = RULES) -> World:
    """Six jobs of 4 cores beside them: 64 %."""
    return World([Job(f"job-{i}", 4.0, 10 * GIB) for i in range(6)], ordinary, rules)


@pytest.mark.parametrize("lag", [0.0, 10.0, 15.0, 20.0])
def test_a_burst_of_one_sample_evicts_nobody(lag: float) -> None:
    """Twenty minutes at 64 %, then one sample of 94 %: five of six jobs went, when the burst was over."""
    seen = replace(world(burst(30.0, 30.0)), lag=lag)
    seen.run(60)
    assert max(seen.load(at)[0] for at in range(1200, 1260)) == 94
    assert seen.evictions == []


def test_a_burst_that_lasts_is_given_way_to_one_period_later() -> None:
    """The percentage is 100 from the first sample on, so that all are preemptible when the second one comes."""
    at = {}
    for samples in (1, 2):
        seen = world(burst(3600.0, 30.0), replace(RULES, cpu_samples=samples))
        seen.run(60)
        at[samples] = min(t for t, _, _ in seen.evictions)
        assert seen.load()[0] <= 70.0
    assert at[2] - at[1] == RULES.period
    first = next(decision for t, decision in seen.decisions if t == at[1])
    assert first.published.preemptible_percentage == 100
    assert first.published.state != "Evicting"


def test_the_same_sample_seen_twice_is_one() -> None:
    first = regulate(snapshot([gang("a")], cpu=9, age=20), {}, RULES)
    again = regulate(snapshot([gang("a")], cpu=9, age=20), first.states, RULES)
    assert (again.published.state, again.victims) == ("Speculative", ())
    newer = regulate(snapshot([gang("a")], cpu=9, age=5), again.states, RULES)
    assert newer.published.state == "Evicting"
    between = regulate(snapshot([gang("a")], cpu=8, age=5), again.states, RULES)
    assert between.states[CLUSTER].high == {}, "in a row"


def test_what_is_asked_for_is_no_sample() -> None:
    """With source requests nothing is an average, and nothing passes by itself."""
    asked = snapshot([gang("a")], measurement=measured({"node-1": figures(9, 50 * GIB, window=0)}))
    assert regulate(asked, {}, RULES).published.state == "Evicting"


def test_memory_needs_one_sample() -> None:
    full = World([Job(f"job-{i}", 1.0, 100 * GIB) for i in range(6)], lambda at: (10.0, 300 * GIB), RULES)
    full.run(1)
    assert full.evictions


def test_it_is_a_setting() -> None:
    assert RegulatorSettings().rules(SharedSettings()).cpu_samples == 2
    assert RegulatorSettings(cpu_samples=1).rules(SharedSettings()).cpu_samples == 1
