"""A real browser for pages."""

from __future__ import annotations

import os
from typing import Final

from scavenger_cluster import requirements
from scavenger_cluster.shell import find_program

CHROMIUM: Final = "/usr/bin/chromium"
ARGUMENTS: Final = ("--no-sandbox",)
"""As root, and in a container, there is no sandbox to be had; the pages are ours."""
PATIENCE: Final = 60_000
"""Milliseconds for what comes at once on a machine that has nothing else to do."""


def chromium() -> str | None:
    """Debian's Chromium, installed where it is missing, which raises where that fails. None where nothing can be
    installed at all: without root or apt-get."""
    if find_program(CHROMIUM) is None:
        if os.geteuid() != 0 or find_program("apt-get") is None:
            return None
        requirements.install(["chromium", "fonts-dejavu-core"], print, allowed=True)
    return CHROMIUM
