"""Levels of nodes that an administrator sets: policies select nodes by label, and the lowest level holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from scavenger_regulator.core.levels import ThrottleLines, WaterLevels
from scavenger_regulator.core.metrics.fields import Fields, check_names, parse_objects

MOST: Final = 64
FIELDS: Final = ("name", "nodeSelector", "levels")
EXAMPLE: Final = "{name: …, nodeSelector: {…}, levels: {cpu: {lower: …, admission: …, upper: …}}}"


@dataclass(frozen=True, slots=True)
class NodeLevels:
    """A policy.

    Attributes:
        name: of it.
        selector: labels that a node must have; empty for all nodes.
        levels: by metric; no level of the selected nodes is above these.
    """

    name: str
    selector: Mapping[str, str]
    levels: Mapping[str, WaterLevels]
    lines: Mapping[str, ThrottleLines] = field(default_factory=dict)
    """By metric, from where to where jobs on the selected nodes are throttled."""


def parse_policies(text: str) -> tuple[NodeLevels, ...]:
    """The policies of a JSON list, as the chart writes it. Raises FieldError."""
    found = tuple(_parse(number, item) for number, item in enumerate(parse_objects(text, MOST, EXAMPLE)))
    check_names([one.name for one in found])
    return found


def _parse(number: int, item: Mapping[str, Any]) -> NodeLevels:
    fields = Fields(f"[{number}]", item)
    fields.check_known(FIELDS)
    selector, levels = item.get("nodeSelector", {}), item.get("levels")
    if not isinstance(selector, dict) or not all(isinstance(value, str) for value in selector.values()):
        raise fields.error("nodeSelector", f"{selector!r:.80} are no labels", "write label: value, both as text")
    if not isinstance(levels, dict) or not levels:
        raise fields.error("levels", "they are missing", "write metric: {lower, admission, upper}")
    inner = Fields(f"[{number}].levels", levels)
    known = {metric: one for metric in levels if (one := inner.levels(metric)) is not None}
    lines = {metric: two for metric in levels if (two := inner.lines(metric)) is not None}
    return NodeLevels(fields.text("name"), selector, known, lines)


def levels_of(policies: Iterable[NodeLevels], labels: Mapping[str, str]) -> dict[str, WaterLevels]:
    """What holds for a node with these labels, by metric: the lowest of each level."""
    found: dict[str, WaterLevels] = {}
    for policy in _selecting(policies, labels):
        for metric, levels in policy.levels.items():
            found[metric] = lowest(found.get(metric, levels), levels)
    return found


def lines_of(policies: Iterable[NodeLevels], labels: Mapping[str, str]) -> dict[str, ThrottleLines]:
    """From where to where jobs on a node with these labels are throttled, by metric: the lowest of each."""
    found: dict[str, ThrottleLines] = {}
    for policy in _selecting(policies, labels):
        for metric, lines in policy.lines.items():
            found[metric] = found.get(metric, lines).lowest(lines)
    return found


def _selecting(policies: Iterable[NodeLevels], labels: Mapping[str, str]) -> Iterable[NodeLevels]:
    return (one for one in policies if all(labels.get(key) == value for key, value in one.selector.items()))


def lowest(one: WaterLevels, other: WaterLevels) -> WaterLevels:
    """The lower of each level; they stay in order."""
    return WaterLevels(min(one.lower, other.lower), min(one.admission, other.admission), min(one.upper, other.upper))
