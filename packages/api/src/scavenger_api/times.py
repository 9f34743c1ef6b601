"""Timestamps: RFC 3339 in UTC, microseconds where order depends on them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


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


def seen_time(text: str | None) -> datetime | None:
    """When a container was seen to start or end; None where nobody saw it, for which runtimes and kubelets say the
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
