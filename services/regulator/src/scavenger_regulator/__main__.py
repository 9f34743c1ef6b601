"""The regulator as a process: `python -m scavenger_regulator`."""

from __future__ import annotations

import sys

from scavenger_runtime.service import run_service

from scavenger_regulator.settings import RegulatorSettings
from scavenger_regulator.shell import main

if __name__ == "__main__":
    sys.exit(run_service(RegulatorSettings.load(), main))
