"""A picture of the board, by a headless Chromium, where one can be had."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from demo_install import Services
from demo_stage import DemoError, Stage, say
from playwright.sync_api import Error, ViewportSize, sync_playwright
from scavenger_cluster.errors import ClusterError
from scavenger_testing import browser as browsers

SCREEN: Final = ViewportSize(width=1400, height=1180)


def browser(report: Callable[[str], None], *, install: bool) -> str | None:
    """A Chromium; None where there is none, and none can be installed."""
    try:
        return browsers.chromium(report, install=install)
    except ClusterError as error:
        report(f"no browser: {error}")
        return None


def save(stage: Stage, services: Services, target: Path, *, install: bool) -> Path | None:
    """Where the picture was saved; None, and said so, where there is no browser. DemoError where the page is not
    drawn."""
    program = browser(lambda line: say(line, "dim"), install=install)
    if program is None:
        say("no picture of the board: there is no Chromium here, and none could be installed", "yellow")
        return None
    with services.board(stage) as url:
        try:
            take(url, program, target)
        except Error as error:
            raise DemoError(f"the board was not drawn: {error}") from error
    return target


def take(url: str, program: str, target: Path) -> None:
    """Open the page, wait until it is drawn, and save what it shows. Raises playwright's Error."""
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=program, args=browsers.ARGUMENTS, timeout=browsers.PATIENCE)
        page = opened.new_page(viewport=SCREEN, color_scheme="light", locale="en-GB")
        page.set_default_timeout(browsers.PATIENCE)
        browsers.open_page(page, url)
        page.wait_for_selector("body[data-time]")
        page.wait_for_selector("#charts canvas")
        target.parent.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=target)
        opened.close()
