"""Writes the tables of docs/designs/0024-what-was-asked-for.md from docs/designs/demands.yaml.

python -m tools.demands --write
python -m tools.demands --check     exits with 1 where the page is out of date
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from tools import generated as generated_files
from tools.generated import ROOT

SOURCE: Final = ROOT / "docs" / "designs" / "demands.yaml"
PAGE: Final = ROOT / "docs" / "designs" / "0024-what-was-asked-for.md"
BEGIN: Final = "<!-- demands: made by `python -m tools.demands --write`; do not edit -->\n"
END: Final = "<!-- end of the demands -->\n"
DONE: Final = "done"
STATES: Final = {
    DONE: "as asked",
    "differs": "built in another way, for the reason given",
    "open": "not built yet",
}


@dataclass(frozen=True, slots=True)
class Demand:
    """A point that was asked for.

    Attributes:
        key: a letter for the document, and a number, such as A28.
        text: what was asked for.
        state: one of STATES.
        tests: what proves it, each as PATH::NAME under tests/.
        why: the reason of a state other than done, or a note; empty for none.
    """

    key: str
    text: str
    state: str
    tests: Sequence[str] = ()
    why: str = ""


@dataclass(frozen=True, slots=True)
class Document:
    """A document with demands.

    Attributes:
        group: its letter.
        title: what it is about.
        demands: in its order.
    """

    group: str
    title: str
    demands: Sequence[Demand] = field(default_factory=tuple)


def read(path: Path = SOURCE) -> list[Document]:
    """All documents. Raises OSError, or yaml.YAMLError, KeyError and TypeError for a file of another form."""
    rows: list[Mapping[str, Any]] = yaml.safe_load(path.read_text())
    return [Document(row["group"], row["title"], tuple(Demand(**each) for each in row["rows"])) for row in rows]


def problems(documents: Iterable[Document], known: frozenset[str]) -> list[str]:
    """What is wrong with the table. known: all tests, as PATH::NAME."""
    found = []
    for demand in (each for document in documents for each in document.demands):
        if demand.state not in STATES:
            found.append(f"{demand.key}: the state {demand.state!r} is none of {', '.join(STATES)}")
        elif demand.state == DONE and not demand.tests:
            found.append(f"{demand.key}: done, and no test proves it")
        elif demand.state != DONE and not demand.why:
            found.append(f"{demand.key}: {demand.state}, and the reason is missing")
        found += [f"{demand.key}: there is no test {test}" for test in demand.tests if test not in known]
    return found


def rendered(documents: Sequence[Document]) -> str:
    """The tables as Markdown."""
    lines = ["| document | demands | " + " | ".join(STATES) + " |", "| --- | --- |" + " --- |" * len(STATES)]
    for document in documents:
        counts = Counter(each.state for each in document.demands)
        lines.append(_row([f"{document.group}: {document.title}", str(len(document.demands)), *_numbers(counts)]))
    total = Counter(each.state for document in documents for each in document.demands)
    lines += [_row(["together", str(total.total()), *_numbers(total)]), ""]
    lines += [f"- **{state}**: {meaning}." for state, meaning in STATES.items()]
    for document in documents:
        lines += ["", f"### {document.group}: {document.title}", "", "| | asked for | state | proven by |"]
        lines += ["| --- | --- | --- | --- |", *map(_of, document.demands)]
    return "\n".join(lines) + "\n"


def _numbers(counts: Mapping[str, int]) -> list[str]:
    return [str(counts.get(state, 0)) for state in STATES]


def _of(demand: Demand) -> str:
    state = f"**{demand.state}**" + (f": {demand.why}" if demand.why else "")
    return _row([demand.key, demand.text, state, "<br>".join(f"`{test}`" for test in demand.tests)])


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"


def page(text: str, documents: Sequence[Document]) -> str:
    """The page with the tables of these documents. Raises ValueError where it has no place for them."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PAGE.name} lacks a line {(END if begin else BEGIN).strip()}")
    return f"{before}{BEGIN}{rendered(documents)}{END}{after}"


def generated() -> dict[Path, str]:
    """The page, with its tables made anew."""
    return {PAGE: page(PAGE.read_text(), read())}


def main(words: list[str] | None = None) -> int:
    """Write the page, or compare it; returns the exit code."""
    return generated_files.main("tools.demands", __doc__ or "", generated, words)


if __name__ == "__main__":
    sys.exit(main())
