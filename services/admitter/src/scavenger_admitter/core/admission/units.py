"""Units of a snapshot; see `snapshot.py`."""

from __future__ import annotations

from typing import Final

SECOND: Final = 1_000_000
"""Microseconds."""
