"""What a batch script, the environment and the command line say to sbatch, read as Slurm reads it. Pure.

Source: sbatch(1), and of Slurm 22.05 src/sbatch/opt.c, src/common/slurm_opt.c, src/common/parse_time.c and
src/common/proc_args.c.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import chain, takewhile
from typing import Any, Final

from scavenger_api.indexes import MAX_TASKS, IndexesError
from scavenger_api.task_numbers import format_numbers, parse_numbers, parse_ranges

from scavenger_cli.exits import CliError, ExitCode


class Takes(Enum):
    """Whether an option has a value."""

    VALUE = 1
    NOTHING = 2
    PERHAPS = 3
    """Only behind a sign of equality, as `--exclusive=user`."""


_SHORT: Final = {
    **{"A": "account", "a": "array", "B": "extra-node-info", "b": "begin", "C": "constraint", "c": "cpus-per-task"},
    **{"D": "chdir", "d": "dependency", "e": "error", "F": "nodefile", "G": "gpus", "H": "hold", "i": "input"},
    **{"J": "job-name", "k": "no-kill", "L": "licenses", "M": "clusters", "m": "distribution", "N": "nodes"},
    **{"n": "ntasks", "O": "overcommit", "o": "output", "p": "partition", "Q": "quiet", "q": "qos", "S": "core-spec"},
    **{"s": "oversubscribe", "t": "time", "v": "verbose", "W": "wait", "w": "nodelist", "x": "exclude"},
}
_NOTHING: Final = (
    *("contiguous", "hold", "ignore-pbs", "no-requeue", "oversubscribe", "overcommit", "parsable", "quiet", "reboot"),
    *("requeue", "spread-job", "test-only", "use-min-nodes", "verbose", "wait"),
)
_PERHAPS: Final = ("exclusive", "get-user-env", "nice", "no-kill", "propagate", "wckey")
_VALUE: Final = (
    *("account", "acctg-freq", "array", "batch", "bb", "bbf", "begin", "chdir", "cluster-constraint", "clusters"),
    *("comment", "constraint", "container", "core-spec", "cores-per-socket", "cpu-freq", "cpus-per-gpu"),
    *("cpus-per-task", "deadline", "delay-boot", "dependency", "distribution", "error", "exclude", "export"),
    *("export-file", "extra-node-info", "gid", "gpu-bind", "gpu-freq", "gpus", "gpus-per-node", "gpus-per-socket"),
    *("gpus-per-task", "gres", "gres-flags", "hint", "input", "job-name", "kill-on-invalid-dep", "licenses"),
    *("mail-type", "mail-user", "mcs-label", "mem", "mem-bind", "mem-per-cpu", "mem-per-gpu", "mincpus", "network"),
    *("nodefile", "nodelist", "nodes", "ntasks", "ntasks-per-core", "ntasks-per-gpu", "ntasks-per-node"),
    *("ntasks-per-socket", "open-mode", "output", "partition", "power", "prefer", "priority", "profile", "qos"),
    *("reservation", "signal", "sockets-per-node", "switches", "thread-spec", "threads-per-core", "time", "time-min"),
    *("tmp", "tres-per-task", "uid", "umask", "wait-all-nodes", "wrap"),
    *("container-image", "container-mounts", "container-workdir"),  # of Slurm's plugin pyxis
)
OPTIONS: Final[Mapping[str, Takes]] = {
    **dict.fromkeys(_VALUE, Takes.VALUE),
    **dict.fromkeys(_NOTHING, Takes.NOTHING),
    **dict.fromkeys(_PERHAPS, Takes.PERHAPS),
}
"""Every option of sbatch, by its long name."""

_ENVIRONMENT: Final = {
    **{"SBATCH_TIMELIMIT": "time", "SBATCH_ARRAY_INX": "array", "SBATCH_MEM_PER_NODE": "mem"},
    **{
        f"SBATCH_{name.upper().replace('-', '_')}": name
        for name in (
            *("account", "constraint", "container", "cpus-per-gpu", "distribution", "exclusive", "export", "gpus"),
            *("gpus-per-node", "gpus-per-task", "gres", "hint", "job-name", "mem-per-cpu", "mem-per-gpu"),
            *("no-requeue", "open-mode", "overcommit", "partition", "qos", "requeue", "reservation", "signal"),
            *("threads-per-core", "wait"),
        )
    },
}
"""Variables that stand for an option: sbatch(1), INPUT ENVIRONMENT VARIABLES."""

_MARK: Final = "#SBATCH"


@dataclass
class Script:
    """A batch script.

    Attributes:
        interpreter: what stands behind `#!`, and its one argument where there is one.
        options: by their long names, from the lines before the first command.
        body: the lines that the interpreter gets.
        ignored: options that stand behind the first command, where Slurm does not look for them.
    """

    interpreter: list[str]
    options: dict[str, str] = field(default_factory=dict)
    body: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)


def is_script(text: str) -> bool:
    """Whether a text is a script, and no manifest."""
    return text.startswith("#!")


def read_script(text: str) -> Script:
    """A script with its options, which end at the first line that is neither empty nor a comment.

    Raises:
        CliError: when it is no script, or an option cannot be read.
    """
    first, *lines = text.splitlines() or [""]
    if not first.startswith("#!") or not first[2:].strip():
        raise CliError("a batch script begins with #! and an interpreter", "write #!/bin/bash", ExitCode.USAGE)
    found = Script(first[2:].strip().split(None, 1))
    header = True
    for line in lines:
        if not header:
            found.ignored += _marked(line)
        elif line.startswith(_MARK):
            found.options |= dict(_of_a_line(line))
            continue
        elif line.strip() and not line.lstrip().startswith("#"):
            header = False
        found.body.append(line)
    return found


def _marked(line: str) -> Iterator[str]:
    """The options of a line that Slurm ignores."""
    if line.startswith(f"{_MARK} "):
        yield line.removeprefix(_MARK).strip()


def _of_a_line(line: str) -> Iterator[tuple[str, str]]:
    reader = shlex.shlex(line.removeprefix(_MARK), posix=True, punctuation_chars=False)
    reader.whitespace_split, reader.commenters = True, ""
    try:  # word by word: what follows a comment's # may be no words
        words = list(takewhile(lambda word: not word.startswith("#"), reader))
    except ValueError as error:
        raise CliError(f"{line}: {error}", code=ExitCode.USAGE) from error
    found, rest = read_words(words)
    if rest:
        raise CliError(f"{line}: {rest[0]} is no option", code=ExitCode.USAGE)
    yield from found


def of_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The options that variables stand for."""
    return {name: environment[key] for key, name in _ENVIRONMENT.items() if key in environment}


def read_words(
    words: Sequence[str], more: Mapping[str, Takes] | None = None
) -> tuple[list[tuple[str, str]], list[str]]:
    """The options at the beginning of some words, by their long names, and the words from the first that is none.

    Args:
        words: `--name=value`, `--name value`, `-n value`, `-n8` and beginnings of names that can be no other.
        more: options that are not Slurm's.

    Raises:
        CliError: for an option that there is not, or that lacks its value.
    """
    known = {**OPTIONS, **(more or {})}
    found: list[tuple[str, str]] = []
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        if word == "--":
            break
        if word.startswith("--"):
            found.append(_long(word, rest, known))
        else:
            found += _shorts(word, rest)
    return found, rest


def _long(word: str, rest: list[str], known: Mapping[str, Takes]) -> tuple[str, str]:
    text, sign, value = word[2:].partition("=")
    matching = [name for name in known if name.startswith(text)]
    if text not in known and len(matching) != 1:
        remedy = f"did you mean one of --{', --'.join(matching[:4])}?" if matching else "see sbatch(1)"
        raise CliError(f"--{text}: there is no such option", remedy, ExitCode.USAGE)
    name = text if text in known else matching[0]
    if known[name] is Takes.VALUE and not sign:
        value = _next(f"--{name}", rest)
    elif known[name] is Takes.NOTHING and sign:
        raise CliError(f"--{name}: it takes no value", code=ExitCode.USAGE)
    return name, value


def _shorts(word: str, rest: list[str]) -> Iterator[tuple[str, str]]:
    """`-n8`, `-n 8`, and flags together, as `-HQ`."""
    letters = word[1:]
    while letters:
        letter, letters = letters[0], letters[1:]
        name = _SHORT.get(letter)
        if name is None:
            raise CliError(f"-{letter}: there is no such option", "see sbatch(1)", ExitCode.USAGE)
        if OPTIONS[name] is not Takes.VALUE:
            yield name, ""
            continue
        yield name, letters or _next(f"-{letter}", rest)
        return


def _next(option: str, rest: list[str]) -> str:
    if not rest:
        raise CliError(f"{option}: its value is missing", code=ExitCode.USAGE)
    return rest.pop(0)


# --- values ---

DEPENDENCIES: Final = ("after", "afterany", "afterburstbuffer", "aftercorr", "afternotok", "afterok", "singleton")
"""Kinds of --dependency."""

_UNITS: Final = {"": 1024, "K": 1, "M": 1024, "G": 1024**2, "T": 1024**3}
"""KiB. Without a unit it is megabytes, and these are MiB."""
_MEMORY: Final = re.compile(r"(\d+)([KMGT]?)B?", re.IGNORECASE | re.ASCII)
_TIME: Final = re.compile(r"(?:(\d+)-(?:(\d+)(?::(\d+)(?::(\d+))?)?)?|(\d+)(?::(\d+)(?::(\d+))?)?)", re.ASCII)
_NO_LIMIT: Final = ("-1", "INFINITE", "UNLIMITED")


def minutes(name: str, text: str) -> int:
    """A time limit in whole minutes, which Slurm rounds up; 0 where there is none. Raises CliError.

    `30`, `30:00`, `12:00:00`, `1-`, `1-12`, `1-12:30`, `1-12:30:00`: minutes first, and hours after days.
    """
    if text.upper() in _NO_LIMIT:
        return 0
    match = _TIME.fullmatch(text)
    if match is None:
        raise CliError(f"{name}: {text} is no time", "write it as 30, 12:00:00 or 1-12", ExitCode.USAGE)
    days, hours, of_hour, of_minute, first, second, third = (int(part) if part else 0 for part in match.groups())
    if match[1] is not None:
        seconds = ((days * 24 + hours) * 60 + of_hour) * 60 + of_minute
    elif match[7] is not None:
        seconds = (first * 60 + second) * 60 + third
    else:
        seconds = first * 60 + second
    return -(-seconds // 60)


def mebibytes(name: str, text: str) -> int:
    """Memory in MiB, rounded up; Slurm's megabytes are MiB. Raises CliError."""
    match = _MEMORY.fullmatch(text)
    if match is None:
        raise CliError(f"{name}: {text} is no amount of memory", "write it as 4000M or 16G", ExitCode.USAGE)
    return -(-int(match[1]) * _UNITS[match[2].upper()] // 1024)


def count(options: Mapping[str, str], name: str, default: int) -> int:
    """A number of 1 or more; of nodes the least of `2-4`. Raises CliError."""
    text = options.get(name, str(default))
    least = text.partition("-")[0] if name == "nodes" else text
    if not (least.isascii() and least.isdecimal()) or int(least) < 1:
        raise CliError(f"--{name}: {text} is not a number of 1 or more", code=ExitCode.USAGE)
    return int(least)


def gpus(text: str) -> int:
    """`gpu:2`, `gpu:a100:2`, `a100:2`, `2`; a kind alone is one."""
    last = text.partition("(")[0].rpartition(":")[2]
    return int(last) if last.isascii() and last.isdecimal() else int(bool(text))


def array(text: str, option: str = "--array") -> dict[str, Any]:
    """`spec.array` of `0-999%100`, `1-20`, `0-99:3` or `1,5,9-12`. Raises CliError.

    Args:
        text: in Slurm's syntax. An index that stands there twice is one task, in whatever order they stand.
        option: that has it.
    """
    ranges, sign, limit = text.strip("[]").partition("%")
    try:
        parts = parse_ranges(ranges.replace("[", "").replace("]", ""))
        if sum(map(len, parts)) > MAX_TASKS:
            raise IndexesError(f"{text}: an array has at most {MAX_TASKS:,} tasks")
        indexes = sorted(set(chain.from_iterable(parts)))
    except IndexesError as error:
        raise CliError(f"{option}: {error}", "write it as 0-99, 1-20%4, 0-99:3 or 1,5,9-12", ExitCode.USAGE) from error
    limit = limit.strip("[]")
    if sign and not (limit.isascii() and limit.isdecimal()):
        raise CliError(
            f"{option}: {text}: no number of tasks at a time follows %", "write it as 1-20%4", ExitCode.USAGE
        )
    found: dict[str, Any] = {"tasks": len(indexes)}
    if indexes != list(range(len(indexes))):
        found = {"indexes": _short(ranges, indexes)}
    return found | ({"maxRunning": int(limit)} if sign and int(limit) else {})


@dataclass(frozen=True)
class Dependency:
    """One part of --dependency. kind: afterok and the like. job: number or name. task: of its array, or empty."""

    kind: str
    job: str
    task: str


def dependencies(text: str) -> list[Dependency]:
    """`afterok:7:8,afterany:9_3`: one part for each job; `singleton` names none. Raises CliError."""
    found = []
    for part in re.split(r"[,?]", text):
        kind, *jobs = part.split(":")
        alone = kind.lower() == "singleton"
        if kind.lower() not in DEPENDENCIES or bool(jobs) is alone or not all(jobs):
            raise CliError(f"--dependency: {text} cannot be read", "write it as afterok:JOB", ExitCode.USAGE)
        for job in jobs or [""]:
            name, _, task = job.partition("+")[0].rpartition("/")[2].partition("_")
            found.append(Dependency(kind.lower(), name, task))
    return found


def _short(text: str, indexes: Iterable[int]) -> str:
    """The indexes as they were written, where the API takes them so."""
    try:
        parse_numbers(text)
    except IndexesError:
        return format_numbers(indexes)
    return text
