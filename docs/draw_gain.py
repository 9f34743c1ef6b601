"""Draws docs/gain.svg, and the tables of docs/simulator.md and docs/designs/0027: what a day gains and loses.

python -m docs.draw_gain             write the picture, from docs/gain.json, and print the table
python -m docs.draw_gain --check     exit 1 where the picture is not what the data says

The data is what bench/simulator/proof.py measured: `make gain TRACES=DIR`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from docs import svg

DATA = Path(__file__).with_name("gain.json")
PICTURE = Path(__file__).with_name("gain.svg")
LEFT, TOP, WIDTH, HEIGHT, GAP, BARS = 56, 44, 560, 240, 90, 150
ORDINARY, JOBS, PLAIN, INK = "#9aa5b1", "#1f6fb2", "#b3261e", "#222222"
NAMES: Final = {
    "none": "no scavenging",
    "plain": "Jobs of low priority",
    "youngest": "youngest first, as Kueue",
    "ours": "scavenger jobs",
    "short-runs": "scavenger jobs, `interruptedFirst: short-runs`",
}
BARS_OF: Final = {"plain": "plain Jobs", "ours": "scavenger jobs"}
SHOWN_DAY: Final = "openb"
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


def _x(share: float) -> float:
    return LEFT + WIDTH * share


def _y(percent: float) -> float:
    return TOP + HEIGHT * (1 - percent / 100)


def _area(low: list[float], high: list[float], colour: str) -> str:
    """What lies between two courses."""
    last = len(high) - 1
    there = [f"{_x(i / last):.1f},{_y(value):.1f}" for i, value in enumerate(high)]
    back = [f"{_x(i / last):.1f},{_y(value):.1f}" for i, value in enumerate(low)]
    return f'<polygon points="{" ".join([*there, *reversed(back)])}" fill="{colour}"/>'


def _line(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def _day(data: dict[str, Any]) -> list[str]:
    ordinary, ours = data["course"]["ordinary"], data["course"]["ours"]
    parts = [
        svg.text(LEFT, TOP - 18, f"CPU in use, % of {data['days'][SHOWN_DAY]['cores']:,.0f} cores", size=14),
        _area([0.0] * len(ordinary), ordinary, ORDINARY),
        _area(ordinary, ours, JOBS),
    ]
    for percent in range(0, 101, 20):
        parts.append(_line(LEFT, _y(percent), LEFT + WIDTH, _y(percent), "#dddddd"))
        parts.append(svg.text(LEFT - 8, _y(percent) + 4, str(percent), anchor="end"))
    hours = len(ordinary) * data["every"] / 3600
    for hour in range(0, round(hours) + 1, 4):
        parts.append(svg.text(_x(hour / hours), TOP + HEIGHT + 18, f"{hour} h", anchor="middle"))
    under = TOP + HEIGHT + 44
    parts.append(svg.text(LEFT, under, "■ regular pods", colour=ORDINARY))
    parts.append(svg.text(LEFT + 130, under, "■ scavenger jobs", colour=JOBS))
    return parts


def _lost(data: dict[str, Any]) -> list[str]:
    """Bars of what was thrown away on an average day, and what single days came to."""
    left = LEFT + WIDTH + GAP
    values = {policy: [run["lost"] for run in of(data, policy)] for policy in ("plain", "ours")}
    highest = max(max(found) for found in values.values()) or 1.0
    parts = [svg.text(left, TOP - 18, f"lost, core-hours; {len(data['days'])} days", size=14)]
    for place, (policy, colour) in enumerate((("plain", PLAIN), ("ours", JOBS))):
        x, mean = left + place * (BARS / 2 + 10), fmean(values[policy])
        top = TOP + 20 + (HEIGHT - 20) * (1 - mean / highest)
        box = f'x="{x:.1f}" y="{top:.1f}" width="{BARS / 2:.1f}" height="{TOP + HEIGHT - top:.1f}"'
        parts.append(f'<rect {box} fill="{colour}"/>')
        for one in values[policy]:
            at = TOP + 20 + (HEIGHT - 20) * (1 - one / highest)
            parts.append(f'<circle cx="{x + BARS / 4:.1f}" cy="{at:.1f}" r="3" fill="{INK}"/>')
        parts.append(svg.text(x + BARS / 4, TOP + HEIGHT + 18, f"{mean:.1f}", anchor="middle"))
        parts.append(
            svg.text(x + BARS / 4, TOP + HEIGHT + 44, BARS_OF[policy], size=11, anchor="middle", colour=colour)
        )
    parts.append(_line(left - 6, TOP + HEIGHT, left + BARS + 16, TOP + HEIGHT, INK))
    return parts


def of(data: dict[str, Any], policy: str) -> list[dict[str, Any]]:
    """The runs of a policy."""
    return [run for run in data["runs"] if run["policy"] == policy]


def picture(data: dict[str, Any]) -> str:
    """The whole picture as SVG."""
    width, height = LEFT + WIDTH + GAP + BARS + 50, TOP + HEIGHT + 62
    return svg.framed(width, height, [*_day(data), *_lost(data)])


def table(data: dict[str, Any], day: str = "") -> str:
    """Every run, or every run of a day, in Markdown."""
    lines = ["| day | | " + " | ".join(title for _, title, _ in COLUMNS) + " |", "|---|---|" + "---:|" * len(COLUMNS)]
    for run in (run for run in data["runs"] if day in ("", run["day"])):
        values = {**run, "badput": 100 * run["lost"] / run["harvested"] if run["harvested"] else None}
        cells = ["-" if values[key] is None else form.format(values[key]) for key, _, form in COLUMNS]
        lines.append(f"| {run['day']} | {NAMES[run['policy']]} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write or compare the picture; returns the exit code."""
    data = json.loads(DATA.read_text())
    if "--check" not in sys.argv[1:]:
        sys.stdout.write(table(data))
    return svg.main(PICTURE, picture(data), "data", "docs.draw_gain")


if __name__ == "__main__":
    sys.exit(main())
