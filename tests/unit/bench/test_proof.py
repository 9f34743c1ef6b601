"""What is told of a day is the mean of its runs."""

from __future__ import annotations

from typing import Any

from scavenger_simulator.result import Point, ResourcePoint

from bench.simulator.bench_proof import SHOWN, figures_of
from bench.simulator.proof import BIN_SECONDS, binned


def point(at: float, load: float) -> Point:
    one = ResourcePoint(load, 0.0, 70.0, 80.0, 85.0)
    return Point(at, one, one, 33.0, "Filling", admit=True, running=0, waiting=0, running_cores=0.0)


def test_a_course_has_means() -> None:
    points = [point(30.0, 10.0), point(60.0, 20.0), point(BIN_SECONDS, 40.0), point(BIN_SECONDS + 30.0, 60.0)]
    assert binned(points, lambda one: one.cpu.load) == [15.0, 50.0]


def test_figures_are_means_and_ratios_are_of_equal_seeds() -> None:
    def run(policy: str, seed: int, **values: Any) -> dict[str, Any]:
        return {"policy": policy, "seed": seed, **dict.fromkeys(SHOWN, None), **values}

    runs = [
        run("none", 1, lost=0.0),
        run("plain", 1, lost=10.0, useful=100.0, progress=100.0),
        run("plain", 2, lost=20.0, useful=100.0, progress=100.0),
        run("ours", 1, lost=5.0, useful=110.0, progress=110.0),
        run("ours", 2, lost=2.0, useful=90.0, progress=90.0),
    ]
    found = {figure["name"]: figure["value"] for figure in figures_of(runs)}
    assert found["proof.openb.plain.lost"] == 15.0
    assert found["proof.openb.ours.useful"] == 100.0
    assert found["proof.openb.lost_ratio_to_plain"] == (0.5 + 0.1) / 2
    assert found["proof.openb.progress_ratio_to_plain"] == 1.0
    assert "proof.openb.none.useful" not in found, "nothing is known of it"
