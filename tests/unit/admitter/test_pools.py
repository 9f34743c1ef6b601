"""Admission by pools of nodes: a full pool keeps nobody from starting in another one."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scavenger_admitter.core.admission.cycle.plan import AdmissionPlan, plan_admissions
from scavenger_admitter.core.admission.cycle.turns import PATIENCE
from scavenger_admitter.core.admission.load import LoadLimit, LoadRule
from scavenger_admitter.core.admission.placement.inputs import NodeView
from scavenger_admitter.core.admission.running import TerminatingPod
from scavenger_admitter.core.admission.shape import Shape
from scavenger_admitter.core.admission.snapshot import Candidate, Grant, Snapshot
from scavenger_admitter.core.admission.view.state import ClusterState
from scavenger_api.levels import LevelsState, LevelsView, PublishedLevels, ResourceLevels
from scavenger_api.reasons import WaitReason
from scavenger_api.times import EPOCH, micros
from scavenger_domain.nodes import PLAIN_POOL, pool_of
from scavenger_kube.kinds import Node, Taint, Toleration

from tests.unit.admitter.test_plan import GI, NOW, job, limit, node, reasons, snapshot, started
from tests.unit.admitter.test_state import pod
from tests.unit.effort import examples

GPU = "nvidia.com/gpu"
TAINT = Taint(key=GPU, value="present", effect="NoSchedule")
AT = EPOCH + timedelta(microseconds=NOW)


def gpus(name: str, **more: Any) -> NodeView:
    found = node(name, pool="gpu", taints=(TAINT,), **more)
    return replace(found, allocatable={**found.allocatable, GPU: 4})


ANYWHERE = (Toleration(key=GPU, operator="Exists"),)
"""Tolerations of a pod that may run on GPU nodes, too."""


def on_gpus(name: str, cpu: int = 1, **more: Any) -> Candidate:
    asked = Shape.of({"cpu": cpu * 1000, "memory": GI, GPU: 1}, None, ANYWHERE)
    return job(name, shape=asked, **more)


def wide_shape(cpu: int = 1) -> Shape:
    return Shape.of({"cpu": cpu * 1000, "memory": GI}, None, ANYWHERE)


def of_gpus(**more: Any) -> LoadLimit:
    return replace(limit(**more), pool="gpu")


def seen(jobs: list[Candidate], *limits: LoadLimit, nodes: list[NodeView] | None = None, **more: Any) -> Snapshot:
    nodes = [node("n", cpu=100), gpus("g", cpu=100)] if nodes is None else nodes
    return snapshot(nodes, jobs, limits=limits, pools=frozenset({"gpu"}), **more)


def test_a_busy_cpu_pool_keeps_no_job_from_idle_gpus() -> None:
    plan = plan_admissions(seen([job("on cpus"), on_gpus("on gpus")], limit(load=94), of_gpus(load=5)))
    assert started(plan) == ["on gpus"]
    assert reasons(plan) == {"on cpus": WaitReason.ADMISSION_LEVEL}
    assert plan.starts[0].load_ppm == (("cpu", 940_000), ("cpu/gpu", 60_000))


def test_a_busy_gpu_pool_is_named_and_keeps_no_job_from_cpus() -> None:
    plan = plan_admissions(seen([job("on cpus"), on_gpus("on gpus")], limit(load=5), of_gpus(load=94)))
    assert started(plan) == ["on cpus"]
    assert plan.held["on gpus"].message.startswith("cpu load of pool gpu is 94 %")


@pytest.mark.parametrize("shut", ["", "gpu"])
def test_nothing_starts_in_a_pool_that_is_shut(shut: str) -> None:
    wait = LoadRule.blind("no figures").shut
    assert wait is not None
    limits = [one for one in (limit(), of_gpus()) if one.pool != shut]
    closed = frozenset({"g" if shut else "n"})
    plan = plan_admissions(seen([job("cpus"), on_gpus("gpus")], *limits, shut_pools={shut: wait}, closed_nodes=closed))
    assert started(plan) == (["cpus"] if shut else ["gpus"])
    assert list(reasons(plan).values()) == [WaitReason.BLIND]


def test_a_job_that_may_run_in_both_pools_takes_the_one_with_room_and_stays_there() -> None:
    both = job("a", shape=wide_shape())
    plan = plan_admissions(seen([both], limit(load=69), of_gpus(load=5)))
    assert [start.nodes for start in plan.starts] == [("g",)]
    assert plan.starts[0].target.only == ("g",), "the scheduler knows no levels"
    free = plan_admissions(seen([both], limit(load=5), of_gpus(load=5)))
    assert [(start.nodes, start.target.only) for start in free.starts] == [(("n",), ())]


@pytest.mark.parametrize(("loads", "starts"), [((66, 67), True), ((66, 68), False)])
def test_a_gang_over_two_pools_stays_under_the_levels_of_both(loads: tuple[int, int], starts: bool) -> None:
    wide = wide_shape()
    limits = limit(load=loads[0]), of_gpus(load=loads[1])
    plan = plan_admissions(seen([job("wide", shape=wide, parallelism=5)], *limits))
    assert bool(plan.starts) == starts
    if starts:
        assert sorted(plan.starts[0].nodes) == ["g", "g", "n", "n", "n"]


def test_pods_that_keep_apart_start_within_one_pool() -> None:
    wide = replace(wide_shape(), apart="zone")
    nodes = [node("n", cpu=100, labels={"zone": "a"}), gpus("g", cpu=100, labels={"zone": "b"})]
    plan = plan_admissions(seen([job("wide", shape=wide, parallelism=2)], limit(), of_gpus(), nodes=nodes))
    assert not plan.starts


def test_pods_that_keep_apart_avoid_nodes_in_their_pool_too() -> None:
    wide = replace(wide_shape(), apart="zone").avoiding(("g1",))
    nodes = [node("n", cpu=100, labels={"zone": "a"})]
    nodes += [gpus(f"g{i}", cpu=100, labels={"zone": f"{i}"}) for i in range(3)]
    plan = plan_admissions(seen([job("wide", shape=wide, parallelism=2)], limit(), of_gpus(), nodes=nodes))
    assert [start.nodes for start in plan.starts] == [("g0", "g2")]


def test_what_leaves_a_pool_is_promised_there_alone() -> None:
    leaving = TerminatingPod(
        job="lab/old", node="g", queue="default", requests=(("cpu", 10_000), ("memory", GI)), counts=True
    )
    limits = limit(load=0, requested=75), of_gpus(load=0, requested=75)
    plan = plan_admissions(seen([job("cpus"), on_gpus("gpus")], *limits, terminating=(leaving,)))
    assert reasons(plan) == {"cpus": WaitReason.ADMISSION_LEVEL, "gpus": WaitReason.MAKING_ROOM}


@given(
    loads=st.tuples(st.integers(0, 75), st.integers(0, 75)),
    jobs=st.lists(st.tuples(st.booleans(), st.integers(1, 12), st.integers(1, 4)), max_size=12),
    with_it=st.booleans(),
)
def test_two_pools_are_decided_as_two_clusters(
    loads: tuple[int, int], jobs: list[tuple[bool, int, int]], with_it: bool
) -> None:
    """Of jobs that may run in one pool each; their order in the line is that of one queue."""
    line = [
        on_gpus(f"{i}", cpu, parallelism=pods) if gpu else job(f"{i}", cpu, parallelism=pods)
        for i, (gpu, cpu, pods) in enumerate(jobs)
    ]
    both = plan_admissions(seen(line, limit(load=loads[0]), of_gpus(load=loads[1]), counted_with_candidate=with_it))
    alone = [
        plan_admissions(
            snapshot(
                [where],
                [one for one, (gpu, *_) in zip(line, jobs, strict=True) if gpu == on_gpu],
                limits=(limit(load=load),),
                counted_with_candidate=with_it,
            )
        )
        for on_gpu, where, load in ((False, node("n", cpu=100), loads[0]), (True, gpus("g", cpu=100), loads[1]))
    ]
    assert sorted(started(both)) == sorted(started(alone[0]) + started(alone[1]))


def a_crowded(name: str, used: int) -> NodeView:
    """A node of which scavenger jobs use so many cores of eight."""
    made = gpus if name.startswith("g") else node
    return made(name, cpu=8, used=used, scavenger={"cpu": used * 1000, "memory": used * GI, "pods": used})


@settings(max_examples=examples(60))
@given(
    used=st.tuples(*[st.integers(3, 8)] * 4),
    jobs=st.lists(st.tuples(st.booleans(), st.integers(1, 8), st.integers(1, 2)), min_size=4, max_size=12),
)
def test_two_pools_keep_turns_as_two_clusters(used: tuple[int, ...], jobs: list[tuple[bool, int, int]]) -> None:
    """A turn is kept in each of them. All jobs have waited for long, and a later one may pass an earlier one."""
    nodes = [a_crowded(name, cores) for name, cores in zip(("n0", "n1", "g0", "g1"), used, strict=True)]
    line = [
        (on_gpus if gpu else job)(f"{i:02}", cpu, parallelism=pods, queued_at=NOW - 2 * PATIENCE + i)
        for i, (gpu, cpu, pods) in enumerate(jobs)
    ]

    def twice(seen: Snapshot) -> list[AdmissionPlan]:
        first = plan_admissions(seen)
        return [first, plan_admissions(replace(seen, turns=first.turns))]

    together = twice(seen(line, nodes=nodes))
    alone = []
    for on_gpu in (False, True):
        own = [one for one, (gpu, *_) in zip(line, jobs, strict=True) if gpu == on_gpu]
        alone.append(twice(snapshot([one for one in nodes if one.name.startswith("g") == on_gpu], own)))
    for plan, parts in zip(together, zip(*alone, strict=True), strict=True):
        assert {start.key: start.nodes for start in plan.starts} == {
            start.key: start.nodes for part in parts for start in part.starts
        }
        assert sorted((turn.candidate.key, turn.nodes) for turn in plan.turns) == sorted(
            (turn.candidate.key, turn.nodes) for part in parts for turn in part.turns
        )
        assert reasons(plan) == {key: reason for part in parts for key, reason in reasons(part).items()}


def test_nobody_behind_a_job_for_two_pools_takes_a_turn_before_it() -> None:
    """The turn of the first job is kept in one pool. The second one may run in both, and has the next turn in both."""
    nodes = [a_crowded("n0", 6), a_crowded("n1", 7), a_crowded("g0", 6), a_crowded("g1", 7)]
    late = [
        job("cpus", 7, queued_at=NOW - 2 * PATIENCE),
        job("both", shape=wide_shape(8), queued_at=NOW - 2 * PATIENCE + 1),
        on_gpus("gpus", 6, queued_at=NOW - 2 * PATIENCE + 2),
    ]
    small = [job("small", 1, queued_at=NOW), on_gpus("small on gpus", 1, queued_at=NOW)]
    now = seen([*late, *small], nodes=nodes)
    first = plan_admissions(now)
    assert [turn.candidate.key for turn in first.turns] == ["cpus"]
    second = plan_admissions(replace(now, turns=first.turns))
    assert [turn.candidate.key for turn in second.turns] == ["cpus"], "the next one is that of the job for both"
    third = plan_admissions(seen([*late[1:], *small], nodes=nodes, turns=second.turns[:0]))
    assert [turn.candidate.key for turn in third.turns] == ["both"]


@given(
    loads=st.tuples(st.integers(50, 75), st.integers(50, 75)),
    jobs=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 9), st.integers(1, 6)), max_size=10),
    with_it=st.booleans(),
)
def test_starts_stay_under_the_levels_wherever_they_may_run(
    loads: tuple[int, int], jobs: list[tuple[int, int, int]], with_it: bool
) -> None:
    """`assert_sound` says it of each pool."""
    line = []
    for i, (kind, cpu, pods) in enumerate(jobs):
        one = [job(f"{i}", cpu), on_gpus(f"{i}", cpu), job(f"{i}", shape=wide_shape(cpu))][kind]
        line.append(replace(one, parallelism=pods))
    nodes = [node(f"n{i}", cpu=40) for i in range(3)] + [gpus(f"g{i}", cpu=30) for i in range(3)]
    limits = (limit(load=loads[0]), of_gpus(load=loads[1]))
    plan = plan_admissions(seen(line, *limits, nodes=nodes, counted_with_candidate=with_it))
    assert len(plan.starts) + len(plan.held) == len(line)


@pytest.mark.parametrize(("admission", "each", "count", "most"), [(70, 1000, 9, 4), (70, 0, 9, 9), (65, 0, 9, 0)])
def test_how_many_pods_stay_under_a_level(admission: int, each: int, count: int, most: int) -> None:
    of = limit(load=65, admission=admission)
    assert of.most(each, count) == most
    assert all(of.under(each * pods) for pods in range(1, most + 1))


# --- the view -----------------------------------------------------------------------------------------------


def a_node(name: str, *, gpu: bool = False, cpu: int = 10) -> Node:
    amounts = {"cpu": str(cpu), "memory": "64Gi", "pods": "110"} | ({GPU: "4"} if gpu else {})
    taints = [{"key": GPU, "value": "present", "effect": "NoSchedule"}] if gpu else []
    made = {
        "metadata": {"name": name},
        "spec": {"taints": taints},
        "status": {"allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]},
    }
    return msgspec.convert(made, Node)


POOL = pool_of(a_node("g", gpu=True))


def levels(load: float, *, admit: bool = True, **more: Any) -> PublishedLevels:
    one = ResourceLevels(load, 70, 80, 85)
    found = PublishedLevels(
        LevelsState.FILLING, 33.0, admit, observed_at=AT, period_seconds=30, resources={"cpu": one, "memory": one}
    )
    return replace(found, **more)


def rule(published: PublishedLevels) -> LoadRule:
    return LoadRule.of(LevelsView.of(published.to_data(), AT), micros(AT))


def a_state() -> ClusterState:
    state = ClusterState()
    state.apply_node(a_node("n", cpu=20))
    state.apply_node(a_node("g", gpu=True))
    return state


def test_limits_are_of_the_nodes_of_each_pool() -> None:
    state = a_state()
    state.apply_pod(pod("ordinary", cpu=3, node="g"))
    found = state.snapshot(now=micros(AT), rule=rule(levels(50, pools={POOL: levels(20)})))
    of = {(one.pool, one.resource): one for one in found.limits}
    assert {key: one.allocatable for key, one in of.items() if key[1] == "cpu"} == {
        ("", "cpu"): 20_000,
        (POOL, "cpu"): 10_000,
    }
    assert (of["", "cpu"].ppm(), of[POOL, "cpu"].ppm()) == (500_000, 200_000)
    flat = state.snapshot(now=micros(AT), rule=rule(levels(50)))
    assert [one.allocatable for one in flat.limits if one.resource == "cpu"] == [30_000], "without pools, all nodes"
    other = state.snapshot(now=micros(AT), rule=rule(levels(50, pools={"unknown": levels(20)})))
    assert {one.pool: one.allocatable for one in other.limits if one.resource == "cpu"} == {"": 30_000, "unknown": 0}


def test_a_start_under_way_counts_in_the_pool_that_it_was_granted() -> None:
    state = a_state()
    asked = on_gpus("lab/a", cpu=2, parallelism=2).shape
    state.assumed_starts.assume("lab/a", Grant("run", asked, 2, ("g", "g")))
    found = state.snapshot(now=micros(AT), rule=rule(levels(50, pools={POOL: levels(20)})))
    assert {one.pool: one.requested for one in found.limits if one.resource == "cpu"} == {"": 0, POOL: 4000}


def test_nodes_of_a_pool_that_is_shut_are_closed() -> None:
    state = a_state()
    blind = PublishedLevels(LevelsState.BLIND, message="no figures")
    found = state.snapshot(now=micros(AT), rule=rule(levels(50, pools={POOL: blind})))
    assert (set(found.closed_nodes), set(found.shut_pools)) == ({"g"}, {POOL})
    assert found.shut is None
    found = state.snapshot(now=micros(AT), rule=rule(replace(blind, pools={POOL: levels(20)})))
    assert (set(found.closed_nodes), set(found.shut_pools)) == ({"n"}, {""})
    assert found.shut is None
    found = state.snapshot(now=micros(AT), rule=rule(replace(blind, pools={POOL: blind})))
    assert found.shut is not None
    assert found.shut.reason is WaitReason.BLIND


def test_sums_of_pools_go_with_their_nodes() -> None:
    state = a_state()
    state.apply_pod(pod("ordinary", cpu=3, node="g"))
    state.apply_node(a_node("g"))  # the device plugin and the taint are gone
    found = state.snapshot(now=micros(AT), rule=rule(levels(50, pools={POOL: levels(20)})))
    assert {one.pool: one.allocatable for one in found.limits if one.resource == "cpu"} == {"": 30_000, POOL: 0}
    assert pool_of(a_node("g")) == PLAIN_POOL
    state.delete_node("g")
    found = state.snapshot(now=micros(AT), rule=rule(levels(50)))
    assert [one.allocatable for one in found.limits if one.resource == "cpu"] == [20_000]


@pytest.mark.parametrize("state", [LevelsState.EVICTING, LevelsState.BLIND])
def test_what_is_said_of_single_nodes_holds_while_the_default_pool_is_shut(state: LevelsState) -> None:
    default = levels(90, admit=False, state=state, closed_nodes=frozenset({"other"}), headroom={"g": (100, 100)})
    found = a_state().snapshot(now=micros(AT), rule=rule(replace(default, pools={POOL: levels(20)})))
    assert set(found.closed_nodes) == {"n", "other"}
    assert found.headroom.left == {"g": (100, 100)}
    plan = plan_admissions(replace(found, candidates={"default": (on_gpus("lab/a", cpu=2), on_gpus("lab/b"))}))
    assert [(start.key, start.nodes) for start in plan.starts] == [("lab/b", ("g",))], "a tenth of its CPU is left"
