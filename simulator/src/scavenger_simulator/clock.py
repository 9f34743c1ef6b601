"""Virtual time: whole microseconds on the scenario's clock, and as the services write it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from scavenger_api.times import micros

SECOND: Final = 1_000_000
"""Microseconds."""

EPOCH: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""Second 0 of every scenario, for the services: they know dates, and no scenario does."""

EPOCH_MICROS: Final = micros(EPOCH)


def ticks(seconds: float) -> int:
    """Seconds as whole microseconds."""
    return round(seconds * SECOND)


def seconds(at: int) -> float:
    """Microseconds as seconds."""
    return at / SECOND


def moment(at: int) -> datetime:
    """A moment as the services have it."""
    return EPOCH + timedelta(microseconds=at)


def stamp(at: int) -> int:
    """A moment in microseconds since the Unix epoch."""
    return EPOCH_MICROS + at
