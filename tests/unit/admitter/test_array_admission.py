"""Arrays in the admission cycle: one object is one place in its queue, whatever it starts."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scavenger_admitter.core.admission.cycle.plan import AdmissionPlan, plan_admissions
from scavenger_admitter.core.admission.load import LoadRule
from scavenger_admitter.core.admission.shape import Shape
from scavenger_admitter.core.admission.snapshot import Candidate, Grant, QueueView
from scavenger_admitter.core.admission.view.state import ClusterState
from scavenger_domain.gang import by_priority
from scavenger_testing import builders

NOW = 1_800_000_000_000_000
ONE = Shape.of({"cpu": 1000, "memory": 1 << 30})
ELSEWHERE = Shape.of({"cpu": 1000, "memory": 1 << 30}, {"zone": "x"})


def cluster(nodes: int = 10, cpus: int = 10, **weights: int) -> ClusterState:
    state = ClusterState()
    for number in range(nodes):
        state.apply_node(builders.node(f"n{number}", cpu=str(cpus), memory="1000Gi"))
    for queue, weight in weights.items():
        state.apply_queue(QueueView(queue, weight=weight))
    return state


def job(queue: str, number: int, shape: Shape = ONE, tasks: int = 0) -> Candidate:
    uid = f"{queue}{number:06}"
    return Candidate(key=f"ns/{queue}-{number}", uid=uid, queue=queue, shape=shape, queued_at=number + 1, tasks=tasks)


def want(state: ClusterState, queue: str, tasks: int, *, array: bool, shape: Shape = ONE) -> None:
    """So many tasks of one array, or as many jobs of one pod."""
    for number in range(1 if array else tasks):
        state.apply_candidate(job(queue, number, shape, tasks=tasks if array else 0))


def plan(state: ClusterState) -> AdmissionPlan:
    return plan_admissions(state.snapshot(now=NOW, rule=LoadRule.fixed(100)))


def pods(made: AdmissionPlan) -> Counter[str]:
    """Pods that start, by queue."""
    counts: Counter[str] = Counter()
    for start in made.starts:
        counts[start.candidate.queue] += len(start.nodes)
    return counts


@pytest.mark.parametrize("array", [True, False])
def test_an_array_goes_beyond_its_share_where_nobody_else_wants_it(array: bool) -> None:
    state = cluster(a=1, b=9)
    want(state, "a", 200, array=array)
    state.apply_candidate(job("b", 0))
    assert pods(plan(state)) == {"a": 98, "b": 1}


@pytest.mark.parametrize("array", [True, False])
def test_so_does_one_that_holds_its_share_already(array: bool) -> None:
    state = cluster(a=1, b=9)
    want(state, "a", 200, array=array)
    state.apply_candidate(job("b", 0))
    state.assumed_starts.assume("ns/other", Grant("r", ONE, 10, ("n0",) * 10), queue="a")
    assert pods(plan(state)) == {"a": 88, "b": 1}


@pytest.mark.parametrize("array", [True, False])
def test_queues_take_turns_with_single_tasks(array: bool) -> None:
    state = cluster(a=1, b=1)
    state.apply_node(builders.node("x", cpu="20", memory="1000Gi", labels={"zone": "x"}))
    want(state, "a", 50, array=array, shape=ELSEWHERE)
    want(state, "b", 50, array=False, shape=ELSEWHERE)
    assert pods(plan(state)) == {"a": 10, "b": 10}


def test_a_start_has_a_node_for_each_task_and_the_array_is_not_held() -> None:
    state = cluster(nodes=2, cpus=3, a=1)
    want(state, "a", 9, array=True)
    made = plan(state)
    (start,) = made.starts
    assert Counter(start.nodes) in ({"n0": 3, "n1": 2}, {"n0": 2, "n1": 3})  # the load stays under the level
    assert made.held == {}


def test_nothing_starts_of_an_array_without_room_and_its_reason_is_told_once() -> None:
    state = cluster(nodes=1, cpus=1, a=1)
    state.assumed_starts.assume("ns/other", Grant("r", ONE, 1, ("n0",)), queue="a")
    want(state, "a", 100_000, array=True)
    made = plan(state)
    assert made.starts == ()
    assert list(made.held) == ["ns/a-0"]


WANTED = st.tuples(st.integers(0, 30), st.booleans())


@given(
    a=WANTED,
    b=WANTED,
    weights=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    nodes=st.lists(st.integers(1, 8), min_size=1, max_size=4),
)
def test_between_queues_an_array_is_as_many_jobs(
    a: tuple[int, bool], b: tuple[int, bool], weights: tuple[int, int], nodes: list[int]
) -> None:
    """Whatever is an array, each queue starts as many pods, on nodes that have room for them."""
    counts = []
    for arrays in (True, False):
        state = cluster(0, a=weights[0], b=weights[1])
        for number, cpus in enumerate(nodes):
            state.apply_node(builders.node(f"n{number}", cpu=str(cpus), memory="1000Gi"))
        for queue, (tasks, array) in (("a", a), ("b", b)):
            if tasks:
                want(state, queue, tasks, array=arrays and array)
        made = plan(state)
        taken = Counter(node for start in made.starts for node in start.nodes)
        assert all(taken[f"n{number}"] <= cpus for number, cpus in enumerate(nodes))
        counts.append(pods(made))
    assert counts[0] == counts[1]


# --- one object is one place ---


def test_what_came_before_its_last_start_goes_before_the_next_task_of_an_array() -> None:
    state = cluster(nodes=1, cpus=5, a=1)
    want(state, "a", 100_000, array=True)
    state.apply_candidate(job("a", 7))
    made = plan(state)
    assert [(start.key, len(start.nodes)) for start in made.starts] == [("ns/a-0", 3), ("ns/a-7", 1)]


def test_arrays_take_turns_with_each_other() -> None:
    state = cluster(nodes=1, cpus=10, a=1)
    for number in range(3):
        state.apply_candidate(job("a", number, tasks=50))
    assert {start.key: len(start.nodes) for start in plan(state).starts} == {"ns/a-0": 3, "ns/a-1": 3, "ns/a-2": 3}


def test_an_array_keeps_its_place_where_the_former_order_is_set() -> None:
    state = cluster(nodes=1, cpus=5, a=1)
    want(state, "a", 100_000, array=True)
    state.apply_candidate(job("a", 7))
    made = plan_admissions(state.snapshot(now=NOW, rule=LoadRule.fixed(100)), arrays_keep_place=True)
    assert [(start.key, len(start.nodes)) for start in made.starts] == [("ns/a-0", 4)]


def test_interrupted_tasks_take_turns_among_the_interrupted_only() -> None:
    state = cluster(nodes=1, cpus=6, a=1)
    state.apply_candidate(replace(job("a", 0, tasks=3), interrupted_count=1))
    state.apply_candidate(replace(job("a", 1), interrupted_count=1))
    state.apply_candidate(job("a", 2))
    state.apply_candidate(job("a", 3))
    made = plan(state)
    assert [(start.key, len(start.nodes)) for start in made.starts] == [("ns/a-0", 3), ("ns/a-1", 1), ("ns/a-2", 1)]


def test_an_array_of_a_higher_priority_keeps_jobs_of_its_namespace_behind_it() -> None:
    """It has no place of theirs, so it passes no job of another namespace."""
    state = cluster(nodes=1, cpus=5, a=1)
    state.apply_candidate(replace(job("a", 0, tasks=50), priority=1))
    state.apply_candidate(replace(job("a", 1), key="other/x"))
    state.apply_candidate(job("a", 2))
    state.apply_candidate(replace(job("a", 3), key="other/y"))
    made = plan(state)
    assert {start.key: len(start.nodes) for start in made.starts} == {"ns/a-0": 2, "other/x": 1, "other/y": 1}


def test_jobs_behind_an_array_start_when_no_more_of_its_tasks_do() -> None:
    state = cluster(nodes=1, cpus=6, a=1)
    state.apply_candidate(replace(job("a", 0, tasks=2), priority=1))
    state.apply_candidate(job("a", 1))
    state.apply_candidate(job("a", 2))
    assert [(start.key, len(start.nodes)) for start in plan(state).starts] == [
        ("ns/a-0", 2),
        ("ns/a-1", 1),
        ("ns/a-2", 1),
    ]
    state = cluster(nodes=1, cpus=6, a=1)
    state.apply_candidate(replace(job("a", 0, shape=ELSEWHERE, tasks=2), priority=1))
    state.apply_candidate(job("a", 1))
    assert [start.key for start in plan(state).starts] == ["ns/a-1"]


PLACES = st.lists(
    st.tuples(st.sampled_from(["x", "y"]), st.integers(0, 4), st.integers(0, 1), st.integers(0, 2)),
    min_size=1,
    max_size=8,
)


@given(jobs=PLACES, cpus=st.integers(2, 20))
def test_no_object_is_served_twice_before_another_that_came_earlier(
    jobs: list[tuple[str, int, int, int]], cpus: int
) -> None:
    """The line of a queue is played start by start: an array that started stands where a job would that came now."""
    state = cluster(nodes=1, cpus=cpus, a=1)
    waiting = []
    for number, (namespace, tasks, interrupted, priority) in enumerate(jobs):
        one = job("a", number, tasks=tasks)
        one = replace(
            one, key=f"{namespace}/{number}", interrupted_count=interrupted, priority=priority if tasks else 0
        )
        state.apply_candidate(one)
        waiting.append(one)
    left = Counter({one.key: max(1, one.tasks) for one in waiting})
    wanted: Counter[str] = Counter()
    for clock in range(len(jobs), len(jobs) + cpus - 1):
        line = by_priority(sorted(waiting, key=lambda one: one.order), lambda one: one.rank)
        if not line:
            break
        first = line[0]
        waiting.remove(first)
        wanted[first.key] += 1
        left[first.key] -= 1
        if left[first.key]:
            waiting.append(replace(first, queued_at=clock + 1))
    assert {start.key: len(start.nodes) for start in plan(state).starts} == wanted


def test_a_task_that_was_interrupted_goes_before_others_and_the_rest_of_its_array_behind() -> None:
    state = cluster(nodes=1, cpus=5, a=1)
    state.apply_candidate(replace(job("a", 0, tasks=1), interrupted_count=1))
    state.apply_candidate(replace(job("a", 40), interrupted_count=1))
    made = plan(state)
    assert [start.key for start in made.starts] == ["ns/a-0", "ns/a-40"]
