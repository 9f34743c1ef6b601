"""How long to wait before trying again: growing, bounded and scattered."""

from __future__ import annotations

import random


class Backoff:
    """Jittered exponential waits: `base` seconds, doubled each time up to `cap`, each scattered by ±`jitter`.

    Scattered, because after an outage every client of an API server starts at the same moment.
    """

    def __init__(
        self,
        base: float = 0.5,
        cap: float = 30.0,
        *,
        jitter: float = 0.3,
        rng: random.Random | None = None,
    ) -> None:
        self._base = base
        self._cap = cap
        self._jitter = jitter
        self._rng = rng or random.Random()
        self._failures = 0

    @property
    def failures(self) -> int:
        """How many waits there were since the last reset."""
        return self._failures

    def next(self) -> float:
        """Seconds to wait now."""
        wait = min(self._base * 2.0 ** min(self._failures, 32), self._cap)
        self._failures += 1
        return wait * self._rng.uniform(1.0 - self._jitter, 1.0 + self._jitter)

    def reset(self) -> None:
        """It worked: the next wait is the shortest again."""
        self._failures = 0
