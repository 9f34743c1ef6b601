"""Which jobs left, when, for which pods, and at what cost: statuses of jobs have the time, and Events the rest.

The API server keeps Events for an hour by default. A status has the last twenty interruptions of a job for as long as
the job exists, and no more than their moments. Where only one of the two is left, what the other would have said is
None, and not guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final

from scavenger_api.reasons import InterruptionReason
from scavenger_api.times import format_time
from scavenger_domain import interruptions
from scavenger_domain.interruptions import Interruption

from scavenger_board.core.picture import EntryRow
from scavenger_board.core.snapshot import EventFacts, JobFacts

MOST: Final = 1000
"""Entries, the newest ones."""

Victim = tuple[datetime, str]
"""When an Event on a preempted pod was written, and the pod that it names."""

LEFT: Final = "left"
LEVELS: Final = "levels"


def timeline(jobs: Iterable[JobFacts], events: Sequence[EventFacts], *, levels_about: str) -> list[EntryRow]:
    """All that is known, newest first. levels_about: what Events of the regulator's state are about
    (`ConfigMap namespace/name`)."""
    told: dict[tuple[str, str], list[EventFacts]] = {}
    for event in events:
        if event.reason == interruptions.EVENT_REASON and event.about.startswith("ScavengerJob "):
            told.setdefault((event.about, event.uid), []).append(event)
    victims = _victims(events)
    found: list[tuple[datetime, EntryRow]] = []
    for job in jobs:
        found += _departures(job, told.pop((f"ScavengerJob {job.key}", job.uid), []), victims)
    for orphans in told.values():  # of jobs that are gone
        found += [_entry(event.at, event.about.partition(" ")[2], "", event, victims) for event in orphans]
    found += [_state(event) for event in events if event.about == levels_about]
    found.sort(key=lambda pair: (pair[0], pair[1].id), reverse=True)
    return [entry for _, entry in found[:MOST]]


def _departures(
    job: JobFacts, told: list[EventFacts], victims: dict[str, list[Victim]]
) -> Iterator[tuple[datetime, EntryRow]]:
    """The interruptions of one job: each moment of its status with its Event, and the Events that have none."""
    left = sorted(told, key=lambda event: event.at)
    for number, at in enumerate(job.interruptions):
        after = job.interruptions[number + 1] if number + 1 < len(job.interruptions) else None
        event = next((one for one in left if interruptions.tells_of(one.at, at, after)), None)
        if event is not None:
            left.remove(event)
            yield _entry(at, job.key, job.queue, event, victims)
            continue
        last = number == len(job.interruptions) - 1
        cause = job.cause if last else ""  # the condition is about the last one
        row = EntryRow(
            id=f"{job.key} {format_time(at)}",
            at=format_time(at),
            kind=LEFT,
            job=job.key,
            queue=job.queue,
            cause=cause,
            means=meaning(cause),
            says="its Event has expired; the lost CPU time is in the total of the job",
            source="status",
        )
        yield at, row
    for event in left:
        yield _entry(event.at, job.key, job.queue, event, victims)


def _entry(
    at: datetime, key: str, queue: str, event: EventFacts, victims: dict[str, list[Victim]]
) -> tuple[datetime, EntryRow]:
    told = interruptions.read(event.message)
    cause = "" if told is None or told.cause is None else told.cause.value
    row = EntryRow(
        id=f"{key} {format_time(at)}",
        at=format_time(at),
        kind=LEFT,
        job=key,
        queue=queue,
        cause=cause,
        means=meaning(cause),
        whom=None if told is None else _whom(key, at, told, victims),
        pod="" if told is None else told.pod,
        lost=None if told is None else told.lost,
        at_most=told is not None and told.at_most,
        says=event.message,
    )
    return at, row


def _whom(key: str, at: datetime, told: Interruption, victims: dict[str, list[Victim]]) -> str | None:
    """For whom a job left: only the scheduler and the admitter take capacity for a certain pod or job."""
    if told.cause is InterruptionReason.PREEMPTED:
        victim = f"{key.partition('/')[0]}/{told.pod}"
        return interruptions.take_preemptor(victims.get(victim, []), at)
    return (told.detail or None) if told.cause is InterruptionReason.QUEUE_RECLAIMED else None


def _victims(events: Iterable[EventFacts]) -> dict[str, list[Victim]]:
    """Events that name the pod that preempted a victim, by the key of the victim; the ones with the name in their
    message first."""
    found: dict[str, list[Victim]] = {}
    for event in sorted(events, key=lambda event: event.reason != interruptions.PREEMPTED_BY):
        if event.reason in interruptions.TELL_WHOM and event.related.startswith("Pod "):
            victim = event.about.removeprefix("Pod ")
            found.setdefault(victim, []).append((event.at, event.related.removeprefix("Pod ")))
    return found


def _state(event: EventFacts) -> tuple[datetime, EntryRow]:
    stamp = format_time(event.at)
    row = EntryRow(f"{event.key} {stamp}", stamp, LEVELS, cause=event.reason, says=event.message)
    return event.at, row


def meaning(cause: str) -> str:
    """What a word of an interruption stands for; empty for one that is not known."""
    known = InterruptionReason.of(cause)
    return (known.__doc__ or "") if known is not None else ""
