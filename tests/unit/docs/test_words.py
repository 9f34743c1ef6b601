"""What commands, charts, alerts and reference pages say has the words of the glossary, as the pages have."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from scavenger_cli import main

from tools.prose import replaced

ROOT = Path(__file__).resolve().parents[3]
NAME = re.compile(r"\bordinary-workload\b|(?<=by class: )ordinary")
"""A PriorityClass, and the value of a label."""


def helped(command: Any, path: str = "kubectl sj") -> Iterator[tuple[str, str]]:
    """The help of every command."""
    yield path, "\n\n".join(filter(None, (command.help, *(option.help for option in command.params))))
    for name, inner in getattr(command, "commands", {}).items():
        yield from helped(inner, f"{path} {name}")


def told() -> Iterator[tuple[str, str]]:
    """All of it: where it stands, and the text."""
    yield from helped(typer.main.get_command(main.application()))
    for notes in ROOT.glob("charts/*/templates/NOTES.txt"):
        yield notes.parts[-3], re.sub(r"{{.*?}}", "x", notes.read_text(), flags=re.DOTALL)
    for about in ROOT.glob("charts/*/Chart.yaml"):
        yield about.parts[-2], yaml.safe_load(about.read_text())["description"]
    rules = yaml.safe_load((ROOT / "charts/scavenger-base/files/rules/scavenger.rules.yaml").read_text())
    for rule in (rule for group in rules["groups"] for rule in group["rules"]):
        yield rule["alert"], "\n\n".join(rule["annotations"].values())
    for page in ("api", "charts", "dashboards", "events", "metrics", "settings"):
        yield page, (ROOT / "docs" / f"{page}.md").read_text()


@pytest.mark.parametrize(("where", "text"), [*told()], ids=lambda value: value if len(value) < 40 else "")
def test_it_has_no_word_that_the_glossary_has_another_one_for(where: str, text: str) -> None:
    assert not list(replaced(NAME.sub("x", text))), where
