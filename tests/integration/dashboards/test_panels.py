"""Every query of every panel, put to a real Prometheus, says what the scenario did."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import pytest
from scavenger_testing.waiting import TIMEOUT, wait

from tools.dashboards.__main__ import FOLDER

from .conftest import Played
from .expected import EXPECTED, Expectation
from .prometheus import Sample, name
from .scenario import Scenario

pytestmark = pytest.mark.timeout(600)


@dataclass(frozen=True)
class Asked:
    """A query of a panel, as it is in the file that Grafana loads."""

    board: str
    panel: str
    number: int
    expr: str
    legend: str

    def __str__(self) -> str:
        return f"{self.board}: {self.panel} {self.number}"


QUERIES = [
    Asked(path.stem, panel["title"], number, target["expr"], target["legendFormat"])
    for path in sorted(FOLDER.glob("*.json"))
    for panel in json.loads(path.read_text())["panels"]
    for number, target in enumerate(panel.get("targets", ()))
]


def named(asked: Asked, samples: list[Sample]) -> dict[str, float]:
    """The series by their names."""
    found = {name(asked.legend, labels): value for labels, value in samples}
    assert len(found) == len(samples), "two series of the same name"
    return found


def mismatch(expected: Mapping[str, Expectation], shown: Mapping[str, float], scenario: Scenario) -> str:
    """What is not as it should be; empty when all is."""
    if not expected.keys() <= shown.keys():
        return f"missing: {expected.keys() - shown.keys()}"
    wrong = {name: shown[name] for name, check in expected.items() if not _holds(check, shown[name], scenario)}
    return f"wrong: {wrong}" if wrong else ""


def _holds(check: Expectation, value: float, scenario: Scenario) -> bool:
    """A figure is met within five percent, as `increase` extrapolates; anything else is a predicate."""
    return check(value, scenario) if callable(check) else value == pytest.approx(check, rel=0.05, abs=1e-9)


@pytest.mark.parametrize("asked", QUERIES, ids=str)
def test_every_query_says_what_happened(asked: Asked, played: Played) -> None:
    expected, only = EXPECTED[asked.board, asked.panel][asked.number]
    seen: dict[str, float] = {}

    def right() -> bool:
        seen.clear()
        seen.update(named(asked, played.prometheus.query(asked.expr, queue="lab")))
        return not mismatch(expected, seen, played.scenario) and (not only or seen.keys() == expected.keys())

    wait(
        str(asked), right, TIMEOUT, lambda: f"{mismatch(expected, seen, played.scenario)} in {seen}\n{asked.expr}", 0.5
    )


def test_nothing_is_expected_of_a_panel_that_is_not_there() -> None:
    counts: dict[tuple[str, str], int] = {}
    for asked in QUERIES:
        counts[asked.board, asked.panel] = asked.number + 1
    assert {panel: len(queries) for panel, queries in EXPECTED.items()} == counts


def test_a_researcher_can_choose_among_the_queues(played: Played) -> None:
    variables = json.loads((FOLDER / "researcher.json").read_text())["templating"]["list"]
    (query,) = (variable["query"] for variable in variables if variable["name"] == "queue")
    assert {"lab", "guest"} <= set(played.prometheus.label_values(query))
