"""Timestamps in UTC."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scavenger_api.times import EPOCH, format_micro_time, format_time, micros, parse_time, seen_time

MOMENT = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-02T03:04:05.000006Z", MOMENT),
        ("2026-01-02T05:04:05.000006+02:00", MOMENT),
        ("2026-01-02T03:04:05Z", MOMENT.replace(microsecond=0)),
        (None, None),
        ("", None),
        ("yesterday", None),
        ("2026-01-02T03:04:05", None),  # without a zone it names no moment
        ("2026-02-30T00:00:00Z", None),
    ],
)
def test_parse(text: str | None, moment: datetime | None) -> None:
    assert parse_time(text) == moment


def test_the_epoch_says_that_nobody_saw_it() -> None:
    assert seen_time("1970-01-01T01:00:00+01:00") is None
    assert seen_time("2026-01-02T03:04:05.000006Z") == MOMENT
    assert seen_time(None) is None


def test_format_is_utc() -> None:
    east = MOMENT.astimezone(timezone(timedelta(hours=2)))

    assert format_time(east) == "2026-01-02T03:04:05Z"
    assert format_micro_time(east) == "2026-01-02T03:04:05.000006Z"


@given(st.datetimes(timezones=st.just(UTC), min_value=datetime(1970, 1, 1), max_value=datetime(2200, 1, 1)))
def test_round_trip_to_the_microsecond(moment: datetime) -> None:
    assert parse_time(format_micro_time(moment)) == moment
    assert EPOCH + timedelta(microseconds=micros(moment)) == moment
