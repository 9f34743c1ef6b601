"""A run whose end nobody saw ended when somebody saw it last, and never now: time without pods is no computing."""

from __future__ import annotations

from typing import Any

import pytest
from scavenger_api import names
from scavenger_api.job import Phase
from scavenger_api.reasons import InterruptionReason as Cause
from scavenger_kube.resources import JOBS, PODS

from . import builders as b
from .harness import NS, Harness, empty_harness, runs

WEEK = 7 * 86_400.0


def gone(now: float, batch: Any, seen: float | None, parallelism: int = 1, **status: Any) -> Any:
    job = b.job(Phase.RUNNING, running=[10], spec=b.gang(parallelism, interruptionAfter="1h"), **status)
    return b.decide(b.seen(job, now, batch, last_seen=None if seen is None else b.at(seen))).status


@pytest.mark.parametrize("batch", [None, b.batch(), b.batch(deleted=None)], ids=["no Job", "a Job", "its Job"])
def test_pods_that_are_gone_were_there_until_somebody_saw_them_last(batch: Any) -> None:
    status = gone(WEEK, batch, 110)
    assert (status.phase, status.interrupted_count) == (Phase.INTERRUPTED, 1)
    assert (status.lost_cpu_seconds, status.useful_cpu_seconds) == (200, 0)
    assert status.interrupted_timestamps == (b.at(110),)


def test_where_nobody_knows_it_ran_until_its_status_says_so() -> None:
    status = gone(WEEK, None, None, priority_start_over_timestamp=b.at(50))
    assert status.lost_cpu_seconds == 0
    assert status.interrupted_timestamps == (b.at(50),)


def test_what_is_booked_already_stays() -> None:
    status = gone(WEEK, None, 60, priority_start_over_timestamp=b.at(90))
    assert status.lost_cpu_seconds == 0
    assert status.interrupted_timestamps == (b.at(90),)


def test_a_deadline_counts_time_in_which_there_were_pods() -> None:
    job = b.job(Phase.RUNNING, running=[10], spec={"activeDeadlineSeconds": 3600, "interruptionAfter": "1h"})
    status = b.decide(b.seen(job, 86_400, None, last_seen=b.at(115))).status
    assert (status.phase, status.active_seconds) == (Phase.INTERRUPTED, 105)


def test_pods_that_nobody_controls_compute_until_they_are_found() -> None:
    job = b.job(Phase.RUNNING, running=[10])
    outcome = b.decide(b.seen(job, 300, None, b.pod(owner=None)))
    assert outcome.figures.interruption is Cause.JOB_DELETED
    assert outcome.status.interrupted_timestamps == (b.at(300),)


def test_pods_whose_containers_have_ended_compute_no_more_whatever_their_phase() -> None:
    """The kubelet writes the phase later than the ends of the containers, or never where its machine is lost."""
    job, pod = b.job(Phase.RUNNING, running=[10]), b.pod(ended=100, phase="Running", beside=b.gone(150))
    outcome = b.decide(b.seen(job, 300, None, pod))
    assert outcome.figures.interruption is Cause.JOB_DELETED
    assert (outcome.status.interrupted_timestamps, outcome.status.lost_cpu_seconds) == ((b.at(100),), 2 * 90)


async def _uninstalled(c: Harness, name: str) -> None:
    """The admitter is gone, and what it made with it."""
    await c._admitters[0].kill()
    c.kubelet = False
    for pod in c.pods(name):
        c.api.edit(PODS, NS, pod["metadata"]["name"], lambda one: one["metadata"].update(finalizers=[]))
        c.api.remove(PODS, NS, pod["metadata"]["name"])
    c.api.remove(JOBS, NS, name)


@pytest.mark.parametrize("elects", [True, False])
async def test_after_a_week_without_an_admitter_nothing_of_that_week_is_booked(elects: bool) -> None:
    async with empty_harness() as c:
        c.node()
        c.admitter(leader_elect=elects, identity="one")
        c.submit("a", resources={"requests": {"cpu": "2", "memory": "1Gi"}}, interruptionAfter="1h")
        await runs(c, "a")
        await c.pass_time(100)
        await _uninstalled(c, "a")
        await c.pass_time(WEEK, step=WEEK / 4)
        c.kubelet = True
        c.admitter(leader_elect=elects, identity="two")
        await c.until(lambda: c.status("a").get("interruptedCount") == 1)
        booked = c.status("a")["usefulCPUSeconds"] + c.status("a")["lostCPUSeconds"]
        assert booked <= 2 * 110
        assert booked >= 2 * 80 or not elects
        await runs(c, "a")


async def test_a_pod_that_goes_while_the_admitter_looks_ended_then() -> None:
    async with empty_harness() as c:
        c.node()
        c.admitter()
        c.submit("a", interruptionAfter="1h")
        await runs(c, "a")
        await c.pass_time(100)
        c.kubelet = False
        (pod,) = c.pods("a")
        c.api.remove(PODS, NS, pod["metadata"]["name"])
        await c.until(lambda: c.status("a").get("interruptedCount") == 1)
        assert 95 <= c.status("a")["lostCPUSeconds"] <= 110


@pytest.mark.parametrize("elects", [True, False])
async def test_tasks_that_go_while_nobody_looks_are_interrupted_and_booked_until_somebody_looked(elects: bool) -> None:
    """Their finalizers were taken off, and nobody wrote down how they ended."""
    async with empty_harness() as c:
        c.node(cpu="10")
        c.admitter(leader_elect=elects, identity="one")
        two = {"cpu": "2", "memory": "1Gi"}
        c.submit("a", resources={"requests": two}, interruptionAfter="1h", array={"tasks": 3, "maxRunning": 2})
        await c.until(lambda: c.status("a").get("array", {}).get("running") == 2)
        await c.pass_time(100)
        await _uninstalled(c, "a")
        await c.pass_time(WEEK, step=WEEK / 4)
        c.admitter(leader_elect=elects, identity="two")
        await c.until(lambda: c.status("a").get("interruptedCount") == 2)
        assert c.status("a")["array"]["interruptions"] == "0-1:1"
        booked = c.status("a")["usefulCPUSeconds"] + c.status("a")["lostCPUSeconds"]
        assert booked <= 2 * 2 * 115
        assert booked >= 2 * 2 * 80 or not elects
        c.kubelet = True
        await c.until(lambda: c.status("a")["array"].get("running") == 2)
        while c.phase("a") != "Completed":
            c.succeed("a")
            await c.pass_time(15)
        assert c.status("a")["interruptedCount"] == 2, "each counts once"


async def test_a_task_that_goes_while_the_admitter_looks_ended_then() -> None:
    async with empty_harness() as c:
        c.node(cpu="10")
        c.admitter()
        c.submit("a", interruptionAfter="1h", array={"tasks": 2})
        await c.until(lambda: c.status("a").get("array", {}).get("running") == 2)
        await c.pass_time(100)
        c.kubelet = False
        pod = next(pod for pod in c.pods("a") if pod["metadata"]["labels"][names.LABEL_TASK] == "1")
        c.api.remove(PODS, NS, pod["metadata"]["name"])
        await c.until(lambda: c.status("a").get("interruptedCount") == 1)
        assert c.status("a")["array"]["interruptions"] == "1:1"
        assert 85 <= c.status("a")["lostCPUSeconds"] <= 110
