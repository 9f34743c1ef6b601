"""What is told of the loop are ratios of sums over the seeds."""

from __future__ import annotations

from bench.simulator.bench_loop import RAMP, Day, figures_of


def days(policy: str, net: tuple[float, float], lost: tuple[float, float], above: int = 0) -> list[Day]:
    return [Day("day", policy, seed, net[seed], lost[seed], above, 100) for seed in (0, 1)]


def test_ratios_are_of_sums_and_say_how_far_seeds_differ() -> None:
    found = {
        figure["name"]: figure["value"]
        for figure in figures_of(
            [
                *days("ours", (110.0, 100.0), (2.0, 4.0), above=1),
                *days("youngest", (100.0, 100.0), (10.0, 10.0)),
                *days("oracle", (120.0, 120.0), (0.0, 0.0)),
                *days(RAMP, (110.0, 90.0), (2.0, 4.0)),
            ]
        )
    }
    assert found["loop.day.net_ratio_to_youngest_first"] == 1.05
    assert found["loop.day.net_ratio_to_youngest_first.spread"] == 0.1
    assert found["loop.day.net_ratio_at_most"] == 1.2
    assert found["loop.day.lost_ratio_to_youngest_first"] == 0.3
    assert found["loop.day.net_over_oracle"] == 0.875
    assert found["loop.day.periods_above_upper_percent"] == 1.0
    assert found["loop.ramp.day.net_ratio"] == round(200 / 210, 4)


def test_of_next_to_nothing_there_is_no_ratio() -> None:
    found = {
        figure["name"]
        for figure in figures_of(
            [
                *days("ours", (100.0, 100.0), (0.0, 0.1)),
                *days("youngest", (100.0, 100.0), (0.0, 0.1)),
                *days("oracle", (120.0, 120.0), (0.0, 0.0)),
                *days(RAMP, (100.0, 100.0), (0.0, 0.0)),
            ]
        )
    }
    assert "loop.day.lost_ratio_to_youngest_first" not in found
    assert "loop.day.net_ratio_to_youngest_first" in found
