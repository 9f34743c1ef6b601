"""Prints the tables of docs/simulator.md and docs/designs/0027: what a day gains and loses.

python -m docs.gain_table

The data is what bench/simulator/proof.py measured: `make gain TRACES=DIR`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

DATA: Final = Path(__file__).with_name("gain.json")
NAMES: Final = {
    "none": "no scavenging",
    "plain": "Jobs of low priority",
    "youngest": "youngest first, as Kueue",
    "ours": "scavenger jobs",
    "short-runs": "scavenger jobs, `interruptedFirst: short-runs`",
    "least-served": "scavenger jobs, `interruptedFirst: least-served`",
}
COLUMNS: Final = (
    ("utilisation", "CPU in use, %", "{:.1f}"),
    ("progress", "core-hours of work done", "{:,.0f}"),
    ("completed", "jobs completed", "{:,.0f}"),
    ("starved", "jobs that waited over 4 h", "{:,.0f}"),
    ("lost", "core-hours lost", "{:.1f}"),
    ("badput", "lost ÷ held, %", "{:.2f}"),
    ("preemptions", "jobs displaced", "{:,.0f}"),
    ("yields", "jobs that yielded at a checkpoint", "{:,.0f}"),
    ("delayed", "regular pods that waited", "{:.0f}"),
    ("delayed_long", "over a minute", "{:.0f}"),
)


def table(data: dict[str, Any], day: str = "") -> str:
    """Every run, or every run of a day, in Markdown."""
    lines = ["| day | | " + " | ".join(title for _, title, _ in COLUMNS) + " |", "|---|---|" + "---:|" * len(COLUMNS)]
    for run in (run for run in data["runs"] if day in ("", run["day"])):
        values = {**run, "badput": 100 * run["lost"] / run["harvested"] if run["harvested"] else None}
        cells = ["-" if values[key] is None else form.format(values[key]) for key, _, form in COLUMNS]
        lines.append(f"| {run['day']} | {NAMES[run['policy']]} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(table(json.loads(DATA.read_text())))
