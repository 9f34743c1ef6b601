"""Who was interrupted, by whom, and what it cost: from statuses of jobs and Events, and nothing else. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from scavenger_api.reasons import InterruptionReason
from scavenger_api.times import parse_time
from scavenger_domain import interruptions
from scavenger_kube.kinds import Event, ObjectReference

from scavenger_cli.objects import Job
from scavenger_cli.words import cpu_time, plural

NOT_KNOWN = "not known"


class Told(Event, frozen=True, gc=False, rename="camel"):
    """An Event, with whom it is about beside its object."""

    related: ObjectReference | None = None

    @property
    def at(self) -> datetime | None:
        """When it was last written."""
        return parse_time(self.last_timestamp or self.event_time or self.metadata.creation_timestamp)


@dataclass(frozen=True, slots=True)
class Departure:
    """One interruption. cause, whom: empty where nothing says so. lost: CPU-seconds, None where nothing says so."""

    at: datetime
    namespace: str
    job: str
    cause: str = ""
    whom: str = ""
    lost: float | None = None
    at_most: bool = False


def departures(jobs: Iterable[Job], events: Sequence[Told]) -> list[Departure]:
    """All that is known, newest first: the last twenty of each job that exists, and what Events tell of others."""
    told: dict[str, list[Told]] = {}
    victims: dict[str, list[tuple[datetime, str]]] = {}
    for event in sorted(events, key=lambda one: (one.reason != interruptions.PREEMPTED_BY, one.metadata.key)):
        about, related = event.involved_object, event.related
        if event.at is None:
            continue
        if about.kind == "ScavengerJob" and event.reason == interruptions.EVENT_REASON:
            told.setdefault(about.uid, []).append(event)
        elif about.kind == "Pod" and related is not None and related.kind == "Pod":
            whom = (event.at, f"{related.namespace}/{related.name}")
            victims.setdefault(f"{about.namespace}/{about.name}", []).append(whom)
    found = [one for job in jobs for one in _of_job(job, told.pop(job.metadata.uid, []), victims)]
    found += [_told(event, None, victims) for events in told.values() for event in events]
    return sorted(found, key=lambda one: (one.at, one.namespace, one.job), reverse=True)


def _of_job(job: Job, told: list[Told], victims: dict[str, list[tuple[datetime, str]]]) -> Iterator[Departure]:
    moments = [at for text in job.status.interrupted_timestamps if (at := parse_time(text)) is not None]
    left = sorted(told, key=lambda event: str(event.at))
    for at, after in zip(moments, [*moments[1:], None], strict=False):
        event = next((one for one in left if one.at and interruptions.tells_of(one.at, at, after)), None)
        if event is not None:
            left.remove(event)
            yield _told(event, at, victims)
        else:
            condition = job.condition("Interrupted") if after is None else None  # it is about the last one
            cause = condition.reason if condition is not None and condition.status == "True" else ""
            yield Departure(at, job.namespace, job.name, cause)
    for event in left:
        yield _told(event, None, victims)


def _told(event: Told, at: datetime | None, victims: dict[str, list[tuple[datetime, str]]]) -> Departure:
    about, said = event.involved_object, interruptions.read(event.message)
    when = at or event.at
    assert when is not None
    if said is None:
        return Departure(when, about.namespace, about.name)
    cause = said.cause.value if said.cause is not None else ""
    whom = said.detail if said.cause is InterruptionReason.QUEUE_RECLAIMED else ""
    if said.cause is InterruptionReason.PREEMPTED:
        whom = interruptions.take_preemptor(victims.get(f"{about.namespace}/{said.pod}", []), when) or ""
    return Departure(when, about.namespace, about.name, cause, whom, said.lost, said.at_most)


def header(*, namespaces: bool) -> list[str]:
    """Of the table."""
    return [*(["NAMESPACE"] if namespaces else []), "WHEN", "JOB", "CAUSE", "FOR", "LOST"]


def row(one: Departure, *, namespaces: bool) -> list[str]:
    """A line of the table."""
    whom = one.whom or (NOT_KNOWN if one.cause in ("", InterruptionReason.PREEMPTED.value) else "")
    lost = NOT_KNOWN if one.lost is None else f"{'at most ' if one.at_most else ''}{cpu_time(one.lost)}"
    when = one.at.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    return [*([one.namespace] if namespaces else []), when, one.job, one.cause or NOT_KNOWN, whom, lost]


def untold(jobs: Iterable[Job]) -> int:
    """How many interruptions of adopted Jobs have no line: a Job keeps the time of its last one."""
    kept = ((one.status.interrupted_count, len(one.status.interrupted_timestamps)) for one in jobs if one.adopted)
    return sum(max(0, count - lines) for count, lines in kept)


def summary(found: Sequence[Departure]) -> str:
    """What all of it comes to."""
    priced = [one.lost for one in found if one.lost is not None]
    bound = "at most " if any(one.at_most for one in found) else ""
    text = f"{plural(len(found), 'interruption')}"
    if priced:
        text += f", {bound}{cpu_time(sum(priced))} of CPU time lost"
    open_ = len(found) - len(priced)
    return text + (f"; of {open_} the cost is not known (Events are kept for an hour)" if open_ else "")
