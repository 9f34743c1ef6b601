"""The heat equation on a square, by explicit finite differences: an MPI program whose every bit is known.

Each rank has some rows of the grid, and exchanges the outermost with its neighbours before each step. The boundary is
kept at 0. It begins with two modes of the grid, which keep their shape and shrink by a known factor in each step: so
the result is compared with the closed form. What a point becomes does not depend on who computes it: the result is the
same to the last bit on any number of ranks, and a checkpoint of four ranks can be gone on with by two.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
from mpi4py import MPI
from scavenger_checkpoint import EXIT_SAVED, Place, StopRequest, Store, report_checkpoint, write_atomically

Field = npt.NDArray[np.float64]

RATIO: Final = 0.2
"""Diffusivity times time step, over the square of the distance between two points; stable up to a quarter."""
MODES: Final = ((1.0, 1, 1), (0.5, 3, 2))
"""Amplitude, and half waves along x and y."""
LOOK: Final = 10
"""Steps between two looks at whether to save or to end, on which all ranks agree."""
EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2


def exact(grid: int, step: int) -> Field:
    """The solution of the difference equation after `step` steps, at the inner points of a grid of that size."""
    points = np.arange(1, grid + 1) / (grid + 1)
    field = np.zeros((grid, grid))
    for amplitude, along_x, along_y in MODES:
        sines = (math.sin(n * math.pi / (2 * (grid + 1))) ** 2 for n in (along_x, along_y))
        shrunk = (1 - 4 * RATIO * sum(sines)) ** step
        field += amplitude * shrunk * np.outer(np.sin(along_x * np.pi * points), np.sin(along_y * np.pi * points))
    return field


def rows_of(grid: int, rank: int, ranks: int) -> tuple[int, int]:
    """The first of a rank's rows, and the first of the next rank's."""
    return grid * rank // ranks, grid * (rank + 1) // ranks


class Heat:
    """A rank's part of the grid."""

    def __init__(self, grid: int) -> None:
        """Begin with the sum of the modes. `grid`: inner points along each side."""
        self._ranks = MPI.COMM_WORLD
        self.grid = grid
        self.step = 0
        self._take(exact(grid, 0))

    def _take(self, field: Field) -> None:
        first, end = rows_of(self.grid, self._ranks.rank, self._ranks.size)
        self._field = np.zeros((end - first + 2, self.grid + 2))
        self._field[1:-1, 1:-1] = field[first:end]

    def advance(self) -> None:
        """Make a step."""
        old, ranks = self._field, self._ranks
        above = ranks.rank - 1 if ranks.rank > 0 else MPI.PROC_NULL
        below = ranks.rank + 1 if ranks.rank + 1 < ranks.size else MPI.PROC_NULL
        ranks.Sendrecv(old[1], above, recvbuf=old[-1], source=below)
        ranks.Sendrecv(old[-2], below, recvbuf=old[0], source=above)
        inner = old[1:-1, 1:-1]
        around = old[:-2, 1:-1] + old[2:, 1:-1] + old[1:-1, :-2] + old[1:-1, 2:]
        self._field[1:-1, 1:-1] = inner + RATIO * (around - 4 * inner)
        self.step += 1

    def whole(self) -> Field | None:
        """All of the grid in rank 0, None in the others; each rank must call it."""
        parts = self._ranks.gather(self._field[1:-1, 1:-1].copy())
        return np.concatenate(parts) if parts is not None else None

    def encode(self) -> bytes:
        """The state; rank 0's counts. Each rank must call it."""
        field = self.whole()
        return json.dumps([self.grid, self.step]).encode() + b"\n" + (field.tobytes() if field is not None else b"")

    def decode(self, content: bytes) -> None:
        """Go on from a state. Raises ValueError where it is one of another grid."""
        head, _, values = content.partition(b"\n")
        grid, step = json.loads(head)
        if grid != self.grid:
            raise ValueError(f"the checkpoint is one of a grid of {grid}, and not {self.grid}")
        self.step = step
        self._take(np.frombuffer(values).reshape(grid, grid))


class Run:
    """One start of one rank."""

    def __init__(self, options: argparse.Namespace, stop: StopRequest) -> None:
        """Begin; `execute` goes on from the checkpoint."""
        self._options = options
        self._stop = stop
        self._ranks = MPI.COMM_WORLD
        self._first = self._ranks.rank == 0
        self._heat = Heat(options.grid)
        self._store = Store(options.dir / "checkpoint")
        self._saved = time.monotonic()

    def execute(self) -> int:
        """Compute until all steps are made, or as far as it may; the exit code. Raises ValueError."""
        self._resume()
        heat, options = self._heat, self._options
        while heat.step < options.steps:
            heat.advance()
            if heat.step % LOOK == 0 and self._agreed():
                return EXIT_SAVED
        self._save()
        self._write_result()
        self._ranks.Barrier()  # who ends first ends when all is on the disk
        return 0

    def _agreed(self) -> bool:
        """Look at what all ranks want: save where it is due, and whether to end now."""
        due = self._first and time.monotonic() - self._saved >= self._options.checkpoint_seconds
        # The largest wish is everybody's, so that all are at the same step.
        wish = self._ranks.allreduce(2 if self._stop else int(due), op=MPI.MAX)
        if wish and self._heat.step < self._options.steps:
            self._save()
        return bool(wish == 2 and self._heat.step < self._options.steps)

    def _resume(self) -> None:
        """Go on from what rank 0 has."""
        content = b""
        if self._first:
            self._options.dir.mkdir(parents=True, exist_ok=True)
            loaded = self._store.load()
            for problem in loaded.problems:
                self._say(f"fallback: {problem}")
            content = loaded.content or b""
        content = self._ranks.bcast(content)
        if content:
            self._heat.decode(content)
        if self._heat.step > self._options.steps:
            raise ValueError(f"{self._heat.step} steps are made already")
        self._say(f"{'resumed' if content else 'started'} at step {self._heat.step}, {self._ranks.size} ranks")
        if self._first:  # what was saved is all there is at this moment
            report_checkpoint(datetime.now(UTC))

    def _save(self) -> None:
        taken = datetime.now(UTC)
        content = self._heat.encode()
        if self._first:
            self._store.save(content)
            report_checkpoint(taken)
            self._say(f"saved step {self._heat.step}")
        self._saved = time.monotonic()
        self._ranks.Barrier()  # nobody ends before it is on the disk

    def _write_result(self) -> None:
        field = self._heat.whole()
        if field is None:
            return
        known = exact(self._heat.grid, self._heat.step)
        found = {
            "grid": self._heat.grid,
            "steps": self._heat.step,
            "field": hashlib.sha256(field.tobytes()).hexdigest(),
            "highest": float(field.max()),
            "error": float(np.abs(field - known).max() / np.abs(known).max()),
        }
        write_atomically(self._options.dir / "field", field.tobytes())
        write_atomically(self._options.dir / "result.json", json.dumps(found, indent=1) + "\n")
        self._say("finished")

    def _say(self, line: str) -> None:
        if self._first:
            sys.stdout.write(f"{datetime.now(UTC).strftime('%Y-%m-%dT%H:%M:%SZ')} {line}\n")
            sys.stdout.flush()


def main(words: Sequence[str] | None = None) -> int:
    """Compute, or go on with it; the exit code."""
    place = Place.read(os.environ)
    interval = place.checkpoint_interval / 2 if place.checkpoint_interval else 300.0
    parser = argparse.ArgumentParser(prog="heat.py", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--dir", type=Path, default=Path("/data"), help="where rank 0 keeps its files (/data)")
    parser.add_argument("--grid", type=int, default=512, help="inner points along each side (512)")
    parser.add_argument("--steps", type=int, default=20000, help="steps in all (20000)")
    parser.add_argument("--checkpoint-seconds", type=float, default=interval, help="between two checkpoints")
    options = parser.parse_args(words)
    stop = StopRequest()
    try:
        return Run(options, stop).execute()
    except ValueError as error:
        sys.stderr.write(f"error: {error}\n")
        return EXIT_USAGE
    except OSError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.stderr.flush()
        # The other ranks wait for this one, which would wait for them at its end.
        MPI.COMM_WORLD.Abort(EXIT_FAILED)
        raise


if __name__ == "__main__":
    sys.exit(main())
