"""From what GROMACS and a tuner leave behind to figures. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime


def performance(log: str) -> float:
    """ns/day, as mdrun says it at the end of md.log. Raises ValueError where it has not ended in good order."""
    found = re.findall(r"^Performance:\s+([0-9.]+)\s", log, re.MULTILINE)
    if not found:
        raise ValueError(f"mdrun has not said how fast it was: {log[-300:]}")
    return float(found[-1])


def recomputed_percent(runs: Sequence[tuple[int, int]]) -> float:
    """Steps made more than once, in percent of those that count. runs: (steps, recomputed steps)."""
    return 100 * sum(again for _, again in runs) / sum(steps for steps, _ in runs)


def per_minute(began: datetime, ends: Sequence[datetime]) -> float:
    """How many ended per minute, until the last of them."""
    return 60 * len(ends) / (max(ends) - began).total_seconds()
