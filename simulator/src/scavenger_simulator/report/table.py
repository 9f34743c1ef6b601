"""Policies side by side, as text for a terminal and as Markdown for a page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from scavenger_simulator.report.figures import Figures, Study

NOTHING: Final = "-"


def number(value: float | None, digits: int = 0) -> str:
    """With a fixed number of digits, and blanks between thousands; a dash for none."""
    if value is None:
        return NOTHING
    text = f"{value:,.{digits}f}".replace(",", " ")
    return text.removeprefix("-") if not text.strip("-0.") else text


def seconds(value: float | None) -> str:
    """Seconds in the unit that suits them: 12 s, 3.4 min, 5.6 h."""
    if value is None:
        return NOTHING
    if value < 120:
        return f"{value:.0f} s"
    return f"{value / 60:.1f} min" if value < 7200 else f"{value / 3600:.1f} h"


COLUMNS: Final[tuple[tuple[str, Callable[[Figures], str]], ...]] = (
    ("policy", lambda f: f.policy),
    ("use %", lambda f: number(f.utilisation, 1)),
    ("harvested", lambda f: number(f.harvested)),
    ("useful", lambda f: number(f.useful)),
    ("lost", lambda f: number(f.lost, 1)),
    ("work", lambda f: number(f.progress)),
    ("done", lambda f: number(f.completed)),
    ("above upper", lambda f: f"{f.above_upper} ({f.above_upper_ordinary})"),
    ("evicted", lambda f: number(f.evictions)),
    ("yielded", lambda f: number(f.yields)),
    ("preempted", lambda f: number(f.preemptions)),
    ("÷ fewest", lambda f: number(f.victims_ratio, 2)),
    ("delayed", lambda f: number(f.delayed)),
    ("p50", lambda f: seconds(f.delay_p50)),
    ("p99", lambda f: seconds(f.delay_p99)),
    ("flips", lambda f: number(f.admit_flips)),
    ("starved", lambda f: number(f.starved)),
)
"""Of the table of policies; docs/simulator.md says what they mean."""

_SIZE_HEADER: Final = ("policy", "core-hours", "jobs", "done", "starved", "waited p50", "p99", "slowdown p50", "p99")


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines with columns as wide as their widest cell; numbers to the right, the first column to the left."""
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    return [
        "  ".join(
            cell.rjust(width) if i else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (header, *rows)
    ]


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The same in Markdown."""
    return [f"| {' | '.join(row)} |" for row in (header, ["---", *["---:"] * (len(header) - 1)], *rows)]


def policy_rows(study: Study) -> list[list[str]]:
    """Of COLUMNS, a row for each run."""
    return [[show(one) for _, show in COLUMNS] for one in study.figures()]


def size_rows(study: Study) -> tuple[Sequence[str], list[list[str]]]:
    """Header and rows of jobs by size under each policy that ran any: waiting, slowdown, starvation."""
    rows = [
        [
            one.policy,
            size.core_hours,
            number(size.jobs),
            number(size.completed),
            number(size.starved),
            seconds(size.waited_p50),
            seconds(size.waited_p99),
            number(size.slowdown_p50, 2),
            number(size.slowdown_p99, 2),
        ]
        for one in study.figures()
        if one.harvested > 0
        for size in one.sizes
    ]
    return _SIZE_HEADER, rows


def facts(study: Study) -> str:
    """What the scenario is, in a sentence."""
    hours = (study.end - study.start) / 3600
    return (
        f"{study.nodes} nodes with {number(study.cores)} cores for {number(hours, 1)} h, "
        f"{number(study.ordinary_pods)} regular pods, {number(study.jobs)} jobs that ask for "
        f"{number(study.demand)} core-hours"
    )


def without(study: Study) -> str:
    """What is used without jobs, in a sentence; empty without runs."""
    found = study.figures()
    return f"without scavenging {found[0].utilisation_without:.1f} % of CPU is used" if found else ""


def as_text(study: Study, *, sizes: bool = True) -> str:
    """For a terminal."""
    blocks = [
        [f"{study.scenario}: {facts(study)}", f"  {study.origin}", f"  {without(study)}; core-hours, numbers of jobs"],
        text_table([name for name, _ in COLUMNS], policy_rows(study)),
    ]
    if sizes:
        header, rows = size_rows(study)
        blocks.append(text_table(header, _grouped(rows)))
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def _grouped(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """A policy is named in its first row only."""
    found, before = [], None
    for row in rows:
        found.append(["" if row[0] == before else row[0], *row[1:]])
        before = row[0]
    return found


def as_markdown(study: Study) -> str:
    """For docs/simulator.md: the table of policies with a heading."""
    rows = markdown_table([name for name, _ in COLUMNS], policy_rows(study))
    lines = [f"### {study.scenario}", "", f"{facts(study)}; {without(study)}.", f"{study.origin}.", "", *rows]
    return "\n".join(lines) + "\n"
