"""Capacity that jobs leave free for regular pods that may come: how much on which node, and who starts there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from scavenger_admitter.core.admission.cycle.plan import AdmissionPlan, plan_admissions
from scavenger_admitter.core.admission.load import PPM, Level, LoadRule
from scavenger_admitter.core.admission.placement.inputs import Amounts, NodeView, PendingPod
from scavenger_admitter.core.admission.snapshot import Snapshot, Turn
from scavenger_admitter.core.admission.view.state import ClusterState
from scavenger_api.reasons import WaitReason
from scavenger_domain.expected_pods import kept_for_regular_pods
from scavenger_kube.kinds import Node
from scavenger_testing.builders import node_dict

from .test_plan import GI, NOW, SECOND, job, node, places, shape, snapshot

TENTH = PPM // 10


def with_jobs(name: str, cpu: int, regular: int, jobs: int, **more: Any) -> NodeView:
    return node(name, cpu, regular + jobs, scavenger={"cpu": jobs * 1000, "memory": jobs * GI, "pods": jobs}, **more)


# --- how much ---

LARGE, SMALL, SMALLER = with_jobs("large", 40, 8, 20), with_jobs("small", 30, 0, 0), with_jobs("smaller", 30, 0, 0)
GPU = with_jobs("gpu", 100, 0, 0, pool="gpu")


@pytest.mark.parametrize(
    ("nodes", "kept", "turns", "expected"),
    [
        ([LARGE, SMALL, SMALLER], {"": {"cpu": TENTH}}, (), {"large": {"cpu": 10_000}}),
        ([LARGE, SMALL, SMALLER], {"": {"cpu": 4 * TENTH}}, (), {"large": {"cpu": 32_000}, "small": {"cpu": 8_000}}),
        ([LARGE, SMALL], {"": {"memory": TENTH}}, (), {"large": {"memory": 128 * GI // 10}}),
        ([LARGE, SMALL, SMALLER], {"": {"cpu": TENTH}}, ("large",), {"small": {"cpu": 10_000}}),
        ([replace(LARGE, schedulable=False), SMALL], {"": {"cpu": TENTH}}, (), {"small": {"cpu": 7_000}}),
        ([replace(LARGE, counts=False), SMALL], {"": {"cpu": TENTH}}, (), {"small": {"cpu": 3_000}}),
        ([LARGE, GPU], {"": {"cpu": TENTH}, "gpu": {}}, (), {"large": {"cpu": 4_000}}),
        ([LARGE, GPU], {"": {}, "gpu": {"cpu": TENTH}}, (), {"gpu": {"cpu": 10_000}}),
        ([LARGE, GPU], {"": {"cpu": TENTH}}, (), {"gpu": {"cpu": 14_000}}),
        ([with_jobs("over", 10, 12, 0)], {"": {"cpu": TENTH}}, (), {}),
    ],
    ids=[
        "a tenth", "where jobs run", "memory", "a turn", "cordoned", "does not count", "a pool", "another pool",
        "a pool without levels", "nothing left",
    ],
)  # fmt: skip
def test_it_is_kept_on_the_largest_nodes(
    nodes: list[NodeView], kept: dict[str, Amounts], turns: tuple[str, ...], expected: dict[str, Amounts]
) -> None:
    assert kept_for_regular_pods(nodes, kept, turns) == expected


def test_the_levels_say_how_much_of_each_pool() -> None:
    levels = {"cpu": Level(10, 80, kept=12.5), "memory": Level(10, 80)}
    rule = LoadRule.published(levels, observed_at=NOW, now=NOW, period_seconds=30)
    assert rule.kept == {"": {"cpu": PPM // 8}}
    none = LoadRule.published(dict.fromkeys(levels, Level(10, 80)), observed_at=NOW, now=NOW, period_seconds=30)
    assert none.kept == {}
    assert replace(none, pools={"gpu": rule}).kept == {"": {}, "gpu": {"cpu": PPM // 8}}
    state = ClusterState()
    state.apply_node(msgspec.convert(node_dict("n", cpu="8", memory="8Gi"), Node))
    assert state.snapshot(now=NOW, rule=rule).expected == {"n": {"cpu": 1000}}
    assert state.snapshot(now=NOW, rule=none).expected == {}


# --- who starts ---


def test_no_job_starts_there_and_regular_pods_do() -> None:
    """By requests the large node is the emptier one, and the scheduler's choice: so each job is bound to its node."""
    nodes = [node("large", 16), node("small", 8, used=2)]
    jobs = [job(f"j{i}", 2) for i in range(6)]
    waits = PendingPod("web", shape(10))
    seen = snapshot(nodes, jobs, expected={"large": {"cpu": 12_000}})
    found = plan_admissions(seen)
    assert sorted(places(found).values()) == [("large",), ("large",), ("small",), ("small",), ("small",)]
    assert {start.target.only for start in found.starts} == {("large",), ("small",)}
    assert found.held["j5"].reason is WaitReason.NO_PLACE
    assert found.held["j5"].message.endswith("as more is kept for regular pods that may come at this hour (keptRoom)")
    found = plan_admissions(replace(seen, pending=(waits,)))
    assert found.promised == ("web",), "what is kept is kept for it"
    assert sorted(places(found).values()) == [("small",), ("small",), ("small",)]


def test_jobs_that_run_there_stay_and_none_starts_where_one_ends() -> None:
    full, half = with_jobs("n", 8, 0, 8), with_jobs("n", 8, 0, 4)
    expected = {"n": {"cpu": 4000}}
    assert places(plan_admissions(snapshot([full], [job("a")], expected=expected))) == {}
    assert places(plan_admissions(snapshot([half], [job("a")], expected=expected))) == {}
    less = with_jobs("n", 8, 0, 3)
    assert places(plan_admissions(snapshot([less], [job("a")], expected=expected))) == {"a": ("n",)}


def test_who_was_interrupted_for_nobody_comes_back_there() -> None:
    waits = job("a", 4)
    found = plan_admissions(snapshot([node("n")], [waits], returning=(waits,), expected={"n": {"cpu": 6000}}))
    assert places(found) == {"a": ("n",)}


def test_a_job_that_fits_nowhere_else_has_its_turn_there() -> None:
    """And one that fits elsewhere, when jobs have left, has it elsewhere."""
    large, middle = (job(name, cpu, queued_at=NOW - 7200 * SECOND) for name, cpu in (("large", 12), ("middle", 6)))
    nodes = [with_jobs("big", 16, 0, 2), with_jobs("small", 8, 0, 7)]

    def cycle(turn: Turn | None, *jobs: Any) -> AdmissionPlan:
        turns = () if turn is None else (turn,)
        on = {name for one in turns for name in one.nodes}
        kept = kept_for_regular_pods(nodes, {"": {"cpu": 5 * TENTH}}, on)
        return plan_admissions(snapshot(nodes, list(jobs), turns=turns, expected=kept))

    small = job("small", 1, queued_at=NOW)
    found = cycle(None, large, small)
    assert places(found) == {"small": ("big",)}
    assert [turn.candidate.key for turn in found.turns] == ["large"]
    (turn,) = cycle(found.turns[0], large).turns
    assert turn.nodes == ("big",)
    assert places(cycle(turn, large)) == {"large": ("big",)}
    (turn,) = cycle(Turn(middle), middle).turns
    assert turn.nodes == ("small",)


def test_nothing_changes_where_nothing_is_kept() -> None:
    seen: Snapshot = snapshot([node("n")], [job("a"), job("b", 9)])
    assert plan_admissions(replace(seen, expected={})) == plan_admissions(seen)
    assert plan_admissions(seen).starts[0].target.only == ()
