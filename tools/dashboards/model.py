"""What a dashboard is made of: data, without Grafana's words for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

NAME: Final = "name"
"""Unit of a stat that shows which series there is, not its value."""

Kind = Literal["stat", "timeseries", "bargauge", "table"]


@dataclass(frozen=True, slots=True)
class Query:
    """A PromQL expression. legend: with labels as `{{label}}`."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel.

    Attributes:
        says: What it means and how to read it.
        unit: A unit of Grafana, or NAME.
        width: Columns of 24.
        below: Color of values below all thresholds; without it a panel is neutral.
        thresholds: (from which value on, color), upwards.
        words: What stands in place of a value.
        colors: Of a series, by its name.
        exported: By kube-state-metrics, which is in another namespace than the services.
    """

    title: str
    says: str
    queries: tuple[Query, ...]
    kind: Kind = "timeseries"
    unit: str = "short"
    width: int = 12
    stacked: bool = False
    below: str = ""
    thresholds: tuple[tuple[float, str], ...] = ()
    words: tuple[tuple[str, str], ...] = ()
    colors: tuple[tuple[str, str], ...] = ()
    exported: bool = False

    @property
    def instant(self) -> bool:
        """It shows one moment, or the whole range in one figure, and no curve."""
        return self.kind != "timeseries"

    @property
    def height(self) -> int:
        """In Grafana's grid."""
        return 4 if self.kind == "stat" else 8


@dataclass(frozen=True, slots=True)
class Row:
    """Panels under one heading."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, slots=True)
class Dashboard:
    """A dashboard. of_queue: it is about one queue, `$queue`. range: what it shows at first."""

    uid: str
    title: str
    says: str
    rows: tuple[Row, ...]
    of_queue: bool = False
    range: str = "now-24h"

    def panels(self) -> Iterator[Panel]:
        """All of them."""
        for row in self.rows:
            yield from row.panels
