"""What must hold of a plan of classes is told where it does not: one corrupted field after the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from msgspec.structs import replace as alter
from scavenger_prioritizer.core.plan import ClassPlan, PodWrite, Verdict, assert_sound, plan_classes
from scavenger_prioritizer.core.snapshot import Snapshot

from .builders import NON_PREEMPTIBLE, PREEMPTIBLE, gang, pod, published, snapshot

JOBS = [gang(f"j{number}", started=300 * number) for number in range(1, 5)]
SEEN = snapshot(JOBS, 50)
"""Four jobs: two are preemptible, and two have just become protected."""


def verdict(position: int, **changes: Any) -> Callable[[ClassPlan], ClassPlan]:
    """Another verdict about one of them."""

    def wrong(plan: ClassPlan) -> ClassPlan:
        verdicts: list[Verdict] = list(plan.verdicts)
        verdicts[position] = alter(verdicts[position], **changes)
        return replace(plan, verdicts=tuple(verdicts))

    return wrong


def turned(plan: ClassPlan) -> ClassPlan:
    return replace(plan, verdicts=plan.verdicts[::-1])


def repeated(plan: ClassPlan) -> ClassPlan:
    return replace(plan, verdicts=(*plan.verdicts, plan.verdicts[-1]))


def written(name: str, *writes: PodWrite) -> Callable[[ClassPlan], ClassPlan]:
    """These writes of pods in place of those of a list."""
    lists: dict[str, Any] = {name: writes}
    return lambda plan: replace(plan, **lists)


PROTECT = PodWrite(pod("p"), NON_PREEMPTIBLE, 5)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (repeated, "verdicts: a job twice"),
        (turned, "verdicts: not by unsaved work"),
        (verdict(0, risk=-1), "risk: j1 has -1|has -1 of unsaved work"),
        (verdict(0, gang=gang("j0", phase="Starting")), "verdicts: lab/j0 does not run"),
        (verdict(1, class_=NON_PREEMPTIBLE), "class_: lab/j2, 1 of 4, is protected at 50"),
        (verdict(3, class_=NON_PREEMPTIBLE, cordoned=True), "class_: lab/j4, 3 of 4"),
        (written("protect", PROTECT, PROTECT), "protect: p is written twice"),
        (written("unprotect", PROTECT), "unprotect: p becomes non-preemptible"),
        (written("refresh", PROTECT), "refresh: p becomes non-preemptible"),
        (written("protect", PodWrite(pod("p", live=False), NON_PREEMPTIBLE, 5)), "protect: p has ended"),
        (written("refresh", PodWrite(pod("p"), None, -5)), "refresh: priority -5"),
        (lambda plan: replace(plan, budgets_needed=()), "budgets_needed: protected jobs without a budget in"),
        (lambda plan: replace(plan, budgets_surplus=("lab",)), "budgets_surplus: protected jobs are in"),
        (lambda plan: replace(plan, budgets_needed=("lab", "x"), budgets_surplus=("x",)), "written and deleted"),
    ],
)
def test_a_plan(wrong: Callable[[ClassPlan], ClassPlan], says: str) -> None:
    _tells(SEEN, wrong, says)


def test_classes_stay_where_the_percentage_is_not_known() -> None:
    protected = [gang("a", class_=NON_PREEMPTIBLE)]
    _tells(snapshot(protected, None), verdict(0, class_=PREEMPTIBLE), "class_: of .*lab/a.* changes")


def _tells(seen: Snapshot, wrong: Callable[[ClassPlan], ClassPlan], says: str) -> None:
    right = plan_classes(seen)
    assert_sound(right, seen)
    with pytest.raises(AssertionError, match=says):
        assert_sound(wrong(right), seen)


def test_all_are_preemptible_at_a_hundred_percent() -> None:
    right = plan_classes(SEEN)
    with pytest.raises(AssertionError, match="is protected at 100"):
        assert_sound(right, replace(SEEN, share=published(100.0)))
