"""Draws the diagrams of the documentation: docs/levels.svg, gain.svg, science.svg and dashboards.svg.

python -m docs.pictures                          write them, from the code of the regulator and from docs/*.json
python -m docs.pictures --check                  exit 1 where one is not what its code or its data says
python -m docs.pictures science DATA PICTURE     the study, from and to other files, as `make demo-science` does

`make gain`, `make demo-science` and `python -m docs.record_day` measure the data.
"""

from __future__ import annotations

import importlib
import io
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scavenger_regulator.core.levels import (
    FLOOR,
    INITIAL,
    WaterLevels,
    apart,
    linear_percentage,
    preemptible_percentage,
    water_levels,
)
from scavenger_regulator.core.rules import Rules

from docs.gain_table import SHOWN_DAY

DOCS: Final = Path(__file__).parent
if TYPE_CHECKING:
    import science_figures
else:
    sys.path.insert(0, str(DOCS.parent / "demo-apps"))
    science_figures = importlib.import_module("science_figures")

INK, GRID, GREY = "#222222", "#dddddd", "#767676"
BLUE, GREEN, RED, BROWN, SILVER = "#1f6fb2", "#2e8540", "#b3261e", "#8a5a00", "#9aa5b1"
STYLE: Final[dict[Any, Any]] = {
    "font.family": "DejaVu Sans",
    "font.size": 12.0,
    "text.color": INK,
    "axes.edgecolor": GRID,
    "axes.labelcolor": INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 14.0,
    "axes.titlepad": 12.0,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "axes.spines.left": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.ymargin": 0.0,
    "axes.xmargin": 0.0,
    "grid.color": GRID,
    "xtick.color": GRID,
    "xtick.labelcolor": INK,
    "ytick.major.size": 0.0,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
    "legend.borderaxespad": 0.0,
    "lines.linewidth": 2.0,
    "figure.dpi": 72.0,  # a point is a pixel
    "svg.fonttype": "none",
    "svg.hashsalt": "scavenger",
}
DARK: Final = "@media (prefers-color-scheme: dark) {#figure_1 {filter: invert(.9) hue-rotate(180deg)}}"
"""Readers of a dark page see dark pictures, with the hues of the light ones."""
WITHOUT: Final = dict.fromkeys(("Creator", "Date", "Format", "Type"))
"""What a picture does not say of itself, or each day would have its own."""
RESERVE: Final = 20.0
HOUR: Final = 3600.0
MODELS: Final = {"spce": ("SPC/E", BLUE), "tip3p": ("TIP3P", RED), "tip4p": ("TIP4P", GREEN)}
BESIDE: Final = 0.6
"""Kelvin between the points of two models, which would hide each other."""


def panels(width: int, height: int, rows: int, columns: int, **places: Any) -> tuple[Figure, list[Axes]]:
    """An empty picture, pixels wide and high, with its diagrams row by row. places: as of subplots_adjust."""
    figure = Figure(figsize=(width / 72, height / 72))
    found = figure.subplots(rows, columns, squeeze=False, gridspec_kw=places)
    return figure, [axes for row in found for axes in row]


def hours(axes: Axes, last: float) -> None:
    """The time of a day below a diagram. last: hours."""
    axes.set_xlim(0, last)
    axes.set_xticks(range(0, round(last) + 1, 4), [f"{hour} h" for hour in range(0, round(last) + 1, 4)])


def levels() -> Figure:
    """The preemptible percentage over the load, and the thresholds over the deviation of the regular load."""
    figure, (left, right) = panels(860, 430, 1, 2, left=0.075, right=0.975, top=0.88, bottom=0.15, wspace=0.22)
    loads = [half / 2 for half in range(201)]

    def percentage(of: Callable[[float, WaterLevels], float], at: WaterLevels, label: str, **line: Any) -> None:
        left.plot(loads, [of(load, at) for load in loads], label=label, **line)

    for stdev, colour in ((5.0, BLUE), (10.0, GREEN), (20.0, RED)):
        percentage(preemptible_percentage, water_levels(50, stdev, RESERVE), f"stdev {stdev:g}", color=colour)
    percentage(linear_percentage, INITIAL, "policy linear", color=GREY, linestyle="--")
    left.annotate(f"floor {FLOOR:g}", (4, FLOOR - 6))
    left.set(title="Preemptible percentage", xlabel="load, %", ylabel="% of the running jobs", xlim=(0, 100))

    deviations = [half / 2 for half in range(101)]
    margin = Rules().admission_margin
    at = [apart(water_levels(50, stdev, RESERVE), margin) for stdev in deviations]  # as the regulator publishes them
    right.plot(deviations, [one.upper for one in at], color=RED, label="eviction threshold (upper)")
    right.plot(deviations, [one.admission for one in at], "--", color=GREEN, label="admission threshold")
    right.plot(deviations, [one.lower for one in at], color=BLUE, label="low watermark (lower)")
    title, below = f"Thresholds, with a reserve of {RESERVE:g} %", "stdev of the load of regular pods, %"
    right.set(title=title, xlabel=below, ylabel="load, %", xlim=(0, 50))
    left.legend(loc="upper left", labelcolor="linecolor", borderaxespad=0.8)
    right.legend(loc="lower left", labelcolor="linecolor", borderaxespad=0.8)
    for axes in (left, right):
        axes.set_ylim(0, 101)
    return figure


def gain(data: dict[str, Any]) -> Figure:
    """CPU in use on a day, and what was lost on an average day and on each."""
    figure, (left, right) = panels(
        940, 330, 1, 2, left=0.045, right=0.985, top=0.86, bottom=0.15, wspace=0.14, width_ratios=(2.4, 1)
    )
    regular, ours = data["course"]["ordinary"], data["course"]["ours"]
    every = data["every"] / HOUR
    scavenged = [both - one for both, one in zip(ours, regular, strict=True)]
    at = [every * (number + 0.5) for number in range(len(ours))]
    left.stackplot(at, regular, scavenged, colors=(SILVER, BLUE), labels=("regular pods", "scavenger jobs"))
    left.set(
        title=f"CPU in use on the day {SHOWN_DAY}, % of {data['days'][SHOWN_DAY]['cores']:,.0f} cores", ylim=(0, 100)
    )
    left.legend(loc="upper left", borderaxespad=0.5)
    hours(left, every * len(ours))

    ways = {"plain": ("plain Jobs", RED), "ours": ("scavenger jobs", BLUE)}
    lost = {policy: [run["lost"] for run in data["runs"] if run["policy"] == policy] for policy in ways}
    means = [fmean(values) for values in lost.values()]
    right.bar(range(len(ways)), means, width=0.8, color=[colour for _, colour in ways.values()])
    for place, values in enumerate(lost.values()):
        beside = [place + 0.12 * (number % 3 - 1) for number in range(len(values))]  # equal days hide each other
        dots = right.plot(beside, values, "o", color=INK, markeredgecolor="white", markersize=7, clip_on=False)
    right.set_title("Core-hours lost in a day")
    names = [f"{name}\nmean {mean:.1f}" for (name, _), mean in zip(ways.values(), means, strict=True)]
    right.set_xticks(range(len(ways)), names)
    right.set_xlim(-0.55, 1.55)
    right.set_ylim(0, 1.05 * max(max(values) for values in lost.values()))
    right.legend(dots, [f"one of {len(data['days'])} days"], loc="upper right")
    return figure


def science(data: dict[str, Any]) -> Figure:
    """Density and self-diffusion of water, as interrupted runs gave them, beside those of water."""
    runs = [science_figures.Run(**run) for run in data["runs"]]
    lines = science_figures.lines(runs)
    kelvins = sorted({line.temperature for line in lines})
    ends = (kelvins[0] - 5, kelvins[-1] + 5)
    density = {k: value for k, value in science_figures.DENSITY_OF_WATER.items() if ends[0] <= k <= ends[1]}
    fine = [ends[0] + step * (ends[1] - ends[0]) / 40 for step in range(41)]
    diffusion = {kelvin: science_figures.diffusion_of_water(kelvin) for kelvin in fine}

    figure, (left, right) = panels(860, 410, 1, 2, left=0.075, right=0.975, top=0.88, bottom=0.27, wspace=0.2)
    models = sorted({line.model for line in lines})
    for axes, title, what, water in (
        (left, "Density, kg/m³", "density", density),
        (right, "Self-diffusion, 10⁻⁵ cm²/s", "diffusion", diffusion),
    ):
        for number, model in enumerate(models):
            name, colour = MODELS.get(model, (model, INK))
            beside = BESIDE * (number - (len(models) - 1) / 2)
            shown = [(line.temperature + beside, getattr(line, what)) for line in lines if line.model == model]
            axes.errorbar(
                [kelvin for kelvin, _ in shown],
                [one.value for _, one in shown],
                [one.error for _, one in shown],
                fmt="o",
                color=colour,
                label=name,
                elinewidth=1.5,
            )
        axes.plot(
            *zip(*sorted(water.items()), strict=True), "--", color=GREY, linewidth=1.5, label="water, as measured"
        )
        axes.set_title(title)
        axes.set_xlabel("temperature, K")
        axes.set_xlim(ends)
        axes.set_xticks(kelvins)
        axes.margins(y=0.1)
    right.set_ylim(0)
    names = left.get_legend_handles_labels()
    figure.legend(*names, loc="lower left", bbox_to_anchor=(0.07, 0.09), ncols=4)
    told = (
        f"{len(runs)} runs of {data['molecules']} molecules over {data['picoseconds']:g} ps, interrupted "
        f"{sum(run.interruptions for run in runs)} times; "
        f"{science_figures.recomputed_percent(runs):.2g} % of the steps were made more than once"
    )
    figure.text(0.075, 0.035, told)
    return figure


def dashboards(data: dict[str, Any]) -> Figure:
    """Panels of the dashboards, with what they show of a day."""
    figure, found = panels(980, 620, 2, 2, left=0.05, right=0.985, top=0.94, bottom=0.12, wspace=0.13, hspace=0.62)
    for axes, panel in zip(found, data["panels"], strict=True):
        names = [one["name"] for one in panel["series"]]
        values = [one["values"] for one in panel["series"]]
        at = [data["every"] / HOUR * number for number in range(len(values[0]))]
        colours = (BLUE, GREEN, GREY, BROWN, RED)[: len(names)]
        if panel["stacked"]:
            axes.stackplot(at, *values, labels=names, colors=colours)
        else:
            for name, line, colour in zip(names, values, colours, strict=True):
                axes.plot(at, line, "--" if name.startswith("level") else "-", label=name, color=colour, linewidth=1.6)
        axes.set_title(f"{panel['board'].capitalize()}: {panel['title']}")
        axes.margins(y=0.05)
        axes.set_ylim(0)
        if panel["unit"] == "percentunit":
            axes.set_ylim(0, 1)
            axes.yaxis.set_major_formatter("{x:.0%}")
        hours(axes, at[-1])
        axes.legend(loc="upper left", bbox_to_anchor=(0, -0.13), ncols=3, fontsize=11)
    return figure


PICTURES: Final[dict[str, Callable[..., Figure]]] = {
    "levels": levels,
    "gain": gain,
    "science": science,
    "dashboards": dashboards,
}


def svg(name: str, data: Path | None = None) -> str:
    """A picture as text, the same for the same data. data: of another file than its own."""
    source = data or DOCS / f"{name}.json"
    with mpl.rc_context(STYLE):
        figure = PICTURES[name](*([json.loads(source.read_text())] if source.exists() else []))
        drawn = io.StringIO()
        figure.savefig(drawn, format="svg", metadata=WITHOUT)
    found = re.sub(r"\d+\.\d{3,}", lambda digits: f"{float(digits[0]):.2f}", drawn.getvalue())
    found = re.sub(r"\s*\n\s*+(?!<(?:path|text|/svg))", " ", found)  # each path and each text has a line
    for old, new in (('pt"', '"'), ("'DejaVu Sans'", "sans-serif"), ("</style>", f"{DARK}</style>")):
        found = found.replace(old, new)
    return found.strip() + "\n"


def main(words: list[str]) -> int:
    """Write or compare the pictures; returns the exit code."""
    if words[:1] == ["science"]:
        Path(words[2]).write_text(svg("science", Path(words[1])))
        return 0
    code = 0
    for name in PICTURES:
        picture, drawn = DOCS / f"{name}.svg", svg(name)
        if "--check" not in words:
            picture.write_text(drawn)
        elif not picture.exists() or picture.read_text() != drawn:
            sys.stderr.write(f"{picture} is not what its source says: run python -m docs.pictures\n")
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
