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


@dataclass(frozen=True)
class Lane:
    """A run of pytest. exit: its exit code; None where it did not come to its end."""

    name: str
    results: tuple[Result, ...]
    exit: int | None


def read(folder: Path = FOLDER, *, since: float = 0.0) -> list[Lane]:
    """All lanes. since: those that were written after this time (seconds since the epoch)."""
    return [_lane(file) for file in sorted(folder.glob("*.jsonl")) if file.stat().st_mtime >= since]


def _lane(file: Path) -> Lane:
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    results = tuple(_result(file.stem, line) for line in lines if "test" in line)
    return Lane(file.stem, results, lines[-1].get("exit") if lines else None)


def _result(lane: str, found: dict[str, Any]) -> Result:
    fixtures = tuple(Fixture(*one) for one in found.pop("fixtures"))
    return Result(lane=lane, fixtures=fixtures, **found)


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
