"""Writes what is generated from the metrics of the services.

python -m tools.dashboards --write     write docs/metrics.md, docs/dashboards.md and the dashboards of the chart
python -m tools.dashboards --check     exit 1 where it is out of date
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import yaml

from tools import generated as generated_files
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


def main(words: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    metrics = catalogue()
    wrong = problems(metrics) + unfounded(metrics)
    for problem in wrong:
        sys.stderr.write(f"{problem}\n")
    return 1 if wrong else generated_files.main("tools.dashboards", __doc__ or "", generated, words)


if __name__ == "__main__":
    sys.exit(main())
