"""Who goes before a node runs out of memory, and who does not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scavenger_regulator.core.eviction.plan import Candidate
from scavenger_regulator.core.load import Trust
from scavenger_regulator.core.reclaimed.node_memory import (
    NodeMemoryPlan,
    Trend,
    plan_node_memory,
    update_trends,
)
from scavenger_regulator.core.rules import NodeMemoryRules
from scavenger_regulator.core.snapshot import Gang, Measurement, RecentTermination, Snapshot

from tests.unit.regulator.builders import GIB, NOW, ago, figures, gang, names, node, snapshot

RULES = NodeMemoryRules()
UPPER = 90.0


def reclaimed(name: str, started: float = 600, **facts: Any) -> Gang:
    """Of 100 GiB each GiB is a point; one that started later has less at risk."""
    return gang(name, started, pod_reclaimed=True, **facts)


def seen(*gangs: Gang, used: float, each: float | Mapping[str, float] = 5.0, **facts: Any) -> Snapshot:
    """One node of 100 GiB that uses so many; each pod of a gang the same, or what its job's name says."""
    pods = {}
    for one in gangs:
        own = each if isinstance(each, float | int) else each.get(one.key.removeprefix("lab/"))
        if own is not None:
            pods.update({p.key: figures(0.5, own * GIB) for p in one.pods})
    facts.setdefault("measurement", Measurement({"node-1": figures(5, used * GIB)}, pods))
    return snapshot(gangs, **facts)


def plan(
    made: Snapshot, trend: Trend | None = None, rules: NodeMemoryRules = RULES, **kwargs: Any
) -> NodeMemoryPlan | None:
    found = plan_node_memory(made, {"node-1": UPPER}, {"node-1": trend or Trend()}, rules, **kwargs)
    return found[0] if found else None


def victims(found: NodeMemoryPlan | None) -> list[str]:
    return names(found.victims) if found else []


def rising(*gib: float, every: float = 30) -> Trend:
    """The last samples, the newest ten seconds ago."""
    trend = Trend()
    for number, used in enumerate(gib):
        trend = trend.add(ago(10 + (len(gib) - 1 - number) * every), used * GIB)
    return trend


# --- trends -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("course", "per_minute"),
    [
        ([], 0),
        ([50], 0),
        ([50, 60], 0),  # two samples are no trend
        ([50, 55, 60], 10),
        ([50, 50, 60], 0),  # a jump
        ([50, 60, 60], 0),
        ([50, 52, 60], 4),  # the least of both
        ([60, 55, 50], 0),
        ([10, 50, 51, 52], 2),  # only the last ones
    ],
)
def test_growth(course: list[float], per_minute: float) -> None:
    assert rising(*course).growth * 60 == pytest.approx(per_minute * GIB)


def test_a_sample_looked_at_twice_and_a_clock_set_back() -> None:
    trend = rising(50, 55, 60)
    assert trend.add(ago(10), 99 * GIB) is trend
    assert trend.add(ago(20), 70 * GIB).samples == ((ago(20), 70 * GIB),)


def test_follows_what_can_be_believed_and_forgets_who_is_gone() -> None:
    known = {"node-1": rising(50), "gone": rising(50)}
    followed = update_trends(known, seen(used=60), Trust())
    assert set(followed) == {"node-1"}
    assert len(followed["node-1"].samples) == 1, "the same moment"
    later = seen(used=60, now=NOW + timedelta(seconds=30), measurement=Measurement({"node-1": figures(5, 500 * GIB)}))
    assert update_trends(followed, later, Trust()) == followed
    assert update_trends(followed, replace(later, measurement=Measurement(failed="no")), Trust()) == followed


# --- who goes -----------------------------------------------------------------------------------------------


def test_under_the_upper_level_nobody_goes() -> None:
    assert plan(seen(reclaimed("a"), used=89.9)) is None


def test_those_with_least_at_risk_go_until_it_is_under_by_the_hysteresis() -> None:
    jobs = [reclaimed(f"j{i}", started=100 * (i + 1)) for i in range(6)]
    found = plan(seen(*jobs, used=91, each=2.0))
    assert found is not None
    assert victims(found) == ["j0", "j1"]  # 3 points to 88
    assert (found.load, found.short) == (91, 0)


def test_whom_nobody_needs_stays() -> None:
    jobs = [reclaimed("small", started=100), reclaimed("big", started=120)]
    assert victims(plan(seen(*jobs, used=91, each={"small": 0.1, "big": 4}))) == ["big"]


def test_a_gang_goes_whole_and_counts_with_what_it_uses_here() -> None:
    there = gang("gang", 100, pods=3, pod_reclaimed=True)
    pods = (there.pods[0], replace(there.pods[1], node="node-2"), there.pods[2])
    spread = replace(there, pods=pods)
    found = plan(seen(spread, reclaimed("other", started=1700), used=91, each=1.4))
    assert victims(found) == ["gang", "other"], "2.8 points here, of 3"


def test_what_it_will_be_in_two_periods_counts() -> None:
    job = reclaimed("a")
    assert plan(seen(job, used=85)) is None
    assert plan(seen(job, used=85), rising(81, 83, 85)) is None, "89 in a minute"
    found = plan(seen(job, used=85), rising(79, 82, 85))
    assert victims(found) == ["a"]
    assert found is not None
    assert found.projected == pytest.approx(91)
    assert plan(seen(job, used=85), rising(79, 79, 85)) is None, "a jump is no trend"


def test_guaranteed_jobs_are_no_victims() -> None:
    assert plan(seen(gang("guaranteed"), used=99)) is None
    found = plan(seen(gang("guaranteed", started=1), reclaimed("a"), used=99))
    assert victims(found) == ["a"]
    assert found is not None
    assert found.short == pytest.approx(6)


def test_what_is_leaving_already_is_enough() -> None:
    leaving = reclaimed("leaving", pod_deletion_deadline=NOW)
    assert plan(seen(leaving, reclaimed("a"), used=92)) is None
    guaranteed = gang("leaving", pod_deletion_deadline=NOW)
    assert plan(seen(guaranteed, reclaimed("a"), used=92)) is None
    gone = RecentTermination("node-1", {"memory": 4 * GIB}, ago(15))
    assert plan(seen(reclaimed("a"), used=92, recent_terminations=(gone,))) is None
    assert plan(seen(reclaimed("a"), used=92, recent_terminations=(replace(gone, at=ago(90)),))) is not None


def test_whom_another_rule_takes_is_not_taken_twice() -> None:
    jobs = [reclaimed("a", started=100), reclaimed("b", started=200)]
    assert plan(seen(*jobs, used=92), taken={"uid-a"}) is None
    assert victims(plan(seen(*jobs, used=97), taken={"uid-a"})) == ["b"]


def test_whom_a_budget_covers_cannot_go_and_that_is_said() -> None:
    covered = reclaimed("covered", started=10, pod_preemptible=False)
    found = plan(seen(covered, reclaimed("a"), used=97))
    assert found is not None
    assert (victims(found), found.protected) == (["a"], 1)
    assert found.short == pytest.approx(4)
    alone = plan(seen(covered, used=97))
    assert alone is not None
    assert (victims(alone), alone.protected) == ([], 1)
    assert alone.short == pytest.approx(9)


def test_whose_eviction_was_refused_is_left_alone() -> None:
    jobs = [reclaimed("a", started=100), reclaimed("b", started=200)]
    found = plan(seen(*jobs, used=91, refused=frozenset({"uid-a"})))
    assert found is not None
    assert (victims(found), found.protected) == (["b"], 1)


def test_without_a_figure_nothing_is_known_of_it() -> None:
    jobs = [reclaimed("a", started=100), reclaimed("b", started=200)]
    assert victims(plan(seen(*jobs, used=91, each={"b": 5}))) == ["b"]


def test_used_cpu_time_decides_where_it_is_known() -> None:
    jobs = [reclaimed("idle", started=1700), reclaimed("busy", started=100)]
    used = {"pod-idle-0": 1.0, "pod-busy-0": 99.0}
    made = seen(*jobs, used=91, cpu_time=lambda uid, since, until: used[uid])
    assert victims(plan(made)) == ["idle"]


def test_bounded_per_period_over_all_nodes() -> None:
    jobs = [reclaimed(f"j{i}", started=100 * (i + 1)) for i in range(6)]
    found = plan(seen(*jobs, used=95, each=1.0), rules=replace(RULES, max_victims=2))
    assert found is not None
    assert (victims(found), found.postponed) == (["j0", "j1"], True)


def test_a_cordoned_node_runs_out_of_memory_as_well() -> None:
    made = seen(reclaimed("a"), used=95, nodes={"node-1": node(counts=False)})
    assert victims(plan(made)) == ["a"]


@pytest.mark.parametrize(
    "facts",
    [
        {"measurement": Measurement()},
        {"measurement": Measurement(failed="no answer")},
        {"measurement": Measurement({"node-1": figures(5, 95 * GIB, age=91)})},
        {"measurement": Measurement({"node-1": figures(5, 950 * GIB)})},
        {"started": ago(20)},  # what the predecessor did is not known
        {"nodes": {}},
    ],
)
def test_without_a_figure_to_rely_on_nobody_goes(facts: dict[str, Any]) -> None:
    assert plan(seen(reclaimed("a"), used=95, **facts)) is None


def test_where_no_level_is_in_force_nobody_goes() -> None:
    assert plan_node_memory(seen(reclaimed("a"), used=95), {}, {}, RULES) == ()


@given(
    used=st.floats(0, 110),
    jobs=st.lists(
        st.tuples(st.floats(0.1, 20), st.floats(1, 1700), st.booleans(), st.booleans()), min_size=1, max_size=12
    ),
    growth=st.floats(0, 5),
)
def test_as_many_as_needed_and_not_one_more(
    used: float, jobs: list[tuple[float, float, bool, bool]], growth: float
) -> None:
    gangs = [
        gang(f"j{i}", started, pod_reclaimed=on_reclaimed, pod_preemptible=preemptible)
        for i, (_, started, on_reclaimed, preemptible) in enumerate(jobs)
    ]
    each = {f"j{i}": memory for i, (memory, *_) in enumerate(jobs)}
    found = plan(seen(*gangs, used=used, each=each), rising(used - 2 * growth, used - growth, used))
    if found is None:
        return
    assert all(pod.reclaimed and pod.preemptible for v in found.victims for pod in v.gang.pods)
    assert found.projected >= UPPER
    gap = found.projected - (UPPER - RULES.hysteresis)

    def freed(chosen: tuple[Candidate, ...]) -> float:
        return sum(v.frees["memory"] for v in chosen)

    assert found.short == pytest.approx(max(0.0, gap - freed(found.victims)), abs=1e-6)
    willing = [one for one in gangs if one.pods[0].reclaimed and one.pods[0].preemptible]
    if found.short > 1e-6:
        assert len(found.victims) == len(willing)
    else:
        for victim in found.victims:
            rest = tuple(v for v in found.victims if v is not victim)
            assert freed(rest) < gap + 1e-6, f"{victim.gang.key} was not needed"
