"""The log of the members."""

from __future__ import annotations

import sys
from datetime import UTC, datetime


def say(line: str) -> None:
    """One line of it."""
    sys.stdout.write(f"{datetime.now(UTC).strftime('%Y-%m-%dT%H:%M:%SZ')} {line}\n")
    sys.stdout.flush()
