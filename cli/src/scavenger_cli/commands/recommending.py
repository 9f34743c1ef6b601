"""recommend: what jobs should request, by what they have used."""

from __future__ import annotations

from typing import Annotated

import typer

from scavenger_cli import objects
from scavenger_cli.access import Access, listing_command
from scavenger_cli.exits import CliError, ExitCode
from scavenger_cli.forms import DATA, Format, output_of, print_data
from scavenger_cli.objects import Job
from scavenger_cli.options import NoHeadersOption, OutputOption
from scavenger_cli.output import columns, note, say


@listing_command
def recommend(
    access: Access,
    name: Annotated[str | None, typer.Argument(metavar="[JOB|QUEUE]", help="Only this job, or this queue.")] = None,
    no_headers: NoHeadersOption = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Say what jobs should request.

    By what they have used, as their statuses say: the most CPU and a tenth more, after four hours; the most memory of
    three runs or more, and a margin that shrinks with the number of runs. Jobs that have not run for so long go by
    others of the same image, command and requests, where ten runs of these were alike. Without a name, all jobs that
    have not finished are told.

    \b
    Examples:
      kubectl sj recommend
      kubectl sj recommend simulation
      kubectl sj recommend night -A -o json
    """
    from scavenger_cli import usage

    form = output_of(output, "recommend", DATA)
    jobs = access.jobs(access.scope)
    found = usage.advise(jobs, _wanted(jobs, name))
    if not form.table:
        print_data([usage.advice_data(one) for one in found], form)
        return
    if not found:
        note("No jobs found.")
        return
    namespaces = access.all_namespaces
    rows = [usage.advice_row(one, namespaces=namespaces) for one in found]
    header = ["NAMESPACE", *usage.HEADER] if namespaces else list(usage.HEADER)
    for line in columns(header, rows, headers=not no_headers):
        say(line)
    for text in usage.advice_notes(found):
        note(text)


def _wanted(jobs: list[Job], name: str | None) -> list[Job]:
    """The job of this name; else the jobs of the queue of this name, else all. Raises CliError."""
    going = [job for job in jobs if job.phase not in objects.FINISHED]
    if name is None:
        return going
    kind, own = objects.kind_and_name(name)
    named = [job for job in jobs if job.name == own and (kind is None or type(job) is kind)]
    if named:
        return named
    queued = [job for job in jobs if job.spec.queue == name]
    if not queued:
        said = f"there is no job {name}, and no job in a queue {name}"
        raise CliError(said, "`kubectl sj list` shows the jobs", ExitCode.NOT_FOUND)
    return [job for job in queued if job.phase not in objects.FINISHED]
