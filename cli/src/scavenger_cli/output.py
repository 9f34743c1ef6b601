"""Where output goes and in which form: columns as kubectl has them, JSON, YAML or names; colours on a terminal only."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import typer
from scavenger_api.states import Phase

from scavenger_cli.exits import CliError

if TYPE_CHECKING:
    from rich.console import Console


class Format(StrEnum):
    """-o of a command."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


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


def columns(header: Sequence[str], rows: Iterable[Sequence[str]], *, colour: bool = False) -> list[str]:
    """Rows as lines, columns padded to their widest cell as kubectl does it. A thousand of them in milliseconds.

    colour: mark phases and states, which changes no width.
    """
    table = [list(header), *(list(row) for row in rows)]
    widths = [max(len(row[i]) for row in table) for i in range(len(header))]
    return [_line(row, widths, colour) for row in table]


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
    """A line on standard output."""
    sys.stdout.write(text + "\n")


def note(text: str) -> None:
    """A line on standard error: what is not the answer itself."""
    sys.stderr.write(text + "\n")


def say_error(error: CliError) -> None:
    """The sentence and the remedy."""
    label = (
        typer.style("error:", fg="red", bold=True) if sys.stderr.isatty() and "NO_COLOR" not in os.environ else "error:"
    )
    note(f"{label} {error.message}")
    if error.remedy:
        note(f"  {error.remedy}")


def print_objects(items: Sequence[dict[str, Any]], form: Format, kind: str, *, single: bool) -> None:
    """Objects as JSON, YAML or names, in kubectl's own forms.

    kind: for -o name, where an object does not say it itself. single: one object, not a list of one.
    """
    if form is Format.NAME:
        for item in items:
            say(f"{item.get('kind', kind).lower()}.scavenger.dev/{item['metadata']['name']}")
        return
    whole = items[0] if single else {"apiVersion": "v1", "items": list(items), "kind": "List", "metadata": {}}
    print_data(whole, form)


def print_data(data: Any, form: Format) -> None:
    """Plain data as JSON or YAML."""
    if form is Format.JSON:
        say(json.dumps(data, indent=4, ensure_ascii=False))
        return
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    sys.stdout.write(yaml.dump(data, Dumper=dumper, sort_keys=True, allow_unicode=True, default_flow_style=False))
