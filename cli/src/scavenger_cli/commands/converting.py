"""convert: Jobs of others as ScavengerJobs."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer
from scavenger_api.names import LABEL_QUEUE

from scavenger_cli.exits import CliError, ExitCode
from scavenger_cli.manifests import CONVERTED, Manifest, is_converted, is_submit_file, name_of, named, parse, text_of
from scavenger_cli.output import note
from scavenger_cli.words import plural

ADOPTED: Final = ("Job ", "CronJob ")
"""Kinds that a cluster may take as they are."""
LABEL: Final = f"where the cluster adopts Jobs, it stays one: the label {LABEL_QUEUE} is enough (docs/move-a-job.md)"


def convert(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...", help="YAML, JSON, Slurm scripts or HTCondor submit files; - reads standard input."
        ),
    ],
    image: Annotated[
        str, typer.Option("--image", help="Container image for scripts and submit files that name none.")
    ] = "",
) -> None:
    """Print Jobs of other kinds as ScavengerJobs.

    In a cluster that adopts Jobs, a Job or CronJob needs only a label. This command is for other clusters, and for
    features that Jobs lack. It takes Jobs, CronJobs, JobSets, PyTorchJobs, Jobs of Volcano, scripts for Slurm's sbatch
    and submit files of HTCondor.

    Lines on standard error list what was left out, what changes its meaning, and which objects a ScavengerJob needs.
    The exit code is 2 when the API server would refuse the output, or an object cannot be converted. The command skips
    objects of other kinds, and sends nothing to a cluster.

    \b
    Examples:
      kubectl sj convert job.yaml > scavengerjob.yaml
      kubectl get job train -o yaml | kubectl sj convert -
      kubectl sj convert train.sbatch --image registry.example.com/train:1
    """
    from scavenger_domain.pod_security import Level

    from scavenger_cli.forms import yaml_text
    from scavenger_cli.lint.check import check
    from scavenger_cli.lint.habits import habit_warnings

    wrong, before, told = 0, "", False
    for file in files:
        for where, make in _found(file, image):
            if not told and where.startswith(ADOPTED):
                note(f"{where}: {LABEL}")
                told = True
            try:
                made, lines = make()
            except CliError as error:
                wrong += 1
                note(f"{where}: {error}" + (f"; {error.remedy}" if error.remedy else ""))
                continue
            problems, warnings = check(made, Level.RESTRICTED)
            wrong += len(problems)
            lines += map(str, problems)
            for line in [*lines, *warnings, *habit_warnings(made)]:
                note(f"{where}: {line}")
            sys.stdout.write(before + yaml_text(made))
            before = "---\n"
    if wrong:
        raise CliError(plural(wrong, "problem"), code=ExitCode.USAGE)


def _found(file: str, image: str) -> Iterator[tuple[str, Callable[[], tuple[Manifest, list[str]]]]]:
    """What is to be converted: its name, and how. Raises CliError."""
    from scavenger_cli import condor, convert, slurm

    text = text_of(file)
    if slurm.is_script(text):
        yield file, partial(slurm.converted, text, slurm.Submission(image=image))
        return
    if is_submit_file(text):
        name = re.sub(r"[^a-z0-9-]+", "-", Path(file).stem.lower()).strip("-")
        yield file, partial(condor.converted, text, image, name or "job")
        return
    for manifest in filter(is_converted, parse(text, name_of(file), CONVERTED)):
        yield named(manifest), partial(convert.converted, manifest)
