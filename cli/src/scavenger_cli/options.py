"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer
from scavenger_api.duration import DurationError, parse_duration

from scavenger_cli.exits import CliError, ExitCode
from scavenger_cli.output import Format

OutputOption = Annotated[Format, typer.Option("--output", "-o", help="Form of the output.")]
Timeout = Annotated[str | None, typer.Option("--timeout", metavar="DURATION", help="Give up after this, as 90s or 2h.")]
JobName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the job.")]
JobNames = Annotated[list[str], typer.Argument(metavar="NAME...", help="Names of jobs.")]
QueueName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the queue.")]


def seconds(duration: str | None) -> float | None:
    """A duration in seconds; None for none. Raises CliError."""
    if duration is None:
        return None
    try:
        return parse_duration(duration).total_seconds()
    except DurationError as error:
        raise CliError(str(error), code=ExitCode.USAGE) from error


def refuse(form: Format, command: str, *allowed: Format) -> None:
    """Raises CliError for a form that says nothing here."""
    if form not in allowed:
        choice = ", ".join(allowed)
        raise CliError(f"{command} has no output {form.value}", f"choose one of {choice}", ExitCode.USAGE)
