"""The database that tuners share, for tests that have no event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence

from scavenger_tuner.core.trial import Configuration
from scavenger_tuner.database.reading import everything
from scavenger_tuner.database.store import ask
from scavenger_tuner.database.tables import AttemptRow, ConfigurationRow

Rows = Sequence[tuple[ConfigurationRow, Sequence[AttemptRow]]]


class Database:
    """What is asked for, and what has become of it."""

    def __init__(self, url: str) -> None:
        self._url = url

    def ask_for(self, configurations: Collection[Configuration], study: str = "s") -> None:
        """Ask for configurations, as `tuner add` does."""
        asyncio.run(ask(self._url, study, configurations))

    def rows(self) -> Rows:
        """All configurations, each with its attempts."""
        return asyncio.run(everything(self._url))

    def finished(self) -> int:
        """How many configurations are at their end."""
        return sum(row.finished_at is not None for row, _ in self.rows())
