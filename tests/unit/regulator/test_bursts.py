"""One sample of the CPU evicts nobody; two do, and memory needs one. In virtual time, on the decisions themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from scavenger_api.shared_settings import SharedSettings
from scavenger_regulator.core.eviction.plan import EvictionRules
from scavenger_regulator.core.history import DEFAULT_WINDOW, History
from scavenger_regulator.core.learning import learn, learned
from scavenger_regulator.core.plan import regulate
from scavenger_regulator.core.rules import Rules
from scavenger_regulator.core.snapshot import CLUSTER, Figure, Snapshot
from scavenger_regulator.settings import RegulatorSettings

from .builders import GIB, NOW, figures, gang, measured, node, snapshot
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


def late_node(period: int, busy: float) -> Snapshot:
    """Three nodes in the period of this number; one of them is measured in every other period only."""
    now = NOW + timedelta(seconds=30 * period)
    taken = {"node-1": now, "node-2": now, "node-3": now - timedelta(seconds=30 * (period % 2))}
    use = {
        name: {r: Figure(value, at, 15.0) for r, value in (("cpu", busy), ("memory", GIB))}
        for name, at in taken.items()
    }
    nodes = {name: node(name) for name in taken}
    pods = measured(use, [gang("a")], age=-30 * period)
    return snapshot([gang("a")], nodes=nodes, measurement=pods, now=now)


def test_a_node_that_is_late_delays_nobody_else() -> None:
    """Two of three nodes say in two periods in a row that the CPU is short."""
    calm = regulate(late_node(0, 5.0), {}, RULES)
    first = regulate(late_node(1, 9.0), calm.states, RULES)
    assert first.published.state == "Speculative"
    assert regulate(late_node(2, 9.0), first.states, RULES).published.state == "Evicting"


def test_a_node_that_is_late_drops_no_sample_of_the_history() -> None:
    histories: dict[str, dict[str, History]] = {}
    for period in range(10):
        learn(histories, regulate(late_node(period, 5.0), {}, RULES).scopes, DEFAULT_WINDOW)
    assert learned(histories)[CLUSTER]["cpu"].samples == 10


def test_what_is_asked_for_is_no_sample() -> None:
    """With source requests nothing is an average, and nothing passes by itself."""
    asked = snapshot([gang("a")], measurement=measured({"node-1": figures(9, 50 * GIB, window=0)}))
    assert regulate(asked, {}, RULES).published.state == "Evicting"


def test_memory_needs_one_sample() -> None:
    full = World([Job(f"job-{i}", 1.0, 100 * GIB) for i in range(6)], lambda at: (10.0, 300 * GIB), RULES)
    full.run(1)
    assert full.evictions


def after_a_burst(jobs: int = 2, protected: int = 0) -> World:
    """71 cores of ordinary workloads, which is between `lower` and `admission`; after twenty minutes 75 for two.
    Jobs of 6 cores beside them."""
    crowd = [Job(f"job-{i}", 6.0, 10 * GIB, preemptible=i >= protected) for i in range(jobs + protected)]
    return World(crowd, lambda at: (75.0 if 1200 <= at < 1320 else 71.0, 100 * GIB), RULES)


def test_admission_opens_again_where_the_ordinary_load_stays_between_the_levels() -> None:
    """A burst of two minutes kept it shut for twelve hours: both jobs went, and 71 % is above `lower`."""
    seen = after_a_burst()
    seen.run(12 * 120)
    assert len(seen.evictions) == 2
    gone = max(at for at, _, _ in seen.evictions)
    opened = next(at for at, one in seen.decisions if at > gone and one.published.admit)
    assert opened - gone <= 2 * RULES.cooldown + 6 * RULES.period
    assert all(one.published.admit for at, one in seen.decisions if at >= opened)
    messages = {one.published.message for at, one in seen.decisions if at > gone + 60}
    assert not any("above the eviction threshold" in said for said in messages), messages
    assert any("nothing preemptible is left" in said for said in messages)


def test_evicting_goes_on_while_somebody_can_go() -> None:
    """Each is asked for as long as one that is preemptible is left, however calm the load is."""
    seen = after_a_burst()
    for job in seen.jobs:
        job.measured = False
    seen.run(240)
    assert {one.published.state.value for _, one in seen.decisions[45:]} == {"Evicting"}


def test_a_gate_that_is_shut_opens_where_the_load_is_calm() -> None:
    """One job stays, and with it the load between `lower` and `admission`."""
    seen = World(
        [Job(f"job-{i}", 6.0, 10 * GIB) for i in range(3)],
        lambda at: (63.0 if at < 1200 else 70.5 if at < 1500 else 64.5, 100 * GIB),
        RULES,
    )
    seen.run(240)
    assert seen.evictions
    assert seen.decisions[-1][1].published.admit
    shut = [one for at, one in seen.decisions if at > 1200 and not one.published.admit]
    assert len(shut) * RULES.period <= 2 * RULES.cooldown + 6 * RULES.period


def test_calm_is_without_a_gap() -> None:
    """Ordinary workloads reach `admission` every five minutes: nothing is let in between."""
    seen = after_a_burst()
    calm = seen.ordinary
    seen.ordinary = lambda at: (81.0, 100 * GIB) if at >= 1500 and at % 300 < 60 else calm(at)
    seen.run(240)
    assert not seen.decisions[-1][1].published.admit


def test_it_is_a_setting() -> None:
    assert RegulatorSettings().rules(SharedSettings()).cpu_samples == 2
    assert RegulatorSettings(cpu_samples=1).rules(SharedSettings()).cpu_samples == 1
