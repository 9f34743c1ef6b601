"""docs/architecture.md names what is there, and all of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "architecture.md"
TEXT = PAGE.read_text()
PATHS = sorted(set(re.findall(r"`([\w.-]+/[\w./-]*)`", TEXT)))
LINKS = sorted(set(re.findall(r"\]\(([^)#]+)", TEXT)))
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


@pytest.mark.parametrize("link", LINKS)
def test_every_link_leads_somewhere(link: str) -> None:
    assert (PAGE.parent / link).is_file()


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_package_and_service_is_in_the_table(folder: str) -> None:
    assert f"\n| `{folder}` |" in TEXT


def test_the_ways_through_the_code_are_short() -> None:
    ways = TEXT.split("\n### ")[1:]
    assert [way.splitlines()[0] for way in ways] == [
        "Follow a pod event",
        "Follow a sample of load",
        "Follow an admission review",
    ]
    for way in ways:
        stops = re.findall(r"^(\d+)\. ", way.partition("\n## ")[0], re.MULTILINE)
        assert stops == [str(n) for n in range(1, len(stops) + 1)]
        assert len(stops) <= MOST_STOPS
