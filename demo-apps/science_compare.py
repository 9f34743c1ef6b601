"""The same seeds of water twice: uninterrupted, and interrupted again and again. Are the results the same?

    python demo-apps/science_compare.py [--seeds N] [--steps N] [--interruptions N] [--data FILE]

Runs demo-apps/gromacs as processes, without a cluster: a signal is all that reaches a program of an interruption. It
comes at a step that is drawn beforehand: SIGTERM, or SIGKILL to all of its processes each fourth time. Prints density
and self-diffusion of both groups with their errors, Welch's test of the difference, and the steps that were made more
than once. Exit code 0: all runs are done, and neither quantity differs (p of 0.01 or more).
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from demo_stage import DemoError, console, say
from scavenger_checkpoint.contract import ENV_MESSAGE_PATH
from scavenger_cluster import stack
from scavenger_cluster.shell import find_program
from scavenger_testing.interruptions import is_at
from scavenger_tuner.report import as_table
from science_statistics import Comparison, Mean, compare, mean

LEAST_P: Final = 0.01
KILLED: Final = 4
"""Each of so many interruptions is a SIGKILL."""
QUANTITIES: Final = {"density": "density, kg/m³", "diffusion": "diffusion, 10⁻⁵ cm²/s"}


@dataclass(frozen=True, slots=True)
class Done:
    """A run at its end. signals: those it was sent. lost: steps that had to be made again after each of them."""

    seed: int
    density: float
    diffusion: float
    steps: int
    recomputed_steps: int
    signals: tuple[str, ...]
    lost: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """What all runs have in common. minutes: between two checkpoints."""

    folder: Path
    molecules: int
    steps: int
    interruptions: int
    minutes: float

    def moments(self, seed: int) -> list[int]:
        """The steps at which that seed is interrupted, from a twentieth of the run to nine tenths."""
        return sorted(random.Random(seed).sample(range(self.steps // 20, self.steps * 9 // 10), self.interruptions))


def perform(plan: Plan, seed: int, interrupted: bool) -> Done:
    """Run a seed until it is done. Raises DemoError where it fails."""
    folder = plan.folder / f"{seed}-{'interrupted' if interrupted else 'whole'}"
    folder.mkdir()
    configuration = {
        "model": "spce",
        "molecules": plan.molecules,
        "temperature": 298.15,
        "seed": seed,
        "time_step_fs": 2,
        "steps": plan.steps,
        "output_interval": 50,
    }
    (folder / "configuration.json").write_text(json.dumps(configuration))
    sent: list[str] = []
    for moment in plan.moments(seed) if interrupted else []:
        number = signal.SIGKILL if len(sent) % KILLED == KILLED - 1 else signal.SIGTERM
        if not interrupt(folder, plan, start=len(sent) + 1, step=moment, number=number):
            break  # it was done before
        sent.append(number.name)
    program = begin(folder, plan)
    if program.wait() != 0:
        raise DemoError(f"{folder.name}: {(folder / 'log').read_text()[-500:]}")
    done = read(folder, seed, sent)
    say(f"seed {seed}: density {done.density:.1f}, diffusion {done.diffusion:.2f}, {len(sent)} interruptions")
    return done


def begin(folder: Path, plan: Plan) -> subprocess.Popen[bytes]:
    """Start the wrapper of GROMACS, with processes of its own group."""
    command = [sys.executable, "-S", "-m", "scavenger_gromacs", f"--dir={folder}"]
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            [*command, f"--checkpoint-minutes={plan.minutes:g}"],
            env={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": stack.python_path("gromacs"),
                ENV_MESSAGE_PATH: str(folder / "message"),
            },
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def interrupt(folder: Path, plan: Plan, *, start: int, step: int, number: signal.Signals) -> bool:
    """Start it, and send it a signal at a step; whether it came to that. SIGTERM is for its first process alone, as in
    a container."""
    program = begin(folder, plan)
    try:
        while not is_at(folder, start=start, step=step):
            if program.poll() is not None:
                return False
            time.sleep(0.02)
    finally:
        if number is signal.SIGTERM and program.poll() is None:
            program.send_signal(number)
        elif program.poll() is None:
            os.killpg(program.pid, signal.SIGKILL)
    return program.wait() != 0


def read(folder: Path, seed: int, sent: Sequence[str]) -> Done:
    """What a run has left in its folder."""
    result: dict[str, Any] = json.loads((folder / "result.json").read_text())
    starts = [json.loads(line) for line in (folder / "run" / "starts.jsonl").read_text().splitlines()]
    lost = [max(0, old["reached"] - new["first"]) for old, new in itertools.pairwise(starts)]
    lost += [0] * (len(sent) - len(lost))  # told to go when all steps were made, it begins none
    return Done(
        seed=seed,
        density=float(result["density"]["value"]),
        diffusion=float(result["diffusion"]["value"]),
        steps=int(result["steps"]),
        recomputed_steps=int(result["recomputed_steps"]),
        signals=tuple(sent),
        lost=tuple(lost),
    )


def compared(whole: Sequence[Done], interrupted: Sequence[Done]) -> dict[str, Comparison]:
    """Both groups, by quantity."""
    return {
        name: compare([getattr(run, name) for run in whole], [getattr(run, name) for run in interrupted])
        for name in QUANTITIES
    }


def paired(whole: Sequence[Done], interrupted: Sequence[Done], name: str) -> Mean:
    """The difference between the two runs of a seed, on average. Both are the same run until their bits part: its error
    is the smaller one."""
    return mean([getattr(b, name) - getattr(a, name) for a, b in zip(whole, interrupted, strict=True)])


def show(whole: Sequence[Done], interrupted: Sequence[Done]) -> dict[str, Comparison]:
    """Print what was found, and return it."""
    found = compared(whole, interrupted)
    columns: dict[str, list[object]] = {
        "": list(QUANTITIES.values()),
        "uninterrupted": [each.first for each in found.values()],
        "interrupted": [each.second for each in found.values()],
        "difference": [each.difference for each in found.values()],
        "seed by seed": [paired(whole, interrupted, name) for name in found],
        "t": [f"{each.t:.2f}" for each in found.values()],
        "degrees of freedom": [f"{each.freedom:.1f}" for each in found.values()],
        "p": [f"{each.p:.2f}" for each in found.values()],
    }
    console.print(as_table({name: [str(cell) for cell in cells] for name, cells in columns.items()}), markup=False)
    same = sum(
        all(getattr(a, name) == getattr(b, name) for name in found) for a, b in zip(whole, interrupted, strict=True)
    )
    say(f"{same} of {len(whole)} seeds came to the same numbers to the last digit")
    steps = sum(run.steps for run in interrupted)
    for name in ("SIGTERM", "SIGKILL"):
        lost = [n for run in interrupted for sent, n in zip(run.signals, run.lost, strict=True) if sent == name]
        say(f"{name}: {len(lost)} times, {sum(lost)} steps of {steps} made again ({100 * sum(lost) / steps:.2f} %)")
    return found


def main() -> int:
    """Run both groups and compare them; 0 where they agree."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=8, help="run twice each (default: 8)")
    parser.add_argument("--molecules", type=int, default=216, help="of SPC/E water (default: 216)")
    parser.add_argument("--steps", type=int, default=8_000, help="of 2 fs, in each run (default: 8000)")
    parser.add_argument("--interruptions", type=int, default=7, help="of each seed (default: 7)")
    parser.add_argument(
        "--checkpoint-minutes", type=float, default=0.05, help="what SIGKILL goes back to (default: 0.05)"
    )
    parser.add_argument("--data", type=Path, help="keep all runs here, as JSON")
    given = parser.parse_args()
    if find_program("gmx") is None:
        say("this needs GROMACS; on Debian: apt-get install gromacs", "red")
        return 1
    try:
        with tempfile.TemporaryDirectory(prefix="scavenger-compare-") as folder:
            plan = Plan(Path(folder), given.molecules, given.steps, given.interruptions, given.checkpoint_minutes)
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                work = [(seed, way) for seed in range(1, given.seeds + 1) for way in (False, True)]
                done = list(pool.map(lambda run: perform(plan, *run), work))
    except DemoError as error:
        say(f"the comparison failed: {error}", "red")
        return 1
    whole, interrupted = done[::2], done[1::2]
    if given.data is not None:
        runs = {"uninterrupted": [asdict(run) for run in whole], "interrupted": [asdict(run) for run in interrupted]}
        given.data.write_text(json.dumps(runs, indent=1) + "\n")
    return 0 if all(each.p >= LEAST_P for each in show(whole, interrupted).values()) else 1


if __name__ == "__main__":
    sys.exit(main())
