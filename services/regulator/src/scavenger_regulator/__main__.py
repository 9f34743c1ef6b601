"""`python -m scavenger_regulator` serves; `… uninstall` gives throttled jobs their CPU back before it is removed."""

from __future__ import annotations

import sys

from scavenger_runtime.service import run_service

from scavenger_regulator.controller import main as serve
from scavenger_regulator.settings import RegulatorSettings
from scavenger_regulator.uninstall import uninstall


def main(words: list[str] | None = None) -> int:
    """Run the regulator until it is told to stop; returns the exit code."""
    arguments = sys.argv[1:] if words is None else words
    if arguments[:1] == ["uninstall"]:
        return uninstall(RegulatorSettings.load(arguments[1:]))
    return run_service(RegulatorSettings.load(arguments), serve)


if __name__ == "__main__":
    sys.exit(main())
