"""tasks, retry: the tasks of an array."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scavenger_api import names
from scavenger_api.indexes import parse_indexes
from scavenger_api.task_numbers import format_tasks
from scavenger_api.times import checkpoint_time

from scavenger_cli.access import Access, namespaced_command
from scavenger_cli.commands.changing import patch_job
from scavenger_cli.exits import CliError, ExitCode
from scavenger_cli.objects import Job
from scavenger_cli.options import JobName, NoHeadersOption
from scavenger_cli.output import columns, note, say
from scavenger_cli.words import age, cpu_time

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scavenger_kube.kinds import Pod

    from scavenger_cli.facts import Facts


@namespaced_command
def tasks(access: Access, name: JobName, no_headers: NoHeadersOption = False) -> None:
    """Show the tasks of an array.

    A line for each that has a pod and has not ended, and the indexes of those that have.

    \b
    Example:
      kubectl sj tasks sweep
    """
    from scavenger_cli.facts import Facts
    from scavenger_cli.logs import pods_of
    from scavenger_cli.tasks import retries_of

    job = _array(access, name)
    facts, retries = Facts(job, access.now(), shared=access.shared), retries_of(job)
    rows = [_row(facts, pod, retries) for pod in pods_of(access, job) if not pod.ended]
    if rows:
        header = ["TASK", "STATUS", "NODE", "AGE", "RETRIES", "UNSAVED", "LAST-CHECKPOINT"]
        for line in columns(header, rows, headers=not no_headers):
            say(line)
    status = job.status.array
    for word, indexes in (
        ("Completed", status.completed_indexes),
        ("Failed", status.failed_indexes),
        ("Interrupted", status.interrupted_indexes),
    ):
        if indexes:
            note(f"{word}: {format_tasks(job.numbers, parse_indexes(indexes))}")
    failed = f", {status.failed} failed" if status.failed else ""
    note(f"{status.completed} of {len(job.numbers)} tasks completed{failed}.")


@namespaced_command
def retry(access: Access, name: JobName) -> None:
    """Start the failed tasks of an array again.

    \b
    Example:
      kubectl sj retry sweep
    """
    job = _array(access, name)
    if job.adopted:
        remedy = f"when it is corrected, `kubectl sj delete {name}`, and create it again"
        raise CliError(f"{name} is a Job: what has failed of it does not start again", remedy)
    if not job.status.array.failed:
        say(f"{job.told} has no task that failed")
        return
    before = job.spec.array.retry if job.spec.array is not None else 0
    patch_job(access, job, {"spec": {"array": {"retry": before + 1}}})
    say(f"{job.told} starts {job.status.array.failed} tasks again")


def _array(access: Access, name: str) -> Job:
    """Raises CliError where the job is no array."""
    job = access.job(name)
    if job.spec.array is None:
        raise CliError(f"{name} is no array", f"`kubectl sj get {name}` shows it", ExitCode.ERROR)
    return job


def _row(facts: Facts, pod: Pod, retries: Mapping[int, int]) -> list[str]:
    from scavenger_domain.gang import task_index

    from scavenger_cli import tasks

    meta, task = pod.metadata, task_index(pod)
    running = tasks.runs(pod)
    return [
        "" if task is None else str(facts.job.numbers[task]),
        tasks.state_of(pod),
        pod.spec.node_name or "<none>",
        age(meta.creation_timestamp, facts.now),
        str(retries.get(task, 0)) if task is not None else "",
        cpu_time(tasks.unsaved(facts, pod)) if running else "",
        age(checkpoint_time(meta.annotations.get(names.ANNOTATION_LAST_CHECKPOINT)), facts.now),
    ]
