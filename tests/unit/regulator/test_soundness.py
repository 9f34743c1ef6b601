"""What must hold of a period is told where it does not: one corrupted field after the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from scavenger_api.levels import LevelsState
from scavenger_regulator.core.eviction.plan import Outcome
from scavenger_regulator.core.levels import WaterLevels
from scavenger_regulator.core.plan import Decision, assert_sound, regulate
from scavenger_regulator.core.reclaimed.offer import Offer
from scavenger_regulator.core.rules import Rules
from scavenger_regulator.core.snapshot import CLUSTER, Snapshot

from .builders import candidate, gang, snapshot

RULES = Rules(yield_at_checkpoint=False, cpu_samples=1)
SEEN = snapshot([gang("a"), gang("b", started=1200), gang("c", started=1500)], cpu=8.6)
"""Above the upper level: some go."""
BLIND = snapshot([gang("a")], age=3600)

Wrong = Callable[[Decision], Decision]


def scope(**changes: Any) -> Wrong:
    """Another decision about the cluster."""
    return lambda decision: replace(decision, scopes={CLUSTER: replace(decision.scopes[CLUSTER], **changes)})


def plan(**changes: Any) -> Wrong:
    """Another plan."""

    def wrong(decision: Decision) -> Decision:
        found = decision.scopes[CLUSTER].plan
        assert found is not None
        return scope(plan=replace(found, **changes))(decision)

    return wrong


def first_victim(**changes: Any) -> Wrong:
    """Another first victim."""

    def wrong(decision: Decision) -> Decision:
        first, *rest = decision.victims
        other = replace(first.candidate, gang=replace(first.candidate.gang, **changes))
        return replace(decision, victims=(replace(first, candidate=other), *rest))

    return wrong


def published(**changes: Any) -> Wrong:
    """Something else is published."""
    return lambda decision: replace(decision, published=replace(decision.published, **changes))


PROTECTED = gang("a", pod_preemptible=False)


@pytest.mark.parametrize(
    ("seen", "wrong", "says"),
    [
        (SEEN, scope(levels={"cpu": WaterLevels(80.0, 70.0, 85.0)}), "levels: scope .*: not 0 <= lower"),
        (SEEN, scope(levels={"cpu": WaterLevels(70.0, 80.0, 101.0)}), "levels: scope"),
        (SEEN, scope(percentage=101.0), "percentage: scope"),
        (SEEN, scope(percentage=None), "percentage: scope"),
        (SEEN, scope(admit=True), "admit: scope .* though jobs are evicted"),
        (SEEN, scope(state=LevelsState.FILLING), "state: scope"),
        (BLIND, scope(state=LevelsState.FILLING), "state: scope .* without a load"),
        (BLIND, scope(admit=True), "admit: scope .* without a load"),
        (BLIND, scope(percentage=33.0), "percentage: scope .* without a load"),
        (BLIND, scope(yields=(candidate("a"),)), "plan: scope .* evicts without a load"),
        (SEEN, plan(held=(candidate("a"), candidate("a"))), "plan: a job twice"),
        (SEEN, plan(victims=(candidate("a", preemptible=False),)), "plan: a victim that is not preemptible"),
        (SEEN, plan(victims=tuple(candidate(f"x{i}") for i in range(101))), "plan: 101 victims"),
        (SEEN, plan(gaps={"cpu": 0.0}), "gaps: "),
        (SEEN, plan(gaps={}), "plan: victims without a gap"),
        (SEEN, plan(outcome=Outcome.PLANNED, short={"cpu": 3.0}), "short: of a plan"),
        (SEEN, first_victim(pods=PROTECTED.pods), "victims: lab/.* is not preemptible"),
        (SEEN, first_victim(uid="stranger"), "victims: lab/.* is not there"),
        (SEEN, lambda decision: replace(decision, victims=decision.victims[:1] * 2), "victims: a job twice"),
        (SEEN, published(state=LevelsState.FILLING), "published: Filling of a pool that is Evicting"),
        (SEEN, published(preemptible_percentage=3.0), "published: another percentage"),
        (SEEN, published(admit=True), "published: admit"),
        (SEEN, lambda decision: replace(decision, offers={"n": Offer("n", {"cpu": -1}, None)}), "offers: node n"),
    ],
)
def test_a_period(seen: Snapshot, wrong: Wrong, says: str) -> None:
    right = regulate(seen, {}, RULES)
    assert_sound(right, seen, RULES)
    with pytest.raises(AssertionError, match=says):
        assert_sound(wrong(right), seen, RULES)


def test_who_was_refused_is_no_victim() -> None:
    right = regulate(SEEN, {}, RULES)
    refused = frozenset(victim.candidate.gang.uid for victim in right.victims)
    with pytest.raises(AssertionError, match="was refused"):
        assert_sound(right, replace(SEEN, refused=refused), RULES)
    fewer = replace(RULES, eviction=replace(RULES.eviction, max_victims=0))
    with pytest.raises(AssertionError, match="victims in a period"):
        assert_sound(right, SEEN, fewer)
