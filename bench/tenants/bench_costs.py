"""What the worst legal objects of one tenant cost, against the goals.

* admitter_mb_500_templates: the most resident memory of a real admitter, with 500 jobs that wait and have templates as
  large as the webhook allows: a fifth each of mounts, empty objects, volumes, variables and init containers. It lists
  them, and writes a status of each. The API server is in this process, and keeps jobs as JSON. As in a pod, the
  admitter does not import kubernetes_asyncio, which takes 45 MB and reads kubeconfigs.
* neighbour_starts_ratio: 400 jobs of one namespace start beside a pod of another namespace that no node takes, and
  that is made again every 25 s, for ten minutes before; against the same without that pod. Virtual time. A namespace
  slows starts for five minutes an hour, so these are over.
* gets_per_waiting_job_hour: single objects that the admitter reads for each of 20 jobs that wait for an hour, and
  need 64 claims each that do not exist. Virtual time.
* etcd_mb_per_array: bytes as JSON of one array with its Job and its pods when 200 tasks with 200 KiB each have
  completed. Virtual time.
"""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections.abc import Callable
from typing import Any, Final

import orjson
from scavenger_admitter.writer import SCAVENGERJOBS
from scavenger_api import names
from scavenger_kube.resources import JOBS, PODS
from scavenger_testing import FakeApi, pod_dict, scavengerjob_dict
from scavenger_testing.answers import Answer, Request
from scavenger_testing.processes import peak_kb

from tests.unit.admitter.harness import NS, empty_harness

Figure = dict[str, Any]
Value = dict[str, Any]

TEMPLATES: Final = 500
SETTLE_SECONDS: Final = 15.0
LONGEST_SECONDS: Final = 1800.0
STARTS: Final = 400
MADE_AGAIN_SECONDS: Final = 25
BEFORE_SECONDS: Final = 600
WAITING: Final = 20
CLAIMS: Final = 64
TASKS: Final = 200
TASK_BYTES: Final = 200 * 1024
HOUR: Final = 3600.0
AMOUNTS: Final = {"cpu": "1", "memory": "1Gi"}

LARGE: Final[dict[str, Callable[[int], Value]]] = {
    "volumeMounts": lambda number: {"name": "v", "mountPath": f"/{number}"},
    "hostAliases": lambda number: {},
    "volumes": lambda number: {"name": f"v{number}", "emptyDir": {}},
    "env": lambda number: {"name": f"E{number}", "valueFrom": {"fieldRef": {}}},
    "initContainers": lambda number: {"name": f"c{number}"},
}
"""Lists of which a template may have as many as fit."""
OF_CONTAINER: Final = ("volumeMounts", "env")


def run() -> list[Figure]:
    """The figures of this benchmark; a goal that is missed is shown, not raised."""
    return [
        {"name": "tenants.admitter_mb_500_templates", "value": asyncio.run(_memory()), "unit": "MB", "goal": "<= 250"},
        {"name": "tenants.neighbour_starts_ratio", "value": asyncio.run(_ratio()), "unit": "", "goal": "<= 2"},
        {"name": "tenants.gets_per_waiting_job_hour", "value": asyncio.run(_gets()), "unit": "", "goal": "<= 20"},
        {"name": "tenants.etcd_mb_per_array", "value": asyncio.run(_etcd()), "unit": "MB", "goal": "<= 16.8"},
    ]


# --- memory -----------------------------------------------------------------------------------------


def template(field: str, size: int) -> Value:
    """A pod template with as many entries in this field as make it so many bytes of JSON."""
    pod: Value = {"containers": [{"name": "main", "image": "i", "resources": {"requests": AMOUNTS}}]}
    entries: list[Value] = []
    (pod["containers"][0] if field in OF_CONTAINER else pod)[field] = entries
    left = size - len(orjson.dumps(pod))
    while (left := left - len(orjson.dumps(LARGE[field](len(entries)))) - 1) > 0:
        entries.append(LARGE[field](len(entries)))
    return {"spec": pod}


class Templates(FakeApi):
    """An API server that keeps ScavengerJobs as JSON: as objects, 500 with such templates take gigabytes."""

    def __init__(self) -> None:
        super().__init__()
        fields = list(LARGE)
        specs = [self._spec(field) for field in fields]
        self.jobs = {f"job-{number:03}": specs[number % len(fields)] for number in range(TEMPLATES)}
        self.status: dict[str, Value] = {}
        self._version = 1000

    @staticmethod
    def _spec(field: str) -> bytes:
        spec = scavengerjob_dict(template=template(field, names.MAX_SPEC_BYTES - 200))["spec"]
        return orjson.dumps({name: spec[name] for name in ("queue", "parallelism", "interruptionAfter", "template")})

    async def answer(self, request: Request) -> Answer:
        """Lists, reads and status writes of ScavengerJobs here; all else, watches too, as in memory."""
        found = re.search(r"/scavengerjobs(?:/([^/]+))?(/status)?$", request.path)
        if found is None or "watch" in request.query:
            return await super().answer(request)
        name = found[1]
        if name is None:
            return self._page(int(request.query.get("continue") or 0), int(request.query.get("limit") or TEMPLATES))
        if request.method == "PATCH":
            self._version += 1
            written = orjson.loads(request.body).get("status", {})
            kept = {**self.status.get(name, {}), **written, "": self._version}
            self.status[name] = {field: value for field, value in kept.items() if value is not None}
        return Answer(200, self._job(name))

    def _page(self, begin: int, limit: int) -> Answer:
        shown = list(self.jobs)[begin : begin + limit]
        more = f',"continue":"{begin + limit}"' if begin + limit < len(self.jobs) else ""
        head = f'{{"kind":"List","metadata":{{"resourceVersion":"1"{more}}},"items":['
        return Answer(200, head.encode() + b",".join(map(self._job, shown)) + b"]}")

    def _job(self, name: str) -> bytes:
        status = dict(self.status.get(name, {}))
        meta = {"name": name, "namespace": NS, "uid": f"uid-{name}", "resourceVersion": str(status.pop("", 1))}
        meta["creationTimestamp"] = "2026-01-01T00:00:00Z"
        head = {"apiVersion": names.API_VERSION, "kind": "ScavengerJob", "metadata": meta, "status": status}
        return orjson.dumps(head)[:-1] + b',"spec":' + self.jobs[name] + b"}"


AS_IN_POD: Final = """
import sys
from scavenger_kube import kubeconfig
from scavenger_kube.endpoint import Endpoint
server = sys.argv.pop(1)
kubeconfig.in_pod = lambda *_: True
kubeconfig.service_account = lambda *_: Endpoint(server)
from scavenger_admitter.__main__ import main
sys.exit(main())
"""
"""The admitter, of which the first argument is the URL of the API server."""


async def _memory() -> float:
    """MB at most."""
    async with Templates() as api:
        return await _peak(api) / 1e3 * 1.024


async def _peak(api: Templates) -> float:
    flags = ["--health-port=0", "--health-address=127.0.0.1", "--leader-elect=false"]
    command = [sys.executable, "-c", AS_IN_POD, api.url, *flags]
    process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.DEVNULL)
    try:
        began = time.monotonic()
        while len(api.status) < TEMPLATES:
            if process.returncode is not None or time.monotonic() - began > LONGEST_SECONDS:
                raise RuntimeError(f"the admitter has written of {len(api.status)} jobs: {process.returncode}")
            await asyncio.sleep(0.2)
        await asyncio.sleep(SETTLE_SECONDS)
        return peak_kb(process.pid)
    finally:
        process.kill()
        await process.wait()


# --- in virtual time --------------------------------------------------------------------------------


async def _ratio() -> float:
    return await _starts(beside=True) / await _starts(beside=False)


async def _starts(*, beside: bool) -> float:
    """Virtual seconds until all jobs of one namespace run."""
    async with empty_harness() as c:
        c.node(cpu=str(2 * STARTS), memory=f"{2 * STARTS}Gi", pods=str(2 * STARTS))
        admitter = c.admitter()
        await c.until(lambda: admitter.admitting)
        made = -HOUR

        def make_again() -> None:
            nonlocal made
            if beside and c.clock.monotonic() - made >= MADE_AGAIN_SECONDS:
                if made >= 0:
                    c.api.remove(PODS, "other", "stuck")
                reason = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}
                c.api.put(PODS, pod_dict("stuck", namespace="other", cpu="1", conditions=[reason], created=c.stamp()))
                made = c.clock.monotonic()

        c.kubelet = False  # no node takes the pod of the other namespace
        for _ in range(BEFORE_SECONDS):
            make_again()
            await c.pass_time(1.0)
        for number in range(STARTS):
            c.submit(f"job-{number}")
        began = c.clock.monotonic()
        while len(c.starts()) < STARTS:
            if c.clock.monotonic() - began > HOUR:
                raise RuntimeError(f"{len(c.starts())} of {STARTS} jobs have started")
            make_again()
            for pod in c.api.stored(PODS):
                if pod["metadata"]["namespace"] == NS and pod["status"].get("phase") == "Pending":
                    c.run(pod)
            await c.pass_time(0.25, step=0.25)
        return c.clock.monotonic() - began


async def _gets() -> float:
    async with empty_harness() as c:
        c.node(cpu="1")
        c.admitter()
        for job in range(WAITING):
            claims = [f"claim-{job}-{number}" for number in range(CLAIMS)]
            volumes = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]
            container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": "9", "memory": "1Gi"}}}
            _submit(c.api, f"job-{job}", c.stamp(), template={"spec": {"containers": [container], "volumes": volumes}})
        await c.pass_time(HOUR, step=2.0)
        return c.api.count("GET", "/persistentvolumeclaims/") / WAITING


async def _etcd() -> float:
    async with empty_harness() as c:
        c.node(cpu=str(TASKS), pods=str(2 * TASKS))
        c.admitter()
        container = {"name": "main", "image": "i", "resources": {"requests": AMOUNTS}}
        variables = [{"name": "LARGE", "value": "x" * TASK_BYTES}]
        pod = {"containers": [{**container, "env": variables}]}
        _submit(c.api, "array", c.stamp(), template={"spec": pod}, array={"tasks": TASKS})

        def done() -> bool:
            c.succeed("array")
            return c.phase("array") == "Completed"

        await c.until(done, limit=HOUR)
        await c.pass_time(60)
        kept = [one for kind in (SCAVENGERJOBS, JOBS, PODS) for one in c.api.stored(kind)]
        return sum(len(orjson.dumps(one)) for one in kept) / 1e6


def _submit(api: FakeApi, name: str, created: str, **spec: Any) -> None:
    job = scavengerjob_dict(name, namespace=NS, created=created, **spec)
    for field in ("image", "resources"):
        del job["spec"][field]
    api.put(SCAVENGERJOBS, job)
