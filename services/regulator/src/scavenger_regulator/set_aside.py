"""Who is left alone for a while because evicting them failed, so that others are asked."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from scavenger_regulator.evictions import EvictionOutcome

LONGEST: Final = timedelta(hours=1)
"""A job is set aside for so long at most, or for what is configured where that is longer; and after so long without a
failure the next one is its first."""


@dataclass(frozen=True, slots=True)
class _Record:
    outcome: EvictionOutcome
    count: int
    until: datetime


class SetAside:
    """What became of the last evictions of each job, by UID.

    Each failure in a row doubles the time, so that a job that cannot be evicted costs less and less. One that failed
    for another reason than a budget is tried once more in the next period: it may have been a bad moment of the API
    server, and no reason to take a job that loses more.
    """

    def __init__(self, base: float) -> None:
        """base: seconds for which a job is set aside the first time."""
        self._base = timedelta(seconds=base)
        self._records: dict[str, _Record] = {}

    def note(self, uid: str, outcome: EvictionOutcome, now: datetime) -> None:
        """Take in what became of the eviction of a job."""
        if outcome not in (EvictionOutcome.REFUSED, EvictionOutcome.FAILED):
            self._records.pop(uid, None)
            return
        before = self._records.get(uid)
        count = before.count + 1 if before is not None and now < before.until + LONGEST else 1
        doubled = count - 1 if outcome is EvictionOutcome.REFUSED else count - 2
        wait = timedelta(0) if doubled < 0 else min(self._base * 2 ** min(doubled, 16), max(LONGEST, self._base))
        self._records[uid] = _Record(outcome, count, now + wait)

    def keep(self, uids: Collection[str]) -> None:
        """Forget all jobs but these."""
        self._records = {uid: record for uid, record in self._records.items() if uid in uids}

    def set_back(self, by: timedelta) -> None:
        """The clock was set back: no job is set aside for longer."""
        self._records = {uid: replace(one, until=one.until - by) for uid, one in self._records.items()}

    def refused(self, now: datetime) -> frozenset[str]:
        """Those set aside because a budget refused their eviction."""
        return self._now(EvictionOutcome.REFUSED, now)

    def failed(self, now: datetime) -> frozenset[str]:
        """Those set aside because their eviction failed again and again."""
        return self._now(EvictionOutcome.FAILED, now)

    def _now(self, outcome: EvictionOutcome, now: datetime) -> frozenset[str]:
        return frozenset(uid for uid, one in self._records.items() if one.outcome is outcome and now < one.until)
