"""Draws docs/science.svg: density and self-diffusion of water, as interrupted runs gave them.

python -m docs.draw_science                    write it, from docs/science.json
python -m docs.draw_science --check            exit 1 where it is not what the data says
python -m docs.draw_science DATA PICTURE       the same from and to other files, as `make demo-science` does

The data is what demo-apps/science.py found.
"""

from __future__ import annotations

import importlib
import json
import math
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docs import svg

DEMOS = Path(__file__).resolve().parents[1] / "demo-apps"
if TYPE_CHECKING:
    import science_figures
else:
    sys.path.insert(0, str(DEMOS))
    science_figures = importlib.import_module("science_figures")

DATA = Path(__file__).with_name("science.json")
PICTURE = Path(__file__).with_name("science.svg")
WIDTH, HEIGHT, LEFT, TOP, GAP = 330, 250, 66, 44, 96
COLOURS = {"spce": "#1f6fb2", "tip3p": "#b3261e", "tip4p": "#2e8540"}
NAMES = {"spce": "SPC/E", "tip3p": "TIP3P", "tip4p": "TIP4P"}
GREY = "#767676"
BESIDE = 0.6
"""Kelvin between the points of two models, which would hide each other."""


class Panel:
    """A diagram over the temperature, in kelvin, `number` of two. `ticks`: of the values, from bottom to top."""

    def __init__(self, number: int, title: str, kelvins: tuple[float, float], ticks: list[float]) -> None:
        self.left = LEFT + number * (WIDTH + GAP)
        self.kelvins, self.span = kelvins, (ticks[0], ticks[-1])
        self.parts = [
            svg.text(self.left + WIDTH / 2, TOP - 16, title, size=14, anchor="middle"),
            svg.text(self.left + WIDTH / 2, TOP + HEIGHT + 38, "temperature, K", anchor="middle"),
        ]
        for value in ticks:
            self.line((kelvins[0], value), (kelvins[1], value), "#dddddd")
            self.parts.append(svg.text(self.left - 8, self.y(value) + 4, f"{value:.4g}", anchor="end"))

    def x(self, kelvin: float) -> float:
        """Where a temperature lies."""
        low, high = self.kelvins
        return self.left + WIDTH * (kelvin - low) / (high - low)

    def y(self, value: float) -> float:
        """Where a value lies."""
        low, high = self.span
        return TOP + HEIGHT * (1 - (value - low) / (high - low))

    def line(self, a: tuple[float, float], b: tuple[float, float], colour: str, *, dash: str = "") -> None:
        """A line between points of the diagram."""
        ends = f'x1="{self.x(a[0]):.1f}" y1="{self.y(a[1]):.1f}" x2="{self.x(b[0]):.1f}" y2="{self.y(b[1]):.1f}"'
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(f'<line {ends} stroke="{colour}" stroke-width="1.5"{dashed}/>')

    def kelvin(self, value: float) -> None:
        """A temperature that was studied, on the axis."""
        self.parts.append(svg.text(self.x(value), TOP + HEIGHT + 18, f"{value:g}", anchor="middle"))

    def curve(self, points: Iterable[tuple[float, float]]) -> None:
        """What water is."""
        path = " ".join(f"{self.x(kelvin):.1f},{self.y(value):.1f}" for kelvin, value in points)
        self.parts.append(
            f'<polyline points="{path}" fill="none" stroke="{GREY}" stroke-width="1.5" stroke-dasharray="5 4"/>'
        )

    def measured(self, kelvin: float, value: Any, colour: str) -> None:
        """A value with its error."""
        self.line((kelvin, value.value - value.error), (kelvin, value.value + value.error), colour)
        at = f'cx="{self.x(kelvin):.1f}" cy="{self.y(value.value):.1f}"'
        self.parts.append(f'<circle {at} r="4" fill="{colour}"/>')


def _ticks(values: Iterable[float]) -> list[float]:
    """Round values below, between and above all of these, some five of them."""
    found = list(values)
    rough = (max(found) - min(found)) / 5 or 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    first, last = math.floor(min(found) / step), math.ceil(max(found) / step)
    return [step * number for number in range(first, last + 1)]


def _panel(number: int, title: str, lines: list[Any], of: Callable[[Any], Any], water: dict[float, float]) -> Panel:
    kelvins = sorted({line.temperature for line in lines})
    ends = (kelvins[0] - 5, kelvins[-1] + 5)
    reached = [side for line in lines for side in (of(line).value - of(line).error, of(line).value + of(line).error)]
    shown = {kelvin: value for kelvin, value in water.items() if ends[0] <= kelvin <= ends[1]}
    panel = Panel(number, title, ends, _ticks([*reached, *shown.values()]))
    panel.curve(sorted(shown.items()))
    for kelvin in kelvins:
        panel.kelvin(kelvin)
    models = sorted({line.model for line in lines})
    for line in lines:
        beside = BESIDE * (models.index(line.model) - (len(models) - 1) / 2)
        panel.measured(line.temperature + beside, of(line), COLOURS.get(line.model, "#222222"))
    return panel


def picture(data: dict[str, Any]) -> str:
    """The whole picture as SVG."""
    runs = [science_figures.Run(**run) for run in data["runs"]]
    lines = science_figures.lines(runs)
    kelvins = [line.temperature for line in lines]
    fine = [min(kelvins) - 5 + step * (max(kelvins) - min(kelvins) + 10) / 40 for step in range(41)]
    diffusion = {kelvin: science_figures.diffusion_of_water(kelvin) for kelvin in fine}
    panels = (
        _panel(0, "Density, kg/m³", lines, lambda line: line.density, science_figures.DENSITY_OF_WATER),
        _panel(1, "Self-diffusion, 10⁻⁵ cm²/s", lines, lambda line: line.diffusion, diffusion),
    )
    width, height = LEFT + 2 * WIDTH + GAP + 24, TOP + HEIGHT + 112
    parts = [part for panel in panels for part in panel.parts]
    row = TOP + HEIGHT + 66
    for place, model in enumerate(sorted({line.model for line in lines})):
        parts.append(
            svg.text(LEFT + 80 * place, row, f"● {NAMES.get(model, model)}", colour=COLOURS.get(model, "#222222"))
        )
    parts.append(svg.text(LEFT + 260, row, "- - - water, as measured", colour=GREY))
    interruptions = sum(run.interruptions for run in runs)
    told = (
        f"{len(runs)} runs of {data['molecules']} molecules over {data['picoseconds']:g} ps, interrupted "
        f"{interruptions} times; {science_figures.recomputed_percent(runs):.2g} % of the steps were made more than once"
    )
    parts.append(svg.text(LEFT, row + 24, told))
    return svg.framed(width, height, parts)


def main() -> int:
    """Write or compare the picture; returns the exit code."""
    given = [word for word in sys.argv[1:] if not word.startswith("--")]
    data, target = (Path(word) for word in given) if given else (DATA, PICTURE)
    return svg.main(target, picture(json.loads(data.read_text())), "data", "docs.draw_science")


if __name__ == "__main__":
    sys.exit(main())
