"""resubmit: a job once more, under another name."""

from __future__ import annotations

from typing import Annotated

import typer
from scavenger_api import names

from scavenger_cli import objects
from scavenger_cli.access import Access, namespaced_command
from scavenger_cli.commands.submitting import Client, Created, DryRun, Wait, Watch, create_all, see_through
from scavenger_cli.exits import CliError
from scavenger_cli.manifests import Changes, again, next_name
from scavenger_cli.options import RESTRICTED, JobName, PodSecurity, Timeout, level_of


@namespaced_command
def resubmit(
    access: Access,
    name: JobName,
    new_name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="Name of the new job (default: the old one, numbered).")
    ] = None,
    image: Annotated[str | None, typer.Option("--image", metavar="IMAGE", help="Another container image.")] = None,
    cpu: Annotated[
        str | None, typer.Option("--cpu", metavar="QUANTITY", help="Another CPU request of each pod.")
    ] = None,
    memory: Annotated[
        str | None, typer.Option("--memory", metavar="QUANTITY", help="Another memory request of each pod.")
    ] = None,
    queue: Annotated[str | None, typer.Option("--queue", "-q", metavar="NAME", help="Another queue.")] = None,
    wait: Wait = False,
    watch: Watch = False,
    timeout: Timeout = None,
    dry_run: DryRun = False,
    client: Client = False,
    pod_security: PodSecurity = RESTRICTED,
    output: Created = None,
) -> None:
    """Submit a job again under a new name.

    The new job has the spec of the old one, with the changes given here. The old job stays unchanged. Suspend or cancel
    a job that has not finished first, because two jobs would write to the same volumes.

    \b
    Examples:
      kubectl sj resubmit simulation
      kubectl sj resubmit simulation --memory 16Gi --name simulation-large --wait
    """
    job, body = access.job_and_body(name)
    if job.adopted:
        raise CliError(f"{name} is a Job, which only its creator can create again", f"`kubectl sj delete {name}` first")
    if job.phase not in (*objects.FINISHED, "Suspended"):
        remedy = f"`kubectl sj suspend {name}` or `kubectl sj cancel {name}` first, or wait until it has finished"
        raise CliError(f"{name} is {job.phase or 'Waiting'}: two would write to the same volumes", remedy)
    taken = {one.name for one in access.jobs(access.namespace)} if new_name is None else set()
    changes = Changes(image=image, cpu=cpu, memory=memory, queue=queue)
    manifest = again(objects.plain(body), new_name or next_name(name, taken, names.MAX_NAME_LENGTH), changes)
    trial = dry_run or client
    level = level_of(pod_security) if client else None
    created = create_all(access, [manifest], dry_run=dry_run, client=level, output=output)
    see_through(access, created, wait and not trial, watch and not trial, timeout)
