"""Draws docs/levels.svg from the regulator's own formulas.

python -m docs.draw_levels            write it
python -m docs.draw_levels --check    exit 1 where it is not what the code says
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from scavenger_regulator.core.levels import (
    INITIAL,
    WaterLevels,
    linear_percentage,
    preemptible_percentage,
    water_levels,
)

from docs import svg

PICTURE = Path(__file__).with_name("levels.svg")
RESERVE = 20.0
SIZE, LEFT, TOP, GAP = 320, 60, 50, 110
BLUE, GREEN, RED, GREY = "#1f6fb2", "#2e8540", "#b3261e", "#767676"

Point = tuple[float, float]


class Panel:
    """A diagram of 0..x_max by 0..100 percent, `number` of two."""

    def __init__(self, number: int, x_max: float, title: str, x_label: str, y_label: str) -> None:
        self.left = LEFT + number * (SIZE + GAP)
        self.x_max = x_max
        self.parts = [
            svg.text(self.left + SIZE / 2, TOP - 22, title, size=15, anchor="middle"),
            svg.text(self.left + SIZE / 2, TOP + SIZE + 42, x_label, anchor="middle"),
            f'<text transform="translate({self.left - 42} {TOP + SIZE / 2}) rotate(-90)" text-anchor="middle" '
            f'font-size="12">{y_label}</text>',
        ]
        for step in range(0, 101, 20):
            y = self.y(step)
            self.parts.append(_line((self.left, y), (self.left + SIZE, y), "#dddddd"))
            self.parts.append(svg.text(self.left - 8, y + 4, str(step), anchor="end"))
            x = self.left + SIZE * step / 100
            self.parts.append(svg.text(x, TOP + SIZE + 18, f"{self.x_max * step / 100:g}", anchor="middle"))

    def x(self, value: float) -> float:
        """Where a value lies on the horizontal axis."""
        return self.left + SIZE * value / self.x_max

    def y(self, percent: float) -> float:
        """Where a percentage lies on the vertical axis."""
        return TOP + SIZE * (1 - percent / 100)

    def curve(self, points: Iterable[Point], colour: str, *, dashed: bool = False) -> None:
        """A line through points of the diagram."""
        path = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self.parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>')

    def label(self, x: float, y: float, text: str, colour: str, anchor: str = "start") -> None:
        """Text at a point of the diagram."""
        self.parts.append(svg.text(self.x(x), self.y(y), text, anchor=anchor, colour=colour))


def _line(a: Point, b: Point, colour: str) -> str:
    return f'<line x1="{a[0]:.1f}" y1="{a[1]:.1f}" x2="{b[0]:.1f}" y2="{b[1]:.1f}" stroke="{colour}"/>'


def _percentages(levels: WaterLevels, of: Callable[[float, WaterLevels], float]) -> list[Point]:
    return [(half / 2, of(half / 2, levels)) for half in range(201)]


def percentages() -> Panel:
    """The preemptible percentage over the load."""
    panel = Panel(0, 100, "Preemptible percentage", "load, %", "% of the running jobs")
    for stdev, colour in ((5.0, BLUE), (10.0, GREEN), (20.0, RED)):
        panel.curve(_percentages(water_levels(50, stdev, RESERVE), preemptible_percentage), colour)
    panel.curve(_percentages(INITIAL, linear_percentage), GREY, dashed=True)
    for row, (text, colour) in enumerate(
        (("stdev 5", BLUE), ("stdev 10", GREEN), ("stdev 20", RED), ("policy linear", GREY))
    ):
        panel.label(4, 92 - 6 * row, text, colour)
    panel.label(4, 27, "floor 33", "#222222")
    return panel


def levels() -> Panel:
    """The water levels over the deviation of the ordinary load."""
    panel = Panel(1, 50, f"Water levels (reserve {RESERVE:g})", "stdev of the ordinary load, %", "load, %")
    by_stdev = [(half / 2, water_levels(50, half / 2, RESERVE)) for half in range(101)]
    panel.curve([(x, level.upper) for x, level in by_stdev], RED)
    panel.curve([(x, level.lower) for x, level in by_stdev], BLUE)
    panel.curve([(x, level.admission) for x, level in by_stdev], GREEN, dashed=True)
    for row, (text, colour) in enumerate((("upper", RED), ("admission", GREEN), ("lower", BLUE))):
        panel.label(4, 30 - 6 * row, text, colour)
    return panel


def picture() -> str:
    """The whole picture as SVG."""
    width, height = LEFT + 2 * SIZE + GAP + 30, TOP + SIZE + 60
    return svg.framed(width, height, [part for panel in (percentages(), levels()) for part in panel.parts])


if __name__ == "__main__":
    sys.exit(svg.main(PICTURE, picture(), "code", "docs.draw_levels"))
