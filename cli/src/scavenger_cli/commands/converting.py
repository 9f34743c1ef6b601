"""convert: Jobs of others as ScavengerJobs."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from scavenger_cli.exits import CliError, ExitCode
from scavenger_cli.manifests import CONVERTED, is_converted, read
from scavenger_cli.output import note


def convert(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="YAML or JSON files; - reads standard input.")],
) -> None:
    """Print Jobs of other kinds as ScavengerJobs.

    Of Job, CronJob, JobSet and PyTorchJob.

    A line on standard error tells of each thing that was left out or changes its meaning, and of what a ScavengerJob
    needs beside it. The exit code is 2 when the API server would refuse what is printed, or an object cannot be
    converted. Objects of other kinds in the files are passed over. Nothing is sent to a cluster.

    \b
    Examples:
      kubectl sj convert job.yaml > scavengerjob.yaml
      kubectl get job train -o yaml | kubectl sj convert -
    """
    from scavenger_domain.pod_security import Level

    from scavenger_cli.convert import converted
    from scavenger_cli.forms import yaml_text
    from scavenger_cli.lint.check import check

    wrong, before = 0, ""
    for file in files:
        for manifest in filter(is_converted, read(file, CONVERTED)):
            metadata = manifest.get("metadata") or {}
            where = f"{manifest['kind']} {metadata.get('name') or metadata.get('generateName')}"
            try:
                made, lines = converted(manifest)
            except CliError as error:
                wrong += 1
                note(f"{where}: {error}" + (f"; {error.remedy}" if error.remedy else ""))
                continue
            problems, warnings = check(made, Level.RESTRICTED)
            wrong += len(problems)
            lines += [f"{problem.field or 'the object'}: {problem.message}" for problem in problems]
            for line in [*lines, *warnings]:
                note(f"{where}: {line}")
            sys.stdout.write(before + yaml_text(made))
            before = "---\n"
    if wrong:
        raise CliError(f"{wrong} problems" if wrong > 1 else "1 problem", code=ExitCode.USAGE)
