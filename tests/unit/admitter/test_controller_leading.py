"""Who works and who stands by; how it ends; and that a long line of waiting jobs costs next to nothing."""

from __future__ import annotations

import asyncio
import os
import signal
from datetime import timedelta
from typing import Any

import pytest
from scavenger_admitter.__main__ import _serve
from scavenger_admitter.core.lifecycle.observation import Observation, Seen
from scavenger_admitter.core.lifecycle.plan import plan_job
from scavenger_admitter.explain import PER_PASS
from scavenger_admitter.settings import AdmitterSettings
from scavenger_admitter.writer import SCAVENGERJOBS
from scavenger_api import names
from scavenger_api.job import ScavengerJob
from scavenger_api.times import format_micro_time
from scavenger_kube.client import ApiClient
from scavenger_kube.resources import JOBS, LEASES
from scavenger_runtime.service import serve
from scavenger_testing import eventually, scavengerjob_dict

from tests.integration.admitter.order import left_out, overtaken

from .harness import NS, Harness, empty_harness, harness

pytestmark = pytest.mark.slow

SYSTEM = names.SYSTEM_NAMESPACE
BATCH = 6


def lease(c: Harness) -> dict[str, Any]:
    found = c.api.get(LEASES, SYSTEM, names.ADMITTER)
    return {} if found is None else dict(found["spec"])


# --- one leads ------------------------------------------------------------------------------------------------------


async def test_a_standby_writes_nothing_and_takes_over_when_the_leader_falls_silent() -> None:
    async with empty_harness() as c:
        c.node()

        def renew() -> None:
            spec = {"holderIdentity": "other", "leaseDurationSeconds": 15, "renewTime": c.clock.now().isoformat()}
            body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": spec}
            c.api.put(LEASES, {**body, "metadata": {"name": names.ADMITTER, "namespace": SYSTEM}})

        renew()
        standby = c.admitter(leader_elect=True)
        c.submit("a")
        for _ in range(20):
            await c.pass_time(2)
            renew()
        assert c.writes() == []
        assert c.phase("a") == ""
        assert not standby.admitting
        took = await c.until(lambda: c.phase("a") == "Running", limit=60)
        assert 14 <= took <= 25
        assert lease(c)["holderIdentity"] == standby.settings.identity


async def test_of_two_admitters_one_works_and_the_other_follows() -> None:
    async with empty_harness() as c:
        c.node(cpu="10")
        first = c.admitter(leader_elect=True)
        await c.until(lambda: first.admitting)
        second = c.admitter(leader_elect=True)
        for number in range(12):
            c.submit(f"j{number:02}")
        await c.until(lambda: sum(phase == "Running" for phase in c.phases().values()) == 6)
        assert not second.admitting
        await first.kill()
        c.delete_pod(c.pods("j00")[0])
        c.succeed("j01")
        took = await c.until(lambda: second.admitting, limit=60)
        assert 10 <= took <= 25
        for _ in range(4):
            await c.pass_time(5)
            for name, phase in c.phases().items():
                if phase == "Running":
                    c.succeed(name)
        await c.until(lambda: set(c.phases().values()) == {"Completed"})
        assert c.status("j00")["interruptedCount"] == 1
        assert [c.jobs_ever(f"j{number:02}") for number in range(12)] == [2] + [1] * 11
        assert not c.held()
        order = list(dict.fromkeys(c.starts()))
        assert sorted(order[:6]) == [f"j{number:02}" for number in range(6)]
        assert sorted(order[6:8]) == ["j06", "j07"], "first in, first out, across the change of leaders"


@pytest.mark.parametrize("arrived", [(), (0, 1), (4, 5), (0, 5), (1, 2, 3, 4, 5)], ids=str)
async def test_what_a_leader_had_under_way_when_it_died_starts_first(arrived: tuple[int, ...]) -> None:
    """Five cycles' worth of jobs in line. Of the second cycle only the creates with these numbers arrive."""
    line = [f"j{number:02}" for number in range(5 * BATCH)]
    cycle = line[BATCH : 2 * BATCH]
    async with empty_harness() as c:
        settings = {"leader_elect": True, "max_starts_per_cycle": BATCH}
        first = c.admitter(**settings)
        await c.until(lambda: first.admitting)
        second = c.admitter(**settings)
        for name in line:
            c.submit(name)
        await c.until(lambda: set(c.phases().values()) == {"Waiting"})
        c.lost = {name for number, name in enumerate(cycle) if number not in arrived}
        c.node()
        await c.until(lambda: len(c.starts()) >= BATCH + len(arrived))
        await c.pass_time(30)
        dead = c.starts()
        assert set(dead) == set(line) - c.lost, "nobody waits for what is not answered"
        await first.kill()
        c.lost.clear()
        await c.until(lambda: len(c.starts()) == len(line))
        assert second.admitting
        successor = c.starts()[len(dead) :]
        in_flight = [name for name in cycle if name not in dead]
        answered = [name for name in line if name not in in_flight]
        assert overtaken(answered, [dead], BATCH) == []
        assert set(in_flight) <= set(successor[:BATCH])
        assert set(left_out(line, dead)) <= set(in_flight)
        await c.until(lambda: set(c.phases().values()) == {"Running"})
        assert [c.jobs_ever(name) for name in line] == [1] * len(line)


async def test_a_new_leader_does_not_decide_on_old_news() -> None:
    async with empty_harness() as c:
        c.node()
        first = c.admitter(leader_elect=True)
        await c.until(lambda: first.admitting)
        second = c.admitter(leader_elect=True)
        await c.pass_time(3)
        # From here on the second one sees nothing new: its watches are refused, the first one's go on.
        c.submit("a")
        await c.until(lambda: c.phase("a") == "Running")
        second_informers = {informer.name: informer for informer in second.context.informers}
        for name in ("scavengerjobs", "jobs", "pods"):
            # As if it had never seen more than the job in line.
            cache = second_informers[name]._cache
            for key in list(cache.keys()):
                for _ in cache.remove(key):
                    pass
        await c.until(lambda: second_informers["pods"].synced)
        await first.kill()
        await c.pass_time(40)
        assert c.phase("a") == "Running"
        assert c.status("a")["interruptedCount"] == 0
        assert c.jobs_ever("a") == 1
        assert len(c.pods("a")) == 1
        assert "deletionTimestamp" not in c.pods("a")[0]["metadata"]


async def test_a_new_leader_waits_for_its_view_of_the_pods() -> None:
    async with empty_harness() as c:
        c.node()
        first = c.admitter(leader_elect=True)
        await c.until(lambda: first.admitting)
        second = c.admitter(leader_elect=True)
        c.submit("a")
        await c.until(lambda: c.phase("a") == "Running")
        c.kubelet = False  # the node falls silent, and the pod is never known to have ended
        c.delete_pod(c.pods("a")[0])
        await c.until(lambda: c.phase("a") == "Interrupted" and c.api.get(JOBS, NS, "a") is None)
        await c.pass_time(2)
        # From here on the second one sees nothing new of pods, and has never seen this one.
        pods = next(informer for informer in second.context.informers if informer.name == "pods")
        for key in list(pods._cache.keys()):
            for _ in pods._cache.remove(key):
                pass
            second.admitter._state.delete_pod(key)
        await first.kill()
        await c.pass_time(25)
        assert c.jobs_ever("a") == 1
        assert c.most_at_once("a") == 1
        c.api.expire_watches()
        await c.pass_time(30)
        assert second.admitting
        assert c.jobs_ever("a") == 1
        c.kubelet = True
        await c.until(lambda: c.phase("a") == "Running")
        assert c.jobs_ever("a") == 2
        assert c.most_at_once("a") == 1


async def test_sigterm_lets_go_of_the_lease_and_leaves_running_jobs_alone() -> None:
    async with empty_harness() as c:
        c.node()
        c.submit("a")

        async def connect() -> ApiClient:
            return c.user()

        settings = AdmitterSettings(health_address="127.0.0.1", health_port=0, shutdown_timeout=2.0)
        service = asyncio.create_task(serve(names.ADMITTER, settings, _serve, connect=connect, clock=c.clock))
        await c.until(lambda: c.phase("a") == "Running")
        assert lease(c)["holderIdentity"] == settings.identity
        os.kill(os.getpid(), signal.SIGTERM)
        await eventually(service.done)
        assert service.result() == 0
        assert lease(c)["holderIdentity"] == ""
        assert c.phase("a") == "Running"
        assert len(c.held()) == 1
        successor = c.admitter(leader_elect=True)
        took = await c.until(lambda: successor.admitting)
        assert took <= 2, "a lease that was released is not waited for"


# --- thousands wait -------------------------------------------------------------------------------------------------


def waiting(c: Harness, name: str, seconds_ago: float) -> dict[str, Any]:
    """A ScavengerJob that has been in line for a while, as the admitter has written it."""
    queued = c.clock.now() - timedelta(seconds=seconds_ago)
    status = {"phase": "Waiting", "queuedTimestamp": format_micro_time(queued), "message": "queued for admission"}
    obj = scavengerjob_dict(name, namespace=NS, cpu="1", status=status, generation=1)
    seen = Observation(Seen(ScavengerJob.model_validate(obj), None, (), {}, c.clock.now()))
    return {**obj, "status": plan_job(seen).status.to_dict()}


async def fill_the_line(c: Harness, count: int) -> None:
    """That many jobs in line, nothing to be said about any of them, and an admitter that has seen them all."""
    c.node(cpu="1")  # 70 % of one CPU: nobody fits
    for number in range(count):
        c.api.put(SCAVENGERJOBS, waiting(c, f"j{number:04}", 3600 - number))
    admitter = c.admitter(explain_after=5.0)
    await c.until(lambda: admitter.admitting)
    assert c.writes() == [], "nothing has changed"


async def test_a_long_line_is_told_why_a_few_at_a_time() -> None:
    async with empty_harness() as c:
        await fill_the_line(c, 600)
        for passes in range(1, 6):
            await c.pass_time(5, step=5)
            assert c.status_writes() <= passes * PER_PASS
            told = {
                job["metadata"]["name"] for job in c.api.list(SCAVENGERJOBS) if "threshold" in job["status"]["message"]
            }
            # some of the last pass may be on their way, in whatever order
            assert told <= {f"j{number:04}" for number in range(passes * PER_PASS)}, "the front of the line first"
        assert len(told) >= 3 * PER_PASS
        assert c.api.list(JOBS) == []


async def test_who_has_been_told_is_left_in_peace() -> None:
    async with empty_harness() as c:
        await fill_the_line(c, 150)
        await c.until(lambda: c.status_writes() == 150, limit=30, step=1)
        messages = {job["status"]["message"] for job in c.api.list(SCAVENGERJOBS)}
        assert len(messages) == 1
        assert "admission threshold of 70 %" in messages.pop()
        admitted = [
            c for job in c.api.list(SCAVENGERJOBS) for c in job["status"]["conditions"] if c["type"] == "Admitted"
        ]
        assert {(one["status"], one["reason"]) for one in admitted} == {("False", "AdmissionLevel")}
        assert {"admission threshold of 70 %" in one["message"] for one in admitted} == {True}
        c.node("n2", cpu="1", ready=False)  # wakes the cycle; the reason stays the same
        await c.pass_time(600, step=20)
        assert c.status_writes() == 150


async def test_a_running_job_costs_no_writes() -> None:
    async with harness() as c:
        for number in range(20):
            c.submit(f"j{number}", parallelism=1 + number % 3, interruption_after="10m")
        await c.until(lambda: set(c.phases().values()) == {"Running"})
        before = c.status_writes()
        await c.pass_time(540, step=20)
        assert c.status_writes() == before
        await c.pass_time(80, step=20)
        assert c.status_writes() == before + 20, "the start-over of each"
