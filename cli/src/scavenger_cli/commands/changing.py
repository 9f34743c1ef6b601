"""suspend, resume, move, cancel, delete, wait: jobs that are there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer
from scavenger_api import names
from scavenger_kube.errors import Invalid, NotFound

from scavenger_cli import objects, paths, remedies
from scavenger_cli.access import Access, namespaced_command
from scavenger_cli.exits import CliError, ExitCode
from scavenger_cli.objects import Job
from scavenger_cli.options import JobName, JobNames, Priority, Timeout, seconds
from scavenger_cli.output import note, say
from scavenger_cli.waiting import Goal, wait_for


def each(jobs: list[str], act: Callable[[str], str]) -> None:
    """Act on every job and print what was done, which `act` says; what fails does not keep the others back.

    Raises the first CliError in the end.
    """
    first: CliError | None = None
    for name in jobs:
        try:
            say(act(name))
        except CliError as error:
            if len(jobs) > 1 and first is not None:
                note(f"error: {error.message}")
            first = first or error
    if first is not None:
        raise first


@namespaced_command
def suspend(access: Access, jobs: JobNames) -> None:
    """Suspend jobs.

    Suspended jobs leave their nodes, or the queue, until you resume them. Work since the last checkpoint is lost. This
    does not count as an interruption.

    \b
    Example:
      kubectl sj suspend simulation
    """
    each(jobs, lambda name: _set_suspend(access, name, True))


@namespaced_command
def resume(access: Access, jobs: JobNames) -> None:
    """Resume suspended jobs: queue them again.

    \b
    Example:
      kubectl sj resume simulation
    """
    each(jobs, lambda name: _set_suspend(access, name, False))


def _set_suspend(access: Access, name: str, suspended: bool) -> str:
    job = access.job(name)
    if job.phase in objects.FINISHED:
        raise CliError(f"{name} is {job.phase} already", "submit it again under another name")
    if job.spec.suspend == suspended:
        return f"{job.told} is {'suspended already' if suspended else 'not suspended'}"
    patch_job(access, job, {"spec": {"suspend": suspended}})
    return f"{job.told} {'suspended' if suspended else 'resumed'}"


@namespaced_command
def move(
    access: Access,
    name: JobName,
    queue: Annotated[
        str | None, typer.Option("--queue", "-q", metavar="NAME", help="Queue to move the job to.")
    ] = None,
    priority: Priority = None,
) -> None:
    """Change the queue or priority of a job.

    A job can change its queue only while it has no pods: suspend it first, or wait. Among the queued jobs of a
    namespace, those with a higher priority go first. Priorities do not affect jobs of other namespaces.

    \b
    Examples:
      kubectl sj move simulation --queue night
      kubectl sj move simulation --priority 5
    """
    if queue is None and priority is None:
        raise CliError("say where to", "give --queue, or --priority, or both", ExitCode.USAGE)
    job = access.job(name)
    if job.adopted:
        text = "stays in the queue that it was created in" if queue is not None else "has no priority among other jobs"
        raise CliError(f"{name} is a Job: it {text}", "delete it, and create it again with other labels")
    if queue not in (None, names.DEFAULT_QUEUE):
        access.queue(queue)
    wanted = {"queue": (job.spec.queue, queue), "priority": (job.spec.priority, priority)}
    changes = {field: new for field, (old, new) in wanted.items() if new is not None and new != old}
    if not changes:
        say(f"{job.told} is there already")
        return
    patch_job(access, job, {"spec": changes})
    said = ", ".join(f"{field} {value}" for field, value in changes.items())
    say(f"{job.told} moved to {said}")


def patch_job(access: Access, job: Job, patch: Any) -> None:
    """Change a job by a merge patch. Raises CliError, ApiError."""
    try:
        path = paths.job(job.namespace, job.name, type(job))
        access.client.patch(path, patch, {"fieldManager": "kubectl-sj"})
    except Invalid as error:
        raise CliError("\n".join(remedies.invalid_fields(error, job.name))) from error


@namespaced_command
def cancel(access: Access, jobs: JobNames) -> None:
    """End jobs that have not finished.

    They leave the line or the cluster, and are deleted. Finished jobs are left as they are; `delete` removes those too.

    \b
    Example:
      kubectl sj cancel simulation
    """

    def one(name: str) -> str:
        job = access.job(name)
        if job.phase in objects.FINISHED:
            raise CliError(f"{name} is {job.phase} already: nothing to cancel", f"kubectl sj delete {name} removes it")
        _delete(access, job)
        return f"{job.told} cancelled"

    each(jobs, one)


@namespaced_command
def delete(
    access: Access,
    jobs: Annotated[list[str] | None, typer.Argument(metavar="[NAME...]", help="Names of jobs.")] = None,
    finished: Annotated[bool, typer.Option("--finished", help="Delete all jobs that completed or failed.")] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Delete all jobs of the namespace, including running ones.")
    ] = False,
) -> None:
    """Delete jobs, finished or not.

    With a job goes all it owns: its pods and their output.

    \b
    Examples:
      kubectl sj delete simulation
      kubectl sj delete --finished
    """
    chosen = [bool(jobs), finished, everything]
    if sum(chosen) != 1:
        raise CliError("say which jobs", "give names, or --finished, or --all", ExitCode.USAGE)
    if jobs:
        each(jobs, lambda name: _delete(access, access.job(name)))
        return
    found = [job for job in access.jobs(access.namespace) if everything or job.phase in objects.FINISHED]
    if not found:
        note(f"No {'finished ' if finished else ''}jobs in namespace {access.namespace}.")
    by_key = {job.key: job for job in found}
    each(sorted(by_key), lambda key: _delete(access, by_key[key]))


def _delete(access: Access, job: Job) -> str:
    """Delete this very job, not one of the same name submitted since."""
    body = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Background",
        "preconditions": {"uid": job.metadata.uid},
    }
    try:
        access.client.request("DELETE", paths.job(job.namespace, job.name, type(job)), body=body)
    except NotFound:
        return f"{job.told} is gone already"
    return f"{job.told} deleted"


@namespaced_command
def wait(
    access: Access,
    jobs: JobNames,
    goal: Annotated[Goal, typer.Option("--for", help="What to wait for.")] = Goal.COMPLETED,
    timeout: Timeout = None,
) -> None:
    """Wait for jobs, by default to complete.

    The exit code is 4 when a job ends in another way, and 5 after the timeout.

    \b
    Examples:
      kubectl sj wait simulation
      kubectl sj wait first second --for=finished --timeout 2h
    """
    wait_for(access, jobs, goal, seconds(timeout), reached=lambda told: say(f"{told} {goal.value}"))
