"""queue create, list, get, close, open, delete."""

from __future__ import annotations

import contextlib
from typing import Annotated, Any

import typer
from scavenger_api import names
from scavenger_kube.errors import Invalid, NotFound

from scavenger_cli import objects, paths, remedies
from scavenger_cli.access import Access, cluster_command
from scavenger_cli.collection import Collection, follow_collection, print_collection
from scavenger_cli.commands.showing import MAX_WIDTH, width
from scavenger_cli.commands.submitting import create as create_object
from scavenger_cli.exits import CliError, ExitCode
from scavenger_cli.forms import Format, output_of, print_objects
from scavenger_cli.lists import QUEUE_HEADER, queue_row
from scavenger_cli.manifests import scavenger_queue
from scavenger_cli.objects import Queue, plain
from scavenger_cli.options import NoHeadersOption, ObjectOutput, QueueName, SelectorOption, WatchOption
from scavenger_cli.output import say

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
def list_queues(
    access: Access,
    selector: SelectorOption = None,
    no_headers: NoHeadersOption = False,
    watch: WatchOption = False,
    output: ObjectOutput = Format.TABLE,
) -> None:
    """List queues.

    CPU is what the jobs of a queue use, SHARE what it deserves now.

    \b
    Examples:
      kubectl sj queue list
      kubectl sj queue list -w
    """
    form = output_of(output, "queue list")
    queues = Collection(
        path=paths.QUEUES,
        params={"labelSelector": selector},
        kind=Queue,
        word="scavengerqueue",
        header=QUEUE_HEADER,
        row=lambda queue: queue_row(queue, access.now()),
        key=lambda queue: queue.metadata.name,
        wanted=None,
        headers=not no_headers,
        empty="No queues found; jobs line up in the queue default all the same.",
    )
    if watch:
        follow_collection(access.client, queues, form)
    else:
        print_collection(access.client, queues, form)


@cluster_command
def get(access: Access, name: QueueName, output: ObjectOutput = Format.TABLE) -> None:
    """Show one queue.

    Its jobs by phase, what they use, and what it deserves now.

    \b
    Example:
      kubectl sj queue get night
    """
    from scavenger_cli import details, render

    form = output_of(output, "queue get")
    body = access.queue_body(name)
    if not form.table:
        print_objects([plain(body)], form, "scavengerqueue", single=True)
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
