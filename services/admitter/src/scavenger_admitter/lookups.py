"""What the admitter knows of single objects that jobs refer to, and how often it may ask for them.

Nothing is watched, as there may be any number of them. A job that waits is told what was found last, for whichever job
it was found. It asks at its own pace for what was found longest ago. A start asks for all of them: it would fail by
what has gone since.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from scavenger_runtime.clock import Clock, SystemClock

KEPT_SECONDS: Final = 60.0
"""What was found so lately is not asked for again by jobs that wait."""

KEPT: Final = 16384
"""So many objects are remembered; those asked for first are forgotten first."""

ASKED_PER_SECOND: Final = 100.0
"""So often starts of one namespace may ask for objects, and after a while without any `BURST` times at once."""

BURST: Final = 300.0

WAITING_PER_HOUR: Final = 12.0
"""So often a job that waits asks for objects, and after a while without any `WAITING_BURST` times at once."""

WAITING_BURST: Final = 8.0


class Pace:
    """How often each of many may ask.

    Args:
        clock: for the pace.
        per_second: how often each may.
        burst: how often at once, after a while without any.
    """

    def __init__(self, clock: Clock, per_second: float, burst: float) -> None:
        self._clock = clock
        self._apart = 1 / per_second
        self._burst = burst
        self._asked: dict[str, float] = {}
        """Until when one would be asking, had it asked at its pace; who asked last is last."""

    def asked(self, who: str, times: int = 1) -> None:
        """It has asked so many times."""
        now = self._clock.monotonic()
        self._asked[who] = max(now, self._asked.pop(who, now)) + times * self._apart
        while self._asked and self._asked[first := next(iter(self._asked))] <= now:
            del self._asked[first]

    def left(self, who: str) -> float:
        """Seconds until it may ask again; zero or less when it may now."""
        return self._asked.get(who, 0.0) - self._clock.monotonic() - self._burst * self._apart

    def free(self, who: str) -> int:
        """How often it may ask now."""
        ahead = max(0.0, self._asked.get(who, 0.0) - self._clock.monotonic())
        return max(0, int(self._burst - ahead / self._apart))


@dataclass(slots=True)
class Look:
    """What is asked for a job that waits.

    Attributes:
        chosen: kinds and names; of all others what was found last will do.
        requests: how many that took.
    """

    chosen: frozenset[tuple[str, str]]
    requests: int = 0


class Lookups:
    """The memory and the paces.

    Args:
        clock: for both.

    Attributes:
        starts: the pace of all starts of a namespace.
        waiting: the pace of a job that waits, by its key.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._found: dict[tuple[str, str, str], tuple[float, bool]] = {}
        """By kind, namespace and name: when it was asked for, and whether the object was absent."""
        self.starts = Pace(self._clock, ASKED_PER_SECOND, BURST)
        self.waiting = Pace(self._clock, WAITING_PER_HOUR / 3600, WAITING_BURST)

    def absent(self, kind: str, namespace: str, name: str) -> bool | None:
        """Whether the object was absent when it was last asked for; None where that is not remembered."""
        return self._found.get((kind, namespace, name), (0.0, None))[1]

    def is_fresh(self, kind: str, namespace: str, name: str) -> bool:
        """Whether that was within the last minute."""
        return self._clock.monotonic() - self._at(kind, namespace, name) < KEPT_SECONDS

    def note(self, kind: str, namespace: str, name: str, *, absent: bool) -> None:
        """The API server was asked, and this is what it said."""
        self._found.pop((kind, namespace, name), None)
        self._found[kind, namespace, name] = self._clock.monotonic(), absent
        if len(self._found) > KEPT:
            del self._found[next(iter(self._found))]
        self.starts.asked(namespace)

    def look(self, job: str, namespace: str, wanted: Iterable[tuple[str, str]]) -> Look:
        """What the job is to ask for now: what was found longest ago, as far as its pace allows.

        Args:
            job: its key.
            namespace: of the job.
            wanted: kinds and names of all that it refers to.
        """
        due = [one for one in wanted if not self.is_fresh(one[0], namespace, one[1])]
        due.sort(key=lambda one: (self._at(one[0], namespace, one[1]), one))
        return Look(frozenset(due[: self.waiting.free(job)]))

    def _at(self, kind: str, namespace: str, name: str) -> float:
        return self._found.get((kind, namespace, name), (float("-inf"), False))[0]
