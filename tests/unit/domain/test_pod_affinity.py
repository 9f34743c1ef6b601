"""In which node label the pods of a gang must differ."""

from __future__ import annotations

from typing import Any

import pytest
from scavenger_domain.node_affinity import REQUIRED
from scavenger_domain.pod_affinity import HOSTNAME, apart_by

MINE = {"matchLabels": {"app": "flow"}}


def term(key: str = HOSTNAME, selector: dict[str, Any] | None = MINE, **fields: Any) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": selector, **fields}


def expression(operator: str, *values: str, key: str = "app") -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("terms", "key"),
    [
        ([], ""),
        ([term()], HOSTNAME),
        ([term("zone")], "zone"),
        ([term(), term("zone")], "zone"),
        ([term(selector={})], HOSTNAME),
        ([term(selector=None)], ""),
        ([term(selector={"matchLabels": {"app": "other"}})], ""),
        ([term(selector=expression("In", "flow", "other"))], HOSTNAME),
        ([term(selector=expression("NotIn", "flow"))], ""),
        ([term(selector=expression("Exists"))], HOSTNAME),
        ([term(selector=expression("DoesNotExist"))], ""),
        ([term(selector={**MINE, **expression("Exists", key="stage")})], ""),
        ([term(matchLabelKeys=["app"])], HOSTNAME),
        ([term(mismatchLabelKeys=["app"])], ""),
        ([term(namespaces=["other"])], ""),
        ([term(namespaceSelector={})], ""),
        (["unreadable", {"labelSelector": {}}], ""),
    ],
)
def test_pods_keep_apart_from_pods_that_their_own_terms_select(terms: list[Any], key: str) -> None:
    assert apart_by({"podAntiAffinity": {REQUIRED: terms}}, {"app": "flow"}) == key


def test_preferred_anti_affinity_keeps_no_pods_apart() -> None:
    preferred = [{"weight": 1, "podAffinityTerm": term()}]
    wanted = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    assert apart_by(wanted, {"app": "flow"}) == ""
