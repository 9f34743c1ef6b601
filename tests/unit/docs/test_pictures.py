"""The diagrams of the documentation are what their code and their data say."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from docs import pictures


@pytest.mark.parametrize("name", pictures.PICTURES)
def test_a_picture_is_what_its_source_says(name: str) -> None:
    kept = (pictures.DOCS / f"{name}.svg").read_text()
    assert pictures.svg(name) == kept
    assert ElementTree.fromstring(kept).tag.endswith("svg")


@pytest.mark.slow
def test_a_picture_of_yesterday_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "DOCS", tmp_path)
    monkeypatch.setattr(pictures, "PICTURES", {"levels": pictures.levels})

    assert pictures.main(["--check"]) == 1
    assert pictures.main([]) == 0
    assert pictures.main(["--check"]) == 0
    (tmp_path / "levels.svg").write_text("of yesterday")
    assert pictures.main(["--check"]) == 1


def test_the_study_is_drawn_from_and_to_other_files(tmp_path: Path) -> None:
    assert pictures.main(["science", str(pictures.DOCS / "science.json"), str(tmp_path / "a.svg")]) == 0
    assert (tmp_path / "a.svg").read_text() == (pictures.DOCS / "science.svg").read_text()
