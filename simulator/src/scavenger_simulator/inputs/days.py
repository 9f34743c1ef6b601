"""A scenario in pieces of a day, so that a setting found on some can be tried on others."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from scavenger_simulator.scenario import Scenario

DAY: Final = 86_400.0
LEAST: Final = 0.5
"""A last piece shorter than this share of a day is left out."""


def by_days(scenario: Scenario) -> tuple[Scenario, ...]:
    """A scenario for each day, its times as they were; the one itself where it is not longer than a day and a half.

    A pod that is there when a day begins arrives then, and a job belongs to the day it was submitted on.
    """
    pieces = []
    start, number = scenario.start, 1
    while scenario.end - start >= LEAST * DAY:
        end = min(start + DAY, scenario.end)
        pieces.append(_piece(scenario, start, end, number))
        start, number = end, number + 1
    return tuple(pieces) if len(pieces) > 1 else (scenario,)


def _piece(scenario: Scenario, start: float, end: float, number: int) -> Scenario:
    return replace(
        scenario,
        name=f"{scenario.name}, day {number}",
        ordinary=tuple(
            replace(pod, arrives=max(start, pod.arrives))
            for pod in scenario.ordinary
            if pod.arrives < end and pod.leaves > start
        ),
        jobs=tuple(job for job in scenario.jobs if start <= job.submitted < end),
        start=start,
        end=end,
    )
