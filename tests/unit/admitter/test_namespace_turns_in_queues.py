"""spec.perNamespace of a queue: its namespaces take turns by what each has for its weight."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scavenger_admitter.core.admission.cycle.plan import AdmissionPlan, plan_admissions
from scavenger_admitter.core.admission.load import LoadRule
from scavenger_admitter.core.admission.shape import Shape
from scavenger_admitter.core.admission.snapshot import Candidate, Grant, QueueView, Snapshot
from scavenger_admitter.core.admission.view.state import ClusterState
from scavenger_api import names
from scavenger_api.reasons import WaitReason
from scavenger_testing import builders

NOW = 1_800_000_000_000_000
LEAVES = "2027-01-15T08:00:00Z"
ONE = Shape.of({"cpu": 1000, "memory": 1 << 30})
LARGE = Shape.of({"cpu": 500_000})


def cluster(cpus: int, weights: Mapping[str, int] | None, **queues: int) -> ClusterState:
    """One node; so many pods of a core fit as `cpus`, one more would not be under the level. weights: of namespaces."""
    state = ClusterState()
    state.apply_node(builders.node("n", cpu=str(cpus + 1), memory="1000Gi", pods="1000"))
    state.apply_queue(QueueView("q", namespace_weights=weights))
    for name, weight in queues.items():
        state.apply_queue(QueueView(name, weight=weight))
    return state


def want(
    state: ClusterState,
    namespace: str,
    jobs: int,
    shape: Shape = ONE,
    *,
    first: int = 0,
    queue: str = "q",
    had: int = 0,
) -> None:
    for number in range(first, first + jobs):
        key = f"{namespace}/{queue}-{number}"
        state.apply_candidate(Candidate(key, key, queue, shape, interrupted_count=-had, queued_at=number + 1))


def snapshot(state: ClusterState) -> Snapshot:
    return state.snapshot(now=NOW, rule=LoadRule.fixed(100))


def plan(state: ClusterState, most: int | None = None) -> AdmissionPlan:
    return plan_admissions(snapshot(state), max_starts_per_cycle=most)


def pods(made: AdmissionPlan) -> Counter[str]:
    """Pods that start, by namespace."""
    counts: Counter[str] = Counter()
    for start in made.starts:
        counts[start.candidate.namespace] += len(start.nodes)
    return counts


def test_without_it_who_came_first_has_everything() -> None:
    state = cluster(10, None)
    want(state, "flood", 1000)
    want(state, "late", 5, first=2000)
    assert pods(plan(state)) == {"flood": 10}


def test_namespaces_have_equal_shares() -> None:
    state = cluster(10, {})
    want(state, "flood", 1000)
    want(state, "late", 100, first=2000)
    assert pods(plan(state)) == {"flood": 5, "late": 5}


@pytest.mark.parametrize(("weights", "started"), [(None, {"split": 8}), ({}, {"split": 4, "whole": 4})])
def test_turns_bound_what_a_namespace_gains_by_splitting_a_job(
    weights: Mapping[str, int] | None, started: Mapping[str, int]
) -> None:
    """Where jobs go by the CPU time that they have had, parts that have had none pass the jobs that have."""
    state = cluster(8, weights)
    want(state, "whole", 64, had=12)
    want(state, "split", 64, first=1000)
    assert pods(plan(state)) == started


def test_shares_are_by_weight() -> None:
    state = cluster(10, {"heavy": 3})
    for namespace in ("flood", "late", "heavy"):
        want(state, namespace, 100)
    assert pods(plan(state)) == {"flood": 2, "late": 2, "heavy": 6}


def test_what_leaves_is_not_held_any_more() -> None:
    state = cluster(10, {})
    labels = {names.LABEL_JOB: "old", names.LABEL_QUEUE: "q"}
    old = builders.pod("old-0", namespace="flood", labels=labels, node="n", cpu="4", phase="Running", deleted=LEAVES)
    state.apply_pod(old)
    assert snapshot(state).queues["q"].by_namespace["flood"]["cpu"] == 4000
    want(state, "flood", 100)
    want(state, "late", 100)
    assert pods(plan(state)) == {"flood": 3, "late": 3}


def test_what_a_namespace_has_already_counts() -> None:
    state = cluster(10, {})
    state.assumed_starts.assume("flood/other", Grant("r", ONE, 4, ("n",) * 4), queue="q")
    want(state, "flood", 100)
    want(state, "late", 100)
    assert pods(plan(state)) == {"flood": 1, "late": 5}
    made = snapshot(state).queues["q"]
    assert made.by_namespace == {"flood": made.allocated}


def test_a_share_binds_only_while_another_namespace_has_a_job_that_fits() -> None:
    state = cluster(10, {"late": 1_000_000})
    want(state, "flood", 1000)
    want(state, "late", 3, LARGE)
    made = plan(state)
    assert pods(made) == {"flood": 10}
    assert made.held["late/q-0"].reason is WaitReason.LARGER_THAN_ANY_NODE


def test_an_array_takes_turns_with_other_namespaces_and_within_its_own() -> None:
    state = cluster(12, {})
    state.apply_candidate(Candidate("flood/sweep", "s", "q", ONE, queued_at=1, tasks=100_000))
    want(state, "flood", 3)
    want(state, "late", 100)
    made = plan(state)
    assert pods(made) == {"flood": 6, "late": 6}
    assert {start.key: len(start.nodes) for start in made.starts if start.candidate.namespace == "flood"} == {
        "flood/sweep": 3,
        "flood/q-0": 1,
        "flood/q-1": 1,
        "flood/q-2": 1,
    }


def test_within_a_namespace_the_order_of_a_queue_holds() -> None:
    state = cluster(4, {})
    want(state, "a", 3)
    state.apply_candidate(replace(Candidate("a/hit", "h", "q", ONE, queued_at=50), interrupted_count=1))
    want(state, "b", 3)
    assert [start.key for start in plan(state).starts] == ["a/hit", "b/q-0", "a/q-0", "b/q-1"]


def test_interruptions_in_another_namespace_give_no_place() -> None:
    state = cluster(2, {})
    want(state, "b", 1)
    for number in range(5):
        one = Candidate(f"a/hit-{number}", f"h{number}", "q", ONE, queued_at=50 + number, interrupted_count=9)
        state.apply_candidate(one)
    assert pods(plan(state)) == {"a": 1, "b": 1}


def test_it_goes_beyond_the_share_of_the_queue_in_turns_as_well() -> None:
    state = cluster(10, {}, other=1)
    want(state, "flood", 100)
    want(state, "late", 100, first=2000)
    want(state, "x", 2, queue="other")
    assert pods(plan(state)) == {"flood": 4, "late": 4, "x": 2}


def test_who_is_left_when_a_cycle_is_full_is_told_so() -> None:
    state = cluster(10, {})
    want(state, "flood", 5)
    want(state, "late", 5)
    made = plan(state, most=4)
    assert pods(made) == {"flood": 2, "late": 2}
    assert len(made.held) == 6
    assert {wait.reason for wait in made.held.values()} == {WaitReason.NEXT_CYCLE}


@given(
    jobs=st.dictionaries(st.sampled_from("abcde"), st.integers(1, 20), min_size=1),
    weights=st.dictionaries(st.sampled_from("abcde"), st.integers(1, 5)),
    holds=st.dictionaries(st.sampled_from("abcde"), st.integers(1, 6), max_size=3),
    cpus=st.integers(20, 60),
)
def test_nobody_starts_before_one_that_has_less_for_its_weight(
    jobs: dict[str, int], weights: dict[str, int], holds: dict[str, int], cpus: int
) -> None:
    """Whoever starts last leaves no namespace with a job that had less for its weight before."""
    state = cluster(cpus, weights)
    for namespace, count in holds.items():
        state.assumed_starts.assume(f"{namespace}/old", Grant("r", ONE, count, ("n",) * count), queue="q")
    for namespace, count in jobs.items():
        want(state, namespace, count)
    has, left = Counter(holds), Counter(jobs)
    for start in plan(state).starts:
        namespace = start.candidate.namespace
        others = [has[one] / weights.get(one, 1) for one in left if left[one]]
        assert has[namespace] / weights.get(namespace, 1) <= min(others)
        has[namespace] += 1
        left[namespace] -= 1
    assert has.total() == min(cpus, Counter(holds).total() + Counter(jobs).total())
