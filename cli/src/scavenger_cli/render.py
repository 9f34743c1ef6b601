"""Explanations, details and timelines as text of a given width. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from scavenger_cli.details import Entry
from scavenger_cli.facts import Explanation
from scavenger_cli.words import span

MIN_WIDTH = 40


def pairs(lines: Sequence[tuple[str, str]], width: int, *, indent: str = "") -> list[str]:
    """Label and text in two columns, the text wrapped."""
    label_width = max((len(label) for label, _ in lines), default=0) + 2
    rendered = []
    for label, text in lines:
        head = f"{indent}{label:<{label_width}}"
        rendered += wrap(text, width, first=head, rest=" " * len(head))
    return rendered


def wrap(text: str, width: int, *, first: str = "", rest: str = "") -> list[str]:
    """Lines of at most `width`, words whole where they fit."""
    found = textwrap.wrap(
        text, max(MIN_WIDTH, width), initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
    )
    return found or [first.rstrip()]


def explanation(found: Explanation, width: int) -> list[str]:
    """The sentence, the figures, what helps."""
    lines = wrap(found.headline + ("" if found.headline.endswith(".") else "."), width)
    if found.findings:
        lines += ["", *pairs([(f.label, f.text) for f in found.findings], width, indent="  ")]
    if found.remedies:
        lines += ["", "What helps:"]
        for remedy in found.remedies:
            lines += wrap(remedy, width, first="  - ", rest="    ")
    return lines


def explanation_data(found: Explanation) -> dict[str, Any]:
    """The same for -o json and yaml."""
    return {
        "cause": str(found.cause),
        "headline": found.headline,
        "findings": [{"label": f.label, "text": f.text} for f in found.findings],
        "remedies": list(found.remedies),
    }


def timeline(entries: Sequence[Entry], now: datetime) -> list[str]:
    """A line per entry: the time, how long ago, what happened."""
    lines = []
    for entry in entries:
        at = entry.at.astimezone().strftime("%Y-%m-%d %H:%M:%S") if entry.at else ""
        ago = f"{span((now - entry.at).total_seconds())} ago" if entry.at else ""
        lines.append(f"  {at:<19}  {ago:>10}  {entry.what}")
    return lines
