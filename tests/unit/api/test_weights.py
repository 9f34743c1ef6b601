"""What the resources of a pod count as."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from scavenger_api.names import DEFAULT_RESOURCE_WEIGHTS
from scavenger_api.weights import Weights, WeightsError, parse_weights, weights_of

GIB = 1 << 30
CASES_FILE = Path(__file__).parents[3] / "services/scheduler/pkg/preemption/testdata/weight_cases.json"
SHARED = json.loads(CASES_FILE.read_text())


def test_the_plugin_has_the_same_table() -> None:
    assert SHARED["table"] == DEFAULT_RESOURCE_WEIGHTS


@pytest.mark.parametrize("case", SHARED["cases"], ids=lambda case: f"{case['resource']} {case['weights']}".strip())
def test_devices_and_their_parts_weigh_what_the_plugin_takes_them_for(case: dict[str, Any]) -> None:
    weights = weights_of(case["weights"])
    assert weights.of(case["resource"]) == case["thousandths"]
    assert weights.cost({"cpu": 0, case["resource"]: 1000 if case["resource"] == "cpu" else GIB}) >= case["thousandths"]


def test_a_node_with_any_names_does_not_fill_the_memory() -> None:
    weights = Weights()
    for number in range(5000):
        assert weights.of(f"nvidia.com/{number}") == 16_000
    assert len(vars(weights)["_known"]) <= 1024


@pytest.mark.parametrize(
    ("text", "requests", "cost"),
    [
        ("", {"cpu": 250}, 250),
        ("", {"cpu": 250, "memory": 64 * GIB, "example.com/fpga": 4}, 250),
        ("", {"cpu": 8000, "nvidia.com/gpu": 8}, 128_000),
        ("", {"cpu": 24_000, "amd.com/gpu": 1}, 24_000),
        ("example.com/fpga=3", {"cpu": 250, "example.com/fpga": 4}, 12_000),
        ("memory=0.5", {"cpu": 250, "memory": GIB}, 500),
        ("hugepages-2Mi=1", {"hugepages-2Mi": GIB}, 1000),
        ("cpu=0", {"cpu": 250}, 0),
    ],
)
def test_the_dominant_resource_of_a_pod_counts(text: str, requests: dict[str, int], cost: int) -> None:
    assert weights_of(text).cost(requests) == cost


def test_what_is_used_stands_in_for_the_cpu_that_is_requested() -> None:
    assert Weights().cost_using(100, {"cpu": 4000}) == 100
    assert Weights().cost_using(100, {"cpu": 4000, "nvidia.com/gpu": 1}) == 16_000


def test_weights_that_are_not_named_have_their_defaults() -> None:
    assert parse_weights(" nvidia.com/gpu = 20 ,") == DEFAULT_RESOURCE_WEIGHTS | {"nvidia.com/gpu": 20.0}


@pytest.mark.parametrize("text", ["cpu", "cpu=", "=1", "cpu=much", "cpu=-1", "cpu=nan", "cpu=1e7", "cpu=1;memory=1"])
def test_what_is_no_weight_is_refused_with_what_would_be_one(text: str) -> None:
    with pytest.raises(WeightsError, match=r"write RESOURCE=NUMBER"):
        parse_weights(text)


def test_there_is_an_end_to_them() -> None:
    with pytest.raises(WeightsError, match="more than 64"):
        parse_weights(",".join(f"example.com/r{i}=1" for i in range(64)))
