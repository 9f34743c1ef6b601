"""A disruption budget of somebody's own keeps no preemptible job, and one of the prioritizer's keeps every other."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from scavenger_api.evictions import EvictionReason, read_eviction_note
from scavenger_api.names import LABEL_PREEMPTION_CLASS, NON_PREEMPTIBLE, PREEMPTIBLE, PRIORITY_CLASS_PREEMPTIBLE
from scavenger_kube.resources import EVENTS, PODDISRUPTIONBUDGETS, PODS
from scavenger_regulator.evictions import EvictionOutcome
from scavenger_regulator.set_aside import SetAside
from scavenger_testing.answers import Request

from tests.unit.regulator.builders import NOW
from tests.unit.regulator.test_controller import Cluster, cluster

EVERYTHING: tuple[dict[str, str], int] = ({}, 5)
"""A budget as somebody means well: over all of the namespace, in which at least five pods are to stay."""


def add_budgets(c: Cluster, *budgets: tuple[dict[str, str], int]) -> None:
    for number, (labels, least) in enumerate(budgets):
        spec = {"minAvailable": least, "selector": {"matchLabels": labels}}
        c.api.put(PODDISRUPTIONBUDGETS, {"metadata": {"namespace": "lab", "name": f"keep-{number}"}, "spec": spec})


def add_jobs(c: Cluster, *, class_: str = PREEMPTIBLE, priority_class: str = PRIORITY_CLASS_PREEMPTIBLE) -> None:
    """Three that use two cores each; job-0 has least at risk, and is of this class. The others are preemptible."""
    for i in range(3):
        c.add_job(f"job-{i}", started=100 * (i + 1))
        mark(c, f"job-{i}-run-0", class_ if i == 0 else PREEMPTIBLE, priority_class)


def mark(c: Cluster, pod: str, class_: str = PREEMPTIBLE, priority_class: str = PRIORITY_CLASS_PREEMPTIBLE) -> None:
    def edit(obj: dict[str, Any]) -> None:
        obj["metadata"]["labels"][LABEL_PREEMPTION_CLASS] = class_
        obj["spec"]["priorityClassName"] = priority_class

    c.api.edit(PODS, "lab", pod, edit)


async def periods(c: Cluster, count: int = 1) -> None:
    for _ in range(count):
        c.measure(8.5, each=2)
        await c.period()


def deletions(c: Cluster) -> list[Request]:
    return [seen for seen in c.api.requests if seen.method == "DELETE"]


@pytest.mark.parametrize(
    "budgets",
    [
        pytest.param([({"scavenger.dev/job": "job-0"}, 1)], id="one of the owner's"),
        pytest.param(
            [({"scavenger.dev/job": "job-0"}, 0)] * 2, id="two over one pod, which the eviction API answers 500"
        ),
        pytest.param([EVERYTHING], id="one over the namespace"),
    ],
)
async def test_a_foreign_budget_sends_nobody_else_in_his_place(budgets: list[tuple[dict[str, str], int]]) -> None:
    async with cluster() as c:
        add_jobs(c)
        add_budgets(c, *budgets)
        await periods(c)
        assert c.pods() == ["job-1-run-0", "job-2-run-0"]
        gone = c.api.get(PODS, "lab", "job-0-run-0")
        assert gone is not None
        note = read_eviction_note(gone["metadata"]["annotations"])
        assert note is not None
        assert note.reason is EvictionReason.ABOVE_UPPER
        assert {("job-0", "AboveUpperLevel"), ("job-0", "BudgetOverridden")} <= set(c.reasons())
        (told,) = [event for event in c.api.list(EVENTS) if event["reason"] == "BudgetOverridden"]
        assert told["type"] == "Warning"
        assert "PodDisruptionBudget does not hold for preemptible scavenger pods" in told["message"]
        await periods(c, 3)
        assert c.pods() == ["job-1-run-0", "job-2-run-0"], "it counts as evicted: what it frees is waited for"


async def test_the_user_of_a_job_is_warned_of_a_budget_that_does_not_hold() -> None:
    async with cluster(adopt=True) as c:
        c.add_adopted("cheap", started=100)
        mark(c, "cheap-run-0")
        c.add_job("job", started=900)
        add_budgets(c, ({"scavenger.dev/job": "cheap"}, 1))
        await periods(c)
        assert c.pods() == ["job-run-0"]
        (told,) = [event for event in c.api.list(EVENTS) if event["reason"] == "BudgetOverridden"]
        about = told["involvedObject"]
        assert (about["apiVersion"], about["kind"], about["name"], told["type"]) == (
            "batch/v1",
            "Job",
            "cheap",
            "Warning",
        )


async def test_where_no_budget_refuses_nothing_is_deleted() -> None:
    async with cluster() as c:
        add_jobs(c)
        add_budgets(c, ({"scavenger.dev/job": "job-0"}, 0))
        await periods(c)
        assert c.pods() == ["job-1-run-0", "job-2-run-0"]
        assert deletions(c) == []
        assert ("job-0", "BudgetOverridden") not in c.reasons()


async def test_a_gang_under_a_budget_goes_whole() -> None:
    async with cluster() as c:
        c.add_job("gang", pods=3)
        c.add_job("single", started=1700)
        for name in c.pods():
            mark(c, name)
        add_budgets(c, ({"scavenger.dev/job": "gang"}, 2))  # the first may be evicted, the others not
        c.measure(9)
        await c.period()
        assert c.pods() == ["single-run-0"]
        assert [reason for name, reason in c.reasons() if name == "gang"].count("BudgetOverridden") == 1


async def test_who_was_protected_a_moment_ago_is_never_deleted() -> None:
    """The regulator's cache still says preemptible; what counts is the pod as it is now, and nothing of it changes."""
    async with cluster() as c:
        add_jobs(c)
        add_budgets(c, ({LABEL_PREEMPTION_CLASS: NON_PREEMPTIBLE}, 1_000_000))
        decide = c.regulator.decide

        def protected_since(*given: Any) -> Any:
            decided = decide(*given)
            mark(c, "job-0-run-0", NON_PREEMPTIBLE)
            return decided

        c.regulator.decide = protected_since  # type: ignore[assignment, method-assign]
        await periods(c)
        assert len(c.pods()) == 3
        assert deletions(c) == []
        c.regulator.decide = decide  # type: ignore[method-assign]
        await periods(c)
        assert c.pods() == ["job-0-run-0", "job-2-run-0"]
        assert deletions(c) == []


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param({"priority_class": ""}, id="no scavenger priority"),
        pytest.param({"priority_class": "ordinary-workload"}, id="an ordinary priority"),
        pytest.param({"class_": "Preemptible"}, id="another class"),
    ],
)
async def test_what_is_no_preemptible_scavenger_pod_by_all_its_marks_is_never_deleted(odd: dict[str, str]) -> None:
    async with cluster() as c:
        add_jobs(c, **odd)
        add_budgets(c, ({"scavenger.dev/job": "job-0"}, 1))
        await periods(c, 3)
        assert "job-0-run-0" in c.pods()
        assert [seen for seen in deletions(c) if "job-0" in seen.path] == []


async def test_a_pod_that_takes_its_name_meanwhile_is_not_deleted() -> None:
    async with cluster() as c:
        add_jobs(c)
        add_budgets(c, ({"scavenger.dev/job": "job-0"}, 1))
        evict = c.regulator._client.evict

        async def evicted_as_it_is_replaced(namespace: str, pod: str, **options: Any) -> bool:
            try:
                return await evict(namespace, pod, **options)
            finally:
                found = c.api.get(PODS, namespace, pod)
                assert found is not None
                c.api.remove(PODS, namespace, pod)
                del found["metadata"]["uid"]
                c.api.put(PODS, found)

        c.regulator._client.evict = evicted_as_it_is_replaced  # type: ignore[method-assign]
        await periods(c)
        assert "job-0-run-0" in c.pods()
        assert deletions(c) == []


async def test_a_pod_that_changes_between_look_and_delete_is_looked_at_again() -> None:
    async with cluster() as c:
        add_jobs(c)
        add_budgets(c, ({"scavenger.dev/job": "job-0"}, 1))
        c.api.fail(409, methods={"DELETE"}, reason="Conflict")
        await periods(c)
        assert c.pods() == ["job-1-run-0", "job-2-run-0"]
        assert len(deletions(c)) == 2


async def test_without_the_right_to_delete_others_are_asked_in_the_end() -> None:
    """A role of one's own that does not know of it, or a policy that says no."""
    async with cluster() as c:
        add_jobs(c)
        add_budgets(c, ({"scavenger.dev/job": "job-0"}, 1))
        c.api.fail(403, times=1000, methods={"DELETE"})
        await periods(c, 3)
        assert c.pods() == ["job-0-run-0", "job-2-run-0"]


async def test_a_server_that_sheds_load_is_no_budget() -> None:
    async with cluster() as c:
        add_jobs(c)
        c.api.fail(429, times=1, methods={"POST"}, path="/eviction")
        await periods(c)
        assert len(c.pods()) == 3
        assert deletions(c) == []


# --- who is set aside ---------------------------------------------------------------------------------------


def waits(outcome: EvictionOutcome, count: int) -> list[float]:
    """Seconds for which a job is left alone after each of so many failures in a row."""
    kept, now, found = SetAside(300), NOW, []
    for _ in range(count):
        kept.note("uid", outcome, now)
        began = now
        while "uid" in kept.refused(now) | kept.failed(now):
            now += timedelta(seconds=30)
        found.append((now - began).total_seconds())
    return found


def test_each_failure_in_a_row_doubles_the_time() -> None:
    assert waits(EvictionOutcome.REFUSED, 6) == [300, 600, 1200, 2400, 3600, 3600]
    assert waits(EvictionOutcome.FAILED, 6) == [0, 300, 600, 1200, 2400, 3600]


def test_a_success_and_a_long_time_without_a_failure_begin_anew() -> None:
    kept = SetAside(300)
    for _ in range(3):
        kept.note("uid", EvictionOutcome.REFUSED, NOW)
    kept.note("uid", EvictionOutcome.EVICTED, NOW)
    assert not kept.refused(NOW)
    kept.note("uid", EvictionOutcome.REFUSED, NOW)
    assert kept.refused(NOW + timedelta(seconds=299)) == {"uid"}
    assert not kept.refused(NOW + timedelta(seconds=300))
    kept.note("uid", EvictionOutcome.REFUSED, NOW + timedelta(hours=2))
    assert not kept.refused(NOW + timedelta(hours=2, seconds=300))


def test_a_clock_that_is_set_back_sets_nobody_aside_for_longer() -> None:
    kept, hour = SetAside(300), timedelta(hours=1)
    kept.note("uid", EvictionOutcome.REFUSED, NOW)
    kept.set_back(hour)
    assert kept.refused(NOW - hour + timedelta(seconds=299)) == {"uid"}
    assert not kept.refused(NOW - hour + timedelta(seconds=300))


def test_jobs_that_are_gone_are_forgotten() -> None:
    kept = SetAside(300)
    kept.note("uid", EvictionOutcome.REFUSED, NOW)
    kept.keep({"other"})
    assert not kept.refused(NOW)
