"""Which nodes required node affinity selects."""

from __future__ import annotations

from typing import Any

import pytest
from scavenger_domain.node_affinity import REQUIRED, required_terms, selects_node


def terms(*given: dict[str, Any]) -> dict[str, Any]:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(given)}}}


def label(operator: str, *values: str, key: str = "a") -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


def all_of(*requirements: dict[str, Any]) -> dict[str, Any]:
    return {"matchExpressions": list(requirements)}


NAMED = {"matchFields": [label("In", "n1", key="metadata.name")]}


@pytest.mark.parametrize(
    ("affinity", "selected"),
    [
        ({}, True),
        (terms(all_of(label("In", "x", "5"))), True),
        (terms(all_of(label("In", "x"))), False),
        (terms(all_of(label("NotIn", "x"))), True),
        (terms(all_of(label("NotIn", "5"))), False),
        (terms(all_of(label("NotIn", "5", key="absent"))), True),
        (terms(all_of(label("Exists"))), True),
        (terms(all_of(label("DoesNotExist"))), False),
        (terms(all_of(label("Gt", "4"))), True),
        (terms(all_of(label("Gt", "5"))), False),
        (terms(all_of(label("Lt", "6"))), True),
        (terms(all_of(label("Lt", "6", key="absent"))), False),
        (terms(all_of(label("Exists"), label("In", "x"))), False),
        (terms(all_of(label("In", "x")), all_of(label("Exists"))), True),
        (terms({}), False),
        (terms({}, all_of(label("Exists"))), True),
        (terms(NAMED), True),
        (terms({**NAMED, **all_of(label("In", "x"))}), False),
        (terms(all_of(label("Other", "5"))), False),
    ],
)
def test_which_nodes_are_selected(affinity: dict[str, Any], selected: bool) -> None:
    assert selects_node(required_terms(affinity), "n1", {"a": "5"}) is selected
