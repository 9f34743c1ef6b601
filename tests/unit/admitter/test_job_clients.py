"""Clients of Jobs see no interruption: their rules, played over every state that the API had."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import groupby
from typing import Any

import pytest
from scavenger_kube.resources import JOBS
from scavenger_testing.job_clients import CLIENTS, Client, Seen, job_set

from .harness import NS, Harness, Object
from .test_adopted_jobs import adopting, at_work, finish_all, interruptions, only_pod, running_job, until

pytestmark = pytest.mark.slow

SUCCESS = {client.name: [Seen.RUNS, Seen.DONE] for client in CLIENTS}


def states(c: Harness, name: str = "a") -> Iterator[tuple[Object, list[Object]]]:
    """The Job and all pods, after each write."""
    job: Object | None = None
    pods: dict[str, Object] = {}
    for entry in c.api.store.history:
        obj = entry.new or entry.old
        assert obj is not None
        if entry.kind.plural == "jobs" and obj["metadata"]["name"] == name:
            job = entry.new
        elif entry.kind.plural == "pods" and entry.kind.api_version == "v1" and entry.new is not None:
            pods[obj["metadata"]["name"]] = entry.new
        elif entry.kind.plural == "pods" and entry.kind.api_version == "v1":
            pods.pop(obj["metadata"]["name"], None)
        if job is not None:
            yield job, list(pods.values())


def seen(c: Harness, client: Client) -> list[Seen]:
    """What a client took the Job for, one after the other."""
    return [one for one, _ in groupby(client.rule(job, pods) for job, pods in states(c))]


async def interrupt(c: Harness, code: int, count: int) -> None:
    """Delete a pod whose program ends with this code, within its grace period."""
    before, c.stopping = c.renews, code
    c.kubelet, c.renews = False, True
    c.delete_pod(at_work(c)[0])
    await c.pass_time(1)
    c.kubelet, c.renews = True, before
    await interruptions(c, count)


async def test_no_client_sees_an_interruption() -> None:
    async with running_job(backoffLimit=0) as c:
        for count, code in enumerate((0, 143), 1):
            await interrupt(c, code, count)
            await until(c, "Running")
            await c.pass_time(5)
        await finish_all(c)
        await c.pass_time(30)
        assert {client.name: seen(c, client) for client in CLIENTS} == SUCCESS


async def test_clients_that_read_statuses_see_no_suspension() -> None:
    """Those that read pods see the exit of the one that is stopped, as they do under the Job controller."""
    async with running_job(backoffLimit=0) as c:
        c.api.edit(JOBS, NS, "a", lambda job: job["spec"].update(suspend=True))
        await until(c, "Suspended")
        await c.pass_time(60)
        c.api.edit(JOBS, NS, "a", lambda job: job["spec"].update(suspend=False))
        await until(c, "Running")
        await finish_all(c)
        found = {client.name: seen(c, client) for client in CLIENTS if not client.reads_pods}
        assert found == {name: SUCCESS[name] for name in found}


@pytest.mark.parametrize("mode", ["Indexed", "NonIndexed"])
async def test_no_client_of_several_pods_sees_one(mode: str) -> None:
    spec: dict[str, Any] = {"completions": 3, "parallelism": 2, "completionMode": mode, "backoffLimit": 0}
    async with adopting() as c:
        c.submit_job("a", **spec)
        await c.until(lambda: len(at_work(c)) == 2)
        await interrupt(c, 143, 1)
        await finish_all(c)
        for client in CLIENTS:
            if not client.one_pod:
                assert seen(c, client) == [Seen.RUNS, Seen.DONE], client.name


async def test_every_client_sees_a_failure() -> None:
    """Or it would see nothing at all."""
    async with running_job(backoffLimit=0) as c:
        c.end(only_pod(c), 3)
        await c.until(lambda: c.job_condition("a", "Failed"), limit=120)
        assert {client.name: seen(c, client) for client in CLIENTS} == {
            client.name: [Seen.RUNS, Seen.FAILED] for client in CLIENTS
        }


# --- a JobSet of a leader and two workers ---


def is_back(c: Harness, name: str) -> bool:
    return c.ledger_of(name).get("interrupted") == 1 and bool(at_work(c, name))


CHILDREN = ("set-leader-0", "set-workers-0", "set-workers-1")


def as_job_set(c: Harness) -> list[Seen]:
    """What the controller of a JobSet took its child Jobs for, one after the other."""
    jobs: dict[str, Object] = {}
    found: list[Seen] = []
    for entry in c.api.store.history:
        if entry.kind.plural == "jobs" and entry.new is not None:
            jobs[entry.new["metadata"]["name"]] = entry.new
            if len(jobs) == len(CHILDREN):
                found.append(job_set(jobs.values()))
    return [one for one, _ in groupby(found)]


async def test_a_job_set_counts_no_restart_when_each_of_its_jobs_is_interrupted() -> None:
    async with adopting() as c:
        for name in CHILDREN:
            c.submit_job(name, backoffLimit=0)
        await c.until(lambda: all(at_work(c, name) for name in CHILDREN))
        for name in CHILDREN:
            c.delete_pod(at_work(c, name)[0])
            await c.until(partial(is_back, c, name))
        for name in CHILDREN:
            await finish_all(c, name)
        assert as_job_set(c) == [Seen.RUNS, Seen.DONE]


async def test_a_job_set_that_resumes_its_jobs_writes_no_status() -> None:
    """Its controller takes a startTime off before it resumes a Job (`resumeJob`), which admission would refuse."""
    async with running_job() as c:
        c.api.edit(JOBS, NS, "a", lambda job: job["spec"].update(suspend=True))
        await until(c, "Suspended")
        assert "startTime" not in c.batch("a")["status"]


async def test_a_job_set_sees_a_failure() -> None:
    async with adopting() as c:
        for name in CHILDREN:
            c.submit_job(name, backoffLimit=0)
        await c.until(lambda: all(at_work(c, name) for name in CHILDREN))
        c.end(at_work(c, CHILDREN[1])[0], 3)
        await c.until(lambda: bool(c.job_condition(CHILDREN[1], "Failed")), limit=120)
        assert as_job_set(c) == [Seen.RUNS, Seen.FAILED]
