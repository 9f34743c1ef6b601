"""lint: what is wrong with files, before anything is sent."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from scavenger_cli.access import Access, namespaced_command
from scavenger_cli.exits import CliError, ExitCode
from scavenger_cli.manifests import is_ours, named, read
from scavenger_cli.options import RESTRICTED, PodSecurity, level_of
from scavenger_cli.output import note, say
from scavenger_cli.words import plural


@namespaced_command
def lint(
    access: Access,
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="YAML or JSON files; - reads standard input.")],
    pod_security: PodSecurity = RESTRICTED,
) -> None:
    """Check files, with or without a cluster.

    It applies the rules of the CRDs and of the webhook. If a cluster answers, its API server also checks pod templates,
    and fills in the sizes that a job leaves out. The command then checks the namespace and the nodes, too. To check
    queues, capacity and the limits of the administrator, use submit --dry-run. The command skips objects of other
    kinds. The exit code is 2 when anything is wrong.

    \b
    Examples:
      kubectl sj lint simulation.yaml
      generate-jobs | kubectl sj lint -
    """
    from scavenger_cli.lint.check import check
    from scavenger_cli.lint.habits import habit_warnings
    from scavenger_cli.trial import refusals, with_sizes
    from scavenger_cli.trial import warnings as of_cluster

    level = level_of(pod_security)
    wrong = 0
    for file in files:
        for manifest in filter(is_ours, read(file)):
            problems, warnings = check(manifest, level)
            if any(one.field.endswith("resources") for one in problems):  # the cluster may have defaults for them
                problems, warnings = check(with_sizes(access, manifest), level)
            found = [*map(str, problems)]
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
    return f"{'standard input' if file == '-' else file}: {named(manifest)}"
