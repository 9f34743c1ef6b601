"""Label selectors, as the API server evaluates them."""

from __future__ import annotations

import pytest
from scavenger_api.selectors import LabelSelector, LabelSelectorRequirement
from scavenger_domain.selectors import selects, spelled

BLUE = {"team": "blue", "stage": "prod"}


def selector(**fields: object) -> LabelSelector:
    return LabelSelector.model_validate(fields)


def where(key: str, operator: str, *values: str) -> LabelSelector:
    return selector(matchExpressions=[{"key": key, "operator": operator, "values": values}])


@pytest.mark.parametrize(
    ("asked", "labels", "expected"),
    [
        (selector(), {}, True),
        (selector(matchLabels={"team": "blue"}), BLUE, True),
        (selector(matchLabels={"team": "blue", "stage": "test"}), BLUE, False),
        (selector(matchLabels={"team": ""}), {}, False),
        (where("team", "In", "red", "blue"), BLUE, True),
        (where("team", "In", "red"), BLUE, False),
        (where("other", "In", "red"), BLUE, False),
        (where("team", "NotIn", "red"), BLUE, True),
        (where("team", "NotIn", "blue"), BLUE, False),
        (where("other", "NotIn", "red"), BLUE, True),
        (where("team", "Exists"), BLUE, True),
        (where("other", "Exists"), BLUE, False),
        (where("other", "DoesNotExist"), BLUE, True),
        (where("team", "DoesNotExist"), BLUE, False),
        (
            selector(matchLabels={"team": "blue"}, matchExpressions=[{"key": "stage", "operator": "DoesNotExist"}]),
            BLUE,
            False,
        ),
    ],
)
def test_all_conditions_hold(asked: LabelSelector, labels: dict[str, str], expected: bool) -> None:
    assert selects(asked, labels) is expected


def test_an_operator_of_a_later_version_selects_nothing() -> None:
    unknown = LabelSelectorRequirement(key="team", operator="Exists").model_copy(update={"operator": "Like"})
    assert not selects(LabelSelector(match_expressions=(unknown,)), BLUE)


def test_as_kubectl_takes_it() -> None:
    whole = selector(
        matchLabels={"team": "blue"},
        matchExpressions=[
            {"key": "stage", "operator": "NotIn", "values": ["test", "dev"]},
            {"key": "batch", "operator": "Exists"},
            {"key": "hidden", "operator": "DoesNotExist"},
        ],
    )
    assert spelled(whole) == "team=blue,stage notin (test,dev),batch,!hidden"
    assert spelled(selector()) == ""
