"""Whether a job has come where it was waited for, or never will. Pure; `wait_for` is the thin shell around it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum

from scavenger_api.states import Phase

from scavenger_cli import objects, paths
from scavenger_cli.access import Access
from scavenger_cli.exits import CliError, ExitCode
from scavenger_cli.follow import Deadline, Follower
from scavenger_cli.objects import Job


class Goal(StrEnum):
    """What `wait --for` knows."""

    COMPLETED = "completed"
    FINISHED = "finished"
    RUNNING = "running"
    INTERRUPTED = "interrupted"
    SUSPENDED = "suspended"
    DELETED = "deleted"


class Verdict(StrEnum):
    """How a job stands to a goal."""

    REACHED = "reached"
    NOT_YET = "not yet"
    FAILED = "failed"
    """It ended in another way; the goal is out of reach."""


def judge(job: Job | None, goal: Goal, interruptions: int | None = None) -> Verdict:
    """Whether a job is where it was waited for.

    job: None when it is deleted (or was never there). interruptions: how often it had been interrupted when the wait
    began; a job that is interrupted may run again before anybody looks.
    """
    if job is None:
        return Verdict.REACHED if goal is Goal.DELETED else Verdict.FAILED
    if goal is Goal.DELETED:
        return Verdict.NOT_YET
    again = goal is Goal.INTERRUPTED and interruptions is not None and job.status.interrupted_count > interruptions
    if again or _reached(job, goal):
        return Verdict.REACHED
    return Verdict.FAILED if job.phase in objects.FINISHED else Verdict.NOT_YET


def _reached(job: Job, goal: Goal) -> bool:
    if goal is Goal.FINISHED:
        return job.phase in objects.FINISHED
    if goal is Goal.RUNNING:  # a short job may have run and completed between two looks
        return job.phase in (Phase.RUNNING, Phase.COMPLETED)
    return job.phase.lower() == goal.value


def verdict_error(name: str, job: Job | None, goal: Goal) -> CliError:
    """The sentence for a goal that is out of reach."""
    if job is None:
        return CliError(f"{name} was deleted before it was {goal.value}", code=ExitCode.NOT_FOUND)
    if job.phase == Phase.FAILED:
        return CliError(f"{name} failed: {job.status.message}", f"kubectl sj why {name}", ExitCode.JOB_FAILED)
    return CliError(f"{name} is {job.phase}, and will not be {goal.value} any more", code=ExitCode.JOB_FAILED)


def wait_for(
    access: Access,
    wanted: Iterable[str],
    goal: Goal,
    timeout: float | None,
    report: Callable[[Job], None] | None = None,
    reached: Callable[[str], None] | None = None,
) -> None:
    """Block until every one of these jobs has reached the goal.

    timeout: seconds, None for ever. report: called with a job whenever its phase has changed. reached: called with the
    name of each job that is there. Raises CliError: exit code 3, 4 or 5 (ExitCode).
    """
    missing = dict.fromkeys(wanted)
    _check_existence(access, missing, goal)
    deadline = Deadline(timeout)
    params = {"fieldSelector": f"metadata.name={next(iter(missing))}"} if len(missing) == 1 else None
    follower = Follower(access.client, paths.jobs(access.namespace), Job, params, deadline=deadline)
    phases: dict[str, str] = {}
    synced = False
    known: dict[str, Job] = {}
    before: dict[str, int] = {}
    for change in follower.changes():
        synced = synced or change.type == "SYNCED"
        if change.obj is not None:
            if change.type == "DELETED":
                known.pop(change.obj.name, None)
            else:
                known[change.obj.name] = change.obj
                before.setdefault(change.obj.name, change.obj.status.interrupted_count)
                _report(change.obj, missing, phases, report)
        if synced:
            _settle(missing, known, before, goal, reached)
        if not missing:
            return
    raise CliError(
        f"{' and '.join(missing)} {'was' if len(missing) == 1 else 'were'} not {goal.value} within {timeout:g} s",
        f"kubectl sj why {next(iter(missing))} says what is in the way",
        ExitCode.TIMED_OUT,
    )


def _check_existence(access: Access, wanted: Iterable[str], goal: Goal) -> None:
    """A name that was misspelt must not be waited for."""
    if goal is not Goal.DELETED:
        for name in wanted:
            access.job(name)


def _report(job: Job, missing: Iterable[str], phases: dict[str, str], report: Callable[[Job], None] | None) -> None:
    if report is not None and job.name in missing and phases.get(job.name) != job.phase:
        phases[job.name] = job.phase
        report(job)


def _settle(
    missing: dict[str, None],
    known: Mapping[str, Job],
    before: Mapping[str, int],
    goal: Goal,
    reached: Callable[[str], None] | None,
) -> None:
    for name in list(missing):
        job = known.get(name)
        verdict = judge(job, goal, before.get(name))
        if verdict is Verdict.FAILED:
            raise verdict_error(name, job, goal)
        if verdict is Verdict.REACHED:
            missing.pop(name)
            if reached is not None:
                reached(name)
