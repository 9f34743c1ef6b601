"""A cluster of one pool is planned as before there were pools: against the formula of that time, kept here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scavenger_admitter.core.admission.cycle import plan as planning
from scavenger_admitter.core.admission.cycle.cycle_limits import CycleLimits, _at_level, _would_pass_level
from scavenger_admitter.core.admission.cycle.cycle_usage import CycleUsage
from scavenger_admitter.core.admission.cycle.gang_looks import NOT_JUDGED
from scavenger_admitter.core.admission.cycle.plan import AdmissionPlan, plan_admissions
from scavenger_admitter.core.admission.cycle.turns import places_in_time
from scavenger_admitter.core.admission.load import LoadLimit
from scavenger_admitter.core.admission.snapshot import Candidate, Snapshot
from scavenger_admitter.core.waits import Wait

from tests.unit.admitter.test_plan_properties import a_snapshot
from tests.unit.effort import examples


class LimitsBefore(CycleLimits):
    """The load rule of one cluster."""

    def fits(self, candidate: Candidate, limits: Iterable[LoadLimit], pods: Any = None) -> bool:
        return all(limit.under(self._of(candidate, limit.resource)) for limit in limits)

    def refusal(self, candidate: Candidate, pool: str = "") -> Wait | None:
        both = (*self._now, *self.soon)
        full = next((_at_level(limit) for limit in both if not limit.under()), None)
        if full is not None:
            return full
        for limit in both:
            extra = self._of(candidate, limit.resource)
            if not limit.under(extra):
                return _would_pass_level(limit, extra)
        return None

    def take(self, candidate: Candidate, pods: Any = None, *, starts: bool) -> None:
        def taken(limits: list[LoadLimit]) -> list[LoadLimit]:
            return [limit.plus(candidate.shape.counts(limit.resource) * candidate.parallelism) for limit in limits]

        self._now = taken(self._now) if starts else self._now
        self.soon = taken(self.soon)

    def _of(self, candidate: Candidate, resource: str) -> int:
        return candidate.shape.counts(resource) * candidate.parallelism if self._with_candidate else 0


class UsageBefore(CycleUsage):
    """What a cycle gave from."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        limits = LimitsBefore((), {}, with_candidate=snapshot.counted_with_candidate)
        limits._now, limits.soon, limits.falls = self.limits._now, self.limits.soon, self.limits.falls
        self.limits = limits

    def start(self, candidate: Candidate) -> tuple[str, ...] | Wait:
        key = (candidate.shape, candidate.parallelism)
        wait = self._refused.get(key) or self.limits.refusal(candidate)
        if wait is None and candidate.parallelism > 1 and not self.gangs.take():
            wait = NOT_JUDGED
        if wait is None:
            nodes = self._place_now(candidate, candidate.parallelism)
            if nodes is not None:
                self._count(candidate, nodes, starts=True)
                return nodes
            wait = self.room.no_place(*key)
        self._refused[key] = wait
        return wait

    def move(self, candidate: Candidate, count: int) -> tuple[str, ...] | None:
        if self.limits.refusal(candidate) is not None:
            return None
        nodes = self._place_now(candidate, count)
        if nodes is not None:
            self.limits.take(candidate, {"": candidate.parallelism}, starts=True)
        return nodes

    def promise(self, candidate: Candidate) -> bool:
        key = (candidate.shape, candidate.parallelism)
        changes = self.limits.falls or len(self._rooms) > 1
        if not changes or key in self._unpromised or self._refused.get(key) is NOT_JUDGED:
            return False
        fits = self.limits.fits(candidate, self.limits.soon, {})
        nodes = self.after_termination.place(*key) if fits else None
        if nodes is None:
            self._unpromised.add(key)
            return False
        for room in self._rooms[:-1]:
            room.take(candidate.shape, nodes)
        self._count(candidate, nodes, starts=False)
        return True

    def places_in_time(self, candidate: Candidate, before: tuple[str, ...] = ()) -> tuple[str, ...] | None:
        seen = self._snapshot
        leaves = {("", name): seen.shown.part(name, amount) for name, amount in seen.scavenged.items()}
        if not self.limits.fits(candidate, self.limits.without(leaves), {}):
            return None
        return places_in_time(candidate, self.room, seen.nodes, seen.shown, before)

    def pinned(self, candidate: Candidate) -> bool:
        return False

    def _place_now(self, candidate: Candidate, count: int) -> tuple[str, ...] | None:
        nodes = self.room.place(candidate.shape, count)
        for room in self._rooms[1:] if nodes is not None else ():
            room.take(candidate.shape, nodes or ())
        return nodes


@contextmanager
def before() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planning, "CycleUsage", UsageBefore)
        yield


def decided(plan: AdmissionPlan) -> AdmissionPlan:
    """With the words of those who wait, which are made when they are asked for."""
    held: Any = {key: (wait.reason, wait.message) for key, wait in plan.held.items()}
    return replace(plan, held=held)


@settings(max_examples=examples(150))
@given(st.integers(0, 2**32), st.booleans(), st.sampled_from(["plain", "gpu-1"]))
def test_one_pool_is_planned_as_before_there_were_pools(seed: int, with_it: bool, pool: str) -> None:
    made = a_snapshot(seed)
    nodes = {name: replace(node, pool=pool) for name, node in made.nodes.items()}
    snapshot = replace(made, nodes=nodes, counted_with_candidate=with_it, index=None)
    now = decided(plan_admissions(snapshot))
    with before():
        then = decided(plan_admissions(snapshot))
    assert now == then
