"""One reader of a unit: whoever looks at a pod sees the same unit, start and loss."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scavenger_admitter.core.admission.running import RunningJobs
from scavenger_admitter.core.admission.view.object_facts import pod_facts as admitter_pod
from scavenger_admitter.core.adopted.work import AdoptedJob as BatchJob
from scavenger_admitter.core.units import unit_of_task
from scavenger_admitter.facts import running_task
from scavenger_api import names
from scavenger_api.job import ScavengerJob as AdmitterJob
from scavenger_api.ledger import Ledger
from scavenger_api.times import format_time, micros
from scavenger_board.core.runs import tasks_unsaved_since
from scavenger_board.facts import Job as BoardJob
from scavenger_board.facts import job_facts as board_job
from scavenger_board.facts import pod_facts as board_pod
from scavenger_cli import tasks as cli_tasks
from scavenger_cli.objects import Job as CliJob
from scavenger_domain.gang import MICROSECONDS, PER_CPU_SECOND, STARTUP_COST, cpu_seconds, estimated_at_risk, unit
from scavenger_domain.pod_ends import started_at as lifecycle_start
from scavenger_domain.pod_reading import read
from scavenger_domain.unit import of_life, unit_of, units
from scavenger_kube.kinds import Pod
from scavenger_kube.scavenger_kinds import AdoptedJob, ScavengerJob, in_own_words
from scavenger_prioritizer.core.plan import plan_classes, rank, returns, takes_part
from scavenger_prioritizer.core.snapshot import Gang as PrioritizerGang
from scavenger_prioritizer.core.snapshot import Rules, Share, Snapshot, Source
from scavenger_prioritizer.facts import gangs as prioritizer_gangs
from scavenger_prioritizer.facts import job_facts, pod_facts
from scavenger_regulator.core.eviction.risk import RiskRules, at_risk
from scavenger_regulator.facts import gangs as regulator_gangs
from scavenger_testing import builders

from tests.unit.cli import cases as cli_cases

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
TABLE: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[3] / "services/scheduler/pkg/preemption/testdata/unit_cases.json").read_text()
)


@pytest.mark.parametrize("case", TABLE, ids=[case["name"] for case in TABLE])
def test_what_is_read_off_a_pod_is_what_the_table_says(case: dict[str, Any]) -> None:
    """The scheduler plugin, in Go, is tested against the same table."""
    pod = msgspec.convert(case["pod"], Pod)
    seen = read(pod)
    started = None if case["started"] is None else micros(datetime.fromisoformat(case["started"]))
    assert (seen.unit, seen.started) == (case["unit"], started)
    assert cpu_seconds(estimated_at_risk([seen], micros(NOW))) == case["estimate"]


# --- what was found ---


def array(*, cpu: str = "1", **status: Any) -> dict[str, Any]:
    amounts = {"cpu": cpu, "memory": "1Gi"}
    return builders.scavengerjob_dict(
        "sweep",
        phase="Running",
        resources={"requests": amounts, "limits": amounts},
        status={"queuedTimestamp": ago(10_000), "jobName": "sweep", **status},
        array={"tasks": 10},
    )


def ago(seconds: float) -> str:
    return format_time(NOW - timedelta(seconds=seconds))


def task(index: int, *statuses: dict[str, Any], accepted: float = 1500, **more: Any) -> Pod:
    """The pod of a task whose kubelet accepted it so many seconds ago."""
    fields: dict[str, Any] = {"phase": "Running", "created": ago(accepted + 1), "node": "n", "cpu": "1"} | more
    labels = {names.LABEL_JOB: "sweep", names.LABEL_TASK: str(index)}
    found = builders.pod_dict(
        f"sweep-{index}", owner=builders.job_dict("sweep"), labels=labels, container_statuses=statuses, **fields
    )
    found["status"]["startTime"] = ago(accepted)
    return msgspec.convert(found, Pod)


def busy(index: int, seconds: float, **more: Any) -> Pod:
    """A task whose main container has run for so long."""
    return task(index, builders.running(started=ago(seconds)), **more)


def stuck(index: int, **more: Any) -> Pod:
    """A task whose image cannot be pulled."""
    return task(index, builders.waiting("ImagePullBackOff"), phase="Pending", **more)


def as_prioritizer_sees(job: dict[str, Any], *pods: Pod) -> list[PrioritizerGang]:
    return prioritizer_gangs([job_facts(msgspec.convert(job, ScavengerJob))], [pod_facts(pod) for pod in pods])


def test_tasks_that_compute_are_protected_and_those_that_pull_their_image_are_not() -> None:
    pods = [*(stuck(index) for index in range(4)), busy(4, 300), busy(5, 400)]
    share = Share(50.0, Source.PUBLISHED)
    plan = plan_classes(Snapshot(micros(NOW), share, as_prioritizer_sees(array(), *pods), rules=Rules(window=0)))
    assert [verdict.gang.job.task for verdict in plan.verdicts] == ["4", "5"], "the others do not run"
    assert [write.pod.name for write in plan.protect] == ["sweep-5"]


def test_the_time_of_a_pull_is_no_work() -> None:
    """Its image took 20 of the 25 minutes that it has had a node."""
    job, pod = array(), busy(0, 300)
    (gang,) = as_prioritizer_sees(job, pod)
    (found,) = rank(Snapshot(micros(NOW), Share(None, Source.KEPT), [gang]))
    (seen,) = regulator_gangs([msgspec.convert(job, ScavengerJob)], [pod])
    assert (cpu_seconds(found.risk), at_risk(seen, NOW, RiskRules()).cpu_seconds) == (360, 360)


def test_a_task_that_left_its_room_to_nobody_is_expected_back() -> None:
    """Its pod has ended, and the admitter has not counted it yet."""
    gone = task(
        0, ended(143, ago(300)), phase="Failed", deleted=ago(5), finalizers=["scavenger.dev/interruption-record"]
    )
    lingers = task(1, ended(0, ago(300)), builders.running(name="mesh"))
    left, runs_on = as_prioritizer_sees(array(), gone, lingers)
    assert (returns(left, micros(NOW), 15 * MICROSECONDS), takes_part(left)) == (True, False)
    assert (returns(runs_on, micros(NOW), 15 * MICROSECONDS), takes_part(runs_on)) == (False, False)


def adopted(after: str = "10m", **spec: Any) -> AdoptedJob:
    """A Job that has the name of the array."""
    notes = {names.ANNOTATION_INTERRUPTION_AFTER: after}
    made = builders.adopted_job_dict("sweep", uid="u-j", annotations=notes, completions=10, parallelism=5, **spec)
    return in_own_words(msgspec.convert(made, AdoptedJob))


def of_job(pod: Pod, **notes: str) -> Pod:
    """The pod of a task of that Job."""
    meta = pod.metadata
    labels, own = {**meta.labels, names.LABEL_KIND: names.KIND_JOB}, {**meta.annotations, **notes}
    return msgspec.structs.replace(
        pod, metadata=msgspec.structs.replace(meta, uid=f"j-{meta.uid}", labels=labels, annotations=own)
    )


def test_a_job_and_an_array_of_one_name_are_two_for_all_who_ask() -> None:
    """Each with its own promise: the Job was due after 10 and 20 minutes, the array after 30."""
    jobs = [msgspec.convert(array(), ScavengerJob), adopted()]
    pods = [busy(0, 1300), of_job(busy(0, 1300))]
    keys = ["default/sweep[0]", "default/job.batch/sweep[0]"]
    seen = prioritizer_gangs(map(job_facts, jobs), map(pod_facts, pods))
    assert [(gang.job.key, takes_part(gang), len(gang.pods)) for gang in seen] == [(key, True, 1) for key in keys]
    assert [pod_facts(pod).unit for pod in pods] == keys
    ranked = rank(Snapshot(micros(NOW), Share(None, Source.KEPT), seen, rules=Rules(startup_cost=0)))
    assert [(one.gang.job.key, cpu_seconds(one.risk)) for one in ranked] == [(keys[1], 100), (keys[0], 1300)]
    regulated = regulator_gangs(jobs, pods)
    found = [(gang.key, gang.uid, at_risk(gang, NOW, RiskRules(startup_cost=0)).cpu_seconds) for gang in regulated]
    assert found == [(keys[0], f"{jobs[0].metadata.uid}[0]", 1300), (keys[1], "u-j[0]", 100)]


def test_the_gang_of_a_user_is_one_unit_for_all_who_ask() -> None:
    """Its Job has no field for a run: the ledger says when it began, and since when its work is safe."""
    notes = {names.ANNOTATION_GANG: "true", names.ANNOTATION_INTERRUPTION_AFTER: "10m"}
    said = Ledger(runs=(ago(1300),), interrupted=2, own=1, due=ago(100))
    shape: dict[str, Any] = {"completions": 2, "parallelism": 2, "completionMode": "Indexed"}
    made = builders.adopted_job_dict("sweep", uid="u-j", annotations=notes, **shape)
    made["status"] = {"conditions": [{"type": names.CONDITION_LEDGER, "reason": "Running", "message": said.text}]}
    job = in_own_words(msgspec.convert(made, AdoptedJob))
    pods = [of_no_task(of_job(busy(index, 1300))) for index in range(2)]
    (seen,) = prioritizer_gangs([job_facts(job)], map(pod_facts, pods))
    assert (seen.job.key, takes_part(seen), len(seen.pods)) == ("default/job.batch/sweep", True, 2)
    ranked = rank(Snapshot(micros(NOW), Share(None, Source.KEPT), (seen,), rules=Rules(startup_cost=0)))
    assert [cpu_seconds(one.risk) for one in ranked] == [2 * 100]
    assert (job.precedence, job.spec.parallelism, job.spec.array) == (1, 2, None)
    assert [len(one.pods) for one in regulator_gangs([job], pods)] == [2]


def of_no_task(pod: Pod) -> Pod:
    """The same pod as the member of a gang."""
    labels = {key: value for key, value in pod.metadata.labels.items() if key != names.LABEL_TASK}
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, labels=labels))


def test_a_task_of_a_job_is_ranked_by_its_checkpoint() -> None:
    pods = [of_job(busy(0, 300), **{names.ANNOTATION_LAST_CHECKPOINT: ago(30)}), of_job(busy(1, 200))]
    seen = prioritizer_gangs([job_facts(adopted())], map(pod_facts, pods))
    ranked = rank(Snapshot(micros(NOW), Share(None, Source.KEPT), seen, rules=Rules(startup_cost=0)))
    assert [(one.gang.job.task, cpu_seconds(one.risk)) for one in ranked] == [("0", 30), ("1", 200)]


@pytest.mark.parametrize("changes", [{"suspend": True}, {"deleted": ago(0)}])
def test_a_job_that_is_suspended_or_deleted_is_on_its_way_out(changes: dict[str, Any]) -> None:
    job = adopted(suspend=bool(changes.get("suspend")))
    if "deleted" in changes:
        meta = msgspec.structs.replace(job.metadata, deletion_timestamp=changes["deleted"])
        job = msgspec.structs.replace(job, metadata=meta)
    (seen,) = prioritizer_gangs([job_facts(job)], [pod_facts(of_job(busy(0, 300)))])
    (regulated,) = regulator_gangs([job], [of_job(busy(0, 300))])
    assert (takes_part(seen), regulated.stopping) == (False, True)


@pytest.mark.parametrize(
    ("after", "seconds"),
    [("10m", 600), ("", 1800), ("soon", 1800), ("0s", 1800), ("8d", 1800), ("9" * 400 + "h", 1800)],
)
def test_a_promise_is_read_alike_by_all(after: str, seconds: int) -> None:
    """What admission would have refused counts as nothing."""
    notes = {names.ANNOTATION_INTERRUPTION_AFTER: after}
    own = BatchJob.model_validate(builders.adopted_job_dict("sweep", annotations=notes))
    assert unit_of(adopted(after)).interval == seconds * MICROSECONDS
    assert own.spec.checkpoint_interval == timedelta(seconds=seconds)


def test_a_run_keeps_the_promise_that_it_started_with() -> None:
    """Whatever its Job says by now; a pod that says nothing is of an admitter that did not write it yet."""
    started = of_job(busy(0, 1300), **{names.ANNOTATION_INTERRUPTION_AFTER: "10m"})
    later, own = adopted("7d"), BatchJob.model_validate(builders.adopted_job_dict("sweep", uid="u-j"))
    pods, keys = [started, of_job(busy(1, 1300))], ["default/job.batch/sweep[0]", "default/job.batch/sweep[1]"]
    seen = prioritizer_gangs([job_facts(later)], map(pod_facts, pods))
    ranked = rank(Snapshot(micros(NOW), Share(None, Source.KEPT), seen, rules=Rules(startup_cost=0)))
    assert [(one.gang.job.key, cpu_seconds(one.risk)) for one in ranked] == [(keys[0], 100), (keys[1], 1300)]
    regulated = regulator_gangs([later], pods)
    assert [at_risk(gang, NOW, RiskRules(startup_cost=0)).cpu_seconds for gang in regulated] == [100, 1300]
    assert [unit_of_task(own, pod).interval // MICROSECONDS for pod in pods] == [600, 1800]


def test_a_task_that_others_interrupted_has_returned_for_all_who_ask() -> None:
    job, pod = array(), busy(0, 300, annotations={names.ANNOTATION_INTERRUPTED: "true"})
    fresh = busy(1, 300)
    assert [gang.job.interruptions for gang in as_prioritizer_sees(job, pod, fresh)] == [1, 0]
    seen = regulator_gangs([msgspec.convert(job, ScavengerJob)], [pod, fresh])
    assert [(gang.interruptions, gang.returned) for gang in seen] == [(1, True), (0, False)]
    own = AdmitterJob.model_validate(job)
    assert [bool(one and one.interrupted_at) for one in (running_task(own, pod), running_task(own, fresh))] == [1, 0]


@pytest.mark.parametrize(
    ("at", "window", "expected"),
    [(-10, 0, False), (0, 0, False), (1, 0, True), (30, 0, True), (30, 29, True), (30, 30, False), (30, 60, False)],
)
def test_a_figure_from_before_the_pod_had_its_name_is_of_another_life(at: int, window: int, expected: bool) -> None:
    created = NOW - timedelta(seconds=100)
    assert of_life(created, created + timedelta(seconds=at - window), NOW) is expected


def test_a_clock_that_was_set_back_takes_no_figures_away() -> None:
    assert of_life(NOW + timedelta(hours=1), NOW - timedelta(seconds=30), NOW)


# --- all who ask ---

seconds = st.integers(-100, 20_000)


@st.composite
def statuses(draw: st.DrawFn) -> tuple[str, list[dict[str, Any]]]:
    """The phase of a pod, and what its containers do, one of which may be injected."""
    kind = draw(
        st.sampled_from(["pulling", "init", "running", "over", "ended", "failed", "unstartable", "unsaid", "none"])
    )
    at = ago(draw(seconds))
    beside = [builders.running(started=ago(draw(seconds)), name="mesh")] if draw(st.booleans()) else []
    main: dict[str, list[dict[str, Any]]] = {
        "pulling": [builders.waiting("ImagePullBackOff")],
        "init": [builders.waiting("PodInitializing")],
        "running": [builders.running(started=at)],
        "over": [ended(0, at), *([] if beside else [builders.running(started=at, name="mesh")])],
        "ended": [ended(0, at)],
        "failed": [ended(1, at)],
        "unstartable": [builders.terminated(128, reason="StartError", finished=at)],
        "unsaid": [{"name": "main", "state": {"running": {}}}],
        "none": [],
    }
    phase = {"pulling": "Pending", "init": "Pending", "none": "Pending", "ended": "Succeeded", "failed": "Failed"}
    found = main[kind] + (beside if kind not in ("none", "ended", "failed") else [])
    return phase.get(kind, "Running"), draw(st.permutations(found))


def ended(code: int, started: str) -> dict[str, Any]:
    found = builders.terminated(code, finished=ago(0))
    found["state"]["terminated"]["startedAt"] = started
    return found


@st.composite
def lives(draw: st.DrawFn) -> list[Pod]:
    """Pods of an array: of tasks, some of them of earlier runs or on their way out, and of several lives."""
    found = []
    for index in range(draw(st.integers(1, 4))):
        phase, containers = draw(statuses())
        notes = {}
        if draw(st.booleans()):
            notes[names.ANNOTATION_INTERRUPTED] = "true"
        if draw(st.booleans()):
            notes[names.ANNOTATION_LAST_CHECKPOINT] = ago(draw(seconds))
        more = {"deleted": ago(-30)} if draw(st.integers(0, 4)) == 0 else {}
        pod = task(index, *containers, phase=phase, annotations=notes, accepted=draw(st.integers(0, 30_000)), **more)
        found.append(pod)
    return found


@settings(deadline=None)
@given(lives(), st.integers(1, 20_000))
def test_all_who_ask_read_the_same(pods: list[Pod], interval: int) -> None:
    job = array() | {}
    job["spec"]["interruptionAfter"] = f"{interval}s"
    own, seen = AdmitterJob.model_validate(job), msgspec.convert(job, ScavengerJob)
    now = micros(NOW)
    expected = {one.key: one for one in units(unit_of(seen), [read(pod) for pod in pods]) if one.task}
    assert {unit(pod): (at and micros(at)) for pod in pods for at in [lifecycle_start(pod)]} == {
        key: one.started for key, one in expected.items()
    }
    assert {key: unit_of_task(own, pod) for pod in pods for key in [unit(pod)]} == expected
    present = {key: one for key, one in expected.items() if one.members[0].live and one.running}
    figures = {key: one.at_risk(now) for key, one in present.items()}
    gangs = [gang for gang in as_prioritizer_sees(job, *pods) if takes_part(gang)]
    ranked = rank(Snapshot(now, Share(None, Source.KEPT), gangs))
    assert {one.gang.job.key: (one.risk, one.start, one.since) for one in ranked} == {
        key: tuple(figure) for key, figure in figures.items()
    }
    regulated = {gang.key: gang for gang in regulator_gangs([seen], pods)}
    for key, figure in figures.items():
        risk, gang = at_risk(regulated[key], NOW, RiskRules()), regulated[key]
        assert (risk.cpu_seconds, micros(risk.started), micros(risk.since)) == (
            figure.cost / PER_CPU_SECOND,
            figure.started,
            figure.since,
        )
        assert (gang.running, gang.returned, gang.interruptions) == (
            True,
            present[key].returned,
            present[key].interruptions,
        )
    running = RunningJobs({unit(pod): {pod.metadata.key: admitter_pod(pod)} for pod in pods})
    for pod in pods:
        if (found := running_task(own, pod)) is not None:
            running.apply(found)
    assert {one.job.key: one.risk(now, STARTUP_COST) for one in running.gangs()} == {
        key: figure.cost for key, figure in figures.items()
    }
    facts = replace(cli_cases.facts(msgspec.convert(job, CliJob), pods=pods, line=None), now=NOW)
    for pod in pods:
        if (key := unit(pod)) in present:
            assert cli_tasks.at_risk(facts, pod) == figures[key].cost / PER_CPU_SECOND
            assert cli_tasks.unsaved(facts, pod) == 1000 * present[key].unsaved(now) / PER_CPU_SECOND
            shown = tasks_unsaved_since(board_job(msgspec.convert(job, BoardJob)), [board_pod(pod, "system")], NOW)
            assert shown == (now - present[key].unsaved(now)) // MICROSECONDS
