"""Levels and the preemptible percentage: the formulas of docs/levels.md, and nothing else.

Everything is in percent of what the counted nodes can allocate. With `reserve` (a configured margin) and
`stdev` (the standard deviation of the regular load over the window):

    lower     = 100 - (reserve + stdev)
    upper     = 100 - (reserve / 3 + stdev)
    admission = min(lower + |reserve - stdev|, upper)
    eta       = exp(ln 100 / (upper - lower) * (load - lower))        for lower <= load <= upper

The restless cluster keeps more capacity free: a burst as large as yesterday's then still fits above the load.
Between `lower` and `upper`, eta climbs from 1 to 100, slowly at first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

FLOOR: Final = 33.0
"""Percent of the running jobs that are preemptible when no regular pod needs capacity."""


TREMBLE: Final = 1.0
"""Points that a load may move up or down by without another percentage."""


@dataclass(frozen=True, slots=True)
class WaterLevels:
    """Three levels in percent, 0 <= lower <= admission <= upper <= 100."""

    lower: float
    admission: float
    upper: float


@dataclass(frozen=True, slots=True)
class ThrottleLines:
    """Loads in percent, restore <= throttle.

    Attributes:
        throttle: from here on jobs are throttled, until the load is at `restore`.
        restore: under it they get their CPU back.
    """

    throttle: float
    restore: float

    def under(self, upper: float) -> ThrottleLines:
        """The same, neither of them above the eviction threshold `upper`."""
        return ThrottleLines(min(self.throttle, upper), min(self.restore, upper))

    def lowest(self, other: ThrottleLines) -> ThrottleLines:
        """The lower of each."""
        return ThrottleLines(min(self.throttle, other.throttle), min(self.restore, other.restore))


INITIAL: Final = WaterLevels(70.0, 80.0, 85.0)
"""Before there is enough history."""


class LevelPolicy(StrEnum):
    """How levels and percentage follow the load."""

    EXPONENTIAL = "exponential"
    """The formulas above."""
    LINEAR = "linear"
    """Fixed levels and a straight line, for administrators who want to be able to predict it in their
    heads."""


def water_levels(mean: float, stdev: float, reserve: float) -> WaterLevels:
    """The levels for a window of regular load; `INITIAL` where a figure is not a number.

    mean, stdev: of the regular load in percent. The mean takes no part in the formulas (the levels look at
    how far the load jumps, not where it is), but a window whose mean is nonsense has no deviation to trust
    either. reserve: percent.
    """
    if not all(math.isfinite(value) for value in (mean, stdev, reserve)) or stdev < 0 or reserve < 0:
        return INITIAL
    lower = 100.0 - (reserve + stdev)
    upper = 100.0 - (reserve / 3.0 + stdev)
    admission = min(lower + max(reserve, stdev) - min(reserve, stdev), upper)
    return ordered(lower, admission, upper)


def ordered(lower: float, admission: float, upper: float) -> WaterLevels:
    """The three as levels: within 0..100, and none below the one before it."""
    lower = _clamp(lower)
    admission = max(lower, _clamp(admission))
    return WaterLevels(lower, admission, max(admission, _clamp(upper)))


def apart(levels: WaterLevels, margin: float) -> WaterLevels:
    """The same with `admission` at least `margin` points under `upper`, but not under `lower`.

    Where the regular load is steady the formulas make both the same. Filled up to there, the next breath of
    regular load evicts down to `lower`, and yielding never begins (docs/designs/0004-admission-stays-below-upper.md).
    """
    return WaterLevels(levels.lower, max(levels.lower, min(levels.admission, levels.upper - margin)), levels.upper)


def preemptible_percentage(load: float, levels: WaterLevels, floor: float = FLOOR) -> float:
    """Percent of the running jobs that regular pods may displace.

    `floor` below `lower`, 100 from `upper` on (also where both are one), eta between, but never less than the
    floor. A load below 0 counts as 0 and one above 100 as 100. NaN gives the floor: what is not known is no reason to
    expose a job.
    """
    if math.isnan(load):
        return floor
    if load >= levels.upper:
        return 100.0
    if load < levels.lower:
        return floor
    # lower <= load < upper, so the span is positive
    eta = math.exp(math.log(100.0) / (levels.upper - levels.lower) * (load - levels.lower))
    return min(100.0, max(floor, eta))


def linear_percentage(load: float, levels: WaterLevels, floor: float = FLOOR) -> float:
    """The straight line: from `lower` on, the floor plus one for each point of load above it; 100 from
    `upper` on.

    With the initial levels this is "load mod 70 + 33, above 85 evict"; below 70, where a modulo would begin
    again at a high value, it stays at the floor.
    """
    if math.isnan(load) or load < levels.lower:
        return 100.0 if load >= levels.upper else floor
    if load >= levels.upper:
        return 100.0
    return min(100.0, floor + (load - levels.lower))


def steady_load(before: float | None, load: float) -> float:
    """The load that the percentage is drawn from: it follows only where the load has moved further than `TREMBLE`.

    A load that trembles about one figure has one percentage. Where the curve is steep a point of load is a quarter of
    the jobs, and each of them would change its class, and back, from period to period.

    Args:
        before: what this was in the period before, percent; None in the first.
        load: percent.
    """
    return load if before is None else min(load + TREMBLE, max(load - TREMBLE, before))


PERCENTAGE: Final[Mapping[LevelPolicy, Callable[[float, WaterLevels, float], float]]] = {
    LevelPolicy.EXPONENTIAL: preemptible_percentage,
    LevelPolicy.LINEAR: linear_percentage,
}


def step_toward(previous: WaterLevels | None, target: WaterLevels, step: float) -> WaterLevels:
    """`target`, but no level further than `step` points from where it was: a level that jumps evicts by
    itself.

    The order is kept: each level is the target clamped to an interval around its old value, and those
    intervals are in order. No previous levels, or a step that is not positive, means no limit.
    """
    if previous is None or not step > 0:
        return target
    return WaterLevels(
        _toward(previous.lower, target.lower, step),
        _toward(previous.admission, target.admission, step),
        _toward(previous.upper, target.upper, step),
    )


def _toward(old: float, new: float, step: float) -> float:
    return min(old + step, max(old - step, new))


def _clamp(value: float) -> float:
    return min(100.0, max(0.0, value))
