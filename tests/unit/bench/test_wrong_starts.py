"""Which starts count as wrong."""

from __future__ import annotations

from scavenger_simulator.result import Moment, MomentKind

from bench.simulator.bench_wrong_starts import day_of, figures_of


def _moment(at: float, kind: MomentKind, job: str, lost: float = 0.0) -> Moment:
    return Moment(at, kind, job, cores=2.0, lost=lost)


def test_a_start_is_wrong_that_is_taken_back_before_it_has_saved_anything() -> None:
    moments = [
        _moment(0, MomentKind.STARTED, "a"),
        _moment(0, MomentKind.STARTED, "b"),
        _moment(10, MomentKind.STARTED, "c"),
        _moment(30, MomentKind.STARTED, "d"),
        _moment(60, MomentKind.EVICTED, "a", lost=120),
        _moment(90, MomentKind.PREEMPTED, "b", lost=20),  # it had saved
        _moment(100, MomentKind.YIELDED, "c"),
        _moment(130, MomentKind.PREEMPTED, "d", lost=200),
    ]
    day = day_of("calm", moments, computed=3200.0)
    assert (day.starts, day.wrong, day.lost) == (4, (60, 100), 320)
    values = {figure["name"]: figure["value"] for figure in figures_of([day])}
    assert values["loop.wrong_starts.calm.percent"] == 50
    assert values["loop.wrong_starts.calm.lost_percent"] == 10
    assert values["loop.wrong_starts.calm.seconds_p90"] > values["loop.wrong_starts.calm.seconds_p50"] >= 60
