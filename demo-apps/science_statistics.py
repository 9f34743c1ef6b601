"""Whether two groups of runs differ by more than chance: Welch's test. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_INTERVALS: Final = 2000
"""Of Simpson's rule; even. The integrand is smooth, and p is right to more digits than are ever printed."""


@dataclass(frozen=True, slots=True)
class Mean:
    """Of independent runs, and its standard error by how far they are apart."""

    value: float
    error: float
    count: int

    def __str__(self) -> str:
        return f"{self.value:.5g} ± {self.error:.2g}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two groups of runs. t: their difference in units of its error. p: how often chance alone makes it as large."""

    first: Mean
    second: Mean
    t: float
    freedom: float
    p: float

    @property
    def difference(self) -> Mean:
        """Second less first."""
        error = math.hypot(self.first.error, self.second.error)
        return Mean(self.second.value - self.first.value, error, self.first.count + self.second.count)


def mean(values: Sequence[float]) -> Mean:
    """The mean of two values or more. Raises statistics.StatisticsError."""
    return Mean(statistics.fmean(values), statistics.stdev(values) / math.sqrt(len(values)), len(values))


def compare(first: Sequence[float], second: Sequence[float]) -> Comparison:
    """Two groups of two runs or more, whose spreads may differ (Welch, Biometrika 1947, 34, 28)."""
    one, other = mean(first), mean(second)
    squares = one.error**2, other.error**2
    difference = other.value - one.value
    if sum(squares) == 0.0:  # all runs of a group agree to the last bit
        t = math.copysign(math.inf, difference) if difference else 0.0
        return Comparison(one, other, t, float(one.count + other.count - 2), 0.0 if difference else 1.0)
    t = difference / math.sqrt(sum(squares))
    freedom = sum(squares) ** 2 / (squares[0] ** 2 / (one.count - 1) + squares[1] ** 2 / (other.count - 1))
    return Comparison(one, other, t, freedom, two_sided(t, freedom))


def two_sided(t: float, freedom: float) -> float:
    """The probability that Student's t, with so many degrees of freedom, is as far from 0 as this or farther."""
    width = abs(t) / _INTERVALS
    inner = sum((4 if n % 2 else 2) * _density(n * width, freedom) for n in range(1, _INTERVALS))
    within = (_density(0.0, freedom) + inner + _density(abs(t), freedom)) * width / 3
    return max(0.0, 1 - 2 * within)


def _density(t: float, freedom: float) -> float:
    log = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2) - (freedom + 1) / 2 * math.log1p(t * t / freedom)
    return math.exp(log) / math.sqrt(freedom * math.pi)
