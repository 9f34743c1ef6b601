"""Scavenger pods that have gone since the load was measured: the load still shows them, and nobody holds them any more.

It is no matter how they went: by themselves, deleted, or taken back. Without them a job that ends would take what it
held from what all queues deserve, until the next measurement.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from scavenger_admitter.core.admission.shape import Requests
from scavenger_admitter.core.admission.sums import add

SECOND: Final = 1_000_000
KEPT: Final = 600 * SECOND
"""No measurement that is relied on is older."""


class Departures:
    """What has gone, and when; microseconds since the epoch."""

    def __init__(self) -> None:
        self._asked = False
        self._new: list[tuple[int, Requests]] = []
        self._gone: deque[tuple[int, int, Requests]] = deque()

    def add(self, started: int, counted: Requests) -> None:
        """A pod has ended or is gone. started: the second in which it began. counted: what it counted as. Before
        somebody asks for the first time nothing is kept: a standby may not be asked for weeks."""
        if self._asked:
            self._new.append((started, counted))

    def since(self, observed_at: int | None, now: int) -> dict[str, int]:
        """What has gone since a measurement that knew it; empty without measurements. When is known as well as somebody
        asks: in every cycle."""
        self._asked = True
        self._gone.extend((now, started, counted) for started, counted in self._new)
        self._new.clear()
        while self._gone and self._gone[0][0] < now - KEPT:
            self._gone.popleft()
        total: dict[str, int] = {}
        if observed_at is not None:
            for at, started, counted in self._gone:
                if at >= observed_at and started < observed_at // SECOND:
                    add(total, counted)
        return total
