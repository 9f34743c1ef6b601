"""What strangers wrote is text in logs, as JSON and on a terminal."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog
from scavenger_domain.plain_text import plain
from scavenger_runtime.logging import configure_logging, get_logger

HOSTILE = "\x1b[2J\x9b1m\u202egnp.exe"


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


@pytest.mark.parametrize("format", ["json", "console"])
def test_text_stays_text(format: str) -> None:
    stream = io.StringIO()
    configure_logging("admitter", format=format, stream=stream)
    get_logger("test").info("phase", message=HOSTILE)
    line = stream.getvalue()
    assert plain(HOSTILE) in line
    assert not any(sign in line for sign in ("\x9b", "\u202e", "\x1b[2J"))
    if format == "json":
        assert json.loads(line)["message"] == HOSTILE
