"""Jobs of users that the admitter runs, from their creation to their end, on the API server in memory.

That server takes no status of a Job that a real one would refuse (`scavenger_testing.job_status_rules`).
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import structlog
from scavenger_admitter.core.adopted import ledger
from scavenger_admitter.core.adopted.ledger import MAX_BYTES
from scavenger_api import names
from scavenger_kube.resources import JOBS, NAMESPACES, NODES, PODS
from scavenger_testing import running, terminated
from scavenger_testing.builders import adopted_job_dict, waiting

from .harness import NS, Harness, Object, empty_harness, harness, runs

KINDS = {"/jobs/": "job", "/pods": "pod", "/events": "event", "/scavengerjobs": "scavengerjob"}


def state(c: Harness, name: str = "a") -> str:
    """The phase in the ledger."""
    return str(c.job_condition(name, names.CONDITION_LEDGER).get("reason", ""))


def status(c: Harness, name: str = "a") -> Object:
    return {"active": 0, **c.batch(name).get("status", {})}  # the API server leaves a 0 of it out


def held_true(c: Harness, name: str = "a") -> list[str]:
    """The conditions that are True, in their order."""
    return [one["type"] for one in status(c, name).get("conditions", ()) if one["status"] == "True"]


def written(c: Harness, since: int) -> list[str]:
    """Every write of the admitter since then, in words."""
    kinds = [(m, next((k for part, k in KINDS.items() if part in path), path)) for m, path in c.writes()[since:]]
    return [f"{method} {kind}" for method, kind in kinds]


async def until(c: Harness, wanted: str, name: str = "a", limit: float = 60.0) -> None:
    await c.until(lambda: state(c, name) == wanted, limit=limit)


async def interruptions(c: Harness, count: int) -> None:
    """Until so many are counted."""
    await c.until(lambda: c.ledger_of("a").get("interrupted") == count)


@asynccontextmanager
async def adopting(**settings: Any) -> AsyncIterator[Harness]:
    """A harness with an admitter that adopts Jobs, in which nothing fails for a reason of its own."""
    async with harness(**{"adopt": True, "explain_after": 5.0, **settings}) as c:
        logged = structlog.get_config()["processors"][0].entries
        yield c
        assert [one for one in logged if one["log_level"] == "error"] == []


@asynccontextmanager
async def running_job(name: str = "a", **spec: Any) -> AsyncIterator[Harness]:
    """A harness in which this Job runs."""
    async with adopting() as c:
        c.submit_job(name, **spec)
        await until(c, "Running", name)
        yield c


def only_pod(c: Harness, name: str = "a") -> Object:
    """The pod of a Job that has not ended."""
    (pod,) = [one for one in c.pods(name) if one["status"].get("phase") not in ("Succeeded", "Failed")]
    return pod


async def test_a_job_starts_in_two_writes_and_ends_in_two() -> None:
    """With what the user, the scheduler and the kubelet write, a start is six requests, and an end three."""
    async with running_job() as c:
        assert written(c, 0) == ["POST pod", "PATCH job"]
        found = status(c)
        assert (found["active"], found["terminating"], found["uncountedTerminatedPods"]) == (1, 0, {})
        assert held_true(c) == []
        before = len(c.writes())
        c.end(only_pod(c))
        await c.until(lambda: c.job_condition("a", "Complete"))
        await c.pass_time(30)
        assert written(c, before) == ["PATCH job", "PATCH pod"]
        found = status(c)
        assert (found["succeeded"], found["active"], found.get("failed")) == (1, 0, None)
        assert [one["type"] for one in found["conditions"]] == [
            "SuccessCriteriaMet",
            "Complete",
            names.CONDITION_LEDGER,
        ]
        assert c.job_condition("a", "Complete")["reason"] == "CompletionsReached"
        assert found["completionTime"] >= found["startTime"]
        assert c.held() == []
        assert len(c.pods("a")) == 1, "kept for kubectl logs"


async def test_nothing_is_written_of_a_job_that_runs() -> None:
    async with running_job() as c:
        before = len(c.writes())
        await c.pass_time(300, step=5)
        assert written(c, before) == []


@pytest.mark.parametrize("code", [0, 137, 143, 1])
@pytest.mark.parametrize("backoff_limit", [0, 6])
async def test_a_deleted_pod_comes_back_and_nothing_is_counted(code: int, backoff_limit: int) -> None:
    """Whatever the program ends with, and with a backoffLimit by which the Job controller would give up."""
    async with running_job(backoffLimit=backoff_limit) as c:
        began = status(c)["startTime"]
        c.stopping = code
        c.delete_pod(only_pod(c))
        await interruptions(c, 1)
        assert status(c)["active"] == 0
        await until(c, "Running")
        found = status(c)
        assert (found["active"], found.get("failed"), found.get("succeeded")) == (1, None, None)
        assert found["startTime"] == began
        assert held_true(c) == []
        assert c.ledger_of("a")["interrupted"] == 1
        c.end(only_pod(c))
        await c.until(lambda: c.job_condition("a", "Complete"))


async def test_an_interruption_and_the_return_are_five_writes() -> None:
    """Label, status, finalizer, pod, status: with what others write, 12 at the most. A start that takes as long as
    `explain_after` is told by one more; how long it takes here differs."""
    async with adopting(explain_after=30.0) as c:
        c.submit_job("a")
        await until(c, "Running")
        before = len(c.writes())
        c.kubelet, c.renews = False, True
        c.delete_pod(only_pod(c))
        await c.pass_time(1)
        c.kubelet = True
        await interruptions(c, 1)
        await until(c, "Running")
        await c.pass_time(30)
        assert written(c, before) == ["PATCH pod", "PATCH job", "PATCH pod", "POST pod", "PATCH job"]


async def test_an_interrupted_pod_loses_its_labels_before_it_ends_and_its_finalizer_after_the_status() -> None:
    async with running_job() as c:
        pod = only_pod(c)
        c.kubelet, c.renews = False, True
        c.delete_pod(pod)
        await c.until(lambda: "job-name" not in c.pods("a")[0]["metadata"]["labels"])
        (seen,) = c.pods("a")
        assert not set(names.JOB_LABELS) & seen["metadata"]["labels"].keys()
        assert names.FINALIZER in seen["metadata"]["finalizers"]
        assert state(c) == "Running"
        c.kubelet = True
        await interruptions(c, 1)
        assert written(c, 0)[-2:] == ["PATCH job", "PATCH pod"], "counted, and then let go"


DISRUPTIONS = ["EvictionByEvictionAPI", "PreemptionByScheduler", "DeletionByTaintManager"]


@pytest.mark.parametrize("reason", DISRUPTIONS)
async def test_a_disrupted_pod_comes_back(reason: str) -> None:
    async with running_job(backoffLimit=0) as c:
        c.stopping = 0

        def disrupt(pod: Object) -> None:
            stamp = {"type": "DisruptionTarget", "status": "True", "reason": reason, "lastTransitionTime": c.stamp()}
            pod["status"]["conditions"] = [{**stamp, "message": "said"}]

        pod = only_pod(c)
        c.api.edit(PODS, NS, pod["metadata"]["name"], disrupt)
        c.delete_pod(only_pod(c))
        await interruptions(c, 1)
        await until(c, "Running")
        assert c.most_at_once("a") == 1
        assert (status(c).get("failed"), held_true(c)) == (None, [])


async def test_a_job_whose_node_is_lost_runs_on_another_one() -> None:
    async with running_job() as c:
        c.node("n2")
        c.kubelet = False
        pod = only_pod(c)
        c.api.delete(NODES, None, "n1")
        c.binds_to = "n2"
        c.delete_pod(pod)
        c.kubelet = True

        def gone(obj: Object) -> None:
            obj["status"] = {**obj["status"], "phase": "Failed"}

        c.api.edit(PODS, NS, pod["metadata"]["name"], gone)
        await interruptions(c, 1)
        await until(c, "Running")
        assert (status(c).get("failed"), c.ledger_of("a")["interrupted"]) == (None, 1)


async def test_a_job_fails_by_its_own_exit_when_its_backoff_limit_is_used_up() -> None:
    async with running_job(backoffLimit=1) as c:
        c.end(only_pod(c), 3)
        await c.until(lambda: status(c).get("failed") == 1)
        assert held_true(c) == []
        await until(c, "Running", limit=120)
        c.end(only_pod(c), 3)
        await c.until(lambda: c.job_condition("a", "Failed"), limit=120)
        assert held_true(c) == ["FailureTarget", "Failed"]
        found = c.job_condition("a", "Failed")
        assert (found["reason"], found["message"]) == (
            "BackoffLimitExceeded",
            "Job has reached the specified backoff limit",
        )
        assert (status(c)["failed"], status(c)["active"]) == (2, 0)
        await c.pass_time(60)
        assert c.held() == []
        assert len(c.pods("a")) == 1, "kept for kubectl logs"


async def test_interruptions_leave_retries_as_they_are() -> None:
    async with running_job(backoffLimit=1) as c:
        for count in (1, 2, 3):
            c.delete_pod(only_pod(c))
            await interruptions(c, count)
            await until(c, "Running", limit=700)
        c.end(only_pod(c), 3)
        await c.until(lambda: status(c).get("failed") == 1)
        assert held_true(c) == []


async def test_a_job_that_waits_says_so_once() -> None:
    async with empty_harness() as c:
        c.node(cpu="1")
        c.admitter(adopt=True)
        c.submit_job("a", cpu="8")
        await until(c, "Waiting")
        await c.pass_time(30)
        assert written(c, 0).count("PATCH job") == 1
        assert status(c).get("startTime") is None
        assert (status(c)["active"], held_true(c)) == (0, [])


async def test_a_job_and_a_scavenger_job_of_one_name_are_two() -> None:
    """A ScavengerJob needs a Job of its name, so it waits until that of the user is gone."""
    async with running_job() as c:
        c.submit("a")
        await c.until(lambda: c.phase("a") == "Waiting")
        assert "does not belong to it" in c.status("a")["message"]
        c.delete_pod(only_pod(c))
        await interruptions(c, 1)
        await until(c, "Running")
        assert c.phase("a") == "Waiting"
        c.end(only_pod(c))
        await c.until(lambda: c.job_condition("a", "Complete"))
        assert c.phase("a") == "Waiting"
        c.api.delete(JOBS, NS, "a")
        await runs(c, "a", limit=120)


async def test_jobs_of_users_are_left_alone_where_nothing_is_adopted() -> None:
    async with harness() as c:
        c.submit_job("a")
        await c.pass_time(30)
        assert (c.pods("a"), status(c)) == ([], {"active": 0})


async def test_a_job_that_names_a_queue_and_is_not_ours_is_left_alone() -> None:
    async with adopting() as c:
        c.submit_job("a", managedBy="kubernetes.io/job-controller")
        await c.pass_time(30)
        assert (c.pods("a"), status(c)) == ([], {"active": 0})


def submit_regular(c: Harness, name: str, labels: Object | None = None) -> None:
    """A Job that nobody has adopted."""
    job = adopted_job_dict(name, namespace=NS, created=c.stamp())
    del job["spec"]["managedBy"]
    job["metadata"]["labels"] = labels or {}
    c.api.put(JOBS, job)


def told(c: Harness) -> list[str]:
    """The Jobs of which an Event says that they are regular ones."""
    assert all(one["count"] == 1 for one in c.events("NotAdopted"))
    return [one["involvedObject"]["name"] for one in c.events("NotAdopted")]


async def test_a_job_that_nobody_adopted_is_told_once_where_a_namespace_is_served_as_a_whole() -> None:
    """Not by the next leader, and not of a Job that is older than the look, asks for a queue, or opts out."""
    async with empty_harness() as c:
        c.node()
        c.api.put(NAMESPACES, {"metadata": {"name": NS, "labels": {names.LABEL_ADOPT: "all"}}})
        submit_regular(c, "before")
        first = c.admitter(adopt=True, tell_unadopted=True)
        await c.pass_time(5)
        submit_regular(c, "plain")
        submit_regular(c, "never", {names.LABEL_ADOPT: "never"})
        submit_regular(c, "kueue", {names.LABEL_KUEUE_QUEUE: "q"})
        submit_regular(c, "asked", {names.LABEL_QUEUE: "q"})
        c.submit_job("adopted")
        await c.until(lambda: told(c))
        await first.kill()
        c.admitter(adopt=True, tell_unadopted=True)
        await c.pass_time(60)
        assert told(c) == ["plain"]


async def test_a_new_leader_goes_on_from_the_ledger() -> None:
    async with adopting() as c:
        c.submit_job("a")
        await until(c, "Running")
        c.delete_pod(only_pod(c))
        await interruptions(c, 1)
        await c._admitters[0].kill()
        c.admitter(adopt=True)
        await until(c, "Running")
        assert c.ledger_of("a")["interrupted"] == 1
        assert c.most_at_once("a") == 1
        c.end(only_pod(c))
        await c.until(lambda: c.job_condition("a", "Complete"))
        assert status(c)["succeeded"] == 1


async def test_a_ledger_of_another_version_is_left_alone_and_told() -> None:
    async with harness(adopt=True) as c:
        c.submit_job("a")
        await until(c, "Running")
        c.end(only_pod(c))
        await c._admitters[0].kill()
        other = {"type": names.CONDITION_LEDGER, "status": "False", "reason": "Running", "message": '{"v":7}'}
        c.api.edit(JOBS, NS, "a", lambda job: job["status"].update(conditions=[other]))
        c.admitter(adopt=True)
        await c.until(lambda: c.events("Unreadable"))
        assert status(c)["conditions"] == [other]
        assert "version 7" in c.events("Unreadable")[0]["message"]
        assert len(c.pods("a")) == 1


async def test_deleting_a_job_ends_it_and_lets_its_pods_go() -> None:
    async with running_job() as c:
        c.api.delete(JOBS, NS, "a")
        await c.until(lambda: not c.pods("a"))
        assert c.held() == []


# --- several pods ---


def living(c: Harness, name: str = "a") -> list[Object]:
    return [
        one
        for one in c.pods(name)
        if one["status"].get("phase") not in ("Succeeded", "Failed") and "deletionTimestamp" not in one["metadata"]
    ]


def at_work(c: Harness, name: str = "a") -> list[Object]:
    return [one for one in living(c, name) if one["status"].get("phase") == "Running"]


async def finish_all(c: Harness, name: str = "a", kind: str = "Complete") -> None:
    """The programs end with 0, whoever starts, until the Job is over."""
    for _ in range(40):
        for pod in at_work(c, name):
            c.end(pod)
        await c.pass_time(2)
        if c.job_condition(name, kind):
            return
    raise AssertionError(status(c, name))


@pytest.mark.parametrize("mode", ["NonIndexed", "Indexed"])
async def test_five_completions_of_which_two_run_at_a_time(mode: str) -> None:
    async with adopting() as c:
        c.submit_job("a", completions=5, parallelism=2, completionMode=mode)
        await c.until(lambda: len(at_work(c)) == 2)
        await finish_all(c)
        found = status(c)
        assert (found["succeeded"], found["active"], found.get("failed")) == (5, 0, None)
        assert found.get("completedIndexes") == ("0-4" if mode == "Indexed" else None)
        assert c.most_at_once("a") == 2
        await c.pass_time(30)
        assert (len(c.pods("a")), c.held()) == (5, [])


async def test_a_job_of_ten_thousand_completions_is_written_once_a_second() -> None:
    """However fast its pods end."""
    async with adopting() as c:
        c.submit_job("a", cpu="50m", memory="1Mi", completions=10_000, parallelism=10, completionMode="Indexed")
        await c.until(lambda: len(at_work(c)) == 10)
        since, began = len(c.writes()), c.clock.monotonic()
        for _ in range(20):
            for pod in at_work(c)[:3]:
                c.end(pod)
            await c.pass_time(0.25)
        assert 1 < written(c, since).count("PATCH job") <= c.clock.monotonic() - began
        assert (status(c)["succeeded"] > 10, c.most_at_once("a")) == (True, 10)
        assert len(c.job_condition("a", names.CONDITION_LEDGER)["message"].encode()) <= MAX_BYTES


@pytest.mark.parametrize("mode", ["NonIndexed", "Indexed"])
async def test_interrupted_pods_of_several_come_back_and_each_counts_once(mode: str) -> None:
    async with adopting() as c:
        c.stopping = 0
        c.submit_job("a", completions=4, parallelism=2, completionMode=mode, backoffLimit=0)
        await c.until(lambda: len(at_work(c)) == 2)
        c.delete_pod(at_work(c)[0])
        await interruptions(c, 1)
        c.end(at_work(c)[0])
        await c.until(lambda: status(c).get("succeeded") == 1)
        await c.until(lambda: len(at_work(c)) == 2)
        c.delete_pod(at_work(c)[1])
        await interruptions(c, 2)
        await finish_all(c)
        found = status(c)
        assert (found["succeeded"], found.get("failed")) == (4, None)
        assert c.most_at_once("a") == 2


async def test_pods_of_an_indexed_job_say_their_index() -> None:
    async with adopting() as c:
        c.submit_job("a", completions=2, parallelism=2, completionMode="Indexed")
        await c.until(lambda: len(at_work(c)) == 2)
        index = "batch.kubernetes.io/job-completion-index"
        for number, pod in enumerate(sorted(living(c), key=lambda one: one["metadata"]["name"])):
            assert pod["metadata"]["labels"][index] == pod["metadata"]["annotations"][index] == str(number)
            assert pod["spec"]["hostname"] == f"a-{number}"
            env = {one["name"] for one in pod["spec"]["containers"][0]["env"]}
            assert "JOB_COMPLETION_INDEX" in env


async def test_a_work_queue_ends_when_one_worker_succeeded_and_none_runs() -> None:
    async with adopting() as c:
        c.submit_job("a", completions=None, parallelism=3)
        await c.until(lambda: len(at_work(c)) == 3)
        c.end(at_work(c)[0])
        await c.until(lambda: status(c).get("succeeded") == 1)
        await c.pass_time(20)
        assert (len(living(c)), held_true(c)) == (2, [])
        c.delete_pod(at_work(c)[0])
        await interruptions(c, 1)
        await c.until(lambda: len(at_work(c)) == 2, limit=120)
        for pod in at_work(c):
            c.end(pod)
        await c.until(lambda: c.job_condition("a", "Complete"))
        assert status(c)["succeeded"] == 3


async def test_a_worker_that_fails_after_the_first_success_does_not_come_back() -> None:
    """As under the Job controller, which then creates no pod any more."""
    async with adopting() as c:
        c.submit_job("a", completions=None, parallelism=3, backoffLimit=6)
        await c.until(lambda: len(at_work(c)) == 3)
        c.end(at_work(c)[0], 3)
        await c.until(lambda: status(c).get("failed") == 1)
        await c.until(lambda: len(at_work(c)) == 3, limit=60)  # nobody has succeeded yet
        c.end(at_work(c)[0])
        await c.until(lambda: status(c).get("succeeded") == 1)
        c.end(at_work(c)[0], 3)
        await c.until(lambda: status(c).get("failed") == 2)
        await c.pass_time(120, step=5)
        assert (len(living(c)), held_true(c)) == (1, [])
        c.end(at_work(c)[0])
        await c.until(lambda: c.job_condition("a", "Complete"))
        assert (status(c)["succeeded"], status(c)["failed"]) == (2, 2)


@pytest.mark.parametrize("wait", [0, 2], ids=["failed at once", "failed before"])
async def test_a_worker_that_failed_beside_the_first_success_does_not_come_back(wait: float) -> None:
    async with adopting() as c:
        c.submit_job("a", completions=None, parallelism=2)
        await c.until(lambda: len(at_work(c)) == 2)
        first, second = at_work(c)
        c.end(first, 3)
        await c.pass_time(wait)
        c.end(second)
        await c.until(lambda: c.job_condition("a", "Complete"), limit=40)
        assert (status(c)["succeeded"], status(c)["failed"]) == (1, 1)


@pytest.mark.parametrize("parallelism", [0, 1, 2])
async def test_a_work_queue_that_is_narrowed_before_its_first_success_stops_workers(parallelism: int) -> None:
    async with adopting() as c:
        c.submit_job("a", completions=None, parallelism=3)
        await c.until(lambda: len(at_work(c)) == 3)
        c.api.edit(JOBS, NS, "a", lambda job: job["spec"].update(parallelism=parallelism))
        await c.until(lambda: len(c.pods("a")) == parallelism)
        await c.pass_time(60, step=5)
        assert (len(c.pods("a")), status(c)["active"], held_true(c)) == (parallelism, parallelism, [])
        assert (c.ledger_of("a").get("interrupted", 0), status(c).get("failed")) == (0, None)
        c.api.edit(JOBS, NS, "a", lambda job: job["spec"].update(parallelism=2))
        await c.until(lambda: len(at_work(c)) == 2, limit=120)
        c.end(at_work(c)[0])
        await c.until(lambda: status(c).get("succeeded") == 1)
        for pod in at_work(c):
            c.end(pod)
        await c.until(lambda: c.job_condition("a", "Complete"))
        assert (status(c)["succeeded"], status(c).get("failed")) == (2, None)


@pytest.mark.parametrize("parallelism", [0, 1, 5])
async def test_parallelism_says_nothing_after_the_first_success_of_a_work_queue(parallelism: int) -> None:
    """As under the Job controller, which then leaves running what runs."""
    async with adopting() as c:
        c.submit_job("a", completions=None, parallelism=3)
        await c.until(lambda: len(at_work(c)) == 3)
        c.end(at_work(c)[0])
        await c.until(lambda: status(c).get("succeeded") == 1)
        stay = [pod["metadata"]["uid"] for pod in at_work(c)]
        c.api.edit(JOBS, NS, "a", lambda job: job["spec"].update(parallelism=parallelism))
        await c.pass_time(60, step=5)
        assert [pod["metadata"]["uid"] for pod in living(c)] == stay
        c.delete_pod(at_work(c)[1])
        await interruptions(c, 1)
        await c.until(lambda: len(at_work(c)) == 2, limit=120)
        for pod in at_work(c):
            c.end(pod)
        await c.until(lambda: c.job_condition("a", "Complete"))
        assert (status(c)["succeeded"], status(c).get("failed")) == (3, None)


async def test_a_work_queue_that_is_suspended_after_its_first_success_is_complete() -> None:
    """As under the Job controller: none of its workers is left, and none would start."""
    async with adopting() as c:
        c.submit_job("a", completions=None, parallelism=3)
        await c.until(lambda: len(at_work(c)) == 3)
        c.end(at_work(c)[0])
        await c.until(lambda: status(c).get("succeeded") == 1)
        c.end(at_work(c)[0])
        c.api.edit(JOBS, NS, "a", lambda job: job["spec"].update(suspend=True))
        await c.until(lambda: c.job_condition("a", "Complete"))
        found = status(c)
        assert (found["succeeded"], found.get("failed"), found["active"], living(c)) == (2, None, 0, [])
        assert (held_true(c), c.ledger_of("a").get("interrupted", 0)) == (["SuccessCriteriaMet", "Complete"], 0)


async def test_a_job_of_no_completions_is_complete_at_once() -> None:
    async with adopting() as c:
        c.submit_job("a", completions=0)
        await c.until(lambda: c.job_condition("a", "Complete"))
        assert (status(c).get("succeeded"), c.pods("a")) == (None, [])


async def test_a_job_of_parallelism_0_starts_when_it_grows() -> None:
    async with adopting() as c:
        c.submit_job("a", completions=2, parallelism=0)
        await c.pass_time(20)
        assert c.pods("a") == []
        c.api.edit(JOBS, NS, "a", lambda job: job["spec"].update(parallelism=2))
        await c.until(lambda: len(at_work(c)) == 2)
        c.api.edit(JOBS, NS, "a", lambda job: job["spec"].update(parallelism=1))
        await c.until(lambda: len(at_work(c)) == 1)
        await c.until(lambda: len(c.pods("a")) == 1)
        assert c.ledger_of("a").get("interrupted", 0) == 0, "its user narrowed it"
        await finish_all(c)
        assert (status(c)["succeeded"], status(c).get("failed")) == (2, None)


# --- ends of its own ---


async def test_failures_of_all_pods_count_for_one_backoff_limit() -> None:
    async with adopting() as c:
        c.submit_job("a", completions=3, parallelism=3, completionMode="Indexed", backoffLimit=1)
        await c.until(lambda: len(at_work(c)) == 3)
        c.end(at_work(c)[0], 1)
        await c.until(lambda: status(c).get("failed") == 1)
        c.end(at_work(c)[0], 1)
        await c.until(lambda: c.job_condition("a", "FailureTarget"))
        await c.until(lambda: c.job_condition("a", "Failed"))
        assert held_true(c) == ["FailureTarget", "Failed"]
        made = [one.new for one in c.api.store.history if one.kind.plural == "pods" and one.old is None]
        assert status(c)["failed"] == len(made) > 2, "pods that were deleted count, as with the Job controller"
        assert (status(c)["active"], status(c)["terminating"]) == (0, 0)


async def test_a_retry_waits_10_seconds_and_twice_as_long_with_each_failure_since_the_last_success() -> None:
    async with running_job(backoffLimit=6) as c:
        for failures, pause in ((1, 10), (2, 20), (3, 40)):
            await c.pass_time(90, step=5)
            c.end(only_pod(c), 3)
            await c.until(lambda count=failures: status(c).get("failed") == count)  # type: ignore[misc]
            took = await c.until(lambda: at_work(c), limit=pause + 10)
            assert pause - 2 <= took <= pause + 5


def on_exit(action: str, *codes: int) -> dict[str, Any]:
    return {"rules": [{"action": action, "onExitCodes": {"operator": "In", "values": list(codes)}}]}


async def test_a_rule_of_the_failure_policy_fails_the_job_in_the_words_of_the_controller() -> None:
    async with running_job(backoffLimit=6, podFailurePolicy=on_exit("FailJob", 42)) as c:
        pod = only_pod(c)
        c.end(pod, 42)
        await c.until(lambda: c.job_condition("a", "Failed"))
        found = c.job_condition("a", "Failed")
        assert found["reason"] == "PodFailurePolicy"
        said = f"for pod {NS}/{pod['metadata']['name']} failed with exit code 42 matching FailJob rule at index 0"
        assert found["message"] == f"Container main {said}"
        assert status(c)["failed"] == 1


async def test_an_ignored_failure_counts_nowhere() -> None:
    async with running_job(backoffLimit=0, podFailurePolicy=on_exit("Ignore", 42)) as c:
        c.end(only_pod(c), 42)
        await c.until(lambda: c.ledger_of("a").get("ignored") == 1)
        await until(c, "Running", limit=120)
        assert (status(c).get("failed"), held_true(c)) == (None, [])


async def test_the_deadline_counts_the_time_in_which_a_pod_runs() -> None:
    async with running_job(activeDeadlineSeconds=60) as c:
        await c.pass_time(30)
        c.delete_pod(only_pod(c))
        await interruptions(c, 1)
        await until(c, "Running")
        await c.pass_time(20)
        assert held_true(c) == []
        await c.until(lambda: c.job_condition("a", "Failed"))
        found = c.job_condition("a", "Failed")
        assert (found["reason"], found["message"]) == (
            "DeadlineExceeded",
            "Job was active longer than specified deadline",
        )
        assert status(c)["failed"] == 1


@pytest.mark.parametrize(("code", "kind"), [(0, "Complete"), (2, "Failed")])
async def test_a_pod_of_two_containers_ends_with_both(code: int, kind: str) -> None:
    two = [{"name": name, "image": "none", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}} for name in "xy"]
    async with running_job(pod={"containers": two}, backoffLimit=0) as c:
        name, begun = only_pod(c)["metadata"]["name"], [running(started=c.stamp(), name=one) for one in "xy"]
        c.api.edit(PODS, NS, name, lambda pod: pod["status"].update(containerStatuses=begun))
        await c.pass_time(5)
        first = terminated(0, finished=c.stamp(), name="x")
        c.api.edit(PODS, NS, name, lambda pod: pod["status"].update(containerStatuses=[first, begun[1]]))
        await c.pass_time(60)
        assert (held_true(c), len(living(c))) == ([], 1)
        both = [first, terminated(code, finished=c.stamp(), name="y")]
        ended = {"containerStatuses": both, "phase": "Failed" if code else "Succeeded"}
        c.api.edit(PODS, NS, name, lambda pod: pod["status"].update(ended))
        await c.until(lambda: c.job_condition("a", kind))
        assert (status(c).get("succeeded"), status(c).get("failed")) == ((None, 1) if code else (1, None))


# --- retries of each index ---

NO_LIMIT: int = 2**31 - 1
INDEX_FAILURES = "batch.kubernetes.io/job-index-failure-count"


def indexed(completions: int, parallelism: int, limit: int = 0, **more: Any) -> dict[str, Any]:
    """A Job each index of which has as many retries as `limit`."""
    shape = {"completions": completions, "parallelism": parallelism, "completionMode": "Indexed"}
    return {**shape, "backoffLimitPerIndex": limit, "backoffLimit": NO_LIMIT, **more}


def of_index(c: Harness, index: int) -> Object:
    """The pod of an index that runs."""
    (pod,) = [one for one in at_work(c) if one["metadata"]["labels"][names.LABEL_TASK] == str(index)]
    return pod


async def runs_indexes(c: Harness, *wanted: int, limit: float = 60.0) -> None:
    """Until these run."""
    await c.until(
        lambda: {int(p["metadata"]["labels"][names.LABEL_TASK]) for p in at_work(c)} == {*wanted}, limit=limit
    )


async def test_a_failed_index_fails_the_job_when_the_others_have_completed() -> None:
    async with adopting() as c:
        c.submit_job("a", **indexed(3, 2))
        await runs_indexes(c, 0, 1)
        await c.until(lambda: status(c).get("failedIndexes") == "")
        c.end(of_index(c, 0), 3)
        await runs_indexes(c, 1, 2)
        assert (status(c)["failedIndexes"], status(c)["failed"], held_true(c)) == ("0", 1, [])
        await finish_all(c, kind="Failed")
        found = c.job_condition("a", "Failed")
        assert (found["reason"], found["message"]) == ("FailedIndexes", "Job has failed indexes")
        assert held_true(c) == ["FailureTarget", "Failed"]
        assert (status(c)["completedIndexes"], status(c)["failedIndexes"], status(c)["failed"]) == ("1,2", "0", 1)


async def test_an_index_has_its_own_retries_and_pause_and_interruptions_use_up_none() -> None:
    """It keeps its place while it rests, as under the Job controller, and the next leader knows what it has used up."""
    async with adopting() as c:
        c.submit_job("a", **indexed(3, 2, limit=1))
        await runs_indexes(c, 0, 1)
        c.end(of_index(c, 0), 3)
        await c.until(lambda: status(c).get("failed") == 1)
        await c.pass_time(5)
        await runs_indexes(c, 1)
        await runs_indexes(c, 0, 1)
        assert of_index(c, 0)["metadata"]["annotations"][INDEX_FAILURES] == "1"
        assert of_index(c, 1)["metadata"]["annotations"][INDEX_FAILURES] == "0"
        c.delete_pod(of_index(c, 0))
        await interruptions(c, 1)
        await c._admitters[0].kill()
        c.admitter(adopt=True)
        await runs_indexes(c, 0, 1)
        assert of_index(c, 0)["metadata"]["annotations"][INDEX_FAILURES] == "1"
        assert (status(c)["failedIndexes"], status(c)["failed"]) == ("", 1)
        c.api.edit(JOBS, NS, "a", forget_retries)  # as where the ledger has no space for them
        c.end(of_index(c, 0), 3)
        await runs_indexes(c, 1, 2)
        assert (status(c)["failedIndexes"], status(c)["failed"]) == ("0", 2)


async def test_a_pod_that_others_keep_blocks_its_index_alone() -> None:
    async with adopting() as c:
        c.submit_job("a", **indexed(2, 1, limit=1))
        await runs_indexes(c, 0)
        pod = of_index(c, 0)
        keep = lambda one: one["metadata"]["finalizers"].append("example.org/keep")  # noqa: E731
        c.api.edit(PODS, NS, pod["metadata"]["name"], keep)
        c.end(of_index(c, 0), 3)
        await runs_indexes(c, 1)
        assert status(c)["failedIndexes"] == ""


async def test_an_index_whose_retries_have_no_space_in_the_ledger_rests_until_they_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ledger, "MAX_SET", len("0:1,2:1"))
    async with adopting() as c:
        c.submit_job("a", **indexed(5, 5, limit=1))
        await runs_indexes(c, 0, 1, 2, 3, 4)
        for index in (0, 2, 4):
            c.end(of_index(c, index), 3)
        await runs_indexes(c, 0, 1, 2, 3)
        await c.pass_time(60, step=5)
        assert (c.ledger_of("a")["retries"], len(at_work(c))) == ("0:1,2:1", 4)
        c.end(of_index(c, 0))
        await runs_indexes(c, 1, 2, 3, 4)
        assert of_index(c, 4)["metadata"]["annotations"][INDEX_FAILURES] == "1"
        c.end(of_index(c, 4), 3)
        await c.until(lambda: status(c)["failedIndexes"] == "4")


async def test_an_index_that_rests_for_want_of_space_blocks_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "MAX_SET", len("0:1"))
    async with adopting() as c:
        c.submit_job("a", **indexed(2, 2, limit=1))
        await runs_indexes(c, 0, 1)
        for index in (0, 1):
            c.end(of_index(c, index), 3)
        await runs_indexes(c)
        await runs_indexes(c, 0)
        c.api.edit(JOBS, NS, "a", lambda job: job["spec"].update(parallelism=1))
        c.delete_pod(of_index(c, 0))
        await interruptions(c, 1)
        await runs_indexes(c, 0)
        assert of_index(c, 0)["metadata"]["annotations"][INDEX_FAILURES] == "1"
        c.end(of_index(c, 0), 3)
        await runs_indexes(c, 1)
        assert of_index(c, 1)["metadata"]["annotations"][INDEX_FAILURES] == "1"


def forget_retries(job: Object) -> None:
    """The ledger of a Job does not say any more what its indexes have used up."""
    ledger = next(one for one in job["status"]["conditions"] if one["type"] == names.CONDITION_LEDGER)
    said = json.loads(ledger["message"])
    assert said.pop("retries") == "0:1"
    ledger["message"] = json.dumps(said)


@pytest.mark.parametrize(
    ("more", "reason", "failed"),
    [
        ({"maxFailedIndexes": 0}, "MaxFailedIndexesExceeded", "0"),
        ({"maxFailedIndexes": 1}, None, "0"),
        ({"backoffLimit": 0}, "BackoffLimitExceeded", "0"),
        ({"backoffLimitPerIndex": 5, "podFailurePolicy": on_exit("FailIndex", 3)}, None, "0"),
        ({"backoffLimitPerIndex": 5, "podFailurePolicy": on_exit("FailJob", 3)}, "PodFailurePolicy", "0"),
        ({"podFailurePolicy": on_exit("Ignore", 3)}, None, ""),
    ],
)
async def test_what_follows_from_the_failure_of_an_index(more: Object, reason: str | None, failed: str) -> None:
    async with adopting() as c:
        c.submit_job("a", **indexed(4, 2, **more))
        await runs_indexes(c, 0, 1)
        c.end(of_index(c, 0), 3)
        await c.until(lambda: (status(c).get("failed") or c.ledger_of("a").get("ignored")) is not None)
        await c.pass_time(8)
        assert status(c)["failedIndexes"] == failed
        assert [c.job_condition("a", kind).get("reason") for kind in held_true(c)] == [reason] * 2 if reason else True
        assert len(living(c)) == (0 if reason else 2 if failed else 1)
        if reason:
            assert status(c)["failed"] == 2, "the pod that was deleted counts, as with the Job controller"


# --- successPolicy ---


@pytest.mark.parametrize(
    ("rules", "ends", "rule"),
    [
        ([{"succeededIndexes": "1-2"}], (1, 2), 0),
        ([{"succeededIndexes": "0-2", "succeededCount": 2}], (2, 0), 0),
        ([{"succeededIndexes": "3"}, {"succeededCount": 2}], (0, 1), 1),
        ([{"succeededCount": 4}], (0, 1, 2, 3), 0),
    ],
)
async def test_a_job_has_succeeded_when_a_rule_of_its_success_policy_is_met(
    rules: list[Object], ends: tuple[int, ...], rule: int
) -> None:
    async with adopting() as c:
        c.submit_job("a", completions=4, parallelism=4, completionMode="Indexed", successPolicy={"rules": rules})
        await runs_indexes(c, 0, 1, 2, 3)
        for index in ends[:-1]:
            c.end(of_index(c, index))
        await c.until(lambda: status(c).get("succeeded") == len(ends) - 1)
        assert held_true(c) == []
        c.stopping = 0  # what a program does that is told to stop counts no more
        c.end(of_index(c, ends[-1]))
        await c.until(lambda: c.job_condition("a", "Complete"))
        found = status(c)
        assert held_true(c) == ["SuccessCriteriaMet", "Complete"]
        for kind in held_true(c):
            said = c.job_condition("a", kind)
            assert (said["reason"], said["message"]) == ("SuccessPolicy", f"Matched rules at index {rule}")
        assert (found["succeeded"], found.get("failed"), found["active"], found["terminating"]) == (
            len(ends),
            None,
            0,
            0,
        )
        await c.until(lambda: c.held() == [])
        assert (living(c), c.ledger_of("a").get("interrupted", 0)) == ([], 0)


async def test_a_start_that_failed_does_not_fail_a_job_of_which_enough_completed() -> None:
    """To the Job controller, a pod that cannot start is one that has not ended."""
    async with adopting() as c:
        rules = {"rules": [{"succeededIndexes": "0"}]}
        c.submit_job("a", completions=2, parallelism=2, completionMode="Indexed", successPolicy=rules)
        await runs_indexes(c, 0, 1)
        c.run = lambda pod: None  # type: ignore[method-assign]
        c._status(of_index(c, 1), phase="Pending", containerStatuses=[waiting("InvalidImageName", "x")])
        c.end(of_index(c, 0))
        await c.until(lambda: c.job_condition("a", "Complete"))
        assert (held_true(c), status(c)["succeeded"]) == (["SuccessCriteriaMet", "Complete"], 1)


# --- restartPolicy OnFailure ---

ON_FAILURE: dict[str, Any] = {"restartPolicy": "OnFailure"}


def start_again(c: Harness, pod: Object, count: int, code: int = 3, *, waits: bool = False) -> None:
    """What a kubelet reports of a program that has failed so often in the same pod. waits: it does not run just now."""
    now = c.stamp()
    before = terminated(code, reason="" if code else "ContainerStatusUnknown", finished=now)
    state = {"waiting": {"reason": "CrashLoopBackOff"}} if waits else running(started=now)["state"]
    again = {**running(started=now), "state": state, "restartCount": count, "lastState": before["state"]}
    c.api.edit(PODS, NS, pod["metadata"]["name"], lambda obj: obj["status"].update(containerStatuses=[again]))


async def test_a_program_is_started_again_in_its_pod_and_nothing_is_counted() -> None:
    async with running_job(backoffLimit=3, pod=ON_FAILURE) as c:
        first = only_pod(c)
        assert first["spec"]["restartPolicy"] == "OnFailure"
        for count in (1, 2):
            start_again(c, first, count, waits=True)
            await c.pass_time(60, step=5)
            start_again(c, first, count)
            await c.pass_time(60, step=5)
        assert only_pod(c)["metadata"]["uid"] == first["metadata"]["uid"]
        found = status(c)
        assert (found["active"], found.get("failed"), held_true(c), state(c)) == (1, None, [], "Running")
        c.end(only_pod(c))
        await c.until(lambda: c.job_condition("a", "Complete"))


@pytest.mark.parametrize(("limit", "allowed"), [(0, 0), (1, 0), (2, 1)])
async def test_a_job_fails_when_its_programs_were_started_again_too_often(limit: int, allowed: int) -> None:
    async with running_job(backoffLimit=limit, pod=ON_FAILURE) as c:
        for count in range(1, allowed + 1):
            start_again(c, only_pod(c), count)
            await c.pass_time(30)
            assert held_true(c) == []
        start_again(c, only_pod(c), allowed + 1)
        await c.until(lambda: c.job_condition("a", "Failed"))
        assert c.job_condition("a", "Failed")["reason"] == "BackoffLimitExceeded"
        assert held_true(c) == ["FailureTarget", "Failed"]
        await c.until(lambda: not c.held())


async def test_a_machine_that_loses_a_program_is_no_failure_of_it() -> None:
    async with running_job(backoffLimit=0, pod=ON_FAILURE) as c:
        start_again(c, only_pod(c), 1, 0)
        await c.pass_time(60)
        assert (held_true(c), len(living(c)), state(c)) == ([], 1, "Running")


async def test_an_interrupted_pod_takes_its_restarts_along() -> None:
    async with running_job(backoffLimit=2, pod=ON_FAILURE) as c:
        start_again(c, only_pod(c), 1)
        await c.pass_time(10)
        c.delete_pod(only_pod(c))
        await interruptions(c, 1)
        await until(c, "Running")
        start_again(c, only_pod(c), 1)
        await c.pass_time(30)
        assert (held_true(c), state(c)) == ([], "Running")


# --- suspend ---


async def test_a_suspended_job_stops_and_says_so_before_and_a_resumed_one_starts_again() -> None:
    async with running_job(backoffLimit=0) as c:
        began = status(c)["startTime"]
        c.api.edit(JOBS, NS, "a", lambda job: job["spec"].update(suspend=True))
        await c.until(lambda: c.job_condition("a", "Suspended"))
        found = status(c)
        assert (found["active"], found.get("startTime")) == (0, None)
        assert c.job_condition("a", "Suspended")["reason"] == "JobSuspended"
        await c.until(lambda: not c.pods("a"))
        await c.until(lambda: status(c)["terminating"] == 0)
        assert (status(c).get("failed"), c.ledger_of("a").get("interrupted", 0)) == (None, 0)
        await c.pass_time(5)
        c.api.edit(JOBS, NS, "a", lambda job: job["spec"].update(suspend=False))
        await until(c, "Running")
        found = c.job_condition("a", "Suspended")
        assert (found["status"], found["reason"]) == ("False", "JobResumed")
        assert status(c)["startTime"] > began
        await finish_all(c)


def suspend(c: Harness, name: str = "a", *, wanted: bool = True) -> None:
    c.api.edit(JOBS, NS, name, lambda job: job["spec"].update(suspend=wanted))


@pytest.mark.parametrize(
    ("spec", "code", "wait", "kind", "reason"),
    [
        ({"podFailurePolicy": on_exit("FailJob", 3)}, 3, 0.0, "Failed", "PodFailurePolicy"),
        ({"podFailurePolicy": on_exit("FailJob", 3)}, 3, 0.5, "Failed", "PodFailurePolicy"),
        ({"backoffLimit": 0}, 3, 0.0, "Failed", "BackoffLimitExceeded"),
        ({"backoffLimit": 1}, 3, 0.0, "Suspended", "JobSuspended"),
        ({}, 0, 0.0, "Complete", "CompletionsReached"),
    ],
)
async def test_a_job_that_has_ended_ends_though_it_is_suspended_at_that_moment(
    spec: Object, code: int, wait: float, kind: str, reason: str
) -> None:
    async with running_job(**spec) as c:
        c.end(only_pod(c), code)
        await c.pass_time(wait, step=0.1)
        suspend(c)
        await c.until(lambda: c.job_condition("a", kind))
        await c.pass_time(30)
        assert c.job_condition("a", kind)["reason"] == reason
        assert (status(c).get("failed", 0), status(c).get("succeeded", 0)) == ((1, 0) if code else (0, 1))
        assert c.held() == []


@pytest.mark.parametrize("code", [0, 143])
async def test_what_a_pod_ends_with_that_its_user_suspends_ends_no_job(code: int) -> None:
    """The Job controller may fail it by such a rule, if it sees the exit before the pod is gone."""
    async with running_job(backoffLimit=0, podFailurePolicy=on_exit("FailJob", 143)) as c:
        c.stopping = code
        suspend(c)
        await c.until(lambda: not c.pods("a"))
        await c.pass_time(30)
        assert (held_true(c), status(c).get("failed"), status(c).get("succeeded")) == (["Suspended"], None, None)


async def test_the_deadline_of_a_suspended_job_does_not_pass() -> None:
    async with running_job(activeDeadlineSeconds=60) as c:
        await c.pass_time(50, step=5)
        await c._admitters[0].kill()
        await c.pass_time(30, step=5)
        suspend(c)
        c.admitter(adopt=True)
        await until(c, "Suspended")
        await c.pass_time(30)
        assert held_true(c) == ["Suspended"]


async def test_a_job_that_is_created_suspended_waits() -> None:
    async with adopting() as c:
        c.submit_job("a", suspend=True)
        await c.until(lambda: c.job_condition("a", "Suspended"))
        await c.pass_time(20)
        assert (c.pods("a"), status(c).get("startTime")) == ([], None)
        c.api.edit(JOBS, NS, "a", lambda job: job["spec"].update(suspend=False))
        await until(c, "Running")


# --- deletion ---


async def test_pods_of_a_job_that_was_deleted_by_orphaning_run_on_without_our_marks() -> None:
    """What Python clients send. Its pods lose the finalizer and our labels, so that nobody of us looks at them."""
    async with running_job() as c:
        pod = only_pod(c)["metadata"]["name"]

        c.api.edit(JOBS, NS, "a", lambda job: job["metadata"].update(finalizers=["orphan"]))
        c.api.delete(JOBS, NS, "a")
        await c.pass_time(2)
        assert "deletionTimestamp" not in only_pod(c)["metadata"]
        c.api.edit(PODS, NS, pod, lambda obj: obj["metadata"].update(ownerReferences=[]))  # by the garbage collector
        c.api.remove(JOBS, NS, "a")
        await c.until(lambda: not c.pods("a"), limit=90)
        found = c.api.get(PODS, NS, pod)
        assert found is not None
        assert (found["status"]["phase"], found["metadata"].get("finalizers", [])) == ("Running", [])
        assert "deletionTimestamp" not in found["metadata"]
        assert not [label for label in found["metadata"]["labels"] if label.startswith(names.GROUP)]


async def test_a_job_that_is_suspended_as_soon_as_it_runs_lets_its_pod_go() -> None:
    """Nothing is lost and nothing else is new: that its pod is counted is news enough."""
    async with running_job() as c:
        c.kubelet, c.renews = False, True
        name = only_pod(c)["metadata"]["name"]
        c.api.edit(JOBS, NS, "a", lambda job: job["spec"].update(suspend=True))
        await c.until(lambda: "deletionTimestamp" in only_pod(c)["metadata"])
        at_once = terminated(137, finished=c.stamp())
        at_once["state"]["terminated"]["startedAt"] = c.stamp()
        ended = {"phase": "Failed", "containerStatuses": [at_once]}
        c.api.edit(PODS, NS, name, lambda pod: pod["status"].update(ended))
        await c.until(lambda: c.held() == [])


async def test_a_job_that_goes_on_has_started_when_it_did_so_and_not_with_a_pod_that_is_kept() -> None:
    async with running_job(completions=2, parallelism=1) as c:
        c.end(only_pod(c))
        await c.until(lambda: status(c).get("succeeded") == 1)
        await until(c, "Running")
        c.api.edit(JOBS, NS, "a", lambda job: job["spec"].update(suspend=True))
        await until(c, "Suspended")
        assert status(c).get("startTime") is None
        await c.pass_time(60)
        resumed = c.stamp()
        c.api.edit(JOBS, NS, "a", lambda job: job["spec"].update(suspend=False))
        await until(c, "Running")
        assert status(c)["startTime"] >= resumed


async def test_a_work_queue_that_wants_no_workers_waits_for_some() -> None:
    async with adopting() as c:
        c.submit_job("a", completions=None, parallelism=0)
        await c.pass_time(30)
        assert (held_true(c), c.pods("a")) == ([], [])
        c.api.edit(JOBS, NS, "a", lambda job: job["spec"].update(parallelism=2))
        await until(c, "Running")
        await c.until(lambda: status(c)["active"] == 2)
        for pod in c.pods("a"):
            c.end(pod)
        await c.until(lambda: c.job_condition("a", "Complete"))
        assert status(c)["succeeded"] == 2


@pytest.mark.parametrize("suspend", [False, True])
async def test_a_job_of_no_completions_is_complete_and_has_started_unless_it_is_suspended(*, suspend: bool) -> None:
    async with adopting() as c:
        c.submit_job("a", completions=0, suspend=suspend)
        await c.until(lambda: c.job_condition("a", "Complete"))
        assert ("startTime" in status(c)) is not suspend


# --- release ---


def ask_release(c: Harness, name: str = "a") -> None:
    c.api.edit(
        JOBS,
        NS,
        name,
        lambda job: (
            job["metadata"].setdefault("annotations", {}).update({names.ANNOTATION_RELEASE: names.RELEASE_REQUESTED})
        ),
    )


async def test_a_released_job_runs_to_its_end() -> None:
    async with running_job() as c:
        ask_release(c)
        await c.until(lambda: c.ledger_of("a").get("asked"))
        await c.pass_time(30)
        c.end(only_pod(c))
        await c.until(lambda: c.job_condition("a", "Complete"))


async def test_a_released_job_is_interrupted_at_its_next_checkpoint_and_starts_no_more() -> None:
    async with running_job(backoffLimit=0) as c:
        await c.pass_time(10)
        first = only_pod(c)["metadata"]["name"]
        report(c, first)
        await c.pass_time(10)
        ask_release(c)
        await c.pass_time(20)
        assert "deletionTimestamp" not in only_pod(c)["metadata"], "that checkpoint was before"
        report(c, first)
        await until(c, names.LEDGER_RELEASING)
        found = status(c)
        assert (found["active"], found["terminating"], found.get("failed"), held_true(c)) == (0, 0, None, [])
        assert c.held() == []
        await c.pass_time(120, step=5)
        assert (state(c), c.pods("a")) == (names.LEDGER_RELEASING, [])


async def test_a_released_job_that_waits_says_so_at_once() -> None:
    async with empty_harness() as c:
        c.node(cpu="1")
        c.admitter(adopt=True)
        c.submit_job("a", cpu="8")
        await until(c, "Waiting")
        ask_release(c)
        await until(c, names.LEDGER_RELEASING)
        before = len(c.writes())
        c.node("n2", cpu="100")
        await c.pass_time(120, step=5)
        assert (written(c, before), c.pods("a")) == ([], [])


async def test_a_released_job_that_its_user_has_suspended_stays_suspended() -> None:
    async with adopting() as c:
        c.submit_job("a", suspend=True)
        await c.until(lambda: c.job_condition("a", "Suspended"))
        ask_release(c)
        await until(c, names.LEDGER_RELEASING)
        before = len(c.writes())
        await c.pass_time(60, step=5)
        assert (written(c, before), held_true(c)) == ([], ["Suspended"])


async def test_a_released_job_counts_the_tasks_that_end_meanwhile() -> None:
    async with running_job(completions=4, parallelism=2, completionMode="Indexed", backoffLimit=0) as c:
        await c.until(lambda: len(living(c)) == 2)
        one, other = living(c)
        ask_release(c)
        await c.until(lambda: c.ledger_of("a").get("asked"))
        c.end(one)
        await c.until(lambda: status(c).get("succeeded") == 1)
        await c.pass_time(20)
        assert len(living(c)) == 1, "nothing else starts"
        report(c, other["metadata"]["name"])
        await until(c, names.LEDGER_RELEASING)
        assert (status(c)["completedIndexes"], status(c).get("failed")) == ("0", None)


async def test_an_admitter_that_comes_late_says_so() -> None:
    async with empty_harness() as c:
        c.node()
        c.submit_job("a")
        await c.pass_time(300, step=30)
        c.admitter(adopt=True)
        await until(c, "Running")
        assert 300 <= c.ledger_of("a")["late"] <= 310
        c.delete_pod(only_pod(c))
        await interruptions(c, 1)
        assert 300 <= c.ledger_of("a")["late"] <= 310


async def test_a_run_keeps_the_promises_that_it_started_with() -> None:
    """Where admission policies let somebody change them, the change counts from the next start."""
    code, after = names.ANNOTATION_CHECKPOINT_EXIT_CODE, names.ANNOTATION_INTERRUPTION_AFTER
    async with adopting() as c:
        c.submit_job("a", annotations={code: "85", after: "10m"})
        await until(c, "Running")
        c.api.edit(JOBS, NS, "a", lambda job: job["metadata"]["annotations"].update({code: "86", after: "7d"}))
        await c.pass_time(1500, step=50)
        c.delete_pod(only_pod(c))
        await interruptions(c, 1)
        assert 1190 <= c.ledger_of("a")["useful"] <= 1210, "as of 10 min, not of 7 d"
        await until(c, "Running")
        c.end(only_pod(c), 85)
        await c.until(lambda: status(c).get("failed") == 1)
    async with running_job() as c:
        c.api.edit(JOBS, NS, "a", lambda job: job["metadata"].update(annotations={code: "85"}))
        await c.pass_time(100)
        c.end(only_pod(c), 85)
        await c.until(lambda: status(c).get("failed") == 1)


def report(c: Harness, pod: str) -> None:
    """A program reports a checkpoint."""
    c.api.edit(
        PODS,
        NS,
        pod,
        lambda obj: obj["metadata"].setdefault("annotations", {}).update({names.ANNOTATION_LAST_CHECKPOINT: c.stamp()}),
    )
