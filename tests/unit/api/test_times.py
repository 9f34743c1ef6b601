"""Timestamps in UTC."""

import json
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scavenger_api.times import (
    EPOCH,
    checkpoint_time,
    format_micro_time,
    format_time,
    micros,
    parse_time,
    seen_time,
)

MOMENT = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
CHECKPOINTS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[3] / "services/scheduler/pkg/preemption/testdata/checkpoint_cases.json").read_text()
)


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


@pytest.mark.parametrize("case", CHECKPOINTS, ids=[case["who"] for case in CHECKPOINTS])
def test_checkpoints_as_programs_write_them(case: dict[str, Any]) -> None:
    """The scheduler plugin reads the same table (parts_test.go)."""
    at = checkpoint_time(case["text"])

    assert (None if at is None else micros(at)) == case["micros"]


@given(st.text(max_size=40))
def test_no_words_of_a_program_are_an_error(text: str) -> None:
    at = checkpoint_time(text)

    assert at is None or at.tzinfo is UTC


@given(st.datetimes(timezones=st.just(UTC)))
def test_what_services_write_is_read_in_the_same_way(moment: datetime) -> None:
    text = format_micro_time(moment)

    assert checkpoint_time(text) == parse_time(text)
