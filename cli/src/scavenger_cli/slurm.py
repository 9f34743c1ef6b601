"""Batch scripts of Slurm as ScavengerJobs, and what of them has no place there. Pure. Options: sbatch(1)."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from scavenger_api import names

from scavenger_cli.exits import CliError, ExitCode
from scavenger_cli.manifests import Manifest

_SHORT: Final = {
    "-J": "--job-name",
    "-n": "--ntasks",
    "-N": "--nodes",
    "-c": "--cpus-per-task",
    "-t": "--time",
    "-a": "--array",
    "-G": "--gpus",
    "-p": "--partition",
    "-o": "--output",
    "-e": "--error",
    "-A": "--account",
    "-D": "--chdir",
    "-d": "--dependency",
}
_FLAGS: Final = ("--exclusive", "--requeue", "--no-requeue", "--parsable", "--hold")
_READ: Final = (
    *("--job-name", "--ntasks", "--nodes", "--ntasks-per-node", "--cpus-per-task", "--mem", "--mem-per-cpu", "--time"),
    *("--gres", "--gpus", "--gpus-per-node", "--gpus-per-task", "--array", "--chdir", "--requeue"),
)
_MEANS: Final = {
    "--partition": "choose a queue: spec.queue",
    "--account": "choose a queue: spec.queue",
    "--qos": "choose a queue: spec.queue",
    "--output": "`kubectl sj logs` shows the output",
    "--error": "`kubectl sj logs` shows the output",
    "--signal": "the program gets SIGTERM, terminationGracePeriodSeconds before SIGKILL",
    "--dependency": "wait for the other job: kubectl sj wait",
}
_UNITS: Final = {"": "Mi", "K": "Ki", "M": "Mi", "G": "Gi", "T": "Ti"}
_MEMORY: Final = re.compile(r"(\d+)([KMGT]?)B?", re.IGNORECASE)
_ARRAY: Final = re.compile(r"0(?:-(\d+))?(?:%(\d+))?")
_TIME: Final = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?")


@dataclass
class _Script:
    """Options by their long names, and the lines that a shell runs."""

    options: dict[str, str] = field(default_factory=dict)
    body: list[str] = field(default_factory=list)


def is_script(text: str) -> bool:
    """Whether a text is a script with options for sbatch, and no manifest."""
    return text.startswith("#!") and "\n#SBATCH" in text


def converted(text: str, image: str) -> tuple[Manifest, list[str]]:
    """A batch script as a ScavengerJob, and a line for all that was left out or changes its meaning.

    Args:
        text: the script.
        image: what the pods run, which a script does not say.

    Raises:
        CliError: when an option cannot be read.
    """
    script = _read(text)
    options = script.options
    lines = [
        f"{name}: left out: {_MEANS.get(name, 'there is nothing like it')}" for name in options if name not in _READ
    ]
    lines += _of_the_body(script)
    pods, tasks = _pods(options)
    array = _array(options["--array"], pods) if "--array" in options else None
    timed = "--time" in options and array is None
    if "--time" in options and not timed:
        lines.append("--time: left out: tasks of an array have no deadline")
    spec: Manifest = {
        "image": image,
        "command": ["bash", "-c", "\n".join(script.body)],
        "resources": {"requests": _requests(options, pods, tasks)},
        **({"parallelism": pods} if pods > 1 else {}),
        **({"array": array} if array is not None else {}),
        **({"activeDeadlineSeconds": _seconds(options["--time"])} if timed else {}),
    }
    if pods > 1:
        lines.append(
            f"--nodes: the script runs in each of the {pods} pods; SCAVENGER_INDEX and SCAVENGER_PEERS tell them apart"
        )
    name = re.sub(r"[^a-z0-9-]+", "-", options.get("--job-name", "job").lower()).strip("-") or "job"
    return {"apiVersion": names.API_VERSION, "kind": "ScavengerJob", "metadata": {"name": name}, "spec": spec}, lines


def _read(text: str) -> _Script:
    found = _Script()
    for line in text.splitlines():
        if line.startswith("#SBATCH"):
            found.options.update(_options(line.removeprefix("#SBATCH")))
        elif not line.startswith("#!"):
            found.body.append(line)
    return found


def _options(line: str) -> Iterator[tuple[str, str]]:
    """`--name=value`, `--name value`, `-n value` and `-n8`."""
    try:
        words = shlex.split(line, comments=True)
    except ValueError as error:
        raise CliError(f"#SBATCH{line}: {error}", code=ExitCode.USAGE) from error
    while words:
        word = words.pop(0)
        name, sign, value = word.partition("=") if word.startswith("--") else (word[:2], word[2:], word[2:])
        name = _SHORT.get(name, name)
        if not sign and name not in _FLAGS:
            value = words.pop(0) if words else ""
        yield name, value


def _of_the_body(script: _Script) -> Iterator[str]:
    text = "\n".join(script.body)
    if re.search(r"(^|[;&|])\s*(srun|mpirun|mpiexec)\b", text, re.MULTILINE):
        yield "srun: pods start without it; demo-apps/mpi shows how ranks find each other"
    if re.search(r"(^|[;&|])\s*module\s+load\b", text, re.MULTILINE):
        yield "module load: the image has the programs"
    if variables := sorted(set(re.findall(r"\bSLURM_\w+", text))):
        index = "SCAVENGER_INDEX and SCAVENGER_PARALLELISM say who a pod is"
        if "--array" in script.options:
            index = "SCAVENGER_TASK is the index of the task"
        yield f"{', '.join(variables)}: they are not set; {index}"
    if "--chdir" in script.options:
        yield "--chdir: left out: begin the script with cd"


def _array(text: str, pods: int) -> Manifest:
    """`0-999%100`: tasks, and how many of them run at a time."""
    match = _ARRAY.fullmatch(text)
    if match is None:
        remedy = "write it as 0-99 or 0-99%10, and compute other numbers from SCAVENGER_TASK"
        raise CliError(
            f"--array: {text}: the tasks of an array are numbered from 0, without gaps", remedy, ExitCode.USAGE
        )
    if pods > 1:
        raise CliError("--array: each task is one pod", "leave out --nodes", ExitCode.USAGE)
    return {"tasks": int(match[1] or 0) + 1, **({"maxRunning": int(match[2])} if match[2] else {})}


def _pods(options: Mapping[str, str]) -> tuple[int, int]:
    """Nodes, each of which becomes a pod, and tasks in each."""
    nodes = _number(options, "--nodes", 1)
    tasks = _number(options, "--ntasks", nodes)
    return nodes, _number(options, "--ntasks-per-node", -(-tasks // nodes))


def _requests(options: Mapping[str, str], pods: int, tasks: int) -> Manifest:
    """Of one pod."""
    cpus = _number(options, "--cpus-per-task", 1) * tasks
    found: Manifest = {"cpu": str(cpus)}
    if "--mem" in options:
        found["memory"] = _memory("--mem", options["--mem"], 1)
    elif "--mem-per-cpu" in options:
        found["memory"] = _memory("--mem-per-cpu", options["--mem-per-cpu"], cpus)
    gpus = options.get("--gpus-per-node") or next(
        (part for part in options.get("--gres", "").split(",") if part.startswith("gpu")), ""
    )
    whole, per_task = options.get("--gpus", ""), options.get("--gpus-per-task", "")
    number = _gpus(gpus) or _gpus(per_task) * tasks or -(-_gpus(whole) // pods)
    if number:
        found["nvidia.com/gpu"] = str(number)
    return found


def _gpus(text: str) -> int:
    """`gpu:2`, `gpu:a100:2`, `a100:2`, `2`; a kind alone is one."""
    last = text.rpartition(":")[2]
    return int(last) if last.isdecimal() else int(bool(text))


def _number(options: Mapping[str, str], name: str, default: int) -> int:
    text = options.get(name, str(default))
    if not text.isdecimal() or int(text) < 1:
        raise CliError(f"{name}: {text} is not a number of 1 or more", code=ExitCode.USAGE)
    return int(text)


def _memory(name: str, text: str, times: int) -> str:
    match = _MEMORY.fullmatch(text)
    if match is None or not int(match[1]):
        raise CliError(f"{name}: {text} is no amount of memory", "write it as 4000M or 16G", ExitCode.USAGE)
    return f"{int(match[1]) * times}{_UNITS[match[2].upper()]}"


def _seconds(text: str) -> int:
    """`30`, `30:00`, `12:00:00`, `1-12`, `1-12:30`, `1-12:30:00`: minutes first, and hours after days."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise CliError(f"--time: {text} is no time", "write it as 30, 12:00:00 or 1-12", ExitCode.USAGE)
    days, first, second, third = (int(part) if part else 0 for part in match.groups())
    if match[1] is not None:
        seconds = ((days * 24 + first) * 60 + second) * 60 + third
    elif match[4] is not None:
        seconds = (first * 60 + second) * 60 + third
    else:
        seconds = first * 60 + second
    return max(1, seconds)
