"""What a gang has at risk: one figure, whoever is asked."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scavenger_admitter.admission_loop import preemption_rules
from scavenger_admitter.core.admission.cycle.fair_share_preemption import PreemptionRules
from scavenger_admitter.core.admission.running import BoundPod, RunningJobs
from scavenger_admitter.core.admission.view.object_facts import pod_facts as admitter_pod
from scavenger_admitter.core.lifecycle import accounting
from scavenger_admitter.facts import running_job, running_task
from scavenger_admitter.settings import AdmitterSettings
from scavenger_api.checkpoints import COMPLETION_INDEX
from scavenger_api.job import ScavengerJob as AdmitterJob
from scavenger_api.shared_settings import DEFAULT_SETTINGS, SharedSettings
from scavenger_api.times import format_time, micros
from scavenger_api.weights import DEFAULT_WEIGHTS, Weights, weights_of
from scavenger_cli.objects import Job
from scavenger_domain.gang import (
    PER_CPU_SECOND,
    STARTUP_COST,
    cpu_seconds,
    estimated_at_risk,
    estimated_time_at_risk,
    job_of,
    safe_until,
    short_run,
    start_over,
    time_at_risk,
    unit,
)
from scavenger_kube.kinds import Pod
from scavenger_kube.scavenger_kinds import ScavengerJob
from scavenger_prioritizer.core.plan import rank
from scavenger_prioritizer.core.snapshot import Gang as PrioritizerGang
from scavenger_prioritizer.core.snapshot import Rules as PrioritizerRules
from scavenger_prioritizer.core.snapshot import Share, Source
from scavenger_prioritizer.core.snapshot import Snapshot as PrioritizerSnapshot
from scavenger_prioritizer.facts import gangs as prioritizer_gangs
from scavenger_prioritizer.facts import job_facts, pod_facts
from scavenger_prioritizer.settings import PrioritizerSettings
from scavenger_regulator.core.eviction.risk import RiskRules, at_risk
from scavenger_regulator.facts import gangs as regulator_gangs
from scavenger_regulator.settings import RegulatorSettings
from scavenger_testing import builders

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
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


def test_a_run_is_short_until_a_checkpoint_is_due_as_far_as_that_is_trusted() -> None:
    assert short_run(0, 1800, 1799, trusted=2 * HOUR)
    assert not short_run(0, 1800, 1800, trusted=2 * HOUR)
    assert short_run(0, WEEK, 2 * HOUR - 1, trusted=2 * HOUR)
    assert not short_run(0, WEEK, 2 * HOUR, trusted=2 * HOUR)


# --- one figure, whoever is asked ---

CASES_FILE = Path(__file__).parents[3] / "services/scheduler/pkg/preemption/testdata/gang_cases.json"
TABLE: list[dict[str, Any]] = json.loads(CASES_FILE.read_text())
GANGS = [case for case in TABLE if "units" not in case]
ARRAYS = [case for case in TABLE if "units" in case]


@pytest.mark.parametrize("case", GANGS, ids=[case["name"] for case in GANGS])
def test_all_who_ask_get_the_figure_of_the_table(case: dict[str, Any]) -> None:
    """The scheduler plugin, in Go, is tested against its column of the same table."""
    assert set(_answers(case).values()) == {case["atRisk"]}
    (gang,) = _as_prioritizer_sees(*_objects(case), _weights(case))
    assert cpu_seconds(estimated_at_risk(gang.pods, micros(NOW))) == case["estimate"]


@pytest.mark.parametrize("case", ARRAYS, ids=[case["name"] for case in ARRAYS])
def test_each_task_of_an_array_has_a_figure_of_its_own(case: dict[str, Any]) -> None:
    job, pods = _objects(case)
    now, seen, own = micros(NOW), msgspec.convert(job, ScavengerJob), AdmitterJob.model_validate(job)
    by_unit: dict[str, dict[str, BoundPod]] = {}
    for pod in pods:
        by_unit.setdefault(unit(pod), {})[pod.metadata.key] = admitter_pod(pod)
    tasks = RunningJobs(by_unit)
    for pod in pods:
        if (task := running_task(own, pod)) is not None:
            tasks.apply(task)
    ranked = rank(PrioritizerSnapshot(now, Share(None, Source.KEPT), _as_prioritizer_sees(job, pods, DEFAULT_WEIGHTS)))
    want = {f"{own.key}[{task}]": figures for task, figures in case["units"].items()}
    assert {gang.key: at_risk(gang, NOW, RiskRules()).cpu_seconds for gang in regulator_gangs([seen], pods)} == {
        key: figures["atRisk"] for key, figures in want.items()
    }
    assert {one.gang.job.key: one.risk / PER_CPU_SECOND for one in ranked} == {
        key: figures["atRisk"] for key, figures in want.items()
    }
    assert {one.gang.job.key: cpu_seconds(estimated_at_risk(one.gang.pods, now)) for one in ranked} == {
        key: figures["estimate"] for key, figures in want.items()
    }
    assert {gang.job.key: gang.risk(now, STARTUP_COST) / PER_CPU_SECOND for gang in tasks.gangs()} == {
        key: figures["atRisk"] for key, figures in want.items()
    }


def test_a_unit_is_a_job_or_a_task() -> None:
    assert unit(builders.pod("web")) == ""
    job = builders.pod("p", labels={"scavenger.dev/job": "j"})
    task = builders.pod("p", labels={"scavenger.dev/job": "j", "scavenger.dev/task": "7"})
    where = job.metadata.namespace
    assert (unit(job), unit(task)) == (f"{where}/j", f"{where}/j[7]")
    assert job_of(unit(task)) == job_of(unit(job)) == unit(job)
    assert unit(builders.pod("p", labels={"scavenger.dev/task": "7"})) == ""


reports = st.none() | st.integers(-100, 10_000)
member = st.fixed_dictionaries(
    {"phase": st.sampled_from(["Running", "Succeeded"]), "checkpoint": reports, "started": st.integers(-100, 10_000)}
)


@settings(deadline=None)
@given(
    st.integers(-500, 20_000),
    st.integers(1, 700_000),
    st.lists(member, max_size=4),
    reports,
    st.fixed_dictionaries(
        {"cpu": st.sampled_from([1, 250, 1000, 64_000])},
        optional={name: st.integers(0, 8) for name in ("gpu", "memory", "init", "overhead")},
    ),
    st.sampled_from(["", "cpu=0", "memory=0.3,nvidia.com/gpu=0.1", "cpu=2,memory=1"]),
    st.booleans(),
    st.sampled_from([0.0, 0.5, 60.0, 3600.0]),
    st.sampled_from([1.0, 600.0, 7200.0]),
)
def test_all_who_ask_get_the_same_figure(
    started: int,
    interval: int,
    others: list[dict[str, Any]],
    report: int | None,
    requests: dict[str, int],
    weights: str,
    reclaimed: bool,
    startup_cost: float,
    trusted: float,
) -> None:
    first = {"phase": "Running", "checkpoint": report, "started": started}
    pods = [{**pod, **requests, "index": index} for index, pod in enumerate((first, *others))]
    case = {"started": started, "interval": interval, "parallelism": len(pods), "reclaimed": reclaimed, "pods": pods}
    case["weights"] = weights
    shared = SharedSettings(startup_cost, trusted, resource_weights=_weights(case))
    assert len(set(_answers(case, shared).values())) == 1


ADMITTER, PRIORITIZER, REGULATOR = AdmitterSettings(), PrioritizerSettings(), RegulatorSettings()


def _answers(case: dict[str, Any], shared: SharedSettings | None = None) -> dict[str, float]:
    """CPU-seconds at risk, as each reader says. Only those answer who can see what the case is about: the command line
    and the ledger know no pods, so of a gang only as long as it is whole, and without reclaimed capacity. Of pods that
    were resized, the admission of the admitter knows what their job asks for."""
    job, pods = _objects(case)
    now, shared = micros(NOW), shared or SharedSettings(resource_weights=_weights(case))
    weights, rules = shared.resource_weights, preemption_rules(ADMITTER, shared)
    (seen,) = regulator_gangs([msgspec.convert(job, ScavengerJob)], pods)
    answers = {"regulator": at_risk(seen, NOW, REGULATOR.rules(shared).risk).cpu_seconds}
    gangs = _as_prioritizer_sees(job, pods, weights)
    (ranked,) = rank(PrioritizerSnapshot(now, Share(None, Source.KEPT), gangs, rules=PRIORITIZER.rules(shared)))
    answers["prioritizer"] = ranked.risk / PER_CPU_SECOND
    own = AdmitterJob.model_validate(job)
    jobs = RunningJobs({own.key: {pod.metadata.key: admitter_pod(pod) for pod in pods}})
    jobs.apply(running_job(own, pods, None))
    resized = any("resized" in pod for pod in case["pods"])
    for gang in jobs.gangs():
        answers["admitter"] = gang.risk(now, rules.startup_cost, rules.trusted, rules.weights) / PER_CPU_SECOND
    if case["reclaimed"] or not answers.keys() >= {"admitter"}:
        return answers
    answers["command line"] = msgspec.convert(job, Job).at_risk(NOW, shared, pods)
    if resized:
        del answers["admitter"]
    weighed = case.get("weights") or case["pods"][0].get("gpu")  # the ledger books each resource by itself
    if case["started"] >= 0 and case["interval"] <= shared.trusted_interval_seconds and not weighed:
        spent = accounting.settle(own.status, own.spec, NOW, accounting.taken(own.spec, pods), kept=False)
        since, cores = _safe(own), sum(pod["cpu"] for pod in case["pods"]) / 1000
        cost = shared.startup_cost_seconds * cores if since == _began(own) else 0.0
        answers["ledger, with what a restart costs"] = round(spent.lost + cost, 6)
    return {who: round(figure, 6) for who, figure in answers.items()}


def _began(job: AdmitterJob) -> datetime:
    start = accounting.run_start(job.status)
    assert start is not None
    return start


def _safe(job: AdmitterJob) -> datetime:
    start, interval = _began(job), job.spec.checkpoint_interval
    return max(accounting.recorded_reference(job.status, start), accounting.start_over(start, interval, NOW))


def _weights(case: dict[str, Any]) -> Weights:
    return weights_of(case.get("weights", ""))


def _as_prioritizer_sees(job: dict[str, Any], pods: list[Pod], weights: Weights) -> list[PrioritizerGang]:
    return prioritizer_gangs([job_facts(msgspec.convert(job, ScavengerJob))], [pod_facts(pod, weights) for pod in pods])


def _objects(case: dict[str, Any]) -> tuple[dict[str, Any], list[Pod]]:
    """A running ScavengerJob, and the pods of its run; the admitter has just recorded what they report."""
    first = case["pods"][0]
    run, asked = builders.job_dict("run"), _requests(first, first.get("created"))
    pods = [_pod(f"p{i}", pod, run, reclaimed=case["reclaimed"]) for i, pod in enumerate(case["pods"])]
    status = {"queuedTimestamp": _ago(10**6), "runningTimestamps": [_ago(case["started"])], "jobName": "run"}
    fields = {"capacity": "Reclaimed"} if case["reclaimed"] else {}
    job = builders.scavengerjob_dict(
        "job",
        phase="Running",
        status=status,
        resources={"limits": asked} if case["reclaimed"] else {"requests": asked, "limits": asked},
        parallelism=case["parallelism"],
        interruption_after=f"{case['interval']}s",
        **fields,
    )
    own = AdmitterJob.model_validate(job)
    found = accounting.newer_checkpoint(own.status, pods, own.spec, NOW)
    if found is not None and found > NOW - timedelta(seconds=case["started"]):
        job["status"]["lastCheckpointTimestamp"] = format_time(found)
    return job, pods


def _requests(case: dict[str, Any], cpu: int | None = None) -> dict[str, str]:
    """What a pod of the case asks for. cpu: millicores, in the place of what it has now."""
    found = {"cpu": f"{cpu or case['cpu']}m", "memory": f"{case.get('memory', 1)}Gi"}
    return found | ({"nvidia.com/gpu": str(case["gpu"])} if case.get("gpu") else {})


def _pod(name: str, case: dict[str, Any], run: dict[str, Any], *, reclaimed: bool) -> Pod:
    annotations = {COMPLETION_INDEX: str(case["index"])}
    if case["checkpoint"] is not None:
        annotations["scavenger.dev/last-checkpoint"] = _ago(case["checkpoint"])
    if "resized" in case:
        later = (f"{_ago(seconds)}={cpu}m" for seconds, cpu in case["resized"])
        annotations["scavenger.dev/requested-cpu"] = ",".join((f"{case['created']}m", *later))
    asked = _requests(case)
    if reclaimed:
        asked["scavenger.dev/reclaimed-cpu"] = str(case["cpu"])
        asked["scavenger.dev/reclaimed-memory"] = str(1024 * case.get("memory", 1))
        del asked["cpu"], asked["memory"]
    init = [{"name": "fetch", "resources": {"requests": {"cpu": f"{case['init']}m"}}}] if "init" in case else []
    found = builders.pod_dict(
        name,
        owner=run,
        labels={"scavenger.dev/job": "job"} | ({"scavenger.dev/task": case["task"]} if "task" in case else {}),
        annotations=annotations,
        node="n",
        requests=asked,
        phase=case["phase"],
        started=_ago(case["started"]),
    )
    found["spec"] |= {"initContainers": init, "overhead": {"cpu": f"{case.get('overhead', 0)}m"}}
    return msgspec.convert(found, Pod)


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
def test_nobody_has_more_at_risk_than_an_interval(now: int, interval: int, reports: list[int | None]) -> None:
    since = safe_until(0, interval, reports, now)
    assert 0 <= now - since < interval
    assert start_over(0, interval, now) <= since


def _ago(seconds: int) -> str:
    return format_time(NOW - timedelta(seconds=seconds))


def test_the_defaults_of_the_settings_are_those_of_the_rules() -> None:
    assert PRIORITIZER.rules(DEFAULT_SETTINGS) == PrioritizerRules()
    assert REGULATOR.rules(DEFAULT_SETTINGS).risk == RiskRules()
    assert preemption_rules(ADMITTER, DEFAULT_SETTINGS) == PreemptionRules()
