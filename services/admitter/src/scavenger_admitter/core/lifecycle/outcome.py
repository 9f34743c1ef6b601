"""What the next status of a job has come to, and what follows from it once it is written."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from scavenger_api.job import ConditionType, Phase
from scavenger_api.reasons import InterruptionReason, WaitReason
from scavenger_api.usage import JobUsage
from scavenger_domain import job_states
from scavenger_domain.pod_ends import moment
from scavenger_domain.soundness import CHECKS
from scavenger_domain.usage import usage_in_words

from scavenger_admitter.core.lifecycle import conditions
from scavenger_admitter.core.lifecycle.actions import StartTasks
from scavenger_admitter.core.lifecycle.draft import Draft
from scavenger_admitter.core.lifecycle.observation import Figures, Outcome
from scavenger_admitter.core.lifecycle.soundness import assert_sound


def summarise(draft: Draft) -> None:
    """Conditions and jobName follow from the rest."""
    seen, status = draft.seen, draft.status
    if draft.phase.active:
        draft.set(job_name=seen.job.metadata.name)
    elif not draft.phase.finished and not any(isinstance(action, StartTasks) for action in draft.actions):
        draft.set(job_name=None)
    # A sentence alone is worth no write: it goes with the one that status.message needs.
    message = (draft.status.message or "") if draft.status != seen.job.status else None
    wanted = job_states.states(draft.phase, draft.reason, message, interrupted=draft.interrupted, stalled=draft.stalled)
    generation = seen.job.metadata.generation
    draft.set(conditions=conditions.written(status.conditions, wanted, generation=generation, now=seen.now))


NEWS: Final = ("removing", "after", "recommended")
"""Fields of the status that are written at once: something follows from them."""


def _quiet_until(draft: Draft) -> datetime | None:
    """Until when the write of this status can wait.

    A job that starts at once goes from no status, or from its place in the queue, to Running in one write. What a
    status left out would say follows from the Job again at every look, in this process or in the next.
    """
    known, phase, batch = draft.seen.job.status, draft.phase, draft.own_job
    before = known.phase
    news = draft.events or any(getattr(draft.status, name) != getattr(known, name) for name in NEWS)
    if news or _names_job_of_tasks(draft) or draft.status == known:
        return None
    since = None
    if before is None and (phase is Phase.STARTING or (phase is Phase.WAITING and _in_line(draft))):
        since = draft.status.queued_timestamp
    elif before is not None and before.queued and phase is Phase.STARTING and batch is not None:
        made = draft.run.created if draft.run is not None else None  # the Job of several runs is older
        since = made or moment(batch.metadata.creation_timestamp)
    return since + draft.rules.quiet_for if since is not None else None


def _names_job_of_tasks(draft: Draft) -> bool:
    """Whether the status says for the first time that tasks may have pods. It is written before they have: the queue of
    the array cannot change from then on, and each pod names the queue that the array is in."""
    starts = any(isinstance(action, StartTasks) for action in draft.actions)
    return starts and draft.seen.job.status.job_name is None and draft.status.job_name is not None


def _in_line(draft: Draft) -> bool:
    """Whether all that is said of the job is that it waits, and for what."""
    return draft.explained or draft.reason == WaitReason.QUEUED


def _show_usage(draft: Draft) -> None:
    """What the pods use goes into a status that is written anyway: it is worth no write of its own."""
    used = draft.seen.used
    if used is not None and draft.status != draft.seen.job.status:
        draft.set(usage=JobUsage.model_validate(usage_in_words(used)))


def outcome_of(
    draft: Draft,
    *,
    counted: int = 0,
    interruptions: tuple[InterruptionReason, ...] = (),
    startable: int = 0,
    interrupted_waits: bool = False,
    last_start: datetime | None = None,
    place: datetime | None = None,
) -> Outcome:
    """What the draft has come to.

    Args:
        draft: the next status.
        counted: pods of tasks that it counts.
        interruptions: causes of those of tasks.
        startable: tasks that may start now.
        interrupted_waits: whether others interrupted one of them.
        last_start: when the container of a task started last.
        place: in the queue, of the next task.
    """
    _show_usage(draft)
    before = draft.seen.job.status
    verdict = draft.phase if draft.phase.finished and draft.phase is not before.phase else None
    known = before.condition(ConditionType.STALLED)
    stalled = draft.stalled is not None and (known is None or known.status != "True")
    outcome = Outcome(
        status=draft.status,
        changed=draft.status != before,
        quiet_until=_quiet_until(draft) if not counted else None,
        actions=tuple(dict.fromkeys(draft.actions)),
        events=tuple(draft.events),
        candidate=draft.candidate,
        start_failed=draft.start_failed,
        retry_late=draft.retry_late,
        pulls_on=draft.pulls_on,
        unfit_node=draft.unfit_node,
        unfit_architecture=draft.unfit_architecture,
        refused_by=draft.refused_by,
        lack=None if draft.phase.finished or draft.phase is Phase.SUSPENDED else draft.lack,
        requeue_after=max(0.0, min(draft.wakeups)) if draft.wakeups else None,
        unsettled=draft.unsettled,
        counted=counted,
        interruptions=interruptions,
        startable=startable,
        interrupted_waits=interrupted_waits,
        last_start=last_start,
        place=place,
        unproven=tuple(draft.unproven),
        figures=Figures(
            draft.cause, draft.short_run, stalled, verdict, draft.waited, draft.spent.useful, draft.spent.lost
        ),
    )
    if CHECKS.on:
        assert_sound(outcome, draft.observed)
    return outcome
