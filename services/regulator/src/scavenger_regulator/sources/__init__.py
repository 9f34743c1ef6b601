"""Where the load comes from: one module for each source, all behind `Source`.

A source says what it found, as it came; `scavenger_regulator.core.load` judges whether it can be believed.
"""

from __future__ import annotations

from typing import Protocol

from scavenger_regulator.core.history import Figures
from scavenger_regulator.core.snapshot import Measurement


class SourceError(Exception):
    """The source could not be asked, or its answer says nothing; the message says why."""


class Source(Protocol):
    """A way to measure."""

    @property
    def name(self) -> str:
        """As in the settings, for logs and metrics."""
        ...

    async def measure(self) -> Measurement:
        """What every counted node and every scavenger pod uses now. Raises SourceError."""
        ...

    async def history(self) -> dict[str, Figures] | None:
        """Mean and deviation of the regular load by resource, from sources that keep a history themselves; None: keep
        it yourself. Raises SourceError."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...
