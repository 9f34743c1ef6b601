"""The pages that are generated to look things up in, and that the code has nothing beside what they list."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from scavenger_api.events import EVENTS
from scavenger_api.evictions import EvictionReason
from scavenger_api.levels import LevelsState

from tools import generated, reference

SOURCES = [
    file for file in sorted((generated.ROOT / "services").glob("*/src/**/*.py")) if "__pycache__" not in file.parts
]
RECORDS = {"note": 0, "normal": 2, "warning": 2, "record": 3}
"""Methods that write an Event, or ask for one, and which of their arguments is its reason."""
VARIABLE = {"note.reason": set(), "reason.value": {*EvictionReason}, "new.state.value": {*LevelsState}}
"""Reasons that are no constant, and what they may be; that of a note is where the note is made."""


def test_every_page_is_up_to_date() -> None:
    assert reference.main(["--check"]) == 0


@pytest.mark.slow
def test_a_page_that_is_out_of_date_is_found_and_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cli.md").write_text("# cli\n\n<!-- exit codes: generated -->\nold\n<!-- end -->\n")
    (tmp_path / "events.md").write_text("# Events\n")
    monkeypatch.setattr(reference, "DOCS", tmp_path)
    monkeypatch.setattr(generated, "ROOT", tmp_path)
    assert reference.main(["--check"]) == 1
    assert "events.md is out of date; run: make generate" in capsys.readouterr().err
    assert reference.main(["--write"]) == 0
    assert (
        "| 4 | a job that the command waited for, or followed, did not complete |" in (tmp_path / "cli.md").read_text()
    )
    assert reference.main(["--check"]) == 0
    (tmp_path / "cli.md").write_text("# cli\n")
    with pytest.raises(ValueError, match="no place for the exit codes"):
        reference.main(["--check"])


def test_the_pages_say_what_the_code_says() -> None:
    api, settings = reference.api_page(), reference.settings_page()
    assert "| `parallelism` | int32 | `1` | Pods in the gang, with the same resources each; all run or none. (" in api
    assert "| `suspend` | boolean | `false` |" in api
    assert "Changeable." in next(line for line in api.splitlines() if line.startswith("| `suspend`"))
    assert "- `spec.resources`: cpu is mandatory" in api
    assert "| `--history-window` | `historyWindow` | `1d` | " in settings
    assert "Unlike above, `--workers` is `48`." in settings
    assert reference.duration(5400) == "1h30m"
    assert reference.duration(0.25) == "0.25s"
    assert reference.duration(0) == "0s"


def records(file: Path) -> Iterator[str]:
    """The reason of each Event that a file writes; the expression, where that is no constant."""
    module = ".".join(file.relative_to(generated.ROOT).with_suffix("").parts[3:])  # services/NAME/src/…
    for node in ast.walk(ast.parse(file.read_text())):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in RECORDS):
            continue
        if not re.fullmatch(r"(self\.)?_events|draft", ast.unparse(node.func.value)):
            continue
        expression = ast.unparse(node.args[RECORDS[node.func.attr]])
        names = vars(importlib.import_module(module))
        yield expression if expression in VARIABLE else str(eval(expression, dict(names)))


@pytest.mark.slow
def test_every_event_is_in_the_list_and_nothing_else_is() -> None:
    written = {reason for file in SOURCES for reason in records(file)}
    assert written >= set(VARIABLE), "or the calls are looked for in the wrong way"
    constant = {reason for reason in written if reason not in VARIABLE}
    found = constant.union(*VARIABLE.values())
    listed = {kind.reason for kind in EVENTS if kind.by != "scavenger-scheduler"}
    assert found == listed
    (scheduler,) = (kind.reason for kind in EVENTS if kind.by == "scavenger-scheduler")
    go = (generated.ROOT / "services/scheduler/pkg/preemption/events.go").read_text()
    assert f'const eventReason = "{scheduler}"' in go
