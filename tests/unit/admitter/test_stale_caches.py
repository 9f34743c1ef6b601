"""Watches that fall behind: nothing that cannot be undone follows from what they do not show yet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from scavenger_admitter import metrics
from scavenger_admitter.core.lifecycle.accounting import run_id
from scavenger_admitter.freshness import caught_up
from scavenger_admitter.writer import SCAVENGERJOBS
from scavenger_api import names
from scavenger_kube.resources import JOBS, NODES, PODS
from scavenger_runtime.informer import Informer
from scavenger_testing import FakeApi, VirtualClock, pod_dict, settle

from .harness import NS, Harness, Object, empty_harness, harness, running_job, runs

pytestmark = pytest.mark.slow


def touch(job: Object) -> None:
    job["metadata"].setdefault("labels", {})["touched"] = "yes"


def completes(c: Harness, name: str) -> None:
    """What the Job controller writes when all pods have succeeded."""
    condition = {"type": "Complete", "status": "True", "lastTransitionTime": c.stamp()}
    c.api.edit(JOBS, NS, name, lambda job: job.setdefault("status", {}).update(conditions=[condition]))


def replace(c: Harness, name: str, **spec: Any) -> None:
    """What `kubectl replace --force` does; the pods take their grace period."""
    c.api.remove(SCAVENGERJOBS, NS, name)
    c.api.remove(JOBS, NS, name)
    for pod in c.pods(name):
        c.delete_pod(pod)
    c.submit(name, **spec)


# --- one life at a time -----------------------------------------------------------------------------------------------


async def placed_unseen(c: Harness) -> None:
    """Start a job whose pods the watch does not bring."""
    c.api.hold_watches(PODS)
    c.submit("a")
    await c.until(lambda: any(pod["spec"].get("nodeName") for pod in c.pods("a")))


async def runs_alone_once_seen(c: Harness) -> None:
    c.kubelet = True
    c.api.release_watches(PODS)
    await runs(c, "a", limit=180)
    assert c.most_at_once("a") == 1


async def test_a_replaced_job_waits_for_pods_that_the_watch_has_not_brought() -> None:
    async with harness() as c:
        await placed_unseen(c)
        c.kubelet = False
        replace(c, "a")
        await c.pass_time(30)
        assert c.jobs_ever("a") == 1
        await runs_alone_once_seen(c)


async def test_a_deleted_job_starts_again_only_when_unseen_pods_have_ended() -> None:
    async with harness() as c:
        await placed_unseen(c)
        await c.pass_time(3)
        c.kubelet = False
        c.api.remove(JOBS, NS, "a")
        for pod in c.pods("a"):
            c.delete_pod(pod)
        for _ in range(15):
            await c.pass_time(3)
            c.api.edit(SCAVENGERJOBS, NS, "a", touch)
        assert c.jobs_ever("a") == 1
        await runs_alone_once_seen(c)


async def test_only_a_restart_is_preceded_by_a_list_of_pods() -> None:
    async with running_job("a") as c:
        assert lists(c) == 0
        c.delete_pod(c.pods("a")[0])
        await c.until(lambda: c.status("a")["interruptedCount"] == 1)
        await runs(c, "a")
        assert lists(c) == 1


async def test_pods_that_a_managed_job_lacks_are_preceded_by_a_list_of_pods() -> None:
    async with harness() as c:
        c.api.fail(500, methods={"POST"}, path="/pods")
        c.submit("a")
        await runs(c, "a")
        assert lists(c) == 1


def lists(c: Harness) -> int:
    return c.api.count("GET", f"/namespaces/{NS}/pods")


async def test_a_successor_waits_for_a_watch_that_brings_nothing_and_lists_instead() -> None:
    clock = VirtualClock()
    async with FakeApi(clock, listens=False) as api:
        client = api.client()
        pods = Informer(client, PODS, clock=clock)
        following = asyncio.create_task(pods.run())
        await pods.wait_synced()
        await settle()
        api.hold_watches(PODS)
        api.put(PODS, pod_dict("p"))
        waiting = asyncio.create_task(caught_up(client, pods, clock))
        for _ in range(100):
            await clock.advance(0.5)
            await settle()
        assert waiting.done()
        assert pods.get("default/p") is not None
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def test_a_later_run_than_the_known_one_is_left_alone() -> None:
    async with harness() as c:
        c.submit("a", cpu="1000")
        await c.until(lambda: c.phase("a") == "Waiting")
        c.api.hold_watches(SCAVENGERJOBS)
        job = c.api.get(SCAVENGERJOBS, NS, "a") or {}
        place = run_id(c.clock.now() + timedelta(seconds=5))
        c.api.edit(SCAVENGERJOBS, NS, "a", lambda obj: obj["status"].update(queuedTimestamp=place))
        c.api.put(JOBS, later_run(job, place))
        await c.pass_time(20)
        assert c.api.get(JOBS, NS, "a") is not None
        c.api.release_watches(SCAVENGERJOBS)
        await runs(c, "a")
        assert c.status("a")["queuedTimestamp"] == place
        assert c.jobs_ever("a") == 1


async def test_a_job_of_a_later_run_goes_when_the_status_was_restored_from_a_backup() -> None:
    async with harness() as c:
        c.submit("a", cpu="1000")
        await c.until(lambda: c.phase("a") == "Waiting")
        job = c.api.get(SCAVENGERJOBS, NS, "a") or {}
        c.api.put(JOBS, later_run(job, run_id(c.clock.now() + timedelta(seconds=5))))
        await c.until(lambda: c.api.get(JOBS, NS, "a") is None)


def later_run(job: Object, place: str) -> Object:
    owner = {
        "apiVersion": job["apiVersion"],
        "kind": job["kind"],
        "name": "a",
        "uid": job["metadata"]["uid"],
        "controller": True,
    }
    annotations = {names.ANNOTATION_RUN: place, names.ANNOTATION_RESTARTS: "1"}
    template: dict[str, Any] = {
        "metadata": {
            "labels": {names.LABEL_JOB: "a"},
            "annotations": annotations,
            "finalizers": [names.FINALIZER],
        },
        "spec": {"containers": [{"name": names.MAIN_CONTAINER, "image": "x"}], "restartPolicy": "Never"},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "a", "namespace": NS, "annotations": annotations, "ownerReferences": [owner]},
        "spec": {"managedBy": names.MANAGED_BY, "template": template},
    }


# --- the verdict ------------------------------------------------------------------------------------------------------


async def test_a_job_whose_pod_was_deleted_is_not_completed_by_the_word_of_its_job() -> None:
    async with running_job("a") as c:
        await c.pass_time(60)
        c.api.hold_watches(PODS)
        c.stopping = 0
        c.delete_pod(c.pods("a")[0])
        c.tick()
        completes(c, "a")
        await c.pass_time(10)
        assert c.status("a")["interruptedCount"] == 1
        c.api.release_watches(PODS)
        await runs(c, "a")
        assert c.status("a")["interruptedCount"] == 1


async def test_a_job_is_completed_by_the_word_of_its_job_when_its_pods_are_gone() -> None:
    async with running_job("a") as c:
        c.api.hold_watches(PODS)
        completes(c, "a")
        c.succeed("a")
        for pod in c.pods("a"):
            c.api.remove(PODS, NS, pod["metadata"]["name"])
        await c.until(lambda: c.phase("a") == "Completed")
        assert c.status("a")["interruptedCount"] == 0


async def test_a_finished_job_is_not_opened_again_by_pods_that_have_ended() -> None:
    async with running_job("a") as c:
        await c.pass_time(60)
        c.api.hold_watches(PODS, JOBS)
        c.succeed("a")
        completes(c, "a")

        def complete(job: Object) -> None:
            job["status"] |= {"phase": "Completed", "finishedTimestamp": c.stamp(), "endedTimestamp": c.stamp()}

        c.api.edit(SCAVENGERJOBS, NS, "a", complete)
        await c.pass_time(10)
        assert c.phase("a") == "Completed"
        assert c.events("Reopened") == []
        c.api.release_watches(PODS, JOBS)
        await c.until(lambda: not c.held())
        assert c.phase("a") == "Completed"


async def test_a_run_that_was_interrupted_before_its_job_was_suspended_is_on_record() -> None:
    async with running_job("a") as c:
        await c.pass_time(60)
        c.api.hold_watches(PODS)
        c.delete_pod(c.pods("a")[0])
        c.tick()
        c.api.edit(SCAVENGERJOBS, NS, "a", lambda job: job["spec"].update(suspend=True))
        await c.pass_time(10)
        c.api.release_watches(PODS)
        await c.until(lambda: c.phase("a") == "Suspended" and not c.held())
        assert c.status("a")["interruptedCount"] == 1
        assert len(c.status("a")["interruptedTimestamps"]) == 1


def delete_job(c: Harness) -> None:
    """What `kubectl delete job a --cascade=foreground` does."""
    going = {"deletionTimestamp": c.stamp(), "finalizers": ["foregroundDeletion"]}
    c.api.edit(JOBS, NS, "a", lambda job: job["metadata"].update(going))


def empty_node(c: Harness) -> None:
    """What an autoscaler does before it ends a machine."""
    taint = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
    c.api.edit(NODES, None, "n1", lambda node: node["spec"].update(taints=[taint]))


@pytest.mark.parametrize("end", [delete_job, empty_node])
async def test_finished_work_is_not_interrupted_though_the_watch_does_not_show_that_it_is(
    end: Callable[[Harness], None],
) -> None:
    async with running_job("a") as c:
        await c.pass_time(60)
        c.api.hold_watches(PODS)
        c.succeed("a")
        end(c)
        await c.until(lambda: c.phase("a") != "Running")
        assert (c.phase("a"), c.status("a")["interruptedCount"]) == ("Completed", 0)


async def test_time_after_the_end_of_a_pod_is_not_lost_though_the_watch_does_not_show_that_end() -> None:
    async with running_job("a") as c:
        await c.pass_time(60)
        c.api.hold_watches(PODS)
        c.delete_pod(c.pods("a")[0])
        await c.pass_time(300)
        delete_job(c)
        await c.until(lambda: c.phase("a") != "Running")
        assert c.status("a")["lostCPUSeconds"] < 100
        assert reason(c) == "Deleted"


def reason(c: Harness) -> str:
    """Why the last run was interrupted."""
    (found,) = (one for one in c.status("a")["conditions"] if one["type"] == "Interrupted")
    return str(found["reason"])


# --- state of another run ---------------------------------------------------------------------------------------------


async def test_a_refused_start_is_tried_again_though_nobody_heard_that_its_status_was_written() -> None:
    async with harness() as c:
        c.api.fail(403, methods={"POST"}, path="/jobs", reason="Forbidden")
        c.api.drop(methods={"PATCH"}, path="/scavengerjobs", after_write=True)
        c.submit("a")
        await c.until(lambda: "the start failed" in str(c.status("a").get("message")))
        assert c.jobs_ever("a") == 0
        await runs(c, "a", limit=180)


async def test_a_failed_start_counts_though_nobody_heard_that_its_status_was_written() -> None:
    async with empty_harness() as c:
        c.node()
        c.admitter(start_backoff=40.0)
        c.api.fail(403, methods={"POST"}, path="/jobs", reason="Forbidden")
        c.api.drop(methods={"PATCH"}, path="/scavengerjobs", after_write=True)
        c.submit("a")
        await c.until(lambda: "the start failed" in str(c.status("a").get("message")))
        assert 30 <= await runs(c, "a", limit=180) <= 60


@pytest.mark.parametrize("lagging", [False, True])
async def test_an_interruption_is_told_and_counted_once_though_nobody_heard_that_it_was_written(lagging: bool) -> None:
    async with harness() as c:
        c.submit("a")
        await runs(c, "a")
        counted = interruptions()
        c.api.drop(methods={"PATCH"}, path="/scavengerjobs", after_write=True)
        if lagging:
            c.api.hold_watches(SCAVENGERJOBS)
        c.delete_pod(c.pods("a")[0])
        await c.pass_time(5)
        c.api.release_watches(SCAVENGERJOBS)
        await c.until(lambda: c.status("a")["interruptedCount"] == 1)
        await runs(c, "a")
        await c.pass_time(10)
        assert [event.get("count") for event in c.events("Interrupted")] == [1]
        assert interruptions() - counted == 1


async def test_a_write_that_did_not_take_effect_is_told_once() -> None:
    async with harness() as c:
        c.submit("a")
        await runs(c, "a")
        counted = interruptions()
        c.api.drop(methods={"PATCH"}, path="/scavengerjobs")
        c.delete_pod(c.pods("a")[0])
        await c.until(lambda: c.status("a")["interruptedCount"] == 1)
        await runs(c, "a")
        await c.pass_time(10)
        assert [event.get("count") for event in c.events("Interrupted")] == [1]
        assert interruptions() - counted == 1


def interruptions() -> float:
    """All that have been counted on /metrics."""
    samples = (sample for metric in metrics.INTERRUPTIONS.collect() for sample in metric.samples)
    return sum(sample.value for sample in samples if sample.name.endswith("_total"))


async def test_a_task_counts_once_though_its_pod_is_shown_for_longer_than_it_is_there() -> None:
    """Without a node the admitter asks the API server. It does not go back to its cache once the node is shown."""
    async with empty_harness() as c:
        c.node()
        c.admitter()
        c.submit("a", array={"tasks": 2})
        await c.until(lambda: c.phase("a") == "Running")
        c.kubelet = False
        c.api.fail(500, times=10**6, methods={"PATCH"}, path=f"/namespaces/{NS}/pods")
        for pod in c.pods("a"):
            c.delete_pod(pod)
        c.end(c.pods("a")[0], 143)
        await c.until(lambda: c.status("a")["interruptedCount"] == 1)
        c.api.hold_watches(PODS)
        c.api.heal()
        await c.until(lambda: len(c.pods("a")) == 1)
        node = c.api.get(NODES, None, "n1")
        assert node is not None
        c.api.remove(NODES, None, "n1")
        await c.until(lambda: not c.pods("a"))
        await c.until(lambda: not c.status("a")["array"]["counted"])
        c.api.put(NODES, node)
        c.api.edit(SCAVENGERJOBS, NS, "a", touch)
        await c.pass_time(10)
        assert c.status("a")["interruptedCount"] == 2


async def test_a_successor_waits_until_pods_that_are_gone_are_not_shown() -> None:
    clock = VirtualClock()
    async with FakeApi(clock, listens=False) as api:
        client = api.client()
        pods = Informer(client, PODS, clock=clock)
        api.put(PODS, pod_dict("gone", labels={names.LABEL_JOB: "a"}))
        api.put(PODS, pod_dict("again", labels={names.LABEL_JOB: "a"}))
        api.put(PODS, pod_dict("other"))
        following = asyncio.create_task(pods.run())
        await pods.wait_synced()
        await settle()
        api.hold_watches(PODS)
        for name in ("gone", "again", "other"):
            api.remove(PODS, "default", name)
        api.put(PODS, pod_dict("again", uid="later", labels={names.LABEL_JOB: "a"}))
        waiting = asyncio.create_task(caught_up(client, pods, clock, names.LABEL_JOB))
        await clock.advance(5)
        await settle()
        assert not waiting.done()
        api.release_watches(PODS)
        for _ in range(10):
            await clock.advance(0.5)
            await settle()
        assert waiting.done()
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


# --- arrays -----------------------------------------------------------------------------------------------------------


async def test_no_more_tasks_run_than_may_beside_those_of_an_orphaned_job_that_the_watch_does_not_show() -> None:
    async with empty_harness() as c:
        c.node()
        c.api.hold_watches(PODS)
        c.submit("a", array={"tasks": 6, "maxRunning": 2})
        c.admitter()
        await c.until(lambda: len(c.pods("a")) == 2)
        await c.pass_time(15)
        for pod in c.pods("a"):
            c.api.edit(PODS, NS, pod["metadata"]["name"], lambda one: one["metadata"].pop("ownerReferences"))
        c.api.remove(JOBS, NS, "a")
        await c.pass_time(30)
        assert c.most_at_once("a") == 2
        c.api.release_watches(PODS)
        await c.pass_time(180)
        assert c.most_at_once("a") == 2


async def test_a_task_waits_for_that_of_an_array_that_was_replaced_and_whose_pods_the_watch_does_not_show() -> None:
    async with empty_harness() as c:
        c.node()
        c.api.hold_watches(PODS)
        c.submit("a", array={"tasks": 2, "maxRunning": 1})
        c.admitter()
        await c.until(lambda: any(pod["spec"].get("nodeName") for pod in c.pods("a")))
        (first,) = c.pods("a")
        c.kubelet = False  # it takes its time to end the pod
        replace(c, "a", array={"tasks": 2, "maxRunning": 1})
        await c.until(lambda: len(c.pods("a")) == 2)
        c.api.edit(SCAVENGERJOBS, NS, "a", lambda job: job["spec"]["array"].pop("maxRunning"))
        await c.pass_time(30)
        index = first["metadata"]["labels"][names.LABEL_TASK]
        lives = [pod["metadata"]["uid"] for pod in c.pods("a") if pod["metadata"]["labels"][names.LABEL_TASK] == index]
        assert lives == [first["metadata"]["uid"]]
        c.api.remove(PODS, NS, first["metadata"]["name"])
        c.api.release_watches(PODS)
        await c.until(lambda: {pod["metadata"]["labels"][names.LABEL_TASK] for pod in c.pods("a")} == {"0", "1"})
