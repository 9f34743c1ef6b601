"""What is told of days: each run is kept beside the others, and ratios are of sums and of single days."""

from __future__ import annotations

from typing import Any

import pytest
from scavenger_simulator.result import JobOutcome, Point, ResourcePoint, RunResult, Totals

from bench.simulator.bench_orders import Sums
from bench.simulator.bench_orders import figures_of as figures_of_orders
from bench.simulator.bench_proof import figures_of
from bench.simulator.proof import BIN_SECONDS, KEPT, binned, kept, updated


def point(at: float, load: float) -> Point:
    one = ResourcePoint(load, 0.0, 70.0, 80.0, 85.0)
    return Point(at, one, one, 33.0, "Filling", admit=True, running=0, waiting=0, running_cores=0.0)


def test_a_course_has_means() -> None:
    points = [point(30.0, 10.0), point(60.0, 20.0), point(BIN_SECONDS, 40.0), point(BIN_SECONDS + 30.0, 60.0)]
    assert binned(points, lambda one: one.cpu.load) == [15.0, 50.0]


def test_a_run_takes_the_place_of_the_one_before_and_the_course_is_of_one_day() -> None:
    totals = Totals(delays=(30.0, 60.0, 61.0), ordinary_pods=200)
    result = RunResult("x", "ours", 1, totals, points=(point(0.0, 10.0),))
    found = kept(result)
    assert set(found) == {*KEPT, "delayed_long", "wait_p99"}
    assert (found["delayed"], found["delayed_long"], found["wait_p99"]) == (3, 1, 30.0), "two of 200 waited longer"
    data: dict[str, Any] = {}
    for day, policy, lost in (
        ("openb-140", "ours", 1),
        ("openb", "ours", 2),
        ("openb", "plain", 3),
        ("openb", "ours", 4),
    ):
        data = updated(data, {"cores": lost}, {"day": day, "policy": policy, "lost": lost}, result)
    assert [(one["day"], one["policy"], one["lost"]) for one in data["runs"]] == [
        ("openb", "plain", 3),
        ("openb", "ours", 4),
        ("openb-140", "ours", 1),
    ]
    assert data["days"] == {"openb": {"cores": 4}, "openb-140": {"cores": 1}}
    assert data["course"] == {"ours": [10.0], "plain": [10.0], "ordinary": [0.0]}


def test_ratios_are_of_sums_and_of_each_day() -> None:
    def run(day: str, policy: str, completed: int, lost: float, late: int) -> dict[str, Any]:
        values = {"completed": completed, "progress": 100.0, "starved": 0, "lost": lost, "harvested": 1000.0}
        values |= {"preemptions": completed, "evictions": 0, "wait_p99": 10.0 * late, "above_upper_nodes": late / 2}
        return {"day": day, "policy": policy, **values, "delayed_long": late}

    runs = [
        run("a", "none", 0, 0.0, 2),
        run("a", "plain", 100, 10.0, 2),
        run("a", "youngest", 60, 8.0, 2),
        run("b", "youngest", 540, 0.0, 0),
        run("a", "ours", 90, 1.0, 3),
        run("b", "plain", 300, 30.0, 0),
        run("b", "ours", 330, 3.0, 0),
        run("a", "short-runs", 110, 2.0, 3),
        run("b", "short-runs", 330, 3.0, 0),
        run("a", "least-served", 120, 2.0, 3),
        run("b", "least-served", 360, 3.0, 0),
    ]
    found = {figure["name"]: figure["value"] for figure in figures_of(runs)}
    assert found["loop.jobs_done_ratio_to_plain"] == pytest.approx(1.05)
    assert found["loop.jobs_done_ratio_to_plain.a"] == pytest.approx(0.9)
    assert found["loop.jobs_done_ratio_to_plain.short-runs"] == pytest.approx(1.1)
    assert found["loop.jobs_done_ratio_to_plain.least-served"] == pytest.approx(1.2)
    assert found["loop.lost_ratio_to_plain"] == pytest.approx(0.1)
    assert (found["loop.ordinary_waited_over_60s"], found["loop.ordinary_waited_over_60s.b"]) == (1, 0)
    assert found["loop.lost_ratio_to_youngest_first"] == pytest.approx(0.5)
    assert found["loop.displaced_ratio_to_youngest_first.a"] == pytest.approx(1.5)
    assert "loop.lost_ratio_to_youngest_first.b" not in found, "youngest-first lost nothing there"
    assert (found["loop.ordinary_wait_p99"], found["loop.node_periods_above_upper"]) == (5.0, 0.75)
    assert found["gain.badput"] == pytest.approx(0.002)
    assert "loop.waited_4h_ratio_to_plain" not in found, "nobody waited beside plain Jobs"


def test_orders_are_told_by_the_size_of_jobs() -> None:
    def job(work: float, finished: float | None, wait: float) -> JobOutcome:
        return JobOutcome("a", "default", 1, 2.0, work, 0.0, 1.0, finished, 1, 0, wait, wait, 0.0, 0.0)

    plain, least = Sums(), Sums()
    plain.add(RunResult("x", "plain", 1, Totals(lost=1.0), jobs=(job(1799.0, 9.0, 7200.0),)))
    jobs = (job(1799.0, 9.0, 0.0), job(1800.0, 9.0, 3600.0), job(1800.0, None, 14_401.0))
    least.add(RunResult("x", "ours", 1, Totals(lost=0.5), jobs=jobs))
    found = figures_of_orders({"plain": plain, "least-served": least})
    values = {one["name"].removeprefix("loop.order.least-served."): one["value"] for one in found}
    assert (values["jobs_done_ratio_to_plain"], values["waited_4h"], values["lost"]) == (2.0, 1, 0.5)
    assert (values["done.below_1"], values["done.1_to_8"], values["waits.1_to_8"]) == (1, 1, 2.5001)
    assert "done.8_to_64" not in values
