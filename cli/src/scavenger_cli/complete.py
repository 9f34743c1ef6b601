"""`kubectl_complete-sj`: what kubectl's shell completion asks of a plugin (`kubectl completion --help`).

kubectl calls it with the words typed so far, the last one unfinished, and expects a candidate per line, with its
description behind a tab, and in the end a directive of cobra: 4, no file names; 6, no space behind it either;
or 0, file names if you like.
"""

from __future__ import annotations

import functools
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import typer
from scavenger_kube import kubeconfig
from scavenger_kube.errors import ApiError

from scavenger_cli import connection, objects
from scavenger_cli.access import Access
from scavenger_cli.commands.showing import SECTIONS
from scavenger_cli.exits import CliError
from scavenger_cli.forms import Format
from scavenger_cli.waiting import Goal

NO_SPACE: Final = 2 + 4
"""No space behind the candidate, and no file names."""
NO_FILES: Final = 4
FILES: Final = 0
PATIENCE: Final = 3.0
"""Seconds for the API server to answer; a shell that hangs on the tab key is worse than one that knows nothing."""

OPTIONS_OF_NAMES: Final = {
    "queue": "queue",
    "namespace": "namespace",
    "system_namespace": "namespace",
    "context": "context",
    "cluster": "cluster",
}
"""Options whose values are names in the cluster: parameter, and where to look."""
ASSIGNED_NAMES: Final = {"namespace_weight": "namespace"}
"""Options that give such names a value, as in `--namespace-weight chemistry=3`."""
CHOICES: Final[Mapping[str, Iterable[str]]] = {
    "output": tuple(Format),
    "goal": tuple(Goal),
    "status": tuple(phase.lower() for phase in objects.PHASES),
    "section": SECTIONS,
    "pod_security": ("restricted", "baseline"),
}
FILE_PARAMETERS: Final = ("file", "files", "kubeconfig", "certificate_authority")

Lookup = Callable[[str], Iterable[str]]
"""Names of a sort (job, queue, namespace, context, cluster) as the cluster has them."""


@dataclass
class Line:
    """What has been typed: the command it leads to, options given so far, positional words."""

    command: Any
    path: tuple[str, ...] = ()
    given: dict[str, Any] = field(default_factory=dict)
    words: int = 0
    pending: Any = None
    """An option that waits for its value."""


def read_line(root: Any, words: Sequence[str]) -> Line:
    """Follow the finished words of a command line through groups, options and arguments."""
    line = Line(root)
    for word in words:
        if line.pending is not None:
            _take(line, line.pending, word)
            line.pending = None
        elif word.startswith("-"):
            _read_option(line, word)
        elif (inner := getattr(line.command, "commands", {}).get(word)) is not None:
            line.command, line.path = inner, (*line.path, word)
        else:
            line.words += 1
    return line


def _read_option(line: Line, word: str) -> None:
    name, sign, value = word.partition("=")
    option = next((p for p in line.command.params if name in p.opts), None)
    if option is None:
        return
    if option.is_flag:
        line.given[option.name] = True
    elif sign:
        _take(line, option, value)
    else:
        line.pending = option


def _take(line: Line, option: Any, value: str) -> None:
    """Note an option's value; of one that may be repeated, all."""
    line.given[option.name] = (*line.given.get(option.name, ()), value) if option.multiple else value


def candidates(root: Any, words: Sequence[str], lookup: Callable[[Mapping[str, Any]], Lookup]) -> tuple[list[str], int]:
    """What the last word may become, and the directive.

    root: the command tree. lookup: given the options typed so far, where to find names.
    """
    *finished, last = words or ("",)
    line = read_line(root, finished)
    find = lookup(line.given)
    if line.pending is not None:
        found, directive = _values(line.pending, find)
    elif last.startswith("-"):
        found = [f"{opt}\t{p.help or ''}" for p in line.command.params for opt in p.opts if opt.startswith("--")]
        directive = NO_FILES
    elif hasattr(line.command, "commands"):
        found = [f"{name}\t{_first_line(command)}" for name, command in line.command.commands.items()]
        directive = NO_FILES
    else:
        found, directive = _argument(line, find)
    return [one for one in found if one.startswith(last)], directive


def _first_line(command: Any) -> str:
    return str(command.help or "").strip().split("\n", 1)[0]


def _values(option: Any, find: Lookup) -> tuple[list[str], int]:
    if option.name in FILE_PARAMETERS:
        return [], FILES
    if option.name in CHOICES:
        return list(CHOICES[option.name]), NO_FILES
    if option.name in ASSIGNED_NAMES:
        return [f"{name}=" for name in find(ASSIGNED_NAMES[option.name])], NO_SPACE
    if option.name in OPTIONS_OF_NAMES:
        return list(find(OPTIONS_OF_NAMES[option.name])), NO_FILES
    return [], NO_FILES


def _argument(line: Line, find: Lookup) -> tuple[list[str], int]:
    arguments = [p for p in line.command.params if p.param_type_name == "argument"]
    if not arguments or (line.words >= len(arguments) and arguments[-1].nargs != -1):
        return [], NO_FILES
    argument = arguments[min(line.words, len(arguments) - 1)]
    if argument.name in FILE_PARAMETERS:
        return [], FILES
    if argument.name in CHOICES:
        return list(CHOICES[argument.name]), NO_FILES
    if line.path in (("run",), ("queue", "create")):
        return [], NO_FILES  # a new name
    return list(find("queue" if line.path[:1] == ("queue",) else "job")), NO_FILES


def cluster_names(given: Mapping[str, Any], sort: str) -> Iterable[str]:
    """Names of a sort from the cluster the options point at; none where it cannot be asked."""
    try:
        if sort in ("context", "cluster"):
            return sorted(getattr(kubeconfig.merged(given.get("kubeconfig")), f"{sort}s"))
        with Access(connection.client(given, PATIENCE), given.get("namespace")) as access:
            if sort == "job":
                return _job_names(access.jobs(access.namespace))
            if sort == "queue":
                return sorted(queue.metadata.name for queue in access.queues())
            body = access.client.get("/api/v1/namespaces")
            return sorted(one.metadata.name for one in objects.decode_items(body, objects.Named))
    except (CliError, ApiError, ValueError):
        return ()


def _job_names(jobs: Sequence[objects.Job]) -> list[str]:
    """Names of jobs; with their kind where there is one of each."""
    many = Counter(job.name for job in jobs)
    return sorted(job.name if many[job.name] == 1 else f"{job.kind_of.lower()}/{job.name}" for job in jobs)


def main() -> None:
    """Print the candidates for the words on the command line."""
    from scavenger_cli.main import application

    root = typer.main.get_command(application())
    found, directive = candidates(root, sys.argv[1:], lambda given: functools.partial(cluster_names, given))
    sys.stdout.write("".join(f"{one}\n" for one in found) + f":{directive}\n")


if __name__ == "__main__":
    main()
