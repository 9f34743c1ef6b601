"""Stands for GROMACS: `gmx` that computes nothing, and ends as `plan.json` in the work folder says.

The plan is a list of what the starts of mdrun do, one after the other: the step it gets to, and what it does there.
Programs that are named in the variables KILLED and BROKEN are killed, or fail.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from types import FrameType


def main(words: list[str]) -> int:
    """Run one program of GROMACS; the exit code."""
    tool, options = words[1], words[2:]

    def option(name: str) -> str:
        return options[options.index(name) + 1]

    said = Path("../said.jsonl")
    with said.open("a") as file:
        file.write(json.dumps(words[1:]) + "\n")
    if tool in os.environ.get("KILLED", "").split():
        os.kill(os.getpid(), signal.SIGKILL)
    if tool in os.environ.get("BROKEN", "").split():
        say("Program: x\n\nFatal error:\nit is\nbroken\n\nFor more information")
        return 1
    if tool == "solvate":
        atoms = [f"{n:5d}SOL     OW{n:5d}" for n in range(int(option("-maxsol")))]
        Path(option("-o")).write_text("\n".join(["water", str(len(atoms)), *atoms, "box", ""]))
    elif tool in ("grompp", "trjconv"):
        Path(option("-o")).write_text("made")
    elif tool == "dump":
        return dump(Path(option("-cp")).read_text())
    elif tool == "energy":
        say("Density    998.0   1.5   5.1   -3.1  (kg/m^3)")
    elif tool == "msd":
        Path(option("-o")).write_text('@ s0 legend "D[ name OW] = 0.25 (+/- 0.03) (1e-5 cm^2/s)"\n')
    elif tool == "mdrun" and "-deffnm" not in options:
        return mdrun("-cpi" in options)
    return 0


def say(text: str, end: str = "\n") -> None:
    """At once: the wrapper reads along."""
    sys.stdout.write(text + end)
    sys.stdout.flush()


def dump(content: str) -> int:
    """A checkpoint is its step and a full stop; a kernel without memory is one whose step is -9."""
    if content == "-9.":
        os.kill(os.getpid(), signal.SIGKILL)
    say(f"step = {content[:-1]}" if content.endswith(".") else "Fatal error:\ntorn\n\nFor more information")
    return 0 if content.endswith(".") else 1


def mdrun(goes_on: bool) -> int:
    """One start: from the checkpoint to where the plan says."""
    plan = json.loads(Path("../plan.json").read_text())
    begun = int(Path("state.cpt").read_text()[:-1]) if goes_on else 0
    reached, then = plan.pop(0)
    Path("../plan.json").write_text(json.dumps(plan))

    def save(number: int | None = None, frame: FrameType | None = None) -> None:
        Path("new.cpt").write_text(f"{reached}.")
        if Path("state.cpt").exists():
            Path("state.cpt").replace("state_prev.cpt")
        Path("new.cpt").replace("state.cpt")
        if number is not None:
            say("Received the TERM signal, stopping within 10 steps")
            os._exit(1)

    signal.signal(signal.SIGTERM, save)
    say(f"step {begun}, remaining wall clock time: 2 s\rstep {reached}, remaining", end="\r")
    while then == "wait":
        signal.pause()
    if then == "finish":
        save()
        return 0
    if then == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    say(then)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
