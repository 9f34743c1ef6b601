"""Mean and standard deviation of the regular load over a window, in bounded size, kept across restarts.

The window is cut into buckets of equal length; each holds count, mean and M2 (the sum of squared distances
from the mean) of its samples, updated by Welford's method and merged by Chan, Golub and LeVeque (1979),
"Updating formulae and a pairwise algorithm for computing sample variances". Both are stable where sums of
squares are not. The window moves by whole buckets: it is right to one bucket's length, and its size does not depend on
how often the regulator measures.
"""

from __future__ import annotations

import json
import math
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

VERSION: Final = 1
DEFAULT_WINDOW: Final = 86_400.0
DEFAULT_BUCKETS: Final = 96
NODE_BUCKETS: Final = 12
"""For the history of one node: there may be a thousand of them in one ConfigMap."""
MAX_NUMBER: Final = 10**12
"""Bucket numbers beyond are not those of any clock; nor are widths in seconds, or counts of samples."""


@dataclass(frozen=True, slots=True)
class Moments:
    """Count, mean and M2 of a set of samples."""

    count: int = 0
    mean: float = 0.0
    m2: float = 0.0

    def add(self, value: float) -> Moments:
        """With one more sample (Welford)."""
        count = self.count + 1
        delta = value - self.mean
        mean = self.mean + delta / count
        return Moments(count, mean, self.m2 + delta * (value - mean))

    def merge(self, other: Moments) -> Moments:
        """Of both sets together (Chan)."""
        if not self.count or not other.count:
            return self if self.count else other
        count = self.count + other.count
        delta = other.mean - self.mean
        return Moments(
            count,
            self.mean + delta * other.count / count,
            self.m2 + other.m2 + delta * delta * self.count * other.count / count,
        )

    def times(self, factor: float) -> Moments:
        """Of samples so many times as large, in the bounds of percentages."""
        most = self.count * 100.0**2
        return Moments(self.count, min(100.0, self.mean * factor), min(most, self.m2 * factor * factor))

    @property
    def stdev(self) -> float:
        """Standard deviation of the samples, taken as the whole population; 0 for fewer than two."""
        return math.sqrt(max(0.0, self.m2) / self.count) if self.count > 1 else 0.0


@dataclass(frozen=True, slots=True)
class Figures:
    """What a history says: mean and stdev in percent, over how many samples."""

    mean: float
    stdev: float
    samples: int


@dataclass(slots=True)
class History:
    """The regular load of one resource over the last `window` seconds, in about `buckets` buckets.

    Attributes:
        `room`: cores or bytes that 100 percent are, where the samples are of an amount; 0 where they are of a load.
    """

    window: float = DEFAULT_WINDOW
    buckets: int = DEFAULT_BUCKETS
    room: float = 0.0
    _moments: dict[int, Moments] = field(default_factory=dict)
    """By the number of the bucket since the epoch."""
    _last: float = -math.inf
    """Time of the newest sample, in seconds since the epoch."""
    _earlier: tuple[int, int, Moments] | None = field(default=None, repr=False, compare=False)
    """The newest bucket, how many there are, and all but the newest together: they change far less often than they are
    asked for."""

    @property
    def width(self) -> float:
        """Seconds in a bucket."""
        return self.window / max(1, self.buckets)

    def add(self, at: datetime, percent: float) -> bool:
        """Take a sample in; False where it is no number, out of 0..100, or no newer than the last one.

        The same measurement looked at twice must not count twice. After a clock was set back, samples count
        again once the lost time has been made up, or at once when it was more than the window.
        """
        moment = at.timestamp()
        if not 0.0 <= percent <= 100.0:  # NaN compares false
            return False
        if moment <= self._last:
            if self._last - moment <= self.window:
                return False
            self._moments.clear()
        self._last = moment
        number = int(moment // self.width)
        if self._earlier is not None and number != self._earlier[0]:
            self._earlier = None
        before = self._moments.get(number)
        self._moments[number] = (before or Moments()).add(percent)
        if before is None:  # within a bucket nothing leaves the window
            self.forget(at)
        return True

    def measure_by(self, room: float) -> None:
        """Take what was used so far as percent of so many cores or bytes."""
        if self.room and room != self.room:
            factor = self.room / room
            self._moments = {number: moments.times(factor) for number, moments in self._moments.items()}
            self._earlier = None
        self.room = room

    def forget(self, now: datetime) -> None:
        """Drop what has left the window, and what lies in a future that a corrected clock took back."""
        newest = int(now.timestamp() // self.width)
        oldest = newest - self.buckets
        for number in [n for n in self._moments if not oldest < n <= newest + 1]:
            del self._moments[number]

    @property
    def figures(self) -> Figures | None:
        """Mean and deviation over the window; None without a sample."""
        if not self._moments:
            return None
        newest, count = max(self._moments), len(self._moments)
        if self._earlier is None or self._earlier[:2] != (newest, count):
            earlier = Moments()
            for number in sorted(self._moments)[:-1]:
                earlier = earlier.merge(self._moments[number])
            self._earlier = (newest, count, earlier)
        total = self._earlier[2].merge(self._moments[newest])
        return Figures(total.mean, total.stdev, total.count) if total.count else None

    @property
    def samples(self) -> int:
        """Samples within the window."""
        return sum(moments.count for moments in self._moments.values())

    # --- kept across restarts ------------------------------------------------------------------------------

    def dump(self) -> dict[str, Any]:
        """As JSON values, about 30 bytes per bucket."""
        return {
            "window": self.window,
            "buckets": self.buckets,
            **({"room": self.room} if self.room else {}),
            "last": round(self._last, 3) if self._moments else None,
            "moments": [
                [number, m.count, round(m.mean, 4), round(m.m2, 4)] for number, m in sorted(self._moments.items())
            ],
        }

    @classmethod
    def load(cls, dumped: Any, window: float, buckets: int, now: datetime) -> History:
        """What `dump` wrote, as far as it makes sense and lies within the window; else empty. Never raises.

        Where the window or the buckets were configured differently, old buckets go where their middle lies.
        """
        history = cls(window, buckets)
        try:
            width = float(dumped["window"]) / max(1, int(dumped["buckets"]))
            rows = [(int(n), Moments(int(c), float(mean), float(m2))) for n, c, mean, m2 in dumped["moments"]]
            rows = [(n, moments) for n, moments in rows if abs(n) < MAX_NUMBER and _sane(moments)]
            last = float(dumped["last"]) if rows else -math.inf
            room = float(dumped.get("room", 0.0))
        except (KeyError, TypeError, ValueError, OverflowError):
            return history
        if not (0 < width <= MAX_NUMBER and 0 <= room < math.inf):  # NaN compares false
            return history
        history.room = room
        for number, moments in rows:
            target = int((number + 0.5) * width // history.width)
            history._moments[target] = history._moments.get(target, Moments()).merge(moments)
        history._last = last if last <= now.timestamp() + window else -math.inf
        history.forget(now)
        return history


def _sane(moments: Moments) -> bool:
    spread = moments.count * 100.0**2
    return 0 < moments.count <= MAX_NUMBER and 0.0 <= moments.mean <= 100.0 and 0.0 <= moments.m2 <= spread


Histories = Mapping[str, Mapping[str, History]]
"""By scope (`scavenger_regulator.core.snapshot`) and resource."""


def dump_histories(histories: Histories, limit: int) -> str:
    """All histories as one text of at most `limit` bytes.

    Those of pools come first; nodes that no longer fit are left out and learned once more after a restart.
    """
    head = f'{{"version":{VERSION},"scopes":{{'
    parts: list[str] = []
    size = len(head) + 2
    for scope in sorted(histories, key=lambda scope: (bool(scope) and "/" not in scope, scope)):
        one = {resource: history.dump() for resource, history in sorted(histories[scope].items())}
        part = f"{json.dumps(scope)}:{json.dumps(one, separators=(',', ':'))}"
        if size + len(part.encode()) + 1 > limit:
            continue
        parts.append(part)
        size += len(part.encode()) + 1
    return head + ",".join(parts) + "}}"


def load_histories(
    text: str | None, scopes: Container[str] | None, window: float, buckets: int, now: datetime
) -> dict[str, dict[str, History]]:
    """What `dump_histories` wrote; empty for garbage. scopes: the ones wanted, None for all. Never raises."""
    try:
        parsed = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    if not isinstance(parsed, dict) or parsed.get("version") != VERSION:
        return {}
    found = parsed.get("scopes")
    if not isinstance(found, dict):
        return {}
    return {
        scope: {resource: History.load(dumped, window, buckets, now) for resource, dumped in one.items()}
        for scope, one in found.items()
        if isinstance(one, dict) and (scopes is None or scope in scopes)
    }
