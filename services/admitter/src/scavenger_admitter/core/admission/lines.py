"""Turns between queues: whose line is looked at next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from scavenger_admitter.core.admission.shares import Shares
from scavenger_admitter.core.admission.snapshot import Candidate


class Lines:
    """The lines of some queues, and which of them goes next: the most under-served that still has jobs to look at."""

    def __init__(self, shares: Shares, lines: Mapping[str, tuple[Candidate, ...]]) -> None:
        self._shares = shares
        self._lines = {name: _Line(line) for name, line in lines.items()}
        self._ranks = {name: shares.rank(name) for name in lines}
        self._last = ""

    def next(self) -> Iterator[Candidate] | None:
        """The line whose turn it is; None when all have been gone through."""
        if self._last in self._ranks:  # only who had the last turn can hold more since
            self._ranks[self._last] = self._shares.rank(self._last)
        while self._ranks:
            name = min(self._ranks, key=self._ranks.__getitem__)
            if not self._lines[name].done:
                self._last = name
                return self._lines[name]
            del self._ranks[name]
        return None


class _Line(Iterator[Candidate]):
    """One queue's candidates, gone through once; it knows when it is through without taking the next."""

    def __init__(self, candidates: tuple[Candidate, ...]) -> None:
        self._candidates = candidates
        self._next = 0

    def __next__(self) -> Candidate:
        if self.done:
            raise StopIteration
        self._next += 1
        return self._candidates[self._next - 1]

    @property
    def done(self) -> bool:
        return self._next >= len(self._candidates)
