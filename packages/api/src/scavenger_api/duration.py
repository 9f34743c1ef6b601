"""Durations as Go and Kubernetes write them: `30m`, `1h30m`, `1.5h`, `500ms`; and, added here, `7d`."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

DURATION_PATTERN: Final = r"^([0-9]+d|([0-9]+(\.[0-9]+)?(h|m|s|ms))+)$"
"""Of the durations that a spec may have."""

_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ms|us|µs|ns|s|m|h|d)")
_SECONDS: Final = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
    "d": 86400.0,
}


class DurationError(ValueError):
    """Not a duration."""


def parse_duration(text: str) -> timedelta:
    """The duration that `text` says.

    Raises:
        DurationError: when it says none; the message shows the text and what would be right.
    """
    position, seconds = 0, 0.0
    while position < len(text):
        part = _PART.match(text, position)
        if part is None:
            break
        seconds += float(part.group(1)) * _SECONDS[part.group(2)]
        position = part.end()
    if not text or position != len(text):
        raise DurationError(f"{text!r} is not a duration: write numbers with a unit, as 90s, 30m, 1h30m or 7d")
    try:
        return timedelta(seconds=seconds)
    except OverflowError:
        raise DurationError(f"{text!r} is longer than any duration: write {timedelta.max.days}d at most") from None


def format_duration(value: timedelta) -> str:
    """The shortest exact form in whole seconds: `1h30m`, `45s`, `0s`."""
    total = int(value.total_seconds())
    if total == 0:
        return "0s"
    sign, total = ("-", -total) if total < 0 else ("", total)
    hours, rest = divmod(total, 3600)
    minutes, seconds = divmod(rest, 60)
    parts = ((hours, "h"), (minutes, "m"), (seconds, "s"))
    return sign + "".join(f"{number}{unit}" for number, unit in parts if number)
