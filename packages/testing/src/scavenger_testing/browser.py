"""A real browser for pages."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from scavenger_cluster import requirements
from scavenger_cluster.shell import find_program

if TYPE_CHECKING:  # who only looks for a browser needs no playwright
    from playwright import async_api, sync_api

NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
"""Debian's first."""
ARGUMENTS: Final = ("--no-sandbox",)
"""As root, and in a container, there is no sandbox to be had; the pages are ours."""
PATIENCE: Final = 60_000
"""Milliseconds for what comes at once on a machine that has nothing else to do."""

NETWORK_CHANGED: Final = "net::ERR_NETWORK_CHANGED"
"""Chromium drops every request, those to loopback too, when this machine gets or loses a network interface."""
TRIES: Final = 5
"""Loads of a page, of which each but the last one may meet such a moment."""


def open_page(page: sync_api.Page, url: str) -> None:
    """Go to a URL. Raises playwright's Error."""
    from playwright.sync_api import Error

    for tries_left in reversed(range(TRIES)):
        try:
            page.goto(url)
            return
        except Error as error:
            if not tries_left or NETWORK_CHANGED not in error.message:
                raise


async def open_page_async(page: async_api.Page, url: str) -> None:
    """The same, of playwright's other interface."""
    from playwright.async_api import Error

    for tries_left in reversed(range(TRIES)):
        try:
            await page.goto(url)
            return
        except Error as error:
            if not tries_left or NETWORK_CHANGED not in error.message:
                raise


def chromium(report: Callable[[str], None] = print, *, install: bool = True) -> str | None:
    """A Chromium of this machine; else Debian's, which is installed, and raises MissingRequirementError where that
    fails. None where nothing is to be installed, or can be: without root or apt-get."""
    found = next(filter(None, map(find_program, NAMES)), None)
    if found is not None or not install or os.geteuid() != 0 or find_program("apt-get") is None:
        return found
    requirements.install(["chromium", "fonts-dejavu-core"], report, allowed=True)
    return find_program(NAMES[0])
