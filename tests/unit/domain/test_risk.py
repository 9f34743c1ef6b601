"""CPU time at risk: one situation, judged alike by all that ask."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scavenger_admitter.core.admission.running import Gang as RunningGang
from scavenger_admitter.core.admission.running import RunningJob
from scavenger_api.duration import parse_duration
from scavenger_api.times import format_time, micros
from scavenger_cli.objects import Job
from scavenger_domain.risk import estimated_time_at_risk, safe_until, start_over, time_at_risk
from scavenger_kube.scavenger_kinds import ScavengerJob
from scavenger_prioritizer.core.plan import cpu_time_at_risk, run_start
from scavenger_prioritizer.core.snapshot import Rules
from scavenger_prioritizer.facts import gangs as prioritizer_gangs
from scavenger_prioritizer.facts import job_facts, pod_facts
from scavenger_regulator.core.eviction.risk import RiskRules, at_risk
from scavenger_regulator.facts import gangs as regulator_gangs
from scavenger_testing import builders

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
MICROSECONDS = 1_000_000
HOUR = 3600
WEEK = 7 * 24 * HOUR
CASES = [
    # seconds ago: start, report; seconds at risk
    (30, None, 90),  # the start-up cost until the first checkpoint
    (1799, None, 1859),
    (1800, None, 0),  # a checkpoint is due: cheap again
    (4000, None, 400),  # never more than an interval, whatever is hidden
    (1000, 30, 30),
    (1000, -30, 1060),  # from the future
    (1000, 2000, 1060),  # of the last run
    (-500, None, 60),  # started in the future: another machine's clock
]


@pytest.mark.parametrize(("start", "report", "expected"), CASES)
def test_time_at_risk(start: int, report: int | None, expected: int) -> None:
    since = safe_until(-start, 1800, (None, None if report is None else -report), 0)
    assert time_at_risk(-start, since, 0, 60, 1800, 2 * HOUR) == expected


PROMISED = [
    # hours ago: start, report; hours at risk of a job that promises a checkpoint a week, of which 2 h are trusted
    (1, None, 1),
    (2, None, 2),
    (4, None, 1),  # 2 · 2 / 4
    (8, None, 0.5),
    (100, None, 0.04),
    (3, 1, 1),
    (8, 1, 0.5),  # a report buys nothing, as it may say what it likes
    (100, 50, 0.04),
    (170, None, 2),  # the promised checkpoint was due two hours ago
]


@pytest.mark.parametrize(("start", "report", "expected"), PROMISED)
def test_a_promise_longer_than_is_trusted_protects_less_and_less(
    start: int, report: int | None, expected: float
) -> None:
    since = safe_until(-start * HOUR, WEEK, (None if report is None else -report * HOUR,), 0)
    assert time_at_risk(-start * HOUR, since, 0, 0, WEEK, 2 * HOUR) == round(expected * HOUR)


seconds = st.integers(1, 10**6)


@given(seconds, seconds, seconds, st.none() | seconds)
def test_who_is_trusted_is_believed_and_the_others_have_no_more_than_that(
    interval: int, now: int, trusted: int, report: int | None
) -> None:
    since = safe_until(0, interval, (report,), now)
    assert time_at_risk(0, since, now, 0, interval, max(trusted, interval)) == now - since
    lost = time_at_risk(0, since, now, 0, interval, trusted)
    assert 0 <= lost <= min(now - since, trusted)
    unreported = time_at_risk(0, safe_until(0, interval, (), now), now, 0, interval, trusted)
    assert lost <= unreported, "whatever is reported, and for whatever moment"


def test_a_liar_among_honest_jobs_is_not_the_last_for_ever() -> None:
    """20 jobs with a checkpoint every half hour, each at another moment of it, and one that promises one a week: how
    many go before it after an hour, a day, and three."""
    honest = range(45, 1800, 90)
    for hours, before in ((1, 20), (24, 7), (72, 3)):
        since = safe_until(-hours * HOUR, WEEK, (), 0)
        risk = time_at_risk(-hours * HOUR, since, 0, 60, WEEK, 2 * HOUR)
        assert sum(other < risk for other in honest) == before


LONG = [(start * HOUR, None if report is None else report * HOUR, round(x * HOUR)) for start, report, x in PROMISED]


@pytest.mark.parametrize(("start", "report", "expected"), [case for case in CASES if case[0] > 0])
def test_all_who_ask_get_the_same_answer(start: int, report: int | None, expected: int) -> None:
    """Prioritizer, regulator, admitter and command line, of a job of two pods with 1.5 cores each."""
    assert _answers(start, report, "30m") == {3 * expected}


@pytest.mark.parametrize(("start", "report", "expected"), LONG)
def test_all_who_ask_believe_alike(start: int, report: int | None, expected: int) -> None:
    cost = 60 if report is None and start < WEEK else 0
    assert _answers(start, report, "168h") == {3 * (expected + cost)}


def _answers(start: int, report: int | None, interval: str) -> set[float]:
    """CPU-seconds at risk, as each of them says."""
    status: dict[str, Any] = {"runningTimestamps": [_ago(start)], "jobName": "run"}
    if report is not None:
        status["lastCheckpointTimestamp"] = _ago(report)
    job = builders.scavengerjob_dict("job", phase="Running", status=status, cpu="1500m", parallelism=2)
    job["spec"]["interruptionAfter"] = interval
    run = builders.job_dict("run")
    labels = {"scavenger.dev/job": "job"}
    pods = [builders.pod(f"p{i}", owner=run, labels=labels, node="n", cpu="1500m", phase="Running") for i in (0, 1)]

    (regulated,) = regulator_gangs([msgspec.convert(job, ScavengerJob)], pods)
    facts = job_facts(msgspec.convert(job, ScavengerJob))
    (ranked,) = prioritizer_gangs([facts], map(pod_facts, pods))
    now, rules = micros(NOW), Rules(startup_cost=60 * MICROSECONDS)
    # The status says no more than the last recorded checkpoint of this run.
    recorded = max(start_ for start_ in (-start, -report if report else None) if start_ is not None and start_ <= 0)
    running = RunningJob(
        "job",
        "uid",
        "default",
        2,
        since=now + recorded * MICROSECONDS,
        started=now - start * MICROSECONDS,
        interval=parse_duration(interval) // timedelta(microseconds=1),
    )
    answers = {
        "regulator": at_risk(regulated, NOW, RiskRules()).cpu_seconds,
        "prioritizer": cpu_time_at_risk(ranked, run_start(ranked, now), now, rules) / (1000 * MICROSECONDS),
        "admitter": RunningGang(running, (("cpu", 1500),), ("n", "n")).risk(now, 60 * MICROSECONDS)
        / (1000 * MICROSECONDS),
        "command line": msgspec.convert(job, Job).at_risk(NOW),
    }
    return set(answers.values())


@pytest.mark.parametrize(
    ("start", "reported", "expected"),
    [
        (-100, None, 160),
        (-100, -30, 30),
        (-100, 0, 0),  # just now
        (-100, 5, 160),  # from the future
        (-100, -100, 160),  # of the last run
        (-9000, None, 9060),  # it knows nothing of start-overs
        (40, None, 60),  # another machine's clock
        (40, 20, 60),
    ],
)
def test_what_the_scheduler_estimates(start: int, reported: int | None, expected: int) -> None:
    assert estimated_time_at_risk(start, reported, 0, 60) == expected


@given(st.integers(0, 10**6), st.integers(1, 10**5), st.lists(st.none() | st.integers(-(10**6), 10**6), max_size=4))
def test_moments_and_integers_are_judged_alike(now: int, interval: int, reports: list[int | None]) -> None:
    def moment(seconds: int) -> datetime:
        return NOW + timedelta(seconds=seconds)

    since = safe_until(0, interval, reports, now)
    assert 0 <= now - since < interval
    assert start_over(0, interval, now) <= since
    told = [None if report is None else moment(report) for report in reports]
    assert safe_until(NOW, timedelta(seconds=interval), told, moment(now)) == moment(since)
    lost = time_at_risk(0, since, now, 60, interval, interval)
    length, cost = timedelta(seconds=interval), timedelta(minutes=1)
    assert time_at_risk(NOW, moment(since), moment(now), cost, length, length) == timedelta(seconds=lost)
    lost = time_at_risk(0, since, now, 60, interval, 60)
    exact = time_at_risk(NOW, moment(since), moment(now), cost, length, cost)
    assert timedelta(0) <= exact - timedelta(seconds=lost) < timedelta(seconds=1), "integers are rounded down"


def _ago(seconds: int) -> str:
    return format_time(NOW - timedelta(seconds=seconds))
