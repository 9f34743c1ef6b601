"""The checks of Go modules: what counts as the same content, and that all modules have them."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from scavenger_cluster.build import COMPILER_FLAGS, Go

from tools.go_checks import OWN_VARIABLES, PARTS, ROOT, Check, environment, verify


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with one module, and a Go that nothing here starts."""
    monkeypatch.setenv("SCAVENGER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(Go, "find", lambda: Go("/opt/go/bin/go", "go1.26.8"))
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab" / "go.mod").write_text("module lab\n")
    return tmp_path


def ran(checkout: Path, *checks: Check, again: bool = False) -> tuple[int, list[str]]:
    """The exit code, and which checks ran: each writes its name into a file."""
    log = checkout / "ran"
    log.write_text("")
    code = verify("lab", checks, again=again, root=checkout)
    return code, log.read_text().split()


def check(name: str, script: str = "", **more: object) -> Check:
    more.setdefault("asks", ())
    return Check(name, ("sh", "-c", f"echo {name} >> ../ran\n{script}"), **more)  # type: ignore[arg-type]


def test_the_first_that_fails_ends_it_and_what_passed_is_kept(checkout: Path) -> None:
    checks = (check("vet"), check("tests", "test -e fixed"), check("last"))
    assert ran(checkout, *checks) == (1, ["vet", "tests"])
    assert ran(checkout, *checks) == (1, ["tests"])
    (checkout / "lab" / "fixed").touch()
    assert ran(checkout, *checks) == (0, ["vet", "tests", "last"])
    assert ran(checkout, *checks) == (0, [])
    assert ran(checkout, *checks, again=True) == (0, ["vet", "tests", "last"])


def test_other_words_or_settings_are_another_check(checkout: Path) -> None:
    for one in (check("tests"), check("tests", "true"), check("tests", settings=(("CGO_ENABLED", "1"),))):
        assert ran(checkout, one) == (0, ["tests"])


def test_what_a_tool_says_of_its_version_is_content(checkout: Path) -> None:
    version = checkout / "version"
    one = check("tests", asks=(("cat", "../version"), ("no-such-program",)))
    for text, expected in (("1", ["tests"]), ("2", ["tests"]), ("1", [])):
        version.write_text(text)
        assert ran(checkout, one) == (0, expected)


def test_a_silent_check_fails_by_what_it_prints(checkout: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert ran(checkout, check("gofmt", "echo main.go", silent=True)) == (1, ["gofmt"])
    assert "main.go\n" in capfd.readouterr().err
    assert ran(checkout, check("gofmt", silent=True)) == (0, ["gofmt"])
    assert ran(checkout, check("other", "exit 4", silent=True)) == (4, ["other"])


def test_variables_of_tests_are_those_of_the_check(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SNAPSHOT_INTERRUPTIONS", "7")
    monkeypatch.setenv("SCAVENGER_CASES", "/tmp/cases")
    monkeypatch.setenv("GOFLAGS", "-race")
    assert not [name for name in environment(Go.find()) if name.startswith(OWN_VARIABLES)]
    one = check("tests", 'test "$SNAPSHOT_INTERRUPTIONS" = 20', settings=(("SNAPSHOT_INTERRUPTIONS", "20"),))
    assert ran(checkout, one) == (0, ["tests"])


def test_they_are_compiled_as_the_programs_are(checkout: Path) -> None:
    found = environment(Go.find())
    assert found["GOFLAGS"].split() == list(COMPILER_FLAGS)
    assert (found["CGO_ENABLED"], found["GOWORK"]) == ("0", "off")
    assert found["PATH"].split(os.pathsep)[0] == "/opt/go/bin"
    commands = [check.command for parts in PARTS.values() for checks in parts.values() for check in checks]
    assert {words[:2] for words in commands if words[0] == "go"} == {
        ("go", name) for name in ("mod", "vet", "run", "test")
    }


def test_no_module_reads_what_is_outside_its_folder() -> None:
    """Stamps are by the content of that folder."""
    for module in PARTS:
        assert "=> ." not in (ROOT / module / "go.mod").read_text()
        texts = [path.read_text() for path in (ROOT / module).rglob("*.go")]
        assert texts
        assert not [text for text in texts if re.search(r'(Open|OpenFile|ReadFile|ReadDir|Command)\("\.\./', text)]


def test_modules_are_all_that_have_code() -> None:
    listed = subprocess.run(["git", "ls-files", "*go.mod"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    with_tools = {Path(line).parent.as_posix() for line in listed.split() if "staticcheck" in (ROOT / line).read_text()}
    assert with_tools == set(PARTS)


@pytest.mark.parametrize("module", PARTS)
def test_the_script_of_a_module_runs_them(module: str) -> None:
    done = subprocess.run([ROOT / module / "verify.sh", "typo"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "invalid choice: 'typo'" in done.stderr
