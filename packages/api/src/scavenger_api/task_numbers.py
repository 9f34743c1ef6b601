"""The numbers of the tasks of an array, as users know them: `spec.array.indexes` in Slurm's syntax, such as `1-1000`,
`0-99:3` or `1,5,9-12`.

Components know a task by its place among these numbers, from 0 on: in names of pods and hosts, in labels, and in the
sets of a status (`scavenger_api.indexes`). Programs, people and the annotation `scavenger.dev/index` have the number.
For an array that has `tasks` and no indexes, both are the same.
"""

from __future__ import annotations

import functools
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Final, overload

from scavenger_api.indexes import MAX_TASKS, IndexesError, all_of, indexes_of, quoted, spelled

MAX_NUMBER: Final = 4_000_000
"""No number of a task is more: the most that Slurm's MaxArraySize can allow."""
MAX_TEXT: Final = 4096
"""Characters of `indexes`."""

_PART: Final = r"[0-9]{1,7}(-[0-9]{1,7}(:[0-9]{1,7})?)?"
NUMBERS_PATTERN: Final = f"^{_PART}(,{_PART})*$"
"""What the CRD can say of `indexes`; `parse_numbers` says the rest."""

_RANGE: Final = re.compile(r"([0-9]{1,7})(?:-([0-9]{1,7})(?::([0-9]{1,7}))?)?", re.ASCII)


class TaskNumbers(Sequence[int]):
    """Ascending numbers as a few ranges: 100,000 of them take as much memory as their text."""

    __slots__ = ("_before", "_ranges")

    def __init__(self, ranges: Sequence[range]) -> None:
        self._ranges = tuple(ranges)
        self._before = (0, *accumulate(map(len, ranges)))

    def __len__(self) -> int:
        return self._before[-1]

    @overload
    def __getitem__(self, at: int) -> int: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[int]: ...
    def __getitem__(self, at: int | slice) -> int | Sequence[int]:
        if isinstance(at, slice):
            return [self[one] for one in range(*at.indices(len(self)))]
        if not 0 <= at < len(self):
            raise IndexError(at)
        which = bisect_right(self._before, at) - 1
        return self._ranges[which][at - self._before[which]]

    def __iter__(self) -> Iterator[int]:
        for one in self._ranges:
            yield from one

    def place(self, number: int) -> int | None:
        """The index of the task that has a number; None where none has it."""
        at = bisect_right(self._ranges, number, key=lambda one: one.start) - 1
        if at < 0 or number not in self._ranges[at]:
            return None
        return self._before[at] + self._ranges[at].index(number)


def numbers_of(tasks: int, indexes: str) -> TaskNumbers:
    """The numbers of an array: from 0 on where it has no indexes.

    Where no webhook has refused indexes that are wrong, the array has one task, so that it is not over before it is
    refused by `scavenger_api.rules.array`.
    """
    if not indexes:
        return TaskNumbers([range(min(tasks, MAX_TASKS))])
    try:
        return parse_numbers(indexes)
    except IndexesError:
        return TaskNumbers([range(1)])


@functools.lru_cache(maxsize=256)
def parse_numbers(text: str) -> TaskNumbers:
    """The numbers that a text stands for.

    Raises:
        IndexesError: when it is no such text, its numbers do not ascend, or are too many or too large.
    """
    ranges = parse_ranges(text)
    for one, other in pairwise(ranges):
        if other.start <= one[-1]:
            raise IndexesError(f"{quoted(text)}: indexes grow from left to right, and {other.start} follows {one[-1]}")
    found = TaskNumbers(ranges)
    if len(found) > MAX_TASKS:
        raise IndexesError(f"{quoted(text)}: {len(found):,} indexes are more than the {MAX_TASKS:,} of an array")
    return found


def parse_ranges(text: str) -> list[range]:
    """The ranges of a text as they stand there, in any order. Raises IndexesError."""
    return [_range(part, text) for part in text.split(",")]


def _range(part: str, text: str) -> range:
    found = _RANGE.fullmatch(part)
    if found is None:
        remedy = "write the limit as maxRunning" if "%" in part else "write such as 1-1000, 0-99:3 or 1,5,9-12"
        raise IndexesError(f"{quoted(text)}: {quoted(part)} is no range; {remedy}")
    first, last, step = int(found[1]), int(found[2] or found[1]), int(found[3] or 1)
    if last < first:
        raise IndexesError(f"{quoted(text)}: {quoted(part)} ends before it begins")
    if last > MAX_NUMBER:
        raise IndexesError(f"{quoted(text)}: an index is at most {MAX_NUMBER:,}")
    if step < 1:
        raise IndexesError(f"{quoted(text)}: {quoted(part)}: a step is 1 or more")
    return range(first, last + 1, step)


def format_numbers(numbers: Iterable[int]) -> str:
    """Ascending numbers as ranges such as `1-3,7`, as batch/v1 writes indexes."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(spelled(first, last) for first, last in runs)


def format_tasks(numbers: TaskNumbers, indexes: int) -> str:
    """The numbers of the tasks of a set (`scavenger_api.indexes`), as ranges. Indexes beyond the array are left out."""
    return format_numbers(numbers[index] for index in indexes_of(indexes & all_of(len(numbers))))
