"""What is known of one ScavengerJob, its Job and its pods, turned into its next status and what follows from it.

`plan_job` is a function of its argument and nothing else. The reconciler writes `Outcome.status` first, with
optimistic locking, and carries out `Outcome.actions` only when that succeeded: the status write is the commit. A
process that dies in between loses nothing and counts nothing twice: the book of a job or of an array says how. Actions
are repeated for as long as what they are about is still there.
"""

from __future__ import annotations

from typing import Final

from scavenger_api.job import ConditionType, Phase, ScavengerJobStatus
from scavenger_api.reasons import FailureReason, StateReason, WaitReason
from scavenger_domain.pod_ends import deleting

from scavenger_admitter.core.lifecycle import after, finished, leftover_pods, start_failures, waiting
from scavenger_admitter.core.lifecycle.actions import DeleteJob
from scavenger_admitter.core.lifecycle.books.book import open_book
from scavenger_admitter.core.lifecycle.draft import Draft
from scavenger_admitter.core.lifecycle.judge import decide, judge
from scavenger_admitter.core.lifecycle.observation import Observation, Outcome
from scavenger_admitter.core.lifecycle.outcome import outcome_of

ORPHANS: Final = "orphan"
"""Finalizer of an object whose dependents stay when it goes (k8s.io/apimachinery, FinalizerOrphanDependents)."""


def plan_job(observed: Observation) -> Outcome:
    """The next status of a job, a gang or an array, and what follows from it. Pure; raises nothing for what the schema
    lets in.

    The steps, in this order:
    1. a ScavengerJob that is being deleted takes its Job along, and nothing else;
    2. one without a status, or without its place in the queue, gets one (from its live Job, if there is one), and what
       became of the jobs that it follows is written down;
    3. its book is opened: of one run, or of many tasks;
    4. each run that something may have happened to is judged, and its verdict recorded;
    5. the phase follows from the verdicts and from `spec.suspend`;
    6. what was recorded is released, and what is in the way of another start is cleared away;
    7. what was granted starts, the rest stands for admission, or the status says what holds it back;
    8. a finished job lets go of its pods, and goes itself when its time is over;
    9. conditions and jobName follow from all this.
    """
    draft = draft_of(observed)
    if draft.seen.job.metadata.deletion_timestamp is not None:
        delete(draft)
        return outcome_of(draft)
    waiting.enter_line(draft)
    after.follow(draft)
    book = open_book(draft)
    for run in book.runs():
        book.record(run, decide(run, observed, judge(run, observed, draft.lack)))
    book.enter_phase()
    book.clear()
    waiting.line_up(draft, book.stand(), book.start)
    if draft.phase.finished:
        book.finish()
        finished.expire(draft)
    return book.outcome()


def draft_of(observed: Observation) -> Draft:
    """The status as observed, to be changed."""
    status = observed.seen.job.status
    lack = start_failures.still_lacks(observed.known.start.lack, observed.seen.every_pod)
    return Draft(observed, status, _reason(status), _interrupted(status), lack=lack)


def delete(draft: Draft) -> None:
    """A ScavengerJob that is being deleted takes its Job along, and lets go of its pods."""
    batch = draft.own_job
    if batch is not None and batch.metadata.deletion_timestamp is None:
        draft.actions.append(DeleteJob(batch.metadata.uid, "the ScavengerJob is being deleted"))
    elif batch is not None and ORPHANS not in batch.metadata.finalizers:
        draft.actions += leftover_pods.stop(draft.seen.every_pod)  # another client's finalizer holds the Job
    draft.actions += leftover_pods.release(pod for pod in draft.seen.every_pod if pod.ended or deleting(pod))


def _reason(status: ScavengerJobStatus) -> str:
    """The reason that the conditions carry for the phase."""
    if status.phase is Phase.COMPLETED:
        return StateReason.COMPLETED
    kind = ConditionType.SUCCEEDED if status.phase is Phase.FAILED else ConditionType.ADMITTED
    found = status.condition(kind)
    if found is not None and found.status == "False":
        return found.reason
    return FailureReason.FAILED if status.phase is Phase.FAILED else WaitReason.QUEUED


def _interrupted(status: ScavengerJobStatus) -> str | None:
    found = status.condition(ConditionType.INTERRUPTED)
    if found is not None and found.status == "True":
        return found.reason
    return Phase.INTERRUPTED.value if status.phase is Phase.INTERRUPTED else None
