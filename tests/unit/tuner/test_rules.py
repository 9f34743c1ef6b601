"""What is tried after a failure: tables of situations, and what holds of every history."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scavenger_tuner.core.rules import RULES, Failure, GiveUp, Limits, Reason, next_trial
from scavenger_tuner.core.trial import Configuration, Shape, Trial

README = Path(__file__).resolve().parents[3] / "demo-apps" / "tuner" / "README.md"
LIMITS = Limits()


def trial(
    molecules: int = 500, time_step: float = 2.0, steps: int = 1000, ranks: int = 1, threads: int = 1, memory: int = 256
) -> Trial:
    configuration = Configuration("spce", molecules, 300.0, 1, steps, time_step)
    return Trial(configuration, Shape(ranks, threads), memory)


@pytest.mark.parametrize(
    ("tried", "reason", "expected"),
    [
        (trial(), Reason.UNSTABLE, trial(time_step=1.0, steps=2000)),
        (trial(time_step=1.0), Reason.UNSTABLE, trial(time_step=0.5, steps=2000)),
        (trial(), Reason.OUT_OF_MEMORY, trial(memory=512)),
        (trial(ranks=4, memory=8192), Reason.OUT_OF_MEMORY, trial(ranks=2, threads=2, memory=8192)),
        (trial(ranks=3, memory=8192), Reason.OUT_OF_MEMORY, trial(ranks=1, threads=3, memory=8192)),
        (trial(memory=8192), Reason.OUT_OF_MEMORY, trial(molecules=375, memory=8192)),
        (trial(ranks=4), Reason.TOO_LARGE, trial(ranks=2)),
        (trial(threads=4), Reason.TOO_LARGE, trial(threads=2)),
        (trial(), Reason.TOO_LARGE, trial(memory=128)),
        (trial(threads=2), Reason.WALL_TIME, trial(threads=4)),
        (trial(threads=4), Reason.WALL_TIME, trial(molecules=375, threads=4)),
        (trial(ranks=4), Reason.DECOMPOSITION, trial(ranks=2, threads=2)),
        (trial(), Reason.UNKNOWN, trial()),
    ],
)
def test_one_failure_leads_to(tried: Trial, reason: Reason, expected: Trial) -> None:
    assert next_trial([Failure(tried, reason)], LIMITS) == expected


@pytest.mark.parametrize(
    ("tried", "reason"),
    [
        (trial(time_step=0.5), Reason.UNSTABLE),
        (trial(molecules=216, memory=8192), Reason.OUT_OF_MEMORY),
        (trial(molecules=216, memory=128), Reason.TOO_LARGE),
        (trial(molecules=216, threads=4), Reason.WALL_TIME),
        (trial(), Reason.DECOMPOSITION),
        (trial(), Reason.INVALID),
    ],
)
def test_nothing_is_left_to_try(tried: Trial, reason: Reason) -> None:
    assert next_trial([Failure(tried, reason)], LIMITS) == GiveUp(f"{reason}: nothing is left to try after 1 attempts")


def test_the_same_is_tried_twice_and_no_more() -> None:
    once = Failure(trial(), Reason.UNKNOWN)

    assert next_trial([once], LIMITS) == trial()
    assert isinstance(next_trial([once, once], LIMITS), GiveUp)


def test_memory_that_no_node_has_ends_in_a_smaller_box() -> None:
    """Too little at 256 MiB, and no node has 512: fewer cores do not help, less memory is known to be too little."""
    failures = [Failure(trial(threads=2), Reason.OUT_OF_MEMORY)]
    for expected in (trial(threads=2, memory=512), trial(memory=512), trial(molecules=375, memory=256)):
        then = next_trial(failures, LIMITS)
        assert then == expected
        failures.append(Failure(expected, Reason.TOO_LARGE))


def test_more_cores_than_any_node_has_are_not_asked_for_again() -> None:
    failures = [Failure(trial(threads=4), Reason.TOO_LARGE), Failure(trial(threads=2), Reason.WALL_TIME)]

    assert next_trial(failures, LIMITS) == trial(molecules=375, threads=2)


def test_the_number_of_attempts_is_bounded() -> None:
    limits = Limits(max_attempts=2)
    failures = [Failure(trial(), Reason.UNSTABLE), Failure(trial(time_step=1.0), Reason.UNSTABLE)]

    assert next_trial(failures, limits) == GiveUp("Unstable: the last of 2 attempts, as many as are made")


@given(st.data())
def test_every_history_ends_within_the_limits(data: st.DataObject) -> None:
    """Whatever fails for whatever reason: what follows stays within the limits, and nothing is tried a third time."""
    now = trial(
        molecules=data.draw(st.integers(216, 5000)),
        time_step=data.draw(st.sampled_from([0.5, 1.0, 2.0, 4.0])),
        ranks=data.draw(st.sampled_from([1, 2, 4])),
        memory=data.draw(st.sampled_from([128, 256, 1024, 8192])),
    )
    simulated = now.configuration.time_step * now.configuration.steps
    failures: list[Failure] = []
    while True:
        failures.append(Failure(now, data.draw(st.sampled_from(Reason))))
        then = next_trial(failures, LIMITS)
        if isinstance(then, GiveUp):
            assert len(failures) <= LIMITS.max_attempts
            return
        assert then.configuration.time_step * then.configuration.steps == simulated
        assert then.configuration.time_step >= LIMITS.min_time_step
        assert then.configuration.molecules >= LIMITS.min_molecules
        assert then.shape.cores <= LIMITS.max_cores
        assert LIMITS.min_memory_mib <= then.memory_mib <= LIMITS.max_memory_mib
        assert sum(failure.trial == then for failure in failures) < 2
        now = then


def test_the_readme_has_this_table() -> None:
    rows = re.findall(r"^\| `([A-Z]\w+)` \|[^|]*\| ([^|]*) \|$", README.read_text(encoding="utf-8"), re.MULTILINE)

    assert {reason: re.findall(r"`(\w+)`", changes) for reason, changes in rows} == {
        reason.value: [change.__name__ for change in changes] for reason, changes in RULES.items()
    }


def test_every_reason_has_a_rule_and_words_are_read() -> None:
    assert set(RULES) == set(Reason)
    assert Reason.of("Unstable") is Reason.UNSTABLE
    assert Reason.of("InvalidConfiguration") is Reason.INVALID
    assert Reason.of("OutOfCoffee") is Reason.UNKNOWN
