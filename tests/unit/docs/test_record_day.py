"""What the panels of a day show, of a run of three periods."""

from __future__ import annotations

from scavenger_simulator.result import JobOutcome, Moment, MomentKind, Point, ResourcePoint, RunResult, Totals
from scavenger_simulator.scenario import NodeSpec, Scenario

from docs import record_day

CPU = ResourcePoint(load=50.0, ordinary=20.0, lower=70.0, admission=80.0, upper=85.0)


def job(name: str, queue: str, submitted: float) -> JobOutcome:
    """A job of four cores."""
    return JobOutcome(name, queue, 1, 4.0, 60.0, submitted, None, None, 0, 0, 0.0, 0.0, 0.0, 0.0)


def test_panels_follow_the_jobs() -> None:
    every = record_day.EVERY
    points = tuple(Point(every * n, CPU, CPU, 33.0, "Filling", True, 0, 0, 4.0) for n in range(4))
    moments = (
        Moment(1.0, MomentKind.STARTED, "a", 4.0),
        Moment(every + 1, MomentKind.EVICTED, "a", 4.0),
        Moment(every + 2, MomentKind.STARTED, "g", 4.0),
        Moment(2 * every + 1, MomentKind.STARTED, "a", 4.0),
        Moment(2 * every + 2, MomentKind.COMPLETED, "a", 4.0),
        Moment(2 * every + 3, MomentKind.COMPLETED, "g", 4.0),
    )
    jobs = (job("a", "lab", 0.0), job("b", "lab", every), job("g", "guest", every))
    result = RunResult("day", "ours", 1, Totals(), points, moments, jobs)
    scenario = Scenario("day", (NodeSpec("n", 20_000, 1),), (), ())

    load, cores, phases, share = (
        {one["name"]: one["values"] for one in panel["series"]} for panel in record_day.panels(scenario, result)
    )

    assert load["with scavenging"] == [0.5] * 4
    assert load["level: upper"] == [0.85] * 4
    assert cores == {"lab": [0, 4, 0, 0], "guest": [0, 0, 4, 0]}
    assert phases == {"Running": [0, 1, 0, 0], "Interrupted": [0, 0, 1, 0], "Waiting": [1, 1, 1, 1]}
    # Ten cores may be used: the four that are, and six more under the admission threshold. A third where both demand.
    assert share == {"has": [0, 4, 0, 0], "deserves": [10.0, 3.3, 3.3, 10.0]}
