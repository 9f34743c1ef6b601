"""How many Jobs are being created at once, so that no namespace keeps the others waiting.

A create waits for the admission webhooks and policies of its namespace, for up to half a minute. Each has a worker of
the reconcile loop for so long; without a bound, one namespace would have all of them.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from typing import Final

from scavenger_runtime import Clock

SLOW_SECONDS: Final = 2.0
"""A create that takes longer hangs, as far as others are concerned."""

AGAIN_SECONDS: Final = 1.0
"""Who waits for a slot looks again after this, whether it was called or not: the one called may not need it."""


class StartSlots:
    """Who may create its Job now.

    Args:
        clock: to tell which creates hang.
        each: most creates at once in one namespace.
        most: most creates at once in all of them; fewer than there are workers.
        wake: has a job reconciled whose turn it may be.
    """

    def __init__(self, clock: Clock, *, each: int, most: int, wake: Callable[[str], None]) -> None:
        self._clock = clock
        self._each = each
        self._most = most
        self._wake = wake
        self._busy: defaultdict[str, dict[str, float]] = defaultdict(dict)
        self._waiting: defaultdict[str, deque[str]] = defaultdict(deque)
        self._total = 0

    def take(self, key: str) -> bool:
        """Whether the Job of `namespace/name` may be created now; else the job is called when it may be its turn."""
        namespace = _namespace(key)
        if self._total < self._most and len(self._busy[namespace]) < self._each:
            self._busy[namespace][key] = self._clock.monotonic()
            self._total += 1
            return True
        waiting = self._waiting[namespace]
        if key not in waiting:
            waiting.append(key)
        return False

    def give_back(self, key: str) -> None:
        """The create is through."""
        namespace = _namespace(key)
        self._total -= self._busy[namespace].pop(key, None) is not None
        if not self._busy[namespace]:
            del self._busy[namespace]
        # The namespaces of others only wait where all slots were taken.
        for candidate in (namespace, *self._waiting) if self._total == self._most - 1 else (namespace,):
            if waiting := self._waiting.get(candidate):
                self._wake(waiting.popleft())
                if not waiting:
                    del self._waiting[candidate]
                return

    def stuck(self, key: str) -> bool:
        """Whether the creates of its namespace hang, all that there may be: nothing more is to be begun there."""
        busy = self._busy.get(_namespace(key), {})
        return len(busy) >= self._each and self._clock.monotonic() - max(busy.values()) >= SLOW_SECONDS


def _namespace(key: str) -> str:
    return key.partition("/")[0]
