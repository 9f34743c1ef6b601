"""What has become of one run: the same answer for a job, a gang and a task of an array.

Both functions know the run, and what is seen, known and granted, and no book: what a verdict means for the status is
said by those who keep one. `judge` says what has happened to the run. `decide` says what the admitter does about it,
where it still computes.
"""

from __future__ import annotations

from datetime import datetime

from scavenger_api.reasons import InterruptionReason
from scavenger_domain.pod_ends import Removal

from scavenger_admitter.core.lifecycle import accounting, architectures, limits, start_failures
from scavenger_admitter.core.lifecycle.going_nodes import find_announced_end
from scavenger_admitter.core.lifecycle.observation import InterruptDecision, Observation
from scavenger_admitter.core.lifecycle.run import Run, is_managed
from scavenger_admitter.core.lifecycle.start_failures import Lack
from scavenger_admitter.core.lifecycle.termination import find_termination, unproven
from scavenger_admitter.core.lifecycle.verdict import (
    Completed,
    Failed,
    Hangs,
    Removed,
    Runs,
    StartFailed,
    Starts,
    Undecided,
    Verdict,
)


def judge(run: Run, observed: Observation, lack: Lack | None = None) -> Verdict:
    """What has become of a run.

    A start fails for what is wrong with it, unless a container has ended by itself meanwhile: that one's exit says
    more, but where no later try can help.

    Args:
        run: of a job, a gang or a task.
        observed: the job.
        lack: what the starts before have shown to be missing.
    """
    seen, known = observed.seen, observed.known
    found = None if run.open else find_termination(run, seen.nodes, seen.now, known.reboots, known.evidence)
    if run.began:
        return found if found is not None else Runs(unproven=tuple(unproven(run, known.evidence)))
    spec = seen.job.spec
    problem = start_failures.problem(run, spec, seen.diagnosis, seen.now, observed.rules, lack)
    problem = problem or architectures.unpulled(observed, run)
    if problem is not None and problem.exit is not None:
        return Failed(problem.exit, problem)
    if isinstance(found, Failed | Completed) and not (problem is not None and problem.final):
        return Failed(found.exit, problem) if isinstance(found, Failed) else found
    if problem is not None:
        return StartFailed(problem)
    if found is not None and not isinstance(found, Undecided):
        return found
    due = start_failures.next_check(run, spec, seen.diagnosis, seen.now, observed.rules)
    return Starts(found, due, tuple(unproven(run, known.evidence)))


def decide(run: Run, observed: Observation, found: Verdict) -> Verdict:
    """What the admitter does about a run that goes on, or whose end may be the fault of a node: its capacity is taken,
    its node is about to go, it hangs. Else what was found stands.

    Args:
        run: as in `judge`.
        observed: the same.
        found: the verdict of `judge`.
    """
    now, taken = observed.seen.now, observed.granted.take.get(run.life)
    if isinstance(found, Undecided):
        return _taken(taken, min(now, found.at)) if taken is not None and found.failed else found
    if not isinstance(found, Runs | Starts) or (run.has_job and isinstance(found, Starts)):
        return found  # a job that starts is taken back by what is wrong with its start alone
    if (taken := taken or _suspended_by_another(run)) is not None:
        return _taken(taken, run.computed_until(now))
    leaves = _outdated(run, now) or find_announced_end(run, observed)
    if isinstance(leaves, Removed):
        return leaves
    hangs = _hangs(run, observed)
    if isinstance(hangs, Hangs):
        return hangs
    if isinstance(found, Starts):
        return found
    until = min((at for at in (leaves, hangs) if at is not None), default=None)
    return Runs(until, found.unproven)


def _taken(decided: InterruptDecision, at: datetime) -> Removed:
    return Removed(Removal(at, at, decided.cause, "", True, decided.detail), at)


def _suspended_by_another(run: Run) -> InterruptDecision | None:
    """What follows for a run whose Job another controller has suspended, such as Kueue that evicts it. The Job
    controller deletes the pods of Jobs that it has itself. The job is queued again, as after a pod was deleted. An
    array goes on: it would wait for ever if no controller resumes its Job."""
    batch = run.batch
    if batch is None or not run.has_job or not is_managed(batch) or not batch.spec.suspend:
        return None
    return InterruptDecision(InterruptionReason.DELETED, "its Job was suspended, and not by the admitter")


def _outdated(run: Run, now: datetime) -> Removed | None:
    """The end of a run whose Job the Job controller has: the job goes on with one of the admitter's."""
    if run.batch is None or not run.has_job or is_managed(run.batch):
        return None
    detail = "an earlier version had left it to the Job controller"
    return Removed(Removal(now, now, InterruptionReason.JOB_DELETED, "", False, detail), now)


def _hangs(run: Run, observed: Observation) -> Hangs | datetime | None:
    """Whether the run has reported no checkpoint for as long as its job allows, or until when it may report none; None
    where that is no failure. One that has reported none yet counts from its start."""
    spec, now = observed.seen.job.spec, observed.seen.now
    allowed = limits.without_progress(spec)
    if allowed is None or run.since is None:
        return None
    since = accounting.last_progress(run.pods, run.since, spec, now)
    return Hangs(since) if now >= since + allowed else since + allowed
