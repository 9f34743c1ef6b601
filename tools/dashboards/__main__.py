"""Writes what is generated from the metrics of the services.

python -m tools.dashboards --write     write docs/metrics.md, docs/dashboards.md and the dashboards of the chart
python -m tools.dashboards --check     exit 1 where it is out of date
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import yaml

from tools.dashboards.administrator import ADMINISTRATOR
from tools.dashboards.catalogue import ROOT, Metric, catalogue, problems
from tools.dashboards.grafana import QUEUES, as_json
from tools.dashboards.guide import guide
from tools.dashboards.promql import wrong as wrong_in
from tools.dashboards.reference import reference
from tools.dashboards.researcher import RESEARCHER
from tools.dashboards.services import SERVICES

DASHBOARDS: Final = (ADMINISTRATOR, RESEARCHER, SERVICES)
RULES: Final = ROOT / "charts" / "scavenger-base" / "files" / "rules" / "scavenger.rules.yaml"
FOLDER: Final = ROOT / "charts" / "scavenger-base" / "files" / "dashboards"


def unfounded(metrics: list[Metric]) -> list[str]:
    """What panels and alerts ask for that no service shows, in words."""
    asked = [
        (f"{board.title}, {panel.title}", query.expr, query.legend)
        for board in DASHBOARDS
        for panel in board.panels()
        for query in panel.queries
    ]
    asked.append(("variable queue", QUEUES, "{{queue}}"))
    for group in yaml.safe_load(RULES.read_text())["groups"]:
        asked += [(rule["alert"], rule["expr"], "") for rule in group["rules"]]
    return [f"{who}: {problem}" for who, expr, legend in asked for problem in wrong_in(expr, metrics, legend)]


def generated() -> dict[Path, str]:
    """What is to be in which file."""
    boards = {FOLDER / f"{board.uid.removeprefix('scavenger-')}.json": as_json(board) for board in DASHBOARDS}
    docs = ROOT / "docs"
    pages = {docs / "metrics.md": reference(catalogue()), docs / "dashboards.md": guide(DASHBOARDS)}
    return {**pages, **boards}


def out_of_date(files: Mapping[Path, str]) -> list[Path]:
    """The files that are not there, or have something else in them."""
    return [path for path, text in files.items() if not path.exists() or path.read_text() != text]


def main(words: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="tools.dashboards", description=(__doc__ or "").partition("\n")[0])
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--write", action="store_true", help="write the files")
    mode.add_argument("--check", action="store_true", help="exit 1 where they are out of date")
    arguments = parser.parse_args(words)
    metrics = catalogue()
    wrong = problems(metrics) + unfounded(metrics)
    for problem in wrong:
        sys.stderr.write(f"{problem}\n")
    files = {} if wrong else generated()
    stale = out_of_date(files)
    for path in stale:
        if arguments.write:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(files[path])
        else:
            sys.stderr.write(f"{path.relative_to(ROOT)} is out of date; run: make generate\n")
    return 1 if wrong or (stale and arguments.check) else 0


if __name__ == "__main__":
    sys.exit(main())
