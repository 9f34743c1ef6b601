"""From API objects to facts: what counts, and what garbage counts as."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scavenger_api import names
from scavenger_api.levels import LevelsView
from scavenger_api.names import NON_PREEMPTIBLE
from scavenger_api.weights import DEFAULT_WEIGHTS
from scavenger_domain.gang import MICROSECONDS
from scavenger_domain.requests import computing_requests
from scavenger_kube.kinds import Node, ObjectMeta, Pod
from scavenger_kube.resources import PodDisruptionBudget
from scavenger_kube.scavenger_kinds import ScavengerJob
from scavenger_prioritizer.core.snapshot import Share, Source
from scavenger_prioritizer.facts import (
    BUDGET_SPEC,
    MIN_AVAILABLE,
    FactsCache,
    budget_is_right,
    gangs,
    is_cordoned,
    job_facts,
    job_signature,
    pod_facts,
    pod_signature,
)
from scavenger_testing.builders import running, terminated

from tests.unit.effort import examples

from . import builders

T0 = "2026-01-02T03:04:05Z"
T0_MICROS = 1_767_323_045 * MICROSECONDS


def pod(**changes: Any) -> Pod:
    body: dict[str, Any] = {
        "metadata": {
            "name": "j-0-abcde",
            "namespace": "lab",
            "uid": "u1",
            "labels": {"scavenger.dev/job": "j", "scavenger.dev/preemption-class": "preemptible"},
            "ownerReferences": [{"kind": "Job", "name": "j-1", "controller": True}],
        },
        "spec": {
            "nodeName": "n1",
            "containers": [{"name": "main", "resources": {"requests": {"cpu": "500m"}}}],
        },
        "status": {"phase": "Running", "startTime": T0, "containerStatuses": [running(started=T0)]},
    }
    for path, value in changes.items():
        *parents, last = path.split("__")
        at = body
        for parent in parents:
            at = at.setdefault(parent, {})
        at[last] = value
    return msgspec.convert(body, Pod)


def job(status: dict[str, Any] | None = None, spec: dict[str, Any] | None = None, **metadata: Any) -> ScavengerJob:
    body = {
        "metadata": {"name": "j", "namespace": "lab", "uid": "u-j", "creationTimestamp": T0, **metadata},
        "spec": {"interruptionAfter": "30m", **(spec or {})},
        "status": {"phase": "Running", "jobName": "j-1", **(status or {})},
    }
    return msgspec.convert(body, ScavengerJob)


# --- pods ---


def test_a_pod() -> None:
    facts = pod_facts(pod())
    assert (facts.namespace, facts.name, facts.uid, facts.job, facts.run) == (
        "lab",
        "j-0-abcde",
        "u1",
        "j",
        "j-1",
    )
    assert (facts.cost, facts.node, facts.started) == (500, "n1", T0_MICROS)
    assert (facts.live, facts.terminating, facts.class_, facts.written) == (True, False, "preemptible", None)


@pytest.mark.parametrize(
    ("phase", "deleted", "live", "terminating"),
    [
        ("Pending", None, True, False),
        ("Running", None, True, False),
        ("Running", T0, False, True),
        ("Succeeded", None, False, False),
        ("Succeeded", T0, False, False),
        ("Failed", T0, False, False),
    ],
)
def test_live_and_terminating(phase: str, deleted: str | None, live: bool, terminating: bool) -> None:
    facts = pod_facts(pod(status__phase=phase, metadata__deletionTimestamp=deleted))
    assert (facts.live, facts.terminating) == (live, terminating)


@pytest.mark.parametrize(
    ("phase", "main", "mesh", "finished"),
    [("Succeeded", 0, 0, True), ("Failed", 0, 1, True), ("Failed", 1, 0, False), ("Running", 0, None, False)],
)
def test_who_has_finished_says_its_program(phase: str, main: int, mesh: int | None, finished: bool) -> None:
    beside = running(name="mesh") if mesh is None else terminated(mesh, name="mesh")
    of = pod(status__phase=phase, status__containerStatuses=[terminated(main), beside])
    assert pod_facts(of).finished == finished


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("1234", 1234),
        ("", None),
        ("12.5", None),
        ("-3", None),
        ("1e9", None),
        ("NaN", None),
        ("9" * 19, None),
        ("9" * 5000, None),
        ("\u0661", None),
    ],
)
def test_the_written_figure(text: str, expected: int | None) -> None:
    assert pod_facts(pod(metadata__annotations={"scavenger.dev/running-priority": text})).written == expected


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2026-01-02", "2026-01-02T03:04:05 CET", "99999-01-01T00:00:00Z", "\x00"]
)
def test_an_unreadable_checkpoint_is_none(text: str) -> None:
    assert pod_facts(pod(metadata__annotations={"scavenger.dev/last-checkpoint": text})).checkpoint is None


@pytest.mark.parametrize("text", [T0, "2026-01-02T04:04:05+01:00", "2026-01-02T03:04:05.000000Z"])
def test_a_checkpoint(text: str) -> None:
    assert pod_facts(pod(metadata__annotations={"scavenger.dev/last-checkpoint": text})).checkpoint == T0_MICROS


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"containers": [{"resources": {"requests": {"cpu": "1"}}}]}, 1000),
        (
            {
                "containers": [
                    {"resources": {"requests": {"cpu": 2}}},
                    {"resources": {"requests": {"cpu": "250m"}}},
                ]
            },
            2250,
        ),
        ({"containers": [{}]}, 0),
        ({"containers": []}, 0),
        ({"containers": [{"resources": {"requests": {"cpu": "banana"}}}]}, 0),
        (
            {
                "containers": [{"resources": {"requests": {"cpu": "1"}}}],
                "initContainers": [
                    {"resources": {"requests": {"cpu": "9"}}},
                    {"resources": {"requests": {"cpu": "100m"}}, "restartPolicy": "Always"},
                ],
            },
            1100,
        ),
        (
            {
                "containers": [{"resources": {"requests": {"cpu": "1"}}}],
                "resources": {"requests": {"cpu": "4"}},
            },
            4000,
        ),
        (
            {"containers": [{"resources": {"requests": {"cpu": "0", "scavenger.dev/reclaimed-cpu": "1500"}}}]},
            1500,
        ),
    ],
)
def test_cpu_request(spec: dict[str, Any], expected: int) -> None:
    assert DEFAULT_WEIGHTS.cost(computing_requests(msgspec.convert({"spec": spec}, Pod))) == expected


# --- jobs ---


def test_a_job() -> None:
    facts = job_facts(
        job(
            {
                "runningTimestamps": ["2026-01-01T00:00:00Z", T0],
                "priorityStartOverTimestamp": T0,
                "lastCheckpointTimestamp": T0,
                "interruptedCount": 2,
                "preemption": {"class": NON_PREEMPTIBLE, "runningPriority": 12.7},
            }
        )
    )
    assert (facts.started, facts.start_over, facts.checkpoints) == (T0_MICROS, T0_MICROS, (T0_MICROS,))
    assert (facts.run, facts.interruptions, facts.interval) == ("j-1", 2, 1800 * MICROSECONDS)
    assert (facts.class_, facts.created, facts.stopping) == (NON_PREEMPTIBLE, T0_MICROS, False)


@pytest.mark.parametrize(("capacity", "expected"), [("Reclaimed", True), ("Guaranteed", False), ("", False)])
def test_a_job_on_reclaimed_capacity(capacity: str, expected: bool) -> None:
    assert job_facts(job(spec={"capacity": capacity})).reclaimed is expected
    assert not job_facts(job()).reclaimed


def test_a_job_with_nothing_recorded() -> None:
    facts = job_facts(msgspec.convert({"metadata": {"name": "j"}}, ScavengerJob))
    assert (facts.phase, facts.started, facts.start_over, facts.checkpoints) == ("", None, None, ())
    assert (facts.class_, facts.interruptions) == ("", 0)


@pytest.mark.parametrize(
    ("snapshot", "seconds"), [({"volume": "work", "every": "10m"}, 600), ({"volume": "work"}, 1800)]
)
def test_a_job_with_snapshots_is_ranked_by_them(snapshot: dict[str, str], seconds: int) -> None:
    assert job_facts(job(spec={"interruptionAfter": "30m", "snapshot": snapshot})).interval == seconds * MICROSECONDS


@pytest.mark.parametrize("text", ["", "soon", "-5m", "0s", "99999999999999999999h"])
def test_an_interval_that_cannot_be(text: str) -> None:
    assert job_facts(job(spec={"interruptionAfter": text})).interval >= 1


def test_a_job_that_is_going() -> None:
    assert job_facts(job(deletionTimestamp=T0)).stopping
    assert job_facts(job(spec={"suspend": True})).stopping


@settings(max_examples=examples(50))
@given(st.text(), st.text(), st.text(), st.integers(), st.floats(allow_nan=False, allow_infinity=False))
def test_no_text_breaks_a_fact(moment: str, phase: str, interval: str, count: int, figure: float) -> None:
    facts = job_facts(
        job(
            {
                "phase": phase,
                "runningTimestamps": [moment],
                "priorityStartOverTimestamp": moment,
                "lastCheckpointTimestamp": moment,
                "interruptedCount": count,
                "preemption": {"class": phase, "runningPriority": figure},
            },
            {"interruptionAfter": interval},
        )
    )
    assert facts.interval >= 1
    assert facts.interruptions >= 0


# --- gangs ---

TASKS = (("0", 1), ("11", None))


def test_pods_belong_to_the_present_run() -> None:
    owner = builders.job("j", run="j-2")
    mine = builders.pod("a", job="j", run="j-2")
    pods = [
        mine,
        builders.pod("earlier-run", job="j", run="j-1"),
        builders.pod("borrowed-label", job="j", run=""),
        builders.pod("other-namespace", job="j", run="j-2", namespace="elsewhere"),
        builders.pod("other-job", job="k", run="j-2"),
    ]
    assert [g.pods for g in gangs([owner], pods)] == [(mine,)]


def test_the_run_of_a_job_that_does_not_name_it_has_the_name_of_the_job() -> None:
    own, other = builders.pod("a", job="j", run="j"), builders.pod("b", job="j", run="x")
    (found,) = gangs([job_facts(job({"jobName": ""}))], [own, other])
    assert found.pods == (own,)


def test_each_task_of_an_array_is_a_gang() -> None:
    array = builders.job("j", run="j", class_="preemptible")
    pods = [builders.pod(f"j-{task}", job="j", run="j", task=task, started=started) for task, started in TASKS]
    found = gangs([array], pods)
    assert [(g.job.key, g.job.phase, g.pods) for g in found] == [
        ("lab/j[0]", "Running", (pods[0],)),
        ("lab/j[11]", "Starting", (pods[1],)),
    ]
    assert len({g.job.uid for g in found}) == 2
    assert {g.job.class_ for g in found} == {""}, "what a status says is of no task"
    assert [g.job.key for g in gangs([array], [])] == ["lab/j"], "a status is written of what waits, too"


# --- nodes, budgets, levels ---


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, False),
        ({"spec": {"unschedulable": True}}, True),
        ({"metadata": {"deletionTimestamp": T0}}, True),
        ({"spec": {"taints": [{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}]}}, True),
        ({"spec": {"taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]}}, True),
        ({"spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}}, False),
    ],
)
def test_cordoned(body: dict[str, Any], expected: bool) -> None:
    assert is_cordoned(msgspec.convert(body, Node)) is expected


def test_the_budget() -> None:
    def budget(**spec: Any) -> PodDisruptionBudget:
        meta = ObjectMeta(labels={names.LABEL_MANAGED_BY: names.PRIORITIZER})
        return PodDisruptionBudget(metadata=meta, spec={**BUDGET_SPEC, **spec})

    assert isinstance(MIN_AVAILABLE, int)
    assert budget_is_right(budget())
    assert budget_is_right(budget(unhealthyPodEvictionPolicy="IfHealthyBudget"))
    assert budget_is_right(budget(minAvailable=1)) is False
    assert budget_is_right(budget(selector={})) is False
    assert budget_is_right(PodDisruptionBudget(spec={**BUDGET_SPEC})) is None, "somebody else's"


FRESH = {
    "state": "Filling",
    "admit": "true",
    "preemptiblePercentage": "47.5",
    "observedAt": T0,
    "periodSeconds": "15",
    "load.cpu": "50",
    "lower.cpu": "70",
    "admission.cpu": "80",
    "upper.cpu": "85",
}


@pytest.mark.parametrize(
    ("data", "after", "percentage", "source"),
    [
        (None, 0, 33, Source.FALLBACK),
        (FRESH, 0, 47.5, Source.PUBLISHED),
        (FRESH, 44, 47.5, Source.PUBLISHED),
        (FRESH, 46, None, Source.KEPT),
        ({}, 0, None, Source.KEPT),
        ({**FRESH, "state": "Blind"}, 0, None, Source.KEPT),
        ({**FRESH, "state": "Shouting"}, 0, None, Source.KEPT),
        ({**FRESH, "preemptiblePercentage": "NaN"}, 0, None, Source.KEPT),
        ({**FRESH, "preemptiblePercentage": "-1"}, 0, None, Source.KEPT),
        ({**FRESH, "preemptiblePercentage": "all"}, 0, None, Source.KEPT),
        ({**FRESH, "observedAt": "now"}, 0, None, Source.KEPT),
    ],
)
def test_the_share(data: dict[str, str] | None, after: int, percentage: float | None, source: Source) -> None:
    now = datetime.fromisoformat(T0) + timedelta(seconds=after)
    share = Share.of(LevelsView.of(data, now))
    assert (share.percentage, share.source) == (percentage, source)
    assert bool(share.reason) is (source is not Source.PUBLISHED)


# --- what lasts ---


def test_facts_are_made_once_per_version() -> None:
    made: list[str] = []

    def describe(of: Pod) -> Any:
        made.append(of.metadata.name)
        return pod_facts(of)

    known: FactsCache[Pod, Any] = FactsCache(describe)
    first, second = pod(metadata__uid="a"), pod(metadata__uid="b")
    one = known.refresh([first, second])
    again = known.refresh([first, second])
    assert len(made) == 2
    assert again[0] is one[0]
    known.refresh([pod(metadata__uid="a"), second])
    assert len(made) == 3
    known.refresh([])
    known.refresh([second])
    assert len(made) == 4


def test_what_was_written_is_remembered_until_the_informer_shows_it() -> None:
    known: FactsCache[Pod, Any] = FactsCache(pod_facts)
    shown = pod()
    (planned,) = known.refresh([shown])
    known.note(planned, class_=NON_PREEMPTIBLE)
    assert known.refresh([shown])[0].class_ == NON_PREEMPTIBLE
    assert known.refresh([shown])[0].written is None
    newer = pod()
    assert known.refresh([newer])[0].class_ == "preemptible"


def test_a_write_is_not_remembered_over_a_newer_version() -> None:
    known: FactsCache[Pod, Any] = FactsCache(pod_facts)
    (planned,) = known.refresh([pod()])
    newer = pod()
    known.refresh([newer])
    known.note(planned, class_=NON_PREEMPTIBLE, written=5)
    assert known.refresh([newer])[0].class_ == "preemptible"
    known.refresh([])
    known.note(planned, class_=NON_PREEMPTIBLE)
    assert known.refresh([]) == []


# --- what is worth looking again for ---


def test_our_own_writes_are_not_news() -> None:
    ours = pod(metadata__annotations={"scavenger.dev/running-priority": "7"}, metadata__labels={"x": "y"})
    assert pod_signature(ours) == pod_signature(pod())
    assert job_signature(job({"preemption": {"class": "preemptible"}})) == job_signature(job())
    assert job_signature(job({"priorityStartOverTimestamp": T0})) == job_signature(job())


@pytest.mark.parametrize(
    "changed",
    [
        pod(spec__nodeName="n2"),
        pod(status__phase="Failed"),
        pod(metadata__deletionTimestamp=T0),
        pod(metadata__annotations={"scavenger.dev/last-checkpoint": T0}),
    ],
)
def test_news_of_a_pod(changed: Pod) -> None:
    assert pod_signature(changed) != pod_signature(pod())


@pytest.mark.parametrize(
    "changed",
    [
        job({"phase": "Interrupted"}),
        job({"runningTimestamps": [T0]}),
        job({"interruptedCount": 1}),
        job({"lastCheckpointTimestamp": T0}),
        job({"jobName": "j-2"}),
        job(spec={"suspend": True}),
        job(deletionTimestamp=T0),
        job(annotations={"scavenger.dev/last-checkpoint": T0}),
    ],
)
def test_news_of_a_job(changed: ScavengerJob) -> None:
    assert job_signature(changed) != job_signature(job())
