"""Small charts as SVG: lines and areas over time, bars, lanes. Numbers in, text out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

WIDTH: Final = 960
LEFT: Final = 56
RIGHT: Final = 28
TOP: Final = 12
BOTTOM: Final = 30
GRID, TEXT = "#e3e3e3", "#333333"

Point = tuple[float, float]


def nice_ticks(least: float, most: float, about: int) -> list[float]:
    """Round values from the least to the most, about so many."""
    span = max(most - least, 1e-9)
    raw = span / max(about, 1)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= raw * 0.999)
    first = math.ceil(least / step - 1e-9)
    return [round(i * step, 10) for i in range(first, math.floor(most / step + 1e-9) + 1)]


def hour_ticks(start: float, end: float) -> list[tuple[float, str]]:
    """Moments of a time axis in seconds, with what is written below: hours, or days where there are many."""
    hours = (end - start) / 3600
    step = next((step for step in (0.25, 0.5, 1, 2, 3, 6, 12, 24, 48, 168) if hours / step <= 13), 720)
    found = []
    for i in range(math.floor(hours / step + 1e-9) + 1):
        at = i * step
        label = f"day {at / 24 + 1:g}" if step >= 24 else f"{at:g} h"
        found.append((start + at * 3600, label))
    return found


class Chart:
    """A diagram of time across and some quantity up.

    start, end: seconds. most: the value at the top, the bottom is 0. height: pixels. unit: at the vertical axis.
    """

    def __init__(self, start: float, end: float, most: float, *, height: int, unit: str, title: str) -> None:
        self.start, self.end = start, max(end, start + 1)
        self.most = most if most > 0 else 1.0
        self.height = height
        self.title = title
        self.parts: list[str] = []
        for value in nice_ticks(0, self.most, 5) if unit else ():
            y = self.y(value)
            self.parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="{GRID}"/>')
            self.parts.append(_text(LEFT - 8, y + 4, f"{value:g}", "end"))
        if unit:
            middle = TOP + (height - TOP - BOTTOM) / 2
            turn = f"translate(13 {middle:.1f}) rotate(-90)"
            self.parts.append(f'<text transform="{turn}" text-anchor="middle" fill="{TEXT}">{escape(unit)}</text>')
        for at, label in hour_ticks(self.start, self.end):
            x = self.x(at)
            self.parts.append(f'<path d="M{x:.1f} {TOP}V{height - BOTTOM}" stroke="{GRID}"/>')
            self.parts.append(_text(x, height - BOTTOM + 18, label, "middle"))

    def x(self, at: float) -> float:
        """Where a moment lies."""
        return LEFT + (WIDTH - LEFT - RIGHT) * (at - self.start) / (self.end - self.start)

    def y(self, value: float) -> float:
        """Where a value lies; what is beyond the top is at the top."""
        share = min(max(value / self.most, 0.0), 1.0)
        return TOP + (self.height - TOP - BOTTOM) * (1 - share)

    def _path(self, points: Sequence[Point]) -> str:
        return "".join(
            f"{'L' if i else 'M'}{self.x(at):.1f} {self.y(value):.1f}" for i, (at, value) in enumerate(points)
        )

    def line(self, points: Sequence[Point], colour: str, *, dashed: bool = False, width: float = 1.5) -> None:
        """A line through points."""
        if points:
            dash = ' stroke-dasharray="5 4"' if dashed else ""
            path = self._path(points)
            self.parts.append(f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="{width}"{dash}/>')

    def area(self, points: Sequence[Point], colour: str, below: Sequence[Point] = ()) -> None:
        """What lies between a line and the one below it, or the bottom."""
        if not points:
            return
        back = list(reversed(below)) if below else [(points[-1][0], 0.0), (points[0][0], 0.0)]
        path = self._path(points) + self._path(back).replace("M", "L", 1)
        self.parts.append(f'<path d="{path}Z" fill="{colour}" stroke="none"/>')

    def span(self, first: float, last: float, colour: str) -> None:
        """A stretch of time tinted over the whole height."""
        left, right = self.x(first), self.x(last)
        box = f'x="{left:.1f}" y="{TOP}" width="{max(right - left, 0.8):.1f}" height="{self.height - TOP - BOTTOM}"'
        self.parts.append(f'<rect {box} fill="{colour}" fill-opacity="0.22"/>')

    def bar(self, first: float, last: float, low: float, high: float, colour: str, tip: str = "") -> None:
        """A box from one moment to another and from one value to another."""
        left, top = self.x(first), self.y(high)
        width, height = max(self.x(last) - left - 1, 0.8), max(self.y(low) - top, 0.5)
        inside = f"<title>{escape(tip)}</title>" if tip else ""
        box = f'x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}"'
        self.parts.append(f'<rect {box} fill="{colour}">{inside}</rect>')

    def lane(self, row: float, first: float, last: float, thickness: float, colour: str, tip: str) -> None:
        """A bar `row` pixels below the top."""
        left = self.x(first)
        width = max(self.x(last) - left, 0.8)
        box = f'x="{left:.1f}" y="{TOP + row:.1f}" width="{width:.1f}" height="{thickness:.1f}"'
        self.parts.append(f'<rect {box} fill="{colour}"><title>{escape(tip)}</title></rect>')

    def mark(self, row: float, at: float, thickness: float, colour: str, tip: str) -> None:
        """A short upright stroke `row` pixels below the top."""
        box = f'x="{self.x(at) - 1.2:.1f}" y="{TOP + row:.1f}" width="2.4" height="{thickness:.1f}"'
        self.parts.append(f'<rect {box} fill="{colour}"><title>{escape(tip)}</title></rect>')

    def svg(self) -> str:
        """The chart."""
        return _svg(WIDTH, self.height, self.title, self.parts)


def scatter(
    points: Iterable[tuple[str, float, float]], x_label: str, y_label: str, title: str, *, chosen: str = ""
) -> str:
    """Names at places, as SVG. chosen: the name that is emphasised. Labels that would lie on others move down."""
    named = sorted(points, key=lambda point: (point[2], point[1], point[0]), reverse=True)
    height = 360
    most_x = max((x for _, x, _ in named), default=1.0) * 1.05 or 1.0
    most_y = max((y for _, _, y in named), default=1.0)
    least_y = min((y for _, _, y in named), default=0.0)
    margin = 0.15 * (most_y - least_y) or 1.0
    # What differs is to be seen: the vertical axis does not begin at 0, and its figures say so.
    most_y, least_y = most_y + margin, max(0.0, least_y - margin)

    def place(x: float, y: float) -> Point:
        across = LEFT + (WIDTH - LEFT - RIGHT - 130) * x / most_x
        return across, TOP + (height - TOP - BOTTOM - 14) * (most_y - y) / (most_y - least_y)

    parts = []
    for value in nice_ticks(0, most_x, 8):
        x, bottom = place(value, least_y)
        parts.append(f'<path d="M{x:.1f} {TOP}V{bottom:.1f}" stroke="{GRID}"/>')
        parts.append(_text(x, bottom + 17, f"{value:g}", "middle"))
    for value in nice_ticks(least_y, most_y, 5):
        left, y = place(0, value)
        parts.append(f'<path d="M{left} {y:.1f}H{WIDTH - RIGHT - 130}" stroke="{GRID}"/>')
        parts.append(_text(left - 8, y + 4, f"{value:g}", "end"))
    parts.append(_text((LEFT + WIDTH - RIGHT - 130) / 2, height - 6, x_label, "middle"))
    parts.append(
        f'<text transform="translate(13 {height / 2:.0f}) rotate(-90)" text-anchor="middle" fill="{TEXT}">'
        f"{escape(y_label)}</text>"
    )
    taken: list[Point] = []
    for name, x, y in named:
        at_x, at_y = place(x, y)
        label = at_y + 4
        while any(abs(label - other) < 13 and abs(at_x - across) < 120 for across, other in taken):
            label += 3
        taken.append((at_x, label))
        colour = "#b3261e" if name == chosen else "#1f6fb2"
        parts.append(f'<circle cx="{at_x:.1f}" cy="{at_y:.1f}" r="4.5" fill="{colour}"/>')
        if label > at_y + 8:
            parts.append(f'<path d="M{at_x:.1f} {at_y:.1f}L{at_x + 8:.1f} {label - 4:.1f}" stroke="{colour}"/>')
        parts.append(_text(at_x + 9, label, name, "start", colour))
    return _svg(WIDTH, height, title, parts)


def _text(x: float, y: float, text: str, anchor: str, colour: str = TEXT) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{escape(text)}</text>'


def _svg(width: int, height: int, title: str, parts: Iterable[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="sans-serif" font-size="12" role="img" aria-label="{escape(title)}">'
        f'<rect width="{width}" height="{height}" fill="white"/>{"".join(parts)}</svg>'
    )
