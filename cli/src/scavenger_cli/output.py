"""Where output goes: columns as kubectl has them, lines, errors; colours on a terminal only."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import typer
from scavenger_api.states import Phase
from scavenger_domain.plain_text import plain

from scavenger_cli.exits import CliError

if TYPE_CHECKING:
    from rich.console import Console


PHASE_STYLES: Final = {
    Phase.RUNNING: "green",
    Phase.STARTING: "cyan",
    Phase.INTERRUPTED: "yellow",
    Phase.SUSPENDED: "bright_black",
    Phase.COMPLETED: "blue",
    Phase.FAILED: "red",
    "Open": "green",
    "Closed": "yellow",
    "Releasing": "red",
}

_COLUMN_GAP: Final = "   "


def colourful() -> bool:
    """Whether standard output is a terminal that wants colours (https://no-color.org)."""
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def console(*, width: int | None = None) -> Console:
    """rich's console on standard output; loaded only by who draws something."""
    from rich.console import Console

    return Console(width=width, highlight=False, no_color=not colourful(), emoji=False, markup=False, soft_wrap=False)


def columns(
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    colour: bool = False,
    headers: bool = True,
    widths: list[int] | None = None,
) -> list[str]:
    """Rows as lines, columns padded to their widest cell as kubectl does it. A thousand of them in milliseconds.

    colour: mark phases and states, which changes no width. headers: begin with the header. widths: what the columns
    take at least; set to what they take now, for rows that are printed under these later.
    """
    table = [*([list(header)] if headers else []), *([plain(cell) for cell in row] for row in rows)]
    least = widths or [0] * len(header)
    found = [max(least[i], *(len(row[i]) for row in table)) if table else least[i] for i in range(len(header))]
    if widths is not None:
        widths[:] = found
    return [_line(row, found, colour) for row in table]


def _line(row: Sequence[str], widths: Sequence[int], colour: bool) -> str:
    cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
    line = _COLUMN_GAP.join(cells).rstrip()
    if not colour:
        return line
    for cell in row:
        if cell in PHASE_STYLES:
            return line.replace(cell, typer.style(cell, fg=PHASE_STYLES[cell]), 1)
    return line


def say(text: str = "") -> None:
    """A line on standard output. What others wrote is no more than text in it."""
    sys.stdout.write(plain(text) + "\n")


def say_styled(text: str, word: str, colour: str) -> None:
    """Lines on standard output whose first such word has a colour, on a terminal that wants colours."""
    shown = plain(text)
    sys.stdout.write((shown.replace(word, typer.style(word, fg=colour), 1) if colourful() else shown) + "\n")


def note(text: str) -> None:
    """A line on standard error: what is not the answer itself."""
    sys.stderr.write(plain(text) + "\n")


def say_error(error: CliError) -> None:
    """The sentence and the remedy."""
    label = (
        typer.style("error:", fg="red", bold=True) if sys.stderr.isatty() and "NO_COLOR" not in os.environ else "error:"
    )
    sys.stderr.write(f"{label} ")
    note(error.message)
    if error.remedy:
        note(f"  {error.remedy}")
