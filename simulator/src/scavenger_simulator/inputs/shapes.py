"""How use goes up and down where no record says: by the hour, with noise that comes and goes, in bursts."""

from __future__ import annotations

import math
import random
from array import array
from collections.abc import Sequence
from typing import Final

from scavenger_simulator.scenario import UsageTrace

STEP_SECONDS: Final = 300.0
STEPS_PER_DAY: Final = 288


def daily(
    seed: int, item: str, steps: int, *, peak_hour: float = 15.0, amplitude: float = 0.4, noise: float = 0.08
) -> list[float]:
    """Use of an item relative to its mean, for every five minutes: a sine over the day with its peak at an hour, and
    noise of which a tenth is new in each step. Never below 0.05."""
    dice = random.Random(f"{seed}/{item}/daily")
    drift, found = 0.0, []
    for step in range(steps):
        drift = 0.9 * drift + noise * dice.gauss(0.0, 0.44)
        hour = 24.0 * step / STEPS_PER_DAY
        found.append(max(0.05, 1.0 + amplitude * math.cos(2 * math.pi * (hour - peak_hour) / 24) + drift))
    return found


def with_bursts(
    shape: Sequence[float], seed: int, item: str, *, per_day: float = 3.0, factor: float = 2.5
) -> list[float]:
    """The same with bursts of 20 to 60 minutes at moments of the item's own, in which its use is `factor` times as
    much."""
    dice = random.Random(f"{seed}/{item}/bursts")
    found = list(shape)
    for _ in range(round(per_day * len(shape) / STEPS_PER_DAY)):
        begin, length = dice.randrange(len(shape)), dice.randint(4, 12)
        for step in range(begin, min(begin + length, len(shape))):
            found[step] = shape[step] * factor
    return found


def trace(cpu_milli: Sequence[float], memory_bytes: float) -> UsageTrace:
    """A usage trace of five-minute steps from 0 on, with constant memory."""
    cpu = array("I", [round(value) for value in cpu_milli])
    return UsageTrace(0.0, STEP_SECONDS, cpu, array("Q", [round(memory_bytes)]) * len(cpu))
