"""What the admitter knows of single objects that jobs refer to, and how often it may ask for them.

Nothing is watched, as there may be any number of them. A job that waits is told what was found within the last minute,
whoever it was found for. A start asks for all of them: it would fail by what has gone since.
"""

from __future__ import annotations

from typing import Final

from scavenger_runtime.clock import Clock, SystemClock

KEPT_SECONDS: Final = 60.0
"""What was found is remembered for so long."""

KEPT: Final = 16384
"""So many objects are remembered; those asked for first are forgotten first."""

ASKED_PER_SECOND: Final = 100.0
"""So often starts of one namespace may ask for objects, and after a while without any `BURST` times at once."""

BURST: Final = 300.0


class Lookups:
    """The memory and the pace.

    Args:
        clock: for both.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._found: dict[tuple[str, str, str], tuple[float, bool]] = {}
        """By kind, namespace and name: until when it is known, and whether the object was absent."""
        self._asked: dict[str, float] = {}
        """Until when a namespace would be asking, had it asked at its pace; who asked last is last."""

    def absent(self, kind: str, namespace: str, name: str) -> bool | None:
        """Whether the object was absent within the last minute; None where that is not known."""
        until, absent = self._found.get((kind, namespace, name), (0.0, None))
        return absent if until > self._clock.monotonic() else None

    def note(self, kind: str, namespace: str, name: str, *, absent: bool) -> None:
        """The API server was asked, and this is what it said."""
        now = self._clock.monotonic()
        self._found.pop((kind, namespace, name), None)
        self._found[kind, namespace, name] = now + KEPT_SECONDS, absent
        if len(self._found) > KEPT:
            del self._found[next(iter(self._found))]
        self._asked[namespace] = max(now, self._asked.pop(namespace, now)) + 1 / ASKED_PER_SECOND
        while self._asked[first := next(iter(self._asked))] <= now:
            del self._asked[first]

    def left(self, namespace: str) -> float:
        """Seconds until starts of the namespace may ask again; zero or less when they may now."""
        ahead = self._asked.get(namespace, 0.0) - self._clock.monotonic()
        return ahead - BURST / ASKED_PER_SECOND
