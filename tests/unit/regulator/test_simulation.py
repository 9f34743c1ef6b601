"""The whole loop over time: what issue and design promise, whatever the circumstances."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scavenger_api.evictions import EvictionReason
from scavenger_regulator.core.eviction.plan import EvictionRules
from scavenger_regulator.core.levels import WaterLevels
from scavenger_regulator.core.load import Trust
from scavenger_regulator.core.rules import Rules
from scavenger_regulator.core.snapshot import CLUSTER
from scavenger_regulator.core.state import ScopeState

from tests.unit.effort import examples

from .builders import GIB, NOW
from .simulation import Job, World, random_jobs, rising, steady

pytestmark = pytest.mark.slow

RULES = Rules(yield_at_checkpoint=False, cpu_samples=1, min_samples=10**9, eviction=EvictionRules(checkpoint_wait=0))
LOWER, UPPER = 70.0, 85.0


def check(world: World) -> None:
    """Nobody was evicted without a fresh measurement, out of class, or for a gap that a plan had been made for."""
    for at, decision in world.decisions:
        decided = decision.scopes[CLUSTER]
        if not decision.victims:
            continue
        reading = decided.reading
        assert reading is not None
        assert (world.time(at) - reading.observed_at).total_seconds() <= world.rules.trust.max_age
        assert all(v.candidate.preemptible and "cpu" in v.candidate.frees for v in decision.victims)
        # no more than the gap needs: without any one of them it would stay open
        if decided.plan is not None:
            gaps, victims = decided.plan.gaps, decided.plan.victims
            for one in victims:
                rest = [v for v in victims if v is not one]
                assert any(sum(v.frees.get(r, 0.0) for v in rest) < gap for r, gap in gaps.items())
        if decided.plan is None:
            continue
        earlier = [job for t, job, _ in world.evictions if t < at]
        for job in earlier:
            assert job.gone_at is not None
            since = (reading.since - world.time(0)).total_seconds()
            counted = decided.plan.pending_release["cpu"] >= 100 * job.cpu / 100 - 1e-6
            assert since >= job.gone_at or counted


def overshoot(world: World) -> float:
    """Points of CPU freed beyond what brings the load down to `lower`."""
    return LOWER - world.load()[0]


def test_comes_down_to_lower_in_order_of_risk_and_not_one_more() -> None:
    jobs = [Job(f"job-{i}", 2.0, 0.0, started=-100.0 * (i + 1)) for i in range(15)]
    world = World(jobs, rising(58.0), RULES)
    world.run(20)
    check(world)
    assert [job.name for _, job, _ in world.evictions] == [f"job-{i}" for i in range(9)]  # 88 % - 9 · 2 = 70 %
    assert world.load()[0] == 70.0
    assert len({at for at, _, _ in world.evictions}) == 1, "one plan was enough"


def test_states_and_admission_over_time() -> None:
    jobs = [Job(f"job-{i}", 2.0, 0.0) for i in range(15)]
    peak = 300.0
    world = World(jobs, lambda t: (30.0 if t < peak else 58.0 if t < 900 else 30.0, 0.0), RULES)
    world.run(40)
    seen = [
        (d.published.state.value, d.published.admit)
        for i, (_, d) in enumerate(world.decisions)
        if i == 0
        or (d.published.state, d.published.admit)
        != (world.decisions[i - 1][1].published.state, world.decisions[i - 1][1].published.admit)
    ]
    assert seen[:2] == [("Filling", True), ("Evicting", False)]
    assert seen[2] == ("Speculative", False), "the cool-down keeps it closed, and so does a load not under lower"
    assert seen[-1] == ("Filling", True)
    ended = next(t for t, d in world.decisions if t > peak + 30 and d.published.state.value != "Evicting")
    reopened = next(t for t, d in world.decisions if t > ended and d.published.admit)
    assert reopened - ended >= world.rules.cooldown


def test_no_cooldown_where_nobody_was_evicted() -> None:
    """A burst over the upper level, and no job in the cluster: nothing was freed that could be filled again at once."""
    world = World([], lambda t: (90.0 if 60 <= t < 300 else 30.0, 0.0), RULES)
    world.run(20)
    assert "Evicting" in {d.published.state.value for _, d in world.decisions}
    for _, decided in world.decisions:
        published = decided.published
        assert published.admit == (published.state.value != "Evicting")
        assert published.until is None


def test_the_end_of_a_cooldown_is_published() -> None:
    jobs = [Job(f"job-{i}", 2.0, 0.0) for i in range(15)]
    world = World(jobs, lambda t: (58.0 if 60 <= t < 300 else 30.0, 0.0), RULES)
    world.run(40)
    assert world.evictions
    published = [(t, d.published) for t, d in world.decisions]
    assert all(one.until is None for _, one in published if one.state.value == "Evicting" or one.admit)
    until = {one.until for _, one in published if one.until is not None}
    assert len(until) == 1
    reopened = next(t for t, one in published if t > 300 and one.admit)
    assert NOW + timedelta(seconds=reopened) - min(until) < timedelta(seconds=world.rules.period)


def test_at_lower_exactly_it_stays_closed_until_the_load_has_been_calm() -> None:
    world = World([Job(f"job-{i}", 2.0, 0.0) for i in range(15)], rising(58.0), RULES)
    world.run(60)
    assert world.load()[0] == LOWER
    gone = max(at for at, _, _ in world.evictions) + world.grace
    opened = next(at for at, one in world.decisions if at > gone and one.published.admit)
    calm = world.rules.cooldown + 2 * world.rules.period
    assert calm <= opened - gone <= calm + 3 * world.rules.period


def test_reopens_though_another_resource_stays_between_the_levels() -> None:
    """Memory steady at 72 %, and a burst of CPU that is soon over."""
    burst = (60.0, 600.0)
    memory = 720 * GIB
    jobs = [Job(f"job-{i}", 2.0, 0.0) for i in range(15)]
    world = World(jobs, lambda t: (58.0 if burst[0] <= t < burst[1] else 30.0, memory), RULES)
    world.run(40)
    assert {reason for _, _, reason in world.evictions} == {EvictionReason.ABOVE_UPPER}
    published = world.decisions[-1][1].published
    assert (published.state.value, published.admit) == ("Speculative", True)
    assert published.load("memory") == 72.0


def test_stays_closed_while_the_resource_that_was_evicted_for_is_not_under_lower() -> None:
    state = ScopeState(closed=True, closed_for=frozenset({"memory"}), cooldown_until=NOW - timedelta(hours=1))
    world = World([], lambda t: (75.0, 720 * GIB), RULES, states={CLUSTER: state})
    world.run(3)
    assert not world.decisions[-1][1].published.admit


@pytest.mark.parametrize("lag", [0.0, 15.0, 60.0])
@pytest.mark.parametrize("grace", [0.0, 30.0, 120.0])
def test_a_load_jump_does_not_take_all_that_is_labelled(lag: float, grace: float) -> None:
    """Five of 14 jobs are preemptible when the load jumps: small ones that free a point each and lose more than 200
    core-seconds for it. Two of the others close the gap of 16 points and lose about 80 for each."""
    small = [Job(f"small-{i}", 1.0, 0.0, started=-200.0 - 10 * i) for i in range(10)]
    large = [Job(f"large-{i}", 8.0, 0.0, started=-1810.0 - 10 * i) for i in range(4)]
    world = World([*small, *large], rising(44.0, at=30.0), RULES, lag, grace=grace, labels=True)
    world.run(20)
    check(world)
    assert [job.name for _, job, _ in world.evictions] == ["large-0", "large-1"]
    assert world.load()[0] <= LOWER


@given(seed=st.integers(0, 2**32), lag=st.sampled_from([0.0, 15.0, 60.0]), grace=st.sampled_from([0.0, 30.0, 100.0]))
@settings(max_examples=examples(40))
def test_with_labels_that_follow_it_comes_down_and_not_one_too_many(seed: int, lag: float, grace: float) -> None:
    rng = random.Random(seed)
    jump = rng.uniform(36, 50)
    # Together they use what the node has, at most: figures of one that used more would not be believed.
    world = World(random_jobs(rng, 50.0), rising(jump, at=60.0), RULES, lag, grace=grace, labels=True)
    world.run(60)  # with slow figures and slow pods a plan takes eight periods to show, and labels follow each
    check(world)
    largest = max((job.cpu for _, job, _ in world.evictions), default=0.0)
    assert overshoot(world) <= largest + 1e-6, "freed more than the gap and one victim"
    assert world.load()[0] <= LOWER + 1e-6


@pytest.mark.parametrize(
    ("ordinary", "rounds"),
    [
        (20.0, [15]),  # nothing is hidden
        (35.0, [15, 30]),  # 15 too many
        (50.0, [15, 30]),
        (85.0, [15, 30, 35]),  # with 15 in each it took six
    ],
)
def test_a_saturated_cpu_hides_what_is_wanted_and_takes_few_rounds(ordinary: float, rounds: list[int]) -> None:
    """Eighty jobs of a point each, below levels of 85 and 95; ordinary workloads would use more than what is left. What
    jobs free is theirs at once, and the CPU is all in use again: the next plan takes as much more as has shown."""
    rules = replace(RULES, initial=WaterLevels(85.0, 90.0, 95.0))
    jobs = [Job(f"job-{i}", 1.0, 0.0, started=-100.0 - i) for i in range(80)]
    world = World(jobs, rising(ordinary, at=60.0, base=5.0), rules, full=True)
    world.run(60)
    check(world)
    assert list(Counter(at for at, _, _ in world.evictions).values()) == rounds
    assert world.load()[0] <= 85.0
    assert sum(rounds) <= 2 * (80 + ordinary - 85), "twice as many as were needed, at the most"


def test_a_saturated_cpu_that_comes_down_needs_no_more_than_the_gap() -> None:
    """Figures at the very top, and nothing hidden behind them."""
    jobs = [Job(f"job-{i}", 2.0, 0.0, started=-100.0 - i) for i in range(25)]
    world = World(jobs, rising(50.0, base=20.0), RULES, full=True)
    world.run(30)
    check(world)
    assert [len(world.evictions), world.load()[0]] == [15, LOWER]


@pytest.mark.parametrize("lag", [0.0, 15.0, 60.0])
@pytest.mark.parametrize("grace", [0.0, 30.0, 120.0])
def test_one_plan_for_one_gap_however_slow_metrics_and_pods_are(lag: float, grace: float) -> None:
    world = World([Job(f"job-{i}", 2.0, 0.0) for i in range(20)], rising(55.0, base=55.0), RULES, lag, grace=grace)
    world.run(40)
    check(world)
    assert len(world.evictions) == 13  # 95 % - 13 · 2 < 70 %
    assert len({at for at, _, _ in world.evictions}) == 1


@given(
    seed=st.integers(0, 2**32),
    lag=st.sampled_from([0.0, 15.0, 30.0, 60.0]),
    grace=st.sampled_from([0.0, 5.0, 30.0, 100.0]),
    blind=st.sampled_from([0.0, 0.3, 0.5, 1.0]),
    budget=st.sampled_from([0.0, 0.3, 1.0]),
    protected=st.sampled_from([0.0, 0.5, 1.0]),
    restarts=st.lists(st.tuples(st.integers(0, 25), st.booleans(), st.sampled_from([0.0, 7.0, 200.0])), max_size=4),
    limit=st.sampled_from([1, 3, 100]),
)
@settings(max_examples=examples(60))
def test_never_more_than_needed_under_any_circumstances(
    seed: int,
    lag: float,
    grace: float,
    blind: float,
    budget: float,
    protected: float,
    restarts: list[tuple[int, bool, float]],
    limit: int,
) -> None:
    """Steady load, so that what has been freed in the end can be held against what had to be freed."""
    rng = random.Random(seed)
    jobs = random_jobs(rng, 50.0)
    for job in jobs:
        job.measured = rng.random() >= blind
        job.refused = rng.random() < budget
        job.preemptible = rng.random() >= protected
    rules = replace(RULES, eviction=replace(RULES.eviction, max_victims=limit))
    world = World(jobs, steady(44.0), rules, lag, grace=grace)
    for tick in range(30):
        for at, forget, down in restarts:
            if at == tick:
                world.restart(forget=forget, down=down)
        before = len(world.evictions)
        world.tick()
        assert len(world.evictions) - before <= limit
    check(world)
    assert not any(job.gone_at and (job.refused or not job.preemptible or not job.measured) for job in jobs)
    largest = max((job.cpu for _, job, _ in world.evictions), default=0.0)
    assert overshoot(world) <= largest + 1e-6, "freed more than the gap and one victim"


@given(seed=st.integers(0, 2**32), lag=st.sampled_from([0.0, 30.0, 60.0]), dark=st.floats(0, 0.9))
@settings(max_examples=examples(40))
def test_with_changing_load_and_metrics_that_come_and_go(seed: int, lag: float, dark: float) -> None:
    rng = random.Random(seed)
    steps = [rng.uniform(10, 70) for _ in range(30)]
    outages = [rng.random() < dark for _ in range(80)]
    world = World(
        random_jobs(rng, 45.0),
        lambda t: (steps[int(max(0.0, t) // 120) % 30], 0.0),
        replace(RULES, yield_at_checkpoint=rng.random() < 0.5),
        lag,
        metrics=lambda t: not outages[int(t // 30) % 80],
    )
    for tick in range(60):
        if rng.random() < 0.05:
            world.restart(forget=rng.random() < 0.3)
        outage = outages[int(world.clock // 30) % 80]
        decision = world.tick()
        if outage:
            assert decision.published.state.value == "Blind", tick
            assert (decision.victims, decision.published.admit) == ((), False)
    for at, job, reason in world.evictions:
        if reason is EvictionReason.ABOVE_UPPER:  # somebody saw the load above upper in this episode
            assert any(
                d.scopes[CLUSTER].reading is not None and d.scopes[CLUSTER].reading.load["cpu"] >= UPPER
                for t, d in world.decisions
                if t <= at
            ), job


def test_metrics_older_than_two_periods_are_none() -> None:
    world = World([Job("job", 20.0, 0.0)], steady(80.0), RULES, lag=61.0)
    world.run(5)
    assert world.state == "Blind"
    assert world.evictions == []
    assert "no older than 60 s" in world.decisions[-1][1].published.message


def test_restarted_in_the_middle_it_goes_on_to_lower_and_stays_closed() -> None:
    world = World([Job(f"job-{i}", 2.0, 0.0) for i in range(20)], steady(55.0), RULES, lag=30.0)
    world.tick()
    assert len(world.evictions) == 13
    world.restart()
    world.run(10)
    check(world)
    assert len(world.evictions) == 13
    assert not world.decisions[-1][1].published.admit


def test_somebody_refused_is_replaced_by_the_next() -> None:
    jobs = [Job(f"job-{i}", 10.0, 0.0, started=-100.0 * (i + 1), refused=i == 0) for i in range(4)]
    world = World(jobs, steady(50.0), RULES)
    world.run(15)
    check(world)
    assert [job.name for _, job, _ in world.evictions] == ["job-1", "job-2"]
    assert world.load()[0] == 70.0


def test_nobody_left_says_so_and_stops() -> None:
    world = World([Job("job", 5.0, 0.0, preemptible=False)], steady(90.0), RULES)
    world.run(5)
    published = world.decisions[-1][1].published
    assert (world.state, world.evictions) == ("Evicting", [])
    assert "nothing preemptible is left" in published.message


@pytest.mark.parametrize("grace", [0.0, 20.0, 30.0, 100.0])
@pytest.mark.parametrize(
    ("behind", "lag"),
    [*product([-20.0, 20.0, 30.0], [0.0, 15.0, 30.0, 45.0, 60.0]), *product([60.0], [0.0, 15.0, 30.0])],
)
def test_a_clock_that_is_wrong_makes_no_second_plan_for_one_gap(lag: float, grace: float, behind: float) -> None:
    """One that is a minute behind shows in figures that are from the future."""
    jobs = [Job(f"job-{i}", 2.0, 0.0, started=-100.0 * (i + 1)) for i in range(20)]
    rules = replace(RULES, trust=Trust(max_age=90.0))
    world = World(jobs, rising(48.0), rules, lag, grace=grace, behind=behind)
    world.run(30)
    assert len(world.evictions) == 9
    assert world.load()[0] == LOWER


@pytest.mark.parametrize(("lag", "grace"), [(0.0, 10.0), (15.0, 30.0), (30.0, 20.0), (60.0, 100.0)])
def test_own_churn_is_no_unrest_of_the_ordinary_load(lag: float, grace: float) -> None:
    jobs = [Job(f"job-{i}", 2.0, GIB, started=-100.0 * (i + 1)) for i in range(20)]
    world = World(jobs, steady(48.0), RULES, lag, grace=grace)
    world.run(20)
    assert len(world.evictions) == 9
    seen = [d.scopes[CLUSTER].reading for _, d in world.decisions]
    ordinary = [reading.ordinary["cpu"] for reading in seen if reading is not None and reading.ordinary is not None]
    assert len(ordinary) == 20
    assert all(abs(one - 48.0) <= 9.0 / 3 + 1e-6 for one in ordinary), "half of the average, where a third was lived"
    assert sum(abs(one - 48.0) > 1e-6 for one in ordinary) <= 1


@pytest.mark.parametrize("ramp", [0.0, 120.0, 240.0])
@pytest.mark.parametrize("lag", [0.0, 30.0, 60.0])
def test_nobody_goes_because_jobs_use_their_cores_only_after_a_while(ramp: float, lag: float) -> None:
    """Jobs of half an hour without end, on a steady ordinary load, for two hours. Where only what they used was
    counted, 188 were evicted of those that began to work after two minutes, and 234 of the others."""
    world = World([], steady(40.0), RULES, lag)
    waiting = Job("job", 1.0, 0.0, ramp=ramp)
    loads = []
    for _ in range(240):
        world.admit(world.tick().published, waiting, lasts=1800.0)
        loads.append(world.load()[0])
    assert world.evictions == []
    assert max(loads) <= 80.0, "admission"
    assert sum(loads[60:]) / 180 >= 70.0, "and what there is to give is given"


# --- yield at the checkpoint ---


YIELDING = replace(RULES, yield_at_checkpoint=True)


def test_yields_right_after_a_start_over_until_back_at_admission() -> None:
    # 80 % = admission, 85 % = upper; start-overs at 1,800 s of running time, one job every 30 s
    jobs = [Job(f"job-{i}", 2.0, 0.0, started=-1800.0 + 30.0 * i + 20.0) for i in range(20)]
    world = World(jobs, steady(44.0), YIELDING)
    world.run(12)
    check(world)
    assert all(reason is EvictionReason.YIELD for _, _, reason in world.evictions)
    assert [job.name for _, job, _ in world.evictions] == ["job-0", "job-1"]  # 84 % - 4 <= 80 %
    for at, job, _ in world.evictions:
        assert (at - job.started) % 1800 <= YIELDING.yield_within
    first = world.evictions[0][0]
    for at, decision in world.decisions:
        load = decision.published.load("cpu")
        assert load is not None
        # closed in between, or the first to yield would be back at once
        assert decision.published.admit == (at <= first or load <= 80)


def test_a_job_that_has_just_started_does_not_yield() -> None:
    world = World([Job(f"job-{i}", 2.0, 0.0, started=-20.0) for i in range(20)], steady(44.0), YIELDING)
    world.run(2)
    assert world.evictions == []


def test_who_came_back_does_not_yield_before_an_interval_is_over_where_that_is_promised() -> None:
    """All have just reported a checkpoint, ten minutes after they started; half of them had been interrupted."""

    def yields(before: list[int], ordinary: float, *, promise: bool) -> list[int]:
        jobs = [
            Job(f"job-{i}", 2.0, 0.0, started=-600.0, checkpoint=-10.0, interruptions=count)
            for i, count in enumerate(before)
        ]
        world = World(jobs, steady(ordinary), replace(YIELDING, risk=replace(RULES.risk, minimum_run=promise)))
        world.run(1)
        return [job.interruptions for _, job, _ in world.evictions]

    assert yields([1, 0] * 10, 44.0, promise=True) == [0, 0]
    assert yields([1, 0] * 10, 44.0, promise=False) == [1, 0]
    assert yields([1] * 10, 64.0, promise=True) == [], "to yield is voluntary"
    assert yields([1] * 10, 64.0, promise=False) == [1, 1]


def test_a_large_gang_does_not_yield_for_a_small_gap() -> None:
    """84 %, so four points have to come free: the gang of 30 cores works on, and four small jobs yield."""
    gang = Job("gang", 30.0, 0.0, 30, started=-1801.0)
    small = [Job(f"small-{i}", 1.0, 0.0, started=-1802.0) for i in range(9)]
    world = World([gang, *small], steady(45.0), YIELDING)
    world.run(1)
    assert [job.name for _, job, _ in world.evictions] == [f"small-{i}" for i in range(4)]
    world = World([gang], steady(54.0), YIELDING)
    world.run(1)
    assert world.evictions == []


def test_a_small_job_is_evicted_for_a_small_gap() -> None:
    gang = Job("gang", 64.0, 0.0, 64, started=-1801.0)
    small = Job("small", 1.0, 0.0, started=-900.0)
    world = World([gang, small], steady(6.0), RULES, states={CLUSTER: ScopeState(evicting=frozenset({"cpu"}))})
    world.run(20)
    assert [job.name for _, job, _ in world.evictions] == ["small"]


def test_nobody_yields_close_to_admission_or_when_switched_off() -> None:
    """Jobs are let in up to 80 %, where measured loads go up and down: who yields there is let in again at once."""
    jobs = [Job(f"job-{i}", 2.0, 0.0, started=-1801.0) for i in range(20)]
    for ordinary in (39.0, 41.0, 42.0):
        world = World(jobs, steady(ordinary), YIELDING)
        world.run(3)
        assert world.evictions == []
        assert world.decisions[-1][1].published.admit
    world = World(jobs, steady(42.0), replace(YIELDING, yield_from=0.25))
    world.run(3)
    assert world.evictions != []
    world = World(jobs, steady(44.0), RULES)
    world.run(3)
    assert world.evictions == []
