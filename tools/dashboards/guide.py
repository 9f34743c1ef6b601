"""docs/dashboards.md: the dashboards, and how to read each of their panels."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tools.dashboards.model import Dashboard

HEADER: Final = """\
<!-- generated from the code by `python -m tools.dashboards`; do not edit -->
# Dashboards

There are three dashboards for Grafana ([how to install them](monitoring.md#dashboards)). Every figure is a query of
[metrics](metrics.md), without recording rules. One panel shows single jobs, and needs kube-state-metrics
([how](monitoring.md#figures-of-single-jobs)). `kubectl sj why` explains one job. Events tell for which pod a job was
interrupted.

![A day: CPU load and thresholds, cores of each queue, jobs by phase, and the CPU share of a queue](dashboards.svg)

The picture shows a day in the simulator (`python -m docs.record_day`). Queue `lab` has jobs all day. Queue `guest` has
twice the weight, and submits its jobs between 9 h and 15 h. Completed jobs are not shown.

## Where to begin

| question | look at |
|---|---|
| Is it worth it? | *Administrator*: Lost per harvested hour; the space between the two loads |
| Do regular pods notice? | *Administrator*: Waiting for capacity; How long they waited |
| Why are jobs interrupted all the time? | *Administrator*: Interruptions by cause, then by queue |
| Why does nothing start? | *Administrator*: Regulator, and the load beside its levels; *Researcher*: Why jobs wait |
| Does my queue get what it deserves? | *Researcher*: CPU share |
| Do I request too much? | *Researcher*: requested and used |
| Is a component unhealthy? | *Services*: Leaders; Lag of the event loop; Errors; [the alerts](runbooks.md) |

"Over the range shown" is what Grafana shows at that moment: choose a week at the top, and these panels are about the
week. They come from counters, which Prometheus extrapolates to the edges of a range: 3 may be shown as 3.02.
"""


def guide(boards: Iterable[Dashboard]) -> str:
    """The page."""
    parts = [HEADER]
    for board in boards:
        parts.append(f"\n## {board.title.rpartition(' ')[2]}\n\n{board.says}\n")
        for row in board.rows:
            rows = "".join(f"| {panel.title} | {panel.says} |\n" for panel in row.panels)
            parts.append(f"\n### {row.title}\n\n| panel | |\n|---|---|\n{rows}")
    return "".join(parts)
