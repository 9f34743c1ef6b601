"""Who is told why it waits, and how often.

A message costs a status write, and ten thousand jobs may wait while the figures of every reason change by the second.
So a job is told when it has waited for a while, told again only when the reason is another one, and not more often than
once a minute; and one pass over the line tells a bounded number: first those that were never told anything, front of
the line first, then those that were told something longest ago. Else a few at the front whose reasons go back and forth
would be told again and again, and the others never.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from operator import itemgetter
from typing import Final

from scavenger_api.job import ScavengerJob
from scavenger_api.reasons import WaitReason
from scavenger_runtime.clock import Clock

from scavenger_admitter.core.waits import Wait
from scavenger_admitter.job_record import JobRecords

PER_PASS: Final = 100
AGAIN_SECONDS: Final = 60.0
PASSING: Final = frozenset({WaitReason.STARTING, WaitReason.BACKING_OFF, WaitReason.NEXT_CYCLE, WaitReason.PODS_REMAIN})
"""Reasons that pass by themselves, or that the reconcile words better."""


class Explanations:
    """What each waiting job was told last.

    Args:
        records: of all jobs, with what each was told.
        clock: for the waiting time.
        after: seconds a job waits before it is told anything.
    """

    def __init__(self, records: JobRecords, clock: Clock, after: float) -> None:
        self._records = records
        self._clock = clock
        self._after = after

    def due(self, held: Mapping[str, Wait], job: Callable[[str], ScavengerJob | None]) -> Iterator[str]:
        """The jobs to be told something now; `tell` then has the words."""
        latest, count = self._latest(), 0
        for key in self._in_turn(held):
            if count >= PER_PASS:
                return
            if _waits_since(job(key), latest):
                count += 1
                self._records[key].to_be_told = True
                yield key

    def _latest(self) -> datetime:
        """Who waits since then has waited for long enough."""
        return self._clock.now() - timedelta(seconds=self._after)

    def _in_turn(self, held: Mapping[str, Wait]) -> Iterator[str]:
        """Those for whom there is news."""
        latest = self._clock.monotonic() - AGAIN_SECONDS
        before: list[tuple[float, str]] = []
        for key, wait in held.items():
            if wait.reason in PASSING:
                continue
            given = self._records[key].told
            if given is None:
                yield key
            elif given[1] <= latest and given[0] != wait:
                before.append((given[1], key))
        before.sort(key=itemgetter(0))
        yield from (key for _, key in before)

    def tell(self, key: str, job: ScavengerJob, wait: Wait | None) -> Wait | None:
        """Tell a queued job why it waits, where that is due. Returns what to tell it, None to leave it at what it was
        told."""
        record = self._records[key]
        if job.status.phase is not None and not job.status.phase.queued:
            record.told, record.to_be_told = None, False  # what it was told is about a wait that is over
            return None
        if record.to_be_told or self._first_words(job, wait):
            record.to_be_told = False
            if wait is not None:
                record.told = (wait, self._clock.monotonic())
        return None if record.told is None or wait is None else record.told[0]

    def _first_words(self, job: ScavengerJob, wait: Wait | None) -> bool:
        """Whether the first status of a job is due, which then says why it waits: that is one write instead of two."""
        return (
            job.status.phase is None
            and wait is not None
            and wait.reason not in PASSING
            and _waits_since(job, self._latest())
        )


def _waits_since(job: ScavengerJob | None, latest: datetime) -> bool:
    """Whether a job has waited since then at the latest."""
    return job is not None and job.status.queued_timestamp is not None and job.status.queued_timestamp <= latest
