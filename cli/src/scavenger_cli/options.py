"""Options that several commands share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer
from scavenger_api.duration import DurationError, parse_duration

from scavenger_cli.exits import CliError, ExitCode

if TYPE_CHECKING:
    from scavenger_domain.pod_security import Level

OutputOption = Annotated[
    str, typer.Option("--output", "-o", metavar="FORM", help="Output format: table, wide, json or yaml.")
]
ObjectOutput = Annotated[
    str, typer.Option("--output", "-o", metavar="FORM", help="Output format: table, wide, json, yaml or name.")
]
SelectorOption = Annotated[str | None, typer.Option("--selector", "-l", metavar="LABELS", help="Label selector.")]
FieldSelectorOption = Annotated[
    str | None,
    typer.Option(
        "--field-selector", metavar="FIELDS", help="Field selector, such as status.phase=Running,spec.queue=night."
    ),
]
NoHeadersOption = Annotated[bool, typer.Option("--no-headers", help="Do not print headers.")]
WatchOption = Annotated[bool, typer.Option("--watch", "-w", help="Print every change, until Ctrl-C.")]
Timeout = Annotated[str | None, typer.Option("--timeout", metavar="DURATION", help="Time to wait, such as 90s or 2h.")]
JobName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the job.")]
JobNames = Annotated[list[str], typer.Argument(metavar="NAME...", help="Names of jobs.")]
Priority = Annotated[
    int | None,
    typer.Option(metavar="N", min=-10, max=10, help="Priority among the jobs of its namespace, -10 to 10."),
]
PodSecurity = Annotated[
    str,
    typer.Option(
        "--pod-security",
        metavar="LEVEL",
        help="Pod security level of the namespace, if no cluster is asked: restricted or baseline.",
    ),
]
RESTRICTED: Final = "restricted"
QueueName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the queue.")]


def seconds(duration: str | None) -> float | None:
    """A duration in seconds; None for none. Raises CliError."""
    if duration is None:
        return None
    try:
        return parse_duration(duration).total_seconds()
    except DurationError as error:
        raise CliError(str(error), code=ExitCode.USAGE) from error


def level_of(name: str) -> Level:
    """The pod security level of an option. Raises CliError."""
    from scavenger_domain.pod_security import Level

    if name not in list(Level):
        raise CliError(f"there is no level {name}", f"choose one of {', '.join(Level)}", ExitCode.USAGE)
    return Level(name)
