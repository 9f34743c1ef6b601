"""The entry point of the image: `python3 -m scavenger_openmm`."""

from __future__ import annotations

import sys

from scavenger_water.command import main
from scavenger_water.configuration import Configuration
from scavenger_water.ends import FailedError, Reason
from scavenger_water.work import Measured, Work

from scavenger_openmm.decisions import MODELS


def compute(work: Work, configuration: Configuration) -> Measured:
    """Load OpenMM, which takes seconds, now that SIGTERM is heard; then simulate and measure."""
    try:
        from scavenger_openmm.run import simulate
    except ModuleNotFoundError as error:
        text = f"{error}: pip install --require-hashes -r demo-apps/openmm/requirements.txt, from PyPI"
        raise FailedError(Reason.ERROR, text) from error
    return simulate(work, configuration)


if __name__ == "__main__":
    words = {"ranks": "must be 1: OpenMM has no ranks", "threads": "threads of OpenMM's CPU platform"}
    sys.exit(main("scavenger_openmm", tuple(MODELS), compute, **words))
