"""What programs print, compared without what differs from run to run."""

from __future__ import annotations

import re
from typing import Final

ANYTHING: Final = "…"
"""On a page of documentation: a line of its own stands for lines that were left out, and within a line for any text."""

_STAMP = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z?")
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_SPAN = re.compile(r"\b\d+[smhd](\d+[smhd])?\b")
_CPU_TIME = re.compile(r"\b\d[\d.,]* (s|min|h)\b")
_POD = re.compile(r"\b([a-z]+(?:-\d+)*)-[a-z0-9]{5}\b")
_PADDING = re.compile(r" {2,}")


def normalised(text: str) -> list[str]:
    """Lines without what is different in every run: times, spans, uids, names of pods; and the padding they cause."""
    for pattern, word in ((_UID, "UID"), (_STAMP, "TIME"), (_POD, r"\1-POD"), (_SPAN, "SPAN"), (_CPU_TIME, "CPUTIME")):
        text = pattern.sub(word, text)
    return [_PADDING.sub("  ", line).rstrip() for line in text.rstrip("\n").split("\n")]


def as_shown(printed: str, shown: str) -> bool:
    """Whether a program printed what a page shows, both of them normalised, with what the page leaves out."""
    parts = [r"(?:.*\n)*" if line == ANYTHING else _pattern(line) + r"\n" for line in normalised(shown)]
    return re.fullmatch("".join(parts), "\n".join(normalised(printed)) + "\n") is not None


def _pattern(line: str) -> str:
    return ".*".join(map(re.escape, line.split(ANYTHING)))
