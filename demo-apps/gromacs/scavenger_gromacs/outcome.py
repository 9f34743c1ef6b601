"""What the end of `gmx mdrun` means, and what the tools of GROMACS say. Pure."""

from __future__ import annotations

import enum
import math
import re
import signal
from dataclasses import dataclass
from typing import Final

from scavenger_water.ends import Reason
from scavenger_water.quantities import Quantity, quantity


class End(enum.Enum):
    """How a start of mdrun ended."""

    FINISHED = "finished"
    SAVED = "saved"
    """Before the last step, with a checkpoint."""
    REFUSED = "refused"
    """The checkpoint, or the files to go on with, are not as mdrun left them."""
    FAILED = "failed"


@dataclass(frozen=True)
class Outcome:
    """The end of one start of mdrun; `reason` and `message` where it failed."""

    end: End
    reason: Reason | None = None
    message: str = ""


_UNSTABLE: Final = (
    "LINCS WARNING",
    "Too many LINCS warnings",
    "can not be settled",
    "cannot be settled",
    "blowing up",
    "is not finite",
    "is inf or nan",
    "potential energy is nan",
    "major instabilities",
    "moved further than",
    "Range checking error",
    "Pressure scaling more than 1%",
    "not well equilibrated",
    "box size has changed too much",
    "longer than half the shortest box vector",
)
_CRASHES: Final = (-signal.SIGSEGV, -signal.SIGFPE)
"""Where an atom is nowhere, mdrun finds that out and says so, or looks it up in a grid and crashes. Which of them
depends on the rounding, and so on the processor (https://www.gromacs.org/Documentation/Terminology/Blowing_Up)."""
_NO_MEMORY: Final = ("Not enough memory", "Cannot allocate memory", "std::bad_alloc", "Out of memory")
_NO_DECOMPOSITION: Final = (
    "There is no domain decomposition for",
    "thread-MPI ranks requested",
    "OpenMP threads were requested",
    "GMX_OPENMP_MAX_THREADS",
    "PME grid lines per rank",
)
_REFUSED: Final = (
    "Cannot do appending",
    "Cannot restart with appending",
    "Checkpoint file corrupted/truncated",
    "checkpoint file is empty/corrupted",
    "checkpoint file or its reading is broken",
    "Some output files listed in the checkpoint file",
    "magic number mismatch",
)


def judge(
    code: int, output: str, *, step: int | None, steps: int, began: int, stopped: bool, out_of_time: bool
) -> Outcome:
    """What an end of mdrun means. Its exit code alone does not say: with a signal it is 1, with -maxh 0.

    `step`: of the checkpoint that is there now; None where none is whole. `began`: the step it started from.
    `stopped`: it was told to end. `out_of_time`: the time that all starts may take is over.
    """
    if code == 0 and step is not None and step >= steps:
        return Outcome(End.FINISHED)
    if stopped or (code in (0, 1) and "Received the TERM signal" in output):
        return Outcome(End.SAVED)
    if out_of_time and code == 0:
        return Outcome(End.FAILED, Reason.WALL_TIME, f"step {step or 0} of {steps} when its time was over")
    if code == -signal.SIGKILL or any(words in output for words in _NO_MEMORY):
        return Outcome(End.FAILED, Reason.OUT_OF_MEMORY, _last_words(output) or "mdrun was killed by the kernel")
    error = fatal_error(output)
    for reason, signs, where in (
        (Reason.UNSTABLE, _UNSTABLE, output),
        (Reason.DECOMPOSITION, _NO_DECOMPOSITION, error),
    ):
        if any(sign in where for sign in signs):
            return Outcome(End.FAILED, reason, error or _line_of(output, signs))
    if code in _CRASHES and (made := steps_seen(output)):
        words = f"mdrun crashed ({signal.Signals(-code).name}) after step {made[-1]}"
        return Outcome(End.FAILED, Reason.UNSTABLE, words)
    if began and any(sign in error for sign in _REFUSED):
        return Outcome(End.REFUSED, message=error)
    return Outcome(End.FAILED, Reason.ERROR, error or f"mdrun ended with {code}: {_last_words(output)}")


def fatal_error(output: str) -> str:
    """The error that a program of GROMACS ends with, on one line; empty where there is none."""
    found = re.search(r"^Program: .*?\n\n[^\n]+:\n(.+?)\n\s*\nFor more information", output, re.MULTILINE | re.DOTALL)
    return " ".join(found.group(1).split()) if found else ""


def _line_of(output: str, signs: tuple[str, ...]) -> str:
    return next((line.strip() for line in output.splitlines() if any(sign in line for sign in signs)), "")


def _last_words(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def steps_seen(chunk: str) -> list[int]:
    """The steps that `mdrun -v` says it is at."""
    return [int(found) for found in re.findall(r"\bstep (\d+)[,. ]", chunk)]


def checkpoint_step(dump: str) -> int | None:
    """The step of a checkpoint, from `gmx dump -cp`; None where it says none."""
    found = re.search(r"^step = (\d+)$", dump, re.MULTILINE)
    return int(found.group(1)) if found else None


def density(energy: str) -> Quantity:
    """From the output of `gmx energy`. Raises NotFiniteError, and ValueError where it is not there."""
    found = re.search(r"^Density\s+(\S+)\s+(\S+)\s+\S+\s+\S+\s+\(kg/m\^3\)", energy, re.MULTILINE)
    if found is None:
        raise ValueError("gmx energy told no density")
    return _quantity(found.group(1), found.group(2), 1.0, "kg/m^3")


def diffusion(xvg: str, frame_ps: float) -> Quantity:
    """From the file that `gmx msd` writes for a trajectory whose frames are said to be 1 ps apart.

    `frame_ps`: what they really are apart. Raises NotFiniteError, and ValueError where there is none.
    """
    found = re.search(r"D\[[^\]]*\] = (\S+) \(\+/- (\S+)\) \((1e-5|1e5) cm\^2/s\)", xvg)
    if found is None:
        raise ValueError("gmx msd told no diffusion coefficient")
    return _quantity(found.group(1), found.group(2), 1 / frame_ps, "1e-5 cm^2/s")


def _quantity(value: str, error: str, factor: float, unit: str) -> Quantity:
    try:
        numbers = [float(value) * factor, float(error) * factor]
    except ValueError:  # gmx energy writes -- where there is too little to estimate an error from
        numbers = [float(value) * factor, math.nan]
    return quantity(numbers[0], numbers[1], unit)
