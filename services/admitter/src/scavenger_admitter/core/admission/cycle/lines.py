"""Turns between queues: whose line is looked at next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
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
        self._fronts: dict[str, Candidate] = {}
        self._last = ""

    def next(self) -> Iterator[Candidate] | None:
        """The line whose turn it is; None when all have been gone through."""
        if self._last in self._ranks:  # only who had the last turn can hold more since
            self._ranks[self._last] = self._shares.rank(self._last)
        while self._ranks:
            name = min(self._ranks, key=self._ranks.__getitem__)
            line = self._lines[name]
            if (front := self._fronts.pop(name, None)) is not None:
                self._last = name
                return chain((front,), line)
            if length_hint(line):  # of a tuple's iterator: exactly how many are left
                self._last = name
                return line
            del self._ranks[name]
        return None

    def put_back(self, candidate: Candidate) -> None:
        """An array with more tasks to start stands at the front of its line again, which has just had its turn."""
        self._fronts[self._last] = candidate
