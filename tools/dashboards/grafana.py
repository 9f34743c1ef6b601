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
from tools.dashboards.promql import of_targets

DATASOURCE: Final = grafana.DataSourceRef(type_val="prometheus", uid="${datasource}")
EVERYWHERE: Final = "scavenger_build_info"
"""Shown by every service."""
CLUSTER: Final = 'cluster=~"$cluster"'
CHOSEN: Final = f'{CLUSTER},namespace=~"$namespace"'
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
        .with_variable(_variable("cluster", EVERYWHERE))
        .with_variable(_several(_variable("namespace", EVERYWHERE)))
    )
    if board.of_queue:
        made.with_variable(_several(_variable("queue", QUEUES)))
    number = count(1)
    for row in board.rows:
        made.with_row(dashboard.Row(row.title).id(next(number)))
        for panel in row.panels:
            made.with_panel(_panel(panel).id(next(number)))
    return json.dumps(made.build(), cls=JSONEncoder, indent=2, sort_keys=True) + "\n"


def _variable(name: str, metric: str) -> dashboard.QueryVariable:
    """A choice among the values of a label. Where no series has the label, it is empty and matches all of them."""
    return (
        dashboard.QueryVariable(name)
        .label(name.capitalize())
        .datasource(DATASOURCE)
        .query(f"label_values({metric}, {name})")
        .refresh(grafana.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(grafana.VariableSort.ALPHABETICAL_ASC)
    )


def _several(made: dashboard.QueryVariable) -> dashboard.QueryVariable:
    everything = grafana.VariableOption(selected=True, text="All", value="$__all")
    return made.multi(True).include_all(True).all_value(".*").current(everything)


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
    if panel.kind in ("stat", "bargauge"):
        made.thresholds(_thresholds(panel))
    if panel.words:
        words = {value: grafana.ValueMappingResult(text=text) for value, text in panel.words}
        made.mappings([grafana.ValueMap(options=words)])
    for series, color in panel.colors:
        fixed = {"mode": "fixed", "fixedColor": color}
        made.override_by_name(series, [grafana.DynamicConfigValue(id_val="color", value=fixed)])
    for number, query in enumerate(panel.queries):
        made.with_target(_target(panel, query, chr(ord("A") + number)))
    return made


def _thresholds(panel: Panel) -> dashboard.ThresholdsConfig:
    """Without any of its own a panel has one color: the default of Grafana is green, and red from 80 on."""
    neutral = "blue" if panel.kind == "bargauge" else "text"
    steps = [grafana.Threshold(value=None, color=panel.below or neutral)]
    steps += [grafana.Threshold(value=value, color=color) for value, color in panel.thresholds]
    return dashboard.ThresholdsConfig().mode(grafana.ThresholdsMode.ABSOLUTE).steps(steps)


def _target(panel: Panel, query: Query, name: str) -> prometheus.Dataquery:
    expression = of_targets(query.expr, CLUSTER if panel.exported else CHOSEN)
    made = prometheus.Dataquery().ref_id(name).expr(expression).legend_format(query.legend or "__auto")
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
