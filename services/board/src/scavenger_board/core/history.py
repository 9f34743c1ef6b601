"""What this process has seen of the levels: the load over time where no Prometheus keeps it. Bounded, and lost with the
process."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from scavenger_api.levels import PublishedLevels
from scavenger_api.times import format_time

from scavenger_board.core.levels import resource_rows
from scavenger_board.core.picture import ResourceRow, Row

NEAR: Final = 3
"""Periods around a moment within which a point is taken for it, as long as levels count as fresh."""

MOST_POINTS: Final = 400
"""Points of a line that are sent: a screen has no more to show."""


@dataclass(frozen=True, slots=True)
class Point:
    """The levels at one moment."""

    at: datetime
    state: str
    period: float
    resources: Mapping[str, ResourceRow]


class LoadRow(Row, frozen=True, gc=False, rename="camel"):
    """Load and levels over time, in percent, None in gaps. times: Unix seconds. lines: by resource and name. source:
    who remembers them; empty where none does. problem: why another does not. states: of the regulator at these
    times, empty where nothing says so."""

    start: str
    end: str
    source: str
    times: list[float]
    lines: dict[str, dict[str, list[float | None]]]
    problem: str = ""
    states: list[str] = []  # noqa: RUF012 - msgspec copies it


LINES: Final = ("load", "regular", "lower", "admission", "upper")


@dataclass(slots=True)
class History:
    """Points in order of time, the newest `limit`."""

    limit: int
    _points: deque[Point] = field(default_factory=deque)

    def add(self, levels: PublishedLevels, at: datetime, scavenger: Mapping[str, float]) -> None:
        """Remember levels that were published, once for each time of observation. at: the moment, where they name
        none. scavenger: as of `resource_rows`."""
        when = levels.observed_at or at
        if self._points and when <= self._points[-1].at:
            return
        resources = resource_rows(levels, scavenger)
        self._points.append(Point(when, levels.state.value, levels.period_seconds, resources))
        while len(self._points) > self.limit:
            self._points.popleft()

    @property
    def since(self) -> datetime | None:
        """The oldest moment that is remembered."""
        return self._points[0].at if self._points else None

    def at(self, moment: datetime) -> Point | None:
        """The point of a moment: the last one before it, as long as its levels were fresh."""
        points = list(self._points)
        index = bisect_left(points, moment + timedelta(microseconds=1), key=lambda point: point.at)
        if index == 0:
            return None
        found = points[index - 1]
        return found if moment - found.at <= timedelta(seconds=NEAR * max(found.period, 1.0)) else None

    def between(self, start: datetime, end: datetime) -> LoadRow:
        """Load and levels over a span."""
        points = thin([point for point in self._points if start <= point.at <= end])
        resources = sorted({name for point in points for name in point.resources})
        nothing = ResourceRow()
        lines = {
            resource: {
                line: [getattr(point.resources.get(resource, nothing), line) for point in points] for line in LINES
            }
            for resource in resources
        }
        source = "the board has seen" if points else ""
        times, states = [point.at.timestamp() for point in points], [point.state for point in points]
        return LoadRow(format_time(start), format_time(end), source, times, lines, states=states)


def thin(points: Iterable[Point]) -> list[Point]:
    """No more than MOST_POINTS of them, the last one among them."""
    found = list(points)
    step = -(-len(found) // MOST_POINTS) or 1
    return found[::-1][::step][::-1]
