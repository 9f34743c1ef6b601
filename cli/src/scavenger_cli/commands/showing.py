"""get, why, logs, top, levels: what there is, and why."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer
from scavenger_api.states import Phase
from scavenger_api.weights import DEFAULT_WEIGHTS

from scavenger_cli import objects, paths
from scavenger_cli.access import Access, cluster_command, listing_command, namespaced_command
from scavenger_cli.exits import CliError, ExitCode
from scavenger_cli.forms import DATA, Format, output_of, print_data, print_objects
from scavenger_cli.objects import Job, plain
from scavenger_cli.options import JobName, ObjectOutput, OutputOption, seconds
from scavenger_cli.output import colourful, console, note, say

if TYPE_CHECKING:
    from rich.console import Group

    from scavenger_cli.logs import Follow
    from scavenger_cli.top import View

MAX_WIDTH = 100
"""Sentences wider than this are hard to read."""


def width() -> int:
    """Columns of the terminal; 80 where there is none, or as COLUMNS says."""
    return shutil.get_terminal_size((80, 24)).columns


@namespaced_command
def get(access: Access, name: JobName, output: ObjectOutput = Format.TABLE) -> None:
    """Show one job, run by run.

    What it asked for, its runs and interruptions, CPU time useful, lost and unsaved, its place in the queue.

    \b
    Examples:
      kubectl sj get simulation
      kubectl sj get simulation -o yaml
    """
    form = output_of(output, "get")
    job, body = access.job_and_body(name)
    if form.table:
        print_job(access, job)
    else:
        print_objects([plain(body)], form, "scavengerjob", single=True)


def print_job(access: Access, job: Job) -> None:
    """What it asked for, what became of it, and its timeline."""
    from scavenger_cli import details, render
    from scavenger_cli.gather import Reader

    if job.phase not in objects.FINISHED and (text := access.statuses_as_of()):
        note(text)
    now = access.now()
    reader = Reader(access)
    jobs = reader.all_jobs() if job.phase in objects.QUEUED else None
    queues = reader.optional("queues", access.queues) if jobs is not None else None
    line = objects.place_in_line(job, jobs, queues or ()) if jobs is not None else None
    weights = access.shared.resource_weights if job.phase == Phase.RUNNING else DEFAULT_WEIGHTS
    for text in render.pairs(details.job_details(job, now, line, weights, queues or ()), min(width(), MAX_WIDTH)):
        say(text)
    say("\nTimeline:")
    for text in render.timeline(details.timeline(job), now):
        say(text)


@namespaced_command
def why(access: Access, name: JobName, output: OutputOption = Format.TABLE) -> None:
    """Say why a job waits, or failed.

    In plain words, with the figures that led to it, and what would help: for jobs that wait, start, run, were
    interrupted, are suspended, failed or are being deleted. Of an array, also for one of its tasks.

    \b
    Examples:
      kubectl sj why simulation
      kubectl sj why simulation -o json
      kubectl sj why 'sweep[57]'
    """
    from scavenger_cli import render, tasks
    from scavenger_cli.gather import gather

    form = output_of(output, "why", DATA)
    name, task = task_of(name)
    facts = gather(access, name, task)
    found = tasks.explain_job(facts) if task is None else tasks.explain_task(facts, facts.job.place_of(task))
    if not form.table:
        print_data(render.explanation_data(found), form)
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
      kubectl sj logs sweep[57]
    """
    from scavenger_cli.logs import Follow, Selection, gone, printed

    name, task = task_of(name)
    job = access.job(name)
    index = job.place_of(task) if task is not None else index
    newest = seconds(since)
    selection = Selection(index, tail, int(newest) if newest is not None else None, timestamps)
    if text := gone(job):
        note(f"--- {text} ---")
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


def task_of(name: str) -> tuple[str, int | None]:
    """`NAME[57]` as the name of an array and the index of a task; None for another name."""
    array, bracket, rest = name.partition("[")
    if not bracket:
        return name, None
    index = rest.removesuffix("]")
    if not rest.endswith("]") or not index.isdecimal():
        raise CliError(f"{name} is no task", f"write it as {array}[57]", ExitCode.USAGE)
    return array, int(index)


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
    allowed = DATA if section == "nodes" else (Format.TABLE,)
    form = output_of(output, f"top {section or ''}".strip(), allowed)
    if not form.table:
        print_data(_node_data(access), form)
        return
    from scavenger_cli.top import render

    screen, wide = console(), form.wide
    if wide and not live and screen.width < WIDE:
        screen = console(width=WIDE)
    sections = (section,) if section else SECTIONS

    def picture() -> Group:
        view = _view(access, limit)
        return render(view, sections, screen.width, namespace=access.scope, wide=wide)

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
        weights=access.shared.resource_weights,
        limit=limit,
        as_of=access.statuses_as_of(),
    )


@cluster_command
def levels(access: Access, output: OutputOption = Format.TABLE) -> None:
    """Show the levels of the load.

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

    form = output_of(output, "levels", DATA)
    try:
        data: dict[str, str] | None = objects.decode(access.of_services(paths.levels), ConfigMap).data
    except NotFound:
        data = None
    if not form.table:
        print_data(data or {}, form)
        return
    now = access.now()
    screen = console()
    screen.print(levels_screen(LevelsView.of(data, now), now, screen.width))
