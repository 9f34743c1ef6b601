"""Which jobs on reclaimed capacity are starved, and which of them go."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scavenger_admitter.core.admission.cycle.plan import Measurement, plan_admissions
from scavenger_admitter.core.admission.cycle.starvation import (
    MOST_AT_ONCE,
    MeasuredJob,
    PodUse,
    StarvationPlan,
    StarvationRules,
)
from scavenger_admitter.core.admission.load import PPM, LoadLimit, LoadRule
from scavenger_admitter.core.admission.placement.inputs import NodeView, PendingPod
from scavenger_admitter.core.admission.running import Gang, RunningJob, TerminatingPod
from scavenger_admitter.core.admission.shape import Shape
from scavenger_admitter.core.admission.snapshot import Candidate, QueueView, Snapshot
from scavenger_admitter.core.admission.units import SECOND
from scavenger_api.names import RESOURCE_RECLAIMED_CPU as CPU
from scavenger_api.reclaimed import placed_by

from tests.unit.effort import examples

NOW = 1_800_000_000 * SECOND
RULES = StarvationRules()
LONG_AGO = NOW - round(RULES.patience * RULES.after)


def shape(cpu: int = 2) -> Shape:
    return Shape.of(placed_by({"cpu": cpu * 1000}))


def node(name: str, offers: int, placed: int, **more: Any) -> NodeView:
    """All of its CPU is requested; `offers` and `placed` in reclaimed cores."""
    allocatable = {"cpu": 16_000, "pods": 110, CPU: offers * 1000}
    return NodeView(name, allocatable, {"cpu": 16_000, "pods": 1, CPU: placed * 1000}, **more)


class Run:
    """A running job, what its pods used in millicores (None: not watched), and where."""

    def __init__(self, name: str, *pods: tuple[str, int | None], cpu: int = 2, **more: Any) -> None:
        where = tuple(node for node, _ in pods)
        running = RunningJob(name, name, more.pop("queue", "default"), len(pods), **more)
        self.gang = Gang(running, shape(cpu).requests, where)
        uses = tuple(PodUse(f"{name}-{i}", on, used) for i, (on, used) in enumerate(pods))
        self.measured = MeasuredJob(name, shape(cpu), uses)


def check(
    nodes: list[NodeView],
    runs: list[Run],
    before: dict[str, int] | None = None,
    jobs: tuple[Candidate, ...] = (),
    moving: tuple[Candidate, ...] = (),
    crowded: dict[str, int] | None = None,
    **more: Any,
) -> StarvationPlan:
    """`before`: who has been starved since when. `crowded`: the same of nodes; by default all of them, for ever."""
    snapshot = Snapshot(
        now=NOW,
        nodes={seen.name: seen for seen in nodes},
        queues={"default": QueueView("default")},
        candidates={"default": jobs} if jobs else {},
        gangs=tuple(run.gang for run in runs),
        **more,
    )
    since = dict.fromkeys((seen.name for seen in nodes), 0) if crowded is None else crowded
    last = StarvationPlan((), before or {}, since)
    watch = Measurement(tuple(run.measured for run in runs), last, RULES, moving)
    found = plan_admissions(snapshot, measurement=watch).starvation
    assert found is not None
    return found


def gone(found: StarvationPlan) -> list[str]:
    return [starved.key for starved in found.interrupt]


STARVED = Run("job", ("full", 40))
FULL = node("full", offers=1, placed=2)
ROOM = node("room", offers=4, placed=2)


# --- who is starved ---


@pytest.mark.parametrize(
    ("run", "on", "starved"),
    [
        pytest.param(Run("job", ("full", 399)), FULL, True, id="just under the share"),
        pytest.param(Run("job", ("full", 400)), FULL, False, id="at the share"),
        pytest.param(Run("job", ("full", None)), FULL, False, id="not watched for long enough"),
        pytest.param(STARVED, node("full", offers=2, placed=2), False, id="its node offers enough: it waits for input"),
        pytest.param(Run("job", ("full", 0)), node("full", offers=0, placed=2), True, id="nothing is offered any more"),
        pytest.param(Run("job", ("gone", 0)), FULL, False, id="its node is gone: lost in another way"),
        pytest.param(Run("job", ("room", 2000), ("full", 10)), FULL, True, id="a gang by its slowest pod"),
        pytest.param(Run("job", ("room", 10), ("full", 2000)), FULL, False, id="which has to lack CPU, too"),
        pytest.param(Run("job", ("room", 5), ("full", 90)), FULL, True, id="not only the very slowest"),
    ],
)
def test_who_is_starved(run: Run, on: NodeView, *, starved: bool) -> None:
    found = check([on, ROOM], [run])
    assert list(found.since) == (["job"] if starved else [])
    assert gone(found) == (["job"] if starved else [])


def test_what_was_used_before_a_node_was_crowded_says_nothing() -> None:
    """It waited for its own input, as far as anybody knows; whether it lacks CPU shows from now on."""
    first = check([FULL, ROOM], [STARVED], crowded={})
    assert (first.since, gone(first), first.crowded) == ({}, [], {"full": NOW})
    almost = check([FULL, ROOM], [STARVED], crowded={"full": NOW - RULES.after + 1})
    assert (almost.since, almost.crowded) == ({}, {"full": NOW - RULES.after + 1})
    assert gone(check([FULL, ROOM], [STARVED], crowded={"full": NOW - RULES.after})) == ["job"]
    relieved = check([node("full", offers=2, placed=2)], [STARVED], crowded={"full": 0})
    assert relieved.crowded == {}, "the next time begins anew"


def test_a_node_is_crowded_though_nothing_may_start() -> None:
    found = check([FULL], [STARVED], crowded={"full": NOW - 5}, shut=LoadRule.blind("no figures").shut)
    assert found.crowded == {"full": NOW - 5}


def test_a_pod_that_is_leaving_is_not_placed_any_more() -> None:
    terminating = (TerminatingPod("full", "default", shape(1).requests),)
    assert check([FULL, ROOM], [STARVED], terminating=terminating).since == {}


def test_since_when_is_remembered_and_forgotten() -> None:
    first = check([FULL], [STARVED])
    assert first.since == {"job": NOW - RULES.after}, "that long it was looked at"
    assert check([FULL], [STARVED], {"job": NOW - 3 * RULES.after, "other": 1}).since == {"job": NOW - 3 * RULES.after}
    assert check([FULL], [Run("job", ("full", 1900))], {"job": 1}).since == {}


# --- who goes ---


def test_the_message_has_the_figures() -> None:
    (starved,) = check([FULL, ROOM], [STARVED]).interrupt
    assert starved.detail == (
        "pod job-0 used 40m of 2 cpu over the last 600 s; node full offers 1 cpu of reclaimed capacity and has 2 cpu"
        " placed on it; there is capacity on node room"
    )
    (tired,) = check([FULL], [STARVED], {"job": LONG_AGO}).interrupt
    assert tired.detail.endswith("placed on it; starved for 3600 s, and there is no better place")


@pytest.mark.parametrize(
    ("elsewhere", "more", "expected"),
    [
        pytest.param([ROOM], {}, ["job"], id="room"),
        pytest.param([node("room", 4, 3)], {}, [], id="too little room"),
        pytest.param([node("room", 4, 0, schedulable=False)], {}, [], id="cordoned"),
        pytest.param([ROOM], {"closed_nodes": frozenset({"room"})}, [], id="at its own level"),
        pytest.param([ROOM], {"limits": (LoadLimit("cpu", 10_000, 0, PPM // 2, PPM),)}, ["job"], id="load allows"),
        pytest.param([ROOM], {"limits": (LoadLimit("cpu", 10_000, 0, PPM * 8 // 10, PPM),)}, [], id="load too high"),
        pytest.param([ROOM], {"shut": LoadRule.blind("no figures").shut}, [], id="nothing may start"),
        pytest.param([ROOM], {"jobs": (Candidate("w", "w", "default", shape()),)}, [], id="somebody waits for it"),
        pytest.param([ROOM], {"pending": (PendingPod("p", shape()),)}, [], id="somebody else takes it"),
        pytest.param([], {"before": {"job": LONG_AGO}}, ["job"], id="patience is over"),
        pytest.param([], {"before": {"job": LONG_AGO + SECOND}}, [], id="patience is not over"),
    ],
)
def test_who_is_starved_goes_for_a_better_place_or_time(
    elsewhere: list[NodeView], more: dict[str, Any], expected: list[str]
) -> None:
    found = check([FULL, *elsewhere], [STARVED], **more)
    assert list(found.since) == ["job"]
    assert gone(found) == expected


def test_of_a_gang_only_the_pods_that_lack_cpu_need_another_place() -> None:
    run = Run("job", ("full", 10), ("fine", 1900))
    nodes = [FULL, node("fine", offers=2, placed=2), ROOM]
    assert gone(check(nodes, [run])) == ["job"]
    two = Run("job", ("full", 10), ("full", 10))
    assert gone(check([node("full", 3, 4), ROOM], [two])) == [], "room for one of the two"


def test_a_place_is_counted_on_once_and_the_longest_starved_has_it() -> None:
    runs = [Run("new", ("full", 10)), Run("old", ("full", 300))]
    nodes = [node("full", offers=0, placed=4), ROOM]
    assert gone(check(nodes, runs, {"old": NOW - 2 * RULES.after})) == ["old"]
    assert gone(check(nodes, runs)) == ["new"], "else who got least"


def test_who_went_before_and_has_not_started_again_has_the_first_claim() -> None:
    earlier = Candidate("earlier", "earlier", "default", shape())
    assert gone(check([FULL, ROOM], [STARVED], moving=(earlier,))) == []
    assert gone(check([FULL, node("room", 6, 2)], [STARVED], moving=(earlier,))) == ["job"]
    assert gone(check([FULL, node("room", 4, 2)], [STARVED], jobs=(earlier,), moving=(earlier,))) == [], "it starts"
    assert gone(check([FULL, node("room", 6, 2)], [STARVED], jobs=(earlier,), moving=(earlier,))) == ["job"], (
        "not twice"
    )


def test_no_more_go_than_are_in_excess() -> None:
    runs = [Run(name, ("full", 10)) for name in "abc"]
    nodes = [node("full", offers=4, placed=6), node("room", offers=6, placed=0)]
    found = check(nodes, runs)
    assert gone(found) == ["a"], "what is left has what it needs"
    assert list(found.since) == ["a", "b", "c"]


def test_a_few_at_a_time() -> None:
    runs = [Run(f"j{i}", ("full", 10)) for i in range(9)]
    nodes = [node("full", offers=0, placed=18), node("room", offers=40, placed=0)]
    assert len(gone(check(nodes, runs))) == MOST_AT_ONCE


def test_who_is_starved_is_not_placed_where_it_would_be_starved_at_once() -> None:
    """Jobs are placed by what is offered less what is placed, and that is negative there."""
    snapshot = Snapshot(
        now=NOW,
        nodes={"full": node("full", offers=5, placed=6)},
        queues={"default": QueueView("default")},
        candidates={"default": (Candidate("job", "job", "default", shape(1)),)},
    )
    assert plan_admissions(snapshot).starts == ()


@settings(max_examples=examples(200))
@given(st.integers(0, 10**9))
def test_whoever_goes_has_its_place_and_leaves_no_node_for_nothing(seed: int) -> None:
    rng = random.Random(seed)
    names = [f"n{i}" for i in range(rng.randint(1, 5))]
    runs = []
    placed = dict.fromkeys(names, 0)
    for i in range(rng.randint(1, 8)):
        cpu, pods = (
            rng.randint(1, 3),
            [(rng.choice(names), rng.choice((None, 0, 50, 900))) for _ in range(rng.randint(1, 3))],
        )
        runs.append(Run(f"j{i}", *pods, cpu=cpu))
        for on, _ in pods:
            placed[on] += cpu
    nodes = [node(name, rng.randint(0, 12), placed[name]) for name in names]
    offered = {seen.name: seen.allocatable[CPU] // 1000 for seen in nodes}
    found = check(nodes, runs)
    assert len(found.interrupt) <= MOST_AT_ONCE
    assert set(gone(found)) <= set(found.since)
    room = sum(max(0, offered[name] - placed[name]) for name in names)
    moved = 0
    for starved in found.interrupt:
        gang = starved.gang
        cpu = gang.request(CPU) // 1000
        lacking = sum(count for name, count in gang.on.items() if placed[name] > offered[name])
        assert lacking, "it has pods where too little is offered"
        moved += lacking * cpu
        for name, count in gang.on.items():
            placed[name] -= count * cpu
    assert moved <= room, "a place is counted on once"
