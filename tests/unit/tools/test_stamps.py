"""A check that takes minutes runs once for the same content, wherever that is; and again whenever it might not pass."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tools.stamps import content_of, run_once


class Checks:
    """Runs one check of a folder, counts how often it did run, and ends it as told."""

    def __init__(self, folder: Path, root: Path) -> None:
        self.folder, self.root, self.ran = folder, root, 0

    def run(self, check: Callable[[], int] = lambda: 0, *facts: object, again: bool = False) -> int:
        def counted() -> int:
            self.ran += 1
            return check()

        return run_once("lab vet", partial(content_of, self.folder, *facts), counted, again=again, root=self.root)


@pytest.fixture
def checks(tmp_path: Path) -> Checks:
    folder = tmp_path / "checkout"
    (folder / "pkg").mkdir(parents=True)
    (folder / "pkg" / "one.go").write_text("package pkg\n")
    (folder / "run.sh").write_text("exit 0\n")
    (folder / "link").symlink_to("run.sh")
    return Checks(folder, tmp_path / "stamps")


def test_what_has_passed_does_not_run_again(checks: Checks, capsys: pytest.CaptureFixture[str]) -> None:
    assert (checks.run(), checks.run(), checks.ran) == (0, 0, 1)
    running, passed = capsys.readouterr().out.splitlines()
    assert running == "lab vet: running"
    assert passed.startswith("lab vet: passed before with the same content (20")


def test_another_clone_has_passed_as_well(checks: Checks, tmp_path: Path) -> None:
    checks.run()
    shutil.copytree(checks.folder, tmp_path / "clone", symlinks=True, copy_function=shutil.copyfile)  # not the times
    checks.folder = tmp_path / "clone"
    checks.run()
    assert checks.ran == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "pkg" / "one.go").write_text("package gkp\n"),
        lambda folder: (folder / "new.go").write_text(""),
        lambda folder: (folder / "run.sh").unlink(),
        lambda folder: (folder / "pkg").rename(folder / "gkp"),
        lambda folder: (folder / "run.sh").chmod(0o755),
        lambda folder: ((folder / "link").unlink(), (folder / "link").symlink_to("pkg")),
    ],
    ids=["bytes", "a new file", "a file less", "a name", "a program", "a link"],
)
def test_a_change_runs_it_again(checks: Checks, change: Callable[[Path], object]) -> None:
    checks.run()
    change(checks.folder)
    checks.run()
    assert checks.ran == 2


def test_the_command_and_its_tools_are_content(checks: Checks) -> None:
    for facts in (("vet", "go1.26.8"), ("vet", "go1.26.9"), ("vet -x", "go1.26.8"), ("vet", "go1.26.8")):
        checks.run(lambda: 0, *facts)
    assert checks.ran == 3


def test_content_that_returns_has_passed(checks: Checks) -> None:
    file = checks.folder / "pkg" / "one.go"
    for text in ("package a\n", "package b\n", "package a\n"):
        file.write_text(text)
        checks.run()
    assert checks.ran == 2


def test_a_failure_is_not_kept(checks: Checks) -> None:
    assert [checks.run(lambda: 3), checks.run(lambda: 3), checks.run()] == [3, 3, 0]
    assert checks.ran == 3


def test_an_interruption_is_not_kept(checks: Checks) -> None:
    def interrupted() -> int:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        checks.run(interrupted)
    checks.run()
    assert checks.ran == 2


def test_what_changes_while_it_runs_has_not_passed(checks: Checks) -> None:
    def edited() -> int:
        (checks.folder / "pkg" / "one.go").write_text("package edited\n")
        return 0

    before = (checks.folder / "pkg" / "one.go").read_text()
    checks.run(edited)
    checks.run()
    (checks.folder / "pkg" / "one.go").write_text(before)
    checks.run()
    assert checks.ran == 3


def test_again_runs_it_in_spite_of_that_and_a_failure_then_counts(checks: Checks) -> None:
    checks.run()
    assert checks.run(lambda: 1, again=True) == 1
    assert (checks.run(), checks.ran) == (0, 3)


def test_nothing_but_stamps_is_left(checks: Checks) -> None:
    checks.run()
    checks.run(again=True)
    assert [path.name for path in (checks.root / "lab-vet").iterdir()] == [content_of(checks.folder)]
