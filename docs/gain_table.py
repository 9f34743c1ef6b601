"""Prints the tables of docs/simulator.md and docs/designs/0027, and the sentences with their figures on other pages.

python -m docs.gain_table

The data is what bench/simulator/proof.py measured: `make gain TRACES=DIR`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any, Final

SHOWN_DAY: Final = "openb"
"""The day of the tables, and of the picture in the README."""
OF_OPENB: Final = "openb"
"""Days of this trace begin so. On days of PlanetLab hardly any job has to leave."""
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


def sentences(data: dict[str, Any]) -> Mapping[str, tuple[str, ...]]:
    """What each page says of the data, so that all pages say the same; docs/gain.svg has these means as well."""
    runs = {(run["day"], run["policy"]): run for run in data["runs"]}
    days = list(data["days"])
    none, plain, youngest, ours = (runs[SHOWN_DAY, policy] for policy in ("none", "plain", "youngest", "ours"))

    def mean(policy: str) -> float:
        return fmean(runs[day, policy]["lost"] for day in days)

    def percent_lost(policy: str) -> float:
        lost, held = (fmean(runs[day, policy][key] for day in days) for key in ("lost", "harvested"))
        return 100 * lost / held

    def span(figure: str, policy: str, of: str, which: list[str], form: str, scale: float = 100) -> str:
        ratios = [runs[day, policy][figure] / runs[day, of][figure] for day in which if (day, policy) in runs]
        return f"{form.format(scale * min(ratios))} to {form.format(scale * max(ratios))}"

    openb = [day for day in days if day.startswith(OF_OPENB)]
    return {
        "README.md": (
            f"On {len(days)} days of public traces, scavenger jobs lose {mean('ours'):.1f} core-hours of computed work "
            "a day, "
            f"and low-priority Jobs {mean('plain'):.1f}",
            f"On the day in the picture, the CPU in use rises from {none['utilisation']:.0f} % to "
            f"{ours['utilisation']:.0f} %",
        ),
        "docs/simulator.md": (
            f"scavenger jobs {span('progress', 'ours', 'plain', days, '{:.1f}')} % of that of plain Jobs",
            f"scavenger jobs lose {span('lost', 'ours', 'plain', openb, '{:.0f}')} % of the core-hours that plain Jobs "
            "lose",
            f"Youngest first, Kueue's order, loses {span('lost', 'youngest', 'ours', openb, '{:.0f}', 1)} times as "
            "much",
            f"scavenger jobs lose {percent_lost('ours'):.2f} % of the core-hours that they hold, and plain Jobs "
            f"{percent_lost('plain'):.2f} %",
            f"An average day loses {mean('ours'):.1f} core-hours with scavenger jobs, and {mean('plain'):.1f} with "
            "plain "
            "Jobs",
        ),
        "docs/comparison.md": (
            f"On the day `{SHOWN_DAY}`, this lost {ours['lost']:.1f} core-hours, youngest first "
            f"{youngest['lost']:.1f}, and plain Jobs {plain['lost']:.1f}",
        ),
    }


if __name__ == "__main__":
    measured = json.loads(DATA.read_text())
    sys.stdout.write(table(measured))
    for page, said in sentences(measured).items():
        sys.stdout.write("\n".join(["", page, *said, ""]))
