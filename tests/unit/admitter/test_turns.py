"""The kept turn: jobs that are larger than their neighbours start under a stream of these, within a bound."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import given, seed, settings
from hypothesis import strategies as st
from scavenger_admitter.core.admission.cycle.plan import AdmissionPlan, plan_admissions
from scavenger_admitter.core.admission.load import LoadRule
from scavenger_admitter.core.admission.snapshot import Snapshot, Turn
from scavenger_admitter.core.admission.units import SECOND
from scavenger_api.reasons import WaitReason

from tests.unit.effort import examples

from .simulation import Simulation
from .test_plan import NOW, job, node, snapshot

AFTER = 900.0
RUN = 600.0
"""The longest run of the jobs of a stream, seconds."""

WAITED = NOW - 2 * 3600 * SECOND
"""In line since then: for longer than it takes."""


def filled(name: str, used: int, by_scavengers: int = 8) -> object:
    """A node of 8 cores, some of them in use, some of these by scavenger pods."""
    there = {"cpu": by_scavengers * 1000, "memory": by_scavengers << 30, "pods": by_scavengers}
    return node(name, 8, used, scavenger=there)


def passed(**more: object) -> AdmissionPlan:
    """A cycle in which a job of one core starts where one of eight does not fit."""
    jobs = [job("large", 8, queued_at=WAITED), job("small", 1, queued_at=NOW)]
    return plan_admissions(snapshot([filled("a", 6, 6), filled("b", 8)], jobs, **more))  # type: ignore[list-item]


def kept(seen: Snapshot, turn: Turn) -> AdmissionPlan:
    """The next cycle, which keeps this turn."""
    return plan_admissions(replace(seen, turns=(turn,)))


# --- who has a turn ---


def test_who_waited_long_and_was_passed_has_its_turn_kept() -> None:
    found = passed()
    assert [start.key for start in found.starts] == ["small"]
    assert [turn.candidate.key for turn in found.turns] == ["large"]


def test_nobody_has_a_turn_who_was_not_passed_or_waits_for_less_than_the_setting_says() -> None:
    equal = [job(name, 4, queued_at=WAITED + i) for i, name in enumerate("abc")]
    assert plan_admissions(snapshot([node("n", 8)], equal)).turns == (), "who is first in line goes first"
    late = [job("large", 8, queued_at=NOW - 60 * SECOND), job("small", 1, queued_at=NOW)]
    nodes = [filled("a", 6, 6)]
    assert plan_admissions(snapshot(nodes, late)).turns == ()  # type: ignore[arg-type]
    waited = [job("large", 8, queued_at=WAITED), job("small", 1, queued_at=NOW)]
    assert plan_admissions(snapshot(nodes, waited), patience=None).turns == ()  # type: ignore[arg-type]


def test_no_turn_is_kept_while_ordinary_pods_leave_too_little_for_the_job() -> None:
    """Six cores of each node are theirs: it would wait in vain, and the small ones with it."""
    jobs = [job("large", 8, queued_at=WAITED), job("small", 1, queued_at=NOW)]
    found = plan_admissions(snapshot([filled("a", 6, 0), filled("b", 6, 0)], jobs))  # type: ignore[list-item]
    assert [start.key for start in found.starts] == ["small"]
    assert found.turns == ()


# --- what is kept ---


def test_nobody_starts_on_its_node_and_others_start_beside_it() -> None:
    large = job("large", 8, queued_at=WAITED)
    jobs = [large, *(job(f"small-{i}", 1, queued_at=NOW + i) for i in range(9))]
    seen = snapshot([filled("a", 5, 5), filled("b", 6, 6)], jobs)  # type: ignore[list-item]
    found = kept(seen, Turn(large))
    assert {start.nodes for start in found.starts} == {("b",)}
    assert len(found.starts) == 2
    assert found.turns == (Turn(large, ("a",)),), "it lacks less there"
    assert found.held["large"].reason is WaitReason.TURN_KEPT
    assert "its turn is kept, as it has waited since" in found.held["large"].message
    again = kept(snapshot([filled("a", 5, 5), filled("b", 4, 4)], jobs), found.turns[0])  # type: ignore[list-item]
    assert again.turns == found.turns, "it stays where it has waited"


def test_it_starts_first_as_soon_as_it_fits() -> None:
    large = job("large", 8, queued_at=WAITED)
    jobs = [job("back", 1, interrupted_count=5, queued_at=NOW), large]
    found = kept(snapshot([node("a", 8)], jobs), Turn(large, ("a",)))
    assert [start.key for start in found.starts] == ["large"]
    assert found.turns == ()


def test_a_turn_ends_when_its_queue_closes_or_the_room_is_gone() -> None:
    large = job("large", 8, queued_at=WAITED)
    small = job("small", 1, queued_at=NOW)
    gone = snapshot([filled("a", 6, 0)], [large, small])  # type: ignore[list-item]
    found = kept(gone, Turn(large, ("a",)))
    assert [start.key for start in found.starts] == ["small"]
    assert found.turns == ()


def test_a_turn_outlasts_cycles_in_which_nothing_may_start() -> None:
    """Else small jobs would take its nodes in the first cycle after them."""
    jobs = [job("large", 8, queued_at=WAITED), job("small", 1, queued_at=NOW)]
    turn = Turn(jobs[0], ("a",))
    closed = LoadRule.published({}, observed_at=NOW, now=NOW, period_seconds=30, admit=False)
    for shut in (LoadRule.blind("why"), closed):
        assert shut.shut is not None
        found = kept(snapshot([filled("a", 6, 6)], jobs, shut=shut.shut), turn)  # type: ignore[list-item]
        assert (found.starts, found.turns, found.held["large"]) == ((), (turn,), shut.shut)


def test_other_queues_give_their_room_back_to_whose_turn_it_is() -> None:
    simulation = Simulation({"a": 8, "b": 8}, {"mine": 1, "theirs": 1}, keep_turn_after=AFTER)
    for i in range(16):
        simulation.submit(f"theirs-{i}", "theirs")
    simulation.settle()
    simulation.pass_time(1000)
    simulation.submit("large", "mine", 8)
    simulation.turns = (Turn(simulation.waiting["large"]),)
    plan = simulation.step()
    assert len(plan.preemptions) == 8
    assert plan.held["large"].reason is WaitReason.MAKING_ROOM
    assert plan.turns, "while they take their grace period"
    assert not simulation.step().preemptions
    simulation.pass_time(simulation.grace)
    assert "large" in simulation.runs


# --- over time ---


def streamed(rng: random.Random, large: tuple[int, int], interruptions: int) -> tuple[float, int]:
    """How long a job of `large` (cores, pods) waits on four nodes of 8 cores, under a stream that would fill them and
    more; and how many cores the stream had on average meanwhile."""
    simulation = Simulation({f"n{i}": 8 for i in range(4)}, {"default": 1}, level=80, keep_turn_after=AFTER)
    number, cores, looks = 0, 0, 0
    while simulation.now < AFTER + 6 * RUN:
        number += 1
        simulation.submit(f"small-{number}", "default", seconds=rng.uniform(60.0, RUN))
        simulation.settle()
        if number == 60:
            simulation.submit("large", "default", large[0], large[1], seconds=RUN)
            since = simulation.now
            waits = simulation.waiting["large"]
            simulation.waiting["large"] = replace(waits, interrupted_count=interruptions)
        if number > 60 and "large" not in simulation.waiting:
            return simulation.now - since, cores // looks
        simulation.pass_time(rng.expovariate(1 / 12.0))
        cores, looks = cores + simulation.cores("default"), looks + 1
    return simulation.now, cores // looks


@seed(1)
@settings(max_examples=examples(12))
@given(
    st.integers(0, 10**6),
    st.sampled_from([(8, 1), (8, 2), (4, 5), (8, 3), (2, 12), (5, 4)]),
    st.sampled_from([0, 5]),
)
def test_every_job_that_fits_an_empty_cluster_starts_within_the_bound(
    number: int, large: tuple[int, int], interruptions: int
) -> None:
    """docs/queues.md: the setting, and twice the longest run."""
    waited, cores = streamed(random.Random(number), large, interruptions)
    assert waited <= AFTER + 2 * RUN
    assert cores >= 15, "others run meanwhile"
