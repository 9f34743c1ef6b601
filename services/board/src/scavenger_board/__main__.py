"""The board as a process: `python -m scavenger_board`."""

from __future__ import annotations

import sys

from scavenger_runtime.service import run_service

from scavenger_board.controller import main
from scavenger_board.settings import BoardSettings

if __name__ == "__main__":
    sys.exit(run_service(BoardSettings.load(), main))
