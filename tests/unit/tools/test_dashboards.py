"""Metrics keep to the conventions, and what is generated from them is what the code says."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from scavenger_api import crd, names
from scavenger_api.states import Phase

from tools.dashboards.__main__ import FOLDER, generated, unfounded
from tools.dashboards.catalogue import STATE_METRICS_SOURCE, Metric, catalogue, problems
from tools.dashboards.promql import of_targets, parse, wrong
from tools.generated import out_of_date

METRICS = catalogue()
GOOD = Metric("scavenger_lost_cpu_seconds_total", "counter", ("queue",), "What was lost.", "admitter")


def test_every_service_shows_some() -> None:
    by_service = {metric.shown_by for metric in METRICS}
    assert by_service == {
        "runtime",
        "admitter",
        "regulator",
        "prioritizer",
        "webhook",
        "scheduler",
        "kube-state-metrics",
    }


def test_of_go_name_type_and_labels_are_read() -> None:
    found = {metric.name: metric for metric in METRICS if metric.shown_by == "scheduler"}
    victims = found["scavenger_scheduler_preemption_victims_total"]
    assert (victims.type, victims.labels) == ("counter", ("class",))
    assert victims.help.startswith("Pods removed for a pending pod")
    assert found["scavenger_scheduler_preemption_decision_duration_seconds"].type == "histogram"
    assert len(found) == 5


def test_kube_state_metrics_is_told_fields_and_phases_that_jobs_have() -> None:
    (resource,) = yaml.safe_load(STATE_METRICS_SOURCE.read_text())["spec"]["resources"]
    kind = resource["groupVersionKind"]
    assert f"{kind['group']}/{kind['version']}" == names.API_VERSION
    schema = crd.job_crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    figures = [made["each"].get("gauge") or made["each"]["stateSet"] for made in resource["metrics"]]
    for path in (*resource["labelsFromPath"].values(), *(figure["path"] for figure in figures)):
        if path[0] != "metadata":
            assert path[1] in schema["properties"][path[0]]["properties"], path
    (phases,) = (figure["list"] for figure in figures if "list" in figure)
    assert phases == [phase.value for phase in Phase]


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


# --- queries ---


@pytest.mark.parametrize(
    ("expression", "selected", "grouped"),
    [
        ("up", [("up", ())], set()),
        ("sum(rate(a_total[5m])) / 3600", [("a_total", ())], set()),
        ('sum by (x, y) (a{z=~"b|c", w!="by (v)"}) > 0', [("a", ("z", "w"))], {"x", "y"}),
        ("sum(a) by (x)", [("a", ())], {"x"}),
        ('a and on (job) b{c="d"} or vector(0)', [("a", ()), ("b", ("c",))], {"job"}),
        (
            "histogram_quantile(0.99, sum by (le) (rate(a_bucket[$__rate_interval]))) - time()",
            [("a_bucket", ())],
            {"le"},
        ),
        ("topk(3, a) * on (x) group_left (y) b offset 5m", [("a", ()), ("b", ())], {"x", "y"}),
        ("absent(a) == bool 1", [("a", ())], set()),
    ],
)
def test_what_a_query_names(expression: str, selected: list[Any], grouped: set[str]) -> None:
    found = parse(expression)
    assert (found.selected, found.grouped) == (selected, grouped)


@pytest.mark.parametrize(
    ("expression", "legend", "problems"),
    [
        ('sum by (queue) (scavenger_lost_cpu_seconds_total{queue="a",job="b"})', "{{queue}} {{job}}", []),
        ("sum(scavenger_lost_seconds_total)", "", ["no service shows scavenger_lost_seconds_total"]),
        ("sum(scavenger_lost_cpu_seconds)", "", ["no service shows scavenger_lost_cpu_seconds"]),
        ('scavenger_lost_cpu_seconds_total{cause="a"}', "", ["scavenger_lost_cpu_seconds_total has no label cause"]),
        ("sum by (cause) (up)", "", ["nothing in sum by (cause) (up) has the label cause"]),
        ("up", "{{cause}}", ["nothing in up has the label cause"]),
    ],
)
def test_what_is_not_there_is_named(expression: str, legend: str, problems: list[str]) -> None:
    assert wrong(expression, [GOOD], legend) == problems


QUERIES = [
    pytest.param(query["expr"], query["legendFormat"].replace("__auto", ""), id=f"{path.stem}: {panel['title']}")
    for path in sorted(FOLDER.glob("*.json"))
    for panel in json.loads(path.read_text())["panels"]
    for query in panel.get("targets", ())
]


@pytest.mark.parametrize(("expression", "legend"), QUERIES)
def test_every_query_of_a_panel_asks_for_what_services_show(expression: str, legend: str) -> None:
    assert wrong(expression, METRICS, legend) == []


def test_a_metric_that_is_renamed_is_missed_where_it_was_used() -> None:
    renamed = [
        replace(metric, name="scavenger_lost_core_seconds_total") if metric.name == GOOD.name else metric
        for metric in METRICS
    ]
    assert {re.split("[,:]", problem)[0] for problem in unfounded(renamed)} == {
        "Scavenger / Administrator",
        "Scavenger / Researcher",
        "ScavengerWorkLost",
    }
    assert unfounded(METRICS) == []


def test_panels_are_numbered_and_within_the_grid() -> None:
    assert len(QUERIES) > 50
    for path in FOLDER.glob("*.json"):
        panels = json.loads(path.read_text())["panels"]
        assert [panel["id"] for panel in panels] == list(range(1, len(panels) + 1))
        assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in panels)
        taken = [
            (panel["gridPos"]["x"] + x, panel["gridPos"]["y"] + y)
            for panel in panels
            for x in range(panel["gridPos"]["w"])
            for y in range(panel["gridPos"]["h"])
        ]
        assert len(taken) == len(set(taken)), f"panels of {path.stem} cover each other"


def test_no_panel_is_painted_by_the_default_of_grafana() -> None:
    for path in FOLDER.glob("*.json"):
        for panel in json.loads(path.read_text())["panels"]:
            if panel["type"] in ("stat", "bargauge"):
                steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
                values = [step["value"] for step in steps[1:]]
                assert steps[0]["value"] is None
                assert values == sorted(values), panel["title"]
                assert (len(steps) > 1) == (steps[0]["color"] not in ("text", "blue")), panel["title"]


def test_every_query_is_of_the_chosen_cluster_and_namespace() -> None:
    for expression, _ in (parameter.values for parameter in QUERIES):
        for name, labels in parse(str(expression)).selected:
            # kube-state-metrics is in a namespace of its own
            chosen = ("cluster",) if name.startswith("scavenger_job_") else ("cluster", "namespace")
            assert labels[: len(chosen)] == chosen, f"{name} in {expression}"


@pytest.mark.parametrize(
    ("expression", "made"),
    [
        ("up", "up{m}"),
        ("max(a) by (x)", "max(a{m}) by (x)"),
        ('sum by (x) (rate(a_total{y="z"}[5m])) > 0', 'sum by (x) (rate(a_total{m,y="z"}[5m])) > 0'),
        ("a{} and on (job, y) b - time()", "a{m} and on (job, y) b{m} - time()"),
    ],
)
def test_matchers_are_added_to_every_selector(expression: str, made: str) -> None:
    assert of_targets(expression, "m") == made


# --- generated files ---


def test_what_is_generated_is_up_to_date() -> None:
    assert out_of_date(generated()) == []


def test_what_is_not_up_to_date_is_found(tmp_path: Path) -> None:
    (tmp_path / "same").write_text("1")
    (tmp_path / "other").write_text("2")
    files = {tmp_path / "same": "1", tmp_path / "other": "1", tmp_path / "new": "1"}
    assert out_of_date(files) == [tmp_path / "other", tmp_path / "new"]
