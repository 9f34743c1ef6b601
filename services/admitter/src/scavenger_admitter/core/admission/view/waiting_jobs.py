"""The jobs in line, kept sorted queue by queue."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Set

from scavenger_admitter.core.admission.snapshot import Candidate


class WaitingJobs:
    """One line per queue, in the order of `Candidate.order`; also for queues that do not exist."""

    def __init__(self) -> None:
        self._waiting: dict[str, Candidate] = {}
        self._lines: dict[str, list[Candidate]] = {}
        self._views: dict[str, tuple[Candidate, ...]] = {}

    def apply(self, candidate: Candidate) -> None:
        """A job waits, or what it waits with has changed."""
        old = self._waiting.get(candidate.key)
        if old == candidate:
            return
        if old is not None:
            self._leave(old)
        self._waiting[candidate.key] = candidate
        insort(self._lines.setdefault(candidate.queue, []), candidate, key=_order)
        self._views.pop(candidate.queue, None)

    def delete(self, key: str) -> None:
        """A job waits no longer."""
        old = self._waiting.pop(key, None)
        if old is not None:
            self._leave(old)

    def get(self, key: str) -> Candidate | None:
        """A job that waits; None for one that does not."""
        return self._waiting.get(key)

    def keys(self) -> Set[str]:
        """The jobs that wait."""
        return self._waiting.keys()

    def lines(self) -> dict[str, tuple[Candidate, ...]]:
        """The line of each queue that has one; only lines that have changed are made anew."""
        for queue, line in self._lines.items():
            if queue not in self._views:
                self._views[queue] = tuple(line)
        return {queue: self._views[queue] for queue in self._lines}

    def _leave(self, candidate: Candidate) -> None:
        line = self._lines[candidate.queue]
        del line[bisect_left(line, candidate.order, key=_order)]
        self._views.pop(candidate.queue, None)
        if not line:
            del self._lines[candidate.queue]


def _order(candidate: Candidate) -> tuple[int, bool, int, str]:
    return candidate.order
