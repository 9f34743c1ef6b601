"""What holds of every plan, whatever the snapshot."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from typing import TypeVar

from hypothesis import given, settings
from hypothesis import strategies as st
from scavenger_admitter.core.admission.cycle.plan import AdmissionPlan, plan_admissions
from scavenger_admitter.core.admission.load import PPM, LoadLimit
from scavenger_admitter.core.admission.placement.inputs import NodeView, PendingPod
from scavenger_admitter.core.admission.shape import Shape
from scavenger_admitter.core.admission.snapshot import Candidate, QueueView, Reservation, Snapshot
from scavenger_api.reasons import WaitReason
from scavenger_api.states import QueueState
from scavenger_kube.kinds import Taint, Toleration

from tests.unit.effort import examples

TAINT = Taint(key="t", value="v", effect="NoSchedule")
Value = TypeVar("Value")


def a_shape(rng: random.Random) -> Shape:
    return Shape.of(
        {"cpu": rng.randint(0, 4), "memory": rng.randint(0, 4)},
        rng.choice(({}, {}, {}, {}, {"zone": "x"})),
        rng.choice(((), (), (Toleration(key="t", operator="Exists"),))),
    )


def a_node(rng: random.Random, name: str) -> NodeView:
    cpu, memory = rng.randint(4, 16), rng.randint(4, 16)
    return NodeView(
        name=name,
        allocatable={"cpu": cpu, "memory": memory, "pods": rng.choice((3, 12))},
        # More may be used than there is: a node's allocatable may shrink under its pods.
        used={
            "cpu": rng.choice((0, 0, cpu // 2, cpu)),
            "memory": rng.choice((0, 0, 1, memory // 2, memory + 1)),
            "pods": 1,
        },
        labels=rng.choice(({}, {"zone": "x"})),
        taints=rng.choice(((), (), (), (TAINT,))),
        schedulable=rng.random() < 0.85,
    )


def a_limit(rng: random.Random, resource: str) -> LoadLimit:
    load, admission = rng.choice((0, 0, rng.randint(0, PPM // 2))), rng.randint(PPM // 2, PPM)
    return LoadLimit(resource, rng.choice((0, 40, 60, 80, 80)), rng.randint(0, 20), load, admission)


def a_snapshot(seed: int) -> Snapshot:
    """A small, crowded cluster. From a seed, as hypothesis' own choices are mostly empty clusters and no starts."""
    rng = random.Random(seed)
    seen = [a_node(rng, f"n{i}") for i in range(rng.randint(1, 8))]
    names = [node.name for node in seen] + ["gone"]
    known = [a_shape(rng) for _ in range(rng.randint(1, 4))]
    jobs = [
        Candidate(
            key=f"j{i}",
            uid=f"u{i}",
            queue=rng.choice(("a", "a", "a", "b", "b", "b", "closed", "missing")),
            shape=rng.choice(known),
            parallelism=rng.choice((1, 1, 2, 3, 4)),
            interrupted_count=rng.randint(0, 2),
            queued_at=rng.randint(0, 5),
        )
        for i in range(rng.randint(4, 20))
    ]
    return Snapshot(
        nodes={node.name: node for node in seen},
        pending=tuple(PendingPod(f"p{i}", a_shape(rng), rng.choice(("", *names))) for i in range(rng.randint(0, 2))),
        reservations=tuple(
            Reservation(f"r{i}", a_shape(rng), rng.randint(1, 3), (rng.choice(names),))
            for i in range(rng.randint(0, 2))
        ),
        candidates={
            queue: tuple(sorted((j for j in jobs if j.queue == queue), key=lambda j: j.order))
            for queue in sorted({j.queue for j in jobs})
        },
        queues={
            "a": QueueView("a", quota=rng.choice(({}, {}, {"cpu": 8})), allocated={"cpu": rng.randint(0, 5)}),
            "b": QueueView("b", weight=3),
            "closed": QueueView("closed", state=QueueState.CLOSED),
        },
        capacity={"cpu": 40, "memory": 40},
        limits=rng.choice(((), (), (a_limit(rng, "cpu"), a_limit(rng, "memory")))),
        counted_with_candidate=rng.random() < 0.5,
        closed_nodes=rng.choice((frozenset(), frozenset({"n0"}))),
    )


def snapshots() -> st.SearchStrategy[Snapshot]:
    return st.integers(0, 2**32).map(a_snapshot)


def jobs_of(snapshot: Snapshot) -> list[Candidate]:
    return [job for line in snapshot.candidates.values() for job in line]


def admits(node: NodeView, shape: Shape) -> bool:
    return (
        node.schedulable
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


@settings(max_examples=examples(150))
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


@given(snapshots())
def test_nobody_overtakes_an_equal_job(snapshot: Snapshot) -> None:
    """Behind a job held for lack of room none of its shape and queue starts that is as large or larger."""
    plan = plan_admissions(snapshot)
    starts = {start.key for start in plan.starts}
    for line in snapshot.candidates.values():
        for place, waiting in enumerate(line):
            hold = plan.held.get(waiting.key)
            if hold is not None and hold.reason in (
                WaitReason.NO_PLACE,
                WaitReason.ADMISSION_LEVEL,
                WaitReason.QUEUE_QUOTA,
            ):
                for behind in line[place + 1 :]:
                    if behind.shape == waiting.shape and behind.parallelism >= waiting.parallelism:
                        assert behind.key not in starts


@given(snapshots())
def test_a_job_held_for_lack_of_room_really_has_none(snapshot: Snapshot) -> None:
    plan = plan_admissions(replace(snapshot, pending=(), reservations=()))
    free = free_after(snapshot, plan)
    held = [j for j in jobs_of(snapshot) if j.key in plan.held and plan.held[j.key].reason is WaitReason.NO_PLACE]
    for job in held:
        room = sum(
            max(0, min(free[node.name, resource] // amount for resource, amount in job.shape.requests))
            for node in snapshot.nodes.values()
            if admits(node, job.shape) and node.name not in snapshot.closed_nodes
        )
        assert room < job.parallelism


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


@settings(max_examples=examples(80))
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


@settings(max_examples=examples(80))
@given(snapshots(), st.builds(random.Random, st.integers(0, 2**32)))
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


def test_the_snapshots_made_here_are_worth_planning() -> None:
    plans = [plan_admissions(a_snapshot(seed)) for seed in range(300)]
    assert sum(len(plan.starts) for plan in plans) > 400
    assert {hold.reason for plan in plans for hold in plan.held.values()} >= {
        WaitReason.NO_PLACE,
        WaitReason.ADMISSION_LEVEL,
        WaitReason.QUEUE_QUOTA,
        WaitReason.LARGER_THAN_CLUSTER,
        WaitReason.TAINT_NOT_TOLERATED,
    }


@settings(max_examples=examples(80))
@given(snapshots(), st.integers(1, 3))
def test_limited_cycles_choose_the_same_jobs_first(snapshot: Snapshot, most: int) -> None:
    whole, part = plan_admissions(snapshot), plan_admissions(snapshot, max_starts_per_cycle=most)
    assert part.starts == whole.starts[:most]
    assert part.truncated or part == whole
