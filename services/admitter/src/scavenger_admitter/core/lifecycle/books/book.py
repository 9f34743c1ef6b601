"""What a status is kept by: the same questions to the book of a job and to that of an array."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Protocol

from scavenger_admitter.core.lifecycle import accounting
from scavenger_admitter.core.lifecycle.actions import Action, CreateJob
from scavenger_admitter.core.lifecycle.books.many import ManyBook
from scavenger_admitter.core.lifecycle.books.one import OneBook
from scavenger_admitter.core.lifecycle.draft import Draft
from scavenger_admitter.core.lifecycle.observation import Granted, InterruptDecision, Observation, Outcome, Seen
from scavenger_admitter.core.lifecycle.run import Run
from scavenger_admitter.core.lifecycle.verdict import Verdict
from scavenger_admitter.core.lifecycle.waiting import Stand


class Book(Protocol):
    """Records verdicts in a draft. What differs between one run and many tasks is in it, and nowhere else: the identity
    of a run, when its end is recorded, and by what it is recorded once."""

    def runs(self) -> Iterator[Run]:
        """The runs that something may have happened to. What is recorded of one may decide which is the next."""
        ...

    def record(self, run: Run, verdict: Verdict) -> None:
        """Say in the status what has become of a run, or stop it."""
        ...

    def enter_phase(self) -> None:
        """Go to the phase that the verdicts and the spec give."""
        ...

    def clear(self) -> None:
        """Release what is recorded, and delete what is in the way of another start."""
        ...

    def stand(self) -> Stand | None:
        """How the job stands in its queue; None where nothing of it waits."""
        ...

    def start(self, job: CreateJob, units: int, /) -> Action:
        """What starts the job, or so many tasks. job: the Job to be created."""
        ...

    def finish(self) -> None:
        """Let go of the pods of a finished job."""
        ...

    def outcome(self) -> Outcome:
        """The next status, and what follows."""
        ...


class BookKind(Protocol):
    """What has to be proved before a plan is carried out."""

    @classmethod
    def of(cls, draft: Draft) -> Book:
        """The book of a job. draft: its next status so far, with a place in the queue."""
        ...

    @staticmethod
    def lacks(observed: Observation, /) -> bool:
        """Whether something is not shown that was there."""
        ...

    @staticmethod
    def final(seen: Seen, outcome: Outcome, /) -> bool:
        """Whether there is a verdict that the pods shown do not prove."""
        ...

    @staticmethod
    def anew(seen: Seen, /) -> bool:
        """Whether a start may meet pods of an earlier Job that no watch shows."""
        ...


def kind_of(seen: Seen) -> type[BookKind]:
    """The book that a job has."""
    return OneBook if seen.job.spec.array is None else ManyBook


def open_book(draft: Draft) -> Book:
    """The book of a job. draft: its next status so far, with a place in the queue."""
    return kind_of(draft.seen).of(draft)


def taken_down(seen: Seen, why: InterruptDecision) -> Observation:
    """What a job is judged by whose pods all go now, for a reason that is not its own. The run of a job is taken, which
    counts as an interruption. Tasks are counted one by one, when their pods have ended: they stop as where an array is
    suspended, and none is counted. seen: the job. why: what is said of a run."""
    job = seen.job
    if job.spec.as_written and job.spec.array is not None:  # its user reads what the status says of a suspension
        return Observation(seen)
    if job.spec.array is None:
        queued = job.status.queued_timestamp
        return Observation(seen, granted=Granted(take={accounting.run_id(queued): why} if queued is not None else {}))
    spec = job.spec.model_copy(update={"suspend": True})
    return Observation(replace(seen, job=job.model_copy(update={"spec": spec})))
