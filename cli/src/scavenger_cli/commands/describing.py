"""describe, version: all there is to know of a job; what runs here and there."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from scavenger_cli import paths
from scavenger_cli.access import Access, cluster_command, namespaced_command
from scavenger_cli.commands.showing import print_job
from scavenger_cli.forms import DATA, Format, output_of, print_data
from scavenger_cli.objects import decode_items
from scavenger_cli.options import JobNames, OutputOption
from scavenger_cli.output import columns, say


@namespaced_command
def describe(access: Access, jobs: JobNames) -> None:
    """Show all details of jobs.

    The output has what `get` shows, and the conditions, the pods and the recent Events.

    \b
    Example:
      kubectl sj describe simulation
    """
    for number, name in enumerate(jobs):
        if number:
            say("\n")
        _describe(access, name)


def _describe(access: Access, name: str) -> None:
    from scavenger_kube.kinds import Event

    from scavenger_cli.details import condition_rows, event_rows, pod_rows
    from scavenger_cli.gather import Reader

    job = access.job(name)
    print_job(access, job)
    reader, now = Reader(access), access.now()
    params = {"fieldSelector": f"involvedObject.uid={job.metadata.uid}"}
    read = lambda: decode_items(access.client.get(paths.events(job.namespace), params), Event)  # noqa: E731
    pods, events = reader.job_pods(job), reader.optional("its Events", read)
    _section("Conditions", ["TYPE", "STATUS", "SINCE", "REASON", "MESSAGE"], condition_rows(job, now))
    _section("Pods", ["NAME", "STATUS", "NODE", "AGE"], pod_rows(pods, now))
    _section("Events", ["LAST", "TYPE", "COUNT", "REASON", "MESSAGE"], event_rows(events or (), now))
    for what in reader.unreadable:
        say(f"\nYou may not list {what}.")


def _section(title: str, header: list[str], rows: list[list[str]]) -> None:
    say(f"\n{title}:{'' if rows else ' none'}")
    if rows:
        for line in columns(header, rows):
            say(f"  {line}")


@cluster_command
def version(
    access: Access,
    client: Annotated[bool, typer.Option("--client", help="Print only the version of this program.")] = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Print versions: program, server, components.

    The versions of the components are those of their images, if you may read their Deployments.

    \b
    Examples:
      kubectl sj version
      kubectl sj version --client -o json
    """
    from scavenger_cli.main import own_version

    form = output_of(output, "version", DATA)
    found: dict[str, Any] = {"client": own_version()}
    if form.table:
        say(f"Client: {found['client']}")
    if not client:
        import msgspec

        from scavenger_cli.gather import Reader

        found["server"] = msgspec.json.decode(access.client.get("/version"))["gitVersion"]
        if form.table:
            say(f"Server: {found['server']}")
        reader = Reader(access)
        services = reader.services()
        found["services"] = {service.metadata.name: service.images for service in services or ()}
        if form.table:
            _say_services(found["services"], services is not None)
    if not form.table:
        print_data(found, form)


def _say_services(services: dict[str, Any], readable: bool) -> None:
    if not services:
        say("Services: no Deployment found" if readable else "Services: you may not list Deployments")
        return
    say("Services:")
    for line in columns(["NAME", "IMAGES"], [[name, " ".join(images)] for name, images in sorted(services.items())]):
        say(f"  {line}")
