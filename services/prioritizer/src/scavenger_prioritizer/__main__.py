"""The prioritizer as a process: `python -m scavenger_prioritizer`."""

from __future__ import annotations

import sys

from scavenger_runtime.service import run_service

from scavenger_prioritizer.controller import main
from scavenger_prioritizer.settings import PrioritizerSettings

if __name__ == "__main__":
    sys.exit(run_service(PrioritizerSettings.load(), main))
