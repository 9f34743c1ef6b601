"""The pages of the documentation as a site: `python -m tools.docs_site` writes their sources into dist/docs-source.

The design notes have a list. Links that show the name of a page show its title. Links to other files of the repository
lead to the code at `SCAVENGER_REPOSITORY`, such as https://forge.example.com/scavenger/blob/v0.1.0. Without that
address they become text, as a site has pages only. `make docs` builds the site (mkdocs.yml).
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
DOCS: Final = ROOT / "docs"
SOURCE: Final = ROOT / "dist" / "docs-source"
PICTURES: Final = (".svg", ".png")
FRONT: Final = DOCS / "index.md"
CODE: Final = "SCAVENGER_REPOSITORY"
"""Variable of the environment with the address of the code, to which a path is added."""

_NAME: Final = re.compile(r"(?:docs/)?(?:designs/)?(?:[\w-]+\.md|\d{4})")
"""Words of a link that are the name of a page."""
_LINK: Final = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")


def pages() -> dict[Path, Path]:
    """Where each file of the repository is on the site: paths from the root to paths from the site."""
    found = {Path("README.md"): FRONT.relative_to(DOCS)}
    for path in sorted(DOCS.rglob("*")):
        if path.suffix in (".md", *PICTURES):
            found[path.relative_to(ROOT)] = path.relative_to(DOCS)
    return found


def page(text: str, here: Path, found: dict[Path, Path], titles: Mapping[Path, str], code: str = "") -> str:
    """The text of a page as the site has it.

    Args:
        text: in the repository.
        here: path of the page from the root.
        found: as `pages` gives it.
        titles: of the pages, by their paths from the root.
        code: address of the code; empty: links to files that are no pages become text.
    """

    def linked(match: re.Match[str]) -> str:
        picture, words, address = match.groups()
        target, mark, anchor = address.partition("#")
        if not target or "://" in target:
            return match[0]
        path = Path(os.path.normpath(here.parent / target))
        there = found.get(path)
        if there is None:
            return f"[{words}]({code.rstrip('/')}/{path}{mark}{anchor})" if code else str(words)
        shown = os.path.relpath(there, found[here].parent)
        named = titles.get(path, words) if _NAME.fullmatch(words) else words
        return f"{picture}[{named}]({shown}{mark}{anchor})"

    return _LINK.sub(linked, text)


def titles_of(found: Iterable[Path]) -> dict[Path, str]:
    """The first heading of each page, by its path from the root."""
    texts = {path: (ROOT / path).read_text() for path in found if path.suffix == ".md"}
    headings = ((path, re.search(r"^# (.+)$", text, re.MULTILINE)) for path, text in texts.items())
    return {path: heading[1] for path, heading in headings if heading}


def designs(titles: Mapping[Path, str]) -> str:
    """The page that lists the design notes."""
    notes = sorted(path for path in titles if path.parent == Path("docs/designs"))
    return "# Design notes\n\n" + "".join(f"- [{titles[note]}]({note.name})\n" for note in notes)


def main() -> int:
    """Write the sources. Returns the exit code."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    found = pages()
    titles, code = titles_of(found), os.environ.get(CODE, "")
    for source, there in found.items():
        if there == found[Path("README.md")] and ROOT / source != FRONT:
            continue  # the site has a first page of its own
        target = SOURCE / there
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix in PICTURES:
            shutil.copy(ROOT / source, target)
        else:
            target.write_text(page((ROOT / source).read_text(), source, found, titles, code))
    (SOURCE / "designs" / "index.md").write_text(designs(titles))
    return 0


if __name__ == "__main__":
    sys.exit(main())
