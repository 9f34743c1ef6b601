"""Which kinds of gangs are looked at in a cycle, where there are too many of them."""

from __future__ import annotations

from typing import Final

from scavenger_api.reasons import WaitReason

from scavenger_admitter.core.admission.placement.placement import MOST_LOOKS, Room
from scavenger_admitter.core.admission.snapshot import Snapshot
from scavenger_admitter.core.waits import Wait

NOT_JUDGED: Final = Wait(
    WaitReason.NEXT_CYCLE, "too many different gangs are queued to look at all of them at once; it has its turn"
)

_IN_TURN: Final = 16
"""Gangs beyond the front of the lines that are looked at in a cycle, where there are too many kinds of them."""
_PRIME: Final = 1_000_003


class GangLooks:
    """Whether one more kind of gang may be looked at in this cycle. Those at the front of the lines always are, and of
    the others some, in every cycle different ones.

    Args:
        snapshot: of the cycle.
        room: free now; it counts the looks.

    Attributes:
        postponed: kinds of gangs that had to wait for their turn to be looked at.
    """

    def __init__(self, snapshot: Snapshot, room: Room) -> None:
        self._snapshot = snapshot
        self._room = room
        self._kinds = 0
        self.postponed = 0

    def take(self) -> bool:
        """Whether the next kind is looked at."""
        looks = self._room.looks
        if looks > MOST_LOOKS // 2:
            return True
        if not self.postponed:
            lines = self._snapshot.candidates.values()
            self._kinds = len({(job.shape, job.parallelism) for line in lines for job in line if job.parallelism > 1})
        self.postponed += 1
        first = self._snapshot.now // 1_000_000 * _PRIME
        return looks > 0 and (self.postponed - first) % self._kinds < _IN_TURN
