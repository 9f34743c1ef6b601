from __future__ import annotations

from dataclasses import replace

import pytest
from scavenger_simulator.inputs.catalog import (
    NAMED,
    SYNTHETIC,
    Sources,
    build,
    named,
)
from scavenger_simulator.inputs.days import by_days
from scavenger_simulator.inputs.nodes import peak_requests
from scavenger_simulator.inputs.reading import InputError
from scavenger_simulator.inputs.synthetic import (
    CROWD_FACTOR,
    Pattern,
    Synthetic,
    crowd_times,
    synthetic_jobs,
    synthetic_pods,
)
from scavenger_simulator.scenario import OrdinaryPod, Scenario

pytestmark = pytest.mark.slow

DAY = 86_400.0


@pytest.mark.parametrize("name", SYNTHETIC)
def test_every_well_known_scenario_is_built_the_same_each_time(name: str) -> None:
    sources = replace(named(name), pods=100, demand_share=0.05)
    scenario = build(sources)
    assert scenario == build(sources)
    assert scenario != build(replace(sources, seed=2))
    assert scenario.name == name
    assert scenario.end == DAY
    assert scenario.nodes
    assert scenario.ordinary
    assert scenario.jobs
    assert len({node.cpu_milli for node in scenario.nodes}) > 1, "of different sizes"
    assert all(0 <= job.submitted < DAY and job.work_seconds > 0 for job in scenario.jobs)
    assert all(0 <= pod.arrives < DAY and pod.leaves > pod.arrives for pod in scenario.ordinary)
    assert "checkpoint intervals" in scenario.origin, "what is assumed is said"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"ordinary": ("ganglia:x",)}, "'ganglia:x' is unknown"),
        ({"ordinary": ("synthetic:weekly",)}, "no pattern 'weekly'"),
        ({"ordinary": ("prometheus",)}, "where Prometheus is"),
        ({"ordinary": ("synthetic:diurnal", "synthetic:diurnal")}, "is there twice"),
        ({"demand": ("slurm:x",)}, "'slurm:x' is unknown"),
        ({"nodes": "many"}, "no group of nodes"),
    ],
)
def test_sources_that_cannot_be_had_are_refused_with_a_remedy(change: dict[str, object], problem: str) -> None:
    with pytest.raises(InputError, match=problem) as caught:
        build(replace(Sources("x", ("synthetic:diurnal",), pods=40, demand_share=0.01), **change))  # type: ignore[arg-type]
    assert caught.value.remedy


def test_an_unknown_name_is_answered_with_those_there_are() -> None:
    with pytest.raises(InputError) as caught:
        named("weekly")
    assert all(name in caught.value.remedy for name in NAMED)


def test_demand_is_drawn_to_a_share_of_the_room() -> None:
    scenario = build(replace(named("diurnal"), pods=200, demand_share=0.3))
    room = sum(node.cpu_milli for node in scenario.nodes) / 1000 * DAY
    assert sum(job.cores * job.work_seconds for job in scenario.jobs) / room == pytest.approx(0.3, rel=0.15)
    assert build(replace(named("diurnal"), demand=("none",))).jobs == ()


def use(pods: tuple[OrdinaryPod, ...], at: float) -> int:
    return sum(pod.usage.at(at)[0] for pod in pods if pod.arrives <= at < pod.leaves)


def test_synthetic_days_have_a_peak_in_the_afternoon() -> None:
    pods = synthetic_pods(Synthetic(pods=600, length=2 * DAY), seed=4)
    assert 450 < len(pods) < 800
    for day in (0, DAY):
        assert use(pods, day + 15 * 3600) > 1.5 * use(pods, day + 3 * 3600)


def test_a_flash_crowd_takes_much_at_once_and_brings_pods() -> None:
    spec = Synthetic(Pattern.FLASH_CROWD, pods=600, length=2 * DAY)
    pods = synthetic_pods(spec, seed=4)
    times = crowd_times(spec, seed=4)
    assert len(times) == 4
    for begin in times:
        assert use(pods, begin + 600) > 1.3 * use(pods, begin - 300)
        assert any(begin < pod.arrives < begin + 300 for pod in pods if "crowd" in pod.name)
    assert crowd_times(replace(spec, pattern=Pattern.DIURNAL), seed=4) == ()
    assert CROWD_FACTOR > 1


def test_bursts_come_at_moments_of_their_own() -> None:
    calm = synthetic_pods(Synthetic(pods=300), seed=4)
    bursty = synthetic_pods(Synthetic(Pattern.BURSTS, pods=300), seed=4)
    higher = [
        {step for step in range(288) if a.usage.cpu_milli[step] < b.usage.cpu_milli[step]}
        for a, b in zip(calm, bursty, strict=True)
        if "day" not in a.name and a.name.startswith("service") and a.name.endswith("-0")
    ]
    assert all(4 <= len(steps) <= 36 for steps in higher), "three of 20 to 60 minutes"
    assert len({min(steps) for steps in higher}) > len(higher) / 2


def test_synthetic_jobs_have_gangs_and_bunches() -> None:
    jobs = synthetic_jobs(Synthetic(jobs=500), seed=4)
    assert len(jobs) == 500
    assert {job.pods for job in jobs} == {1, 2, 4, 8}
    minutes = [int(job.submitted // 60) for job in jobs]
    assert max(minutes.count(minute) for minute in set(minutes)) > 10


def week() -> Scenario:
    return build(replace(named("diurnal"), pods=80, demand_share=0.05, length=3 * DAY))


def test_a_scenario_is_cut_into_days() -> None:
    whole = week()
    days = by_days(whole)
    assert [(day.start, day.end) for day in days] == [(0, DAY), (DAY, 2 * DAY), (2 * DAY, 3 * DAY)]
    assert sum(len(day.jobs) for day in days) == len(whole.jobs)
    assert len({day.name for day in days}) == 3
    for day in days:
        assert all(day.start <= pod.arrives < day.end and pod.leaves > day.start for pod in day.ordinary)
        assert peak_requests(day.ordinary) <= peak_requests(whole.ordinary)
        noon = day.start + DAY / 2
        assert use(day.ordinary, noon) == use(whole.ordinary, noon)
    assert by_days(days[0]) == (days[0],)
    assert by_days(replace(whole, end=1.3 * DAY)) == (replace(whole, end=1.3 * DAY),)
