"""Tests in forks: pytest reports of them what it reports of the same tests in one process."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
CONFTEST = f"""
import os, pathlib, pytest, sys
sys.path.insert(0, {str(ROOT)!r})
from tests.conftest import pytest_addoption, pytest_configure

@pytest.fixture(scope="session")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("server", numbered=False)
    pathlib.Path(f"begun-{{os.getpid()}}").touch()
    yield folder
    pathlib.Path(f"ended-{{os.getpid()}}").touch()

@pytest.fixture(scope="module")
def once(request):
    file = pathlib.Path(request.node.name).with_suffix(".once")
    assert not file.exists()
    file.touch()
"""
TESTS = """
import pytest
def test_passes(once, server): print("of one that passes")
def test_fails(once): print(f"of one that fails in {__name__}"); assert "this" == "that"
@pytest.mark.skip(reason="not needed")
def test_skipped(): pass
@pytest.mark.xfail
def test_fails_as_expected(): assert not "expected"
@pytest.fixture
def broken(): yield; raise OSError("at the end")
def test_with_a_broken_fixture(broken): pass
"""
NAMES = ("test_a", "test_b", "test_c")


def run(folder: Path, *words: str, **files: str) -> subprocess.CompletedProcess[str]:
    """Run pytest in a folder with these files of tests."""
    folder.mkdir()
    for name, text in {"conftest": CONFTEST, **files}.items():
        (folder / f"{name}.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", "-p", "no:asyncio", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=60)


def reported(done: subprocess.CompletedProcess[str]) -> tuple[int, list[str]]:
    """The exit code, and the lines of the report in no order: without progress and time."""
    lines = (re.sub(r" in [0-9.]+s$", "", line) for line in done.stdout.splitlines())
    return done.returncode, sorted(line for line in lines if not re.fullmatch(r"[.EFsx]+ *\[ *\d+%\]", line))


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("-k", "passes"),
        *(pytest.param(one, marks=pytest.mark.long) for one in (("--maxfail=100",), ("--co",), ("test_a.py",))),
        ("-s", "-k", "skipped"),
    ],
)
def test_the_report_is_that_of_one_process(tmp_path: Path, words: tuple[str, ...]) -> None:
    files = dict.fromkeys(NAMES, TESTS)
    alone = run(tmp_path / "alone", *words, **files)
    forked = run(tmp_path / "forked", *words, "--forks=2", **files)
    assert reported(forked) == reported(alone), forked.stderr


def test_a_file_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    done = run(tmp_path / "x", "--forks=2", test_a="import no_such_module", test_b=TESTS, test_c=TESTS)
    assert done.returncode == 2
    assert "no_such_module" in done.stdout


def test_a_small_file_is_run_by_one_process_and_what_its_files_share_ends_with_each(tmp_path: Path) -> None:
    folder = tmp_path / "x"
    done = run(folder, "--forks=2", "-k", "passes", **dict.fromkeys(NAMES, TESTS))
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(path.stem for path in folder.glob("*.once")) == list(NAMES)
    begun = {path.name.partition("-")[2] for path in folder.glob("begun-*")}
    assert begun
    assert begun == {path.name.partition("-")[2] for path in folder.glob("ended-*")}


def test_a_process_that_ends_fails_the_test_that_it_ran_and_no_other(tmp_path: Path) -> None:
    crashing = "import os\ndef test_before(): pass\ndef test_ends(): os._exit(3)\ndef test_after(): pass\n"
    done = run(tmp_path / "x", "--forks=2", test_a=crashing, test_b=crashing, test_c="def test(): pass")
    assert done.returncode == 1
    assert done.stdout.count("the process that ran this test ended with exit code 3") >= 2
    assert done.stdout.splitlines()[-1].startswith("2 failed, 5 passed in ")


def test_after_so_many_failures_it_stops(tmp_path: Path) -> None:
    done = run(tmp_path / "x", "--forks=2", "-x", "-k", "test_fails", **dict.fromkeys(NAMES, TESTS))
    assert done.returncode == 1
    assert re.search("stopping after [12] failures", done.stdout), "each process can have one that it had begun"
