"""queue create, list, get, close, open, delete."""

from __future__ import annotations

import contextlib
import json
import sys
from typing import Annotated, Any

import typer
from scavenger_api import names
from scavenger_kube.errors import Invalid, NotFound

from scavenger_cli import objects, paths, remedies
from scavenger_cli.access import Access, cluster_command
from scavenger_cli.commands.showing import MAX_WIDTH, width
from scavenger_cli.commands.submitting import create as create_object
from scavenger_cli.exits import CliError, ExitCode
from scavenger_cli.lists import QUEUE_HEADER, queue_row
from scavenger_cli.manifests import scavenger_queue
from scavenger_cli.objects import Queue, decode_items, raw_items, without_managed_fields
from scavenger_cli.options import OutputOption, QueueName
from scavenger_cli.output import Format, colourful, columns, note, print_objects, say

Weight = Annotated[int, typer.Option("--weight", "-w", metavar="N", min=1, help="Its share against other queues.")]
Quota = Annotated[
    list[str] | None,
    typer.Option("--quota", metavar="cpu=N,memory=N", help="The most its jobs may use together; repeatable."),
]


@cluster_command
def create(access: Access, name: QueueName, weight: Weight = 1, quota: Quota = None) -> None:
    """Create a queue.

    \b
    Example:
      kubectl sj queue create night --weight 3 --quota cpu=200,memory=1Ti
    """
    create_object(access, scavenger_queue(name, weight, quota or ()))
    _done(name, "created")


@cluster_command
def list_queues(access: Access, output: OutputOption = Format.TABLE) -> None:
    """List queues.

    CPU is what the jobs of a queue use, SHARE what it deserves now.

    \b
    Example:
      kubectl sj queue list
    """
    body = access.client.get(paths.QUEUES)
    if output in (Format.JSON, Format.YAML, Format.NAME):
        print_objects(list(raw_items(body)), output, "scavengerqueue", single=False)
        return
    queues = sorted(decode_items(body, Queue), key=lambda queue: queue.metadata.name)
    if not queues:
        note("No queues found; jobs line up in the queue default all the same.")
        return
    now = access.now()
    lines = columns(QUEUE_HEADER, [queue_row(queue, now) for queue in queues], colour=colourful())
    sys.stdout.write("\n".join(lines) + "\n")


@cluster_command
def get(access: Access, name: QueueName, output: OutputOption = Format.TABLE) -> None:
    """Show one queue.

    Its jobs by phase, what they use, and what it deserves now.

    \b
    Example:
      kubectl sj queue get night
    """
    from scavenger_cli import details, render

    body = access.queue_body(name)
    if output in (Format.JSON, Format.YAML, Format.NAME):
        print_objects([without_managed_fields(json.loads(body))], output, "scavengerqueue", single=True)
        return
    lines = details.queue_details(objects.decode(body, Queue), access.now())
    for text in render.pairs(lines, min(width(), MAX_WIDTH)):
        say(text)


@cluster_command
def close(access: Access, name: QueueName) -> None:
    """Close a queue.

    It takes and starts no new jobs; those that run go on.

    \b
    Example:
      kubectl sj queue close night
    """
    _change(access, name, {"closed": True})
    _done(name, "closed")


@cluster_command
def open_queue(access: Access, name: QueueName) -> None:
    """Open a closed queue.

    \b
    Example:
      kubectl sj queue open night
    """
    _change(access, name, {"closed": False})
    _done(name, "opened")


@cluster_command
def change(
    access: Access,
    name: QueueName,
    weight: Annotated[int | None, typer.Option("--weight", "-w", metavar="N", min=1, help="Its new weight.")] = None,
    quota: Quota = None,
) -> None:
    """Change weight or quota of a queue.

    A quantity of - takes the limit away.

    \b
    Examples:
      kubectl sj queue set night --weight 5
      kubectl sj queue set night --quota cpu=100,memory=-
    """
    spec: dict[str, Any] = {"weight": weight} if weight is not None else {}
    if quota:
        limits = scavenger_queue(name, 1, quota)["spec"]["quota"]
        spec["quota"] = {resource: None if value == "-" else value for resource, value in limits.items()}
    if not spec:
        raise CliError("say what to change", "give --weight or --quota", ExitCode.USAGE)
    _change(access, name, spec)
    _done(name, "changed")


@cluster_command
def delete(
    access: Access,
    name: QueueName,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask, even though jobs go with it.")] = False,
) -> None:
    """Delete a queue, and its jobs with it.

    \b
    Example:
      kubectl sj queue delete night --yes
    """
    queue = access.queue(name)
    jobs = sum(job.spec.queue == name for job in access.jobs(None))
    if jobs and not yes:
        remedy = f"move or delete them first, or add --yes: they are deleted with it (`kubectl sj list -A -q {name}`)"
        raise CliError(f"{jobs} jobs are in queue {name}" if jobs > 1 else f"a job is in queue {name}", remedy)
    body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": queue.metadata.uid}}
    with contextlib.suppress(NotFound):
        access.client.request("DELETE", paths.queue(name), body=body)
    _done(name, f"deleted, and {jobs} jobs with it" if jobs else "deleted")


def _change(access: Access, name: str, spec: dict[str, Any]) -> None:
    access.queue(name)
    try:
        access.client.patch(paths.queue(name), {"spec": spec}, {"fieldManager": "kubectl-sj"})
    except Invalid as error:
        raise CliError("\n".join(remedies.invalid_fields(error, name))) from error


def _done(name: str, what: str) -> None:
    say(f"scavengerqueue.{names.GROUP}/{name} {what}")
