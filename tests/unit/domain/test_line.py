"""Priorities in a line: they move jobs among the places of their namespace, and nobody else."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st
from scavenger_domain.gang import Rank, by_priority, line_order


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
