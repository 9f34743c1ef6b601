"""The picture of the dashboards shows panels that there are, and the page explains all of them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from docs import draw_dashboards
from tools.dashboards.__main__ import DASHBOARDS, FOLDER

DOCS = Path(__file__).resolve().parents[3] / "docs"
DATA = json.loads((DOCS / "dashboards.json").read_text())
PAGE = (DOCS / "dashboards.md").read_text()


def test_the_picture_is_what_the_data_says() -> None:
    assert draw_dashboards.picture(DATA) == (DOCS / "dashboards.svg").read_text()


@pytest.mark.parametrize("drawn", DATA["panels"], ids=lambda drawn: drawn["title"])
def test_what_is_drawn_is_a_panel_of_today(drawn: dict[str, Any]) -> None:
    panels = json.loads((FOLDER / f"{drawn['board']}.json").read_text())["panels"]
    (panel,) = (one for one in panels if one["title"] == drawn["title"])
    assert drawn["unit"] == panel["fieldConfig"]["defaults"]["unit"]
    legends = [re.sub(r"{{\w+}}", r".+", target["legendFormat"]) for target in panel["targets"]]
    for series in drawn["series"]:
        assert any(re.fullmatch(legend, series["name"]) for legend in legends), series["name"]
        assert len(series["points"]) > 5


def test_axes_end_at_short_numbers() -> None:
    assert [draw_dashboards.nice(highest) for highest in (0, 0.3, 1, 7, 8, 26, 130)] == [1, 0.4, 1, 8, 8, 40, 200]


def test_a_gauge_keeps_its_value_until_the_next_sample() -> None:
    assert draw_dashboards.steps([[0, 1], [2, 5]]) == [(0, 1), (2, 1), (2, 5)]


def test_where_there_was_nothing_nothing_is_drawn() -> None:
    assert draw_dashboards.unbroken([[0, 1], [1, 2], [5, 3]]) == [[[0, 1], [1, 2]], [[5, 3]]]


def test_links_lead_somewhere() -> None:
    for link in re.findall(r"\]\(([\w./-]+)", PAGE):
        assert (DOCS / link).is_file()


def test_questions_are_answered_by_panels_that_there_are() -> None:
    titles = {panel.title for board in DASHBOARDS for panel in board.panels()}
    for answer in (
        "Lost per harvested hour",
        "Waiting for capacity",
        "Interruptions by cause",
        "Regulator",
        "Why jobs wait",
    ):
        assert answer in titles
        assert answer in PAGE.partition("## Administrator")[0]
