"""The command line of programs that measure water."""

from __future__ import annotations

import argparse
import fcntl
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from scavenger_checkpoint import Place, StopRequest

from scavenger_water.configuration import Configuration
from scavenger_water.ends import EXIT_ALREADY_RUNNING
from scavenger_water.work import Measured, Work

DEFAULT_MINUTES: Final = 15.0


def main(
    program: str,
    models: Sequence[str],
    compute: Callable[[Work, Configuration], Measured],
    words: Sequence[str] | None = None,
    *,
    ranks: str,
    threads: str,
) -> int:
    """Run the simulation in a folder, or go on with it; the exit code.

    `compute`: as Work.execute has it. `ranks` and `threads`: what these two flags are for this program.
    """
    place = Place.read(os.environ)
    parser = argparse.ArgumentParser(prog=program, description="Density and self-diffusion of water.")
    parser.add_argument("--dir", type=Path, default=Path("/data"), help="work folder, with configuration.json (/data)")
    parser.add_argument("--configuration", type=Path, help="(configuration.json in the work folder)")
    parser.add_argument("--ranks", type=_positive, default=1, help=f"{ranks} (1)")
    parser.add_argument("--threads", type=_positive, default=1, help=f"{threads} (1)")
    parser.add_argument(
        "--checkpoint-minutes",
        type=float,
        default=place.checkpoint_interval / 120 if place.checkpoint_interval else DEFAULT_MINUTES,
        help="between two checkpoints (half of SCAVENGER_CHECKPOINT_INTERVAL, else 15)",
    )
    options = parser.parse_args(words)
    stop = StopRequest()
    options.dir.mkdir(parents=True, exist_ok=True)
    held = os.open(options.dir / "lock", os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.stderr.write(f"another process works in {options.dir}\n")
        return EXIT_ALREADY_RUNNING
    folder = options.dir.absolute()
    work = Work(
        folder=folder,
        configuration=options.configuration or folder / "configuration.json",
        models=models,
        ranks=options.ranks,
        threads=options.threads,
        checkpoint_minutes=options.checkpoint_minutes,
        stop=stop,
        held=held,
    )
    return work.execute(compute)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number
