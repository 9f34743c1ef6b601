"""Metrics that an administrator adds: from the text of a setting to what the decisions and Prometheus are asked."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from scavenger_regulator.core.levels import WaterLevels
from scavenger_regulator.core.metrics.metric import PRIORITIES, Action, Metric
from scavenger_regulator.core.metrics.registry import RESOURCES

MOST: Final = 16
NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,29}")
FIELDS: Final = ("name", "priority", "node", "pod", "capacity", "sortable", "evict", "averaged", "levels")
LEVELS: Final = ("lower", "admission", "upper")


class AddedMetricError(ValueError):
    """A metric that cannot be added; the message names the field and the remedy."""


@dataclass(frozen=True, slots=True)
class AddedMetric:
    """A metric of an administrator.

    Attributes:
        metric: what the decisions ask about it.
        node: PromQL, what each node uses of it.
        capacity: PromQL, how much each node has of it.
        pod: PromQL, what each scavenger pod uses of it; empty where nobody knows.
    """

    metric: Metric
    node: str
    capacity: str
    pod: str = ""


def parse_added(text: str) -> tuple[AddedMetric, ...]:
    """The metrics of a JSON list, as the chart writes it; none where there is no text.

    Raises:
        AddedMetricError: where one of them cannot be.
    """
    try:
        items = json.loads(text or "[]")
    except (ValueError, RecursionError) as error:
        raise AddedMetricError(f"not JSON: {error}") from error
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise AddedMetricError("not a list of objects: write [{name: …, node: …, capacity: …}]")
    if len(items) > MOST:
        raise AddedMetricError(f"{len(items)} metrics are more than {MOST}: leave some out")
    found = tuple(_parse(number, item) for number, item in enumerate(items))
    names = [one.metric.name for one in found]
    for name in names:
        if names.count(name) > 1:
            raise AddedMetricError(f"two metrics have the name {name!r}: rename one")
    return found


def _parse(number: int, item: Mapping[str, Any]) -> AddedMetric:
    fields = _Fields(f"[{number}]", item)
    fields.check_known()
    name = fields.text("name")
    if not NAME.fullmatch(name) or name in RESOURCES:
        raise fields.error("name", f"{name!r} cannot be", "write up to 30 of a-z, 0-9 and -, and not cpu or memory")
    pod = fields.text("pod", "")
    evict = fields.action("evict", Action.QUANTIFIED if pod else Action.NEVER)
    if evict is Action.QUANTIFIED and not pod:
        raise fields.error("evict", "quantified needs to know what pods use", "write `pod`, or unquantified or never")
    levels = fields.levels()
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
    )
    return AddedMetric(metric, fields.text("node"), fields.text("capacity"), pod)


@dataclass(frozen=True, slots=True)
class _Fields:
    """The fields of a metric. place: where it is in the list."""

    place: str
    item: Mapping[str, Any]

    def error(self, field: str, problem: str, remedy: str) -> AddedMetricError:
        return AddedMetricError(f"{self.place}.{field}: {problem}; {remedy}")

    def check_known(self) -> None:
        for field in self.item:
            if field not in FIELDS:
                raise self.error(field, "there is no such field", f"there are {', '.join(FIELDS)}")

    def text(self, field: str, default: str | None = None) -> str:
        value = self.item.get(field, default)
        if not isinstance(value, str) or (default is None and not value.strip()):
            raise self.error(field, "it is missing" if value is None else f"{value!r:.50} is no text", "write a text")
        return value.strip()

    def flag(self, field: str, *, default: bool) -> bool:
        value = self.item.get(field, default)
        if not isinstance(value, bool):
            raise self.error(field, f"{value!r:.50} is neither true nor false", "write one of them")
        return value

    def action(self, field: str, default: Action) -> Action:
        value = self.item.get(field, default.value)
        try:
            return Action(value)
        except ValueError:
            remedy = f"write one of {', '.join(Action)}"
            raise self.error(field, f"{value!r:.50} is unknown", remedy) from None

    def priority(self) -> int:
        value = self.item.get("priority", 0)
        if isinstance(value, bool) or value not in PRIORITIES:
            raise self.error("priority", f"{value!r:.50} cannot be", "write a whole number from 0 to 10")
        return int(value)

    def levels(self) -> WaterLevels | None:
        value = self.item.get("levels")
        if value is None:
            return None
        if not isinstance(value, dict) or set(value) != set(LEVELS):
            raise self.error("levels", f"{value!r:.50} are none", f"write {', '.join(LEVELS)}")
        found = [value[name] for name in LEVELS]
        if any(isinstance(one, bool) or not isinstance(one, int | float) or not math.isfinite(one) for one in found):
            raise self.error("levels", f"{value!r:.80} are no percentages", "write numbers from 0 to 100")
        if not 0 <= found[0] <= found[1] <= found[2] <= 100:
            raise self.error(
                "levels", f"{value!r:.80} are out of order", "write 0 <= lower <= admission <= upper <= 100"
            )
        return WaterLevels(*(float(one) for one in found))
