from __future__ import annotations

import json
import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from scavenger_simulator.report.charts import Chart, hour_ticks, nice_ticks, scatter
from scavenger_simulator.report.document import SCHEMA, as_json
from scavenger_simulator.report.figures import Study, figures, percentile
from scavenger_simulator.report.page import as_page
from scavenger_simulator.report.pictures import LANES, MOST_POINTS, pictures
from scavenger_simulator.report.table import COLUMNS, as_markdown, as_text, number, seconds
from scavenger_simulator.result import JobOutcome, Moment, MomentKind, Point, ResourcePoint, RunResult, Totals

DAY = 86_400.0


def outcome(name: str, cores: float = 1.0, hours: float = 2.0, *, finished: float | None = 9000.0) -> JobOutcome:
    return JobOutcome(
        name=name,
        queue="default",
        pods=1,
        cores=cores,
        work_seconds=3600 * hours,
        submitted=0.0,
        started=60.0,
        finished=finished,
        runs=2,
        interruptions=1,
        waited=120.0,
        longest_wait=20_000.0 if finished is None else 60.0,
        useful=cores * 3600 * hours,
        lost=30.0,
    )


def point(at: float, load: float, state: str = "Filling") -> Point:
    of = ResourcePoint(load=load, ordinary=load / 2, lower=70.0, admission=80.0, upper=85.0)
    return Point(at, of, of, 33.0, state, True, running=3, waiting=1, running_cores=3.0)


def run(policy: str = "ours", *, jobs: int = 3, points: int = 20) -> RunResult:
    names = [f"job-{i}" for i in range(jobs)]
    moments = [
        moment
        for i, name in enumerate(names)
        for moment in (
            Moment(100.0 + i, MomentKind.STARTED, name, 1.0),
            Moment(900.0 + i, MomentKind.EVICTED, name, 1.0, "load <above> upper", 30.0),
            Moment(2000.0 + i, MomentKind.STARTED, name, 1.0),
            Moment(9000.0 + i, MomentKind.COMPLETED, name, 1.0),
        )
    ]
    totals = Totals(
        utilisation=71.25,
        utilisation_without=30.5,
        harvested=1234.5,
        useful=1230.0,
        lost=4.5,
        completed=2,
        periods=points,
        periods_above_upper=4,
        periods_above_upper_ordinary=1,
        nodes_above_upper=points // 2,
        nodes=4,
        evictions=3,
        victims=1,
        victims_minimum=2,
        delays=(1.0, 2.0, 30.0),
        admit_flips=6,
        starved=1,
    )
    outcomes = (*(outcome(name) for name in names), outcome("long", 4.0, 30.0, finished=None))
    day = [
        point(DAY * i / points, 20 + 60 * i / points, "Evicting" if 5 <= i < 8 else "Filling") for i in range(points)
    ]
    return RunResult("test", policy, 1, totals, tuple(day), tuple(moments), outcomes)


def study(*runs: RunResult) -> Study:
    return Study("a <b>", "made up & drawn", 1, 0.0, DAY, 4, 64.0, 10, 4, 126.0, {"reserve": 15.0}, 14_400.0, runs)


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [((), 0.5, None), ((1, 2, 3), 0.5, 2), ((1, 2, 3, 4), 0.5, 2), ((1, 2, 3), 0.99, 3), (range(1, 101), 0.99, 99)],
)
def test_a_percentile_is_one_of_the_values(values: tuple[float, ...], share: float, expected: float | None) -> None:
    assert percentile(values, share) == expected


def test_figures_are_those_of_the_totals() -> None:
    found = figures(run())
    assert (found.victims_ratio, found.delayed, found.delay_p50, found.delay_p99) == (2.0, 3, 2.0, 30.0)
    assert (found.above_upper, found.above_upper_ordinary, found.above_upper_nodes) == (4, 1, 12.5)
    assert [(size.core_hours, size.jobs, size.completed, size.starved) for size in found.sizes] == [
        ("1-8", 3, 3, 0),
        (">= 64", 1, 0, 1),
    ]
    assert found.sizes[0].slowdown_p50 == 9000 / 7200
    assert found.sizes[1].slowdown_p50 is None
    nobody = figures(replace(run(), totals=Totals()))
    assert (nobody.victims_ratio, nobody.delay_p50) == (None, None)


@pytest.mark.parametrize(
    ("value", "digits", "expected"),
    [(None, 0, "-"), (1234567.4, 0, "1 234 567"), (-0.2, 0, "0"), (-0.04, 1, "0.0"), (12.25, 1, "12.2"), (-3, 0, "-3")],
)
def test_numbers_are_short(value: float | None, digits: int, expected: str) -> None:
    assert number(value, digits) == expected


def test_spans_have_the_unit_that_suits_them() -> None:
    assert [seconds(value) for value in (None, 0, 90, 600, 7200)] == ["-", "0 s", "90 s", "10.0 min", "2.0 h"]


def test_the_table_has_a_row_for_each_policy_and_aligned_columns() -> None:
    text = as_text(study(run(), run("youngest")))
    lines = text.splitlines()
    header = next(line for line in lines if line.startswith("policy"))
    rows = [line for line in lines if line.startswith(("ours ", "youngest "))][:2]
    assert [name for name, _ in COLUMNS][1] in header
    assert {len(row) for row in rows} == {len(header)}
    assert "1 234" in rows[0]
    assert "4 (1)" in rows[0]
    assert "without scavenging 30.5 % of CPU is used" in text
    assert "made up & drawn" in text


def test_markdown_has_the_same_cells() -> None:
    lines = as_markdown(study(run())).splitlines()
    table = [line for line in lines if line.startswith("|")]
    assert lines[0] == "### a <b>"
    assert len(table) == 3
    assert len({line.count("|") for line in table}) == 1
    assert "| ours | 71.2 | 1 234 | 1 230 | 4.5 |" in table[2]


def test_json_is_sorted_rounded_and_named_as_documented() -> None:
    text = as_json([study(replace(run(), totals=replace(run().totals, useful=1 / 3)))])
    document = json.loads(text)
    assert document["schema"] == SCHEMA
    assert text == json.dumps(document, indent=2, sort_keys=True) + "\n"
    (one,) = document["scenarios"]
    assert one["settings"] == {"reserve": 15.0}
    assert one["scenario"]["ordinaryPods"] == 10
    (policy,) = one["policies"]
    assert policy["useful"] == 0.333333
    assert policy["delayP99"] == 30.0
    assert policy["sizes"][0]["coreHours"] == "1-8"


def test_the_page_needs_nothing_else_and_its_charts_are_well_formed() -> None:
    page = as_page([study(run(), run("youngest"), replace(run("oracle"), points=(), moments=()))])
    assert "<script" not in page
    assert not re.findall(r'(?:src|href)="', page)
    assert set(re.findall(r"https?://[^\"]+", page)) == {"http://www.w3.org/2000/svg"}
    drawings = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert len(drawings) == 1 + 2 * 5, "the policies in one, and five of each that has a course"
    for drawing in drawings:
        ElementTree.fromstring(drawing)
    assert "a &lt;b&gt;" in page
    assert "<b>" not in page
    assert page.count("<details open>") == 1
    assert "reserve: 15.0" in page


def test_a_chart_shows_peaks_and_no_more_than_can_be_seen() -> None:
    one = run(points=10_000)
    peak = replace(one.points[5001], cpu=replace(one.points[5001].cpu, load=100.0))
    spiky = replace(one, points=(*one.points[:5001], peak, *one.points[5002:]))
    flat, high = (next(pictures(study(x), x)).svg for x in (one, spiky))
    assert flat != high
    assert high.count("L") < 8 * 2 * MOST_POINTS


def test_lanes_are_those_that_lost_most() -> None:
    one = run(jobs=100)
    jobs = tuple(replace(job, lost=float(i)) for i, job in enumerate(one.jobs))
    last = list(pictures(study(one), replace(one, jobs=jobs)))[-1]
    assert f"the {LANES} of 100 jobs" in last.heading
    assert "job-99," in last.svg
    assert "job-10," not in last.svg
    assert {name for name, _ in last.legend} == {"running", "evicted above the upper level", "completed"}
    assert last.svg.count("completed after") == 2 * LANES, "the run, and its end"


def test_what_lies_outside_is_drawn_at_the_edge() -> None:
    chart = Chart(0, 100, 10, height=100, unit="%", title="x")
    assert chart.y(20) == chart.y(10) < chart.y(5) < chart.y(0) == chart.y(-5)
    assert chart.x(0) < chart.x(50) < chart.x(100)


def test_ticks_are_round() -> None:
    assert nice_ticks(0, 100, 5) == [0, 20, 40, 60, 80, 100]
    assert nice_ticks(0, 0.9, 4) == [0, 0.5] or len(nice_ticks(0, 0.9, 4)) >= 3
    assert nice_ticks(6200, 6900, 5) == [6200, 6400, 6600, 6800]
    assert [label for _, label in hour_ticks(0, DAY)][:3] == ["0 h", "2 h", "4 h"]
    assert [label for _, label in hour_ticks(DAY, 8 * DAY)] == [f"day {i}" for i in range(1, 9)]
    assert len(hour_ticks(0, 400 * DAY)) < 20


def test_names_in_a_scatter_do_not_lie_on_each_other() -> None:
    drawing = scatter([(f"policy-{i}", 10.0, 100.0) for i in range(5)], "x", "y", "t", chosen="policy-3")
    heights = [float(y) for y in re.findall(r'y="([\d.]+)" text-anchor="start"', drawing)]
    assert len(heights) == 5
    assert min(b - a for a, b in zip(sorted(heights), sorted(heights)[1:], strict=False)) >= 13
    ElementTree.fromstring(scatter([], "x", "y", "t"))
