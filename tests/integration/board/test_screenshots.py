"""Twelve states of the page: what it shows in them, what axe-core finds, and pictures for the docs.

SCAVENGER_SCREENSHOTS=docs/board pytest tests/integration/board/test_screenshots.py     writes them there
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Literal

import axe_playwright_python
import pytest
from playwright.async_api import Browser, Page, ViewportSize, expect
from scavenger_api.times import format_time
from scavenger_testing.browser import PATIENCE, open_page_async

from .conftest import Board, at_work
from .incident import GPU_POOL, BothKinds, Crowd, Empty, Filling, Incident, Pools, Unmeasured

AXE: Final = Path(axe_playwright_python.__file__).with_name("axe.min.js")
DESKTOP: Final = ViewportSize(width=1400, height=1000)
PHONE: Final = ViewportSize(width=390, height=844)
pytestmark = [pytest.mark.cpu, pytest.mark.timeout(900)]  # the first of them may install the browser


@dataclass(frozen=True)
class Shot:
    """A state of the page. does: what a person does there. says: text by the id of an element."""

    name: str
    scene: type[Incident]
    says: dict[str, str]
    phone: bool = False
    theme: Literal["light", "dark"] = "light"
    query: str = ""
    opens: str = ""


SHOTS: Final = (
    Shot("evicting", Incident, {"f-state": "▲ Evicting", "f-load": "▲ 91 % of 85 %", "f-harvest": "24 cores"}),
    Shot("evicting-dark", Incident, {"f-lost": "2.0 CPU-h"}, theme="dark"),
    Shot("evicting-phone", Incident, {"f-jobs": "3 running, 5 queued"}, phone=True),
    Shot("filling", Filling, {"f-state": "✓ Filling", "f-load": "✓ 58 % of 85 %", "fresh": "✓ Current"}),
    Shot("filling-phone-dark", Filling, {"hour": "No interruption"}, phone=True, theme="dark"),
    Shot(
        "empty",
        Empty,
        {"f-state": "no regulator", "above": "Install the regulator", "n-jobs": "0", "main": "kubectl sj submit"},
    ),
    Shot("no-metrics", Unmeasured, {"f-load": "◆ not known", "unknown": "Install metrics-server"}),
    Shot("past", Incident, {"link": "past: ", "above": "62.0 %", "unknown": "not recorded"}, query="?at={ago}"),
    Shot("job", Incident, {"detail": "Unsaved work"}, opens="lab/trains"),
    Shot(
        "pools",
        Pools,
        {
            "f-state": "▲ Evicting",
            "admission": f"Yes, in 1 of 2 pools of nodes: {GPU_POOL}.",
            "pools": f"{GPU_POOL} · 4 nodes · Fillingcpu 7 % of 85 %",
            "n-pools": "2, each with its own load",
        },
    ),
    Shot(
        "both-kinds",
        BothKinds,
        {"n-jobs": "7", "jobs": "job.batch/snakejob-assemble", "detail": "Tasks"},
        opens="job.batch/snakejob-assemble",
    ),
    Shot("5000-nodes", Crowd, {"n-nodes": "5012", "n-jobs": "2,008"}),
)


async def opened(browser: Browser, board: Board, shot: Shot) -> Page:
    """The page in that state, drawn."""
    page = await browser.new_page(
        viewport=PHONE if shot.phone else DESKTOP, color_scheme=shot.theme, locale="en-GB", timezone_id="Europe/Paris"
    )
    page.set_default_timeout(PATIENCE)
    await open_page_async(
        page, board.url + shot.query.format(ago=format_time(datetime.now(UTC) - timedelta(minutes=25)))
    )
    await page.wait_for_selector("body[data-time]")
    if shot.scene.prometheus:
        await page.wait_for_selector("#charts canvas")
    if shot.opens:
        await page.locator("#jobs [data-key]").filter(has_text=shot.opens).click()
    return page


IN_THE_GATE = ("evicting", "filling-phone-dark")


@pytest.mark.parametrize(
    "shot",
    [pytest.param(shot, id=shot.name, marks=() if shot.name in IN_THE_GATE else pytest.mark.long) for shot in SHOTS],
)
async def test_state(browser: Browser, tmp_path: Path, shot: Shot) -> None:
    expect.set_options(timeout=PATIENCE)
    async with at_work(tmp_path, shot.scene) as board:
        page = await opened(browser, board, shot)
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        for place, text in shot.says.items():
            await expect(page.locator(place if place == "main" else f"#{place}")).to_contain_text(text)
        assert await page.evaluate("document.documentElement.scrollWidth") <= (page.viewport_size or DESKTOP)["width"]
        assert await serious(page) == []
        await save(page, shot)
        assert errors == []
        await page.close()


async def serious(page: Page) -> list[tuple[str, Any]]:
    """What axe-core finds that keeps people from using the page."""
    await page.evaluate(AXE.read_text())
    found = await page.evaluate("axe.run()")
    return [
        (one["id"], [node["html"][:200] for node in one["nodes"][:3]])
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
    ]


async def save(page: Page, shot: Shot) -> None:
    """Where the environment says so."""
    if folder := os.environ.get("SCAVENGER_SCREENSHOTS"):
        await page.screenshot(path=f"{folder}/{shot.name}.png", full_page=not shot.opens)


async def test_a_moment_and_its_filters_have_a_url_and_can_be_exported(browser: Browser, board: Board) -> None:
    shot = next(one for one in SHOTS if one.name == "past")
    page = await opened(browser, board, shot)
    await page.locator("#namespace").select_option("lab")
    await page.locator("#resource").select_option("memory")
    address = page.url
    assert all(part in address for part in ("at=20", "namespace=lab", "resource=memory"))
    async with page.expect_download() as download:
        await page.locator("#export").click()
    saved = (await (await download.value).path()).read_text()
    assert all(part in saved for part in ('"past": true', '"times"'))
    other = await browser.new_page()
    await open_page_async(other, address)
    await expect(other.locator("#link")).to_contain_text("past: ", timeout=PATIENCE)
    await expect(other.locator("#namespace")).to_have_value("lab")
    await expect(other.locator("#resource")).to_have_value("memory")
    await other.locator("#back").click()
    await expect(other.locator("#link")).to_have_text("live")
    assert "at=" not in other.url
    await other.go_back()
    await expect(other.locator("#link")).to_contain_text("past: ")
    await other.close()
    await page.close()


async def test_the_map_of_nodes_is_grouped_searched_and_opened(browser: Browser, board: Board) -> None:
    page = await opened(browser, board, SHOTS[0])
    await page.locator("#group").select_option("zone")
    await page.locator("#find-node").fill("north-b")
    await expect(page.locator("#nodes [data-key]")).to_have_count(4)
    canvas = page.locator("#heat canvas")
    await canvas.hover(position={"x": 10, "y": 30})
    await expect(page.locator("#tip")).to_contain_text("regular +")
    named = (await page.locator("#tip").text_content() or "").partition(":")[0]
    await canvas.click(position={"x": 10, "y": 30})
    await expect(page.locator("#d-title")).to_have_text(f"Node {named}")
    await page.close()
