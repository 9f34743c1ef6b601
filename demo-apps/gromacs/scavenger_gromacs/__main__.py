"""The entry point of the image: `python3 -m scavenger_gromacs`."""

from __future__ import annotations

import sys

from scavenger_water.command import main

from scavenger_gromacs.inputs import MODELS
from scavenger_gromacs.run import compute

if __name__ == "__main__":
    words = {"ranks": "thread-MPI ranks of mdrun", "threads": "OpenMP threads of each"}
    sys.exit(main("scavenger_gromacs", MODELS, compute, **words))
