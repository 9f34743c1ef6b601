"""From samples to figures."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that at least `percent` of the values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def median_ratio(pairs: Sequence[tuple[float, float]]) -> float:
    """Median of first over second: what disturbs one pair does not touch the others."""
    return statistics.median(one / other for one, other in pairs)


def yielded_after(samples: Sequence[tuple[float, float]], since: float, cores: float, span: float) -> float:
    """Seconds from `since` until the use first stays below `cores`, on average over the `span` seconds that follow.

    samples: (time, CPU seconds so far). Infinite when it never does.
    """
    for first, (at, used) in enumerate(samples):
        later = next(((t, u) for t, u in samples[first + 1 :] if t >= at + span), None)
        if later is None:
            break
        if at >= since and (later[1] - used) / (later[0] - at) < cores:
            return at - since
    return math.inf
