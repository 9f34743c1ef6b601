"""Metrics keep to the conventions, and what is generated from them is what the code says."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tools.dashboards.__main__ import generated, out_of_date
from tools.dashboards.catalogue import Metric, catalogue, problems

METRICS = catalogue()
GOOD = Metric("scavenger_lost_cpu_seconds_total", "counter", ("queue",), "What was lost.", "admitter")


def test_every_service_shows_some() -> None:
    by_service = {metric.shown_by for metric in METRICS}
    assert by_service == {"runtime", "admitter", "regulator", "prioritizer", "webhook", "scheduler"}


def test_of_go_name_type_and_labels_are_read() -> None:
    found = {metric.name: metric for metric in METRICS if metric.shown_by == "scheduler"}
    victims = found["scavenger_scheduler_preemption_victims_total"]
    assert (victims.type, victims.labels) == ("counter", ("class",))
    assert victims.help.startswith("Pods removed for a pending pod")
    assert found["scavenger_scheduler_preemption_decision_duration_seconds"].type == "histogram"
    assert len(found) == 4


def test_names_are_unique() -> None:
    names = [name for metric in METRICS for name, _ in metric.series()]
    assert len(names) == len(set(names))


def test_all_keep_to_the_conventions() -> None:
    assert problems(METRICS) == []
    assert problems([GOOD]) == []


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"name": "lost_cpu_seconds_total"}, "scavenger_"),
        ({"name": "scavenger_lostCPU_seconds_total"}, "lower case"),
        ({"name": "scavenger_lost_cpu_seconds"}, "_total"),
        ({"type": "gauge"}, "_total"),
        ({"name": "scavenger_load_percent", "type": "gauge"}, "ratios"),
        ({"name": "scavenger_size_mib", "type": "gauge"}, "bytes"),
        ({"name": "scavenger_wait", "type": "histogram"}, "unit"),
        ({"labels": ("queue", "pod")}, "belongs to the target"),
        ({"labels": ("user",)}, "what bounds label user"),
        ({"help": "Lost"}, "no sentence"),
    ],
)
def test_what_does_not_is_named(change: dict[str, Any], wrong: str) -> None:
    (problem,) = problems([replace(GOOD, **change)])
    assert wrong in problem


def test_what_is_generated_is_up_to_date() -> None:
    assert out_of_date(generated()) == []


def test_what_is_not_up_to_date_is_found(tmp_path: Path) -> None:
    (tmp_path / "same").write_text("1")
    (tmp_path / "other").write_text("2")
    files = {tmp_path / "same": "1", tmp_path / "other": "1", tmp_path / "new": "1"}
    assert out_of_date(files) == [tmp_path / "other", tmp_path / "new"]
