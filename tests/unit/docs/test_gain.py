"""The picture of what scavenging adds, and the table beside it, are what was measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from bench.simulator.proof import KEPT, POLICIES
from docs import draw_gain

ROOT = Path(__file__).resolve().parents[3]
SVG = "{http://www.w3.org/2000/svg}"


def run(policy: str, seed: int, **changes: Any) -> dict[str, Any]:
    return {"policy": policy, "seed": seed, **dict.fromkeys(KEPT, 1.0), **changes}


DATA: dict[str, Any] = {
    "cores": 100.0,
    "every": 900.0,
    "course": {"ordinary": [10.0, 20.0], "ours": [50.0, 80.0]},
    "runs": [
        run("none", 1, lost=0.0, delayed=None),
        run("plain", 1, lost=40.0),
        run("plain", 2, lost=20.0),
        run("ours", 1, lost=5.0),
        run("ours", 2, lost=6.0, delayed=3.0),
    ],
}


def test_the_page_has_the_table_of_the_data() -> None:
    assert draw_gain.table(json.loads(draw_gain.DATA.read_text())) in (ROOT / "docs" / "simulator.md").read_text()


def test_the_data_has_every_policy_with_every_seed() -> None:
    data = json.loads(draw_gain.DATA.read_text())
    assert [(one["policy"], one["seed"]) for one in data["runs"]] == [(p.value, s) for s in (1, 2, 3) for p in POLICIES]
    assert len(data["course"]["ours"]) == len(data["course"]["ordinary"]) == 24 * 3600 / data["every"]


def test_a_row_is_the_mean_of_its_seeds_and_what_there_is_none_of_is_a_dash() -> None:
    rows = draw_gain.table(DATA).splitlines()[2:]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    lost, waited = 3, 6
    assert [(row[lost], row[waited]) for row in cells] == [("0.0", "-"), ("30.0", "1"), ("5.5", "2")]


def test_bars_are_as_high_as_what_was_lost() -> None:
    drawn = ElementTree.fromstring(draw_gain.picture(DATA))
    heights = [float(bar.get("height", "0")) for bar in drawn.iter(f"{SVG}rect")][1:]
    assert len(heights) == 2
    assert abs(heights[0] / heights[1] - 30.0 / 5.5) < 0.01
    assert len(list(drawn.iter(f"{SVG}circle"))) == 4, "one for each seed"
    assert len(list(drawn.iter(f"{SVG}polygon"))) == 2
