"""A pass over 10,000 running pods: how long it takes, and that it writes nothing when nothing changed.

Against the API server in memory, through the real informers: 9,000 jobs of one pod and 100 gangs of ten, in 50
namespaces, at 33 %. The first pass reads every object; the later ones only what changed.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import msgspec
from scavenger_api.times import format_time
from scavenger_prioritizer.observe import SCAVENGERJOBS, JobView, gangs, job_facts, pod_facts
from scavenger_prioritizer.plan import plan_classes
from scavenger_prioritizer.settings import PrioritizerSettings
from scavenger_prioritizer.shell import Prioritizer
from scavenger_prioritizer.snapshot import Share, Snapshot, Source
from scavenger_runtime.events import EventRecorder
from scavenger_runtime.kinds import Pod
from scavenger_runtime.resources import PODS
from scavenger_testing.builders import job_dict, pod_dict, scavengerjob_dict
from scavenger_testing.clock import VirtualClock
from scavenger_testing.fake_api import FakeApi

Figure = dict[str, Any]

SINGLES = 9_000
GANGS = 100
GANG_SIZE = 10
NAMESPACES = 50
CHANGED = 100
PASSES = 7


def _objects(clock: VirtualClock) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    for n in range(SINGLES + GANGS):
        size = 1 if n < SINGLES else GANG_SIZE
        namespace, run = f"team-{n % NAMESPACES}", f"job-{n}-run"
        started = format_time(clock.now() - timedelta(seconds=n * 7919 % 200_000))
        job = scavengerjob_dict(
            f"job-{n}",
            namespace=namespace,
            parallelism=size,
            phase="Running",
            status={"jobName": run, "runningTimestamps": [started], "interruptedCount": n % 3},
        )
        owner = job_dict(run, namespace=namespace)
        labels = {"scavenger.dev/job": f"job-{n}", "scavenger.dev/preemption-class": "preemptible"}
        pods = [
            pod_dict(f"{run}-{i}", namespace=namespace, phase="Running", node=f"n{n % 500}", owner=owner, labels=labels)
            for i in range(size)
        ]
        yield job, pods


def _settled(clock: VirtualClock) -> tuple[list[dict[str, Any]], list[dict[str, Any]], set[str]]:
    """The objects as they are once everything a first plan wants is written; namespaces with a budget."""
    jobs: dict[str, dict[str, Any]] = {}
    pods: dict[str, dict[str, Any]] = {}
    for job, members in _objects(clock):
        jobs[job["metadata"]["uid"]] = job
        pods |= {pod["metadata"]["uid"]: pod for pod in members}
    facts = gangs(
        [job_facts(msgspec.convert(j, JobView)) for j in jobs.values()],
        [pod_facts(msgspec.convert(p, Pod)) for p in pods.values()],
    )
    now = round(clock.now().timestamp() * 1e6)
    plan = plan_classes(Snapshot(now, Share(33.0, Source.FALLBACK), facts))
    for write in (*plan.protect, *plan.unprotect, *plan.refresh):
        meta = pods[write.pod.uid]["metadata"]
        if write.class_ is not None:
            meta["labels"]["scavenger.dev/preemption-class"] = write.class_
        if write.priority is not None:
            meta["annotations"] = {"scavenger.dev/running-priority": str(write.priority)}
    for status in plan.statuses:
        preemption = {"class": status.class_, "runningPriority": status.priority}
        jobs[status.job.uid]["status"]["preemption"] = preemption
    return list(jobs.values()), list(pods.values()), set(plan.budgets_needed)


@contextmanager
def _took(into: list[float]) -> Iterator[None]:
    began = time.perf_counter()
    yield
    into.append(time.perf_counter() - began)


async def _measure() -> list[Figure]:
    clock = VirtualClock()
    jobs, pods, budgets = _settled(clock)
    async with FakeApi(clock) as api:
        client = api.client()
        prioritizer = Prioritizer(client, PrioritizerSettings(), clock, EventRecorder(client, "bench", clock=clock))
        for job in jobs:
            api.put(SCAVENGERJOBS, job)
        for pod in pods:
            api.put(PODS, pod)
        for namespace in budgets:
            await prioritizer._apply_budget(namespace)
        tasks = [asyncio.ensure_future(informer.run()) for informer in prioritizer.informers]
        await asyncio.gather(*(informer.wait_synced() for informer in prioritizer.informers))
        gc.collect()
        gc.freeze()  # the objects of the API server in this process are not the service's to collect
        first: list[float] = []
        idle: list[float] = []
        busy: list[float] = []
        writes = len(api.requests)
        with _took(first):
            await prioritizer.carry_out(prioritizer.decide())
        for _ in range(PASSES):
            with _took(idle):
                await prioritizer.carry_out(prioritizer.decide())
        idle_writes = len(api.requests) - writes
        for turn in range(PASSES):
            for pod in pods[turn * CHANGED : (turn + 1) * CHANGED]:
                name = pod["metadata"]["name"]
                api.edit(PODS, pod["metadata"]["namespace"], name, lambda o: o["status"].update(reason="x"))
            await asyncio.sleep(0.3)
            with _took(busy):
                prioritizer.decide()
        gc.unfreeze()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert len(pods) == 10_000
    return [
        {
            "name": "prioritizer.pass_10k.seconds",
            "value": round(max(*first, *idle), 4),
            "unit": "s",
            "goal": "<= 0.3",
        },
        {"name": "prioritizer.pass_10k.first_seconds", "value": round(first[0], 4), "unit": "s", "goal": None},
        {
            "name": "prioritizer.pass_10k.idle_seconds",
            "value": round(statistics.median(idle), 4),
            "unit": "s",
            "goal": None,
        },
        {
            "name": "prioritizer.pass_10k.busy_seconds",
            "value": round(statistics.median(busy), 4),
            "unit": "s",
            "goal": None,
        },
        {"name": "prioritizer.idle_writes", "value": idle_writes, "unit": "writes", "goal": "<= 0"},
    ]


def run() -> list[Figure]:
    """The figures of this benchmark."""
    return asyncio.run(_measure())
