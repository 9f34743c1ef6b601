"""Jobs as those see them that wait for their end by spec.after."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from scavenger_api.after import AfterJob, FollowedJob
from scavenger_api.job import Phase, ScavengerJob

MAX_LOOKED: Final = 1000
"""So many jobs are looked at for a circle. A longer one is not found: its jobs wait, and do not say that they always
will."""

Ended = Literal["Completed", "Failed"]
_ENDED: Final[dict[Phase | None, Ended]] = {Phase.COMPLETED: "Completed", Phase.FAILED: "Failed"}


@dataclass(frozen=True, slots=True)
class OtherJob:
    """A job of spec.after, as it is seen, or was seen last. ended: how it ended; None where it has not."""

    name: str
    uid: str
    ended: Ended | None


def other_job(job: ScavengerJob) -> OtherJob:
    """What those that wait for a job read of it."""
    return OtherJob(job.metadata.name, job.metadata.uid, _ENDED.get(job.status.phase))


def has_ended(wanted: AfterJob, known: FollowedJob | None) -> bool:
    """Whether a job of spec.after has ended as it has to."""
    return known is not None and (known.ended == "Completed" or (wanted.when == "Ended" and known.ended is not None))


def waits_for(job: ScavengerJob) -> tuple[AfterJob, ...]:
    """The jobs of the namespace that a job still waits for; none once it has started or ended."""
    phase, has_run = job.status.phase, bool(job.status.running_timestamps)
    if not job.spec.after or has_run or (phase is not None and (phase.active or phase.finished)):
        return ()
    known = {one.job: one for one in job.status.after or ()}
    return tuple(one for one in job.spec.after if not has_ended(one, known.get(one.job)))


def find_circle(name: str, named: Callable[[str], Sequence[str]]) -> tuple[str, ...]:
    """A way from a job through those that it waits for back to itself; empty where there is none.

    Args:
        name: of the job.
        named: the jobs that a job waits for.
    """
    came_from: dict[str, str] = {}
    line = [name]
    while line and len(came_from) < MAX_LOOKED:
        at = line.pop()
        for one in named(at):
            if one == name:
                return (name, *reversed([*_back(at, name, came_from)]), name)
            if one not in came_from:
                came_from[one] = at
                line.append(one)
    return ()


def _back(at: str, to: str, came_from: dict[str, str]) -> Iterator[str]:
    while at != to:
        yield at
        at = came_from[at]
