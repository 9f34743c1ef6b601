"""list, get, why, logs, watch, top, levels: what there is, and why."""

from __future__ import annotations

import json
import shutil
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer
from scavenger_api.states import Phase

from scavenger_cli import objects, paths
from scavenger_cli.access import Access, cluster_command, listing_command, namespaced_command
from scavenger_cli.exits import CliError, ExitCode
from scavenger_cli.lists import by_name, job_header, job_row
from scavenger_cli.objects import Job, decode_items, raw_items, without_managed_fields
from scavenger_cli.options import JobName, OutputOption, refuse, seconds
from scavenger_cli.output import Format, colourful, columns, console, note, print_data, print_objects, say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Group

    from scavenger_cli.follow import Change
    from scavenger_cli.logs import Follow
    from scavenger_cli.top import View

MAX_WIDTH = 100
"""Sentences wider than this are hard to read."""
REFRESHES_PER_SECOND = 2


def width() -> int:
    """Columns of the terminal; 80 where there is none, or as COLUMNS says."""
    return shutil.get_terminal_size((80, 24)).columns


@listing_command
def list_jobs(
    access: Access,
    queue: Annotated[str | None, typer.Option("--queue", "-q", metavar="NAME", help="Only of this queue.")] = None,
    status: Annotated[
        str | None, typer.Option("--status", metavar="PHASE", help="Only in this phase, as waiting or running.")
    ] = None,
    selector: Annotated[str | None, typer.Option("--selector", "-l", metavar="LABELS", help="Label selector.")] = None,
    output: OutputOption = Format.TABLE,
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
    body = access.client.get(paths.jobs(access.scope), {"labelSelector": selector})

    def wanted(job: Job) -> bool:
        in_queue = queue is None or job.spec.queue == queue
        return in_queue and (status is None or (job.phase or Phase.WAITING) == status.capitalize())

    jobs = [job for job in by_name(decode_items(body, Job)) if wanted(job)]
    if output in (Format.JSON, Format.YAML, Format.NAME):
        uids = {job.metadata.uid for job in jobs}
        found = [item for item in raw_items(body) if item["metadata"]["uid"] in uids]
        print_objects(found, output, "scavengerjob", single=False)
        return
    if not jobs:
        note("No jobs found." if access.all_namespaces else f"No jobs found in namespace {access.namespace}.")
        return
    now, wide = access.now(), output is Format.WIDE
    rows = [job_row(job, now, wide=wide, namespaces=access.all_namespaces) for job in jobs]
    header = job_header(wide=wide, namespaces=access.all_namespaces)
    sys.stdout.write("\n".join(columns(header, rows, colour=colourful())) + "\n")


@namespaced_command
def get(access: Access, name: JobName, output: OutputOption = Format.TABLE) -> None:
    """Show one job, run by run.

    What it asked for, its runs and interruptions, CPU time useful, lost and at risk, its place in line.

    \b
    Examples:
      kubectl sj get simulation
      kubectl sj get simulation -o yaml
    """
    from scavenger_cli import details, render
    from scavenger_cli.gather import Reader

    body = access.job_body(name)
    if output in (Format.JSON, Format.YAML, Format.NAME):
        print_objects([without_managed_fields(json.loads(body))], output, "scavengerjob", single=True)
        return
    job, now = objects.decode(body, Job), access.now()
    jobs = Reader(access).all_jobs() if job.phase in objects.QUEUED else None
    line = objects.place_in_line(job, jobs) if jobs is not None else None
    for text in render.pairs(details.job_details(job, now, line), min(width(), MAX_WIDTH)):
        say(text)
    say("\nTimeline:")
    for text in render.timeline(details.timeline(job), now):
        say(text)


@namespaced_command
def why(access: Access, name: JobName, output: OutputOption = Format.TABLE) -> None:
    """Say why a job waits, or failed.

    In plain words, with the figures that led to it, and what would help: for jobs that wait, start, run, were
    interrupted, are suspended, failed or are being deleted.

    \b
    Examples:
      kubectl sj why simulation
      kubectl sj why simulation -o json
    """
    from scavenger_cli import render
    from scavenger_cli.explain import explain
    from scavenger_cli.gather import gather

    refuse(output, "why", Format.TABLE, Format.WIDE, Format.JSON, Format.YAML)
    found = explain(gather(access, name))
    if output in (Format.JSON, Format.YAML):
        print_data(render.explanation_data(found), output)
        return
    for text in render.explanation(found, min(width(), MAX_WIDTH)):
        say(text)


@namespaced_command
def logs(
    access: Access,
    name: JobName,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on across interruptions, until the job has finished.")
    ] = False,
    index: Annotated[int | None, typer.Option(metavar="N", min=0, help="Only of this pod of the gang.")] = None,
    tail: Annotated[int | None, typer.Option(metavar="N", min=0, help="Only so many lines from the end.")] = None,
    since: Annotated[str | None, typer.Option(metavar="DURATION", help="Only what is newer, as 5m.")] = None,
    timestamps: Annotated[bool, typer.Option("--timestamps", help="Begin every line with its time.")] = False,
) -> None:
    """Print the output of a job's pods.

    The lines of a gang begin with the index of their pod. With -f, a line on standard error says when the job was
    interrupted and when it runs again; the exit code is 4 when the job fails.

    \b
    Examples:
      kubectl sj logs simulation
      kubectl sj logs -f simulation
      kubectl sj logs simulation --index 3 --tail 20
    """
    from scavenger_cli.logs import Follow, Selection, printed

    job = access.job(name)
    newest = seconds(since)
    selection = Selection(index, tail, int(newest) if newest is not None else None, timestamps)
    if not follow:
        for line in printed(access, job, selection):
            _print_line(line.index, line.text, job.spec.parallelism > 1)
        return
    _follow_logs(Follow(access, job, selection), job)


def _follow_logs(follow: Follow, job: Job) -> None:
    """Print lines and notices as they come. Raises CliError where the job did not complete."""
    from scavenger_cli.logs import Ended, Line, notice

    phase: str | None = None
    deleted = False
    for item in follow.items():
        if isinstance(item, Line):
            _print_line(item.index, item.text, job.spec.parallelism > 1)
        elif isinstance(item, Ended):
            note(f"--- the output of pod {item.pod} cannot be read: {item.problem} ---")
        elif item.type == "DELETED":
            deleted = True  # its pods have their grace period, and may have something left to say
            note(f"--- {job.name} is deleted ---")
        elif item.obj is not None:
            job = item.obj
            if text := notice(job, phase):
                note(f"--- {job.name} {text} ---")
            phase = job.phase
    if deleted:
        raise CliError(f"{job.name} was deleted", code=ExitCode.NOT_FOUND)
    if job.phase == Phase.FAILED:
        remedy = f"kubectl sj why {job.name} -n {job.namespace}"
        raise CliError(f"{job.name} failed: {job.status.message}", remedy, ExitCode.JOB_FAILED)


GANG_COLOURS = ("cyan", "green", "magenta", "blue", "yellow")


def _print_line(index: int, text: bytes, gang: bool) -> None:
    prefix = f"[{index}] " if gang else ""
    if prefix and colourful():
        prefix = typer.style(prefix, fg=GANG_COLOURS[index % len(GANG_COLOURS)])
    # As it came: a program's output need not be UTF-8.
    sys.stdout.flush()
    sys.stdout.buffer.write(prefix.encode() + text + b"\n")
    sys.stdout.buffer.flush()


@listing_command
def watch(
    access: Access,
    queue: Annotated[str | None, typer.Option("--queue", "-q", metavar="NAME", help="Only of this queue.")] = None,
) -> None:
    """Watch jobs in a live table.

    Until Ctrl-C. Without a terminal, a line is printed whenever a job changes.

    \b
    Examples:
      kubectl sj watch
      kubectl sj watch -A --queue night
    """
    from scavenger_cli.follow import Follower

    follower = Follower(access.client, paths.jobs(access.scope), Job)
    if not sys.stdout.isatty():
        _watch_lines(access, follower.changes(), queue)
        return
    from rich.live import Live

    from scavenger_cli.top import jobs_screen

    jobs: dict[str, Job] = {}
    screen = console()

    def render() -> Group:
        shown = [job for job in list(jobs.values()) if queue is None or job.spec.queue == queue]
        return jobs_screen(shown, access.now(), screen.height, namespaces=access.all_namespaces)

    # rich asks for the picture from a thread of its own, so that ages grow while nothing changes.
    with Live(console=screen, get_renderable=render, refresh_per_second=REFRESHES_PER_SECOND, screen=True):
        for change in follower.changes():
            if change.obj is not None and change.type == "DELETED":
                jobs.pop(change.obj.metadata.uid, None)
            elif change.obj is not None:
                jobs[change.obj.metadata.uid] = change.obj


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


SECTIONS = ("nodes", "queues", "jobs")


@listing_command
def top(
    access: Access,
    section: Annotated[str | None, typer.Argument(metavar="[nodes|queues|jobs]", help="Only this section.")] = None,
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="Rows of a section.")] = 10,
    live: Annotated[bool, typer.Option("--watch", "-w", help="Refresh until Ctrl-C.")] = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Show load and levels as bars.

    The cluster, its nodes (fullest first), queues and jobs. Nodes are shown by real use where the metrics API serves
    it, by requests otherwise. `top nodes` also says what is reserved, really used, offered as reclaimed capacity (and
    taken of it) and free; it alone has -o wide, json and yaml.

    \b
    Examples:
      kubectl sj top
      kubectl sj top nodes -o wide
      kubectl sj top jobs -A --limit 30
      kubectl sj top --watch
    """
    if section is not None and section not in SECTIONS:
        raise CliError(f"top has no section {section}", f"choose one of {', '.join(SECTIONS)}", ExitCode.USAGE)
    allowed = (Format.TABLE, Format.WIDE, Format.JSON, Format.YAML) if section == "nodes" else (Format.TABLE,)
    refuse(output, f"top {section or ''}".strip(), *allowed)
    if output in (Format.JSON, Format.YAML):
        print_data(_node_data(access), output)
        return
    from scavenger_cli.top import render

    screen, wide = console(), output is Format.WIDE
    if wide and not live and screen.width < WIDE:
        screen = console(width=WIDE)
    sections = (section,) if section else SECTIONS

    def picture() -> Group:
        view = _view(access, limit)
        return render(view, sections, screen.width, namespaces=access.all_namespaces, wide=wide)

    if not live:
        screen.print(picture())
        return
    import time

    from rich.live import Live

    with Live(console=screen, screen=True, auto_refresh=False) as display:
        while True:
            display.update(picture(), refresh=True)
            time.sleep(TOP_SECONDS)


WIDE = 112
"""Columns that -o wide takes, whatever the terminal has: what is wider is not to be cut."""

TOP_SECONDS = 3.0
"""Between two looks of `top --watch`: five lists each."""


def _node_data(access: Access) -> list[dict[str, Any]]:
    """All nodes. Raises CliError where they may not be read."""
    from scavenger_cli.accounts import accounts_data, node_accounts
    from scavenger_cli.gather import Reader

    reader = Reader(access)
    nodes, pods = reader.nodes(), reader.pods()
    if nodes is None or pods is None:
        raise CliError("you may not list nodes and pods of all namespaces", "ask an administrator for that right")
    return accounts_data(node_accounts(nodes, pods, reader.node_use()))


def _view(access: Access, limit: int) -> View:
    from scavenger_cli.gather import Reader
    from scavenger_cli.top import View

    reader, now = Reader(access), access.now()
    return View(
        now=now,
        levels=reader.levels(now),
        nodes=reader.nodes(),
        pods=reader.pods(),
        node_use=reader.node_use(),
        queues=reader.optional("queues", access.queues),
        jobs=reader.optional("jobs", lambda: access.jobs(access.scope)),
        limit=limit,
    )


@cluster_command
def levels(access: Access, output: OutputOption = Format.TABLE) -> None:
    """Show the water levels.

    The load, below which level jobs start, and above which they are evicted.

    \b
    Examples:
      kubectl sj levels
      kubectl sj levels -o yaml
    """
    from scavenger_api.levels import LevelsView
    from scavenger_kube.errors import NotFound
    from scavenger_kube.kinds import ConfigMap

    from scavenger_cli.top import levels_screen

    refuse(output, "levels", Format.TABLE, Format.WIDE, Format.JSON, Format.YAML)
    try:
        data: dict[str, str] | None = objects.decode(access.client.get(paths.LEVELS), ConfigMap).data
    except NotFound:
        data = None
    if output in (Format.JSON, Format.YAML):
        print_data(data or {}, output)
        return
    now = access.now()
    screen = console()
    screen.print(levels_screen(LevelsView.of(data, now), now, screen.width))
