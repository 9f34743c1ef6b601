"""The regulator as a process: `python -m scavenger_regulator`."""

from __future__ import annotations

import sys

from scavenger_runtime.service import run_service

from scavenger_regulator.controller import main
from scavenger_regulator.settings import RegulatorSettings

if __name__ == "__main__":
    sys.exit(run_service(RegulatorSettings.load(), main))
