"""An audit says what it found, and never that all is well when it could not look."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tools import audit
from tools.audit import Done, Outcome

CLEAN = {"name": "aiohttp", "version": "4.0", "vulns": []}
BAD = {"name": "idna", "version": "3.0", "vulns": [{"id": "PYSEC-2024-60", "fix_versions": ["3.7"]}]}
HOPELESS = {"name": "old", "version": "1", "vulns": [{"id": "PYSEC-1", "fix_versions": []}]}
SKIPPED = {"name": "rich", "skip_reason": "Dependency not found on PyPI and could not be audited: rich (15.0)"}


FINE = Done(0, "", "")


class Programs:
    """Answers as uv, pip-audit and govulncheck do."""

    def __init__(self, answer: Done, exported: Done = FINE) -> None:
        self.answer = answer
        self.exported = exported
        self.asked: list[tuple[list[str], Path]] = []

    def __call__(self, command: Sequence[str], folder: Path) -> Done:
        self.asked.append((list(command), folder))
        return self.exported if "export" in command else self.answer


def report(*packages: dict[str, Any]) -> str:
    return json.dumps({"dependencies": packages, "fixes": []})


@pytest.mark.parametrize(
    ("done", "found", "not_looked"),
    [
        (Done(0, report(CLEAN), ""), (), ""),
        (Done(1, report(CLEAN, BAD), ""), ("idna 3.0: PYSEC-2024-60, mended in 3.7",), ""),
        (Done(1, report(HOPELESS), ""), ("old 1: PYSEC-1, mended in none",), ""),
        (Done(0, report(CLEAN, SKIPPED), ""), (), f"1 of 2 packages, such as rich: {SKIPPED['skip_reason']}"),
        (
            Done(1, report(BAD, SKIPPED), ""),
            ("idna 3.0: PYSEC-2024-60, mended in 3.7",),
            f"1 of 2 packages, such as rich: {SKIPPED['skip_reason']}",
        ),
        (
            Done(1, "", "ERROR: Could not connect to PyPI's vulnerability feed"),
            (),
            "ERROR: Could not connect to PyPI's vulnerability feed",
        ),
        (Done(127, "", "No such file or directory: 'pip-audit'"), (), "No such file or directory: 'pip-audit'"),
        (Done(1, report(CLEAN), ""), (), report(CLEAN)),
        (Done(1, "[]", "a\n b\n\n"), (), "a b"),
        (Done(1, "", ""), (), "exit code 1"),
    ],
)
def test_python(done: Done, found: tuple[str, ...], not_looked: str) -> None:
    assert audit.python(Programs(done)) == Outcome("uv.lock", found, not_looked)


def test_a_lockfile_that_cannot_be_read_is_not_looked_at() -> None:
    programs = Programs(Done(0, report(CLEAN), ""), exported=Done(2, "", "error: no lockfile"))

    assert audit.python(programs) == Outcome("uv.lock", (), "error: no lockfile")
    assert len(programs.asked) == 1


@pytest.mark.parametrize(
    ("done", "found", "not_looked"),
    [
        (Done(0, "No vulnerabilities found.", ""), (), ""),
        (
            Done(1, "Vulnerability #1: GO-1\n  more\nVulnerability #2: GO-2\n", "exit status 3"),
            ("Vulnerability #1: GO-1", "Vulnerability #2: GO-2"),
            "",
        ),
        (Done(3, "Vulnerability #1: GO-1\n", ""), ("Vulnerability #1: GO-1",), ""),
        (Done(1, "said otherwise", "exit status 3"), (f"found something; see: go run {audit.GOVULNCHECK} there",), ""),
        (
            Done(
                1,
                "",
                "govulncheck: fetching vulnerabilities: dial tcp: lookup vuln.go.dev: no such host\nexit status 1",
            ),
            (),
            "govulncheck: fetching vulnerabilities: dial tcp: lookup vuln.go.dev: no such host",
        ),
        (Done(127, "", "No such file or directory: 'go'"), (), "No such file or directory: 'go'"),
    ],
)
def test_go(done: Done, found: tuple[str, ...], not_looked: str) -> None:
    programs = Programs(done)

    assert audit.go("services/scheduler", programs) == Outcome("services/scheduler", found, not_looked)
    assert programs.asked == [(["go", "run", audit.GOVULNCHECK, "./..."], audit.ROOT / "services" / "scheduler")]


@pytest.mark.parametrize(
    ("outcomes", "code", "said"),
    [
        ([Outcome("a"), Outcome("b")], 0, "a: no known vulnerability\nb: no known vulnerability\n"),
        ([Outcome("a", ("x",)), Outcome("b")], 1, "a: x\nb: no known vulnerability\n"),
        ([Outcome("a"), Outcome("b", (), "no network")], 2, "b: COULD NOT LOOK: no network\n"),
        ([Outcome("a", ("x",), "no network")], 1, "a: x\na: COULD NOT LOOK: no network\n"),
    ],
)
def test_who_could_not_look_has_not_found_nothing(outcomes: list[Outcome], code: int, said: str) -> None:
    found, text = audit.told(outcomes)

    assert found == code
    assert said in text
    assert ("vuln.go.dev must be reachable" in text) == any(outcome.not_looked for outcome in outcomes)


def test_every_module_of_go_is_looked_at() -> None:
    found = {str(file.parent.relative_to(audit.ROOT)) for file in audit.ROOT.glob("[a-z]*/**/go.mod")}

    assert {folder for folder in found if not folder.startswith("dist")} == set(audit.MODULES)


def test_a_program_that_is_not_there_failed(tmp_path: Path) -> None:
    assert audit.run([str(tmp_path / "nothing")], tmp_path).code == 127
