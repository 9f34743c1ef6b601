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
from scavenger_api.names import DEFAULT_STARTUP_COST_SECONDS
from scavenger_api.times import format_time, micros
from scavenger_cli.objects import Job
from scavenger_domain.risk import safe_until, start_over, time_at_risk
from scavenger_kube.scavenger_kinds import ScavengerJob
from scavenger_prioritizer.core.plan import cpu_time_at_risk, run_start
from scavenger_prioritizer.core.snapshot import Rules
from scavenger_prioritizer.facts import gangs as prioritizer_gangs
from scavenger_prioritizer.facts import job_facts, pod_facts
from scavenger_regulator.core.eviction.risk import at_risk
from scavenger_regulator.facts import gangs as regulator_gangs
from scavenger_testing import builders

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
MICROSECONDS = 1_000_000
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
    assert time_at_risk(-start, since, 0, 60) == expected


@pytest.mark.parametrize(("start", "report", "expected"), [case for case in CASES if case[0] > 0])
def test_all_who_ask_get_the_same_answer(start: int, report: int | None, expected: int) -> None:
    """Prioritizer, regulator, admitter and command line, of a job of two pods with 1.5 cores each."""
    status: dict[str, Any] = {"runningTimestamps": [_ago(start)], "jobName": "run"}
    if report is not None:
        status["lastCheckpointTimestamp"] = _ago(report)
    job = builders.scavengerjob_dict("job", phase="Running", status=status, cpu="1500m", parallelism=2)
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
        "job", "uid", "default", 2, since=now + recorded * MICROSECONDS, started=now - start * MICROSECONDS
    )
    answers = {
        "regulator": at_risk(regulated, NOW, DEFAULT_STARTUP_COST_SECONDS).cpu_seconds,
        "prioritizer": cpu_time_at_risk(ranked, run_start(ranked, now), now, rules) / (1000 * MICROSECONDS),
        "admitter": RunningGang(running, (("cpu", 1500),), ("n", "n")).risk(now, 60 * MICROSECONDS)
        / (1000 * MICROSECONDS),
        "command line": msgspec.convert(job, Job).at_risk(NOW),
    }
    assert answers == dict.fromkeys(answers, 3 * expected)


@given(st.integers(0, 10**6), st.integers(1, 10**5), st.lists(st.none() | st.integers(-(10**6), 10**6), max_size=4))
def test_moments_and_integers_are_judged_alike(now: int, interval: int, reports: list[int | None]) -> None:
    def moment(seconds: int) -> datetime:
        return NOW + timedelta(seconds=seconds)

    since = safe_until(0, interval, reports, now)
    assert 0 <= now - since < interval
    assert start_over(0, interval, now) <= since
    told = [None if report is None else moment(report) for report in reports]
    assert safe_until(NOW, timedelta(seconds=interval), told, moment(now)) == moment(since)
    lost = time_at_risk(0, since, now, 60)
    assert time_at_risk(NOW, moment(since), moment(now), timedelta(minutes=1)) == timedelta(seconds=lost)


def _ago(seconds: int) -> str:
    return format_time(NOW - timedelta(seconds=seconds))
