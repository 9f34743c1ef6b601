"""What holds of every plan, whatever the snapshot."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from typing import TypeVar

from hypothesis import given, settings
from hypothesis import strategies as st
from scavenger_admitter.holds import Reason
from scavenger_admitter.load import PPM, LoadLimit
from scavenger_admitter.plan import AdmissionPlan, plan_admissions
from scavenger_admitter.shape import Shape
from scavenger_admitter.snapshot import (
    Candidate,
    NodeView,
    PendingPod,
    QueueState,
    QueueView,
    Reservation,
    Snapshot,
)
from scavenger_runtime.kinds import Taint, Toleration

TAINT = Taint(key="t", value="v", effect="NoSchedule")
Value = TypeVar("Value")
QUEUES = ("a", "b", "closed", "missing")


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    return Shape.of(
        {"cpu": draw(st.integers(0, 6)), "memory": draw(st.integers(0, 6))},
        draw(st.sampled_from(({}, {}, {"zone": "x"}))),
        draw(st.sampled_from(((), (), (Toleration(key="t", operator="Exists"),)))),
    )


@st.composite
def nodes(draw: st.DrawFn, name: str) -> NodeView:
    cpu, memory = draw(st.integers(1, 12)), draw(st.integers(1, 12))
    return NodeView(
        name=name,
        allocatable={"cpu": cpu, "memory": memory, "pods": draw(st.integers(1, 8))},
        # More may be used than there is: a node's allocatable may shrink under its pods.
        used={"cpu": draw(st.integers(0, cpu)), "memory": draw(st.integers(0, memory + 1)), "pods": 1},
        labels=draw(st.sampled_from(({}, {"zone": "x"}))),
        taints=draw(st.sampled_from(((), (), (TAINT,)))),
        place=draw(st.sampled_from((True, True, True, False))),
    )


def limits(resource: str) -> st.SearchStrategy[LoadLimit]:
    return st.builds(
        LoadLimit,
        st.just(resource),
        st.integers(0, 40),
        st.integers(0, 20),
        st.integers(0, PPM // 2),
        st.integers(0, PPM),
    )


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    seen = [draw(nodes(f"n{i}")) for i in range(draw(st.integers(0, 5)))]
    names = [node.name for node in seen] + ["gone"]
    known = draw(st.lists(shapes(), min_size=1, max_size=4))
    jobs = [
        Candidate(
            key=f"j{i}",
            uid=f"u{i}",
            queue=draw(st.sampled_from(QUEUES[:2] if i % 3 else QUEUES)),
            shape=draw(st.sampled_from(known)),
            parallelism=draw(st.integers(1, 4)),
            interrupted_count=draw(st.integers(0, 2)),
            queued_at=draw(st.integers(0, 5)),
        )
        for i in range(draw(st.integers(0, 12)))
    ]
    quotas = st.sampled_from(({}, {}, {"cpu": 5}))
    return Snapshot(
        nodes={node.name: node for node in seen},
        pending=tuple(
            PendingPod(f"p{i}", draw(shapes()), draw(st.sampled_from(("", "", *names))))
            for i in range(draw(st.integers(0, 3)))
        ),
        reservations=tuple(
            Reservation(f"r{i}", draw(shapes()), draw(st.integers(1, 3)), (draw(st.sampled_from(names)),))
            for i in range(draw(st.integers(0, 2)))
        ),
        candidates={
            queue: tuple(sorted((j for j in jobs if j.queue == queue), key=lambda j: j.order))
            for queue in sorted({j.queue for j in jobs})
        },
        queues={
            "a": QueueView("a", quota=draw(quotas), allocated={"cpu": draw(st.integers(0, 5))}),
            "b": QueueView("b", weight=3),
            "closed": QueueView("closed", state=QueueState.CLOSED),
        },
        capacity={"cpu": 40, "memory": 40},
        limits=draw(st.sampled_from(((), (draw(limits("cpu")), draw(limits("memory")))))),
        counted_with_candidate=draw(st.booleans()),
        closed_nodes=draw(st.sampled_from((frozenset(), frozenset({"n0"})))),
    )


def jobs_of(snapshot: Snapshot) -> list[Candidate]:
    return [job for line in snapshot.candidates.values() for job in line]


def admits(node: NodeView, shape: Shape) -> bool:
    return (
        node.place
        and (not node.taints or bool(shape.tolerations))
        and all(node.labels.get(name) == value for name, value in shape.node_selector)
    )


def free_after(snapshot: Snapshot, plan: AdmissionPlan) -> dict[tuple[str, str], int]:
    """Free amounts by (node, resource) once every start has its room; reservations left out."""
    free = {
        (node.name, name): most - node.used.get(name, 0)
        for node in snapshot.nodes.values()
        for name, most in node.allocatable.items()
    }
    for start in plan.starts:
        for name in start.nodes:
            for resource, amount in start.candidate.shape.requests:
                free[name, resource] -= amount
    return free


@settings(max_examples=400, deadline=None)
@given(snapshots())
def test_no_node_is_over_committed_and_no_room_given_twice(snapshot: Snapshot) -> None:
    plan = plan_admissions(snapshot)
    free = free_after(snapshot, plan)
    for start in plan.starts:
        for name in start.nodes:
            assert name not in snapshot.closed_nodes
            assert admits(snapshot.nodes[name], start.candidate.shape)
            for resource, _ in start.candidate.shape.requests:
                assert free[name, resource] >= 0


@settings(max_examples=300, deadline=None)
@given(snapshots())
def test_every_job_starts_whole_or_is_held(snapshot: Snapshot) -> None:
    plan = plan_admissions(snapshot)
    jobs = jobs_of(snapshot)
    assert Counter([start.key for start in plan.starts] + list(plan.held)) == Counter(job.key for job in jobs)
    for start in plan.starts:
        assert len(start.nodes) == start.candidate.parallelism
        assert start.candidate.queue in ("a", "b")
    for hold in plan.held.values():
        assert hold.message.strip()


@settings(max_examples=300, deadline=None)
@given(snapshots())
def test_nobody_overtakes_an_equal_job(snapshot: Snapshot) -> None:
    """Behind a job held for lack of room none of its shape and queue starts that is as large or larger."""
    plan = plan_admissions(snapshot)
    starts = {start.key for start in plan.starts}
    for line in snapshot.candidates.values():
        for place, waiting in enumerate(line):
            hold = plan.held.get(waiting.key)
            if hold is not None and hold.reason in (
                Reason.NO_PLACE,
                Reason.ADMISSION_LEVEL,
                Reason.QUEUE_QUOTA,
            ):
                for behind in line[place + 1 :]:
                    if behind.shape == waiting.shape and behind.parallelism >= waiting.parallelism:
                        assert behind.key not in starts


@settings(max_examples=300, deadline=None)
@given(snapshots())
def test_a_job_held_for_lack_of_room_really_has_none(snapshot: Snapshot) -> None:
    plan = plan_admissions(replace(snapshot, pending=(), reservations=()))
    free = free_after(snapshot, plan)
    held = [j for j in jobs_of(snapshot) if j.key in plan.held and plan.held[j.key].reason is Reason.NO_PLACE]
    for job in held:
        room = sum(
            max(0, min(free[node.name, resource] // amount for resource, amount in job.shape.requests))
            for node in snapshot.nodes.values()
            if admits(node, job.shape) and node.name not in snapshot.closed_nodes
        )
        assert room < job.parallelism


@settings(max_examples=300, deadline=None)
@given(snapshots())
def test_the_load_is_never_brought_to_its_level(snapshot: Snapshot) -> None:
    plan = plan_admissions(snapshot)
    for limit in snapshot.limits:
        load = Fraction(limit.load_ppm * limit.allocatable, PPM) + limit.requested
        level = Fraction(limit.admission_ppm * limit.allocatable, PPM)
        for start in plan.starts:
            extra = start.candidate.shape.request(limit.resource) * start.candidate.parallelism
            assert (load + extra if snapshot.counted_with_candidate else load) < level
            load += extra


@settings(max_examples=200, deadline=None)
@given(snapshots())
def test_no_queue_goes_beyond_its_quota(snapshot: Snapshot) -> None:
    plan = plan_admissions(snapshot)
    for name, queue in snapshot.queues.items():
        for resource, most in queue.quota.items():
            asked = sum(
                start.candidate.shape.request(resource) * start.candidate.parallelism
                for start in plan.starts
                if start.candidate.queue == name
            )
            assert not asked or queue.allocated.get(resource, 0) + asked <= most


@settings(max_examples=200, deadline=None)
@given(snapshots(), st.randoms(use_true_random=False))
def test_the_same_snapshot_gives_the_same_plan_in_whatever_order_it_was_put_together(
    snapshot: Snapshot, rng: random.Random
) -> None:
    def shuffled(mapping: dict[str, Value]) -> dict[str, Value]:
        items = list(mapping.items())
        rng.shuffle(items)
        return dict(items)

    other = replace(
        snapshot,
        nodes=shuffled(dict(snapshot.nodes)),
        queues=shuffled(dict(snapshot.queues)),
        candidates=shuffled(dict(snapshot.candidates)),
        capacity=shuffled(dict(snapshot.capacity)),
    )
    one, two = plan_admissions(snapshot), plan_admissions(other)
    assert one == two
    assert {key: hold.message for key, hold in one.held.items()} == {
        key: hold.message for key, hold in two.held.items()
    }


@settings(max_examples=200, deadline=None)
@given(snapshots(), st.integers(1, 3))
def test_limited_cycles_choose_the_same_jobs_first(snapshot: Snapshot, most: int) -> None:
    whole, part = plan_admissions(snapshot), plan_admissions(snapshot, max_starts_per_cycle=most)
    assert part.starts == whole.starts[:most]
    assert part.truncated or part == whole
