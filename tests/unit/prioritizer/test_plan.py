"""plan_classes as tables: who is next, how many, and which writes it takes."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest
from msgspec.structs import replace as alter
from scavenger_domain.gang import MICROSECONDS, PER_CPU_SECOND, cpu_seconds, estimated_at_risk
from scavenger_domain.marks import moved
from scavenger_prioritizer.core.lone import lone_nodes
from scavenger_prioritizer.core.plan import (
    PodWrite,
    current_class,
    plan_classes,
    preemptible_count,
    rank,
    takes_part,
)
from scavenger_prioritizer.core.snapshot import Gang, Rules, ShareOf

from .builders import (
    HALF_HOUR,
    NO_STARTUP,
    NON_PREEMPTIBLE,
    NOW,
    PREEMPTIBLE,
    ago,
    carried_out,
    classes,
    gang,
    job,
    pod,
    preemptible,
    published,
    snapshot,
)


def at_risk(subject: Gang, rules: Rules = NO_STARTUP) -> float:
    """CPU-seconds at risk, exact."""
    (ranked,) = rank(snapshot([subject], rules=rules))
    return ranked.risk / PER_CPU_SECOND


# --- running priority ---


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        pytest.param(gang(started=600), 600, id="since the start"),
        pytest.param(gang(started=600, cost=2500), 1500, id="times the cores"),
        pytest.param(gang(started=HALF_HOUR + 100), 100, id="a checkpoint was due 100 s ago"),
        pytest.param(gang(started=5 * HALF_HOUR + 7), 7, id="the fifth start-over, though the status lags"),
        pytest.param(gang(started=HALF_HOUR), 0, id="due right now"),
        pytest.param(gang(started=600, checkpoints=(ago(60),)), 60, id="a reported checkpoint"),
        pytest.param(gang(started=600, checkpoints=(ago(-60),)), 600, id="a checkpoint in the future does not count"),
        pytest.param(gang(started=600, checkpoints=(ago(900),)), 600, id="a checkpoint of the run before"),
        pytest.param(
            gang(started=HALF_HOUR + 100, checkpoints=(ago(300),)),
            100,
            id="a checkpoint before the start-over",
        ),
        pytest.param(gang(started=600, start_over=ago(20)), 20, id="a recorded start-over is later"),
        pytest.param(gang(started=600, start_over=ago(-20)), 600, id="a recorded start-over in the future"),
        pytest.param(gang(started=-300), 0, id="a start in the future is another clock"),
        pytest.param(gang(started=None, created=ago(50)), 50, id="no start recorded: since creation"),
        pytest.param(
            gang(started=None, created=ago(500), pods=[pod("a", started=ago(40)), pod("b", started=ago(30))]),
            60,
            id="no start recorded: since the youngest pod's, two pods",
        ),
        pytest.param(gang(started=600, pods=[pod("a"), pod("b")]), 1200, id="a gang adds up"),
        pytest.param(
            gang(started=600, pods=[pod("a"), pod("b", live=False)]),
            600,
            id="a member that failed holds nothing",
        ),
        pytest.param(
            gang(started=600, pods=[pod("a"), pod("b", live=False, finished=True)]),
            1200,
            id="a member that has finished runs again",
        ),
        pytest.param(gang(started=600, interval=1), 0, id="the shortest interval there is"),
    ],
)
def test_cpu_time_at_risk(subject: Gang, expected: float) -> None:
    assert at_risk(subject) == expected


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        (gang(started=10), 70),
        (gang(started=10, cost=500), 35),
        (gang(started=100, checkpoints=(ago(10),)), 10),
        (gang(started=HALF_HOUR + 10), 10),
        (gang(started=HALF_HOUR - 1), HALF_HOUR + 59),
        (gang(started=-5), 60),
    ],
)
def test_the_startup_cost_is_added_until_the_first_checkpoint(subject: Gang, expected: float) -> None:
    assert at_risk(subject, Rules(startup_cost=60 * MICROSECONDS)) == expected


TWO = [pod("a", cost=2000), pod("b", cost=2000)]


@pytest.mark.parametrize(
    ("subject", "used", "expected"),
    [
        pytest.param(gang(started=600, reclaimed=True), {}, 660, id="not measured: what it asked for"),
        pytest.param(gang(started=600, reclaimed=True), {"uid-job-0": 250}, 165, id="measured, start-up cost included"),
        pytest.param(gang(started=600, reclaimed=True), {"uid-job-0": 0}, 0, id="it did nothing"),
        pytest.param(
            gang(started=600, reclaimed=True, checkpoints=(ago(60),)),
            {"uid-job-0": 250},
            15,
            id="since the checkpoint",
        ),
        pytest.param(
            gang(started=540, reclaimed=True, pods=TWO), {"uid-a": 500}, 300 + 1200, id="one of two is measured"
        ),
        pytest.param(
            gang(started=540, reclaimed=True, pods=[pod("a"), pod("b", live=False, finished=True)]),
            {"uid-a": 500, "uid-b": 500},
            300,
            id="a member that ended holds nothing",
        ),
        pytest.param(gang(started=600), {"uid-job-0": 250}, 660, id="Guaranteed: what it kept others from using"),
    ],
)
def test_on_reclaimed_capacity_what_was_really_used_is_at_risk(
    subject: Gang, used: dict[str, int], expected: float
) -> None:
    rules = Rules(startup_cost=60 * MICROSECONDS)
    seen = replace(snapshot([subject], rules=rules), used=used)
    assert rank(seen)[0].risk / (1000 * MICROSECONDS) == expected


def test_a_large_job_that_idles_goes_before_a_small_busy_one() -> None:
    idle = gang("idle", started=600, cost=64_000, reclaimed=True)
    busy = gang("busy", started=600, cost=1000)
    assert preemptible(plan_classes(snapshot([idle, busy], 50))) == {"busy"}
    measured = replace(snapshot([idle, busy], 50), used={"uid-idle-0": 10})
    assert preemptible(plan_classes(measured)) == {"idle"}


def test_cpu_seconds_are_rounded() -> None:
    second = 1000 * MICROSECONDS
    assert [cpu_seconds(r) for r in (0, second // 2 - 1, second // 2, second)] == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("reports", "expected"),
    [
        pytest.param((None, None, None), None, id="nobody"),
        pytest.param((100, 50, 70), 100, id="all: what the slowest has written"),
        pytest.param((80, None, None), 80, id="index 0 writes for all"),
        pytest.param((None, 80, None), None, id="another one alone"),
        pytest.param((100, 50, None), None, id="the third has yet to follow"),
        pytest.param((80, -5, None), 80, id="a report from the future says nothing"),
        pytest.param((100, 50, -5), None, id="nor does it complete the gang"),
    ],
)
def test_the_checkpoint_of_a_gang(reports: tuple[float | None, ...], expected: float | None) -> None:
    """As the admitter counts it, or lost CPU time would be judged by two measures."""
    members = [
        pod(f"p{n}", index=n, checkpoint=None if report is None else ago(report)) for n, report in enumerate(reports)
    ]
    subject = gang(started=600, pods=members, parallelism=3)
    assert at_risk(subject) == 3 * (600 if expected is None else expected)


def test_a_member_that_finished_has_reported_too() -> None:
    members = [pod("a", index=0, checkpoint=ago(30)), pod("b", index=1, checkpoint=ago(20), live=False, finished=True)]
    assert at_risk(gang(started=600, pods=members, parallelism=2)) == 2 * 30


# --- order ---

TIED = [
    gang("a", started=1000, interruptions=0, checkpoints=(ago(10),)),
    gang("b", started=500, interruptions=1, checkpoints=(ago(10),)),
    gang("c", started=900, interruptions=1, checkpoints=(ago(10),)),
    gang("d", started=900, interruptions=1, checkpoints=(ago(10),), uid="uid-e"),
    gang("e", started=100, interruptions=9),
]


@pytest.mark.parametrize("order", list(permutations(range(len(TIED))))[::7])
def test_the_order_is_total_and_does_not_depend_on_the_input(order: tuple[int, ...]) -> None:
    """Least at risk, then fewer interruptions, then most recently started, then UID."""
    plan = plan_classes(snapshot([TIED[i] for i in order]))
    assert [v.gang.job.name for v in plan.verdicts] == ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize(
    ("jobs", "percentage", "expected"),
    [
        (0, 100, 0),
        (1, 0, 0),
        (1, 0.001, 1),
        (1, 33, 1),
        (3, 33, 1),
        (3, 34, 2),
        (10, 33, 4),
        (10, 100, 10),
        (100, 33, 33),
        (1000, 33.3, 333),
        (10, 110, 10),
        (10, -5, 0),
        (3, 100 / 3, 1),
        (7, 14.29, 2),
    ],
)
def test_preemptible_count(jobs: int, percentage: float, expected: int) -> None:
    assert preemptible_count(jobs, percentage) == expected


def test_the_least_at_risk_are_preemptible() -> None:
    gangs = [gang(f"j{n}", started=100 * n + 1) for n in range(10)]
    assert preemptible(plan_classes(snapshot(gangs, 33))) == {"j0", "j1", "j2", "j3"}


def cluster_with_small_tasks() -> list[Gang]:
    """A hundred jobs of eight cores, and 60 of 10m that have nearly nothing at risk."""
    large = [gang(f"large{n}", started=5 * n + 1000, cost=8000) for n in range(100)]
    return large + [gang(f"small{n}", started=n + 200, cost=10) for n in range(60)]


@pytest.mark.parametrize(
    ("share_of", "cores"),
    [(ShareOf.JOBS, 0.53), (ShareOf.REQUESTS, 264.6), (ShareOf.CAPPED_REQUESTS, 264.6)],
)
def test_small_tasks_take_the_share_of_jobs_and_not_that_of_requests(share_of: ShareOf, cores: float) -> None:
    plan = plan_classes(snapshot(cluster_with_small_tasks(), 33, rules=Rules(share_of=share_of)))
    found = sum(pod.cost for v in plan.verdicts if v.class_ == PREEMPTIBLE for pod in v.gang.pods) / 1000
    assert found == pytest.approx(cores)


def test_a_job_counts_no_more_than_the_one_in_the_middle() -> None:
    """A gang of 90 cores that has just started is the share of requests alone, and one of ten jobs by the other."""
    gangs = [gang("huge", started=10, cost=90_000)]
    gangs += [gang(f"j{n}", started=20 * n + 1000, cost=10_000) for n in range(19)]
    rules = Rules(share_of=ShareOf.CAPPED_REQUESTS)
    assert len(preemptible(plan_classes(snapshot(gangs, 33, rules=rules)))) == 7
    assert preemptible(plan_classes(snapshot(gangs, 30, rules=replace(rules, share_of=ShareOf.REQUESTS)))) == {"huge"}


def test_who_is_expected_back_counts_as_the_mean_of_those_that_run() -> None:
    away = gang("away", phase="Interrupted", pods=[], ended=NOW - MICROSECONDS)
    gangs = [gang(f"j{n}", started=100 * n + 200, cost=1000) for n in range(4)]
    for share_of in ShareOf:
        rules = Rules(share_of=share_of)
        assert len(preemptible(plan_classes(snapshot(gangs, 40, rules=rules)))) == 2
        assert len(preemptible(plan_classes(snapshot([*gangs, away], 40, rules=rules)))) == 1


def test_a_gang_is_one_job() -> None:
    big = gang("big", started=1, pods=[pod(f"p{n}") for n in range(8)])
    plan = plan_classes(snapshot([big, gang("a", started=100), gang("b", started=200)], 34))
    assert preemptible(plan) == {"big", "a"}


# --- who takes part ---


@pytest.mark.parametrize("phase", ["Waiting", "Starting", "Interrupted", "Suspended", "Completed", "Failed", ""])
def test_only_running_jobs_take_part(phase: str) -> None:
    assert classes(plan_classes(snapshot([gang("j", phase=phase)], 0))) == {}


@pytest.mark.parametrize(
    "gone",
    [
        pytest.param(gang("gone", stopping=True), id="deleted or suspended"),
        pytest.param(gang("gone", pods=[]), id="no pod"),
        pytest.param(gang("gone", pods=[pod(live=False)]), id="ended"),
        pytest.param(
            gang("gone", pods=[pod("a"), pod("b", live=False, terminating=True)]), id="a member is terminating"
        ),
    ],
)
def test_a_job_on_its_way_out_takes_no_place(gone: Gang) -> None:
    """It would be counted among those that can give way, and can no longer."""
    plan = plan_classes(snapshot([gone, gang("a", started=100), gang("b", started=200)], 50))
    assert classes(plan) == {"a": PREEMPTIBLE, "b": NON_PREEMPTIBLE}


@pytest.mark.parametrize(
    "gone",
    [
        pytest.param({"pods": [pod(live=False, terminating=True, told_to_go=ago(5))]}, id="its pod is being removed"),
        pytest.param({"pods": [pod(live=False, told_to_go=ago(5))]}, id="its pod was removed"),
        pytest.param({"phase": "Interrupted", "pods": [], "ended": ago(5)}, id="interrupted"),
        pytest.param({"phase": "Starting", "pods": [pod()], "ended": ago(5)}, id="starting again"),
        pytest.param({"phase": "Starting", "ended": ago(5), "preempted": True}, id="preempted, and starting again"),
        pytest.param({"phase": "Interrupted", "pods": [], "ended": ago(-5)}, id="on a clock ahead"),
    ],
)
def test_who_left_his_room_to_nobody_costs_nobody_his_protection(gone: dict[str, Any]) -> None:
    """Of six, two are preemptible; when these go, those who stay keep their class, and again when these are back."""
    stay = [gang(f"j{n}", started=100 + n, class_=NON_PREEMPTIBLE) for n in range(4)]
    for left in ([gang("x", **gone), gang("y", **gone)], [gang("x", **gone), gang("y", started=1)]):
        plan = plan_classes(snapshot([*stay, *left], 33))
        assert preemptible(plan) == {g.job.name for g in left if takes_part(g)}
        assert not plan.changes


@pytest.mark.parametrize(
    "gone",
    [
        pytest.param({"pods": [pod(live=False, told_to_go=ago(5), preempted=True)]}, id="being preempted"),
        pytest.param({"phase": "Interrupted", "pods": [], "ended": ago(5), "preempted": True}, id="preempted"),
        pytest.param({"phase": "Interrupted", "pods": [], "ended": ago(20)}, id="not back for a while"),
        pytest.param({"phase": "Interrupted", "pods": [], "ended": ago(-3600)}, id="on a clock far ahead"),
        pytest.param({"phase": "Waiting", "pods": []}, id="never ran"),
        pytest.param({"phase": "Completed", "pods": [], "ended": ago(5)}, id="completed"),
        pytest.param({"phase": "Suspended", "pods": [], "ended": ago(5), "stopping": True}, id="suspended"),
        pytest.param({"pods": [pod(live=False, told_to_go=ago(5))], "stopping": True}, id="deleted"),
        pytest.param({"pods": [pod(live=False, terminating=True, told_to_go=ago(20))]}, id="long grace"),
    ],
)
def test_who_will_not_be_back_soon_takes_no_place(gone: dict[str, Any]) -> None:
    stay = [gang(f"j{n}", started=100 + n, class_=NON_PREEMPTIBLE) for n in range(4)]
    plan = plan_classes(snapshot([*stay, gang("x", **gone), gang("y", **gone)], 33))
    assert preemptible(plan) == {"j0", "j1"}


def test_where_all_are_preemptible_those_who_left_change_nothing() -> None:
    gone = [gang(f"g{n}", phase="Interrupted", pods=[], ended=ago(5)) for n in range(8)]
    assert preemptible(plan_classes(snapshot([gang("a"), gang("b", class_=NON_PREEMPTIBLE), *gone], 100))) == {"a", "b"}


def test_a_gang_goes_on_when_a_member_has_finished() -> None:
    plan = plan_classes(snapshot([gang("j", pods=[pod("a"), pod("b", live=False)])], 0))
    assert classes(plan) == {"j": NON_PREEMPTIBLE}
    assert [w.pod.name for w in plan.protect] == ["a"]


# --- cordoned nodes ---


def test_jobs_on_cordoned_nodes_are_preemptible_and_count() -> None:
    """They count, at the place they have: cordoning changes the class of nobody else."""
    gangs = [gang(f"j{n}", started=100 * n + 1, node=f"n{n}") for n in range(6)]
    before = preemptible(plan_classes(snapshot(gangs, 50)))
    for node in range(6):
        after = preemptible(plan_classes(snapshot(gangs, 50, cordoned=[f"n{node}"])))
        assert after == before | {f"j{node}"}


def test_one_pod_on_a_cordoned_node_is_enough() -> None:
    subject = gang("j", pods=[pod("a", node="n1"), pod("b", node="n2")])
    plan = plan_classes(snapshot([subject], 0, cordoned=["n2"]))
    assert classes(plan) == {"j": PREEMPTIBLE}
    finished = gang("j", pods=[pod("a", node="n1"), pod("b", node="n2", live=False)])
    assert classes(plan_classes(snapshot([finished], 0, cordoned=["n2"]))) == {"j": NON_PREEMPTIBLE}


def test_cordoned_nodes_count_without_fresh_levels_too() -> None:
    plan = plan_classes(snapshot([gang("j", class_=NON_PREEMPTIBLE)], None, cordoned=["node-1"]))
    assert classes(plan) == {"j": PREEMPTIBLE}


# --- without fresh levels ---


def test_the_last_classes_are_kept() -> None:
    gangs = [
        gang("cheap-protected", started=1, class_=NON_PREEMPTIBLE),
        gang("dear-preemptible", started=1000),
        gang("new", started=2, class_=""),
    ]
    plan = plan_classes(snapshot(gangs, None, budgets={"lab": True}))
    assert preemptible(plan) == {"dear-preemptible", "new"}
    assert not plan.changes
    assert not plan.protect


@pytest.mark.parametrize(
    ("labels", "status", "expected"),
    [
        (["", ""], "", PREEMPTIBLE),
        (["", NON_PREEMPTIBLE], "", PREEMPTIBLE),
        ([PREEMPTIBLE, NON_PREEMPTIBLE], NON_PREEMPTIBLE, NON_PREEMPTIBLE),
        ([PREEMPTIBLE, NON_PREEMPTIBLE], PREEMPTIBLE, PREEMPTIBLE),
        ([NON_PREEMPTIBLE, NON_PREEMPTIBLE], PREEMPTIBLE, NON_PREEMPTIBLE),
        (["nonsense"], NON_PREEMPTIBLE, PREEMPTIBLE),
    ],
)
def test_the_label_is_the_truth(labels: list[str], status: str, expected: str) -> None:
    members = [pod(f"p{n}", class_=label) for n, label in enumerate(labels)]
    assert current_class(gang(pods=members, class_=status)) == expected


def test_a_gang_half_labelled_is_made_whole() -> None:
    members = [pod("a", class_=NON_PREEMPTIBLE, written=600), pod("b", written=600)]
    plan = plan_classes(snapshot([gang("j", pods=members, class_=NON_PREEMPTIBLE)], None, budgets={"lab": True}))
    assert [w.pod.name for w in plan.protect] == ["b"]


# --- writes ---


def test_a_swap_protects_before_it_unprotects() -> None:
    gangs = [
        gang("up", started=1000),
        gang("down", started=10, class_=NON_PREEMPTIBLE),
    ]
    plan = plan_classes(snapshot(gangs, 50))
    assert plan.budgets_needed == ("lab",)
    assert plan.protect == (PodWrite(gangs[0].pods[0], NON_PREEMPTIBLE, 1000),)
    assert plan.unprotect == (PodWrite(gangs[1].pods[0], PREEMPTIBLE, 10),)
    assert {v.gang.job.name for v in plan.changes} == {"up", "down"}
    assert plan.writes == 3


def steps(share: float, protected: int, bare: int) -> list[list[str]]:
    """The steps for so many jobs with little at risk that are protected, and so many with much at risk that are not."""
    low = [gang(f"low{n}", started=10 + n, class_=NON_PREEMPTIBLE) for n in range(protected)]
    high = [gang(f"high{n}", started=1000 + n) for n in range(bare)]
    return [[w.pod.job for w in step] for step in plan_classes(snapshot([*low, *high], share)).class_steps]


def test_who_makes_room_for_somebody_loses_protection_first_and_who_only_gains_it_comes_last() -> None:
    assert steps(100, 3, 0) == [["low0", "low1", "low2"], [], [], []]
    assert steps(0, 0, 2) == [[], [], [], ["high1", "high0"]]
    assert steps(50, 2, 2) == [[], ["high1", "high0"], ["low0", "low1"], []]
    assert steps(75, 3, 1) == [["low0", "low1"], ["high0"], ["low2"], []]
    assert steps(25, 1, 3) == [[], ["high2"], ["low0"], ["high1", "high0"]]


def test_most_at_risk_is_protected_first_and_least_at_risk_unprotected_first() -> None:
    gangs = [gang(f"j{n}", started=10 * n + 61) for n in range(4)]
    assert [w.pod.name for w in plan_classes(snapshot(gangs, 0)).protect] == ["j3-0", "j2-0", "j1-0", "j0-0"]
    protected = [gang(f"j{n}", started=10 * n + 61, class_=NON_PREEMPTIBLE) for n in range(4)]
    plan = plan_classes(snapshot(protected, 100, budgets={"lab": True}))
    assert [w.pod.name for w in plan.unprotect] == ["j0-0", "j1-0", "j2-0", "j3-0"]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, 0, True),
        (0, 0, False),
        (0, 59, False),
        (0, 60, True),
        (60, 0, True),
        (100, 199, False),
        (100, 200, True),
        (1000, 1999, False),
        (1000, 2000, True),
        (1800, 0, True),
        (1800, 899, True),
        (1800, 901, False),
        (1800, 1800, False),
    ],
)
def test_moved_enough(old: int | None, new: int, expected: bool) -> None:
    assert moved(old, new, 60, 1.0) is expected


def test_thresholds_of_zero_write_every_difference_and_nothing_else() -> None:
    assert moved(5, 6, 0, 0.0)
    assert not moved(5, 5, 0, 0.0)


def test_the_figure_alone() -> None:
    members = [pod("a", written=100, class_=NON_PREEMPTIBLE), pod("b", written=1200, class_=NON_PREEMPTIBLE)]
    drifted = gang("j", pods=members, class_=NON_PREEMPTIBLE)
    plan = plan_classes(snapshot([drifted], 0))
    assert plan.refresh == (PodWrite(drifted.pods[0], None, 1200),)
    assert not plan.protect
    assert not plan.unprotect


@pytest.mark.parametrize("minutes", [2, 3, 10, 29])
def test_protection_costs_a_label_and_no_figure_that_schedulers_can_tell_themselves(minutes: int) -> None:
    born = pod("p", written=None, started=ago(60 * minutes))
    subject = gang("j", started=60 * minutes, pods=[born])
    plan = plan_classes(snapshot([subject], 0, rules=Rules(), budgets={"lab": True}))
    assert plan.protect == (PodWrite(born, NON_PREEMPTIBLE, None),)
    protected = alter(born, class_=NON_PREEMPTIBLE)
    subject = gang("j", started=60 * minutes, pods=[protected], class_=NON_PREEMPTIBLE)
    assert plan_classes(snapshot([subject], 0, rules=Rules(), budgets={"lab": True})).writes == 0


def test_a_figure_that_schedulers_cannot_tell_comes_with_the_class() -> None:
    born = pod("p", written=None, started=ago(HALF_HOUR + 10), cost=2000)
    subject = gang("j", started=HALF_HOUR + 10, pods=[born])
    plan = plan_classes(snapshot([subject], 0, rules=replace(NO_STARTUP, window=0)))
    assert plan.protect == (PodWrite(born, NON_PREEMPTIBLE, 20),)


def test_what_the_scheduler_would_take_for_a_fortune_is_put_right() -> None:
    """It knows nothing of start-overs: half an hour and ten seconds on two cores are ten seconds at risk."""
    born = pod("p", written=None, started=ago(HALF_HOUR + 10), cost=2000)
    subject = gang("j", started=HALF_HOUR + 10, pods=[born])
    assert cpu_seconds(estimated_at_risk(subject.pods, NOW)) == 2 * (HALF_HOUR + 10 + 60)
    plan = plan_classes(snapshot([subject], 100))
    assert plan.refresh == (PodWrite(born, None, 20),)


def test_what_the_scheduler_does_not_see_is_written() -> None:
    """Nine members have finished, and it sees one that runs: a tenth of what is at risk."""
    runs = pod("p", written=None, started=ago(600), cost=1000)
    finished = [pod(f"q{n}", written=None, started=ago(600), cost=1000, live=False, finished=True) for n in range(9)]
    subject = gang("j", started=600, pods=[runs, *finished], parallelism=10)
    assert plan_classes(snapshot([subject], 100)).refresh == (PodWrite(runs, None, 6000),)


@pytest.mark.parametrize(("ago_", "quiet"), [(0, True), (59, True), (60, False), (-1, False)])
def test_figures_are_written_once_a_minute_and_classes_at_once(ago_: float, quiet: bool) -> None:
    """A write from the future is another clock."""
    protected = gang("p", started=1500, class_=NON_PREEMPTIBLE)
    changes = gang("c", started=1000)
    found = snapshot([protected, changes], 0, budgets={"lab": True})
    found = replace(found, written_at={"lab/p": ago(ago_), "lab/c": ago(ago_)})
    plan = plan_classes(found)
    assert [w.pod.name for w in plan.refresh] == ([] if quiet else ["p-0"])
    assert [w.pod.name for w in plan.protect] == ["c-0"]


def test_pods_of_a_starting_job_stay_preemptible() -> None:
    odd = pod("odd", class_=NON_PREEMPTIBLE)
    plan = plan_classes(snapshot([gang("j", phase="Starting", pods=[odd, pod("even")], class_="")]))
    assert plan.unprotect == (PodWrite(odd, PREEMPTIBLE, None),)
    assert plan.writes == 1


def test_pods_of_a_job_that_leaves_are_left_alone() -> None:
    members = [pod("a", class_=NON_PREEMPTIBLE, live=False, terminating=True), pod("b", class_=NON_PREEMPTIBLE)]
    plan = plan_classes(snapshot([gang("j", pods=members, class_=NON_PREEMPTIBLE)], 100))
    assert plan.writes == 0


# --- budgets ---


def test_without_budgets_the_label_alone_protects() -> None:
    """For clusters whose scheduler reads it: a budget would keep an autoscaler from removing the node."""
    plan = plan_classes(snapshot([gang("j")], 0, rules=Rules(budgets=False), budgets={"lab": True}))
    assert (plan.budgets_needed, plan.budgets_surplus) == ((), ("lab",))
    assert [write.class_ for write in plan.protect] == [NON_PREEMPTIBLE]


@pytest.mark.parametrize(
    ("present", "percentage", "needed", "surplus"),
    [
        ({}, 0, ("lab",), ()),
        ({"lab": True}, 0, (), ()),
        ({"lab": False}, 0, ("lab",), ()),
        ({"lab": True}, 100, (), ()),
        ({"lab": False}, 100, (), ("lab",)),
        ({"elsewhere": True}, 0, ("lab",), ()),
        ({"lab": None}, 0, (), ()),
        ({"lab": None}, 100, (), ()),
        ({}, 100, (), ()),
    ],
)
def test_budgets(
    present: dict[str, bool | None], percentage: float, needed: tuple[str, ...], surplus: tuple[str, ...]
) -> None:
    plan = plan_classes(snapshot([gang("j")], percentage, budgets=present))
    assert (plan.budgets_needed, plan.budgets_surplus) == (needed, surplus)


@pytest.mark.parametrize(
    ("class_", "exempt", "lone", "expected"),
    [
        (PREEMPTIBLE, False, {"node-1"}, True),
        (PREEMPTIBLE, False, set(), None),
        (NON_PREEMPTIBLE, False, {"node-1"}, True),
        (NON_PREEMPTIBLE, False, {"node-2"}, None),
        (NON_PREEMPTIBLE, True, {"node-1"}, None),
        (NON_PREEMPTIBLE, True, set(), False),
        (NON_PREEMPTIBLE, True, None, None),
        (NON_PREEMPTIBLE, False, None, None),
    ],
)
def test_the_budget_leaves_out_non_preemptible_pods_on_nodes_without_an_ordinary_pod(
    class_: str, exempt: bool, lone: set[str] | None, expected: bool | None
) -> None:
    """Karpenter asks budgets before it removes a node. A pod that becomes protected costs one patch."""
    members = (pod("a", class_=class_, exempt=exempt, job="j", written=600),)
    before = snapshot([gang("j", pods=members, class_=class_)], 0, budgets={"lab": True})
    before = replace(before, lone=None if lone is None else frozenset(lone))
    plan = plan_classes(before)
    writes = [*plan.cover, *plan.protect, *plan.unprotect, *plan.refresh]
    assert [write.exempt for write in writes] == ([expected] if class_ == PREEMPTIBLE or expected is not None else [])
    assert len(plan.cover) == (expected is False), "an ordinary pod needs the other jobs of the node first"
    assert not plan_classes(carried_out(plan, before)).writes


def test_a_pod_that_loses_its_class_keeps_the_label_that_says_nothing_then() -> None:
    members = (pod("a", class_=NON_PREEMPTIBLE, exempt=True, job="j"),)
    plan = plan_classes(snapshot([gang("j", pods=members, class_=NON_PREEMPTIBLE)], 100, budgets={"lab": True}))
    assert [(write.class_, write.exempt) for write in plan.unprotect] == [(PREEMPTIBLE, None)]
    assert not plan.cover


def test_a_node_counts_as_lone_when_no_ordinary_pod_has_been_on_it_for_long_enough() -> None:
    now, since = 1000, dict[str, int]()
    seen = []
    for held in ([], ["a"], [], [], [], ["a"]):
        lone, since = lone_nodes(["a", "b"], held, {"b"}, since, now, 20)
        seen.append(sorted(lone))
        now += 10
    assert seen == [["b"], ["b"], ["b"], ["b"], ["a", "b"], ["b"]]
    assert lone_nodes(["a"], (), (), {"gone": 5}, now, 20) == (frozenset(), {"a": now})


def test_a_budget_that_protects_nothing_goes_after_an_hour() -> None:
    found = snapshot([gang("j")], 100, budgets={"lab": True})
    plan = plan_classes(found)
    assert plan.idle_budgets == {"lab": NOW}
    for later, surplus in ((3599, ()), (3600, ("lab",))):
        again = replace(found, now=ago(-later), idle_budgets=plan.idle_budgets)
        assert plan_classes(again).budgets_surplus == surplus
    needed = replace(found, share=published(0), idle_budgets=plan.idle_budgets)
    assert plan_classes(needed).idle_budgets == {}, "and begins anew when it has protected somebody meanwhile"


def started_over(name: str, seconds: float, cost: int = 1000, **facts: Any) -> Gang:
    return gang(name, started=HALF_HOUR + seconds, cost=cost, **facts)


def test_a_job_that_starts_over_is_preemptible_whatever_its_place_and_beside_the_others() -> None:
    """A hundred cores for six seconds are more than a core for nine minutes, and ranked last of ten."""
    others = [gang(f"j{n}", started=60 * n + 1, class_=NON_PREEMPTIBLE) for n in range(9)]
    for seconds, also in ((0, {"large"}), (6, {"large"}), (59, {"large"}), (60, set())):
        subject = started_over("large", seconds, 100_000, class_=NON_PREEMPTIBLE)
        first = {"j0", "j1"} if seconds == 0 else {"j0", "j1", "j2"}  # of no risk at all it is the first by its place
        assert preemptible(plan_classes(snapshot([*others, subject], 30))) == first | also
    reported = gang("large", started=900, cost=100_000, class_=NON_PREEMPTIBLE, checkpoints=(ago(6),))
    assert "large" in preemptible(plan_classes(snapshot([*others, reported], 33)))
    off = replace(NO_STARTUP, window=0)
    assert "large" not in preemptible(plan_classes(snapshot([*others, reported], 33, rules=off)))
    subject = started_over("large", 6, class_=NON_PREEMPTIBLE)
    assert preemptible(plan_classes(snapshot([subject], None))) == set(), "classes are kept"


@pytest.mark.parametrize(
    ("startup", "window", "seconds", "exposed"),
    [
        (60, 60, 0, True),
        (60, 60, 119, True),
        (60, 60, 120, False),
        (0, 60, 59, True),
        (0, 60, 60, False),
        (600, 60, 659, True),
        (60, 0, 0, False),
        (60, 60, -30, True),
    ],
)
def test_a_run_is_preemptible_until_it_has_something_to_lose(
    startup: int, window: int, seconds: float, exposed: bool
) -> None:
    """A restart costs more than it has computed. It has the most at risk, and would be protected by its place."""
    rules = Rules(startup_cost=startup * MICROSECONDS, window=window * MICROSECONDS)
    others = [gang(f"j{n}", started=HALF_HOUR + 100 + n, class_=NON_PREEMPTIBLE) for n in range(9)]
    subject = gang("large", started=seconds, cost=100_000, pods=None)
    plan = plan_classes(snapshot([*others, subject], 10, rules=rules, budgets={"lab": True}))
    assert ("large" in preemptible(plan)) is exposed
    assert [write.pod.job for write in plan.protect] == ([] if exposed else ["large"]), "one patch less a short job"
    kept = plan_classes(snapshot([gang("large", started=seconds, class_=NON_PREEMPTIBLE)], None, rules=rules))
    assert not preemptible(kept), "classes are kept where the percentage is not known"


def test_the_next_pass_is_due_when_the_first_protected_job_starts_over() -> None:
    protected = [gang("a", started=600), gang("b", started=900)]
    assert plan_classes(snapshot(protected, 0)).due == ago(-900)
    assert plan_classes(snapshot(protected, 100)).due is None
    assert plan_classes(snapshot(protected, None)).due is None
    assert plan_classes(snapshot(protected, 0, rules=replace(NO_STARTUP, window=0))).due is None


def test_who_has_lost_its_protection_a_moment_ago_does_not_have_it_back_yet() -> None:
    gangs = [gang("exposed", started=1000), gang("other", started=900), gang("cheap", started=10)]
    for seconds, expected in ((0, {"exposed", "cheap"}), (59, {"exposed", "cheap"}), (60, {"cheap"})):
        found = replace(snapshot(gangs, 33), exposed_at={"lab/exposed": ago(seconds)})
        assert preemptible(plan_classes(found)) == expected
    protected = gang("exposed", started=1000, class_=NON_PREEMPTIBLE)
    found = replace(snapshot([protected, *gangs[1:]], 33), exposed_at={"lab/exposed": ago(1)})
    assert preemptible(plan_classes(found)) == {"cheap"}, "it is protected: somebody else wrote that"


def test_one_budget_per_namespace() -> None:
    gangs = [gang(f"j{n}", namespace=f"team-{n % 2}") for n in range(6)]
    assert plan_classes(snapshot(gangs, 0)).budgets_needed == ("team-0", "team-1")


def test_nothing_to_do_is_no_writes() -> None:
    before = snapshot([gang(f"j{n}", started=100 * n + 1) for n in range(20)], 33)
    assert plan_classes(carried_out(plan_classes(before), before)).writes == 0


def test_the_next_seconds_cost_no_writes() -> None:
    before = snapshot([gang(f"j{n}", started=100 * n + 600) for n in range(10)], 33)
    after = carried_out(plan_classes(before), before)
    assert plan_classes(replace(after, now=NOW + 15 * MICROSECONDS)).writes == 0


def test_no_gangs() -> None:
    plan = plan_classes(snapshot([]))
    assert plan.verdicts == ()
    assert plan.writes == 0


def test_a_job_without_any_time_is_as_old_as_time() -> None:
    """Nothing recorded at all: the order still holds and the cap does too."""
    subject = Gang(job("j", started=None), (pod("p"),))
    assert 0 <= at_risk(subject) < HALF_HOUR


def test_what_the_scheduler_would_take_follows_the_start_up_cost_that_both_read() -> None:
    """A figure is written where its estimate is not near enough, by the same start-up cost."""
    born = pod("p", written=None, started=ago(100), cost=1000)
    subject = gang("j", started=100, pods=[born])
    for cost in (0, 60, 3600):
        rules = Rules(startup_cost=cost * MICROSECONDS, window=0)
        assert not plan_classes(snapshot([subject], 100, rules=rules)).refresh, cost
