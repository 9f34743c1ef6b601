"""What happens next: a queue of events by virtual time."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, TypeVar

T = TypeVar("T")


class Events:
    """Events in order of time, among equals in the order in which they were added.

    Attributes:
        now: virtual time in microseconds.
        count: events worked off so far.
    """

    def __init__(self, start: int) -> None:
        self.now = start
        self.count = 0
        self._heap: list[tuple[int, int, Callable[[Any], None], Any]] = []
        self._added = 0

    def add(self, at: int, handle: Callable[[T], None], subject: T) -> None:
        """Have something handled at a moment; at once where that has passed."""
        self._added += 1
        heappush(self._heap, (max(at, self.now), self._added, handle, subject))

    def run(self, end: int) -> None:
        """Work off all events before `end`; the clock is there then."""
        heap = self._heap
        while heap and heap[0][0] < end:
            self.now, _, handle, subject = heappop(heap)
            self.count += 1
            handle(subject)
        self.now = max(self.now, end)
