"""A real browser for pages."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

from scavenger_cluster import requirements
from scavenger_cluster.shell import find_program

NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
"""Debian's first."""
ARGUMENTS: Final = ("--no-sandbox",)
"""As root, and in a container, there is no sandbox to be had; the pages are ours."""
PATIENCE: Final = 60_000
"""Milliseconds for what comes at once on a machine that has nothing else to do."""


def chromium(report: Callable[[str], None] = print, *, install: bool = True) -> str | None:
    """A Chromium of this machine; else Debian's, which is installed, and raises MissingRequirementError where that
    fails. None where nothing is to be installed, or can be: without root or apt-get."""
    found = next(filter(None, map(find_program, NAMES)), None)
    if found is not None or not install or os.geteuid() != 0 or find_program("apt-get") is None:
        return found
    requirements.install(["chromium", "fonts-dejavu-core"], report, allowed=True)
    return find_program(NAMES[0])
