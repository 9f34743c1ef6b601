"""The pages of the documentation as a site: `python -m tools.docs_site` writes their sources into dist/docs-source.

The README is the first page, the design notes have a list, and links to files that are no pages become text, as a site
has pages only. `make docs` builds them (mkdocs.yml).
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
DOCS: Final = ROOT / "docs"
SOURCE: Final = ROOT / "dist" / "docs-source"
PICTURES: Final = (".svg", ".png")

_LINK: Final = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")


def pages() -> dict[Path, Path]:
    """Where each file of the repository is on the site: paths from the root to paths from the site."""
    found = {Path("README.md"): Path("index.md")}
    for path in sorted(DOCS.rglob("*")):
        if path.suffix in (".md", *PICTURES):
            found[path.relative_to(ROOT)] = path.relative_to(DOCS)
    return found


def page(text: str, here: Path, found: dict[Path, Path]) -> str:
    """The text of a page as the site has it. here: its path from the root."""

    def linked(match: re.Match[str]) -> str:
        picture, words, address = match.groups()
        target, mark, anchor = address.partition("#")
        if not target or "://" in target:
            return match[0]
        there = found.get(Path(os.path.normpath(here.parent / target)))
        if there is None:
            return str(words)
        shown = os.path.relpath(there, found[here].parent)
        return f"{picture}[{words}]({shown}{mark}{anchor})"

    return _LINK.sub(linked, text)


def designs() -> str:
    """The page that lists the design notes."""
    notes = sorted((DOCS / "designs").glob("*.md"))
    titles = [(note.name, note.read_text().partition("\n")[0].removeprefix("# ")) for note in notes]
    return "# Design notes\n\n" + "".join(f"- [{title}]({name})\n" for name, title in titles)


def main() -> int:
    """Write the sources. Returns the exit code."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    found = pages()
    for source, there in found.items():
        target = SOURCE / there
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix in PICTURES:
            shutil.copy(ROOT / source, target)
        else:
            target.write_text(page((ROOT / source).read_text(), source, found))
    (SOURCE / "designs" / "index.md").write_text(designs())
    return 0


if __name__ == "__main__":
    sys.exit(main())
