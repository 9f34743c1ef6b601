"""240 batch scripts of our own making, with the features of public ones in the proportions that were counted there.

Counted in 20,990 public scripts. Which script has what follows from its number: it is the same every time. `Wanted`
says what has to come out, by the manual of sbatch and not by the code under test.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

SIZE: Final = 240
SHARES: Final = {"modules": 55, "srun": 26, "variables": 46, "array": 30, "gpus": 20, "time": 85, "memory": 70}
"""Percent of the scripts that have it."""
SHARES_MORE: Final = {"mail": 30, "partition": 60, "output": 65, "nodes": 8, "tasks": 10, "python": 3, "late": 2}
ARRAYS: Final = {"from 0": 34, "from 1": 45, "lists and steps": 18, "one": 3}
"""Percent of the arrays."""
ALL_SHARES: Final = {**SHARES, **SHARES_MORE}
TIMES: Final = {
    "30": 1800,
    "90:30": 5460,
    "12:00:00": 43200,
    "2-0": 172800,
    "1-12:30": 131400,
    "7-00:00:00": 604800,
    "0": None,
    "UNLIMITED": None,
}
"""Seconds of a limit, which counts whole minutes."""
MEMORY: Final = {"4000": "4000Mi", "16G": "16Gi", "500M": "500Mi", "1T": "1024Gi", "2GB": "2Gi", "3000000K": "2930Mi"}
LISTS: Final[dict[str, dict[str, Any]]] = {
    "0-99:3": {"indexes": "0-99:3"},
    "1,5,9-12": {"indexes": "1,5,9-12"},
    "3,1,2": {"indexes": "1-3"},
    "10-20:5%2": {"indexes": "10-20:5", "maxRunning": 2},
}


@dataclass
class Wanted:
    """What has to come out of a script.

    Attributes:
        pods: `parallelism`.
        requests: of a pod.
        array: `spec.array`; None for none.
        deadline: seconds; None for none.
        interpreter: the first words of the command.
        told: what lines have to begin with; the meaning is the same where none has to.
        modules: the script needs the modules of a cluster.
    """

    pods: int = 1
    requests: dict[str, str] = field(default_factory=lambda: {"cpu": "1"})
    array: dict[str, Any] | None = None
    deadline: int | None = None
    interpreter: tuple[str, ...] = ("/bin/bash", "-c")
    told: list[str] = field(default_factory=list)
    modules: bool = False


HARMLESS: Final = (
    "--partition",
    "--mail-type",
    "--output",
    "--mem is missing",
    "--ntasks",
    "#SBATCH --cpus-per-task=64",
    "--time",
)
"""Told, and nothing of what the program computes changes: the queue, mails, where the output is read, memory by a
default as in Slurm, cpu of several tasks in one pod, an option that Slurm ignores, and who ends a task in time."""


def has(number: int, feature: str) -> bool:
    """Whether this script has it. Each feature begins elsewhere and goes round by its own stride."""
    place = list(ALL_SHARES).index(feature)
    stride = (7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 49, 53)[place]
    return (number * stride + 17 * place) % SIZE < round(ALL_SHARES[feature] * SIZE / 100)


def kind_of_array(number: int) -> str:
    """What the indexes of its array are like; the arrays count from 0 on, and each kind has its share."""
    arrays = [one for one in range(SIZE) if has(one, "array")]
    place = 100 * arrays.index(number) / len(arrays)
    for kind, share in ARRAYS.items():
        if place < share:
            return kind
        place -= share
    return "one"


def scripts() -> list[tuple[str, Wanted]]:
    """All of them, with what is wanted."""
    return [_script(number) for number in range(SIZE)]


def _script(number: int) -> tuple[str, Wanted]:
    wanted, options = Wanted(), [f"--job-name=work_{number}"]
    _size(number, options, wanted)
    if has(number, "time"):
        text = list(TIMES)[number % len(TIMES)]
        options.append(f"-t {text}" if number % 2 else f"--time={text}")
        wanted.deadline = TIMES[text] if wanted.array is None else None
        wanted.told += ["--time"] if wanted.array is not None and TIMES[text] else []
    _beside(number, options, wanted)
    body = _body(number, wanted)
    late = ["#SBATCH --cpus-per-task=64"] if has(number, "late") else []
    wanted.told += ["#SBATCH --cpus-per-task=64"] if late else []
    if "--time" in wanted.told:
        wanted.interpreter = ("/bin/sh", "-c")
    first = "#!/usr/bin/env python3" if has(number, "python") else "#!/bin/bash"
    return "\n".join([first, "", *(f"#SBATCH {one}" for one in options), "# what it does", *body, *late]), wanted


def _size(number: int, options: list[str], wanted: Wanted) -> None:
    cpus = 1 + number % 8
    options.append(f"-c{cpus}" if number % 3 else f"--cpus-per-task {cpus}")
    wanted.requests["cpu"] = str(cpus)
    array = has(number, "array")
    if has(number, "nodes") and not array:
        options += ["--nodes=2", "--ntasks-per-node=1"]
        wanted.pods = 2
        wanted.told.append("--nodes")
    elif has(number, "tasks"):
        options.append("-n 4")
        wanted.requests["cpu"] = str(4 * cpus)
        wanted.told.append("--ntasks")
    if has(number, "memory"):
        text = list(MEMORY)[number % len(MEMORY)]
        options.append(f"--mem={text}")
        wanted.requests["memory"] = MEMORY[text]
    else:
        wanted.told.append("--mem is missing")
    if has(number, "gpus"):
        options.append(("--gres=gpu:2", "--gpus-per-node=2", "--gpus-per-node=2")[number % 3])
        wanted.requests["nvidia.com/gpu"] = "2"
    if array:
        text, wanted.array = _array(number)
        options.append(f"--array={text}")


def _array(number: int) -> tuple[str, dict[str, Any]]:
    kind, size = kind_of_array(number), 2 + number % 50
    if kind == "from 0":
        return f"0-{size - 1}", {"tasks": size}
    if kind == "from 1":
        return f"1-{size}%4", {"indexes": f"1-{size}", "maxRunning": 4}
    if kind == "one":
        return "7", {"indexes": "7"}
    text = list(LISTS)[number % len(LISTS)]
    return text, LISTS[text]


def _beside(number: int, options: list[str], wanted: Wanted) -> None:
    for feature, text in (
        ("mail", "--mail-type=END"),
        ("partition", "-p long"),
        ("output", "--output=logs/%x-%j.out"),
    ):
        if has(number, feature):
            options.append(text)
            wanted.told.append({"mail": "--mail-type", "partition": "--partition", "output": "--output"}[feature])


def _body(number: int, wanted: Wanted) -> list[str]:
    if has(number, "python"):
        wanted.interpreter = ("/usr/bin/env", "python3", "-c")
        return ["import os", "print(os.environ.get('SLURM_JOB_ID'))"]
    index = "$SLURM_ARRAY_TASK_ID" if wanted.array is not None else "$SLURM_JOB_ID"
    words = f"./work --threads $SLURM_CPUS_PER_TASK --of {index}" if has(number, "variables") else "./work"
    lines = ["set -e", f"srun {words}" if has(number, "srun") else words]
    if has(number, "srun") and (wanted.pods > 1 or "--ntasks" in wanted.told):
        wanted.told.append("srun")
    if has(number, "modules"):
        lines.insert(1, "module load gcc/12 openmpi")
        wanted.told.append("module")
        wanted.modules = True
    return lines
