"""lint: what is wrong with files, before anything is sent."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from scavenger_cli.access import Access, namespaced_command
from scavenger_cli.exits import CliError, ExitCode
from scavenger_cli.manifests import is_ours, read
from scavenger_cli.output import note, say
from scavenger_cli.words import plural


@namespaced_command
def lint(
    access: Access,
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="YAML or JSON files; - reads standard input.")],
    pod_security: Annotated[
        str, typer.Option("--pod-security", metavar="LEVEL", help="Of the namespace: restricted or baseline.")
    ] = "restricted",
) -> None:
    """Check files, with a cluster or without.

    By the CRDs, their rules and the webhook's: what would be refused anywhere. Where a cluster answers, its API server
    judges pod templates as well, and its namespace and nodes are looked at. Whether there are the queue and the
    capacity, and what an administrator allows, submit --dry-run asks. Objects of other kinds in the files are passed
    over. The exit code is 2 when anything is wrong.

    \b
    Examples:
      kubectl sj lint simulation.yaml
      generate-jobs | kubectl sj lint -
    """
    from scavenger_domain.pod_security import Level

    from scavenger_cli.lint.check import check
    from scavenger_cli.lint.habits import habit_warnings
    from scavenger_cli.trial import refusals
    from scavenger_cli.trial import warnings as of_cluster

    if pod_security not in list(Level):
        raise CliError(f"there is no level {pod_security}", f"choose one of {', '.join(Level)}", ExitCode.USAGE)
    wrong = 0
    for file in files:
        for manifest in filter(is_ours, read(file)):
            problems, warnings = check(manifest, Level(pod_security))
            found = [f"{problem.field or 'the object'}: {problem.message}" for problem in problems]
            if not found and manifest["kind"] == "ScavengerJob":
                found = refusals(access, manifest)
                warnings += [*habit_warnings(manifest), *of_cluster(access, manifest)]
            wrong += len(found)
            where = _where(file, manifest)
            for text in found:
                say(f"{where}: {text}")
            for text in warnings:
                note(f"warning: {where}: {text}")
            if not found:
                say(f"{where}: ok")
    if wrong:
        raise CliError(plural(wrong, "problem"), code=ExitCode.USAGE)


def _where(file: str, manifest: dict[str, Any]) -> str:
    metadata = manifest["metadata"]
    name = metadata.get("name") or metadata.get("generateName")
    return f"{'standard input' if file == '-' else file}: {manifest['kind']} {name}"
