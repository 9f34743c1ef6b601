"""Turns between queues: whose line is looked at next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from operator import length_hint

from scavenger_admitter.core.admission.shares import Shares
from scavenger_admitter.core.admission.snapshot import Candidate


class Lines:
    """The lines of some queues, and which of them goes next: the most under-served that still has jobs to look at."""

    def __init__(self, shares: Shares, lines: Mapping[str, tuple[Candidate, ...]]) -> None:
        self._shares = shares
        # Thousands are gone through in a cycle: the tuple's own iterator does it without a call for each.
        self._lines = {name: iter(line) for name, line in lines.items()}
        self._ranks = {name: shares.rank(name) for name in lines}
        self._last = ""

    def next(self) -> Iterator[Candidate] | None:
        """The line whose turn it is; None when all have been gone through."""
        if self._last in self._ranks:  # only who had the last turn can hold more since
            self._ranks[self._last] = self._shares.rank(self._last)
        while self._ranks:
            name = min(self._ranks, key=self._ranks.__getitem__)
            line = self._lines[name]
            if length_hint(line):  # of a tuple's iterator: exactly how many are left
                self._last = name
                return line
            del self._ranks[name]
        return None
