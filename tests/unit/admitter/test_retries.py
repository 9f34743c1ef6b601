"""Programs that fail by themselves and may try again, and jobs whose runs take too long."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from scavenger_admitter.core.lifecycle.actions import DeleteJob
from scavenger_admitter.core.lifecycle.observation import LifecycleSettings, Outcome
from scavenger_api.job import ConditionType, Phase, ScavengerJob
from scavenger_kube import kinds
from scavenger_kube.resources import PERSISTENTVOLUMECLAIMS

from . import builders as b
from .harness import NS, Harness, harness, runs

RUNNING, WAITING, FAILED = Phase.RUNNING, Phase.WAITING, Phase.FAILED


def failing(
    spec: dict[str, Any], at: float, pod: kinds.Pod | None = None, **status: Any
) -> tuple[ScavengerJob, Outcome]:
    """A job that has run since 10 s, and what becomes of it when its pod fails."""
    job = b.job(RUNNING, running=(10,), spec=spec)
    job = job.model_copy(update={"status": job.status.model_copy(update=status)})
    return job, b.decide(b.seen(job, at, b.batch(), pod or b.pod(ended=at, code=3, exit_reason="Error")))


@pytest.mark.parametrize(
    ("limit", "used", "retried"), [(None, None, False), (0, None, False), (2, None, True), (2, 1, True), (2, 2, False)]
)
def test_a_failure_is_tried_again_as_often_as_the_job_allows(
    limit: int | None, used: int | None, retried: bool
) -> None:
    _, outcome = failing({} if limit is None else {"backoffLimit": limit}, 500, retries=used)
    status = outcome.status
    assert status.phase is (WAITING if retried else FAILED)
    assert status.interrupted_count == 0
    assert status.lost_cpu_seconds > 0
    assert [event.reason for event in outcome.events] == ["Retrying" if retried else "Failed"]
    said = status.message or ""
    assert "exited with code 3" in said
    if retried:
        assert status.retries == (used or 0) + 1
        assert f"queued for retry {status.retries} of {limit}" in said
    elif limit:
        assert "all 2 retries are used" in said


EXIT_3 = {"onExitCodes": {"operator": "In", "values": [3, 4]}}
RULES: dict[str, tuple[dict[str, Any], str]] = {
    "the code is among them": (EXIT_3, "matches"),
    "the code is not among them": ({"onExitCodes": {"operator": "In", "values": [4]}}, "counts"),
    "any code but these": ({"onExitCodes": {"operator": "NotIn", "values": [4]}}, "matches"),
    "any code but this very one": ({"onExitCodes": {"operator": "NotIn", "values": [3]}}, "counts"),
    "of the program": ({"onExitCodes": {"containerName": "main", "operator": "In", "values": [3]}}, "matches"),
    "of another container": ({"onExitCodes": {"containerName": "proxy", "operator": "In", "values": [3]}}, "counts"),
    "a condition of the pod": ({"onPodConditions": [{"type": "ConfigIssue", "status": "True"}]}, "matches"),
    "that is not so": ({"onPodConditions": [{"type": "ConfigIssue", "status": "False"}]}, "counts"),
}


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("action", ["FailJob", "Ignore", "Count"])
def test_the_first_rule_that_matches_says_what_a_failure_means(name: str, action: str) -> None:
    rule, found = RULES[name]
    said = b.condition("ConfigIssue", "True", 400)
    pod = b.pod(ended=500, code=3, exit_reason="Error", conditions=[said])
    later = {"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [3]}}
    policy = {"rules": [{"action": action, **rule}, later]}
    _, outcome = failing({"backoffLimit": 2, "podFailurePolicy": policy}, 500, pod, retries=1)
    status, done = outcome.status, action if found == "matches" else "Count"
    assert (status.phase, status.retries, status.ignored_failures) == {
        "FailJob": (FAILED, 1, None),
        "Ignore": (WAITING, 1, 1),
        "Count": (WAITING, 2, None),
    }[done]
    assert status.lost_cpu_seconds > 0
    if done == "FailJob":
        succeeded = status.condition(ConditionType.SUCCEEDED)
        assert succeeded is not None
        assert succeeded.reason == "PodFailurePolicy"
        assert "rules[0] of podFailurePolicy" in (status.message or "")


def test_the_order_of_the_rules_decides() -> None:
    policy = {"rules": [{"action": "Ignore", **EXIT_3}, {"action": "FailJob", **EXIT_3}]}
    assert failing({"podFailurePolicy": policy}, 500)[1].status.phase is WAITING
    policy["rules"].reverse()
    assert failing({"podFailurePolicy": policy}, 500)[1].status.phase is FAILED


def test_an_interruption_asks_no_rule() -> None:
    policy = {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [1]}}]}
    pod = b.pod(deleted=450, ended=460, code=143, exit_reason="Error")
    _, outcome = failing({"podFailurePolicy": policy}, 500, pod)
    assert (outcome.status.interrupted_count, outcome.status.phase) == (1, Phase.INTERRUPTED)


def test_the_next_run_begins_at_the_old_place_when_the_pod_is_gone() -> None:
    job, outcome = failing({"backoffLimit": 1}, 500)
    again = b.written(job, outcome.status)
    assert not outcome.candidate
    assert any(isinstance(action, DeleteJob) for action in outcome.actions)
    later = b.decide(b.seen(again, 501, None))
    assert later.candidate
    assert again.status.queued_timestamp is not None
    assert again.status.queued_timestamp < b.at(1)


@pytest.mark.parametrize(("short_runs", "rest"), [(None, 60), (1, 120), (9, 600)])
def test_short_runs_that_fail_have_a_pause_that_grows(short_runs: int | None, rest: float) -> None:
    """Since the start of the last one."""
    job, outcome = failing({"backoffLimit": 20}, 20, short_runs=short_runs)
    assert "not started before" in (outcome.status.message or "")
    job = b.written(job, outcome.status)
    assert not b.decide(b.seen(job, 10 + rest - 1, None)).candidate
    assert b.decide(b.seen(job, 10 + rest, None)).candidate


def test_a_gang_that_fails_before_it_ran_together_waits_as_after_a_failed_start() -> None:
    job = b.job(Phase.STARTING, spec={**b.gang(2), "backoffLimit": 1})
    failed = b.pod(0, started=3, ended=5, code=3, exit_reason="Error")
    outcome = b.decide(b.seen(job, 200, b.batch(), failed, b.pod(1, started=None)))
    assert (outcome.status.phase, outcome.status.retries, outcome.status.short_runs) == (WAITING, 1, None)
    assert outcome.start_failed


SNAPSHOTS = {
    "command": ["./simulate"],
    "persistentVolumeClaims": [{"name": "work", "mountPath": "/data"}],
    "snapshot": {"volume": "work"},
}


def test_a_node_that_cannot_continue_a_snapshot_is_not_the_fault_of_the_job() -> None:
    pod = b.pod(ended=20, code=86, exit_reason="Error", message="snap: the CPU of this node lacks avx512")
    job, settings = b.job(RUNNING, running=(10,), spec=SNAPSHOTS), LifecycleSettings(snapshots=True)
    outcome = b.decide(b.seen(job, 20, b.batch(), pod, rules=settings))
    status = outcome.status
    assert (status.phase, status.retries, status.interrupted_count, status.short_runs) == (WAITING, None, 0, 1)
    assert outcome.unfit_node == "node-1"
    assert "lacks avx512" in (status.message or "")
    assert "on another node" in (status.message or "")
    assert b.decide(b.seen(b.written(job, status), 70, None, rules=settings)).candidate


def test_86_is_a_failure_as_any_other_without_snapshots() -> None:
    pod = b.pod(ended=500, code=86, exit_reason="Error")
    assert failing({}, 500, pod)[1].status.phase is FAILED


async def test_the_next_start_prefers_other_nodes_and_the_warnings_of_snap_are_an_event() -> None:
    async with harness(snapshot_image="registry.example.com/snap:1") as c:
        c.api.put(PERSISTENTVOLUMECLAIMS, {"metadata": {"name": "work", "namespace": NS}})
        c.submit("a", **SNAPSHOTS)
        await runs(c, "a")
        (pod,) = c.pods("a")
        c.last_words = "snap: the volume is full\ncheckpoint={now}"
        c.end(pod, code=86)
        await c.until(lambda: c.phase("a") != "Running")
        await runs(c, "a", limit=200)
        (again,) = [one for one in c.pods("a") if one["metadata"]["uid"] != pod["metadata"]["uid"]]
        (wish,) = again["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
        (field,) = wish["preference"]["matchFields"]
        assert (field["operator"], field["values"]) == ("NotIn", [pod["spec"]["nodeName"]])
        assert [event["message"] for event in c.events("SnapshotWarning")] == ["the volume is full"]


def test_an_interruption_is_no_retry() -> None:
    job = b.job(RUNNING, running=(10,), spec={"backoffLimit": 1})
    outcome = b.decide(b.seen(job, 500, b.batch(), b.pod(deleted=500)))
    assert (outcome.status.interrupted_count, outcome.status.retries) == (1, None)


def test_a_checkpoint_before_the_failure_is_kept() -> None:
    pod = b.pod(ended=500, code=3, exit_reason="Error", checkpoint=b.stamp(400))
    _, outcome = failing({"backoffLimit": 1}, 500, pod)
    assert (outcome.status.useful_cpu_seconds, outcome.status.lost_cpu_seconds) == (2 * 390, 2 * 100)


@pytest.mark.parametrize(
    ("before", "at", "phase"), [(None, 309, RUNNING), (None, 310, FAILED), (200, 109, RUNNING), (200, 110, FAILED)]
)
def test_a_deadline_counts_the_time_of_all_runs(before: int | None, at: float, phase: Phase) -> None:
    job = b.job(RUNNING, running=(10,), spec={"activeDeadlineSeconds": 300})
    job = job.model_copy(update={"status": job.status.model_copy(update={"active_seconds": before})})
    outcome = b.decide(b.seen(job, at, b.batch(), b.pod()))
    assert outcome.status.phase is phase
    if phase is RUNNING:
        assert outcome.requeue_after is not None
        assert outcome.requeue_after <= 1
        return
    assert outcome.status.active_seconds == 300
    assert any(isinstance(action, DeleteJob) for action in outcome.actions)
    assert "its runs took 300 s together" in (outcome.status.message or "")
    again = b.decide(b.seen(b.written(job, outcome.status), at + 1, b.batch(), b.pod()))
    assert again.status.phase is FAILED, "its pods may run on for their grace period"


def test_the_time_of_a_run_that_was_interrupted_counts_and_time_in_line_does_not() -> None:
    job = b.job(RUNNING, running=(10,), spec={"activeDeadlineSeconds": 300})
    outcome = b.decide(b.seen(job, 110, b.batch(), b.pod(deleted=110)))
    assert outcome.status.active_seconds == 100
    later = b.decide(b.seen(b.written(job, outcome.status), 5000, None))
    assert later.status.active_seconds == 100


def test_a_job_that_is_interrupted_when_its_time_is_used_up_starts_no_other_run() -> None:
    job = b.job(RUNNING, running=(10,), spec={"activeDeadlineSeconds": 300})
    outcome = b.decide(b.seen(job, 311, b.batch(), b.pod(deleted=310)))
    assert (outcome.status.phase, outcome.status.interrupted_count) == (FAILED, 1)
    assert "its runs took 300 s together" in (outcome.status.message or "")


def retried(c: Harness, times: int) -> bool:
    return bool(c.status("a").get("retries") == times)


async def test_a_job_fails_twice_and_completes() -> None:
    async with harness() as c:
        c.submit("a", backoffLimit=2)
        for retry in (1, 2):
            await runs(c, "a", limit=600)
            await c.pass_time(70)
            c.end(c.pods("a")[0], code=3)
            await c.until(partial(retried, c, retry))
        await runs(c, "a", limit=600)
        c.succeed("a")
        await c.until(lambda: c.phase("a") == "Completed")
        assert c.status("a")["interruptedCount"] == 0
        assert len(c.starts()) == 3
        assert len({pod["metadata"]["uid"] for pod in c.pods("a")}) <= 1
