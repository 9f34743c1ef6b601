"""list, watch, history: many jobs, as they are, as they change and as they were interrupted."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer
from scavenger_api.states import Phase

from scavenger_cli import objects, paths
from scavenger_cli.access import Access, listing_command
from scavenger_cli.collection import Collection, follow_collection, print_collection
from scavenger_cli.exits import CliError, ExitCode
from scavenger_cli.forms import Format, output_of
from scavenger_cli.lists import KIND, job_header, job_row
from scavenger_cli.objects import Job
from scavenger_cli.options import (
    FieldSelectorOption,
    NoHeadersOption,
    ObjectOutput,
    SelectorOption,
    WatchOption,
)
from scavenger_cli.output import columns, console, note, say
from scavenger_cli.sources import both_kinds, job_sources
from scavenger_cli.words import plural

if TYPE_CHECKING:
    from rich.console import Group

    from scavenger_cli.follow import Change

REFRESHES_PER_SECOND = 2
LOOK_SECONDS = 10.0
"""So often a live table asks whether the admitter still looks."""


class Age:
    """How old statuses are, for a live table. The picture is made in a thread of its own, so this has its own client.

    Args:
        access: of the command.
    """

    def __init__(self, access: Access) -> None:
        self._access = Access.of(access.flags)
        self._asked = float("-inf")
        self._text = ""

    @property
    def text(self) -> str:
        """The sentence; empty while the admitter looks."""
        now = time.monotonic()
        if now - self._asked >= LOOK_SECONDS:
            self._asked, self._text = now, self._access.statuses_as_of()
        return self._text


@listing_command
def list_jobs(
    access: Access,
    queue: Annotated[str | None, typer.Option("--queue", "-q", metavar="NAME", help="Only of this queue.")] = None,
    status: Annotated[
        str | None, typer.Option("--status", metavar="PHASE", help="Only in this phase, as waiting or running.")
    ] = None,
    selector: SelectorOption = None,
    field_selector: FieldSelectorOption = None,
    no_headers: NoHeadersOption = False,
    watch: WatchOption = False,
    output: ObjectOutput = Format.TABLE,
) -> None:
    """List jobs.

    \b
    Examples:
      kubectl sj list
      kubectl sj list -A --status interrupted
      kubectl sj list --queue night -o wide
    """
    if status is not None and status.capitalize() not in objects.PHASES:
        choice = ", ".join(objects.PHASES)
        raise CliError(f"there is no status {status}", f"choose one of {choice}", ExitCode.USAGE)
    form = output_of(output, "list")
    namespaces = access.all_namespaces

    def wanted(job: Job) -> bool:
        in_queue = queue is None or job.spec.queue == queue
        return in_queue and (status is None or (job.phase or Phase.WAITING) == status.capitalize())

    jobs = Collection(
        sources=job_sources(access.scope, selector, field_selector),
        word="scavengerjob",
        header=job_header(wide=form.wide, namespaces=namespaces),
        row=lambda job: job_row(job, access.now(), wide=form.wide, namespaces=namespaces),
        key=lambda job: (job.namespace, job.name),
        wanted=wanted if queue is not None or status is not None else None,
        headers=not no_headers,
        empty="No jobs found." if namespaces else f"No jobs found in namespace {access.namespace}.",
        remark=access.statuses_as_of,
        without=lambda found: () if form.wide or both_kinds(found) else (KIND,),
    )
    if watch:
        follow_collection(access.client, jobs, form)
    else:
        print_collection(access.client, jobs, form)


@listing_command
def watch(
    access: Access,
    queue: Annotated[str | None, typer.Option("--queue", "-q", metavar="NAME", help="Only of this queue.")] = None,
) -> None:
    """Watch jobs in a live table.

    Until Ctrl-C. A terminal of 110 columns shows progress: the last checkpoint, and CPU time unsaved and kept. Without
    a terminal, a line is printed whenever a job changes.

    \b
    Examples:
      kubectl sj watch
      kubectl sj watch -A --queue night
    """
    from scavenger_cli.follow import follow

    changes = follow(access.client, job_sources(access.scope))
    if not sys.stdout.isatty():
        if text := access.statuses_as_of():
            note(text)
        _watch_lines(access, changes, queue)
        return
    from rich.live import Live

    from scavenger_cli.top import jobs_screen

    jobs: dict[str, Job] = {}
    screen, age = console(), Age(access)

    def render() -> Group:
        shown = [job for job in list(jobs.values()) if queue is None or job.spec.queue == queue]
        return jobs_screen(
            shown, access.now(), screen.height, screen.width, namespaces=access.all_namespaces, as_of=age.text
        )

    # rich asks for the picture from a thread of its own, so that ages grow while nothing changes.
    with Live(console=screen, get_renderable=render, refresh_per_second=REFRESHES_PER_SECOND, screen=True):
        for change in changes:
            if change.obj is not None and change.type == "DELETED":
                jobs.pop(change.obj.metadata.uid, None)
            elif change.obj is not None:
                jobs[change.obj.metadata.uid] = change.obj


@listing_command
def history(
    access: Access,
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Only of this job.")] = None,
    no_headers: NoHeadersOption = False,
) -> None:
    """Show who was interrupted, and by whom.

    And what it cost, the newest first: from the statuses of jobs, which keep their last twenty interruptions, and from
    Events, which the API server keeps for an hour. An adopted Job keeps its last interruption, and has no such Events.

    \b
    Examples:
      kubectl sj history
      kubectl sj history simulation
      kubectl sj history -A
    """
    from scavenger_domain import interruptions

    from scavenger_cli import history as past
    from scavenger_cli.gather import Reader

    jobs = access.jobs(access.scope) if name is None else [access.job(name)]
    told = name is None or not jobs[0].adopted  # the admitter writes no Event about a Job
    selectors = ("involvedObject.kind=ScavengerJob", *(f"reason={one}" for one in interruptions.TELL_WHOM))
    reader, events = Reader(access), []
    for selector in selectors:
        params = {"fieldSelector": selector}
        read = lambda params=params: objects.decode_items(  # noqa: E731
            access.client.get(paths.events(access.scope), params), past.Told
        )
        events += reader.optional("Events", read) or []
    namespaces = access.all_namespaces
    events = [one for one in events if told or one.involved_object.kind != "ScavengerJob"]
    found = [one for one in past.departures(jobs, events) if name is None or one.job == jobs[0].name]
    for what in sorted(set(reader.unreadable)):
        note(f"You may not list {what}: by whom, and what it cost, is not known.")
    if untold := past.untold(jobs):
        note(
            f"Not shown: {plural(untold, 'earlier interruption')}. An adopted Job keeps the time of its last one only."
        )
    if not found:
        note("No interruption is on record.")
        return
    rows = [past.row(one, namespaces=namespaces) for one in found]
    for line in columns(past.header(namespaces=namespaces), rows, headers=not no_headers):
        say(line)
    note(past.summary(found))


def _watch_lines(access: Access, changes: Iterator[Change[Job]], queue: str | None) -> None:
    widths = (24, 12, 11)
    for change in changes:
        job = change.obj
        if job is None or (queue is not None and job.spec.queue != queue):
            continue
        state = "Deleted" if change.type == "DELETED" else job.phase or Phase.WAITING
        name = job.metadata.key if access.all_namespaces else job.name
        cells = [cell.ljust(size) for cell, size in zip((name, job.spec.queue, state), widths, strict=True)]
        say("   ".join([*cells, job.status.message.replace("\n", " ")]).rstrip())
        sys.stdout.flush()
