"""The tuner as a process: `python -m scavenger_tuner COMMAND`."""

from __future__ import annotations

import sys

from scavenger_tuner.cli import main

if __name__ == "__main__":
    sys.exit(main())
