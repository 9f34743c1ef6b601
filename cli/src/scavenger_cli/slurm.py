"""Batch scripts of Slurm as ScavengerJobs, and what of them has no place there. Pure. Options: sbatch(1)."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Final

from scavenger_api import names
from scavenger_api.task_numbers import numbers_of

from scavenger_cli.exits import CliError, ExitCode
from scavenger_cli.manifests import Manifest, literal, mount
from scavenger_cli.slurm_options import (
    OPTIONS,
    Script,
    Takes,
    array,
    count,
    dependencies,
    gpus,
    is_script,
    mebibytes,
    minutes,
    of_environment,
    read_script,
)

__all__ = ["Submission", "converted", "is_script"]

_QUEUE: Final = "choose a queue with --queue, or spec.queue"
_PLACE: Final = "choose nodes by their labels: nodeSelector"
_MAIL: Final = "no mail is sent; kubectl sj wait ends with the job"
_MEANS: Final = {
    **dict.fromkeys(("partition", "account", "qos", "reservation", "clusters"), _QUEUE),
    **dict.fromkeys(("constraint", "nodelist", "exclude", "nodefile", "prefer", "batch"), _PLACE),
    **dict.fromkeys(("mail-type", "mail-user"), _MAIL),
    "begin": "a job starts when there is capacity; suspend it with --hold, and resume it in time",
    "exclusive": "the job shares its node with others",
    "no-requeue": "an interrupted job starts again in any case",
    "input": "the program reads no input; redirect it in the script",
    "open-mode": "output is always appended",
    "licenses": "licenses are not counted; --queue of a small quota bounds how many jobs run",
    "nice": "write priority, from -10 to 10",
    "priority": "write priority, from -10 to 10",
    "time-min": "the time limit does not shrink",
    "tmp": "ask for ephemeral-storage in resources",
    "container-mounts": "mount claims with --pvc NAME:/PATH",
    "get-user-env": "the environment is that of the image",
}
"""Options that are left out, and what there is in their place."""
_WITHOUT_A_WORD: Final = frozenset({"comment", "parsable", "quiet", "verbose", "ignore-pbs", "test-only", "wait"})
"""Options that change nothing of the job; the command reads some of them."""
_READ: Final = frozenset({
    *("job-name", "ntasks", "nodes", "ntasks-per-node", "cpus-per-task", "cpus-per-gpu", "mem", "mem-per-cpu"),
    *("mem-per-gpu", "time", "gres", "gpus", "gpus-per-node", "gpus-per-task", "array", "chdir", "requeue", "hold"),
    *("signal", "output", "error", "export", "wrap", "container-image", "container", "container-workdir"),
    "dependency",
})  # fmt: skip
_SHELLS: Final = re.compile(r"(ba|da|a|z|k)?sh")
_PYTHON: Final = re.compile(r"python[0-9.]*")
_FROM_A_FILE: Final = 'f=$(mktemp) && printf "%s\\n" "$0" >"$f" && exec {interpreter} "$f" "$@"'
_AFTER_TERM: Final = 30
"""Seconds from SIGTERM to SIGKILL at the end of a time limit: Slurm's default of KillWait."""
_LONGEST_NAME: Final = names.MAX_NAME_LENGTH


@dataclass(frozen=True)
class Submission:
    """What is said beside the script.

    Attributes:
        options: of the command line, by their long names: they go before all others.
        environment: of the user: its SBATCH_* go before the script, and --export takes variables from it.
        arguments: of the script.
        image: what the pods run.
        claims: to mount, as NAME:/PATH.
        queue: of the job; None for the default one.
        number: what the program gets as SLURM_JOB_ID, and the name of the job ends with; None for a name as it is.
        jobs: asked for the names of the jobs that there are, where --dependency has a number; None where they are not
            known.
    """

    options: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    arguments: Sequence[str] = ()
    image: str = ""
    claims: Sequence[str] = ()
    queue: str | None = None
    number: int | None = None
    jobs: Callable[[], Iterable[str]] | None = None


@dataclass(frozen=True)
class _Size:
    """Of one pod, and how many there are. tasks: in each pod."""

    pods: int
    tasks: int
    cpus: int
    gpus: int


def converted(text: str, given: Submission) -> tuple[Manifest, list[str]]:
    """A batch script as a ScavengerJob, and a line for all that was left out or changes its meaning.

    Args:
        text: the script.
        given: what stands beside it.

    Raises:
        CliError: when an option cannot be read, or no image is named.
    """
    script = read_script(text)
    options = {**script.options, **of_environment(given.environment), **given.options}
    image = given.image or options.get("container-image", "") or options.get("container", "")
    if not image:
        remedy = "name one with --image, with #SBATCH --container=IMAGE or in SBATCH_CONTAINER"
        raise CliError("a batch script runs in an image, and none is named", remedy, ExitCode.USAGE)
    size = _size(options)
    tasks = _array(options, size)
    base = re.sub(r"[^a-z0-9-]+", "-", options.get("job-name", "job").lower()).strip("-") or "job"
    suffix = f"-{given.number}" if given.number is not None else ""
    name = base[: _LONGEST_NAME - len(suffix)].rstrip("-") + suffix
    place = _Place.of(options, given)
    lines = [*_left_out(options, script), *_changed(options, size, tasks)]
    one_task = _srun_is_the_program(script, size)
    lines += [*_of_the_body(script, one_task=one_task), *place.lines]
    command = _command(script, base, given.arguments, [_SRUN] if one_task else [])
    requests = _requests(options, size, lines)
    limit = minutes("--time", options["time"]) if "time" in options else 0
    variables = _variables(options, size, tasks, place, str(given.number or name)) | _exported(options, given, lines)
    spec: Manifest = {
        "queue": given.queue,
        "image": image,
        "command": [literal(word) for word in place.around(command, limit * 60 if tasks is not None else 0)],
        "env": [{"name": key, "value": value} for key, value in variables.items()],
        "resources": {"requests": requests},
        "parallelism": size.pods if size.pods > 1 else None,
        "array": tasks,
        "after": _after(options, given, lines),
        "persistentVolumeClaims": [mount("--pvc", one) for one in given.claims] or None,
        "activeDeadlineSeconds": limit * 60 if limit and tasks is None else None,
        "terminationGracePeriodSeconds": _grace(options, lines),
        "suspend": True if "hold" in options else None,
    }
    spec = {key: value for key, value in spec.items() if value is not None}
    return {"apiVersion": names.API_VERSION, "kind": "ScavengerJob", "metadata": {"name": name}, "spec": spec}, lines


def understood(job: Manifest) -> Iterator[str]:
    """What a job asks for, in the words of Slurm, a line each."""
    spec = job["spec"]
    asked = spec["resources"]["requests"]
    sizes = ", ".join(f"{amount} {name}" for name, amount in asked.items())
    pods = f"{spec['parallelism']} pods at once, each with " if "parallelism" in spec else ""
    yield f"resources: {pods}{sizes}"
    if tasks := spec.get("array"):
        number = len(numbers_of(tasks.get("tasks", 0), tasks.get("indexes", "")))
        most = f", at most {tasks['maxRunning']} at a time" if "maxRunning" in tasks else ""
        yield f"array: {number:,} tasks with the indexes {tasks.get('indexes', f'0-{number - 1}')}{most}"
    for one in spec.get("after", ()):
        until = "has completed" if one["when"] == "Completed" else "has completed or failed"
        yield f"dependency: it starts when {one['job']} {until}"
    if limit := spec.get("activeDeadlineSeconds"):
        yield f"time limit: {limit // 60} minutes, of all runs of the job together"


def _left_out(options: Mapping[str, str], script: Script) -> Iterator[str]:
    for name in options:
        if name not in _READ and name not in _WITHOUT_A_WORD:
            yield f"--{name}: left out: {_MEANS.get(name, 'there is nothing like it')}"
    for one in script.ignored:
        yield f"#SBATCH {one}: left out: it stands behind the first command, where Slurm ignores it, too"


def _changed(options: Mapping[str, str], size: _Size, tasks: Manifest | None) -> Iterator[str]:
    if size.pods > 1:
        yield (
            f"--nodes: the script runs in each of the {size.pods} pods, and not in the first alone; SLURM_NODEID and "
            "SCAVENGER_PEERS tell them apart"
        )
    elif size.tasks > 1:
        yield f"--ntasks: one pod has the cpu of all {size.tasks} tasks; the script starts them itself"
    if tasks is not None and "time" in options and minutes("--time", options["time"]):
        yield "--time: it ends each run of a task, with exit code 124, where the image has the program timeout"
    yield from _devices(options)


def _devices(options: Mapping[str, str]) -> Iterator[str]:
    for name in ("gres", "gpus", "gpus-per-node", "gpus-per-task"):
        parts = [part for part in options.get(name, "").split(",") if part and part != "none"]
        ours = [part for part in parts if name != "gres" or part.startswith("gpu")]
        if kinds := [kind for part in ours if (kind := _kind(part))]:
            yield f"--{name}: the kind {', '.join(kinds)} is left out: {_PLACE}"
        if others := [part for part in parts if part not in ours]:
            yield f"--{name}: {', '.join(others)} is left out: ask for a device of the nodes in resources"


def _kind(text: str) -> str:
    """`a100` of `gpu:a100:2` and `a100:2`."""
    words = text.partition("(")[0].split(":")
    return next((word for word in words if word not in ("gpu", "") and not word.isdecimal()), "")


def _of_the_body(script: Script, *, one_task: bool) -> Iterator[str]:
    text = _code(script)
    for program, means in _PROGRAMS.items():
        if program == "srun" and one_task:
            continue
        if re.search(rf"(^|[;&|(])\s*(exec\s+|time\s+)?{program}\b", text, re.MULTILINE):
            yield f"{program}: {means}"
    used = set(re.findall(r"\bSLURM_\w+", text))
    if others := sorted(used - set(_SET)):
        yield f"{', '.join(others)}: they are not set"


def _code(script: Script) -> str:
    """The lines of a script that are no comments."""
    return "\n".join(line for line in script.body if not line.lstrip().startswith("#"))


def _program(script: Script) -> str:
    """The name of the interpreter, without its folder and without env."""
    name = PurePosixPath(script.interpreter[0]).name
    if name == "env" and len(script.interpreter) > 1:
        words = [word for word in script.interpreter[1].split() if not word.startswith("-") and "=" not in word]
        name = PurePosixPath(words[0]).name if words else ""
    return name


def _srun_is_the_program(script: Script, size: _Size) -> bool:
    """Whether srun does no more than to start its program: the script is of a shell that looks for functions where it
    stands, and for one task. Files of its own for output, and several programs, are srun's work."""
    code = _code(script)
    here = len(re.findall(r"(?:^|[;&|({`!]|\b(?:time|then|else|do|if))[ \t]*srun[ \t]", code, re.MULTILINE))
    more = re.search(r"\bsrun\b[^\n;|&]*[ \t](-o|-e|-i|--output|--error|--input|--multi-prog|--het-group)\b", code)
    all_of_them = here == len(re.findall(r"(?<![\w.$/-])srun(?![\w.=/-])", code))
    one = size.pods == size.tasks == 1
    return one and bool(here) and all_of_them and more is None and bool(_SHELLS.fullmatch(_program(script)))


_VALUED: Final = "|".join([
    *(f"-{letter}" for letter in "AcDdGJLmNnpqtwxCT"),
    *(f"--{name}" for name, takes in OPTIONS.items() if takes is Takes.VALUE),
    *("--cpu-bind", "--mpi", "--accel-bind", "--relative", "--task-prolog", "--task-epilog", "--threads"),
])  # fmt: skip
"""Options of srun whose value is the next word."""
_SRUN: Final = (
    f"srun() {{ while [ $# -gt 0 ]; do case $1 in --) shift; break;; {_VALUED}) shift 2;; -*) shift;; *) break;; esac; "
    'done; "$@"; }'
)
"""srun of one task, as a function of a shell: without its options."""

_PROGRAMS: Final = {
    "srun": "it works where the image has it; a script for one task runs its program without it",
    "mpirun": "it starts ranks in its own pod alone; demo-apps/mpi shows how ranks in several pods find each other",
    "mpiexec": "it starts ranks in its own pod alone; demo-apps/mpi shows how ranks in several pods find each other",
    "module": "the image has the programs, and no modules; leave the line out where the image has no such command",
    "ml": "the image has the programs, and no modules; leave the line out where the image has no such command",
    "sbatch": "a job submits no other one; submit each of them",
    "scontrol": "there is no Slurm in the pod",
}


def _size(options: Mapping[str, str]) -> _Size:
    """Nodes, each of which becomes a pod, and what each has."""
    pods = count(options, "nodes", 1)
    tasks = count(options, "ntasks-per-node", -(-count(options, "ntasks", pods) // pods))
    of_node = options.get("gpus-per-node") or next(
        (part for part in options.get("gres", "").split(",") if part.startswith("gpu")), ""
    )
    whole, per_task = options.get("gpus", ""), options.get("gpus-per-task", "")
    found = gpus(of_node) or gpus(per_task) * tasks or -(-gpus(whole) // pods)
    cpus = count(options, "cpus-per-task", 1)
    if "cpus-per-gpu" in options and "cpus-per-task" not in options and found:
        return _Size(pods, tasks, count(options, "cpus-per-gpu", 1) * found, found)
    return _Size(pods, tasks, cpus * tasks, found)


def _array(options: Mapping[str, str], size: _Size) -> Manifest | None:
    if "array" not in options:
        return None
    if size.pods > 1:
        raise CliError("--array: each task is one pod", "leave out --nodes", ExitCode.USAGE)
    return array(options["array"])


def _requests(options: Mapping[str, str], size: _Size, lines: list[str]) -> Manifest:
    """Of one pod."""
    found: Manifest = {"cpu": str(size.cpus)}
    of_what = (("mem", 1), ("mem-per-cpu", size.cpus), ("mem-per-gpu", size.gpus))
    name, times = next(((name, times) for name, times in of_what if name in options), ("mem", 0))
    memory = mebibytes(f"--{name}", options[name]) * times if name in options else 0
    if memory:
        found["memory"] = f"{memory // 1024}Gi" if memory % 1024 == 0 else f"{memory}Mi"
    else:
        said = f"--{name}={options[name]}" if name in options else "--mem is missing"
        lines.append(f"{said}: the pod gets the memory that its namespace has as a default, and needs one")
    if size.gpus:
        found["nvidia.com/gpu"] = str(size.gpus)
    return found


def _grace(options: Mapping[str, str], lines: list[str]) -> int | None:
    """Seconds between SIGTERM and SIGKILL, by `--signal=[R][B:]SIGNAL[@SECONDS]`, whose default is 60."""
    if "signal" not in options:
        return None
    match = re.fullmatch(r"(?:[RB]+:)?(?:SIG)?([A-Z0-9]+)(?:@(\d+))?", options["signal"], re.IGNORECASE | re.ASCII)
    if match is None:
        raise CliError(f"--signal: {options['signal']} is no signal", "write it as B:TERM@120", ExitCode.USAGE)
    if match[1].upper() not in ("TERM", "15"):
        lines.append(f"--signal: the program gets SIGTERM in the place of {match[1].upper()}, before an interruption")
    return min(int(match[2] or 60), names.MAX_GRACE_SECONDS)


_NOT_FOLLOWED: Final = {
    "after": "it may start before that job",
    "afterburstbuffer": "there are no burst buffers",
    "singleton": "it may run beside another job of its name",
}
"""Kinds of --dependency that are left out, and what follows from that."""


def _after(options: Mapping[str, str], given: Submission, lines: list[str]) -> list[Manifest] | None:
    """`spec.after` of --dependency. Of a job that stands there twice, the stricter condition holds."""
    text = options.get("dependency", "")
    found: dict[str, str] = {}
    for one in dependencies(text) if text else ():
        if one.kind in _NOT_FOLLOWED:
            lines.append(f"--dependency: {one.kind} is left out: {_NOT_FOLLOWED[one.kind]}")
            continue
        if one.kind == "afternotok":
            raise CliError(
                "--dependency: a job that starts only when another one fails is not known here",
                "write afterany, and have the script look at what the other job left",
                ExitCode.USAGE,
            )
        name = _job_of_number(one.job, given) if one.job.isdecimal() else one.job
        if one.task or one.kind == "aftercorr":
            lines.append(f"--dependency: it waits for all tasks of {name}, and not for one of them")
        if found.get(name) != "Completed":
            found[name] = "Ended" if one.kind == "afterany" else "Completed"
    if "?" in text:
        lines.append("--dependency: it waits for all of these jobs, and not for one of them")
    return [{"job": name, "when": when} for name, when in found.items()] or None


def _job_of_number(number: str, given: Submission) -> str:
    """The name of the job that sbatch has given this number. Raises CliError."""
    ending = re.compile(rf".*-0*{int(number)}")
    found = [name for name in given.jobs() if ending.fullmatch(name)] if given.jobs is not None else []
    if len(found) == 1:
        return found[0]
    named = f"{len(found)} jobs have the number {number}" if found else f"no job with the number {number} is known"
    raise CliError(f"--dependency: {named}", "write the name of the job, as afterok:NAME", ExitCode.USAGE)


def _exported(options: Mapping[str, str], given: Submission, lines: list[str]) -> dict[str, str]:
    """The variables of --export. ALL, NONE and NIL give none: the environment is that of the image."""
    found = {}
    for part in options.get("export", "").split(","):
        name, sign, value = part.partition("=")
        if sign:
            found[name] = value
        elif name in given.environment and name not in ("ALL", "NONE", "NIL"):
            found[name] = given.environment[name]
        elif name not in ("", "ALL", "NONE", "NIL"):
            lines.append(f"--export: {name} is left out: it is not set where the job is submitted")
    return {name: literal(value) for name, value in found.items()}


_SET: Final = (
    *("SLURM_JOB_ID", "SLURM_JOBID", "SLURM_JOB_NAME", "SLURM_SUBMIT_DIR", "SLURM_CPUS_PER_TASK", "SLURM_NTASKS"),
    *("SLURM_NPROCS", "SLURM_CPUS_ON_NODE", "SLURM_NNODES", "SLURM_JOB_NUM_NODES", "SLURM_NODEID", "SLURM_LOCALID"),
    *("SLURM_PROCID", "SLURM_NTASKS_PER_NODE", "SLURM_TASKS_PER_NODE", "SLURM_RESTART_COUNT", "SLURM_ARRAY_JOB_ID"),
    *("SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT", "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_MAX"),
    *("SLURM_ARRAY_TASK_STEP", "SLURM_GPUS_ON_NODE"),
)
"""Variables that a pod has, the last of them where it is a task, or has GPUs."""


def _variables(
    options: Mapping[str, str], size: _Size, tasks: Manifest | None, place: _Place, number: str
) -> dict[str, str]:
    """What Slurm tells a program of its job; sbatch(1), OUTPUT ENVIRONMENT VARIABLES."""
    ntasks, index = str(size.tasks * size.pods), f"$({names.ENV_INDEX})"
    found = {
        **dict.fromkeys(("SLURM_JOB_ID", "SLURM_JOBID"), number),
        "SLURM_JOB_NAME": literal(options.get("job-name", "job")),
        "SLURM_SUBMIT_DIR": literal(place.directory or "."),
        "SLURM_CPUS_PER_TASK": str(-(-size.cpus // size.tasks)),
        **dict.fromkeys(("SLURM_NTASKS", "SLURM_NPROCS"), ntasks),
        "SLURM_CPUS_ON_NODE": str(size.cpus),
        **dict.fromkeys(("SLURM_NNODES", "SLURM_JOB_NUM_NODES"), str(size.pods)),
        **dict.fromkeys(("SLURM_NODEID", "SLURM_PROCID"), index),
        "SLURM_LOCALID": "0",
        **dict.fromkeys(("SLURM_NTASKS_PER_NODE", "SLURM_TASKS_PER_NODE"), str(size.tasks)),
    }
    if size.gpus:
        found["SLURM_GPUS_ON_NODE"] = str(size.gpus)
    found["SLURM_RESTART_COUNT"] = f"$({names.ENV_RESTARTS})"
    if tasks is None:
        return found
    numbers = numbers_of(tasks.get("tasks", 0), tasks.get("indexes", ""))
    return found | {
        "SLURM_ARRAY_JOB_ID": number,
        "SLURM_ARRAY_TASK_ID": f"$({names.ENV_TASK})",
        "SLURM_ARRAY_TASK_COUNT": str(len(numbers)),
        "SLURM_ARRAY_TASK_MIN": str(numbers[0]),
        "SLURM_ARRAY_TASK_MAX": str(numbers[len(numbers) - 1]),
        "SLURM_ARRAY_TASK_STEP": str(numbers[1] - numbers[0] if len(numbers) > 1 else 1),
    }


def _command(script: Script, name: str, arguments: Sequence[str], before: Sequence[str] = ()) -> list[str]:
    """The script as one word of a command: shells and Python run it from there, other interpreters from a file."""
    body, program = "\n".join([*before, *script.body]), _program(script)
    if _SHELLS.fullmatch(program):
        return [*script.interpreter, "-c", body, name, *arguments]
    if _PYTHON.fullmatch(program):
        return [*script.interpreter, "-c", body, *arguments]
    interpreter = shlex.join(script.interpreter)
    return ["/bin/sh", "-c", _FROM_A_FILE.format(interpreter=interpreter), body, *arguments]


# --- where it runs, and where its output goes ---

_PATTERN: Final = re.compile(r"%(\d*)([AaJjNnstuxb%])")
_STANDS_FOR: Final = {
    **{"A": "SLURM_ARRAY_JOB_ID", "a": "SLURM_ARRAY_TASK_ID", "j": "SLURM_JOB_ID", "J": "SLURM_JOB_ID"},
    **{
        "x": "SLURM_JOB_NAME",
        "n": "SLURM_NODEID",
        "t": "SLURM_PROCID",
        "N": "HOSTNAME",
        "u": "USER",
        "s": "SLURM_LOCALID",
    },
    "b": "SLURM_ARRAY_TASK_ID",
}


@dataclass(frozen=True)
class _Place:
    """The directory of the program, and files for its output; empty where the image and the logs of the pod decide."""

    directory: str
    output: str
    error: str
    lines: tuple[str, ...]

    @classmethod
    def of(cls, options: Mapping[str, str], given: Submission) -> _Place:
        """As options and mounted claims have it."""
        mounts = [PurePosixPath(mount("--pvc", one)["mountPath"]) for one in given.claims]
        directory = options.get("chdir") or options.get("container-workdir") or (str(mounts[0]) if mounts else "")
        files, lines = {}, []
        for name in ("output", "error"):
            path = PurePosixPath(directory or "/") / options.get(name, "")
            lasting = any(path.is_relative_to(one) for one in mounts)
            if name in options and lasting:
                files[name] = str(path)
                lines.append(f"--{name}: the output goes to {path}, and kubectl sj logs does not show it")
            elif name in options:
                lines.append(
                    f"--{name}: left out: kubectl sj logs shows it; for a file, mount a claim: --pvc NAME:/PATH"
                )
        return cls(directory, files.get("output", ""), files.get("error", ""), tuple(lines))

    def around(self, command: list[str], limit: int) -> list[str]:
        """The command, in its directory and with its output where it belongs. It stays process 1, or its timeout does.

        limit: seconds of a run of a task, which is no field of an array; 0 for none.
        """
        steps = [f"cd {shlex.quote(self.directory)} &&"] if self.directory else []
        redirected = [f">>{_shell(self.output)}"] if self.output else []
        if self.error:
            redirected.append(f"2>>{_shell(self.error)}")
        elif self.output:
            redirected.append("2>&1")
        if limit:
            timed = f'timeout -k {_AFTER_TERM} {limit} "$@"'
            steps.append(f"{{ command -v timeout >/dev/null && set -- {timed}; :; }} &&")
        if not steps and not redirected:
            return command
        return ["/bin/sh", "-c", " ".join([*steps, 'exec "$@"', *redirected]), "sh", *command]


def _shell(path: str) -> str:
    """A path of --output for a shell, with variables in the place of `%j` and the like."""
    parts, at = [], 0
    for found in _PATTERN.finditer(path):
        parts.append(shlex.quote(path[at : found.start()]) if found.start() > at else "")
        at = found.end()
        width, kind = found.groups()
        value = f'"${_STANDS_FOR[kind]}"' if kind != "%" else "%"
        if width and kind in "Aajnts":
            value = f'"$(printf %0{min(int(width), 10)}d {value})"'
        parts.append(value)
    return "".join(parts) + (shlex.quote(path[at:]) if at < len(path) else "")
