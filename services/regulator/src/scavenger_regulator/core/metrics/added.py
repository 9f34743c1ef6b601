"""Metrics that an administrator adds: from the text of a setting to what the decisions and Prometheus are asked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from scavenger_regulator.core.metrics.fields import Fields, check_names, parse_objects
from scavenger_regulator.core.metrics.metric import RESOURCES, Action, Metric

MOST: Final = 16
NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,29}")
FIELDS: Final = (
    "name",
    "priority",
    "node",
    "pod",
    "capacity",
    "sortable",
    "evict",
    "averaged",
    "levels",
    "throttle",
    "sort",
)


@dataclass(frozen=True, slots=True)
class AddedMetric:
    """A metric of an administrator.

    Attributes:
        metric: what the decisions ask about it.
        node: PromQL, what each node uses of it.
        capacity: PromQL, how much each node has of it.
        pod: PromQL, what each scavenger pod uses of it; empty where that is not known.
        sort: PromQL, by what victims are ordered for it; empty: by what they would lose.
    """

    metric: Metric
    node: str
    capacity: str
    pod: str = ""
    sort: str = ""


def parse_added(text: str) -> tuple[AddedMetric, ...]:
    """The metrics of a JSON list, as the chart writes it; none where there is no text.

    Raises:
        FieldError: where one of them cannot be.
    """
    items = parse_objects(text, MOST, "{name: …, node: …, capacity: …}")
    found = tuple(_parse(number, item) for number, item in enumerate(items))
    check_names([one.metric.name for one in found])
    return found


def _parse(number: int, item: Mapping[str, Any]) -> AddedMetric:
    fields = Fields(f"[{number}]", item)
    fields.check_known(FIELDS)
    name = fields.text("name")
    if not NAME.fullmatch(name) or name in RESOURCES:
        raise fields.error("name", f"{name!r} cannot be", "write up to 30 of a-z, 0-9 and -, and not cpu or memory")
    pod = fields.text("pod", "")
    evict = fields.action("evict", Action.QUANTIFIED if pod else Action.NEVER)
    if evict is Action.QUANTIFIED and not pod:
        raise fields.error("evict", "quantified needs to know what pods use", "write `pod`, or unquantified or never")
    throttle = fields.action("throttle", Action.NEVER)
    if throttle is Action.QUANTIFIED and not pod:
        raise fields.error(
            "throttle", "quantified needs to know what pods use", "write `pod`, or unquantified or never"
        )
    levels, lines, sort = fields.levels(), fields.lines(), fields.text("sort", "")
    if lines is not None and throttle is Action.NEVER:
        raise fields.error("levels", "throttle and restore are there, and throttle is never", "write how: `throttle`")
    if levels is None and not pod:
        remedy = "write lower, admission and upper: levels are learnt from what is not used by scavenger pods"
        raise fields.error("levels", "they are missing, as `pod` is", remedy)
    metric = Metric(
        name=name,
        priority=fields.priority(),
        sortable=fields.flag("sortable", default=bool(pod)),
        evict=evict,
        averaged=fields.flag("averaged", default=False),
        levels=levels,
        throttle=throttle,
        lines=lines,
        sort=bool(sort),
    )
    return AddedMetric(metric, fields.text("node"), fields.text("capacity"), pod, sort)
