"""Taking over with 10,000 jobs: from the moment a warm standby is elected until every job has been looked at once.

Half of the jobs run, one pod each, half wait, and nothing is to be done for any of them. The API server is the one in
memory that the unit tests use, in the same process, so its answers to the lists of the freshness check are in the
figures; that is little. Two jobs, one that runs and one that waits, are made by an admitter at work and copied.

  * takeover_seconds: from election to the first cycle; on a machine that does something else as well, look at
  * takeover_cpu_seconds: what the process computed meanwhile.
  * takeover_writes: requests that change something; none is needed.

Under pressure an ordinary pod waits for room all the time, 10,000 jobs run of whose progress something is to be
written, and one job more waits for which there is room:

  * takeover_pressed_seconds: from election to the Job of the first start, without what anybody computes meanwhile;
  * takeover_pressed_cpu_seconds: that, with the answers of the API server in memory.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

from scavenger_admitter.controller import Admitter
from scavenger_admitter.core.lifecycle.accounting import run_id
from scavenger_admitter.settings import AdmitterSettings
from scavenger_admitter.writer import SCAVENGERJOBS
from scavenger_api import names
from scavenger_api.times import format_time
from scavenger_kube.resources import JOBS, NODES, PODS, Resource
from scavenger_runtime.clock import Clock, SystemClock
from scavenger_runtime.logging import configure_logging
from scavenger_runtime.probes import ProbeServer
from scavenger_runtime.service import ServiceContext
from scavenger_testing import FakeApi, node_dict, pod_dict, running, scavengerjob_dict
from scavenger_testing.faults import WRITES
from scavenger_testing.virtual_loop import run_virtually

COUNT: Final = 10_000
NS: Final = "team"
PRESS_EVERY: Final = 1000
"""Looks, each a hundredth of a second or more apart, from one ordinary pod that waits to the next."""

Object = dict[str, Any]


class _Standby:
    """An admitter that is not elected yet."""

    def __init__(self, api: FakeApi, clock: Clock) -> None:
        settings = AdmitterSettings(leader_elect=False, health_port=0, explain_after=0.0)
        self.context = ServiceContext(names.ADMITTER, settings, api.client(), ProbeServer("127.0.0.1", 0), clock)
        self.admitter = Admitter(self.context)

    async def lead_while(self, work: Callable[[], Any]) -> None:
        """Lead until `work` says so."""
        await self.context.wait_synced()
        leading = asyncio.create_task(self.admitter.lead())
        try:
            while not work():  # noqa: ASYNC110 - the server in memory wakes nobody
                await asyncio.sleep(0.01)
        finally:
            leading.cancel()
            await asyncio.gather(leading, return_exceptions=True)
            await self.context.close()


async def _templates() -> tuple[list[Object], list[Object]]:
    """A job that runs, with its Job and its pod; and one that waits for room."""
    async with FakeApi() as api:
        api.put(NODES, node_dict("node-0", cpu="1.6", memory="400Gi"))
        now = format_time(SystemClock().now())
        for name in ("runs", "waits"):
            api.put(SCAVENGERJOBS, scavengerjob_dict(name, namespace=NS, created=now))

        def play() -> bool:
            for pod in api.list(PODS):
                if "nodeName" not in pod["spec"]:
                    api.put(PODS, _bound(pod, now))
            found = {job["metadata"]["name"]: job.get("status") or {} for job in api.list(SCAVENGERJOBS)}
            phases = {status.get("phase") for status in found.values()}
            told = any(c["reason"] not in ("", "NotYet") for s in found.values() for c in s.get("conditions", ()))
            return phases == {"Running", "Waiting"} and told

        await asyncio.wait_for(_Standby(api, SystemClock()).lead_while(play), 60)
        ran = next(job for job in api.list(SCAVENGERJOBS) if job["status"]["phase"] == "Running")
        waits = next(job for job in api.list(SCAVENGERJOBS) if job["status"]["phase"] == "Waiting")
        return [ran, *api.list(JOBS), *api.list(PODS)], [waits]


def _bound(pod: Object, now: str) -> Object:
    """What scheduler and kubelet make of a pod."""
    status = {"phase": "Running", "startTime": now, "containerStatuses": [running(started=now)]}
    return {**pod, "spec": {**pod["spec"], "nodeName": "node-0"}, "status": status}


def _populate(api: FakeApi, templates: list[Object], numbers: range) -> None:
    """Copies of a job and what it has, one on every second node."""
    resources: dict[str, Resource[Any]] = {"ScavengerJob": SCAVENGERJOBS, "Job": JOBS, "Pod": PODS}
    uids = {one["metadata"]["uid"] for one in templates}
    name = templates[0]["metadata"]["name"]
    for template in templates:
        text = json.dumps(template).replace(f'"{name}', '"@name@').replace('"node-0"', '"@node@"')
        for uid in uids:
            text = text.replace(uid, uid[:-6] + "@uid@")
        for number in numbers:
            copy = text.replace("@name@", f"job-{number:06}").replace("@uid@", f"{number:06}")
            api.put(resources[template["kind"]], json.loads(copy.replace("@node@", f"node-{number // 10}")))


async def take_over(count: int = COUNT) -> dict[str, float]:
    """Wall and CPU seconds of the first pass, and what it wrote."""
    runs, waits = await _templates()
    async with FakeApi() as api:
        for number in range(count // 20):
            api.put(NODES, node_dict(f"node-{number}", cpu="10.1", memory="400Gi"))
        _populate(api, runs, range(count // 2))
        _populate(api, waits, range(count // 2, count))
        standby = _Standby(api, SystemClock())
        await standby.context.wait_synced()
        before = len(api.requests)
        began, cpu = time.monotonic(), time.process_time()
        await standby.lead_while(standby.admitter.first_pass_done.is_set)
        return {
            "seconds": time.monotonic() - began,
            "cpu": time.process_time() - cpu,
            "writes": sum(request.method in WRITES for request in api.requests[before:]),
        }


def start_under_pressure(count: int = COUNT) -> tuple[float, float]:
    """Seconds until the first start, on a clock that stands still while anybody computes; and what was computed."""
    runs, _ = asyncio.run(_templates())
    return run_virtually(1, lambda clock, _: _start_under_pressure(clock, runs, count))


async def _start_under_pressure(clock: Clock, runs: list[Object], count: int) -> tuple[float, float]:
    ran = runs[0]
    earlier = clock.now() - timedelta(hours=2)
    begun = format_time(earlier)
    ran["status"] |= {"runningTimestamps": [begun], "priorityStartOverTimestamp": begun}
    ran["status"]["queuedTimestamp"] = place = run_id(earlier - timedelta(seconds=5))
    for one in runs:
        one["metadata"]["creationTimestamp"] = begun
    for one in runs[1:]:
        one["metadata"]["annotations"][names.ANNOTATION_RUN] = place
    runs[2]["status"]["containerStatuses"] = [running(started=begun)]
    async with FakeApi(clock, listens=False) as api:
        for number in range(count // 10):
            api.put(NODES, node_dict(f"node-{number}", cpu="20.1", memory="400Gi"))
        _populate(api, runs, range(count))
        standby = _Standby(api, clock)
        await standby.context.wait_synced()
        api.put(SCAVENGERJOBS, scavengerjob_dict("first", namespace=NS, created=format_time(clock.now())))
        numbers = itertools.count()

        def started() -> bool:
            if next(numbers) % PRESS_EVERY == 0:
                api.put(PODS, _waits(f"ordinary-{next(numbers)}"))
            return api.get(JOBS, NS, "first") is not None

        began, cpu = clock.monotonic(), time.process_time()
        await standby.lead_while(started)
        return clock.monotonic() - began, time.process_time() - cpu


def _waits(name: str) -> Object:
    """An ordinary pod for which there is no room."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return pod_dict(name, cpu="100", conditions=[condition])


def run() -> list[dict[str, Any]]:
    """The figures for bench.json."""
    configure_logging(names.ADMITTER, level="warning")
    logging.getLogger("aiohttp").setLevel(logging.WARNING)
    found = asyncio.run(take_over())
    pressed, cpu = start_under_pressure()
    return [
        {"name": "scale.takeover_seconds", "value": round(found["seconds"], 2), "unit": "s", "goal": "<= 15"},
        {"name": "scale.takeover_cpu_seconds", "value": round(found["cpu"], 2), "unit": "s", "goal": ""},
        {"name": "scale.takeover_pressed_seconds", "value": round(pressed, 2), "unit": "s", "goal": "<= 15"},
        {"name": "scale.takeover_pressed_cpu_seconds", "value": round(cpu, 2), "unit": "s", "goal": ""},
        {"name": "scale.takeover_writes", "value": found["writes"], "unit": "writes", "goal": "<= 0"},
    ]
