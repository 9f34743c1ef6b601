"""What a plan costs does not grow with nodes times shapes: anybody may submit as many different shapes as they like.

Counted are calls of Python functions, which do not depend on the machine.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import pytest
from scavenger_admitter.core.admission.cycle import gang_looks
from scavenger_admitter.core.admission.cycle.plan import MOST_PODS_PER_CYCLE, plan_admissions
from scavenger_admitter.core.admission.placement import placement
from scavenger_admitter.core.admission.placement.inputs import NodeView, PendingPod
from scavenger_admitter.core.admission.shape import Shape
from scavenger_admitter.core.admission.snapshot import Candidate, QueueView, Snapshot
from scavenger_api.reasons import WaitReason

pytestmark = pytest.mark.slow

GI = 1 << 30
SECOND = 1_000_000
SHAPES = 200


def calls(function: Callable[[], Any]) -> int:
    """How many functions that one calls, all told."""
    count = 0

    def profile(_frame: FrameType, event: str, _arg: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(profile)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


def nodes(count: int) -> dict[str, NodeView]:
    """Nodes of two sizes, with 10 to 60 % of them free; none is like another."""
    found = {}
    for i in range(count):
        cores = (16, 32)[i % 2]
        offered = {"cpu": cores * 1000, "memory": cores * 4 * GI - 4096 * i, "pods": 110}
        used = {
            "cpu": cores * (400 + (i * 7919) % 500),
            "memory": cores * 4 * GI * (400 + (i * 104_729) % 500) // 1000,
            "pods": 1,
        }
        labels = {"kubernetes.io/hostname": f"n{i:05}", "zone": f"z{i % 4}"}
        found[f"n{i:05}"] = NodeView(f"n{i:05}", offered, used, labels=labels)
    return found


def shape(cpu: int, memory: int = GI, selector: dict[str, str] | None = None) -> Shape:
    return Shape.of({"cpu": cpu, "memory": memory}, selector)


def line(make: Callable[[int], Shape], pods: int = 1, count: int = SHAPES) -> dict[str, tuple[Candidate, ...]]:
    return {"default": tuple(Candidate(f"j{i}", f"u{i:04}", "default", make(i), pods) for i in range(count))}


def snapshot(count: int, **more: Any) -> Snapshot:
    return Snapshot(now=SECOND, nodes=nodes(count), queues={"default": QueueView("default")}, **more)


CASES: dict[str, dict[str, Any]] = {
    "never fit": {"candidates": line(lambda i: shape(40_000 + i))},
    "no gang ever fits": {"candidates": line(lambda i: shape(30_000, GI + i), pods=9_000)},
    "fit nowhere now": {"candidates": line(lambda i: shape(24_000 + i))},
    "fit nowhere now by cpu and memory together": {
        "candidates": line(lambda i: shape(18_000 + i, 75 * GI - i * GI // 8))
    },
    "all fit": {"candidates": line(lambda i: shape(100 + i))},
    "every node selected": {
        "candidates": line(lambda i: shape(24_000, GI, {"zone": f"z{i % 4}", "kubernetes.io/hostname": f"n{i:05}"}))
    },
    "ordinary pods wait": {
        "pending": tuple(PendingPod(f"p{i}", shape(24_000 - i)) for i in range(SHAPES)),
        "candidates": line(lambda i: shape(500), count=1),
    },
}


@pytest.mark.parametrize("case", CASES)
def test_four_times_the_nodes_are_not_four_times_the_work(case: str) -> None:
    few, many = snapshot(500, **CASES[case]), snapshot(2_000, **CASES[case])
    work = [calls(partial(plan_admissions, seen)) for seen in (few, many)]
    assert work[1] < 200 * SHAPES + 2_000 * 20, "each shape looks at a few nodes, and all of them are gone through once"
    assert work[1] < 2.5 * work[0] + 2_000 * 20


def test_pending_pods_of_one_shape_are_looked_at_once() -> None:
    pods = tuple(PendingPod(f"p{i}", shape(31_999)) for i in range(1_000))
    seen = snapshot(1_000, pending=pods)
    assert calls(lambda: plan_admissions(seen)) < 40_000


def test_a_cycle_ends_when_it_has_started_many_pods() -> None:
    wide = {f"n{i}": NodeView(f"n{i}", {"cpu": 10**6, "memory": 1000 * GI, "pods": 5_000}) for i in range(4)}
    jobs = line(lambda _: shape(1, 1 << 20), pods=MOST_PODS_PER_CYCLE // 2, count=5)
    plan = plan_admissions(Snapshot(nodes=wide, candidates=jobs, queues={"default": QueueView("default")}))
    assert [start.key for start in plan.starts] == ["j0", "j1"]
    assert plan.truncated
    assert {hold.reason for hold in plan.held.values()} == {WaitReason.NEXT_CYCLE}


def test_gangs_beyond_what_a_cycle_looks_at_have_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "MOST_LOOKS", 1_000)
    monkeypatch.setattr(gang_looks, "MOST_LOOKS", 1_000)
    monkeypatch.setattr(gang_looks, "_IN_TURN", 3)
    jobs = line(lambda i: shape(6_000, GI + i), pods=400, count=40)
    judged: set[str] = set()
    for second in range(40):
        seen = Snapshot(
            now=second * SECOND, nodes=nodes(300), candidates=jobs, queues={"default": QueueView("default")}
        )
        plan = plan_admissions(seen)
        now = {key for key, hold in plan.held.items() if hold.reason is WaitReason.NO_PLACE}
        assert {"j0", "j1"} <= now, "the front of the line is always looked at"
        assert len(now) < 20, "each takes 200 looks or more"
        assert plan.unserved, "the loop is to look again"
        judged |= now
    assert judged == {f"j{i}" for i in range(40)}
