"""What the admitter shows on /metrics: labels that no user can multiply, and counters that begin at 0."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from scavenger_admitter.facts import waited_seconds
from scavenger_admitter.metrics import JOBS, QUEUE_ALLOCATED, QUEUE_DESERVED, TASKS, UNKNOWN_QUEUE, queue_label
from scavenger_admitter.writer import SCAVENGERJOBS
from scavenger_api import names
from scavenger_kube.kinds import Pod
from scavenger_kube.resources import PODS
from scavenger_runtime.kept_pods import without_details
from scavenger_runtime.metrics import REGISTRY
from scavenger_testing.builders import pod_dict

from .harness import NS, empty_harness, runs
from .test_adopted_jobs import adopting, at_work, finish_all, until
from .test_queue_controller import queue

NOW = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
CREATED = "2026-01-01T00:00:18Z"


def value(name: str, **labels: str) -> float | None:
    return REGISTRY.get_sample_value(f"scavenger_{name}", labels)


def queues(name: str) -> set[str]:
    """The values of the label `queue` that a metric has."""
    samples = (sample for metric in REGISTRY.collect() for sample in metric.samples)
    return {sample.labels["queue"] for sample in samples if sample.name == f"scavenger_{name}"}


def test_a_queue_that_is_not_there_is_no_label_of_its_own() -> None:
    assert queue_label("lab", {"lab"}) == "lab"
    assert queue_label("default", ()) == "default"
    assert queue_label("made-up", {"lab"}) == UNKNOWN_QUEUE


async def test_jobs_are_counted_by_phase_and_by_queues_that_exist() -> None:
    async with empty_harness() as c:
        c.node(cpu="4.1")
        queue(c, "lab")
        c.admitter(fallback_admission_percent=100)
        for number in range(5):
            c.submit(f"job{number}", queue="lab", cpu="1")
        for number in range(3):
            c.submit(f"lost{number}", queue=f"made-up-{number}", cpu="1")
        await c.until(lambda: value("jobs", phase="Running", queue="lab") == 4)
        await c.until(lambda: value("jobs", phase="Waiting", queue=UNKNOWN_QUEUE) == 3)
        assert value("jobs", phase="Waiting", queue="lab") == 1
        for metric in ("jobs", "queue_depth", "starts_total", "interruptions_total", "queue_allocated"):
            assert not [name for name in queues(metric) if name.startswith("made-up")], metric
        assert value("queue_allocated", queue="lab", resource="cpu", unit="core") == 4


async def test_gauges_of_queues_are_touched_when_something_has_changed() -> None:
    async with empty_harness() as c:
        c.node(cpu="4.1")
        queue(c, "lab")
        c.admitter(fallback_admission_percent=100)
        c.submit("job", queue="lab", cpu="1")
        c.submit("array", queue="lab", cpu="1", array={"tasks": 1})
        await c.until(lambda: value("tasks", state="running", queue="lab") == 1)
        await c.until(lambda: value("jobs", phase="Running", queue="lab") == 2)
        await c.until(lambda: value("queue_allocated", queue="lab", resource="cpu", unit="core") == 2)
        for gauge in (QUEUE_ALLOCATED, QUEUE_DESERVED, JOBS, TASKS):
            gauge.clear()
        await c.pass_time(5)
        assert not any(queues(name) for name in ("jobs", "tasks", "queue_allocated", "queue_deserved"))

        c.submit("another", queue="lab", cpu="1")
        await c.until(lambda: value("jobs", phase="Running", queue="lab") == 3)
        await c.until(lambda: value("queue_allocated", queue="lab", resource="cpu", unit="core") == 3)
        assert not queues("tasks"), "of these nothing has changed"
        for pod in c.pods("array"):
            c.end(pod)
        await c.until(lambda: value("tasks", state="completed", queue="lab") == 1)


async def test_tasks_of_arrays_are_counted_by_state_and_by_queues_that_exist() -> None:
    async with empty_harness() as c:
        c.node(cpu="4.1")
        queue(c, "lab")
        c.admitter(fallback_admission_percent=100)
        for name in ("one", "two"):
            c.submit(name, queue="lab", cpu="1", array={"tasks": 1000, "maxRunning": 2})
        c.submit("lost", queue="made-up", cpu="1", array={"tasks": 7})
        await c.until(lambda: value("tasks", state="running", queue="lab") == 4, limit=60)
        assert value("tasks", state="waiting", queue="lab") == 1996
        assert value("tasks", state="waiting", queue=UNKNOWN_QUEUE) == 7
        assert "made-up" not in queues("tasks")
        (pod,) = [pod for pod in c.pods("one") if pod["spec"]["hostname"] == "one-0"]
        c.end(pod, 1)
        await c.until(lambda: value("tasks", state="failed", queue="lab") == 1)
        await c.user().delete(SCAVENGERJOBS, NS, "two")
        await c.until(lambda: value("tasks", state="waiting", queue="lab") in (997, 998))
        c.api.edit(SCAVENGERJOBS, NS, "one", lambda body: body["spec"]["array"].update(failFast=True))
        (pod,) = [pod for pod in c.pods("one") if pod["spec"]["hostname"] == "one-1"]
        c.end(pod, 1)
        await c.until(lambda: c.phase("one") == "Failed")
        await c.until(lambda: value("tasks", state="waiting", queue="lab") == 0)
        assert value("tasks", state="failed", queue="lab") == 2, (
            "what has not run of an array that is over waits no more"
        )


async def test_counters_of_a_queue_are_shown_before_they_rise() -> None:
    async with empty_harness() as c:
        c.node()
        queue(c, "quiet")
        c.admitter()
        await c.until(lambda: "quiet" in queues("starts_total"))
        for cause in ("Preempted", "AboveUpperLevel", "QueueReclaimed"):
            assert value("interruptions_total", queue="quiet", cause=cause) == 0
        assert value("useful_cpu_seconds_total", queue="quiet") == 0
        assert value("finished_jobs_total", queue="quiet", phase="Completed") == 0


# --- ordinary pods that wait ---


def ordinary(node: str | None = None, uid: str = "u1", **more: Any) -> Pod:
    return without_details(msgspec.convert(pod_dict("web", node=node, uid=uid, created=CREATED, **more), Pod))


def test_an_ordinary_pod_has_waited_until_it_has_a_node() -> None:
    assert waited_seconds(ordinary(), ordinary("n1"), NOW) == 42


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (None, ordinary("n1")),
        (ordinary(), None),
        (ordinary(), ordinary()),
        (ordinary("n1"), ordinary("n1")),
        (ordinary(uid="u0"), ordinary("n1")),
        (ordinary(labels={names.LABEL_JOB: "j"}), ordinary("n1", labels={names.LABEL_JOB: "j"})),
    ],
    ids=["seen late", "gone", "still waiting", "placed long ago", "another pod", "of a job"],
)
def test_any_other_change_is_no_wait(old: Pod | None, new: Pod | None) -> None:
    assert waited_seconds(old, new, NOW) is None


async def test_ordinary_pods_that_wait_are_counted() -> None:
    async with empty_harness() as c:
        c.node(cpu="4")
        c.kubelet = False
        c.admitter()
        c.api.put(PODS, pod_dict("web", namespace=NS, cpu="1", created=c.stamp()))
        c.submit("job", cpu="1")
        await c.until(lambda: value("ordinary_pods_waiting") == 1)
        before = value("ordinary_pod_wait_seconds_count") or 0
        waited = value("ordinary_pod_wait_seconds_sum") or 0
        await c.pass_time(7)
        c.kubelet = True
        await c.until(lambda: value("ordinary_pods_waiting") == 0)
        assert value("ordinary_pod_wait_seconds_count") == before + 1
        assert (value("ordinary_pod_wait_seconds_sum") or 0) - waited >= 7


def waits(start: str) -> tuple[float, float]:
    """Number and seconds of the waits on record."""
    labels = {"queue": "default", "start": start}
    name = "scavenger_waiting_seconds"
    return (
        REGISTRY.get_sample_value(f"{name}_count", labels) or 0.0,
        REGISTRY.get_sample_value(f"{name}_sum", labels) or 0.0,
    )


async def test_the_first_start_counts_from_the_creation_and_a_restart_from_the_place_in_line() -> None:
    async with empty_harness() as c:
        c.submit("a")
        c.admitter()
        await c.pass_time(90)
        before = waits("First")
        c.node()
        await runs(c, "a")
        count, seconds = waits("First")
        assert count - before[0] == 1
        assert 90 <= seconds - before[1] <= 110
        before = waits("Restart")
        c.delete_pod(c.pods("a")[0])
        await c.until(lambda: c.status("a")["interruptedCount"] == 1)
        await runs(c, "a", limit=300)
        assert waits("Restart")[0] - before[0] == 1
        assert waits("First")[0] == count


async def test_adopted_jobs_are_counted_with_the_others() -> None:
    """Their completions count as tasks do, and their status knows which of them run by the pods that are ready."""
    async with adopting() as c:
        c.submit_job("a", completions=3, parallelism=2)
        await until(c, "Running")
        ready = [{"type": "Ready", "status": "True"}]
        for pod in at_work(c):
            c.api.edit(PODS, NS, pod["metadata"]["name"], lambda body: body["status"].update(conditions=ready))
        await c.until(lambda: value("tasks", state="running", queue="default") == 2)
        assert value("tasks", state="waiting", queue="default") == 1
        assert value("jobs", phase="Running", queue="default") == 1
        before = value("finished_jobs_total", queue="default", phase="Completed") or 0
        await finish_all(c)
        assert value("finished_jobs_total", queue="default", phase="Completed") == before + 1
        await c.until(lambda: value("tasks", state="completed", queue="default") == 3)
        assert value("tasks", state="running", queue="default") == 0
