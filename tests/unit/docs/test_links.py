"""Every link of a page to another file of the repository, or to a section of it, leads somewhere."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)


def pages() -> list[str]:
    """All pages that are under version control, or about to be."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [name for name in listed.stdout.split() if (ROOT / name).exists()]


def anchors(page: Path) -> set[str]:
    """Return what GitHub calls the sections of a page: lower case, hyphens for spaces, numbered when repeated."""
    found: dict[str, int] = {}
    names = set()
    for heading in HEADING.findall(FENCE.sub("", page.read_text())):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        seen = found.get(name, 0)
        found[name] = seen + 1
        names.add(f"{name}-{seen}" if seen else name)
    return names


def test_anchors(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A `b`, c\n## What it is (not)\n## What it is (not)\n```\n# no heading\n```\n## [x](y.md) z\n")
    assert anchors(page) == {"a-b-c", "what-it-is-not", "what-it-is-not-1", "x-z"}


@pytest.mark.parametrize("name", pages())
def test_links(name: str) -> None:
    page = ROOT / name
    broken = []
    for target in LINK.findall(CODE.sub("", FENCE.sub("", page.read_text()))):
        if re.match(r"[a-z]+:", target):
            continue  # another site, which a test does not ask
        path, _, section = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (section and file.suffix == ".md" and section not in anchors(file)):
            broken.append(target)
    assert not broken
