"""`python -m scavenger_simulator`."""

from __future__ import annotations

import sys

from scavenger_simulator.main import main

if __name__ == "__main__":
    sys.exit(main())
