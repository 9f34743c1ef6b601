"""Queues on the API server in memory: room goes back to whom it belongs, statuses are right, deleted queues go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from scavenger_admitter.informers import SCAVENGERQUEUES
from scavenger_admitter.writer import SCAVENGERJOBS
from scavenger_api import names
from scavenger_kube.errors import Forbidden
from scavenger_kube.resources import CONFIGMAPS, PODS
from scavenger_testing import configmap_dict

from .harness import NS, Harness, Object, empty_harness

pytestmark = pytest.mark.slow


def queue(c: Harness, name: str, weight: int = 1, **spec: Any) -> None:
    meta = {"name": name, "uid": f"{name}-uid"}
    body = {"apiVersion": names.API_VERSION, "kind": "ScavengerQueue", "metadata": meta}
    c.api.put(SCAVENGERQUEUES, {**body, "spec": {"weight": weight, **spec}})


def seen(c: Harness, name: str) -> dict[str, Any]:
    return c.api.get(SCAVENGERQUEUES, None, name) or {}


def status(c: Harness, name: str) -> dict[str, Any]:
    return dict(seen(c, name).get("status") or {})


def counts(c: Harness, name: str) -> dict[str, int]:
    return {phase: count for phase, count in status(c, name).get("jobs", {}).items() if count}


def running(c: Harness, prefix: str) -> int:
    return sum(phase == "Running" for name, phase in c.phases().items() if name.startswith(prefix))


async def shared_cluster(c: Harness, **settings: Any) -> None:
    """Ten cores for two queues of equal weight; `a` has filled them while `b` was idle."""
    c.node(cpu="10.1", memory="400Gi")
    queue(c, "a")
    queue(c, "b")
    c.admitter(fallback_admission_percent=100, **settings)
    for number in range(12):
        c.submit(f"a{number}", queue="a", cpu="1")
    await c.until(lambda: running(c, "a") == 10)


async def test_a_lent_share_is_given_back_and_who_gave_it_waits_in_front_of_its_line() -> None:
    async with empty_harness() as c:
        await shared_cluster(c)
        for number in range(3):
            c.submit(f"b{number}", queue="b", cpu="1")
        await c.until(lambda: running(c, "b") == 3)
        assert running(c, "a") == 7
        gone = [name for name, phase in c.phases().items() if phase == "Interrupted"]
        assert len(gone) == 3
        for name in gone:
            found = c.status(name)
            assert found["interruptedCount"] == 1
            assert "queue b has less than it deserves" in found["message"]
            reasons = {condition["type"]: condition["reason"] for condition in found["conditions"]}
            assert reasons["Interrupted"] == "QueueReclaimed"
        assert len(c.events("Interrupted")) == 3
        await c.pass_time(30)
        assert (running(c, "a"), running(c, "b")) == (7, 3), "and it stays so"
        assert all(c.jobs_ever(f"b{number}") == 1 for number in range(3))
        c.succeed("b0")
        await c.until(lambda: any(c.phase(name) == "Running" for name in gone))
        assert {c.phase("a10"), c.phase("a11")} == {"Waiting"}, "the interrupted one went before them"


async def test_adopted_jobs_give_a_lent_share_back_and_nothing_is_counted_as_a_failure() -> None:
    async with empty_harness() as c:
        c.node(cpu="4.1", memory="400Gi")
        queue(c, "a")
        queue(c, "b")
        c.admitter(fallback_admission_percent=100, adopt=True)
        for number in range(4):
            c.submit_job(f"a{number}", queue="a", backoffLimit=0)
        jobs = [f"a{number}" for number in range(4)]
        await c.until(lambda: all(c.ledger_of(name).get("runs") for name in jobs))
        c.submit("b0", queue="b", cpu="1")
        await c.until(lambda: running(c, "b") == 1)
        await c.until(lambda: any(c.ledger_of(name).get("interrupted") for name in jobs))
        assert [cause for name in jobs if (cause := c.ledger_of(name).get("cause"))] == ["QueueReclaimed"]
        c.succeed("b0")
        await c.until(lambda: not any(c.ledger_of(name).get("cause") for name in jobs))
        assert not any(c.batch(name)["status"].get("failed") for name in jobs)
        for name in jobs:
            c.succeed(name)
        await c.until(lambda: all(c.job_condition(name, "Complete") for name in jobs))


QUOTA = 'pods "b-x" is forbidden: exceeded quota: compute, requested: cpu=1'
NO_ACCOUNT = 'pods "b-x" is forbidden: error looking up service account x/robot: serviceaccount "robot" not found'


@pytest.mark.parametrize(
    "refusal",
    [pytest.param(QUOTA, id="quota"), pytest.param(NO_ACCOUNT, id="service account", marks=pytest.mark.long)],
)
async def test_nobody_is_interrupted_again_for_a_job_whose_pods_are_refused(refusal: str) -> None:
    async with empty_harness() as c:

        def refuse(body: Object) -> None:
            if body["kind"] == "Pod" and body["metadata"]["labels"][names.LABEL_JOB] == "b":
                raise Forbidden(403, "Forbidden", refusal)

        c.admission = refuse
        await shared_cluster(c)
        c.submit("b", queue="b", cpu="1", serviceAccountName="robot")

        async def an_hour() -> int:
            before = interruptions(c)
            for _ in range(720):
                await c.turn(5)
            return interruptions(c) - before

        assert await an_hour() in (2, 3), "one each after ten minutes, twenty, forty"
        assert await an_hour() in (1, 2)
        c.admission = lambda body: None
        c.succeed("a0")
        c.succeed("a1")
        await c.until(lambda: c.phase("b") == "Running", limit=7200, step=5)


def interruptions(c: Harness) -> int:
    return sum(c.status(name).get("interruptedCount", 0) for name in c.phases())


async def test_the_status_of_queues_is_right_and_stays_so_over_a_restart() -> None:
    async with empty_harness() as c:
        await shared_cluster(c)
        await c.until(lambda: counts(c, "a") == {"running": 10, "waiting": 2})
        assert status(c, "a")["state"] == "Open"
        assert status(c, "a")["allocated"] == {"cpu": "10", "memory": "10Gi", "pods": "10"}
        assert status(c, "a")["deserved"]["cpu"] == "10100m", "alone it deserves all there is"
        assert status(c, "b")["deserved"]["cpu"] == "5050m", "what it would be, were there demand"
        assert status(c, "b")["allocated"] == {"cpu": "0", "memory": "0"}
        await c.pass_time(10)
        writes = c.api.count("PATCH", "/scavengerqueues/a/status")
        await c.pass_time(10)
        assert c.api.count("PATCH", "/scavengerqueues/a/status") == writes, "nothing new, nothing written"
        await c._admitters[0].kill()
        c.api.edit(SCAVENGERQUEUES, None, "a", lambda obj: obj.__setitem__("status", {}))
        c.succeed("a0")
        c.admitter(fallback_admission_percent=100)
        await c.until(lambda: counts(c, "a") == {"running": 10, "waiting": 1, "completed": 1})


async def test_a_job_that_cannot_be_read_any_more_is_unknown_to_its_queue() -> None:
    async with empty_harness() as c:
        await shared_cluster(c)
        await c.until(lambda: counts(c, "a") == {"running": 10, "waiting": 2})
        c.api.edit(SCAVENGERJOBS, NS, "a0", lambda job: job["spec"].update(image="app\u00a0:1"))
        await c.until(lambda: counts(c, "a") == {"running": 9, "waiting": 2, "unknown": 1})
        c.api.edit(SCAVENGERJOBS, NS, "a0", lambda job: job["spec"].update(image="app:1"))
        await c.until(lambda: counts(c, "a") == {"running": 10, "waiting": 2})


async def test_a_queue_is_written_once_a_second_at_most() -> None:
    async with empty_harness() as c:
        await shared_cluster(c)
        before, began = c.api.count("PATCH", "/scavengerqueues/a/status"), c.clock.monotonic()
        for number in range(40):
            c.submit(f"more{number}", queue="a", cpu="1")
            await c.turn(0.1)
        passed = c.clock.monotonic() - began
        assert 2 <= c.api.count("PATCH", "/scavengerqueues/a/status") - before <= passed + 1


async def test_a_deleted_queue_goes_when_its_jobs_have_gone() -> None:
    async with empty_harness() as c:
        await shared_cluster(c)
        await c.until(lambda: names.QUEUE_FINALIZER in seen(c, "a")["metadata"].get("finalizers", []))
        c.submit("b", queue="b", cpu="1")
        await c.until(lambda: c.phase("b") == "Running")
        c.api.fail(500, times=3, methods={"DELETE"}, path="/scavengerjobs/")
        await c.user().delete(SCAVENGERQUEUES, None, "a")
        c.submit("late", queue="a", cpu="1")
        await c.until(lambda: not seen(c, "a"))
        assert list(c.phases()) == ["b"]
        await c.until(lambda: {pod["metadata"]["labels"][names.LABEL_JOB] for pod in c.api.list(PODS)} == {"b"})
        c.submit("later", queue="a", cpu="1")
        await c.pass_time(10)
        assert c.status("later")["message"].startswith("cannot start as things are: there is no ScavengerQueue a")


async def test_a_job_that_somebody_s_finalizer_holds_keeps_no_queue() -> None:
    async with empty_harness() as c:
        await shared_cluster(c)
        await c.until(lambda: names.QUEUE_FINALIZER in seen(c, "a")["metadata"].get("finalizers", []))
        c.api.edit(SCAVENGERJOBS, NS, "a0", lambda job: job["metadata"].update(finalizers=["example.com/mine"]))
        await c.user().delete(SCAVENGERQUEUES, None, "a")
        await c.until(lambda: not seen(c, "a"))
        assert list(c.phases()) == ["a0"], "held, and its pods are gone"
        assert c.pods("a0") == []


async def test_a_queue_whose_status_changes_all_the_time_is_held_and_released() -> None:
    """Every status write makes a new version of the queue."""
    async with empty_harness() as c:
        c.node(cpu="100", memory="400Gi")
        instance = c.admitter(fallback_admission_percent=100)
        await c.until(lambda: instance.admitting)
        queue(c, "a")
        while "a" not in instance.admitter._admission.shares:  # an admission cycle sees it before the first round
            c.submit(f"job-{len(c.api.store.history)}", queue="a", cpu="1")
            await c.turn(0.1)
        assert not seen(c, "a")["metadata"].get("finalizers")
        await busy(c, lambda: names.QUEUE_FINALIZER in seen(c, "a")["metadata"].get("finalizers", []))
        await c.user().delete(SCAVENGERQUEUES, None, "a")
        await busy(c, lambda: status(c, "a").get("state") == "Releasing")
        await c.until(lambda: not seen(c, "a"))
        assert c.phases() == {}
        assert c.events("Releasing")


async def busy(c: Harness, condition: Callable[[], bool]) -> None:
    """Submit a job to queue a every half second until the condition holds."""
    for _ in range(30):
        if condition():
            return
        c.submit(f"job-{len(c.api.store.history)}", queue="a", cpu="1")
        await c.turn(0.5)
    raise TimeoutError("not within 15 s")


async def test_a_closed_queue_runs_on_and_starts_nothing() -> None:
    async with empty_harness() as c:
        await shared_cluster(c)
        c.api.edit(SCAVENGERQUEUES, None, "a", lambda obj: obj["spec"].__setitem__("closed", True))
        await c.until(lambda: status(c, "a").get("state") == "Closed")
        c.succeed("a0")
        await c.until(lambda: c.phase("a0") == "Completed")
        await c.pass_time(5)
        assert counts(c, "a") == {"running": 9, "waiting": 2, "completed": 1}
        assert c.status("a11")["message"].endswith("queue a is closed: open it, or name another queue")
        c.api.edit(SCAVENGERQUEUES, None, "a", lambda obj: obj["spec"].__setitem__("closed", False))
        await c.until(lambda: counts(c, "a") == {"running": 10, "waiting": 1, "completed": 1})


async def test_the_default_queue_is_there_without_an_object_and_obeys_one_that_comes() -> None:
    async with empty_harness() as c:
        c.node(cpu="10.1")
        queue(c, "b")
        c.admitter(fallback_admission_percent=100)
        for number in range(10):
            c.submit(f"d{number}", cpu="1")
        await c.until(lambda: running(c, "d") == 10)
        for number in range(10):
            c.submit(f"b{number}", cpu="1", queue="b")
        await c.until(lambda: running(c, "b") == 4)
        await c.pass_time(5)
        assert (running(c, "d"), running(c, "b")) == (6, 4), "one more, and it would have less than its 5.05"
        queue(c, "default", weight=4)
        await c.until(lambda: status(c, "default").get("deserved", {}).get("cpu") == "8080m")


async def test_the_message_of_a_job_beyond_its_share_has_the_figures() -> None:
    async with empty_harness() as c:
        await shared_cluster(c)
        c.submit("b", queue="b", cpu="1")
        await c.until(lambda: c.phase("b") == "Running")
        await c.pass_time(5)
        message = c.status("a11")["message"]
        assert message.startswith("queue a has 9 cpu, 9Gi memory and deserves 5050m cpu")
        assert "needs 1 cpu, 1Gi memory" in message


async def test_an_order_to_go_that_meets_a_finished_job_interrupts_nobody() -> None:
    async with empty_harness() as c:
        await shared_cluster(c)
        c.api.fail(500, times=10**6, methods={"PATCH"}, path="/scavengerjobs/")
        c.submit("b", queue="b", cpu="1")
        await c.pass_time(3)
        for number in range(12):
            c.succeed(f"a{number}")
        c.tick()
        c.api.heal()
        await c.until(lambda: c.phase("b") == "Running")
        await c.pass_time(5)
        assert c.events("Interrupted") == []


async def test_a_restart_in_the_middle_interrupts_nobody_twice() -> None:
    async with empty_harness() as c:
        await shared_cluster(c)
        c.api.fail(500, times=10**6, methods={"DELETE"})
        c.submit("b", queue="b", cpu="1", parallelism=3)
        await c.until(lambda: sum(phase == "Interrupted" for phase in c.phases().values()) == 3)
        await c._admitters[0].kill()
        c.api.heal()
        assert all("deletionTimestamp" not in pod["metadata"] for pod in c.api.list(PODS)), "none was told to go"
        c.admitter(fallback_admission_percent=100)
        await c.until(lambda: c.phase("b") == "Running")
        await c.pass_time(10)
        assert running(c, "a") == 7
        assert len(c.events("Interrupted")) == 3
        assert {c.status(name)["interruptedCount"] for name in c.phases()} == {0, 1}
        assert c.api.get(SCAVENGERJOBS, NS, "b") is not None


def publish(c: Harness, load: float, observed_at: str) -> None:
    """What a regulator measured, in percent of both resources, and a level of 63 %."""
    levels = {"load": load, "lower": 55, "admission": 63, "upper": 90}
    data = {"state": "Filling", "admit": "true", "preemptiblePercentage": "33"}
    data |= {"periodSeconds": "60", "observedAt": observed_at}
    data |= {f"{kind}.{resource}": str(value) for resource in ("cpu", "memory") for kind, value in levels.items()}
    c.api.put(CONFIGMAPS, configmap_dict(names.LEVELS_CONFIGMAP, data, namespace=names.SYSTEM_NAMESPACE))


async def test_a_load_that_was_measured_before_the_victims_left_asks_for_no_further_ones() -> None:
    """Five of eight cores are in use, and the level allows no sixth. What leaves shows in the next measurement only."""
    async with empty_harness() as c:
        c.node(cpu="8", memory="8Gi")
        queue(c, "a")
        queue(c, "b")
        publish(c, 0, c.stamp())
        c.admitter()
        for number in range(6):
            c.submit(f"a{number}", queue="a", cpu="1")
        await c.until(lambda: running(c, "a") == 5)
        await c.pass_time(10)
        publish(c, 62.5, c.stamp())
        await c.pass_time(2)
        c.submit("b", queue="b", cpu="1")
        await c.until(lambda: "Interrupted" in c.phases().values())
        await c.pass_time(40)
        assert (running(c, "a"), c.phase("b")) == (4, "Waiting")
        assert c.status("b")["message"].startswith("queue b has 0 cpu, 0 memory and deserves 25")
        publish(c, 50, c.stamp())
        await c.until(lambda: c.phase("b") == "Running")
        await c.pass_time(30)
        assert (running(c, "a"), len(c.events("Interrupted"))) == (4, 1)


async def test_a_victim_that_does_not_leave_is_not_waited_for() -> None:
    async with empty_harness() as c:
        await shared_cluster(c)
        c.api.store.graceful_pods = True
        c.kubelet = False
        c.submit("b", queue="b", cpu="1")
        await c.until(lambda: len(c.events("Interrupted")) == 1)
        await c.pass_time(50, step=5)
        assert len(c.events("Interrupted")) == 1, "it is waited for until a minute after its time"
        assert c.status("b")["message"].startswith("queue b has 0 cpu")
        await c.pass_time(60, step=5)
        assert len(c.events("Interrupted")) == 2
        c.kubelet = True
        await c.until(lambda: c.phase("b") == "Running")
