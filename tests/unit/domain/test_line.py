"""Priorities in a line: they move jobs among the places of their namespace, and nobody else."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scavenger_domain.gang import Rank, by_priority, line_order, places_left, served_level


@dataclass(frozen=True)
class One:
    uid: str
    namespace: str
    interruptions: int
    queued: int
    priority: int
    array: bool = False

    @property
    def rank(self) -> Rank:
        return self.namespace, self.interruptions, self.priority, self.array


def first_come(jobs: list[One]) -> list[One]:
    return sorted(jobs, key=lambda one: line_order(one.interruptions, one.queued, one.uid))


def ordered(jobs: list[One]) -> list[One]:
    return by_priority(first_come(jobs), lambda one: one.rank)


lines = st.lists(
    st.builds(
        One,
        st.uuids().map(str),
        st.sampled_from("ab"),
        st.integers(0, 2),
        st.integers(0, 5),
        st.integers(-10, 10),
    ),
    max_size=12,
    unique_by=lambda one: one.uid,
)


@given(lines)
def test_a_priority_moves_nobody_of_another_namespace(jobs: list[One]) -> None:
    before, after = first_come(jobs), ordered(jobs)
    assert [one.namespace for one in after] == [one.namespace for one in before]
    assert [one.interruptions for one in after] == [one.interruptions for one in before]
    calm = {one.namespace for one in jobs} - {one.namespace for one in jobs if one.priority}
    assert [one for one in after if one.namespace in calm] == [one for one in before if one.namespace in calm]


@given(lines)
def test_inside_a_namespace_the_order_is_that_of_its_own(jobs: list[One]) -> None:
    for namespace in "ab":
        own = [one for one in ordered(jobs) if one.namespace == namespace]
        wanted = sorted(own, key=lambda one: line_order(one.interruptions, one.queued, one.uid, one.priority))
        assert own == wanted


def test_the_highest_takes_the_first_place_of_its_namespace() -> None:
    line = [
        One("1", "a", 0, 1, -1),
        One("2", "b", 0, 2, 0),
        One("3", "a", 0, 3, 10),
        One("4", "a", 0, 4, 0),
        One("5", "a", 1, 5, -10),
    ]
    assert [one.uid for one in ordered(line)] == ["5", "3", "2", "4", "1"]


@given(lines, st.sets(st.integers(0, 11)))
def test_an_array_never_has_an_older_place_than_its_own(jobs: list[One], arrays: set[int]) -> None:
    """As many jobs of other namespaces stand before it as by place."""
    jobs = [replace(one, array=number in arrays and one.namespace == "a") for number, one in enumerate(jobs)]
    before, after = first_come(jobs), ordered(jobs)
    assert sorted(before, key=id) == sorted(after, key=id)
    for array in (one for one in jobs if one.array):
        others = [sum(one.namespace == "b" for one in line[: line.index(array)]) for line in (before, after)]
        assert others[0] <= others[1]
    for namespace in "ab":
        own = [one for one in after if one.namespace == namespace]
        assert own == sorted(own, key=lambda one: line_order(one.interruptions, one.queued, one.uid, one.priority))


def test_jobs_of_a_lower_priority_wait_behind_an_array() -> None:
    line = [One("1", "a", 0, 1, 0), One("2", "b", 0, 2, 0), One("3", "a", 0, 3, 1, array=True), One("4", "b", 0, 4, 0)]
    assert [one.uid for one in ordered(line)] == ["2", "3", "1", "4"]


@pytest.mark.parametrize(
    ("useful", "tasks", "level"),
    [(0.0, 1, 0), (0.9, 1, 0), (1.0, 1, 1), (3.9, 1, 2), (4.0, 1, 3), (3600.0, 1, 12), (3600.0, 100, 6), (1e6, 1, 20)],
)
def test_a_level_more_for_each_doubling(useful: float, tasks: int, level: int) -> None:
    assert served_level(useful, tasks) == level


# --- places are used up by starts ---


groups = st.lists(st.tuples(st.integers(-2, 2), st.booleans(), st.booleans()), max_size=8)


@given(groups)
def test_each_start_uses_up_one_place_and_those_that_stay_share_the_others_as_they_came(
    jobs: list[tuple[int, bool, bool]],
) -> None:
    """jobs: priority, whether it is an array, and whether it starts."""
    starts = {at for at, (_, _, begins) in enumerate(jobs) if begins}
    changes = dict(places_left(jobs, lambda one: ("a", 0, one[0], one[1]), starts))
    places = {at: changes.get(at, at) for at in range(len(jobs))}
    stay = [places[at] for at in range(len(jobs)) if at not in starts]
    assert all(places[at] >= at for at, (_, array, _) in enumerate(jobs) if array)
    if not any(array for _, array, _ in jobs):
        assert sorted(places.values()) == list(range(len(jobs)))
        assert stay == sorted(stay)


@given(st.lists(st.tuples(st.sampled_from(["a", "a", "b", ""]), st.integers(-1, 1)), max_size=40))
def test_no_more_jobs_of_a_namespace_go_first_than_came_first(moves: list[tuple[str, int]]) -> None:
    """Jobs arrive, or, for each move without a namespace, the first one starts. However a namespace sets priorities,
    before a job of another one it starts no more jobs than it had submitted before that job."""
    waiting: dict[int, One] = {}
    came: dict[int, int] = {}
    submitted = started = 0
    for clock, (namespace, priority) in enumerate(moves):
        if namespace:
            waiting[clock] = One(f"{clock:02}", namespace, 0, clock, priority if namespace == "a" else 0)
            came[clock] = submitted
            submitted += namespace == "a"
        elif waiting:
            first = ordered([*waiting.values()])[0]
            key = next(key for key, one in waiting.items() if one is first)
            group = first_come([one for one in waiting.values() if one.namespace == first.namespace])
            keys = [next(key for key, one in waiting.items() if one is other) for other in group]
            for own, place in places_left(group, lambda one: one.rank, {group.index(first)}):
                waiting[keys[own]] = replace(group[own], queued=group[place].queued)
            del waiting[key]
            if first.namespace == "b":
                assert started <= came[key]
            started += first.namespace == "a"


def test_a_job_lends_its_place_once() -> None:
    old, urgent, later = One("1", "a", 0, 1, 0), One("2", "a", 0, 5, 1), One("3", "a", 0, 9, 1)
    assert places_left([old, urgent], lambda one: one.rank, {1}) == [(1, 0), (0, 1)]
    lent = replace(old, queued=5)
    other = One("4", "b", 0, 3, 0)
    assert [one.uid for one in ordered([lent, other, later])] == ["4", "3", "1"]


def test_a_place_that_an_array_had_is_used_up_as_well() -> None:
    group = [One("1", "a", 0, 1, 0, array=True), One("2", "a", 0, 5, 1)]
    assert places_left(group, lambda one: one.rank, {1}) == [(1, 0), (0, 1)]


def test_an_array_that_starts_leaves_the_older_places_to_those_behind_it() -> None:
    group = [One("1", "a", 0, 1, 0), One("2", "a", 0, 5, 2, array=True), One("3", "a", 0, 9, 1)]
    assert places_left(group, lambda one: one.rank, {1}) == []
