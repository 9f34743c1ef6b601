"""Draws docs/dashboards.svg: panels of the dashboards, with what a real Prometheus said during a scenario.

python -m docs.draw_dashboards            write it, from docs/dashboards.json
python -m docs.draw_dashboards --check    exit 1 where it is not what the data says

The data is recorded by the test that puts every query of every panel to that Prometheus:

SCAVENGER_RECORD=docs/dashboards.json pytest tests/integration/dashboards
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

from docs import svg

DATA = Path(__file__).with_name("dashboards.json")
PICTURE = Path(__file__).with_name("dashboards.svg")
WIDTH, HEIGHT, LEFT, TOP = 400, 170, 56, 40
COLUMN, LINE = WIDTH + 90, HEIGHT + 110
COLOURS = ("#1f6fb2", "#2e8540", "#b3261e", "#8a5a00", "#6b3fa0", "#767676")
COLUMNS = 2
LEGEND = 160
SMALL = 11
PERCENT = "percentunit"

Series = dict[str, Any]


class Panel:
    """One panel at a place of the grid: curves over time."""

    def __init__(self, number: int, panel: dict[str, Any], seconds: float) -> None:
        self.left = LEFT + COLUMN * (number % COLUMNS)
        self.top = TOP + LINE * (number // COLUMNS)
        self.percent = panel["unit"] == PERCENT
        self.seconds = seconds
        self.series: list[Series] = panel["series"]
        highest = max((value for one in self.series for _, value in one["points"]), default=1.0)
        self.highest = 1.0 if self.percent else nice(highest)
        self.parts = [svg.text(self.left, self.top - 14, f"{panel['board'].capitalize()}: {panel['title']}", size=14)]

    def draw(self) -> list[str]:
        """The grid, the curves and their names."""
        for step in range(5):
            y = self.top + HEIGHT * (1 - step / 4)
            value = self.highest * step / 4
            label = f"{value:.0%}" if self.percent else f"{value:g}"
            self.parts.append(
                f'<line x1="{self.left}" y1="{y:.1f}" x2="{self.left + WIDTH}" y2="{y:.1f}" stroke="#dddddd"/>'
            )
            self.parts.append(svg.text(self.left - 6, y + 4, label, anchor="end", size=SMALL))
        for share in (0, 0.5, 1):
            x = self.left + WIDTH * share
            self.parts.append(
                svg.text(x, self.top + HEIGHT + 16, f"{self.seconds * share:.0f} s", anchor="middle", size=SMALL)
            )
        for number, one in enumerate(self.series):
            colour = COLOURS[number % len(COLOURS)]
            self._curve(one, colour)
            x, y = self.left + (number % 3) * LEGEND, self.top + HEIGHT + 36 + 16 * (number // 3)
            self.parts.append(f'<rect x="{x}" y="{y - 8}" width="10" height="3" fill="{colour}"/>')
            self.parts.append(svg.text(x + 15, y - 3, one["name"], size=SMALL))
        return self.parts

    def _curve(self, one: Series, colour: str) -> None:
        dash = ' stroke-dasharray="5 4"' if one["name"].startswith("level") else ""
        for points in unbroken(one["points"]):
            places = (
                f"{self.left + WIDTH * at / self.seconds:.1f},{self.top + HEIGHT * (1 - value / self.highest):.1f}"
                for at, value in steps(points)
            )
            self.parts.append(
                f'<polyline points="{" ".join(places)}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>'
            )


def unbroken(points: list[list[float]]) -> list[list[list[float]]]:
    """The points in pieces: where a second has none, there was nothing to show."""
    pieces: list[list[list[float]]] = []
    for point in points:
        if not pieces or point[0] - pieces[-1][-1][0] > 1:
            pieces.append([])
        pieces[-1].append(point)
    return pieces


def steps(points: list[list[float]]) -> list[tuple[float, float]]:
    """A gauge keeps its value until the next sample."""
    found = [(at, value) for at, value in points[:1]]
    for at, value in points[1:]:
        found += [(at, found[-1][1]), (at, value)]
    return found


def nice(highest: float) -> float:
    """The next value above that four steps of an axis divide into short numbers."""
    if highest <= 0:
        return 1.0
    unit: float = 10.0 ** math.floor(math.log10(highest))
    return next(unit * factor for factor in (1, 2, 4, 8, 10, 20) if unit * factor >= highest)


def picture(data: dict[str, Any]) -> str:
    """The whole picture as SVG."""
    panels = data["panels"]
    width, height = LEFT + COLUMNS * COLUMN - 50, LINE * math.ceil(len(panels) / COLUMNS)
    drawn = [part for number, panel in enumerate(panels) for part in Panel(number, panel, data["seconds"]).draw()]
    return svg.framed(width, height, drawn)


if __name__ == "__main__":
    sys.exit(svg.main(PICTURE, picture(json.loads(DATA.read_text())), "data", "docs.draw_dashboards"))
