"""Sets of the indexes of tasks, as the status of an array has them: text on the wire, a Python integer in memory.

Bit *i* of the integer is index *i*. So union, difference and count of 100,000 indexes take microseconds.

As text, a set is ranges like those of `completedIndexes` of batch/v1: `0-2,5,7,8`. Where these are longer than
`MAX_RANGES`, it is `bits:` and the base64 of its bytes, lowest index first. Counts are ranges with a count behind each,
`7:1,40-42:2`, or `nibbles:` and the base64 of four bits for each index. Equal sets are equal texts.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

MAX_TASKS: Final = 100_000
"""Indexes are less than this."""
MAX_COUNT: Final = 15
"""No count of an index is more."""
MAX_RANGES: Final = 16 * 1024
"""Ranges that would be longer are written as bits."""

BITS: Final = "bits:"
NIBBLES: Final = "nibbles:"
MAX_SET_LENGTH: Final = len(BITS) + 4 * ((MAX_TASKS // 8 + 2) // 3)
"""Characters of the longest set."""
MAX_COUNTS_LENGTH: Final = len(NIBBLES) + 4 * ((MAX_TASKS // 2 + 2) // 3)
"""Characters of the longest counts."""

_RANGE: Final = re.compile(r"([0-9]{1,6})(?:-([0-9]{1,6}))?(?::([0-9]{1,2}))?", re.ASCII)
_SHORTEST: Final = 2
"""Characters of the shortest range, with its comma."""


class IndexesError(ValueError):
    """A text is no set of indexes, or has an index or a count that no array has."""


def set_of(indexes: Iterable[int]) -> int:
    """The set of these indexes."""
    found = bytearray(MAX_TASKS // 8 + 1)
    for index in indexes:
        found[index >> 3] |= 1 << (index & 7)
    return int.from_bytes(found, "little")


def all_of(size: int) -> int:
    """The set of the first `size` indexes."""
    return (1 << size) - 1


def indexes_of(indexes: int) -> Iterator[int]:
    """The indexes of a set, lowest first."""
    for first, last in _ranges(indexes):
        yield from range(first, last + 1)


def lowest(indexes: int, most: int) -> int:
    """The lowest indexes of a set, as many as `most`."""
    found = 0
    for first, last in _ranges(indexes):
        if most <= 0:
            break
        taken = min(most, last - first + 1)
        found |= all_of(taken) << first
        most -= taken
    return found


def format_indexes(indexes: int) -> str:
    """The text of a set."""
    # As many ranges as indexes whose predecessor is not in the set.
    if (indexes & ~(indexes << 1)).bit_count() * _SHORTEST <= MAX_RANGES:
        text = ",".join(spelled(first, last) for first, last in _ranges(indexes))
        if len(text) <= MAX_RANGES:
            return text
    return BITS + _encoded(indexes)


def plain_ranges(indexes: int) -> str:
    """A set as batch/v1 has it, such as `0-3,7`, however long that is."""
    return ",".join(spelled(first, last) for first, last in _ranges(indexes))


def parse_indexes(text: str) -> int:
    """The set that a text stands for. Raises IndexesError."""
    if text.startswith(BITS):
        found = _decoded(text, BITS)
        if found.bit_length() > MAX_TASKS:
            raise IndexesError(f"{quoted(text)}: an index is {MAX_TASKS} or more")
        return found
    found = 0
    for first, last, count in _parsed(text):
        if count is not None:
            raise IndexesError(f"{quoted(text)}: a set of indexes has no counts")
        found |= all_of(last - first + 1) << first
    return found


def format_counts(counts: Mapping[int, int]) -> str:
    """The text of a count for each index; those that are 0 are left out."""
    runs: list[list[int]] = []
    for index in sorted(index for index, count in counts.items() if count):
        if runs and runs[-1][1] == index - 1 and runs[-1][2] == counts[index]:
            runs[-1][1] = index
        else:
            runs.append([index, index, counts[index]])
    text = ",".join(f"{spelled(first, last, pair=True)}:{count}" for first, last, count in runs)
    if len(text) <= MAX_RANGES:
        return text
    nibbles = bytearray(max(counts) // 2 + 1)
    for index, count in counts.items():
        nibbles[index >> 1] |= count << 4 * (index & 1)
    return NIBBLES + _encoded(int.from_bytes(nibbles, "little"))


def parse_counts(text: str) -> dict[int, int]:
    """The counts that a text stands for, by index; those that are 0 are left out. Raises IndexesError."""
    if text.startswith(NIBBLES):
        value = _decoded(text, NIBBLES)
        if value.bit_length() > 4 * MAX_TASKS:
            raise IndexesError(f"{quoted(text)}: an index is {MAX_TASKS} or more")
        nibbles = value.to_bytes((value.bit_length() + 7) // 8, "little")
        pairs = ((2 * at + half, byte >> 4 * half & MAX_COUNT) for at, byte in enumerate(nibbles) for half in (0, 1))
        return {index: count for index, count in pairs if count}
    found: dict[int, int] = {}
    for first, last, count in _parsed(text):
        if count is None or not 0 < count <= MAX_COUNT:
            raise IndexesError(f"{quoted(text)}: every index has a count from 1 to {MAX_COUNT}")
        found.update(dict.fromkeys(range(first, last + 1), count))
    return found


def _ranges(indexes: int) -> Iterator[tuple[int, int]]:
    """First and last index of each range, lowest first."""
    digits = f"{indexes:b}"[::-1] if indexes else ""
    for found in re.finditer("1+", digits):
        yield found.start(), found.end() - 1


def spelled(first: int, last: int, *, pair: bool = False) -> str:
    """A range as batch/v1 writes it: from three indexes on. `pair`: so are two."""
    if first == last:
        return str(first)
    return f"{first}{'-' if pair or last > first + 1 else ','}{last}"


def _parsed(text: str) -> Iterator[tuple[int, int, int | None]]:
    """First and last index of each part, and its count. Raises IndexesError where they do not grow."""
    before = -1
    for part in text.split(",") if text else ():
        found = _RANGE.fullmatch(part)
        if found is None:
            raise IndexesError(f"{quoted(text)}: {quoted(part)} is no index and no range; write such as 0-2,5")
        first = int(found[1])
        last = int(found[2]) if found[2] else first
        if not before < first <= last < MAX_TASKS:
            raise IndexesError(f"{quoted(text)}: indexes grow from left to right, and are less than {MAX_TASKS}")
        before = last
        yield first, last, int(found[3]) if found[3] else None


def _encoded(value: int) -> str:
    return base64.b64encode(value.to_bytes((value.bit_length() + 7) // 8, "little")).decode()


def _decoded(text: str, prefix: str) -> int:
    try:
        return int.from_bytes(base64.b64decode(text.removeprefix(prefix), validate=True), "little")
    except binascii.Error as error:
        raise IndexesError(f"{quoted(text)}: what follows {prefix} is not base64: {error}") from None


def quoted(text: str) -> str:
    """A text as messages about it have it: not too long."""
    return repr(text if len(text) <= 60 else f"{text[:57]}...")
