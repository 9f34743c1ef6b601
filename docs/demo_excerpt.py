"""Writes the excerpt in docs/demo.md from what `make demo` has printed.

make demo | tee dist/demo.log
python -m docs.demo_excerpt dist/demo.log

The excerpt says which lines; the log has their figures. tests/e2e/test_demo.py fails where the demo prints others.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

PAGE: Final = Path(__file__).with_name("demo.md")
EXCERPT: Final = re.compile(r"^```\n( +\d+\.\d s  .*?)^```\n", re.MULTILINE | re.DOTALL)


def shape(line: str) -> str:
    """A line without what is different each time: figures, which jobs it was, and whether some wait."""
    line = re.sub(r"\b(bio-\d+|fold|sweep)\b((,| and)? (bio-\d+|fold|sweep)\b)*", "JOBS", line)
    line = re.sub(r"[█░|]{30}", "BAR", line)
    line = re.sub(r"(protected)\. Interrupted: .*", r"\1", line)  # or all run again
    line = re.sub(r"\b([a-z]+(?:-\d+)*)-[a-z0-9]{5}\b", r"\1-POD", line)
    return re.sub(r"\d+(\.\d+)?", "0", re.sub(r" {2,}", " ", line)).strip()


def lines_of(page: str) -> list[str]:
    """The lines of the excerpt."""
    (found,) = EXCERPT.findall(page)
    return str(found).splitlines()


def rewritten(page: str, log: str) -> str:
    """The page with the lines of a log in place of its own.

    Args:
        page: its text.
        log: what the demo has printed. Of lines that repeat, the last one is taken.

    Raises:
        ValueError: the log has no such line, or not in this order.
    """
    printed, place, chosen = [line.rstrip() for line in log.splitlines()], -1, []
    for line in lines_of(page):
        place = _last(printed, place + 1, shape(line))
        chosen.append(printed[place])
    return EXCERPT.sub(lambda _: "```\n" + "\n".join(chosen) + "\n```\n", page)


def _last(printed: Sequence[str], begin: int, wanted: str) -> int:
    """The first line of a shape, or the last of those of this shape that follow it."""
    found = next((at for at in range(begin, len(printed)) if shape(printed[at]) == wanted), None)
    if found is None:
        raise ValueError(f"no such line of the demo after line {begin}: {wanted}")
    while found + 1 < len(printed) and shape(printed[found + 1]) == wanted:
        found += 1
    return found


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text(), Path(sys.argv[1]).read_text()))
