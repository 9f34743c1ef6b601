"""Dashboards as Grafana reads them: JSON, by grafana-foundation-sdk."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count
from typing import Any, Final

from grafana_foundation_sdk.builders import bargauge, common, dashboard, prometheus, stat, table, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common as models
from grafana_foundation_sdk.models import dashboard as grafana
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from tools.dashboards.model import NAME, Dashboard, Panel, Query

DATASOURCE: Final = grafana.DataSourceRef(type_val="prometheus", uid="${datasource}")
QUEUES: Final = "scavenger_starts_total"
"""Shown of every queue, whether it has jobs or not, and whether the load is known or not."""
TAG: Final = "scavenger-jobs"


def as_json(board: Dashboard) -> str:
    """The dashboard as a file that Grafana imports, and its sidecar loads."""
    made = (
        dashboard.Dashboard(board.title)
        .uid(board.uid)
        .description(board.says)
        .tags([TAG])
        .editable()
        .time(board.range, "now")
        .refresh("1m")
        .timezone("browser")
        .tooltip(grafana.DashboardCursorSync.CROSSHAIR)
        .link(
            dashboard.DashboardLink("Scavenger jobs")
            .type(grafana.DashboardLinkType.DASHBOARDS)
            .tags([TAG])
            .keep_time(True)
        )
        .with_variable(dashboard.DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
    )
    if board.of_queue:
        made.with_variable(_queue())
    number = count(1)
    for row in board.rows:
        made.with_row(dashboard.Row(row.title).id(next(number)))
        for panel in row.panels:
            made.with_panel(_panel(panel).id(next(number)))
    return json.dumps(made.build(), cls=JSONEncoder, indent=2, sort_keys=True) + "\n"


def _queue() -> dashboard.QueryVariable:
    return (
        dashboard.QueryVariable("queue")
        .label("Queue")
        .datasource(DATASOURCE)
        .query(f"label_values({QUEUES}, queue)")
        .refresh(grafana.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(grafana.VariableSort.ALPHABETICAL_ASC)
    )


def _panel(panel: Panel) -> Any:
    builders: dict[str, Callable[[Panel], Any]] = {
        "stat": _stat,
        "bargauge": _bars,
        "table": _table,
        "timeseries": _curves,
    }
    made = (
        builders[panel.kind](panel)
        .title(panel.title)
        .description(panel.says)
        .unit("short" if panel.unit == NAME else panel.unit)
        .datasource(DATASOURCE)
        .span(panel.width)
        .height(panel.height)
    )
    for number, query in enumerate(panel.queries):
        made.with_target(_target(panel, query, chr(ord("A") + number)))
    return made


def _target(panel: Panel, query: Query, name: str) -> prometheus.Dataquery:
    made = prometheus.Dataquery().ref_id(name).expr(query.expr).legend_format(query.legend or "__auto")
    if panel.kind == "table":
        made.format(PromQueryFormat.TABLE)
    return made.instant() if panel.instant else made.range()


def _curves(panel: Panel) -> timeseries.Panel:
    made = (
        timeseries.Panel()
        .min(0)
        .line_width(1)
        .show_points(models.VisibilityMode.NEVER)
        .legend(common.VizLegendOptions().show_legend(True).display_mode(models.LegendDisplayMode.LIST))
    )
    if panel.stacked:
        made.stacking(common.StackingConfig().mode(models.StackingMode.NORMAL)).fill_opacity(30)
    return made


def _stat(panel: Panel) -> stat.Panel:
    shown = models.BigValueTextMode.NAME if panel.unit == NAME else models.BigValueTextMode.AUTO
    return stat.Panel().text_mode(shown).graph_mode(models.BigValueGraphMode.NONE).reduce_options(_last())


def _bars(_: Panel) -> bargauge.Panel:
    return (
        bargauge.Panel()
        .orientation(models.VizOrientation.HORIZONTAL)
        .display_mode(models.BarGaugeDisplayMode.BASIC)
        .no_value("none")
        .min(0)
        .reduce_options(_last())
    )


def _table(_: Panel) -> table.Panel:
    hidden = grafana.DataTransformerConfig(id_val="organize", options={"excludeByName": {"Time": True}})
    return table.Panel().no_value("none").with_transformation(hidden)


def _last() -> common.ReduceDataOptions:
    return common.ReduceDataOptions().calcs(["lastNotNull"])
