"""Who left, when, for whom, and at what cost: statuses of jobs say when, and Events the rest.

The API server keeps Events for an hour by default. A status has the last twenty interruptions of a job for as long as
the job exists, and no more than their moments. Where only one of the two is left, what the other would have said is
None, and not guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from scavenger_api.reasons import InterruptionReason
from scavenger_api.times import format_time
from scavenger_domain import interruptions
from scavenger_domain.interruptions import Interruption

from scavenger_board.core.picture import EntryRow
from scavenger_board.core.snapshot import EventFacts, JobFacts

MOST: Final = 1000
"""Entries, the newest ones."""

CLOCKS: Final = timedelta(seconds=5)
"""By which an Event may be earlier than the moment in the status that it is about. It may be much later: an admitter
that was down tells of what happened meanwhile, and Events wait for their turn to be written. So it is about the last
moment before it."""

ROOM_MADE: Final = timedelta(minutes=10)
"""At most from a victim's Event to the interruption: a grace period lies between them."""

LEFT: Final = "left"
LEVELS: Final = "levels"

_TELLS_WHOM: Final = (interruptions.PREEMPTED_BY, interruptions.PREEMPTED)


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
    job: JobFacts, told: list[EventFacts], victims: dict[str, list[EventFacts]]
) -> Iterator[tuple[datetime, EntryRow]]:
    """The interruptions of one job: each moment of its status with its Event, and the Events that have none."""
    left = sorted(told, key=lambda event: event.at)
    for number, at in enumerate(job.interruptions):
        after = job.interruptions[number + 1] if number + 1 < len(job.interruptions) else None
        event = next((one for one in left if _tells_of(one, at, after)), None)
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
            says="no Event tells of it any more: what it cost is in the sum of the job",
            source="status",
        )
        yield at, row
    for event in left:
        yield _entry(event.at, job.key, job.queue, event, victims)


def _tells_of(event: EventFacts, at: datetime, after: datetime | None) -> bool:
    """Whether an Event is about the interruption at a moment. after: the next one of that job."""
    return event.at >= at - CLOCKS and (after is None or event.at < after - CLOCKS)


def _entry(
    at: datetime, key: str, queue: str, event: EventFacts, victims: dict[str, list[EventFacts]]
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


def _whom(key: str, at: datetime, told: Interruption, victims: dict[str, list[EventFacts]]) -> str | None:
    """For whom a job left: only the scheduler and the admitter take room for a certain pod or job."""
    if told.cause is InterruptionReason.PREEMPTED:
        return _preemptor(key, at, told, victims)
    return (told.detail or None) if told.cause is InterruptionReason.QUEUE_RECLAIMED else None


def _victims(events: Iterable[EventFacts]) -> dict[str, list[EventFacts]]:
    """Events that name the pod that preempted a victim, by the key of the victim; the ones with the name in their
    message first."""
    found: dict[str, list[EventFacts]] = {}
    for event in sorted(events, key=lambda event: event.reason != interruptions.PREEMPTED_BY):
        if event.reason in _TELLS_WHOM and event.related.startswith("Pod "):
            found.setdefault(event.about.removeprefix("Pod "), []).append(event)
    return found


def _preemptor(key: str, at: datetime, told: Interruption, victims: dict[str, list[EventFacts]]) -> str | None:
    """The pod that preempted the pod of the sentence. An Event answers once, as a later pod may have the same name."""
    victim = f"{key.partition('/')[0]}/{told.pod}"
    near = [event for event in victims.get(victim, ()) if abs(event.at - at) <= ROOM_MADE]
    nearest = min(near, key=lambda event: abs(event.at - at), default=None)
    if nearest is None:
        return None
    victims[victim] = [event for event in victims[victim] if event.at > nearest.at]
    return nearest.related.removeprefix("Pod ")


def _state(event: EventFacts) -> tuple[datetime, EntryRow]:
    stamp = format_time(event.at)
    row = EntryRow(f"{event.key} {stamp}", stamp, LEVELS, cause=event.reason, says=event.message)
    return event.at, row


def meaning(cause: str) -> str:
    """What a word of an interruption stands for; empty for one that is not known."""
    known = InterruptionReason.of(cause)
    return (known.__doc__ or "") if known is not None else ""
