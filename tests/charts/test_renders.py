"""helm runs once for what it has printed before, and again after any change of what it reads."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from . import renders

PROGRAM = """#!/bin/sh
echo run >> "$(dirname "$0")/runs"
echo "$@"; cat; cat "$2/charts/library/file"; echo said >&2
exit 3
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """In the place of helm: prints what it is given and a file of its chart, and counts its runs."""
    monkeypatch.setenv("SCAVENGER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(renders, "ROOT", tmp_path / "checkout")
    renders._folder.cache_clear()
    renders._content.cache_clear()
    file = tmp_path / "program"
    file.write_text(PROGRAM)
    file.chmod(0o755)
    for chart in ("checkout/chart", "outside/chart"):
        (tmp_path / chart / "charts").mkdir(parents=True)
        (tmp_path / chart / "charts" / "library").symlink_to(tmp_path / "checkout" / "library")
    (tmp_path / "checkout" / "library").mkdir()
    (tmp_path / "checkout" / "library" / "file").write_text("first\n")
    yield file
    renders._folder.cache_clear()
    renders._content.cache_clear()


def runs(program: Path) -> int:
    return len((program.parent / "runs").read_text().splitlines())


def test_the_second_time_the_same_is_there_without_a_run(program: Path) -> None:
    chart = program.parent / "checkout" / "chart"
    first, second = (renders.run(program, "template", chart, "--x", stdin="values\n") for _ in range(2))
    assert runs(program) == 1
    assert (first.returncode, first.stdout, first.stderr) == (3, f"template {chart} --x\nvalues\nfirst\n", "said\n")
    assert (second.returncode, second.stdout, second.stderr) == (first.returncode, first.stdout, first.stderr)


def test_whatever_helm_reads_makes_another_run(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkout = program.parent / "checkout"
    chart = checkout / "chart"
    renders.run(program, "template", chart)
    renders.run(program, "template", chart, "--x")
    renders.run(program, "template", chart, stdin="values")
    monkeypatch.setenv("HELM_DEBUG", "true")
    renders.run(program, "template", chart)
    monkeypatch.delenv("HELM_DEBUG")
    assert runs(program) == 4
    (checkout / "library" / "file").write_text("second\n")  # behind a link
    renders._content.cache_clear()
    assert renders.run(program, "template", chart).stdout.endswith("second\n")
    (checkout / "values.yaml").write_text("a: 1")
    renders.run(program, "template", chart, f"--values={checkout / 'values.yaml'}")
    (checkout / "values.yaml").write_text("a: 2")
    renders._content.cache_clear()
    renders.run(program, "template", chart, f"--values={checkout / 'values.yaml'}")
    assert runs(program) == 7


def test_nothing_is_kept_of_charts_that_tests_make(program: Path) -> None:
    for _ in range(2):
        renders.run(program, "template", program.parent / "outside" / "chart")
    assert runs(program) == 2


def test_a_torn_file_is_written_again(program: Path) -> None:
    chart = program.parent / "checkout" / "chart"
    renders.run(program, "template", chart)
    (file,) = (program.parent / "cache" / "renders").iterdir()
    file.write_bytes(file.read_bytes()[:-1])
    for _ in range(2):
        assert renders.run(program, "template", chart).stdout.endswith("first\n")
    assert runs(program) == 2


def test_what_was_not_used_for_long_goes(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renders, "KEPT", 2)
    chart = program.parent / "checkout" / "chart"
    for number in range(3):
        renders.run(program, "template", chart, str(number))
        for file in (program.parent / "cache" / "renders").iterdir():
            os.utime(file, (file.stat().st_atime, file.stat().st_mtime - 10))
    renders.run(program, "template", chart, "0")
    renders.forget_old_ones()
    renders.run(program, "template", chart, "0")
    renders.run(program, "template", chart, "2")
    assert runs(program) == 3
    renders.run(program, "template", chart, "1")
    assert runs(program) == 4
