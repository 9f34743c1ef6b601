"""Small clusters, reckoned through by hand. Levels are 70, 80 and 85, as without a history; a period has 30 s."""

from __future__ import annotations

import json
from typing import Any

import pytest
from scavenger_simulator.policy import Policy
from scavenger_simulator.result import MomentKind, RunResult
from scavenger_simulator.scenario import RampUp, Scenario
from scavenger_simulator.settings import Settings
from scavenger_simulator.simulation import simulate

from .builders import GIB, HOUR, job, nodes, ordinary, scenario, trace

pytestmark = pytest.mark.slow


def fixed(**options: Any) -> Settings:
    return Settings.of(history_min_samples=1_000_000, **options).changed(admission_interval=0.1)


def run(what: Scenario, policy: Policy = Policy.OURS, settings: Settings | None = None) -> RunResult:
    return simulate(what, settings or fixed(), policy, 1)


def kinds(result: RunResult) -> list[tuple[float, MomentKind, str]]:
    return [(moment.at, moment.kind, moment.job) for moment in result.moments]


def test_a_job_starts_when_the_load_is_known_and_ends_when_its_work_is_done() -> None:
    # The regulator publishes first after a period; 2 s later its pod runs, and 600 s later it is done.
    result = run(scenario(jobs=[job(work=600.0)]))
    assert kinds(result) == [(32.0, MomentKind.STARTED, "job"), (632.0, MomentKind.COMPLETED, "job")]
    outcome = result.jobs[0]
    assert (outcome.started, outcome.finished, outcome.waited, outcome.runs) == (32.0, 632.0, 32.0, 1)
    assert outcome.slowdown == pytest.approx(632 / 600)
    assert (outcome.useful, outcome.lost) == (600.0, 0.0)
    totals = result.totals
    assert (totals.harvested, totals.useful, totals.progress) == pytest.approx((1 / 6, 1 / 6, 1 / 6))
    assert totals.utilisation == pytest.approx(100 * 600 / (10 * 7200))
    assert totals.utilisation_without == 0.0
    assert (totals.completed, totals.victims, totals.evictions) == (1, 0, 0)


@pytest.mark.parametrize(("size", "most"), [("10x100Gi", 4), ("4x16Gi", 7)])
def test_a_level_policy_keeps_the_nodes_lower_that_it_selects(size: str, most: int) -> None:
    policy = {
        "name": "small",
        "nodeSelector": {"node.kubernetes.io/instance-type": size},
        "levels": {"cpu": {"lower": 30, "admission": 45, "upper": 50}},
    }
    settings = fixed(per_node=True, level_policies=json.dumps([policy]))
    result = run(scenario(jobs=[job(f"job-{i}", work=10 * HOUR) for i in range(10)]), settings=settings)
    assert max(point.running for point in result.points) == most


def test_nothing_starts_without_scavenging() -> None:
    result = run(scenario(jobs=[job()], ordinary=[ordinary(cores=4, used=2)]), Policy.NONE)
    assert result.moments == ()
    assert result.totals.utilisation == result.totals.utilisation_without == pytest.approx(20.0)
    assert result.jobs[0].waited == 2 * HOUR


def test_jobs_start_below_the_admission_level_and_the_others_wait() -> None:
    # 10 cores, admission at 80 %: with the eighth job it would be reached.
    result = run(scenario(jobs=[job(f"job-{i}", work=10 * HOUR) for i in range(10)]))
    assert result.points[0].waiting == 10
    assert max(point.running for point in result.points) == 7
    assert result.jobs[9].started is None
    assert result.jobs[9].waited == 2 * HOUR


def test_an_ordinary_pod_takes_the_place_of_the_job_that_loses_least() -> None:
    # Both jobs write a checkpoint every half hour, old the first one at 1832 s, young not before 2406 s.
    jobs = [
        job("old", cores=4, work=10 * HOUR, interruption_after=1800.0, grace_seconds=20.0),
        job("young", at=604.0, cores=3, work=10 * HOUR, interruption_after=1800.0, grace_seconds=20.0),
    ]
    result = run(scenario(jobs=jobs, ordinary=[ordinary(arrives=1900.0, cores=4, used=0.1)]))
    victims = [moment for moment in result.moments if moment.kind is MomentKind.PREEMPTED]
    # At 1900 s old has 68 s of 4 cores at risk, young about 1290 s of 3 cores.
    assert [(v.job, v.at, v.why) for v in victims] == [("old", 1900.0, "for pod web")]
    assert victims[0].lost == pytest.approx(68 * 4)
    # The pod waits for as long as the job takes to leave, and no longer.
    assert result.totals.delays == (20.0,)
    assert result.totals.delayed_core_hours == pytest.approx(4 * 20 / 3600)
    assert (result.totals.victims, result.totals.victims_minimum) == (1, 1)
    # Without a prioritizer the younger one goes, which loses far more. Its 3 cores are enough, as 3 are free.
    youngest = run(scenario(jobs=jobs, ordinary=[ordinary(arrives=1900.0, cores=4, used=0.1)]), Policy.YOUNGEST).moments
    gone = [moment for moment in youngest if moment.kind is MomentKind.PREEMPTED]
    assert [moment.job for moment in gone] == ["young"]
    assert gone[0].lost == pytest.approx((1900 - 606) * 3, abs=4 * 3)


def test_plain_jobs_fill_what_is_not_requested_and_those_that_started_last_go() -> None:
    # 10 cores and 12 jobs of one; nobody looks at levels, and nobody is told when a checkpoint was written.
    jobs = [job(f"job-{i:02d}", at=10.0 * i, work=10 * HOUR, checkpoint_every=100.0) for i in range(12)]
    web = ordinary(arrives=1000.0, leaves=1100.0, cores=2)
    result = run(scenario(jobs=jobs, ordinary=[web]), Policy.PLAIN)
    started = [(moment.job, moment.at) for moment in result.moments if moment.kind is MomentKind.STARTED]
    assert started[:10] == [(f"job-{i:02d}", 10.0 * i + 2.0) for i in range(10)]
    gone = [(moment.job, moment.at) for moment in result.moments if moment.kind is MomentKind.PREEMPTED]
    assert sorted(gone) == [("job-08", 1000.0), ("job-09", 1000.0)]
    assert result.totals.delays == (30.0,), "as long as they take to leave"
    # Who was interrupted is the last in line.
    assert started[10:] == [("job-10", 1102.0), ("job-11", 1102.0)]
    assert (result.totals.evictions, result.totals.yields) == (0, 0)
    assert max(point.cpu.load for point in result.points) == 100.0


def test_an_interrupted_job_goes_on_from_its_last_checkpoint() -> None:
    one = job(cores=7, work=3000.0, interruption_after=1000.0, grace_seconds=10.0)
    web = ordinary(arrives=2532.0, leaves=2632.0, cores=8, used=0.1)
    result = run(scenario(jobs=[one], ordinary=[web], end=3 * HOUR))
    # Started at 32 s, it wrote checkpoints at 1032 s and 2032 s: of 2500 s of work 500 s are lost.
    outcome = result.jobs[0]
    assert (outcome.useful, outcome.lost) == ((2000 + 1000) * 7, 500 * 7)
    started = [moment.at for moment in result.moments if moment.kind is MomentKind.STARTED]
    assert outcome.finished == pytest.approx(started[-1] + 1000.0)
    assert result.totals.progress == pytest.approx(3000 * 7 / 3600)


def test_reported_checkpoints_make_a_job_cheap_and_a_restart_has_its_price() -> None:
    one = job(cores=7, work=3000.0, checkpoint_every=100.0, restart_seconds=50.0, grace_seconds=10.0)
    web = ordinary(arrives=1050.0, leaves=1150.0, cores=8, used=0.1)
    result = run(scenario(jobs=[one], ordinary=[web], end=3 * HOUR))
    outcome = result.jobs[0]
    assert outcome.lost == pytest.approx(18 * 7)
    started = [moment.at for moment in result.moments if moment.kind is MomentKind.STARTED]
    assert outcome.finished == pytest.approx(started[-1] + 2000.0 + 50.0)


def test_checkpoints_cost_time() -> None:
    # Six checkpoints of 10 s each before 1000 s of work are done: at 150, 300, … seconds.
    result = run(scenario(jobs=[job(work=1000.0, checkpoint_every=150.0, checkpoint_cost=10.0)]))
    assert result.jobs[0].finished == pytest.approx(32.0 + 1000.0 + 7 * 10.0)


def test_a_job_that_ramps_up_is_seen_to_use_less_at_first() -> None:
    result = run(scenario(jobs=[job(cores=5, work=HOUR, ramp_up=RampUp(600.0, 0.2))]))
    by_time = {point.at: point.cpu.load for point in result.points}
    assert by_time[300.0] == pytest.approx(10.0)
    assert by_time[900.0] == pytest.approx(50.0)


def test_jobs_are_evicted_from_the_upper_level_on_and_not_below() -> None:
    # 7 jobs of a core; what the ordinary pod uses goes from 0.5 to 1.4 cores, and at 3000 s to 2.
    use = trace([0.5] * 5 + [1.4] * 5 + [2.0] * 20)
    web = ordinary(cores=2, usage=use)
    jobs = [job(f"job-{i}", work=10 * HOUR, interruption_after=36_000.0) for i in range(7)]
    settings = fixed(yield_at_checkpoint=False)
    result = run(scenario(jobs=jobs, ordinary=[web], end=HOUR), settings=settings)
    evicted = [moment for moment in result.moments if moment.kind is MomentKind.EVICTED]
    # At 90 % it is down to 70 % with two jobs gone.
    assert len(evicted) == 2
    assert all(moment.at > 3000.0 for moment in evicted)
    assert result.totals.periods_above_upper > 0
    assert result.totals.nodes_above_upper == result.totals.periods_above_upper, "there is one node"
    assert set(result.totals.full_nodes) <= {"10x100Gi"}
    assert result.totals.periods_above_upper_ordinary == 0


def test_between_admission_and_upper_level_jobs_yield_right_after_a_checkpoint() -> None:
    # 14 jobs of half a core, and from 1500 s on 1.4 cores of an ordinary pod: 84 %, of the levels 80 and 85.
    web = ordinary(cores=2, usage=trace([0.5] * 5 + [1.4] * 20))
    jobs = [job(f"job-{i:02d}", cores=0.5, work=10 * HOUR, checkpoint_every=600.0) for i in range(14)]
    result = run(scenario(jobs=jobs, ordinary=[web], end=HOUR), Policy.YIELD)
    yielded = [moment for moment in result.moments if moment.kind is MomentKind.YIELDED]
    assert len(yielded) == result.totals.yields > 0
    for moment in yielded:
        assert moment.at > 1500.0
        assert moment.lost <= 45.0
    staying = run(scenario(jobs=jobs, ordinary=[web], end=HOUR), Policy.NO_YIELD)
    assert [moment.kind for moment in staying.moments] == [MomentKind.STARTED] * 14


def test_gangs_start_whole_and_leave_whole() -> None:
    gang = job("gang", pods=3, cores=2, work=10 * HOUR, grace_seconds=15.0)
    web = ordinary(arrives=1000.0, cores=3, used=0.1)
    result = run(scenario(nodes=nodes(2, cores=4), jobs=[gang], ordinary=[web]))
    assert result.points[1].running_cores == 6.0
    left = [moment for moment in result.moments if moment.kind is MomentKind.PREEMPTED]
    assert [(moment.at, moment.cores) for moment in left] == [(1000.0, 6.0)]
    # Of the eight cores the pod has three: three pods of two cores fit no more.
    assert all(point.running == 0 for point in result.points if point.at > 1020.0)


def test_a_pod_waits_for_a_protected_job_unless_it_is_interactive() -> None:
    settings = fixed(floor=0.0)
    blocker = job("long", cores=6, work=10 * HOUR)
    for interactive, delay in ((False, 300.0 + 30.0), (True, 30.0)):
        web = ordinary(arrives=1000.0, cores=5, used=0.1, interactive=interactive)
        result = run(scenario(jobs=[blocker], ordinary=[web], end=HOUR), settings=settings)
        assert result.totals.delays == (delay,)


@pytest.mark.parametrize(("hours", "earliest", "latest"), [(5, 20, 22), (1, 113, 117), (0.1, 300, 300)])
def test_a_pod_waits_for_a_protected_job_as_long_as_its_unsaved_work_is_worth(
    hours: float, earliest: float, latest: float
) -> None:
    # Six cores have computed for 968 s, and a restart costs 60 s: 1,234 s for each of the five cores of the pod. It
    # waits as long as that is worth, and the job has 30 s to leave. What is unsaved grows meanwhile.
    settings = fixed(floor=0.0).changed(full_wait_from=hours * HOUR)
    web = ordinary(arrives=1000.0, cores=5, used=0.1)
    what = scenario(jobs=[job("long", cores=6, work=10 * HOUR)], ordinary=[web], end=HOUR)
    (delay,) = run(what, settings=settings).totals.delays
    assert earliest <= delay - 30.0 <= latest


def test_a_pod_takes_no_protected_job_where_a_preemptible_one_makes_room() -> None:
    # The two jobs have started together; the smaller one has less unsaved, and half of them are preemptible.
    jobs = [job("small", cores=3, work=10 * HOUR), job("large", cores=4, work=10 * HOUR)]
    web = ordinary(arrives=2000.0, cores=5, used=0.1)
    settings = fixed(floor=50.0).changed(full_wait_from=5 * HOUR)
    result = run(scenario(jobs=jobs, ordinary=[web], end=HOUR), settings=settings)
    assert [moment.job for moment in result.moments if moment.kind is MomentKind.PREEMPTED] == ["small"]


def test_queues_share_by_weight_and_take_their_share_back() -> None:
    jobs = [job(f"a-{i}", queue="a", work=10 * HOUR) for i in range(7)]
    jobs += [job(f"b-{i}", at=900.0, queue="b", work=10 * HOUR) for i in range(7)]
    result = run(scenario(jobs=jobs, queues={"a": 1, "b": 1}))
    reclaimed = [moment.job for moment in result.moments if moment.kind is MomentKind.RECLAIMED]
    assert len(reclaimed) == result.totals.reclaims > 0
    assert all(name.startswith("a-") for name in reclaimed)
    running = {outcome.name for outcome in result.jobs if outcome.name.startswith("b-") and outcome.started}
    assert len(running) == 4 - 1  # half of the eight cores below the admission level, which is never reached


def test_pods_that_fit_nowhere_are_said_to_be_unscheduled() -> None:
    big = ordinary("big", arrives=100.0, leaves=700.0, cores=11)
    result = run(scenario(ordinary=[big]))
    assert (result.totals.unscheduled, result.totals.delays) == (1, (600.0,))


def test_what_makes_no_sense_is_refused() -> None:
    for wrong, words in (
        (scenario(end=0.0), "must end after"),
        (scenario(nodes=()), "must have nodes"),
        (scenario(jobs=[job(), job()]), "one name"),
        (scenario(jobs=[job(checkpoint_every=5.0, checkpoint_cost=5.0)]), "nothing but write checkpoints"),
        (scenario(jobs=[job(work=0.0)]), "must have pods, CPU and work"),
        (scenario(nodes=(*nodes(), *nodes())), "one name"),
    ):
        with pytest.raises(ValueError, match=words):
            run(wrong)
    with pytest.raises(ValueError, match="no option 'resreve'"):
        Settings.of(resreve=20)


@pytest.mark.parametrize(("period", "age", "first"), [(30, 5, 30), (30, 30, 60), (30, 45, 60), (5, 5, 20), (10, 0, 20)])
def test_figures_as_old_as_a_period_or_older_say_what_was_used(period: float, age: float, first: float) -> None:
    """9 of 10 cores are in use from the start on. A load of 0 % was seen where figures were as old as a period."""
    settings = fixed(period=float(period)).changed(metrics_age=float(age))
    result = run(scenario(ordinary=[ordinary(cores=9)], end=600.0), settings=settings)
    blind = [point.at for point in result.points if point.state == "Blind"]
    assert blind == [period * n for n in range(1, int(first / period))]
    assert not any(point.state == "Filling" for point in result.points)


def test_figures_that_are_all_too_old_are_refused() -> None:
    with pytest.raises(ValueError, match="metricsAge is 61 s, and figures older than 60 s are none"):
        run(scenario(), settings=fixed().changed(metrics_age=61.0))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"throttle": True}, "throttle is not simulated"),
        ({"dry_run": True}, "dryRun is not simulated"),
        ({"reclaimed": True}, "reclaimed is not simulated"),
        ({"source": "requests"}, "source requests is not simulated"),
        ({"max_age": 20.0}, "--max-age 20 cannot work"),
        ({"initial_lower": 90.0}, "initial-lower <= initial-admission"),
    ],
)
def test_what_is_not_simulated_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Settings.of(**options)


def test_figures_of_prometheus_are_averages_over_its_window() -> None:
    settings = Settings.of(source="prometheus", prometheus_url="http://prometheus:9090", prometheus_window=40.0)
    assert (settings.metrics_period, settings.metrics_age, settings.regulator.trust.max_age) == (40.0, 20.0, 60.0)


def test_settings_by_default_are_those_of_the_services() -> None:
    assert Settings.of() == Settings()
    changed = Settings.of(period=60.0, reserve=30.0)
    assert (changed.regulator.reserve, changed.regulator.yield_within) == (30.0, 90.0)
    assert changed.changed(start_seconds=5.0).start_seconds == 5.0


def test_memory_counts_as_cpu_does() -> None:
    jobs = [job(f"job-{i}", cores=0.1, memory_bytes=20 * GIB, work=10 * HOUR) for i in range(6)]
    result = run(scenario(jobs=jobs))
    assert max(point.running for point in result.points) == 3  # the fourth would reach 80 % of 100 GiB


def test_an_array_is_one_place_in_its_queue() -> None:
    # One core at a time: the first task starts at 32 s. Both jobs came before the second one started.
    tasks = [job(f"sweep[{i}]", cores=7, work=300.0, array="sweep") for i in range(50)]
    jobs = [*tasks, job("one", at=1.0, cores=7, work=300.0), job("two", at=100.0, cores=7, work=300.0)]
    result = run(scenario(jobs=jobs))
    started = [moment.job for moment in result.moments if moment.kind is MomentKind.STARTED]
    assert started[:6] == ["sweep[0]", "one", "sweep[1]", "two", "sweep[2]", "sweep[3]"]


@pytest.mark.parametrize(
    ("first", "order"),
    [("always", ["long", "long", "short"]), ("least-served", ["long", "short", "long"])],
)
def test_with_least_served_an_interrupted_job_waits_behind_those_that_have_had_less(
    first: str, order: list[str]
) -> None:
    # One of the two runs at a time; long has saved half an hour when the pod comes.
    jobs = [
        job("long", cores=7, work=5 * HOUR, checkpoint_every=100.0, grace_seconds=10.0),
        job("short", at=1000.0, cores=7, work=300.0),
    ]
    pod = ordinary(arrives=1850.0, leaves=1950.0, cores=8, used=0.1)
    settings = fixed().changed(interrupted_first=first)
    result = run(scenario(jobs=jobs, ordinary=[pod], end=9 * HOUR), settings=settings)
    assert [moment.job for moment in result.moments if moment.kind is MomentKind.STARTED] == order
    assert all(one.finished is not None for one in result.jobs)


def test_a_task_that_was_interrupted_goes_before_others() -> None:
    tasks = [job(f"sweep[{i}]", cores=4, work=3000.0, array="sweep", grace_seconds=10.0) for i in range(3)]
    pod = ordinary(arrives=600.0, leaves=700.0, cores=9, used=8.0)
    result = run(scenario(jobs=[*tasks, job("one", at=500.0, cores=4, work=100.0)], ordinary=[pod], end=6 * HOUR))
    interrupted = [moment.job for moment in result.moments if moment.kind is MomentKind.PREEMPTED]
    assert interrupted == ["sweep[0]"]
    started = [moment.job for moment in result.moments if moment.kind is MomentKind.STARTED]
    assert started == ["sweep[0]", "sweep[0]", "one", "sweep[1]", "sweep[2]"]
    assert {outcome.name for outcome in result.jobs if outcome.finished is not None} == {
        "one",
        *(t.name for t in tasks),
    }


@pytest.mark.parametrize(("kept_room", "displaced", "running"), [("off", 3, 15), ("byHour", 0, 12)])
def test_capacity_is_kept_for_what_comes_at_this_hour_every_day(kept_room: str, displaced: int, running: int) -> None:
    """Two pods of 4 cores came every day half an hour after midnight, on 20 cores; there are as many jobs as fit."""
    times = [(-days * 24 * HOUR + 1800, -days * 24 * HOUR + 3600) for days in range(1, 8)]
    past = tuple(ordinary(f"web-{at}-{i}", at, until, cores=4) for at, until in times for i in range(2))
    result = run(
        scenario(
            nodes=nodes(2),
            jobs=[job(f"job-{i}", work=10 * HOUR) for i in range(20)],
            ordinary=[ordinary(f"web-{i}", 1800.0, cores=4, used=0) for i in range(2)],
            end=HOUR,
            past=past,
        ),
        settings=fixed(kept_room=kept_room),
    )
    assert result.totals.victims == displaced
    assert result.points[10].running == running
