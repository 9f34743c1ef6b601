"""Submit files of HTCondor as ScavengerJobs, and what of them has no place there. Pure. Commands: condor_submit(1)."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from scavenger_api import names
from scavenger_api.indexes import MAX_COUNT, MAX_TASKS

from scavenger_cli.exits import CliError, ExitCode
from scavenger_cli.manifests import Manifest, literal

_LINE: Final = re.compile(r"\s*(\+?[\w.]+)\s*=\s*(.*?)\s*")
_QUEUE: Final = re.compile(r"\s*queue\b\s*(.*?)\s*", re.IGNORECASE)
_MACRO: Final = re.compile(r"\$\(([\w.]+)(?::([^()]*))?\)")
_IN_LIST: Final = re.compile(r"(\d*)\s*([\w,\s]*?)\s*(in|from|matching)\b\s*(.*)", re.IGNORECASE | re.DOTALL)
_MEMORY: Final = re.compile(r"(\d+)\s*([KMGT]?)B?", re.IGNORECASE | re.ASCII)
_FILES: Final = "files are not transferred: mount a claim with them, as persistentVolumeClaims"
_LOGS: Final = "kubectl sj logs shows the output"
_MEANS: Final = {
    **dict.fromkeys(("transfer_input_files", "transfer_output_files", "transfer_executable"), _FILES),
    **dict.fromkeys(("transfer_checkpoint_files", "transfer_output_remaps", "initialdir"), _FILES),
    **dict.fromkeys(("output", "error", "stream_output", "stream_error"), _LOGS),
    **dict.fromkeys(("requirements", "rank"), "choose nodes by their labels: nodeSelector"),
    **dict.fromkeys(("accounting_group", "accounting_group_user"), "choose a queue: spec.queue"),
    **dict.fromkeys(("notification", "notify_user"), "no mail is sent; kubectl sj wait ends with the job"),
    **dict.fromkeys(("periodic_remove", "periodic_hold", "periodic_release"), "expressions are not evaluated"),
    **dict.fromkeys(("on_exit_remove", "on_exit_hold"), "expressions are not evaluated"),
    "log": "kubectl sj history tells it",
    "input": "the program reads no input; redirect it in a shell",
    "priority": "write spec.priority, from -10 to 10",
    "machine_count": "write spec.parallelism",
}
_WITHOUT_A_WORD: Final = frozenset({
    *("universe", "should_transfer_files", "when_to_transfer_output", "getenv", "batch_name", "jobbatchname"),
})  # fmt: skip
"""Commands that say what a ScavengerJob does anyway."""
_READ: Final = frozenset({
    *("executable", "arguments", "environment", "request_cpus", "request_memory", "request_gpus", "request_disk"),
    *("container_image", "docker_image", "checkpoint_exit_code", "max_retries", "max_materialize", "max_idle", "hold"),
    *("allowed_job_duration", "allowed_execute_duration"),
})  # fmt: skip
_UNIVERSES: Final = ("vanilla", "docker", "container", "5")


@dataclass
class _File:
    """Commands by their names in lower case, macros as they stand, and what stands behind `queue`."""

    commands: dict[str, str] = field(default_factory=dict)
    queue: str | None = None


def converted(text: str, image: str, name: str) -> tuple[Manifest, list[str]]:
    """A submit file as a ScavengerJob, and a line for all that was left out or changes its meaning.

    Args:
        text: the file.
        image: what the pods run where the file names none.
        name: of the job.

    Raises:
        CliError: when a command cannot be read, or no image or program is named.
    """
    file = _read(text)
    given = file.commands
    image = image or given.get("container_image", "") or given.get("docker_image", "")
    image = image.removeprefix("docker://")
    if not image:
        raise CliError("no image is named", "name one with --image, or as container_image", ExitCode.USAGE)
    if (universe := given.get("universe", "vanilla").lower()) not in _UNIVERSES:
        raise CliError(f"universe: {universe}: pods run programs of images", "see docs/slurm.md", ExitCode.USAGE)
    items, lines = _items(file.queue or "")
    lines += [f"{key}: left out: {_means(key)}" for key in given if key not in _READ | _WITHOUT_A_WORD]
    command = [given.get("executable", ""), *_words(given.get("arguments", ""))]
    if not command[0]:
        raise CliError("executable is missing", code=ExitCode.USAGE)
    variables = dict(_environment(given.get("environment", "")))
    macros = {"process": f"$({names.ENV_TASK})", "procid": f"$({names.ENV_TASK})", "step": f"$({names.ENV_TASK})"}
    macros |= dict.fromkeys(("cluster", "clusterid", "jobid"), name) | (
        {} if items.tasks > 1 else {"process": "0", "procid": "0"}
    )
    macros |= {key: text for key, text in given.items() if key not in _READ}
    command = [_filled(word, macros, items, lines) for word in command]
    variables = {key: _filled(value, macros, items, lines) for key, value in variables.items()}
    tasks = items.tasks > 1
    retries = _count(given, "max_retries", 0)
    spec: Manifest = {
        "image": image,
        "command": items.around(command),
        "env": [{"name": key, "value": value} for key, value in variables.items()] or None,
        "resources": {"requests": _requests(given, lines)},
        "array": _array(given, items) if tasks else None,
        "backoffLimit": min(retries, MAX_COUNT if tasks else retries) or None,
        "checkpointExitCode": _exit_code(given),
        "activeDeadlineSeconds": _deadline(given, tasks, lines),
        "suspend": True if given.get("hold", "").lower() == "true" else None,
    }
    spec = {key: value for key, value in spec.items() if value is not None}
    return {"apiVersion": names.API_VERSION, "kind": "ScavengerJob", "metadata": {"name": name}, "spec": spec}, list(
        dict.fromkeys(lines)
    )


def _read(text: str) -> _File:
    """Lines that end with a backslash go on in the next one; a list of items ends with a parenthesis."""
    found = _File()
    lines = iter(re.sub(r"\\[ \t]*\n", " ", text).splitlines())
    for line in lines:
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if (queue := _QUEUE.fullmatch(line)) is not None:
            if found.queue is not None:
                raise CliError("queue stands there twice", "make a file of each", ExitCode.USAGE)
            found.queue = queue[1]
            if "(" in queue[1] and ")" not in queue[1]:
                for more in lines:
                    found.queue += f"\n{more}"
                    if ")" in more:
                        break
        elif (command := _LINE.fullmatch(line)) is not None:
            found.commands[command[1].lower()] = command[2]
        else:
            raise CliError(f"{line.strip()}: no command of a submit file", code=ExitCode.USAGE)
    return found


def _means(name: str) -> str:
    return _MEANS.get(
        name, "it is no command that a ScavengerJob has, and where the file uses it as a macro it is filled in"
    )


@dataclass(frozen=True)
class _Items:
    """The jobs of a file. names: of the macros that each item fills in; rows: their values, one for each task."""

    tasks: int = 1
    names: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()

    def around(self, command: list[str]) -> list[str]:
        """The command, told by a shell what the items of its task are."""
        if not self.rows:
            return command
        told = (" ".join(map(_assigned, self.names, row)) for row in self.rows)
        cases = "\n".join(f"{number}) {text};;" for number, text in enumerate(told))
        script = f'case "${names.ENV_TASK}" in\n{cases}\nesac\nexec {" ".join(map(_quoted, command))}'
        return ["/bin/sh", "-c", script]


def _assigned(name: str, value: str) -> str:
    """What the kubelet does not change, and a shell takes for the value of a variable."""
    return f"{name}={shlex.quote(literal(value))}"


def _quoted(word: str) -> str:
    """A word for a shell, in which `\0NAME\0` is the value of a variable and `$(NAME)` what the kubelet fills in."""
    parts = re.split(r"\0(\w+)\0", word)
    return (
        "".join(f'"${{{part}}}"' if at % 2 else shlex.quote(part) if part else "" for at, part in enumerate(parts))
        or "''"
    )


def _items(text: str) -> tuple[_Items, list[str]]:
    """What stands behind `queue`: nothing, a number, `x in (a b)` or `x,y from (…)`."""
    if re.fullmatch(r"\d*", text):
        count = int(text or 1)
        if not 1 <= count <= MAX_TASKS:
            raise CliError(f"queue {text}: an array has 1 to {MAX_TASKS:,} tasks", code=ExitCode.USAGE)
        return _Items(count), []
    found = _IN_LIST.fullmatch(text)
    if found is None or found[3].lower() == "matching" or not found[4].startswith("("):
        raise CliError(
            f"queue {text.splitlines()[0]}: its items stand in files that convert does not read",
            "write them behind queue: queue x in (a b c), or queue x,y from (…)",
            ExitCode.USAGE,
        )
    inside = found[4].strip().removeprefix("(").removesuffix(")")
    own = tuple(found[2].replace(",", " ").split()) or ("Item",)
    if found[3].lower() == "in":
        rows: list[tuple[str, ...]] = [(value,) for value in inside.replace(",", " ").split()]
    else:
        rows = [tuple(_columns(line, len(own))) for line in inside.splitlines() if line.strip()]
    rows = [row for row in rows for _ in range(int(found[1] or 1))]
    if not rows or any(len(row) != len(own) for row in rows) or len(rows) > MAX_TASKS:
        raise CliError(
            f"queue {text.splitlines()[0]}: not every item has a value for each of its names", code=ExitCode.USAGE
        )
    return _Items(len(rows), own, tuple(rows)), []


def _columns(line: str, size: int) -> list[str]:
    separator = r"\s*,\s*" if "," in line else r"\s+"
    return re.split(separator, line.strip(), maxsplit=size - 1)


def _filled(word: str, macros: Mapping[str, str], items: _Items, lines: list[str]) -> str:
    """A word with the macros of the file, those of its item, and the index of its task."""
    own = {name.lower(): name for name in items.names}

    def value(found: re.Match[str]) -> str:
        name = found[1].lower()
        if name in own:
            return f"\0{own[name]}\0"
        if name in macros:
            return macros[name]
        if found[2] is None:
            lines.append(f"$({found[1]}): it has no value, and stands as it is")
            return f"$$({found[1]})"
        return found[2]

    for _ in range(8):  # macros may have macros in them
        new = _MACRO.sub(lambda one: one[0] if one[1] == names.ENV_TASK else value(one), word.replace("$$(", "\1"))
        new, before = new.replace("\1", "$$("), word
        word = new
        if word == before:
            break
    return word


def _words(text: str) -> list[str]:
    """Arguments, in the new syntax between double quotes or the old one between spaces."""
    if len(text) > 1 and text[0] == text[-1] == '"':
        inner = text[1:-1].replace('""', "\2")
        words = re.findall(r"(?:[^\s']|'(?:[^']|'')*')+", inner)
        return [_unquoted(word).replace("\2", '"') for word in words]
    return text.split()


def _unquoted(word: str) -> str:
    return re.sub(r"'((?:[^']|'')*)'", lambda found: found[1].replace("''", "'"), word)


def _environment(text: str) -> Iterator[tuple[str, str]]:
    for word in _words(text) if text.startswith('"') else text.split(";"):
        name, sign, value = word.partition("=")
        if sign and name.strip():
            yield name.strip(), value


def _requests(given: Mapping[str, str], lines: list[str]) -> Manifest:
    found: Manifest = {"cpu": str(_count(given, "request_cpus", 1))}
    if "request_memory" in given:
        found["memory"] = _amount("request_memory", given["request_memory"], "M")
    else:
        lines.append(
            "request_memory is missing: the pod gets the memory that its namespace has as a default, and needs one"
        )
    if "request_disk" in given:
        found["ephemeral-storage"] = _amount("request_disk", given["request_disk"], "K")
    if gpus := _count(given, "request_gpus", 0):
        found["nvidia.com/gpu"] = str(gpus)
    return found


def _amount(name: str, text: str, unit: str) -> str:
    match = _MEMORY.fullmatch(text)
    if match is None:
        raise CliError(f"{name}: {text} is no amount", "write a number with a unit, as 4GB", ExitCode.USAGE)
    return f"{match[1]}{(match[2] or unit).upper()}i"


def _count(given: Mapping[str, str], name: str, default: int) -> int:
    text = given.get(name, str(default))
    if not (text.isascii() and text.isdecimal()):
        raise CliError(f"{name}: {text} is not a number", "expressions are not evaluated", ExitCode.USAGE)
    return int(text)


def _array(given: Mapping[str, str], items: _Items) -> Manifest:
    most = [_count(given, name, 0) for name in ("max_materialize",) if name in given]
    return {"tasks": items.tasks, **({"maxRunning": most[0]} if most and most[0] else {})}


def _exit_code(given: Mapping[str, str]) -> int | None:
    return _count(given, "checkpoint_exit_code", 85) if "checkpoint_exit_code" in given else None


def _deadline(given: Mapping[str, str], tasks: bool, lines: list[str]) -> int | None:
    name = next((one for one in ("allowed_execute_duration", "allowed_job_duration") if one in given), None)
    if name is None:
        return None
    if tasks:
        lines.append(f"{name}: left out: tasks of an array have no deadline")
        return None
    return _count(given, name, 0) or None
