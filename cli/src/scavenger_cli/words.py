"""Amounts and spans as a person reads them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

from scavenger_api.quantity import format_amount
from scavenger_api.times import seen_time

MINUTE: Final = 60
HOUR: Final = 3600
DAY: Final = 86400
YEAR: Final = 365 * DAY

_GIB: Final = 2**30


def span(seconds: float) -> str:
    """A span in two units at most, as kubectl shows ages (apimachinery util/duration HumanDuration): `90s`, `5m30s`."""
    total = int(seconds)
    if total < 0:
        return "0s"
    if total < 2 * MINUTE:
        return f"{total}s"
    if total < 10 * MINUTE:
        return _two(total, MINUTE, "m", 1, "s")
    if total < 3 * HOUR:
        return f"{total // MINUTE}m"
    if total < 8 * HOUR:
        return _two(total, HOUR, "h", MINUTE, "m")
    if total < 2 * DAY:
        return f"{total // HOUR}h"
    if total < 8 * DAY:
        return _two(total, DAY, "d", HOUR, "h")
    if total < 2 * YEAR:
        return f"{total // DAY}d"
    return _two(total, YEAR, "y", DAY, "d")


def _two(total: int, large: int, large_unit: str, small: int, small_unit: str) -> str:
    rest = total % large // small
    return f"{total // large}{large_unit}" + (f"{rest}{small_unit}" if rest else "")


def age(stamp: str | datetime | None, now: datetime) -> str:
    """How long ago a time was; empty for none, and for one that was not observed."""
    at = seen_time(stamp) if isinstance(stamp, str) else stamp
    return span((now - at).total_seconds()) if at is not None else ""


def cpu_time(core_seconds: float) -> str:
    """CPU time in the unit that fits: `45 s`, `12.5 min`, `3.2 h`."""
    if core_seconds < 2 * MINUTE:
        return f"{core_seconds:.0f} s"
    if core_seconds < 2 * HOUR:
        return f"{core_seconds / MINUTE:.1f} min"
    return f"{core_seconds / HOUR:,.1f} h"


def percent(value: float) -> str:
    """A percentage with one decimal at most: `70 %`, `72.4 %`."""
    return f"{value:.1f}".removesuffix(".0") + " %"


def short_amount(resource: str, value: int) -> str:
    """An amount for a narrow column: cpu in cores, memory in the largest unit that leaves a digit: `1.5`, `96Gi`."""
    if resource == "cpu":
        return f"{value / 1000:.1f}".removesuffix(".0")
    if resource in ("memory", "ephemeral-storage"):
        for suffix, size in (("Ti", 2**40), ("Gi", _GIB), ("Mi", 2**20), ("Ki", 2**10)):
            if abs(value) >= size:
                return f"{value / size:.1f}".removesuffix(".0") + suffix
    return str(value)


def spell(amounts: Mapping[str, int] | Iterable[tuple[str, int]]) -> str:
    """Amounts in a sentence: `4 cpu, 8Gi memory, 1 nvidia.com/gpu`; `nothing` without any."""
    pairs = amounts.items() if isinstance(amounts, Mapping) else amounts
    return ", ".join(f"{_rounded(name, value)} {name}" for name, value in pairs if name != "pods") or "nothing"


def _rounded(resource: str, value: int) -> str:
    exact = format_amount(resource, value)
    return exact if len(exact) <= 7 else short_amount(resource, value)


def plural(count: int, noun: str) -> str:
    """`1 pod`, `2 pods`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def ordinal(number: int) -> str:
    """`1st`, `2nd`, `3rd`, `11th`."""
    if number % 100 in (11, 12, 13):
        return f"{number}th"
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th') }"


def bar(fraction: float, width: int, marks: Mapping[float, str] | None = None) -> str:
    """A bar of `width` cells, full at 1.0; `marks` puts a sign at a fraction, over whatever is there."""
    filled = round(max(0.0, min(1.0, fraction)) * width)
    if fraction > 0 and filled == 0:
        filled = 1  # a little is not nothing
    cells = ["█"] * filled + ["░"] * (width - filled)
    for at, sign in (marks or {}).items():
        cells[min(width - 1, max(0, round(at * width) - 1))] = sign
    return "".join(cells)
