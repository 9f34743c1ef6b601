from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from scavenger_regulator.core.eviction.candidates import candidates
from scavenger_regulator.core.eviction.choice import least_lossy, within
from scavenger_regulator.core.eviction.plan import (
    EvictionRules,
    Outcome,
    by_at_risk,
    by_class,
    by_interruptions,
    by_running_time,
    by_use,
    compose,
    sorter_for,
)
from scavenger_regulator.core.eviction.risk import RiskRules
from scavenger_regulator.core.load import Reading, Trust, read_load
from scavenger_regulator.core.snapshot import CLUSTER, Measurement

from .builders import GIB, NOW, ago, candidate, evict, figures, gang, names, snapshot

NO_WAITING = EvictionRules(checkpoint_wait=0)


def test_least_at_risk_goes_and_not_one_more() -> None:
    jobs = [candidate(f"job-{i}", loss=100 - i, cpu=6) for i in range(10)]
    plan = evict(jobs)  # 20 points: three of 6 are too few
    assert names(plan.victims) == ["job-9", "job-8", "job-7", "job-6"]
    assert (plan.outcome, plan.loss, plan.frees("cpu")) == (Outcome.PLANNED, 91 + 92 + 93 + 94, 24)
    assert plan.gaps == {"cpu": 20}
    assert plan.short == {}


def test_a_victim_counts_for_every_resource() -> None:
    jobs = [candidate("cpu", 10, 20, 0), candidate("memory", 10, 0, 20), candidate("both", 15, 20, 20)]
    plan = evict(jobs, memory=90, targets={"cpu": 70, "memory": 70})
    assert names(plan.victims) == ["both"]


def test_what_is_leaving_is_subtracted() -> None:
    jobs = [candidate("a", 1, 10), candidate("b", 2, 10)]
    assert names(evict(jobs, pending_release={"cpu": 10}).victims) == ["a"]
    plan = evict(jobs, pending_release={"cpu": 20})
    assert (plan.outcome, plan.victims) == (Outcome.NOT_NEEDED, ())


def test_only_preemptible_ones_go() -> None:
    jobs = [candidate("a", 1, 30, preemptible=False), candidate("b", 9, 30)]
    assert names(evict(jobs).victims) == ["b"]
    plan = evict(jobs[:1])
    assert (plan.outcome, plan.victims, plan.short) == (Outcome.NOBODY_LEFT, (), {"cpu": 20})


def test_over_all_who_is_not_preemptible_yet_is_awaited() -> None:
    jobs = [candidate("a", 1, 15, preemptible=False), candidate("b", 2, 15), candidate("c", 50, 30)]
    assert names(evict(jobs).victims) == ["c"]
    plan = evict(jobs, over_all=True)
    assert (plan.outcome, names(plan.victims), names(plan.awaited)) == (Outcome.PLANNED, ["b"], ["a"])
    plan = evict(jobs[:1], over_all=True, cpu=85)
    assert (plan.outcome, names(plan.victims), names(plan.awaited)) == (Outcome.UNLABELLED, [], ["a"])


def test_at_the_hard_ceiling_nobody_is_awaited_where_the_preemptible_ones_are_enough() -> None:
    jobs = [candidate("a", 1, 30, preemptible=False), candidate("b", 90, 30)]
    plan = evict(jobs, cpu=95, over_all=True)
    assert (names(plan.victims), plan.awaited) == (["b"], ())
    plan = evict([jobs[0], candidate("c", 90, 5)], cpu=95, over_all=True)
    assert (plan.victims, names(plan.awaited)) == ((), ["a"]), "the third that is preemptible would go for nothing"


def test_when_all_are_not_enough_those_that_help_go_and_it_says_so() -> None:
    jobs = [candidate("a", 1, 8), candidate("b", 2, 8), candidate("idle", 0, 0)]
    plan = evict(jobs)
    assert (plan.outcome, names(plan.victims)) == (Outcome.SHORT, ["a", "b"])
    assert plan.short == pytest.approx({"cpu": 4})
    assert evict([candidate("idle", 0, 0)]).outcome is Outcome.NOBODY_LEFT


def test_no_more_than_the_configured_number_per_period() -> None:
    jobs = [candidate(f"job-{i}", loss=i, cpu=1) for i in range(50)]
    plan = evict(jobs, rules=replace(NO_WAITING, max_victims=3))
    assert names(plan.victims) == ["job-0", "job-1", "job-2"]
    assert plan.postponed == 17


# --- a promised run ---


@pytest.mark.parametrize("order", [("class", "at-risk"), ("class", "running-time")])
def test_who_is_promised_a_run_goes_only_where_the_others_are_not_enough(order: tuple[str, ...]) -> None:
    rules = replace(NO_WAITING, order=order)
    jobs = [candidate("promised", 0, 20, promised=True), candidate("a", 90, 10), candidate("b", 900, 10)]
    assert names(evict(jobs, rules=rules).victims) == ["a", "b"], "though it loses nothing and would do alone"
    plan = evict(jobs[:2], rules=rules)
    assert (plan.outcome, "promised" in names(plan.victims)) == (Outcome.PLANNED, True)
    assert names(evict([jobs[0], candidate("other", 0, 20, promised=True)], rules=rules).victims) != []
    one = evict(jobs[:2], cpu=95, rules=replace(rules, max_victims=1))
    assert (names(one.victims), one.postponed) == (["a"], 1), "of those that have to go it is the last"


# --- overshoot ---


def test_a_small_job_goes_for_a_small_gap_though_a_large_gang_has_nothing_at_risk() -> None:
    jobs = [candidate("gang", 0, 64, 20), candidate("small", 900, 1, 1)]
    plan = evict(jobs, cpu=71, overshoot_cost=60)
    assert (names(plan.victims), plan.loss) == (["small"], 900)
    assert names(evict(jobs, cpu=71, overshoot_cost=0).victims) == ["gang"]


def test_what_is_lost_comes_first_where_it_differs_more_than_a_restart() -> None:
    jobs = [candidate("two", 10, 2), candidate("one", 1500, 1)]
    assert names(evict(jobs, cpu=71, overshoot_cost=60).victims) == ["two"]


def test_who_frees_much_of_something_else_is_dearer_too() -> None:
    jobs = [candidate("wide", 10, 1, 40), candidate("slim", 20, 1, 1)]
    assert names(evict(jobs, cpu=71, overshoot_cost=60).victims) == ["slim"]


def test_within_never_frees_more_than_a_point_beyond_the_gap() -> None:
    jobs = [candidate("gang", 0, 64), candidate("a", 1, 4), candidate("b", 2, 3), candidate("c", 3, 1)]
    assert names(within(jobs, {"cpu": 5.0}, 9, 1.0)) == ["a", "c"], "with b it would be two points beyond"
    assert names(within(jobs, {"cpu": 6.0}, 9, 1.0)) == ["a", "b"]
    assert names(within(jobs, {"cpu": 6.0}, 1, 1.0)) == ["a"]
    assert within(jobs, {"cpu": 0.0}, 9, 1.0) == ()
    assert within([candidate("unknown", 0, None)], {"cpu": 5.0}, 9, 1.0) == ()


# --- missing figures ---


def test_without_a_figure_nobody_is_a_victim() -> None:
    jobs = [candidate("blind", 0, None, None), candidate("seen", 9, 30)]
    assert names(evict(jobs).victims) == ["seen"]
    plan = evict(jobs[:1])
    assert (plan.outcome, plan.victims) == (Outcome.NO_FIGURES, ())


def test_a_metric_without_figures_leaves_the_other_to_act_by() -> None:
    jobs = [candidate("a", 1, 15, None), candidate("b", 2, 15, None)]
    plan = evict(jobs, memory=90, targets={"cpu": 70, "memory": 70})
    assert (names(plan.victims), plan.acting) == (["a", "b"], ("cpu",))
    assert (plan.outcome, plan.short) == (Outcome.SHORT, {"memory": 20})


def test_the_most_urgent_metric_leads_where_figures_are_mixed() -> None:
    jobs = [candidate("memory-only", 1, None, 25), candidate("cpu-only", 1, 25, None)]
    plan = evict(jobs, memory=90, targets={"cpu": 70, "memory": 70})
    assert (names(plan.victims), plan.acting) == (["memory-only"], ("memory",))


def test_those_with_all_figures_are_asked_first() -> None:
    jobs = [candidate("whole", 500, 25, 25), candidate("half", 1, None, 25)]
    plan = evict(jobs, memory=90, targets={"cpu": 70, "memory": 70})
    assert (names(plan.victims), plan.acting) == (["whole"], ("memory", "cpu"))


# --- waiting for checkpoints ---


def test_waits_for_a_checkpoint_that_is_due_when_only_much_at_risk_is_left() -> None:
    due = candidate("due", 1700, 30, since=1700)  # in 100 s
    far = candidate("far", 1000, 30, since=1000)  # in 800 s
    plan = evict([due, far])
    assert (plan.outcome, plan.victims, names(plan.held)) == (Outcome.WAITING, (), ["due"])
    # in the meantime those with little at risk go
    plan = evict([due, far, candidate("cheap", 10, 5)], cpu=95 - 1e-3, targets={"cpu": 61})
    assert (plan.outcome, names(plan.victims), names(plan.held)) == (Outcome.PLANNED, ["cheap"], ["due"])


@pytest.mark.parametrize(
    ("facts", "victims"),
    [
        ({"cpu": 95.0}, ["far"]),  # at the hard ceiling nobody is waited for
        ({"waiting_since": ago(300)}, ["far"]),  # five minutes are over
        ({"waiting_since": ago(250)}, ["far"]),  # its checkpoint comes after the five minutes
        ({"waiting_since": ago(150)}, []),
        ({"rules": NO_WAITING}, ["far"]),
    ],
)
def test_waiting_has_its_bounds(facts: dict[str, Any], victims: list[str]) -> None:
    jobs = [candidate("due", 1700, 30, since=1700), candidate("far", 1000, 30, since=1000)]
    assert names(evict(jobs, **facts).victims) == victims


def test_does_not_wait_for_checkpoints_that_would_not_be_enough() -> None:
    jobs = [candidate("due", 1700, 5, since=1700), candidate("far", 1000, 19, since=1000)]
    assert names(evict(jobs).victims) == ["far", "due"]


def test_does_not_wait_where_little_is_at_risk() -> None:
    jobs = [candidate("due", 1700, 30, since=1700), candidate("young", 200, 30, since=200)]
    assert names(evict(jobs).victims) == ["young"]


# --- sorters ---


def test_sorters_compose() -> None:
    jobs = [
        candidate("c", 5, 10),
        candidate("a", 5, 30),
        candidate("b", 5, 30, gang=gang("b", interruptions=1)),
        candidate("d", 1, 10, preemptible=False),
    ]
    order = compose(by_class, by_at_risk, by_use("cpu"), by_interruptions)
    assert names(sorted(jobs, key=order)) == ["a", "b", "c", "d"]
    assert names(sorted(jobs[:3], key=sorter_for(["use"], "cpu"))) == ["a", "b", "c"]
    young = replace(jobs[0], risk=replace(jobs[0].risk, started=ago(5)))
    assert min([jobs[0], young], key=by_running_time) is young
    assert by_use("memory")(candidate("none", memory=None)) > by_use("memory")(candidate("zero", memory=0))
    with pytest.raises(KeyError):
        sorter_for(["beauty"], "cpu")


def test_an_order_of_the_administrators_is_followed() -> None:
    rules = EvictionRules(order=("class", "use"), checkpoint_wait=0)
    jobs = [candidate("small", 1, 5), candidate("large", 900, 15), candidate("middle", 50, 10)]
    plan = evict(jobs, rules=rules)
    assert names(plan.victims) == ["large", "middle"]


def test_on_reclaimed_capacity_those_that_use_most_of_their_limit_go_first() -> None:
    gangs = (
        gang("kept"),
        gang("idle", pod_reclaimed=True),
        gang("busy", pod_reclaimed=True),
        gang("dark", pod_reclaimed=True),
    )
    pods = {"kept": figures(1.0, GIB), "idle": figures(0.2, GIB), "busy": figures(0.9, GIB)}
    measurement = Measurement({"node-1": figures(5, GIB)}, {f"lab/{name}-0": one for name, one in pods.items()})
    taken = snapshot(gangs, measurement=measurement)
    reading = read_load(CLUSTER, taken.nodes.values(), gangs, measurement, NOW, Trust())
    assert isinstance(reading, Reading)
    found = candidates(gangs, reading, taken, Trust(), risk=RiskRules(), taken=())
    assert [one.used_of_limit for one in found] == pytest.approx([0.0, 0.2, 0.9, 0.0])
    assert names(sorted(found, key=sorter_for(["use-of-limit"], "cpu")))[:2] == ["busy", "idle"]


# --- above the request ---


def test_who_is_above_its_request_is_measured_on_guaranteed_capacity_beyond_a_twentieth() -> None:
    gangs = (gang("over"), gang("at", pods=2), gang("reclaimed", pod_reclaimed=True), gang("dark"))
    pods = {
        "over-0": figures(1.2, GIB),
        "at-0": figures(1.08, 4 * GIB),
        "at-1": figures(1.0, 0.5 * GIB),
        "reclaimed-0": figures(9, 9 * GIB),
    }
    measurement = Measurement({"node-1": figures(5, GIB)}, {f"lab/{name}": one for name, one in pods.items()})
    taken = snapshot(gangs, measurement=measurement)
    reading = read_load(CLUSTER, taken.nodes.values(), gangs, measurement, NOW, Trust())
    assert isinstance(reading, Reading)
    found = candidates(gangs, reading, taken, Trust(), risk=RiskRules(), taken=())
    assert [one.over_request for one in found] == [{"cpu"}, {"memory"}, set(), set()]


def test_among_equals_those_go_first_that_use_more_than_they_request() -> None:
    over = frozenset({"cpu"})
    jobs = [candidate("a", 100, 5), candidate("b", 104, 5, over_request=over), candidate("c", 90, 5)]
    assert names(evict(jobs, cpu=75).victims) == ["c"], "who loses much less goes in any case"
    assert names(evict(jobs[:2], cpu=75).victims) == ["b"], "100 and 104 core-seconds are equal"
    assert names(evict([jobs[0], candidate("b", 104, 5, over_request=frozenset({"memory"}))], cpu=75).victims) == ["a"]
    free = [candidate("a", 0, 5), candidate("b", 0, 5, over_request=over)]
    assert names(evict(free, cpu=75).victims) == ["b"]


def test_for_the_memory_of_a_node_as_well() -> None:
    jobs = [candidate("a", 100, 5), candidate("b", 104, 5, over_request=frozenset({"memory"}))]
    assert names(least_lossy(jobs, {"memory": 1.0}, 9)) == ["b"]
    assert names(least_lossy(jobs, {"cpu": 5.0}, 9)) == ["a"]


def test_in_an_order_that_is_not_by_loss() -> None:
    rules = replace(NO_WAITING, order=("class", "over-request", "interruptions"))
    jobs = [candidate("a", 0, 5), candidate("b", 900, 5, over_request=frozenset({"cpu"}))]
    assert names(evict(jobs, cpu=75, rules=rules).victims) == ["b"]
