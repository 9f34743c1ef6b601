"""release: adopted Jobs that become regular Jobs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Annotated, Any
from urllib.parse import quote

import msgspec
import typer
from scavenger_domain.release import End, Pause, ReleaseError, Request, Target
from scavenger_domain.release import release as releasing
from scavenger_kube.errors import ApiError, look_says_more
from scavenger_kube.kinds import Pod

from scavenger_cli.access import Access, namespaced_command
from scavenger_cli.exits import CliError, ExitCode
from scavenger_cli.follow import Deadline
from scavenger_cli.options import JobNames, Timeout, seconds
from scavenger_cli.output import note, say

REMEDIES = {
    End.MISSING: "kubectl get jobs lists the Jobs of the namespace",
    End.LEFT: "wait for its end, or delete it by --delete: its owner decides what follows",
}


@namespaced_command
def release(
    access: Access,
    jobs: JobNames,
    now: Annotated[bool, typer.Option("--now", help="Delete running pods without waiting for a checkpoint.")] = False,
    delete: Annotated[bool, typer.Option("--delete", help="Delete a Job that a controller owns.")] = False,
    timeout: Timeout = None,
) -> None:
    """Make regular Jobs of adopted Jobs.

    For administrators. No more pods of the Job start. Its pods run until they end or report their next checkpoint. Then
    the command deletes the Job, and creates it again for the Job controller. The Job keeps its counts, and loses its
    ended pods with their logs. You can repeat the command at any time.

    The command does not create a Job again that a controller owns, such as a CronJob. It waits for the end of such a
    Job.

    \b
    Examples:
      kubectl sj release simulation
      kubectl sj release simulation --now
    """
    until = Deadline(seconds(timeout))
    first: CliError | None = None
    for name in jobs:
        try:
            say(f"job.batch/{name} {_release(access, name, now=now, delete=delete, until=until).value}")
        except CliError as error:
            if first is not None:
                note(f"error: {first.message}")
            first = error
    if first is not None:
        raise first


def _release(access: Access, name: str, *, now: bool, delete: bool, until: Deadline) -> End:
    target = Target(
        quote(access.namespace),
        quote(name, safe=""),
        pod_of=lambda found: msgspec.convert(found, Pod, strict=False),
        now=access.now,
        system_namespace=access.system_namespace,
        patience=timedelta(0) if now else None,
        delete_owned=delete,
    )
    try:
        end = carry_out(access, target, until)
    except ReleaseError as error:
        raise CliError(error.message, error.remedy) from error
    if end in REMEDIES:
        code = ExitCode.NOT_FOUND if end is End.MISSING else ExitCode.ERROR
        raise CliError(f"job.batch/{name} {end.value}", REMEDIES[end], code)
    return end


def carry_out(access: Access, target: Target, until: Deadline, sleep: Callable[[float], None] = time.sleep) -> End:
    """Send the requests of a release. Raises CliError, ReleaseError, ApiError.

    Args:
        access: to the cluster.
        target: the Job.
        until: to give up.
        sleep: how time passes.
    """
    steps, answer, said = releasing(target), None, ""
    while True:
        try:
            step = steps.send(answer)
        except StopIteration as end:
            return End(end.value)
        if isinstance(step, Request):
            answer = _send(access, step)
            continue
        answer = None
        if step.why != said:
            note(f"{target.name}: waiting for {step.why}")
            said = step.why
        if until.over:
            _give_up(target, step)
        sleep(step.seconds)


def _give_up(target: Target, step: Pause) -> None:
    raise CliError(
        f"{target.name} was not released in time: waiting for {step.why}",
        "the admitter starts nothing of it any more; repeat the command",
        ExitCode.TIMED_OUT,
    )


def _send(access: Access, step: Request) -> Mapping[str, Any] | None:
    """The answer; None where the object is not there, or where the next look says more."""
    client = access.client
    try:
        if step.method == "PATCH":
            body = client.patch(step.path, step.body, {"fieldManager": "kubectl-sj"})
        else:
            body = client.request(step.method, step.path, body=step.body)
    except ApiError as error:
        if not look_says_more(error, step.method):
            raise
        return None
    found: Mapping[str, Any] = json.loads(body)
    return found
