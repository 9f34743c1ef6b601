"""Ten questions of an incident, each answered by the page in two clicks at most, in a real browser."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from playwright.async_api import Browser, ConsoleMessage, Locator, Page, ViewportSize, expect
from scavenger_api import names
from scavenger_api.times import format_time, parse_time
from scavenger_board.facts import JOBS
from scavenger_kube.resources import PODS
from scavenger_testing.browser import NETWORK_CHANGED, PATIENCE, open_page_async
from scavenger_testing.builders import pod_dict, scavengerjob_dict

from .conftest import Board
from .incident import FULLEST, PREEMPTOR, SILENT

SCREEN = ViewportSize(width=1400, height=1180)
pytestmark = [pytest.mark.cpu, pytest.mark.timeout(900)]  # the first of them may install the browser


class Reader:
    """Looks at the page, and counts clicks. Writing into a field is none, and neither is the key Enter."""

    def __init__(self, page: Page, board: Board) -> None:
        self.page = page
        self.board = board
        self.clicks = 0
        self.errors: list[str] = []

    async def click(self, target: Locator) -> None:
        """One click of the two."""
        self.clicks += 1
        assert self.clicks <= 2, "an answer is two clicks away at most"
        await target.click()

    def row(self, table: str, name: str) -> Locator:
        """The row of a table that names this."""
        return self.page.locator(f"#{table} [data-key]").filter(has_text=name)

    async def says(self, place: str, *words: str) -> None:
        """The element with this id says all of that."""
        for one in words:
            await expect(self.page.locator(f"#{place}")).to_contain_text(one)


def is_error(said: ConsoleMessage) -> bool:
    """Of the page, not of a machine whose network has changed, for example by the cluster of another test."""
    return said.type == "error" and NETWORK_CHANGED not in said.text


@pytest.fixture
async def reader(browser: Browser, board: Board) -> AsyncIterator[Reader]:
    expect.set_options(timeout=PATIENCE)
    page = await browser.new_page(viewport=SCREEN, color_scheme="light", locale="en-GB", timezone_id="Asia/Tokyo")
    page.set_default_timeout(PATIENCE)
    made = Reader(page, board)
    page.on("pageerror", lambda error: made.errors.append(str(error)))
    page.on("console", lambda said: made.errors.append(said.text) if is_error(said) else None)
    elsewhere: list[str] = []
    page.on("request", lambda asked: None if asked.url.startswith(board.url) else elsewhere.append(asked.url))
    await open_page_async(page, board.url)
    await page.wait_for_selector("body[data-time]")
    yield made
    await page.close()
    assert made.errors == []
    assert elsewhere == [], "nothing is loaded from elsewhere"


async def test_ten_questions(reader: Reader) -> None:
    questions = (
        why_is_my_job_waiting,
        who_left_in_the_last_hour_and_what_did_it_cost,
        for_whom_did_this_job_leave,
        is_the_cluster_above_its_upper_level_now,
        which_node_is_fullest_and_who_runs_there,
        whose_queue_has_more_than_its_share,
        which_job_lost_most,
        how_was_the_load_at_that_moment,
        will_anything_be_admitted_now,
        is_what_i_see_current,
    )
    assert len(questions) == 10
    for question in questions:
        reader.clicks = 0
        await question(reader)
        await begin_again(reader)


async def begin_again(reader: Reader) -> None:
    """The page as it is first opened, without loading it ten times."""
    page = reader.page
    if await page.locator("#detail").is_visible():
        await page.keyboard.press("Escape")
    if await page.locator("#back").is_visible():
        await page.locator("#back").click()
    await page.locator("#search").fill("")
    await page.locator("#order").select_option("key")


async def why_is_my_job_waiting(reader: Reader) -> None:
    await reader.page.locator("#search").fill("folds")
    await reader.click(reader.row("jobs", "lab/folds"))
    await reader.says("detail", "Job lab/folds", "Why it waits", "AdmissionLevel", "new jobs start below 80.0 %")
    await reader.says("detail", "no. 4 queued", "kubectl sj why folds -n lab")


async def who_left_in_the_last_hour_and_what_did_it_cost(reader: Reader) -> None:
    await reader.says("hour", "2 jobs left", "2.0 CPU-h lost")
    await expect(reader.row("timeline", "lab/docks")).to_contain_text("90.0 CPU-min lost")
    await expect(reader.row("timeline", "lab/aligns")).to_contain_text("30.0 CPU-min lost")
    assert reader.clicks == 0


async def for_whom_did_this_job_leave(reader: Reader) -> None:
    await reader.click(reader.row("timeline", "lab/docks"))
    await reader.says("detail", "Preempted", f"for {PREEMPTOR}")


async def is_the_cluster_above_its_upper_level_now(reader: Reader) -> None:
    await reader.says("above", "Above the eviction threshold: cpu", "cpu 91.0 % of upper 85.0 %", "memory 40.0 %")
    await reader.says("f-load", "▲ 91 % of 85 %")
    await expect(reader.page.locator("#resource option")).to_have_text(["cpu", "memory"])


async def which_node_is_fullest_and_who_runs_there(reader: Reader) -> None:
    first = reader.page.locator("#nodes [data-key]").first
    await expect(first).to_contain_text(FULLEST)
    await reader.click(first)
    await reader.says("detail", f"Node {FULLEST}", "95 %", "6 regular + 8 scavenger of 16 requested", "15.2 used")
    await reader.says("detail", "lab/simulates")


async def whose_queue_has_more_than_its_share(reader: Reader) -> None:
    await expect(reader.row("queues", "lab")).to_contain_text("24 of 12 deserved▲ more than its share of cpu")
    await expect(reader.row("queues", "guest")).not_to_contain_text("more than its share")
    await expect(reader.row("queues", "guest")).not_to_contain_text("ephemeral-storage")


async def which_job_lost_most(reader: Reader) -> None:
    await reader.page.locator("#order").select_option("lost")  # opening it and choosing are two
    reader.clicks += 2
    await expect(reader.page.locator("#jobs [data-key]").first).to_contain_text("lab/sorts")
    await expect(reader.page.locator("#jobs [data-key]").first).to_contain_text("25.0 CPU-h")


async def how_was_the_load_at_that_moment(reader: Reader) -> None:
    then = format_time(reader.board.incident.ago(minutes=30))
    await reader.page.locator("#at").fill(then)
    await reader.click(reader.page.locator("#show"))
    await reader.says("link", "past: ")
    assert parse_time(await reader.page.locator("body").get_attribute("data-time") or "") == parse_time(then)
    await reader.says("above", "Below the eviction threshold", "cpu 62.0 % of upper 85.0 %", "as Prometheus recorded")
    await reader.says("fresh", "This page shows what is known of", "30 min ago")
    await reader.says("unknown", "The pods of each node are not recorded")
    await expect(reader.row("jobs", "lab/docks")).to_contain_text("Running")
    await expect(reader.row("timeline", "lab/docks")).to_have_count(0)
    await reader.click(reader.page.locator("#back"))
    await reader.says("link", "live")
    await expect(reader.row("jobs", "lab/docks")).to_contain_text("Interrupted")


async def will_anything_be_admitted_now(reader: Reader) -> None:
    await reader.says("admission", "No:", "evicting down to the lower level")
    await reader.says("waits", "Queued: 4 AdmitFalse, 1 AdmissionLevel")


async def is_what_i_see_current(reader: Reader) -> None:
    await reader.says("link", "live")
    await reader.says("fresh", "Partly out of date: load measured", f"{SILENT} does not answer")
    await reader.says("services", "scavenger-admitter: answers", f"{SILENT}: silent for 9 min")


async def test_by_keyboard_alone(reader: Reader) -> None:
    page = reader.page
    await page.keyboard.press("/")
    await page.keyboard.type("docks")
    await expect(reader.page.locator("#jobs [data-key]")).to_have_count(1)
    for _ in range(14):
        await page.keyboard.press("Tab")
        if await page.evaluate("document.activeElement.classList.contains('job')"):
            break
    await page.keyboard.press("Enter")
    await reader.says("detail", "Job lab/docks")
    for _ in range(2):
        await page.keyboard.press("Tab")
    focused = "document.activeElement.textContent"
    assert await page.evaluate(focused) == "lab", "the job's queue"
    reader.board.incident.job("another", "Waiting")  # a new picture comes, and the panel stays as it is
    await expect(reader.page.locator("#n-jobs")).to_contain_text("of 9")
    assert await page.evaluate(focused) == "lab"
    await page.keyboard.press("Escape")
    await expect(page.locator("#detail")).to_be_hidden()
    assert await page.evaluate("document.activeElement.classList.contains('job')"), "the focus comes back"


async def test_what_a_user_writes_is_text_and_changes_come_by_themselves(reader: Reader) -> None:
    hostile = "<img src=x onerror=document.title='owned'><b>bold</b>"
    reader.board.incident.job("newcomer", "Failed", message=hostile)
    await expect(reader.row("jobs", "lab/newcomer")).to_contain_text(hostile)
    await reader.row("jobs", "lab/newcomer").click()
    await reader.says("detail", hostile)
    assert await reader.page.locator("#jobs img, #detail img, #detail b").count() == 0
    assert "owned" not in await reader.page.title()


@pytest.mark.long
async def test_a_time_that_is_none_is_told_what_would_be_one(reader: Reader) -> None:
    field = reader.page.locator("#at")
    await field.fill("yesterday")
    await reader.page.locator("#show").click()
    assert "2026-01-05T08:00:00Z" in await field.evaluate("field => field.validationMessage")
    await field.fill(format_time(reader.board.incident.began + timedelta(days=2)))
    await reader.page.locator("#show").click()
    await expect(reader.page.locator("#at:invalid")).to_have_count(1)
    assert "is in the future" in await field.evaluate("field => field.validationMessage")
    await expect(reader.page.locator("#back")).to_be_hidden()
    assert [error.partition(":")[0] for error in reader.errors] == ["Failed to load resource"], "the answer 400"
    reader.errors.clear()


async def test_a_board_that_is_gone_is_not_live(reader: Reader) -> None:
    await reader.says("link", "live")
    reader.board.process.terminate()
    assert await asyncio.to_thread(reader.board.process.wait, PATIENCE / 1000) == 0, "with a page that still follows"
    await reader.says("link", "no connection", "the page is")
    await reader.says("fresh", "Partly")
    await expect(reader.row("jobs", "lab/docks")).to_have_count(1)
    reader.errors.clear()  # of requests that nobody answers any more


async def test_who_shows_no_good_token_sees_nothing(browser: Browser, guarded: Board) -> None:
    expect.set_options(timeout=PATIENCE)
    page = await browser.new_page(ignore_https_errors=True)
    page.set_default_timeout(PATIENCE)
    await open_page_async(page, guarded.url)
    token, link = page.locator("#token"), page.locator("#link")
    await expect(token).to_be_visible()
    for wrong, answer in (("nobody's", "not valid"), ("other", "you may not see the board")):
        await page.locator("#bearer").fill(wrong)
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.locator("#refused")).to_contain_text(answer)
        assert await page.locator("body[data-time]").count() == 0
    await page.locator("#bearer").fill("good")
    await page.keyboard.press("Enter")
    await page.wait_for_selector("body[data-time]")
    await expect(link).to_have_text("live")
    await expect(token).to_be_hidden()
    await expect(page.locator("#above")).to_contain_text("Above the eviction threshold: cpu")
    kept = "[document.cookie, localStorage.length, sessionStorage.length]"
    assert await page.evaluate(kept) == ["", 0, 0], "the token is in the memory of the page only"
    await open_page_async(page, guarded.url)
    await expect(token).to_be_visible()
    await page.close()


@pytest.mark.long
async def test_a_part_of_the_page_that_did_not_arrive_is_loaded_again(browser: Browser, board: Board) -> None:
    """As when the machine of the browser gets another network meanwhile."""
    expect.set_options(timeout=PATIENCE)
    for part in ("main.js", "source.js", "style.css", "vendor/uPlot.iife.min.js"):
        page = await browser.new_page()
        await page.route(f"**/{part}", lambda route: route.abort(), times=2)
        await open_page_async(page, board.url)
        await expect(page.locator("#link")).to_have_text("live")
        await expect(page.locator("body")).to_have_css("margin", "0px")  # with its style
        await expect(page.locator("#charts canvas")).to_have_count(1)
        await page.close()


@pytest.mark.long
async def test_dark_and_narrow_shows_the_same(browser: Browser, board: Board) -> None:
    page = await browser.new_page(viewport={"width": 420, "height": 900}, color_scheme="dark")
    page.set_default_timeout(PATIENCE)
    await open_page_async(page, board.url)
    await page.wait_for_selector("body[data-time]")
    await expect(page.locator("#charts canvas")).to_have_count(1, timeout=PATIENCE)
    ground = await page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == "rgb(18, 22, 28)"
    assert await page.evaluate("document.documentElement.scrollWidth") <= 420, "nothing is wider than the screen"
    await page.close()


@pytest.mark.long
async def test_a_thousand_nodes_and_two_thousand_jobs(reader: Reader) -> None:
    reader.board.incident.crowd(1000, 2000)
    await expect(reader.page.locator("#n-nodes")).to_contain_text("1012")
    await expect(reader.page.locator("#n-jobs")).to_have_text("2,008")
    assert await reader.page.locator("#nodes [data-key]").count() == 60, "the map has the others"
    await expect(reader.page.locator("#heat canvas")).to_have_attribute("aria-label", re.compile("1,012 nodes"))
    assert await reader.page.locator("#jobs [data-key]").count() == 200, "a list is bounded"
    await expect(reader.page.locator(".jobs + .rest")).to_contain_text("… and 1,808 jobs not shown")

    await reader.page.locator("#search").fill("many-1999")
    await expect(reader.page.locator("#jobs [data-key]")).to_have_count(1)
    await reader.row("jobs", "lab/many-1999").click()
    await reader.says("detail", "Job lab/many-1999", "AdmitFalse")


async def test_how_far_an_array_is_and_where_its_tasks_run(reader: Reader) -> None:
    incident, tasks = reader.board.incident, 1000
    status = {"completed": 500, "failed": 2, "running": 120, "completedIndexes": "0-499", "failedIndexes": "998,999"}
    made = scavengerjob_dict(
        "sweep", namespace="lab", uid="uid-sweep", phase="Running", array={"tasks": tasks}, status={"array": status}
    )
    incident.api.put(JOBS, made)
    for index in range(500, 620):
        labels = {names.LABEL_JOB: "sweep", names.LABEL_TASK: str(index)}
        pod = pod_dict(f"sweep-{index}", namespace="lab", labels=labels, node=FULLEST, phase="Running")
        incident.api.put(PODS, pod)
    await expect(reader.row("jobs", "lab/sweep")).to_contain_text("500 of 1,000 tasks, 2 failed")
    await reader.click(reader.row("jobs", "lab/sweep"))
    await reader.says("detail", "1,000: 500 completed, 2 failed, 120 running", "a cell is 3 tasks", "task 500:")
    await reader.says("detail", "and 20 tasks that are not shown")
    cells = reader.page.locator("#detail .tasks i")
    assert await cells.count() == 334
    assert await cells.nth(0).get_attribute("title") == "tasks 0 to 2: completed"
    assert await cells.nth(166).get_attribute("title") == "tasks 498 to 500: some completed"
    assert await cells.nth(333).get_attribute("title") == "task 999: failed"
    assert await reader.page.locator("#detail .list button").count() == 100
