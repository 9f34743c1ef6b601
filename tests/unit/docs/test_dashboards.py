"""The picture of the dashboards shows panels that there are, and the page explains all of them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tools.dashboards.__main__ import DASHBOARDS, FOLDER

DOCS = Path(__file__).resolve().parents[3] / "docs"
DATA = json.loads((DOCS / "dashboards.json").read_text())
DAY = 24 * 3600
PAGE = (DOCS / "dashboards.md").read_text()


@pytest.mark.parametrize("drawn", DATA["panels"], ids=lambda drawn: drawn["title"])
def test_what_is_drawn_is_a_panel_of_today(drawn: dict[str, Any]) -> None:
    panels = json.loads((FOLDER / f"{drawn['board']}.json").read_text())["panels"]
    (panel,) = (one for one in panels if one["title"] == drawn["title"])
    defaults = panel["fieldConfig"]["defaults"]
    assert (drawn["unit"], drawn["stacked"]) == (defaults["unit"], "stacking" in defaults["custom"])
    legends = [re.sub(r"{{\w+}}", r".+", target["legendFormat"]) for target in panel["targets"]]
    for series in drawn["series"]:
        assert any(re.fullmatch(legend, series["name"]) for legend in legends), series["name"]
        assert len(series["values"]) == DAY / DATA["every"]


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
