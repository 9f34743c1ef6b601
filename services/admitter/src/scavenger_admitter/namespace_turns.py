"""Namespaces take turns with what the admitter asks the API server only to know more.

One question comes after the other, so that all of them together are bounded. Each namespace has a line, and the lines
are served one after the other: however much one namespace wants to know, the next one waits for one of its questions.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from scavenger_runtime.clock import Clock

PATIENCE_SECONDS: Final = 2.0
"""One whose turn it is and that does not come for so long has lost it: its job may be gone."""

LINE: Final = 4096
"""So many of a namespace wait for their turns; others of it are told to come again later."""

REMEMBERED: Final = 8
"""Over about so many turns their average length is taken."""


class NamespaceTurns:
    """The lines.

    Args:
        clock: for the turns.
        apart: seconds from one question to the next.
    """

    def __init__(self, clock: Clock, apart: float) -> None:
        self._clock = clock
        self._apart = apart
        self._each = apart
        """Seconds that a turn takes on average."""
        self._lines: dict[str, dict[Hashable, None]] = {}
        """By namespace, the one whose turn is next first."""
        self._next = 0.0
        """The next question is not before this, on the monotonic clock."""

    def left(self, namespace: str, what: Hashable) -> float:
        """Seconds until it is this one's turn, as things are; zero when it is now. It is queued from now on, and must
        ask again then."""
        now = self._clock.monotonic()
        self._skip(now)
        line = self._lines.setdefault(namespace, {})
        if what not in line:
            if len(line) >= LINE:
                return len(line) * self._each
            line[what] = None
        return max(0.0, self._next - now) + self._ahead(namespace, what) * self._each

    def take(self, namespace: str, what: Hashable, questions: int = 1) -> None:
        """It has its turn, and asks so many questions."""
        self._leave(namespace, what)
        self._each += (questions * self._apart - self._each) / REMEMBERED
        self._next = self._clock.monotonic() + questions * self._apart

    def _skip(self, now: float) -> None:
        """Who has not come loses the turn."""
        while self._lines and now - self._next >= PATIENCE_SECONDS:
            namespace = next(iter(self._lines))
            self._leave(namespace, next(iter(self._lines[namespace])))
            self._next += PATIENCE_SECONDS
        if not self._lines:
            self._next = max(self._next, now)

    def _leave(self, namespace: str, what: Hashable) -> None:
        """It waits no longer, and its namespace is behind all others."""
        line = self._lines.pop(namespace, {})
        line.pop(what, None)
        if line:
            self._lines[namespace] = line

    def _ahead(self, namespace: str, what: Hashable) -> int:
        """How many have their turns before this one."""
        own = next(n for n, one in enumerate(self._lines[namespace]) if one == what)
        others, before = 0, 1
        for name, line in self._lines.items():
            if name == namespace:
                before = 0
            else:
                others += min(len(line), own + before)
        return own + others
