"""Levels of nodes that an administrator sets: what may be said, which nodes are selected, and that the lowest holds."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from pydantic import ValidationError
from scavenger_kube.kinds import Node
from scavenger_regulator.core.level_policies import levels_of, lines_of, parse_policies
from scavenger_regulator.core.levels import INITIAL, ThrottleLines, WaterLevels
from scavenger_regulator.core.metrics.fields import FieldError
from scavenger_regulator.core.plan import regulate
from scavenger_regulator.core.rules import Rules
from scavenger_regulator.facts import node_facts
from scavenger_regulator.settings import RegulatorSettings
from scavenger_testing.builders import node_dict

from .builders import GIB, figures, measured, node, snapshot

LOW = {"lower": 40, "admission": 50, "upper": 60}
SLOW = {**LOW, "throttle": 55, "restore": 45}
SMALL = {"name": "small", "nodeSelector": {"size": "small"}, "levels": {"cpu": LOW}}
ALL = {"name": "all", "levels": {"cpu": {"lower": 30, "admission": 55, "upper": 90}, "memory": LOW}}


def policies(*items: Any) -> str:
    return json.dumps(items)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({"size": "large"}, {"cpu": WaterLevels(30, 55, 90), "memory": WaterLevels(40, 50, 60)}),
        ({"size": "small", "pool": "a"}, {"cpu": WaterLevels(30, 50, 60), "memory": WaterLevels(40, 50, 60)}),
    ],
)
def test_of_all_policies_that_select_a_node_each_level_is_the_lowest(
    labels: dict[str, str], expected: dict[str, WaterLevels]
) -> None:
    assert levels_of(parse_policies(policies(SMALL, ALL)), labels) == expected


def test_of_lines_to_throttle_from_each_is_the_lowest() -> None:
    ours, all_ = ({**LOW, "throttle": 55, "restore": 45}, {**LOW, "throttle": 58, "restore": 42})
    text = policies({**SMALL, "levels": {"cpu": ours}}, {**ALL, "levels": {"cpu": all_, "memory": LOW}})
    small = msgspec.convert(node_dict("n", labels={"size": "small"}), Node)
    assert node_facts(small, (), policies=parse_policies(text)).lines == {"cpu": ThrottleLines(55, 42)}
    assert lines_of(parse_policies(text), {}) == {"cpu": ThrottleLines(58, 42)}


def test_a_policy_that_does_not_select_a_node_says_nothing_of_it() -> None:
    found = parse_policies(policies(SMALL))
    made = msgspec.convert(node_dict("n", labels={"size": "large"}), Node)
    assert node_facts(made, (), policies=found).levels == {}
    small = msgspec.convert(node_dict("n", labels={"size": "small"}), Node)
    assert node_facts(small, (), policies=found).levels == {"cpu": WaterLevels(40, 50, 60)}


def test_a_node_is_full_at_the_levels_of_its_policy_and_others_are_not() -> None:
    """At 65 % of the CPU the node with a policy is above its upper level; the other one has 15 points left."""
    nodes = {"low": node("low", levels={"cpu": WaterLevels(40, 50, 60)}), "free": node("free")}
    taken = snapshot(nodes=nodes, measurement=measured({name: figures(6.5, 50 * GIB) for name in nodes}))
    decision = regulate(taken, {}, Rules(per_node=True, cpu_samples=1))
    assert decision.scopes["low"].levels["cpu"] == WaterLevels(40, 50, 60)
    assert decision.scopes["low"].levels["memory"] == decision.scopes["free"].levels["cpu"] == INITIAL
    assert decision.scopes[""].levels["cpu"] == INITIAL
    assert decision.published.closed_nodes == {"low"}


def test_a_policy_raises_no_level() -> None:
    nodes = {"n": node("n", levels={"cpu": WaterLevels(90, 95, 99)})}
    taken = snapshot(nodes=nodes, measurement=measured({"n": figures(6.5, 50 * GIB)}))
    assert regulate(taken, {}, Rules(per_node=True)).scopes["n"].levels["cpu"] == INITIAL


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"name": ""}, r"\[0\].name"),
        ({"selector": {}}, r"\[0\].selector: there is no such field; there are name, nodeSelector, levels"),
        ({"nodeSelector": {"size": 3}}, r"\[0\].nodeSelector: .* are no labels"),
        ({"levels": {}}, r"\[0\].levels: they are missing"),
        ({"levels": {"cpu": {**LOW, "upper": 45}}}, r"\[0\].levels.cpu: .* are out of order"),
        ({"levels": {"cpu": {"upper": 45}}}, r"\[0\].levels.cpu: .* are none; write lower, admission, upper"),
    ],
)
def test_what_cannot_be_said(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(FieldError, match=says):
        parse_policies(policies({**SMALL, **changes}))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (policies(SMALL, SMALL), "two have the name 'small'"),
        (policies({**SMALL, "levels": {"network": LOW}}), "'small' has levels of 'network', which is no metric"),
        (policies({**SMALL, "levels": {"memory": SLOW}}), "'small' has throttle and restore of 'memory'"),
        (policies({**SMALL, "levels": {"cpu": SLOW}}), "--level-policies: throttle needs --throttle"),
        ("[", "not JSON"),
    ],
)
def test_settings_that_cannot_be(text: str, says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        RegulatorSettings(level_policies=text, per_node=True)


def test_nodes_need_levels_of_their_own() -> None:
    with pytest.raises(ValidationError, match="--level-policies needs --per-node"):
        RegulatorSettings(level_policies=policies(SMALL))
    assert len(RegulatorSettings(level_policies=policies(SMALL), per_node=True).policies) == 1
