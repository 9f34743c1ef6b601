"""What `tests/results.py` has written: the tests of the last run by lane."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).parents[1] / "dist" / "tests"


@dataclass(frozen=True)
class Fixture:
    """A fixture that was set up for a test. seconds: without those that it asked for by name."""

    name: str
    scope: str
    seconds: float


@dataclass(frozen=True)
class Result:
    """What one test came to.

    Attributes:
        lane: the run of pytest that it was in.
        test: its node ID.
        outcome: passed, failed or skipped.
        seconds: by phase: setup, call, teardown.
        why: the reason of a skip.
        collected: False for a file that could not be imported.
    """

    lane: str
    test: str
    outcome: str
    seconds: Mapping[str, float]
    fixtures: tuple[Fixture, ...] = ()
    why: str = ""
    collected: bool = True

    @property
    def total(self) -> float:
        """Seconds of all phases."""
        return sum(self.seconds.values())


@dataclass
class Cost:
    """What tests or fixtures of one name cost together. seconds; times: how many there were."""

    seconds: float = 0.0
    times: int = 0
    most: float = 0.0
    lanes: set[str] = field(default_factory=set)

    def add(self, seconds: float, lane: str) -> None:
        """Count one more."""
        self.seconds += seconds
        self.times += 1
        self.most = max(self.most, seconds)
        self.lanes.add(lane)


def read(folder: Path = FOLDER, *, since: float = 0.0) -> list[Result]:
    """All results. since: of files that were written after this time (seconds since the epoch)."""
    files = sorted(file for file in folder.glob("*.jsonl") if file.stat().st_mtime >= since)
    return [_result(file.stem, json.loads(line)) for file in files for line in file.read_text().splitlines()]


def _result(lane: str, found: dict[str, Any]) -> Result:
    fixtures = tuple(Fixture(*one) for one in found["fixtures"])
    return Result(
        lane,
        found["test"],
        found["outcome"],
        found["seconds"],
        fixtures,
        found.get("why", ""),
        found.get("collected", True),
    )


def by_file(results: Iterable[Result]) -> dict[str, Cost]:
    """What the tests of each file cost, their fixtures included."""
    found: dict[str, Cost] = {}
    for one in results:
        found.setdefault(one.test.split("::")[0], Cost()).add(one.total, one.lane)
    return found


def by_fixture(results: Iterable[Result]) -> dict[str, Cost]:
    """What the fixtures of each name and scope cost."""
    found: dict[str, Cost] = {}
    for one in results:
        for fixture in one.fixtures:
            found.setdefault(f"{fixture.name} ({fixture.scope})", Cost()).add(fixture.seconds, one.lane)
    return found
