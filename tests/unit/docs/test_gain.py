"""The tables and the picture of what scavenging adds are what was measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from scavenger_simulator.policy import Policy

from bench.simulator.proof import KEPT, LEAST_SERVED, MEASURED, SHOWN_DAY, WAYS
from docs import gain_table, pictures

ROOT = Path(__file__).resolve().parents[3]


def run(day: str, policy: str, **changes: Any) -> dict[str, Any]:
    return {"day": day, "policy": policy, **dict.fromkeys((*KEPT, "delayed_long", "wait_p99"), 1.0), **changes}


DATA: dict[str, Any] = {
    "every": 900.0,
    "days": {"openb": {"cores": 100.0}, "openb-140": {"cores": 90.0}},
    "course": {"ordinary": [10.0, 20.0], "ours": [50.0, 80.0]},
    "runs": [
        run("openb", "none", lost=0.0, harvested=0.0, delayed=None),
        run("openb", "plain", lost=40.0, harvested=1000.0),
        run("openb", "ours", lost=5.0, harvested=1000.0),
        run("openb-140", "plain", lost=20.0),
        run("openb-140", "ours", lost=6.0, delayed=3.0),
    ],
}


def test_the_pages_have_the_tables_of_the_data() -> None:
    data = json.loads(gain_table.DATA.read_text())
    assert f"\n\n{gain_table.table(data)}\n" in (ROOT / "docs" / "designs" / "0027-policies-compared.md").read_text()
    assert f"\n\n{gain_table.table(data, SHOWN_DAY)}\n" in (ROOT / "docs" / "simulator.md").read_text()


def test_each_page_has_the_figures_of_the_data_in_its_sentences() -> None:
    for page, said in gain_table.sentences(json.loads(gain_table.DATA.read_text())).items():
        text = " ".join((ROOT / page).read_text().split())
        assert [one for one in said if one not in text] == [], page


def test_the_data_has_every_policy_on_every_day() -> None:
    data = json.loads(gain_table.DATA.read_text())
    measured = [(one["day"], one["policy"]) for one in data["runs"]]
    every = [(day, way) for day in MEASURED for way in WAYS]
    assert measured == [one for one in every if one in measured], "in their order"
    assert {way for day, way in every if (day, way) not in measured} <= {Policy.YOUNGEST, LEAST_SERVED}
    assert (SHOWN_DAY, Policy.YOUNGEST) in measured
    assert list(data["days"]) == list(MEASURED)
    assert len(data["course"]["ours"]) == len(data["course"]["ordinary"]) == 24 * 3600 / data["every"]
    assert gain_table.SHOWN_DAY == SHOWN_DAY


def test_a_row_is_a_run_and_what_there_is_none_of_is_a_dash() -> None:
    rows = gain_table.table(DATA).splitlines()[2:]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    lost, badput, waited = 6, 7, 10
    assert [(row[lost], row[badput], row[waited]) for row in cells[:3]] == [
        ("0.0", "-", "-"),
        ("40.0", "4.00", "1"),
        ("5.0", "0.50", "1"),
    ]


def test_bars_are_as_high_as_what_was_lost() -> None:
    axes: list[Any] = pictures.gain(DATA).axes
    day, lost = axes

    assert [bar.get_height() for bar in lost.patches] == [30.0, 5.5]
    assert [list(one.get_ydata()) for one in lost.lines] == [[40.0, 20.0], [5.0, 6.0]], "a dot for each day"
    assert [label.get_text() for label in lost.get_xticklabels()] == [
        "plain Jobs\nmean 30.0",
        "scavenger jobs\nmean 5.5",
    ]
    assert max(place[1] for path in day.collections[1].get_paths() for place in path.vertices) == 80.0
