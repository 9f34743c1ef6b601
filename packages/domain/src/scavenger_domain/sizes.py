"""What the program of a pod requested before it was resized in place, and since when.

A resize changes a pod where it stands, and its status only says what it has now. So the admitter notes each change on
the pod, in the annotation `scavenger.dev/requested-cpu`: what the program was created with, and what it has requested
since then, such as `1000m,2026-01-02T03:04:05Z=4000m`. Books, rank and unsaved work are of these intervals. The
scheduler plugin, in Go, reads the same (services/scheduler/pkg/preemption/testdata/size_cases.json).

Units: moments in whole microseconds since the epoch, CPU in millicores.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final, TypeAlias

from scavenger_api.times import EPOCH, format_time, micros, parse_time

MOST: Final = 16
"""Entries of a note."""
_LONGEST: Final = MOST * 48
"""Characters of a note that are read."""
_ENTRY: Final = re.compile(r"(?:([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z)=)?([0-9]{1,9})m")

Sizes: TypeAlias = tuple[tuple[int, int], ...]
"""Since when how much, oldest first. The first entry is what the program was created with, since 0. Empty where it was
never resized."""


def parse_sizes(text: str | None) -> Sizes:
    """What a note says; nothing for one that cannot be read as a whole."""
    if not text or len(text) > _LONGEST:
        return ()
    found: list[tuple[int, int]] = []
    for part in text.split(","):
        entry = _ENTRY.fullmatch(part)
        at = parse_time(entry[1]) if entry is not None else None
        if entry is None or (at is None) == bool(found) or (at is None) != (entry[1] is None):
            return ()
        since = micros(at) if at is not None else 0
        if found and since <= found[-1][0]:
            return ()
        found.append((since, int(entry[2])))
    return tuple(found) if len(found) <= MOST else ()


def format_sizes(sizes: Sizes) -> str:
    """The note that `parse_sizes` reads. Moments in whole seconds, rounded down."""
    later = (f"{format_time(EPOCH + timedelta(microseconds=since))}={cpu}m" for since, cpu in sizes[1:])
    return ",".join((f"{sizes[0][1]}m", *later))


def resized(sizes: Sizes, before: int, since: int, cpu: int) -> Sizes:
    """What is known once the program requests another amount.

    Of more than `MOST` entries the second and the third become one, with their mean. What the program was created with
    stays, as books compare with it.

    Args:
        sizes: what was known.
        before: what it was created with, where nothing was known.
        since: since when it requests the other amount. In the second of the last entry, or before, it takes its place.
        cpu: that amount.
    """
    known = list(sizes) or [(0, before)]
    at = since // 1_000_000 * 1_000_000
    if len(known) > 1 and at <= known[-1][0]:
        at = known.pop()[0]
    if known[-1][1] == cpu:
        return tuple(known)
    known.append((at, cpu))
    if len(known) > MOST:
        (first, one), (second, other), (end, _) = known[1:4]
        mean = (one * (second - first) + other * (end - second)) // (end - first)
        known[1:3] = [(first, mean)]
    return tuple(known)


def area(sizes: Sizes, since: int, until: int) -> int:
    """The sum over time of an amount, in its unit times microseconds; 0 where the end is not after the beginning.

    Args:
        sizes: since when how much, as in `Sizes`; not empty. The amounts may be of anything.
        since: the beginning.
        until: the end.
    """
    total, end = 0, until
    for at, much in reversed(sizes):
        begin = max(at, since)
        if begin < end:
            total += much * (end - begin)
            end = begin
    return total
