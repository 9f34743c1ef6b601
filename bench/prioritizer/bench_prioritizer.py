"""A pass over 10,000 running pods: how long it takes, and that it writes nothing when nothing changed.

Against the API server in memory, through the real informers: 9,000 jobs of one pod and 100 gangs of ten, in 50
namespaces, at 33 %. `seconds` is a pass that reads every object anew, as the first one does; `idle` passes find
nothing changed, `busy` ones a hundred pods.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
from scavenger_api import names
from scavenger_api.times import format_time
from scavenger_cluster.ports import any_free_port
from scavenger_kube.kinds import Pod
from scavenger_kube.resources import PODDISRUPTIONBUDGETS, PODS
from scavenger_kube.scavenger_kinds import ScavengerJob
from scavenger_prioritizer.controller import Prioritizer
from scavenger_prioritizer.core.plan import plan_classes
from scavenger_prioritizer.core.snapshot import Share, Snapshot, Source
from scavenger_prioritizer.facts import BUDGET_SPEC, gangs, job_facts, pod_facts
from scavenger_prioritizer.settings import PrioritizerSettings
from scavenger_runtime.events import EventRecorder
from scavenger_runtime.jobs_seen import SCAVENGERJOBS
from scavenger_testing.builders import job_dict, pod_dict, scavengerjob_dict
from scavenger_testing.clock import VirtualClock
from scavenger_testing.fake_api import FakeApi
from scavenger_testing.faults import WRITES

Figure = dict[str, Any]

SINGLES = 9_000
GANGS = 100
GANG_SIZE = 10
NAMESPACES = 50
CHANGED = 100
PASSES = 7
STEADY_SECONDS = 30


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
        [job_facts(msgspec.convert(j, ScavengerJob)) for j in jobs.values()],
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
            await prioritizer.writer._apply_budget(namespace)
        tasks = [asyncio.ensure_future(informer.run()) for informer in prioritizer.informers]
        await asyncio.gather(*(informer.wait_synced() for informer in prioritizer.informers))
        gc.collect()
        gc.freeze()  # the objects of the API server in this process are not the service's to collect
        first: list[float] = []
        idle: list[float] = []
        busy: list[float] = []
        before = len(api.requests)
        cpu = time.process_time()
        for _ in range(PASSES):
            prioritizer.job_facts.refresh([])
            prioritizer.pod_facts.refresh([])
            with _took(first):
                await prioritizer.writer.carry_out(await prioritizer.decide())
        cpu = (time.process_time() - cpu) / PASSES
        for _ in range(PASSES):
            with _took(idle):
                await prioritizer.writer.carry_out(await prioritizer.decide())
        idle_writes = sum(request.method in WRITES for request in api.requests[before:])
        for turn in range(PASSES):
            for pod in pods[turn * CHANGED : (turn + 1) * CHANGED]:
                name = pod["metadata"]["name"]
                api.edit(PODS, pod["metadata"]["namespace"], name, lambda o: o["status"].update(reason="x"))
            await asyncio.sleep(0.3)
            with _took(busy):
                await prioritizer.decide()
        gc.unfreeze()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert len(pods) == 10_000
    return [
        _figure("prioritizer.pass_10k.seconds", statistics.median(first), "s", "<= 0.3"),
        _figure("prioritizer.pass_10k.cpu_seconds", cpu, "s"),
        _figure("prioritizer.pass_10k.idle_seconds", statistics.median(idle), "s"),
        _figure("prioritizer.pass_10k.busy_seconds", statistics.median(busy), "s"),
        _figure("prioritizer.idle_writes", idle_writes, "writes", "<= 0"),
    ]


async def _steady() -> list[Figure]:
    """The service as a process of its own, 10,000 pods running and time passing: start-overs, and figures that move."""
    clock = VirtualClock(datetime.now(UTC))
    jobs, pods, budgets = _settled(clock)
    async with FakeApi() as api:
        for resource, objects in ((SCAVENGERJOBS, jobs), (PODS, pods)):
            for obj in objects:
                api.put(resource, obj)
        for namespace in budgets:
            labels = {names.LABEL_MANAGED_BY: names.PRIORITIZER}
            metadata = {"name": names.DISRUPTION_BUDGET, "namespace": namespace, "labels": labels}
            api.put(PODDISRUPTIONBUDGETS, {"metadata": metadata, "spec": dict(BUDGET_SPEC)})
        with tempfile.TemporaryDirectory() as folder:
            config = api.write_kubeconfig(Path(folder))
            port = any_free_port()
            flags = [f"--health-port={port}", "--leader-elect=false", "--log-level=warning"]
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "scavenger_prioritizer", f"--kubeconfig={config}", *flags
            )
            try:
                return await _watched(f"http://127.0.0.1:{port}/metrics")
            finally:
                process.terminate()
                await process.wait()


async def _watched(url: str) -> list[Figure]:
    async with aiohttp.ClientSession() as session:

        async def metrics() -> dict[str, float]:
            async with session.get(url) as response:
                lines = (await response.text()).splitlines()
            found: dict[str, float] = {}
            for line in lines:
                if not line.startswith("#"):
                    name, _, value = line.rpartition(" ")
                    name = name.partition("{")[0]
                    found[name] = found.get(name, 0.0) + float(value)
            return found

        for _ in range(300):
            with suppress(aiohttp.ClientError):
                if (await metrics()).get("scavenger_preemption_passes_total", 0) >= 1:
                    break
            await asyncio.sleep(0.1)
        before = await metrics()
        await asyncio.sleep(STEADY_SECONDS)
        after = await metrics()
    cpu = after["process_cpu_seconds_total"] - before["process_cpu_seconds_total"]
    written = after.get("scavenger_preemption_writes_total", 0) - before.get("scavenger_preemption_writes_total", 0)
    return [
        _figure("prioritizer.steady_10k.rss_mb", after["process_resident_memory_bytes"] / 1e6, "MB"),
        _figure("prioritizer.steady_10k.cpu_cores", cpu / STEADY_SECONDS, "cores"),
        _figure("prioritizer.steady_10k.writes_per_second", written / STEADY_SECONDS, "1/s"),
    ]


def _figure(name: str, value: float, unit: str, goal: str | None = None) -> Figure:
    return {"name": name, "value": round(value, 4), "unit": unit, "goal": goal}


async def _both() -> list[Figure]:
    return [*await _measure(), *await _steady()]


def run() -> list[Figure]:
    """The figures of this benchmark."""
    logging.disable(logging.CRITICAL)  # the fake server's complaints about clients that leave
    try:
        return asyncio.run(_both())
    finally:
        logging.disable(logging.NOTSET)
