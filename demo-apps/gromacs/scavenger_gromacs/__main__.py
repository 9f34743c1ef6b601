"""The command line, and the entry point of the image: `python3 -m scavenger_gromacs`."""

from __future__ import annotations

import argparse
import fcntl
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from scavenger_checkpoint import Place, StopRequest

from scavenger_gromacs.run import Run

EXIT_ALREADY_RUNNING = 75  # EX_TEMPFAIL
DEFAULT_MINUTES = 15.0


def main(words: Sequence[str] | None = None) -> int:
    """Run the simulation in a folder, or go on with it; the exit code."""
    place = Place.read(os.environ)
    parser = argparse.ArgumentParser(prog="scavenger_gromacs", description=__doc__)
    parser.add_argument("--dir", type=Path, default=Path("/data"), help="work folder, with configuration.json (/data)")
    parser.add_argument("--configuration", type=Path, help="(configuration.json in the work folder)")
    parser.add_argument("--ranks", type=_positive, default=1, help="thread-MPI ranks of mdrun (1)")
    parser.add_argument("--threads", type=_positive, default=1, help="OpenMP threads of each (1)")
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
    run = Run(
        folder=folder,
        configuration=options.configuration or folder / "configuration.json",
        ranks=options.ranks,
        threads=options.threads,
        checkpoint_minutes=options.checkpoint_minutes,
        stop=stop,
        held=held,
    )
    return run.execute()


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


if __name__ == "__main__":
    sys.exit(main())
