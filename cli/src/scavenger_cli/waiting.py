"""Whether a job has come where it was waited for, or never will. Pure; `wait_for` is the thin shell around it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from scavenger_api.states import Phase

from scavenger_cli import objects
from scavenger_cli.access import Access
from scavenger_cli.exits import CliError, ExitCode
from scavenger_cli.follow import Deadline, follow
from scavenger_cli.objects import Job
from scavenger_cli.sources import of_job


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
    began; a job that is interrupted may run again before the command looks.
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


class Target(NamedTuple):
    """What is waited for.

    Attributes:
        kind: of the job.
        name: of the job.
    """

    kind: type[Job]
    name: str

    @property
    def told(self) -> str:
        """As kubectl names it."""
        return f"{self.kind.resource}/{self.name}"


def wait_for(
    access: Access,
    wanted: Iterable[str],
    goal: Goal,
    timeout: float | None,
    report: Callable[[Job], None] | None = None,
    reached: Callable[[str], None] | None = None,
) -> None:
    """Block until every one of these jobs has reached the goal.

    timeout: seconds, None for ever. report: called with a job whenever its phase has changed. reached: called with each
    job that is there, as kubectl names it. Raises CliError: exit code 3, 4 or 5 (ExitCode).
    """
    missing = dict.fromkeys(_target(access, name, goal) for name in wanted)
    deadline = Deadline(timeout)
    kinds = dict.fromkeys(one.kind for one in missing)
    only = next(iter(missing)).name if len(missing) == 1 else None
    sources = [of_job(kind, access.namespace, only) for kind in kinds]
    phases: dict[Target, str] = {}
    synced = False
    known: dict[Target, Job] = {}
    before: dict[Target, int] = {}
    for change in follow(access.client, sources, deadline):
        synced = synced or change.type == "SYNCED"
        if change.obj is not None:
            target = Target(type(change.obj), change.obj.name)
            if change.type == "DELETED":
                known.pop(target, None)
            else:
                known[target] = change.obj
                before.setdefault(target, change.obj.status.interrupted_count)
                if target in missing:
                    _report(target, change.obj, phases, report)
        if synced:
            _settle(missing, known, before, goal, reached)
        if not missing:
            return
    names = [one.name for one in missing]
    raise CliError(
        f"{' and '.join(names)} {'was' if len(names) == 1 else 'were'} not {goal.value} within {timeout:g} s",
        f"kubectl sj why {names[0]} says what is in the way",
        ExitCode.TIMED_OUT,
    )


def _target(access: Access, name: str, goal: Goal) -> Target:
    """The job of that name. One that was misspelt must not be waited for, unless it is to be gone. Raises CliError."""
    try:
        job = access.job(name)
    except CliError as error:
        if goal is not Goal.DELETED or error.code != ExitCode.NOT_FOUND:
            raise
        kind, bare = objects.kind_and_name(name)
        return Target(kind or Job, bare)
    return Target(type(job), job.name)


def _report(target: Target, job: Job, phases: dict[Target, str], report: Callable[[Job], None] | None) -> None:
    if report is not None and phases.get(target) != job.phase:
        phases[target] = job.phase
        report(job)


def _settle(
    missing: dict[Target, None],
    known: Mapping[Target, Job],
    before: Mapping[Target, int],
    goal: Goal,
    reached: Callable[[str], None] | None,
) -> None:
    for target in list(missing):
        job = known.get(target)
        verdict = judge(job, goal, before.get(target))
        if verdict is Verdict.FAILED:
            raise verdict_error(target.name, job, goal)
        if verdict is Verdict.REACHED:
            missing.pop(target)
            if reached is not None:
                reached(target.told)
