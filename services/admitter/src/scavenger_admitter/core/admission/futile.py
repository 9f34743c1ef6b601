"""Jobs for which no other job is interrupted at the moment, as their starts have failed.

A job whose namespace has used up its ResourceQuota, or whose pods a webhook refuses, cannot use the capacity that
others give up for it. The others start again there, and without a memory they are interrupted for the same job again.
So a start that fails bars the job, and where the namespace was refused, all jobs of the namespace. Free capacity is
theirs as before.

A bar ends when a start of the barred comes off. No event says that a quota was raised, so after `FIRST` capacity is
freed once more, for one of the barred jobs. The next time is after twice as long, up to `MOST`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from scavenger_admitter.core.admission.snapshot import Candidate
from scavenger_admitter.core.admission.units import SECOND

FIRST: Final = 600 * SECOND
MOST: Final = 86_400 * SECOND


@dataclass(slots=True)
class _Bar:
    delay: int
    until: int


class FutileStarts:
    """The jobs and namespaces whose last starts failed. A job is known by namespace/name. Times are microseconds."""

    def __init__(self) -> None:
        self._bars: dict[str, _Bar] = {}

    def failed(self, whose: str, now: int) -> None:
        """A start of a job failed, or of a namespace."""
        bar = self._bars.setdefault(whose, _Bar(FIRST, now))
        bar.until = max(bar.until, now + bar.delay)

    def came_off(self, key: str) -> None:
        """A start of this job came off."""
        for whose in names_of(key):
            self._bars.pop(whose, None)

    def forget(self, key: str) -> None:
        """The job is gone."""
        self._bars.pop(key, None)

    def room_made(self, key: str, now: int) -> None:
        """Others are interrupted for this job."""
        for whose in names_of(key):
            bar = self._bars.get(whose)
            if bar is not None:
                bar.delay = min(MOST, 2 * bar.delay)
                bar.until = now + bar.delay

    def barred(self, now: int) -> dict[str, bool]:
        """Whether each of them is barred now; else one job of it may be tried."""
        for whose in [whose for whose, bar in self._bars.items() if now - bar.until > MOST]:
            del self._bars[whose]
        for bar in self._bars.values():
            bar.until = min(bar.until, now + bar.delay)  # the clock may have been set back
        return {whose: now < bar.until for whose, bar in self._bars.items()}


def names_of(key: str) -> tuple[str, str]:
    """By what a job may be barred: itself, and its namespace."""
    return key, key.partition("/")[0]


class Tries:
    """Who of a cycle's waiting jobs may have others interrupted.

    Args:
        barred: see `FutileStarts.barred`.
    """

    def __init__(self, barred: Mapping[str, bool]) -> None:
        self._barred = dict(barred)

    def allowed(self, waiting: Sequence[Candidate]) -> Sequence[Candidate]:
        """Those who may at the beginning of the cycle."""
        return [one for one in waiting if self.allows(one)] if self._barred else waiting

    def allows(self, candidate: Candidate) -> bool:
        """Whether this one may now."""
        return not any(self._barred.get(whose) for whose in names_of(candidate.key))

    def made(self, candidate: Candidate) -> None:
        """Others are interrupted for this one: no more of the same name are tried."""
        for whose in names_of(candidate.key):
            if whose in self._barred:
                self._barred[whose] = True
