"""docs/metrics.md: every metric, who shows it and what it says."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tools.dashboards.catalogue import BOUNDS, RUNTIME, SCHEDULER, SERVICES, STATE_METRICS, Metric

HEADER: Final = """\
<!-- generated from the code by `python -m tools.dashboards`; do not edit -->
# Metrics

Every name begins with `scavenger_`. Units are Prometheus' base units: seconds, bytes, cores, ratios of 0 to 1. A
counter ends in `_total` and, where it is known in advance what can be counted, begins at 0, so that `increase()` sees
the first one. Of a histogram there are `_bucket`, `_sum` and `_count`. Values of labels come from lists that the code
or the cluster bounds, never from what a user writes. Only kube-state-metrics has labels with the names of jobs,
where you [tell it to](monitoring.md#figures-of-single-jobs).

With two replicas of a service only the one that leads decides and counts; gauges of decisions are absent or 0 on the
other. So take the `max` of a gauge and the `sum` of counters, as the [dashboards](dashboards.md)
do.
"""
TITLES: Final = {
    RUNTIME: "Every service written in Python",
    SCHEDULER: "Scheduler, beside those of kube-scheduler",
    STATE_METRICS: "kube-state-metrics, of each ScavengerJob",
    **{name: name.capitalize() for name in SERVICES},
}


def reference(metrics: Iterable[Metric]) -> str:
    """The page."""
    metrics = list(metrics)
    parts = [HEADER]
    for shown_by in (RUNTIME, *SERVICES, SCHEDULER, STATE_METRICS):
        rows = [_row(metric) for metric in sorted(metrics, key=lambda one: one.name) if metric.shown_by == shown_by]
        parts.append(f"\n## {TITLES[shown_by]}\n\n| metric | type | labels | |\n|---|---|---|---|\n" + "".join(rows))
    used = {label for metric in metrics for label in metric.labels}
    rows = [f"| `{label}` | {BOUNDS[label]} |\n" for label in sorted(used)]
    parts.append("\n## Labels\n\n| label | its values |\n|---|---|\n" + "".join(rows))
    return "".join(parts)


def _row(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    return f"| `{metric.name}` | {metric.type} | {labels} | {metric.help} |\n"
