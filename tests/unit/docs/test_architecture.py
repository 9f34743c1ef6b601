"""docs/architecture.md and CONTRIBUTING.md name what is there, and all of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGE, GUIDE = ROOT / "docs" / "architecture.md", ROOT / "CONTRIBUTING.md"
LAYOUT = GUIDE.read_text().partition("## How the code is laid out\n")[2].partition("\n## ")[0]
PATHS = sorted(set(re.findall(r"`([\w.-]+/[\w./-]*)`", PAGE.read_text() + LAYOUT)))
LINKS = sorted((page, link) for page in (PAGE, GUIDE) for link in {*re.findall(r"\]\(([^)#]+)", page.read_text())})
FOLDERS = sorted(
    f"{kind}/{one.name}/" for kind in ("packages", "services") for one in (ROOT / kind).iterdir() if one.is_dir()
)
MOST_STOPS = 8


def in_repository(written: str) -> Path:
    """`api/job.py` is written for `packages/api/src/scavenger_api/job.py`; everything else from the root."""
    name, _, within = written.partition("/")
    for kind in ("packages", "services"):
        package = ROOT / kind / name / "src" / f"scavenger_{name}"
        if package.is_dir():
            return package / within
    return ROOT / written


@pytest.mark.parametrize("written", PATHS)
def test_every_path_exists(written: str) -> None:
    path = in_repository(written)
    assert path.is_dir() if written.endswith("/") else path.is_file()


@pytest.mark.parametrize(("page", "link"), LINKS, ids=str)
def test_every_link_leads_somewhere(page: Path, link: str) -> None:
    assert (page.parent / link).is_file()


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_package_and_service_is_in_the_table(folder: str) -> None:
    assert f"\n| `{folder}` |" in LAYOUT


def test_the_ways_through_the_code_are_short() -> None:
    ways = [way for way in LAYOUT.split("\n### ") if way.startswith("Follow ")]
    assert [way.splitlines()[0] for way in ways] == [
        "Follow a pod event",
        "Follow a sample of load",
        "Follow an admission review",
    ]
    for way in ways:
        stops = re.findall(r"^(\d+)\. ", way, re.MULTILINE)
        assert stops == [str(n) for n in range(1, len(stops) + 1)]
        assert len(stops) <= MOST_STOPS
