from __future__ import annotations

import statistics

import pytest
from scavenger_simulator.inputs.distributions import Constant, LogNormal, Uniform, chance, draw, parse_distribution
from scavenger_simulator.inputs.habits import Habits


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30m", Constant(1800)),
        ("45", Constant(45)),
        ("0.5", Constant(0.5)),
        ("uniform:10m:2h", Uniform(600, 7200)),
        ("lognormal:30m:0.5", LogNormal(1800, 0.5)),
    ],
)
def test_distributions_are_written_in_a_word(text: str, expected: object) -> None:
    assert parse_distribution(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "soon",
        "uniform:2h:10m",
        "uniform:1h",
        "lognormal:0:1",
        "normal:1:2",
        "-5",
        "nan",
        "inf",
        "30m:2",
        "9" * 99 + "h",
    ],
)
def test_what_is_no_distribution_is_refused_with_the_forms_there_are(text: str) -> None:
    with pytest.raises(ValueError, match="uniform:LOW:HIGH"):
        parse_distribution(text)


def test_a_draw_belongs_to_the_item_and_not_to_the_order() -> None:
    items = [f"job-{i}" for i in range(50)]
    forth = {item: draw(LogNormal(1800, 0.5), 7, item, "interval") for item in items}
    back = {item: draw(LogNormal(1800, 0.5), 7, item, "interval") for item in reversed(items)}
    assert forth == back
    assert forth != {item: draw(LogNormal(1800, 0.5), 8, item, "interval") for item in items}
    assert forth != {item: draw(LogNormal(1800, 0.5), 7, item, "grace") for item in items}


def test_draws_are_spread_as_the_distribution_says() -> None:
    chances = [chance(1, f"item-{i}", "x") for i in range(4000)]
    assert all(0 < value < 1 for value in chances)
    assert statistics.mean(chances) == pytest.approx(0.5, abs=0.02)
    uniform = [draw(Uniform(10, 20), 1, f"item-{i}", "x") for i in range(4000)]
    assert min(uniform) >= 10
    assert max(uniform) <= 20
    assert statistics.median(uniform) == pytest.approx(15, abs=0.3)
    assert statistics.median(draw(LogNormal(900, 1), 1, f"item-{i}", "x") for i in range(4000)) == pytest.approx(
        900, 0.06
    )


def test_a_job_states_what_is_given_and_draws_the_rest() -> None:
    habits = Habits(grace=Constant(7), restart=Constant(90), checkpoint_every=Constant(5000), reported=1.0)
    job = habits.job(1, "a", 10.0, 600.0, cpu_milli=2500, interruption_after=1200.0, queue="lab", pods=None)
    assert (job.name, job.queue, job.submitted, job.work_seconds, job.pods) == ("a", "lab", 10.0, 600.0, 1)
    assert (job.cpu_milli, job.grace_seconds, job.restart_seconds) == (2500, 7, 90)
    assert job.interruption_after == 1200
    assert job.checkpoint_every == 1200, "a job writes one at least as often as it states"


def test_the_share_of_jobs_that_report_is_as_set() -> None:
    jobs = [Habits(reported=0.25).job(3, f"j{i}", 0.0, 100.0) for i in range(2000)]
    assert sum(job.checkpoint_every is not None for job in jobs) == pytest.approx(500, abs=70)
    assert all(Habits(reported=0.0).job(3, f"j{i}", 0.0, 1.0).checkpoint_every is None for i in range(50))
