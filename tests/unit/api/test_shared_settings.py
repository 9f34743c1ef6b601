"""What all components read alike, as it stands in the ConfigMap."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from scavenger_api.names import DEFAULT_RESOURCE_WEIGHTS, SETTING_RESOURCE_WEIGHTS
from scavenger_api.shared_settings import FIELDS, SharedSettings
from scavenger_api.weights import DEFAULT_WEIGHTS, weights_of

CASES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[3] / "services/scheduler/pkg/preemption/testdata/settings_cases.json").read_text()
)


def as_said(want: dict[str, Any]) -> SharedSettings:
    """The settings of a case, by key; those that it does not name have their defaults."""
    found = {FIELDS[key]: value for key, value in want.items()}
    weights = DEFAULT_RESOURCE_WEIGHTS | found.pop("resource_weights", {})
    text = ",".join(f"{name}={weight}" for name, weight in weights.items())
    return replace(SharedSettings(), **found, resource_weights=weights_of(text))


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_the_table_that_the_scheduler_plugin_is_tested_against(case: dict[str, Any]) -> None:
    before = SharedSettings().read(case.get("before", {}))
    found = before.settings.read(case["data"])
    assert found.settings == as_said(case.get("want", {}))
    assert sorted(found.problems) == sorted(case.get("invalid", []))
    assert not before.problems


def test_each_field_has_a_key_with_its_unit() -> None:
    assert list(FIELDS) == [
        "startupCostSeconds",
        "trustedIntervalSeconds",
        "startOverWindowSeconds",
        "minimumRun",
        SETTING_RESOURCE_WEIGHTS,
    ]
    assert set(FIELDS.values()) == {one.name for one in fields(SharedSettings)}


def test_what_is_wrong_is_told_in_words_and_not_at_any_length() -> None:
    data = {"startupCostSeconds": "x" * 10_000, "minimumRun": "y" * 10_000, "resourceWeights": "z" * 10_000}
    problems = SharedSettings().read(data).problems
    assert "is no number of seconds from 0 to 604800" in problems["startupCostSeconds"]
    assert "is neither true nor false" in problems["minimumRun"]
    assert "more than 8192 characters" in problems["resourceWeights"]
    assert all(len(text) < 200 for text in problems.values())


def test_what_is_written_can_be_read_again() -> None:
    some = SharedSettings().read({"startupCostSeconds": "90", "resourceWeights": "cpu=0.5,memory=0.25"}).settings
    assert SharedSettings().read(some.to_data()) == (some, {})
    assert SharedSettings().to_data()["minimumRun"] == "false"
    assert weights_of(DEFAULT_WEIGHTS.text()) == DEFAULT_WEIGHTS
