"""simulate: what scavenging would have given this cluster. It is the simulator's work, a program of its own."""

from __future__ import annotations

import shutil
import sys
from typing import Final

import typer
from scavenger_kube import overrides

from scavenger_cli import connection
from scavenger_cli.connection import ContextOption, KubeconfigOption
from scavenger_cli.exits import CliError, ExitCode

PROGRAM: Final = "scavenger-simulator"
MODULE: Final = "scavenger_simulator"
VERBS: Final = ("run", "compare", "tune")
INSTALL: Final = (
    "from a clone: pip install ./packages/api ./packages/domain ./packages/kube ./packages/runtime "
    "./services/admitter ./services/regulator ./services/prioritizer './simulator[tune]'"
)


def simulate(context: typer.Context, kube_context: ContextOption = None, kubeconfig: KubeconfigOption = None) -> None:
    """Simulate jobs on the past of this cluster.

    The first argument is run, compare (the default) or tune. All other options are those of scavenger-simulator. To
    list them, add --help to one of the three.

    \b
    Examples:
      kubectl sj simulate --prometheus-service monitoring/prometheus-operated:9090
      kubectl sj simulate run --prometheus-url http://localhost:9090 --html day.html
      kubectl sj simulate tune --prometheus-url http://localhost:9090 --length 7d
    """
    import subprocess

    flags = connection.given({"context": kube_context, "kubeconfig": kubeconfig}, context.parent)
    if context.parent is not None and connection.overrides(context.parent.params) != overrides.NONE:
        raise CliError(
            "the simulator takes --context and --kubeconfig only", "leave the other flags out", ExitCode.USAGE
        )
    words = arguments(context.args, flags["context"], flags["kubeconfig"])
    code = subprocess.run([*program(), *words], check=False).returncode
    if code:
        raise typer.Exit(code if code > 0 else ExitCode.ERROR)


def program() -> list[str]:
    """How the simulator is started: as it is on PATH, or from beside this package. Raises CliError."""
    if found := shutil.which(PROGRAM):
        return [found]
    from importlib.util import find_spec

    if find_spec(MODULE) is None:
        raise CliError("the simulator is not installed", INSTALL)
    return [sys.executable, "-m", MODULE]


def arguments(words: list[str], kube_context: str | None = None, kubeconfig: str | None = None) -> list[str]:
    """The command line of the simulator: on the history of the cluster, unless it is only asked for help."""
    verb, rest = (words[0], words[1:]) if words and words[0] in VERBS else ("compare", words)
    cluster = [
        *(("--context", kube_context) if kube_context else ()),
        *(("--kubeconfig", kubeconfig) if kubeconfig else ()),
    ]
    return [verb, "prometheus", *rest, *cluster]
