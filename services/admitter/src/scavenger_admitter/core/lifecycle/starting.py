"""Runs that were started and have not run together yet: they are waited for, or taken back."""

from __future__ import annotations

from typing import Final

from scavenger_api.job import Phase, ScavengerJob
from scavenger_api.reasons import StateReason, WaitReason
from scavenger_domain import interruptions
from scavenger_domain.plain_text import plain

from scavenger_admitter.core.lifecycle import finished, managed, start_failures
from scavenger_admitter.core.lifecycle.draft import Draft
from scavenger_admitter.core.lifecycle.run import Run
from scavenger_admitter.core.lifecycle.start_failures import Problem
from scavenger_admitter.core.lifecycle.verdict import Checkpointed, Removed, Starts

MOST_SAID: Final = 1024
"""Characters of a message with the kubelet's words, which any account that may write Events can make long."""

NOWHERE: Final = Problem("an earlier admitter left no pod of it", False, WaitReason.CREATION_FAILED, blameless=True)
"""Under a Job that lasts, only pods say which nodes admission has chosen."""


def adopt(draft: Draft) -> None:
    """A run that no status speaks of yet is a start under way."""
    if draft.run is not None and not draft.phase.active and not draft.phase.finished:
        draft.enter(Phase.STARTING, StateReason.STARTED, "starting")


def go_on(draft: Draft, run: Run, verdict: Starts) -> None:
    """The start goes on. It is not known yet what the end of a member means, where one has ended."""
    draft.wait_for_proof(verdict.unproven)
    if verdict.found is not None:
        draft.wakeups.append((verdict.found.until - draft.seen.now).total_seconds())
        managed.stop_members(draft, run)
    elif draft.lasts and not run.pods and not draft.known.start.own:
        fail_start(draft, NOWHERE)
        return
    else:
        managed.create_missing(draft, run)
    if verdict.due is not None:
        draft.wakeups.append(verdict.due)
    _keep_starting(draft, run)


def ended_early(verdict: Removed | Checkpointed) -> Problem:
    """Why a start fails that was taken away, or whose member has ended, before the gang ran together."""
    if isinstance(verdict, Removed):
        removal = verdict.removal
        said = interruptions.phrase(removal.cause, removal.pod, removal.detail)
        return Problem(f"{said} before the job ran", False, removal.cause)
    ended = verdict.exit
    said = f"pod {ended.pod} ended with its checkpointExitCode {ended.code} before the gang ran"
    return Problem(said, False, WaitReason.CHECKPOINTED)


def _keep_starting(draft: Draft, run: Run) -> None:
    seen = draft.seen
    if draft.phase is not Phase.STARTING:
        draft.enter(Phase.STARTING, StateReason.STARTED, "starting")
    if start_failures.unpullable(run):
        _say(draft, f"the image {seen.job.spec.main_image} could not be pulled so far", start_failures.pull_words(run))
    elif held := start_failures.held(run, seen.diagnosis):
        _say(draft, held)
    elif words := start_failures.gated(run) or _pulls(run, seen.job):
        said_in = start_failures.SAID_AFTER.total_seconds() - start_failures.age(run, seen.now)
        if said_in <= 0:
            draft.set(message=f"starting: {words}")
        else:
            draft.wakeups.append(said_in)


def _say(draft: Draft, what: str, why: str = "") -> None:
    """Say what holds the start up. What differs in figures only has been said; a cause that is not told is the same."""
    said = plain(f"starting: {what}: {why}" if why else f"starting: {what}")[:MOST_SAID]
    before = draft.status.message or ""
    if start_failures.differs(said, before) and (why or not before.startswith(f"{said}: ")):
        draft.set(message=said)


def _pulls(run: Run, job: ScavengerJob) -> str:
    node = start_failures.pulls_on(run)
    return f"pulling the image {job.spec.main_image} on node {node}" if node else ""


def fail_start(draft: Draft, problem: Problem) -> None:
    """The start failed: the job is queued again, or has failed where no later try would help."""
    if problem.final:
        finished.fail(draft, draft.seen.now, problem.reason, problem.message)
        return
    phase = Phase.INTERRUPTED if draft.interrupted is not None else Phase.WAITING
    refused, again = draft.known.start.refused, draft.known.start.failures
    if not problem.blameless or again:  # who fails again and again is not always the first to try
        draft.leave_run(problem.reason)
    elif draft.run is not None or (refused is not None and refused.of_pod):  # no start may find its Job again
        draft.leave_run(problem.reason, keep_place=True)
    draft.enter(phase, problem.reason, f"the start failed: {problem.message}")
    draft.pulls_on = problem.pulls_on
    record_failure(draft, problem)


def record_failure(draft: Draft, problem: Problem, youngest: str = "") -> None:
    """A start failed: say so in an Event, and how long the next one waits. youngest: as in `start_failures.noted`."""
    draft.start_failed, draft.retry_late = True, problem.lasting
    if problem.refused_by is not None and problem.refused_by not in draft.refused_by:
        draft.refused_by += (problem.refused_by,)
    draft.unfit_architecture = problem.architecture or draft.unfit_architecture
    draft.lack = start_failures.noted(draft.lack, problem.lack, youngest)
    draft.note("StartFailed", problem.message, warning=True)
