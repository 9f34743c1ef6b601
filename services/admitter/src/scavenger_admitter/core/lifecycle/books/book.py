"""What a status is kept by: the same questions to the book of a job and to that of an array."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Protocol

from scavenger_admitter.core.lifecycle import accounting
from scavenger_admitter.core.lifecycle.books.many import ManyBook
from scavenger_admitter.core.lifecycle.books.one import OneBook
from scavenger_admitter.core.lifecycle.draft import Draft
from scavenger_admitter.core.lifecycle.observation import Granted, InterruptDecision, Observation, Outcome, Seen
from scavenger_admitter.core.lifecycle.run import Run
from scavenger_admitter.core.lifecycle.verdict import Verdict


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

    def line_up(self) -> None:
        """Start what was granted, stand for admission, or say what holds it back."""
        ...

    def finish(self) -> None:
        """Let go of the pods of a finished job."""
        ...

    def outcome(self) -> Outcome:
        """The next status, and what follows."""
        ...


def open_book(draft: Draft) -> Book:
    """The book of a job. draft: its next status so far, with a place in line."""
    array = draft.seen.job.spec.array
    return OneBook.of(draft) if array is None else ManyBook.of(draft, array)


def taken_down(seen: Seen, why: InterruptDecision) -> Observation:
    """What a job is judged by whose pods all go now, for a reason that is not its own. The run of a job is taken, which
    counts as an interruption. Tasks are counted one by one, when their pods have ended: they stop as where an array is
    suspended, and none is counted. seen: the job. why: what is said of a run."""
    job = seen.job
    if job.spec.as_written:  # its user reads what the status says of a suspension
        return Observation(seen)
    if job.spec.array is None:
        queued = job.status.queued_timestamp
        return Observation(seen, granted=Granted(take={accounting.run_id(queued): why} if queued is not None else {}))
    spec = job.spec.model_copy(update={"suspend": True})
    return Observation(replace(seen, job=job.model_copy(update={"spec": spec})))
