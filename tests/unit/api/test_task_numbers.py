"""What users call the tasks of an array: `spec.array.indexes`."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scavenger_api.indexes import MAX_TASKS, IndexesError, set_of
from scavenger_api.job import ScavengerJobSpec
from scavenger_api.rules.array import array_problems
from scavenger_api.task_numbers import (
    MAX_NUMBER,
    NUMBERS_PATTERN,
    format_numbers,
    format_tasks,
    numbers_of,
    parse_numbers,
    parse_ranges,
)
from scavenger_kube import scavenger_kinds


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("1-4", [1, 2, 3, 4]),
        ("0-9:3", [0, 3, 6, 9]),
        ("1,5,9-12", [1, 5, 9, 10, 11, 12]),
        ("7", [7]),
        ("0-10:4,20-30:5,4000000", [0, 4, 8, 20, 25, 30, 4_000_000]),
    ],
)
def test_numbers(text: str, numbers: list[int]) -> None:
    found = parse_numbers(text)
    assert [*found] == numbers == [found[at] for at in range(len(found))]
    assert [found.place(number) for number in numbers] == [*range(len(numbers))]
    assert not any(found.place(number) is not None for number in range(40) if number not in numbers)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no range"),
        ("1-", "no range"),
        ("-1", "no range"),
        ("1-8%4", "write the limit as maxRunning"),
        ("5-1", "ends before it begins"),
        ("1-9:0", "a step is 1 or more"),
        ("1,1", "1 follows 1"),
        ("5,1", "grow from left to right"),
        ("0-10:2,9", "9 follows 10"),
        ("0-99999,200000", "100,001 indexes are more"),
        (f"{MAX_NUMBER + 1}", "at most 4,000,000"),
        ("\u0661", "no range"),
    ],
)
def test_what_are_no_numbers(text: str, words: str) -> None:
    with pytest.raises(IndexesError, match=words):
        parse_numbers(text)
    if re.fullmatch(NUMBERS_PATTERN, text, re.ASCII):  # the CRD refuses the others
        spec = ScavengerJobSpec.model_validate({"image": "a:1", "array": {"indexes": text}})
        assert [one.field for one in array_problems(spec)] == ["spec.array.indexes"]


@given(st.lists(st.integers(0, 300), min_size=1, unique=True).map(sorted))
def test_written_and_read_again(numbers: list[int]) -> None:
    found = parse_numbers(format_numbers(numbers))
    assert [*found] == numbers
    assert found[1:3] == numbers[1:3]
    places = range(0, len(numbers), 2)
    assert parse_ranges(format_tasks(found, set_of(places)))
    assert [one for part in parse_ranges(format_tasks(found, set_of(places))) for one in part] == numbers[::2]


@pytest.mark.parametrize("array", [{"tasks": 3}, {"indexes": "4-8:2"}, {"indexes": "8-4"}, {}])
def test_both_models_count_the_same_tasks(array: dict[str, object]) -> None:
    spec = ScavengerJobSpec.model_validate({"image": "a:1", "array": array}).array
    read = scavenger_kinds.ArraySpec(array.get("tasks", 0), array.get("indexes", ""))  # type: ignore[arg-type]
    assert spec is not None
    assert [*spec.numbers] == [*read.numbers]
    assert spec.tasks == read.tasks == len(read.numbers)


def test_more_tasks_than_an_array_has_are_no_more_numbers() -> None:
    assert len(numbers_of(2**63, "")) == MAX_TASKS
