"""The board as the README has it installed and opened, in a browser."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect, sync_playwright
from scavenger_testing.browser import ARGUMENTS, PATIENCE, open_page

from .shell import Shell

OPEN = "kubectl sj board"
SERVICES = ("admitter", "regulator", "prioritizer")


def shows_the_cluster(shell: Shell, chromium: str | None, job: str) -> None:
    """Looks at it. chromium: None where there can be no browser; then the page's address is all that
    is looked for. job: one that runs."""
    with shell.meanwhile(*OPEN.split(), "--port=0") as forwarding:
        assert forwarding.stdout is not None
        said = forwarding.stdout.readline()
        found = re.match(r"The board: (http://localhost:\d+/) ", said)
        assert found, said + shell.helm.describe()
        if chromium is None:
            return
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS, timeout=PATIENCE)
            look(browser.new_page(), found[1], job)
            browser.close()


def look(page: Page, url: str, job: str) -> None:
    expect.set_options(timeout=PATIENCE)
    page.set_default_timeout(PATIENCE)
    open_page(page, url)
    page.wait_for_selector("body[data-time]")
    expect(page.locator("#link")).to_have_text("live")
    expect(page.locator("#fresh")).to_contain_text("✓ Current: load measured")
    for service in SERVICES:
        expect(page.locator("#services")).to_contain_text(f"scavenger-{service}: answers")
    expect(page.locator("#nodes [data-key]")).to_have_count(1)
    row = page.locator("#jobs [data-key]").filter(has_text=job)
    expect(row).to_contain_text("Running")
    row.click()
    expect(page.locator("#detail")).to_contain_text(f"Job {job}")
