"""Distributions for what a trace does not say, and draws that belong to an item and not to an order."""

from __future__ import annotations

import math
from dataclasses import dataclass
from hashlib import blake2b
from statistics import NormalDist
from typing import Final

from scavenger_api.duration import DurationError, parse_duration

_NORMAL: Final = NormalDist()
_FORMS: Final = "write a value, uniform:LOW:HIGH or lognormal:MEDIAN:SIGMA; durations are seconds or such as 30m"


@dataclass(frozen=True, slots=True)
class Constant:
    """Always the same."""

    value: float

    def quantile(self, share: float) -> float:
        """The value below which this share (0 to 1) of all draws lies."""
        return self.value


@dataclass(frozen=True, slots=True)
class Uniform:
    """Everything from `low` to `high` alike."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise ValueError(f"the lower end {self.low:g} is above the upper end {self.high:g}")

    def quantile(self, share: float) -> float:
        """The value below which this share (0 to 1) of all draws lies."""
        return self.low + (self.high - self.low) * share


@dataclass(frozen=True, slots=True)
class LogNormal:
    """Its logarithm is normal: half of all draws are below `median`, two thirds within a factor e^sigma of it."""

    median: float
    sigma: float

    def __post_init__(self) -> None:
        if not self.median > 0 or self.sigma < 0:
            raise ValueError("the median must be above 0, and sigma not below")

    def quantile(self, share: float) -> float:
        """The value below which this share (0 to 1) of all draws lies."""
        return self.median * math.exp(self.sigma * _NORMAL.inv_cdf(share))


Distribution = Constant | Uniform | LogNormal


def parse_value(text: str) -> float:
    """A number not below 0, or the seconds of a duration such as 90s or 1h30m. Raises ValueError."""
    try:
        value = float(text)
    except ValueError:
        try:
            return parse_duration(text).total_seconds()
        except (DurationError, OverflowError):
            raise ValueError(f"{text!r} is neither a number nor a duration such as 90s or 1h30m") from None
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"{text!r} must be finite and not below 0")
    return value


def parse_distribution(text: str) -> Distribution:
    """What is written as `30m`, `uniform:10m:2h` or `lognormal:30m:0.5`. Raises ValueError."""
    kind, *words = text.strip().split(":")
    try:
        match kind, words:
            case "uniform", [low, high]:
                return Uniform(parse_value(low), parse_value(high))
            case "lognormal", [median, sigma]:
                return LogNormal(parse_value(median), parse_value(sigma))
            case value, []:
                return Constant(parse_value(value))
    except ValueError as error:
        raise ValueError(f"{error}; {_FORMS}") from None
    raise ValueError(f"{text!r} is no distribution; {_FORMS}")


def chance(seed: int, item: str, what: str) -> float:
    """A number strictly between 0 and 1 that depends on these three alone, in whichever order they are asked for."""
    digest = blake2b(f"{seed}\0{item}\0{what}".encode(), digest_size=7).digest()
    # 52 of the bits and a half: both ends are left out, as the quantile of a normal at 0 or 1 is infinite.
    return ((int.from_bytes(digest) >> 4) + 0.5) / 2**52


def draw(distribution: Distribution, seed: int, item: str, what: str) -> float:
    """A value of the distribution for an item, rounded to milliseconds or thousandths: the last bits of exp() are the
    machine's, and the same seed is to give the same bytes everywhere."""
    return round(distribution.quantile(chance(seed, item, what)), 3)
