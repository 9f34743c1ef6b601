"""sbatch: batch scripts of Slurm, submitted as they are."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Annotated, Any, Final

import typer
from scavenger_kube.errors import AlreadyExists

from scavenger_cli import connection
from scavenger_cli.access import Access, global_parameters
from scavenger_cli.commands.submitting import create_all, see_through
from scavenger_cli.exits import CliError, ExitCode
from scavenger_cli.manifests import Manifest, name_of, text_of
from scavenger_cli.options import RESTRICTED, level_of
from scavenger_cli.output import note

_NUMBERS: Final = 2**31
"""Numbers of jobs are less than this: programs keep them in 32 bits with a sign."""
_TRIES: Final = 5
"""So many numbers are tried where there are jobs with these names already."""
_FLAGS: Final = ("namespace", "context", "kubeconfig")
"""Of kubectl, which may stand among the options of Slurm."""


def sbatch(
    line: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[OPTION]... [SCRIPT [ARG]...]", help="The command line of Slurm's sbatch."),
    ] = None,
) -> None:
    """Submit a batch script of Slurm as it is.

    It takes the options of sbatch from the command line, from SBATCH_* variables, and from #SBATCH lines before the
    first command, in this order. Beside these, it takes --image, --pvc NAME:/PATH, --queue, --namespace, --context,
    --kubeconfig and --dry-run. Write other flags of kubectl before sbatch, such as -n, which is the number of tasks
    here. Without SCRIPT, or with -, the script is read from standard input.

    Lines on standard error list what was understood, what was left out, and what changes its meaning. --test-only is
    --dry-run. The name of the job is that of --job-name and a number. The program gets the number as SLURM_JOB_ID.

    \b
    Examples:
      kubectl sj sbatch --image registry.example.com/fold:1 --pvc work:/work fold.sh input.fa
      kubectl sj -n lab sbatch --array=1-20%4 --image python:3.12 sweep.sh
      kubectl sj sbatch --image python:3.12 --wrap "python -c 'print(1)'"
    """
    from scavenger_cli import slurm
    from scavenger_cli.slurm_options import Takes, read_words

    own = dict.fromkeys(("image", "pvc", "queue", *_FLAGS), Takes.VALUE)
    own["dry-run"] = Takes.PERHAPS
    found, rest = read_words(words or (), own)
    options = dict(found)
    flags: dict[str, Any] = {one.name: None for one in global_parameters(hidden=True, namespace=True)}
    flags = connection.given(flags, line.parent)
    flags |= {name: options[name] for name in _FLAGS if name in options}
    client = options.get("dry-run") == "client"
    trial = {"test-only", "dry-run"} & options.keys()
    with Access.of(flags) as access:
        text = _script(options, rest)
        given = slurm.Submission(
            options={name: value for name, value in options.items() if name not in own},
            environment=os.environ,
            arguments=rest[1:],
            image=options.get("image", ""),
            claims=[value for name, value in found if name == "pvc"],
            queue=options.get("queue"),
            jobs=None if client else lambda: [job.name for job in access.jobs(access.namespace)],
        )
        level = level_of(RESTRICTED) if client else None
        form = "name" if "parsable" in options else None

        def create(number: int) -> list[dict[str, Any]]:
            manifest, lines = slurm.converted(text, replace(given, number=number))
            if flags["namespace"] and client:
                manifest["metadata"]["namespace"] = flags["namespace"]
            _tell(manifest, lines)
            return create_all(access, [manifest], dry_run=bool(trial), client=level, output=form)

        see_through(access, _with_a_free_number(create), "wait" in options and not trial, False, None)


def _with_a_free_number(create: Callable[[int], list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """What was created with a number whose name no other job has. Raises CliError where it cannot be created."""
    tries = 0
    while True:
        tries += 1
        try:
            return create(1 + secrets.randbelow(_NUMBERS - 1))
        except CliError as error:
            if tries == _TRIES or not isinstance(error.__cause__, AlreadyExists):
                raise


def _script(options: dict[str, str], rest: Sequence[str]) -> str:
    """The text of the script: of --wrap, a file, or standard input. Raises CliError."""
    if "wrap" in options:
        if rest:
            raise CliError("--wrap and a script exclude each other", "give one of them", ExitCode.USAGE)
        return f"#!/bin/sh\n{options.pop('wrap')}\n"
    file = rest[0] if rest else "-"
    try:
        text = text_of(file)
    except CliError as error:
        error.remedy = "options stand before the script, and its arguments behind it"
        raise
    if not text.startswith("#!"):
        remedy = "write #!/bin/bash as its first line; `kubectl sj submit` takes manifests"
        raise CliError(f"{name_of(file)} is no batch script", remedy, ExitCode.USAGE)
    return text


def _tell(manifest: Manifest, lines: Sequence[str]) -> None:
    from scavenger_cli.lint.habits import habit_warnings
    from scavenger_cli.slurm import understood

    for text in understood(manifest):
        note(f"understood: {text}")
    for text in [*lines, *habit_warnings(manifest)]:
        note(f"warning: {text}")
