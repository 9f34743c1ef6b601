"""What each test came to and what it cost, written down for `tools/gate.py` and `make test-times`.

A run of pytest writes `dist/tests/LANE.jsonl`, a line for each test as it ends. The lane is `SCAVENGER_TEST_LANE`, and
`last` for a run by hand.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any, Final, TextIO

import pytest

from tools.test_results import FOLDER

LANE: Final = "SCAVENGER_TEST_LANE"
PLUGIN: Final = "results"
FIXTURES: Final = "fixtures"
"""The property of a report with the fixtures that were set up for its test: name, scope and seconds of each."""
WORTH_A_LINE: Final = 0.05
"""Seconds. Fixtures that cost less are left out."""

_set_up: list[tuple[str, str, float]] = []


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any]) -> Generator[None, object, object]:
    """Measure a fixture, without those that it asks for by name."""
    began = time.perf_counter()
    try:
        return (yield)
    finally:
        if (seconds := time.perf_counter() - began) >= WORTH_A_LINE:
            _set_up.append((fixturedef.argname, fixturedef.scope, round(seconds, 3)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Send the fixtures along with the report, which may go to another process."""
    report = yield
    if _set_up:
        report.user_properties.append((FIXTURES, list(_set_up)))
        _set_up.clear()
    return report


def write(config: pytest.Config) -> None:
    """Write results where tests are run, and only in the process that gets all reports."""
    lane = os.environ.get(LANE, "last")
    if lane and not hasattr(config, "workerinput") and not config.option.collectonly:
        os.environ[LANE] = ""  # a pytest that a test runs writes nothing
        config.pluginmanager.register(Results(FOLDER / f"{lane}.jsonl"), PLUGIN)


class Results:
    """Writes the file of a lane."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: TextIO = path.open("w")
        self._begun: dict[str, dict[str, Any]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add a phase of a test: its worst outcome counts."""
        test = self._begun.setdefault(
            report.nodeid, {"test": report.nodeid, "outcome": "passed", "seconds": {}, "fixtures": []}
        )
        test["seconds"][report.when] = round(report.duration, 3)
        for name, value in report.user_properties:
            if name == FIXTURES:
                test["fixtures"] += value
        if test["outcome"] != "failed" and report.outcome != "passed":
            test["outcome"] = report.outcome
        if report.skipped and isinstance(report.longrepr, tuple):
            test["why"] = report.longrepr[2].removeprefix("Skipped: ")
        if report.when == "teardown":
            self._write(self._begun.pop(report.nodeid))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Write down what could not be collected."""
        if report.failed:
            self._write({"test": report.nodeid, "outcome": "failed", "seconds": {}, "fixtures": [], "collected": False})

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Write how it ended, and what did not come to its end, as its process died."""
        for test in self._begun.values():
            self._write({**test, "outcome": "failed"})
        self._write({"exit": int(exitstatus)})
        self._file.close()

    def _write(self, test: dict[str, Any]) -> None:
        self._file.write(json.dumps(test) + "\n")
        self._file.flush()
