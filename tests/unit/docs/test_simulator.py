"""docs/simulator.md says what the simulator prints and takes, and a design note has a place for the tables."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import fields, replace
from pathlib import Path

import pytest
from scavenger_simulator.commands.changes import OF_THE_RUN
from scavenger_simulator.commands.progress import Progress
from scavenger_simulator.commands.tuning import KNOBS
from scavenger_simulator.inputs.catalog import NAMED, build
from scavenger_simulator.inputs.demand_csv import OPTIONAL, REQUIRED, Window, read_demand
from scavenger_simulator.inputs.habits import HABITS
from scavenger_simulator.policy import Policy
from scavenger_simulator.report.document import SCHEMA, camel_case
from scavenger_simulator.report.figures import Figures, SizeFigures
from scavenger_simulator.report.table import COLUMNS

from bench.traces.catalog import TRACES
from docs.simulate_table import PAGE, differing, main, markers, replaced, study_of

pytestmark = pytest.mark.slow

DOCS = Path(__file__).resolve().parents[3] / "docs"
TEXT, TABLES = (DOCS / "simulator.md").read_text(), PAGE.read_text()
KEYS = {field.name for kind in (Figures, SizeFigures) for field in fields(kind)}


@pytest.mark.parametrize("name", [name for name, _ in COLUMNS if name not in ("policy", "p50", "p99")])
def test_every_column_is_explained(name: str) -> None:
    assert f"\n| {name} | `" in TEXT


@pytest.mark.parametrize("word", sorted({*map(camel_case, KEYS | set(OF_THE_RUN)), *HABITS, *(k.name for k in KNOBS)}))
def test_every_key_and_setting_is_named(word: str) -> None:
    assert f"`{word}`" in TEXT


def test_the_schema_and_the_scenarios_are_named() -> None:
    assert SCHEMA in TEXT
    assert all(f"`{name}`" in TEXT for name in NAMED)


def test_the_example_of_own_demand_is_read(tmp_path: Path) -> None:
    (example,) = re.findall(r"```csv\n(.*?)```", TEXT, re.DOTALL)
    (header, *_) = csv.reader([example.splitlines()[0]])
    assert set(header) == {*REQUIRED, *OPTIONAL}
    path = tmp_path / "jobs.csv"
    path.write_text(example)
    gang, single, *tasks = read_demand(path, Window())
    assert (gang.pods, single.pods) == (4, 1)
    assert [task.pods for task in tasks] == [1] * 1000


@pytest.mark.parametrize("name", TRACES)
def test_there_is_a_place_for_every_table(name: str) -> None:
    begin, end = markers(name)
    changed = replaced(TABLES, name, "### new \\1\n")
    assert changed.count(f"{begin}### new \\1\n{end}") == 1
    assert replaced(changed, name, "x") == replaced(TABLES, name, "x")
    with pytest.raises(ValueError, match="no markers"):
        replaced(TABLES, "elsewhere", "")


@pytest.mark.parametrize("name", TRACES)
def test_a_check_names_the_lines_that_are_others(name: str) -> None:
    begin, end = markers(name)
    table = TABLES.partition(begin)[2].partition(end)[0]
    rows = [line for line in table.splitlines() if line.startswith("| none |")]
    assert len(rows) == 1
    assert differing(TABLES, name, table) == []
    assert differing(TABLES, name, rows[0]) == []
    assert differing(TABLES, name, table.replace(rows[0], "| none | 1 |")) == ["| none | 1 |"]
    with pytest.raises(ValueError, match="no markers"):
        differing(TABLES, "elsewhere", table)


def test_policies_beside_each_other_give_the_figures_of_policies_in_turn() -> None:
    scenario = build(replace(NAMED["diurnal"], pods=10, length=1800.0))
    policies, progress = (Policy.OURS, Policy.NONE), Progress(io.StringIO(), lambda: 0.0)
    in_turn = study_of(scenario, policies, 1, progress)
    assert [run.policy for run in in_turn.runs] == ["ours", "none"]
    assert study_of(scenario, policies, 2, progress) == in_turn


@pytest.mark.parametrize("words", [["--policy", "ours"], ["--only", "diurnal"], ["--processes", "0"]])
def test_what_would_spoil_the_page_is_refused(words: list[str]) -> None:
    with pytest.raises(SystemExit):
        main(words)
    assert PAGE.read_text() == TABLES


def test_without_the_folder_nothing_is_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("BENCH_TRACE_DIR", raising=False)
    assert main([]) == 1
    assert "--traces" in capsys.readouterr().err
    assert PAGE.read_text() == TABLES


def test_links_lead_somewhere() -> None:
    for link in re.findall(r"\]\(([^)#]+)", TEXT):
        assert (DOCS / link).is_file()
