"""What a container says of its checkpoints as it ends, whatever its program wrote."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scavenger_domain.checkpoints import (
    checkpoint_at_end,
    saved_its_state,
    stated_checkpoint,
    without_checkpoint,
)

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
END = START + timedelta(minutes=10)
AT = datetime(2026, 1, 2, 3, 10, tzinfo=UTC)
LINE = "checkpoint=2026-01-02T03:10:00Z"

HOSTILE = (
    "",
    "checkpoint=",
    "checkpoint=soon",
    "checkpoint=0001-01-01T00:00:00+14:00",
    "checkpoint=9999-12-31T23:59:59-14:00",
    "checkpoint=2026-13-45T99:99:99Z",
    "checkpoint=" + "9" * 4085,
    "checkpoint=" * 372,
    "\n" * 4096,
    "\0" * 4096,
    "checkpoint=2026-01-02T03:10:00Z and more",
    f"{LINE}\nTraceback",
    f"xcheckpoint={LINE}",
)


@pytest.mark.parametrize(
    ("message", "found"),
    [
        (LINE, AT),
        (f"{LINE}\n", AT),
        (f"  {LINE}\r\n\n", AT),
        (f"step 7\ncheckpoint=2020-01-01T00:00:00Z\n{LINE}", AT),
        ("checkpoint=2026-01-02T05:10:00+02:00", AT),
        ("checkpoint=2026-01-02T03:10:00.123456Z", AT + timedelta(microseconds=123456)),
        ("checkpoint=2026-01-02T03:10:00.123456789Z", AT + timedelta(microseconds=123456)),
        ("checkpoint=2026-01-02T03:10:00", AT),  # as it is written without a zone, UTC
        ("checkpoint=2026-01-02 03:10:00 +0000", AT),
        ("checkpoint=1767323400.5", AT + timedelta(microseconds=500000)),
    ],
)
def test_the_last_line_says_when(message: str, found: datetime) -> None:
    assert stated_checkpoint(message) == found
    assert checkpoint_at_end(message, saved=False, started=START, finished=END) == AT


@pytest.mark.parametrize("message", HOSTILE)
def test_anything_else_says_nothing(message: str) -> None:
    assert checkpoint_at_end(message, saved=False, started=START, finished=END) is None


@pytest.mark.parametrize(
    ("offset", "counts"),
    [
        (timedelta(0), True),
        (timedelta(seconds=-1), False),
        (timedelta(days=-400), False),
        (timedelta(minutes=10), True),
        (timedelta(minutes=10, milliseconds=999), True),  # the kubelet rounds the end down
        (timedelta(minutes=10, seconds=1), False),
        (timedelta(days=400), False),
    ],
)
def test_nothing_is_believed_beyond_the_life_of_the_container(offset: timedelta, counts: bool) -> None:
    message = f"checkpoint={(START + offset).isoformat()}"
    assert (checkpoint_at_end(message, saved=False, started=START, finished=END) is not None) == counts
    assert checkpoint_at_end(message, saved=False, started=None, finished=END) is None


@given(message=st.text(max_size=4096) | st.text(max_size=60).map("checkpoint={}".format), saved=st.booleans())
def test_whatever_is_written_is_within_that_life(message: str, saved: bool) -> None:
    found = checkpoint_at_end(message, saved=saved, started=START, finished=END)
    assert found == END if saved else found is None or START <= found <= END
    assert len(without_checkpoint(message)) <= len(message)


@pytest.mark.parametrize(
    ("code", "reason", "declared", "saved"),
    [
        (85, "Error", 85, True),
        (85, "", 85, True),
        (85, "Error", None, False),
        (85, "Error", 84, False),
        (1, "Error", 85, False),
        (137, "OOMKilled", 137, False),
        (128, "StartError", 128, False),
        (255, "Unknown", 255, False),
        (0, "Completed", 85, False),
    ],
)
def test_an_exit_code_says_so_only_where_the_job_declares_it(
    code: int, reason: str, declared: int | None, saved: bool
) -> None:
    assert saved_its_state(code, reason, declared) == saved


@pytest.mark.parametrize(
    ("message", "rest"),
    [(LINE, ""), (f"out of disk\n{LINE}\n", "out of disk"), ("out of disk\n", "out of disk"), ("", "")],
)
def test_people_are_not_shown_the_line(message: str, rest: str) -> None:
    assert without_checkpoint(message) == rest
