"""Timestamps: RFC 3339 in UTC, microseconds where order depends on them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

# What libraries write: ISO 8601 with or without separators, seconds and a zone; a comma is ISO's own decimal sign.
_WRITTEN = re.compile(
    r"(\d{4})-?(\d\d)-?(\d\d)[Tt ]([01]\d|2[0-3]):?(\d\d)(?::?(\d\d)(?:[.,](\d{1,9})\d*)?)?"
    r"(?: ?(?:([Zz]|UTC|GMT)|([+-](?:[01]\d|2[0-3]))(?::?([0-5]\d))?))?",
    re.ASCII,
)
_SECONDS = re.compile(r"(\d{10})(?:\.(\d{1,9})\d*)?", re.ASCII)
_MILLISECONDS = re.compile(r"(\d{10})(\d{3})", re.ASCII)


def parse_time(text: str | None) -> datetime | None:
    """An RFC 3339 timestamp as an aware UTC datetime; None for None, empty or unreadable text.

    Timestamps in annotations are written by users' programs. An unreadable one says nothing, and must not
    stop a service, so it is not an error here.
    """
    if not text:
        return None
    try:
        parsed = datetime.fromisoformat(text)
        if parsed.tzinfo is UTC:  # as the API server writes it
            return parsed
        return parsed.astimezone(UTC) if parsed.tzinfo is not None else None
    except (ValueError, OverflowError):  # overflow: the year 1, east of Greenwich
        return None


def checkpoint_time(text: str | None) -> datetime | None:
    """The moment of a checkpoint, as programs write it, in UTC; None for none, and for what cannot be read.

    Beside RFC 3339 these are read, as common libraries write them:
    - a time without a zone, which is UTC; zones such as `+02`, `+0200` and `UTC`
    - small letters, a space in place of the `T`, no separators, no seconds
    - a leap second, which is the first second of the next minute
    - seconds since the epoch with ten digits, and milliseconds with thirteen.

    Digits behind microseconds are left out. The scheduler plugin reads the same (`checkpointTime`). Its
    `testdata/checkpoint_cases.json` has the cases for both.

    Args:
        text: of the annotation, or of the last line of a termination message.
    """
    if not text:
        return None
    text = text.strip()
    if epoch := _SECONDS.fullmatch(text) or _MILLISECONDS.fullmatch(text):
        return EPOCH + timedelta(seconds=int(epoch[1]), microseconds=_microseconds(epoch[2]))
    written = _WRITTEN.fullmatch(text)
    if written is None:
        return None
    year, month, day, hour, minute, second, fraction, _, hours, minutes = written.groups()
    leap = second == "60"
    zone = f"{hours}:{minutes or '00'}" if hours else "Z"
    said = f"{year}-{month}-{day}T{hour}:{minute}:{'59' if leap else second or '00'}{zone}"
    try:
        found = parse_time(said)
        more = timedelta(seconds=leap, microseconds=_microseconds(fraction))
        return found + more if found is not None else None
    except OverflowError:  # the last moment of the year 9999
        return None


def _microseconds(fraction: str | None) -> int:
    """A decimal fraction of a second."""
    return int((fraction or "")[:6].ljust(6, "0"))


def seen_time(text: str | None) -> datetime | None:
    """When a container was seen to start or end; None where it was not seen, for which runtimes and kubelets say the
    epoch."""
    at = parse_time(text)
    return at if at != EPOCH else None


def format_time(value: datetime) -> str:
    """RFC 3339 in UTC to the second, as metav1.Time: `2026-01-02T03:04:05Z`."""
    return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_micro_time(value: datetime) -> str:
    """RFC 3339 in UTC to the microsecond, as metav1.MicroTime: `2026-01-02T03:04:05.000006Z`."""
    return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def micros(value: datetime) -> int:
    """Microseconds since the epoch, exact."""
    return (value - EPOCH) // _MICROSECOND
