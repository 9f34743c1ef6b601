"""The admitter as a whole, on the API server in memory; scheduler and kubelets are played here."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeVar

import structlog
from scavenger_admitter.controller import Admitter
from scavenger_admitter.settings import AdmitterSettings
from scavenger_admitter.success_evidence import NAMESPACE as NODE_LEASES
from scavenger_admitter.success_evidence import RENEWED_EVERY
from scavenger_admitter.writer import SCAVENGERJOBS
from scavenger_api import names
from scavenger_api.times import format_micro_time, format_time
from scavenger_kube.client import ApiClient
from scavenger_kube.errors import Unavailable
from scavenger_kube.resources import EVENTS, JOBS, LEASES, NODES, PODS
from scavenger_prioritizer.controller import main as prioritizer_main
from scavenger_prioritizer.settings import PrioritizerSettings
from scavenger_runtime.clock import Clock
from scavenger_runtime.probes import ProbeServer
from scavenger_runtime.service import ServiceContext
from scavenger_testing import (
    FakeApi,
    VirtualClock,
    adopted_job_dict,
    node_dict,
    patches,
    running,
    scavengerjob_dict,
    settle,
    terminated,
)
from scavenger_testing.answers import Request
from scavenger_testing.faults import WRITES, Fault

NS = "lab"
INDEX = "batch.kubernetes.io/job-completion-index"
JOB_WATCHES = "/apis/batch/v1/jobs?watch"

ALONE: Mapping[str, Any] = {"leader_elect": False, "health_port": 0}
"""Settings of a service of which there is one."""

HANGING_TURNS = 10
BUSY_TURNS = 1000

Object = dict[str, Any]
T = TypeVar("T")


@dataclass(slots=True)
class FirstWrites(Fault):
    """A conflict for the first write to each object, whatever it is."""

    met: set[str] = field(default_factory=set)

    def fits(self, request: Request) -> bool:
        if request.method not in self.methods or request.path in self.met or "/leases" in request.path:
            return False
        self.met.add(request.path)
        return True


class Threads(ThreadPoolExecutor):
    """The threads that plans are computed in; `quiet` waits for them as for requests."""

    def __init__(self) -> None:
        super().__init__(max_workers=4)
        self._begun: list[Future[Any]] = []

    def submit(self, *words: Any, **options: Any) -> Future[Any]:
        future = super().submit(*words, **options)
        self._begun.append(future)
        return future

    @property
    def busy(self) -> bool:
        self._begun = [future for future in self._begun if not future.done()]
        return bool(self._begun)


class Harness:
    """A small cluster: `tick()` plays everybody but the admitter for one moment.

    kubelet: whether pods are bound and run. renews: whether Leases of nodes are renewed all the same. stopping: exit
    code of pods that are deleted while they run. last_words: their termination message, `{now}` in it is the time.
    lost: names of Jobs whose creation, and `name/status` of ScavengerJobs whose status is on its way, for ever or until
    `arrive`. injected: what admission adds to the lists of a pod's spec. admission: what it does besides with what the
    admitter creates; it may raise.
    """

    def __init__(self, api: FakeApi, clock: VirtualClock) -> None:
        self.api = api
        self.clock = clock
        self.kubelet = True
        self.renews = False
        self.binds_to = "n1"
        self.stopping = 137
        self.last_words = ""
        self.injected: Object = {}
        self.admission: Callable[[Object], None] = lambda body: None
        self.lost: set[str] = set()
        self.arrivals = asyncio.Condition()
        self.under_way = 0
        self.threads = Threads()
        asyncio.get_running_loop().set_default_executor(self.threads)
        self._admitters: list[Instance] = []
        self._others: list[Neighbour] = []
        self._renewed: dict[str, datetime] = {}

    # --- set-up -------------------------------------------------------------------------------------

    def node(self, name: str = "n1", cpu: str = "100", memory: str = "400Gi", **more: Any) -> None:
        self.api.put(NODES, node_dict(name, cpu=cpu, memory=memory, **more))

    def submit(self, name: str, **spec: Any) -> None:
        self.api.put(SCAVENGERJOBS, scavengerjob_dict(name, namespace=NS, created=self.stamp(), **spec))

    def submit_job(self, name: str, *, annotations: Mapping[str, str] | None = None, **spec: Any) -> None:
        """A Job that the admitter has adopted, as the API server has it."""
        self.api.put(JOBS, adopted_job_dict(name, namespace=NS, created=self.stamp(), annotations=annotations, **spec))

    def batch(self, name: str) -> Object:
        """A Job; {} where there is none."""
        return dict(self.api.get(JOBS, NS, name) or {})

    def job_condition(self, name: str, kind: str) -> Object:
        """A condition of a Job; {} where it has none."""
        found = self.batch(name).get("status", {}).get("conditions", ())
        return next((one for one in found if one["type"] == kind), {})

    def ledger_of(self, name: str) -> Object:
        """What the ledger of a Job says; {} where it has none."""
        found: Object = json.loads(self.job_condition(name, names.CONDITION_LEDGER).get("message", "{}"))
        return found

    async def arrive(self, *names: str) -> None:
        """What was lost of these until now reaches the API server."""
        async with self.arrivals:
            self.lost.difference_update(names)
            self.arrivals.notify_all()

    def conflict_on_first_writes(self) -> None:
        fault = FirstWrites("fail", 1, WRITES, "", 409, "Conflict")
        self.api.faults.add(fault)

    def admitter(self, *, skew: float = 0.0, **settings: Any) -> Instance:
        """An admitter at work; `skew`: seconds by which the wall clock of its machine is ahead."""
        instance = Instance(self, settings, Skewed(self.clock, timedelta(seconds=skew)))
        self._admitters.append(instance)
        return instance

    def prioritizer(self, **settings: Any) -> None:
        """The prioritizer at work beside the admitter."""
        self._others.append(Neighbour(self, prioritizer_main, PrioritizerSettings(**{**ALONE, **settings})))

    def client(self) -> ApiClient:
        """A client whose requests `quiet` waits for."""
        return _Client(self)

    def user(self) -> ApiClient:
        """A client of somebody else's."""
        return self.api.client(request_timeout=2.0)

    async def close(self) -> None:
        for instance in (*self._admitters, *self._others):
            await instance.kill()

    # --- what there is ------------------------------------------------------------------------------

    def status(self, name: str) -> dict[str, Any]:
        found = self.api.get(SCAVENGERJOBS, NS, name)
        return {} if found is None else dict(found.get("status") or {})

    def phase(self, name: str) -> str:
        return str(self.status(name).get("phase", ""))

    def phases(self) -> dict[str, str]:
        found = self.api.stored(SCAVENGERJOBS)
        return {job["metadata"]["name"]: str((job.get("status") or {}).get("phase", "")) for job in found}

    def pods(self, name: str) -> list[Object]:
        return [pod for pod in self.api.list(PODS) if pod["metadata"].get("labels", {}).get(names.LABEL_JOB) == name]

    def held(self) -> list[str]:
        """Pods with our finalizer."""
        return [p["metadata"]["name"] for p in self.api.stored(PODS) if _held(p)]

    def jobs_ever(self, name: str) -> int:
        """How many batch/v1 Jobs of that name there have ever been."""
        return len({uid for kind, uid, which in self._ever("jobs") if which == name})

    def starts(self) -> list[str]:
        """The names of the batch/v1 Jobs, in the order in which they were created."""
        found: dict[str, str] = {}
        for _, uid, name in self._ever("jobs"):
            found.setdefault(uid, name)
        return list(found.values())

    def most_at_once(self, name: str) -> int:
        """The most pods of a ScavengerJob that were not known to have ended at any one time."""
        alive: dict[str, bool] = {}
        most = 0
        for entry in self.api.store.history:
            obj = entry.new or entry.old
            if entry.kind.plural != "pods" or obj is None:
                continue
            if obj["metadata"].get("labels", {}).get(names.LABEL_JOB) == name:
                alive[obj["metadata"]["uid"]] = entry.new is not None and not _ended(entry.new)
                most = max(most, sum(alive.values()))
        return most

    def events(self, reason: str = "") -> list[Object]:
        return [event for event in self.api.list(EVENTS) if not reason or event["reason"] == reason]

    def status_writes(self, name: str = "") -> int:
        return self.api.count("PATCH", f"/scavengerjobs/{name}")

    def writes(self) -> list[tuple[str, str]]:
        return [(r.method, r.path) for r in self.api.requests if r.method in WRITES]

    def _ever(self, plural: str) -> list[tuple[str, str, str]]:
        core = (e for e in self.api.store.history if "metrics" not in e.kind.api_version)  # has pods as well
        created = [e.new for e in core if e.kind.plural == plural and e.old is None and e.new]
        return [(plural, obj["metadata"]["uid"], obj["metadata"]["name"]) for obj in created]

    # --- what happens -------------------------------------------------------------------------------

    def stamp(self) -> str:
        return format_time(self.clock.now())

    def renew_leases(self) -> None:
        """Kubelets renew the Leases of their nodes."""
        now = self.clock.now()
        for node in self.api.stored(NODES):
            name = node["metadata"]["name"]
            due = self._renewed.get(name, now - RENEWED_EVERY) + RENEWED_EVERY <= now
            if due and self.answers(name):
                self._renewed[name] = now
                spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": format_micro_time(now)}
                self.api.put(LEASES, {"metadata": {"name": name, "namespace": NODE_LEASES}, "spec": spec})

    def answers(self, node: str) -> bool:
        """Whether the kubelet of a node works."""
        return self.kubelet or self.renews

    def tick(self) -> None:
        """The scheduler and the kubelets do what is to be done at this moment."""
        self.renew_leases()
        for pod in self.api.stored(PODS):
            if _ended(pod):
                continue
            if "deletionTimestamp" in pod["metadata"]:
                if pod["spec"].get("nodeName") and self.kubelet:
                    self.end(pod, self.stopping)
                elif not pod["spec"].get("nodeName"):
                    self._status(pod, phase="Failed")  # as the pod garbage collector does with unplaced ones
            elif self.kubelet and pod["status"].get("phase") == "Pending":
                self.run(pod)

    def injected_into(self, pod: Object) -> Object:
        for name, more in self.injected.items():
            pod["spec"][name] = [*pod["spec"].get(name, ()), *more]
        return pod

    def run(self, pod: Object) -> None:
        def edit(obj: Object) -> None:
            obj["spec"]["nodeName"] = self.binds_to
            status = {"phase": "Running", "startTime": self.stamp()}
            obj["status"] = {**status, "containerStatuses": [running(started=self.stamp())]}

        self.api.edit(PODS, pod["metadata"]["namespace"], pod["metadata"]["name"], edit)

    def end(self, pod: Object, code: int = 0) -> None:
        ended = terminated(code, finished=self.stamp())
        ended["state"]["terminated"]["message"] = self.last_words.format(now=self.stamp())
        begun = next(iter(pod["status"].get("containerStatuses", ())), None)
        if begun is not None and "running" in begun["state"]:
            ended["state"]["terminated"]["startedAt"] = begun["state"]["running"]["startedAt"]
        self._status(pod, phase="Failed" if code else "Succeeded", containerStatuses=[ended])

    def succeed(self, name: str) -> None:
        for pod in self.pods(name):
            if not _ended(pod):
                self.end(pod)

    def delete_pod(self, pod: Object, grace: int = 30) -> None:
        """What `kubectl delete pod` does; the kubelet ends it at the next tick."""

        def edit(obj: Object) -> None:
            obj["metadata"]["deletionTimestamp"] = self.stamp()
            obj["metadata"]["deletionGracePeriodSeconds"] = 0 if grace == 0 else None
            obj["metadata"] = {key: value for key, value in obj["metadata"].items() if value is not None}

        self.api.edit(PODS, pod["metadata"]["namespace"], pod["metadata"]["name"], edit)

    def event(
        self, about: Object, reason: str, message: str, *, namespace: str = NS, about_namespace: str = "", **other: str
    ) -> None:
        """An Event about an object; `namespace`: its own, and, unless told otherwise, that of its involvedObject.
        `other`: name or uid of the involvedObject, where they are not the object's. The same one again is counted."""
        meta = about["metadata"]
        involved = {"kind": about["kind"], "name": meta["name"], "uid": meta["uid"], **other}
        name = f"{meta['name']}.{reason}"
        before = self.api.get(EVENTS, namespace, name)
        self.api.put(
            EVENTS,
            {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"name": name, "namespace": namespace},
                "involvedObject": {**involved, "namespace": about_namespace or namespace},
                "type": "Warning",
                "reason": reason,
                "message": message,
                "count": 1 if before is None else before["count"] + 1,
                "lastTimestamp": self.stamp(),
            },
        )

    def _status(self, pod: Object, **fields: Any) -> None:
        def edit(obj: Object) -> None:
            obj["status"] = {**obj["status"], **fields}

        self.api.edit(PODS, pod["metadata"]["namespace"], pod["metadata"]["name"], edit)

    # --- time ---------------------------------------------------------------------------------------

    async def until(self, condition: Callable[[], Any], *, limit: float = 60.0, step: float | None = None) -> float:
        """Let virtual time pass until the condition holds; returns how much did. Raises TimeoutError."""
        began = self.clock.monotonic()
        while not condition():
            if self.clock.monotonic() - began > limit:
                raise TimeoutError(f"not within {limit} s: {self.phases()}")
            passed = self.clock.monotonic() - began
            await self.turn(step if step is not None else 0.1 if passed < 3 else 0.5)
        return self.clock.monotonic() - began

    async def run_to_end(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of somebody else's work, with everybody taking turns."""
        task = asyncio.ensure_future(work)
        await self.until(task.done)
        return task.result()

    async def turn(self, seconds: float = 0.1) -> None:
        """Everybody else's turn, and some time for the admitter's requests."""
        self.tick()
        await self.clock.advance(seconds)
        await self.quiet()

    async def quiet(self) -> None:
        """Return when every request has been answered and nothing follows, however busy the machine is; requests that
        hang are left to themselves."""
        patience = 0
        while patience < (HANGING_TURNS if self._hanging() else BUSY_TURNS):
            before = len(self.api.requests)
            await settle()
            if self.under_way or self.threads.busy:
                await asyncio.sleep(0.001)
                patience += self.under_way > 0
            elif before == len(self.api.requests):
                return

    def _hanging(self) -> bool:
        return any(fault.action == "hang" and fault.times for fault in self.api.faults)

    async def pass_time(self, seconds: float, step: float = 1.0) -> None:
        until = self.clock.monotonic() + seconds
        while self.clock.monotonic() < until:
            await self.turn(step)


class _Client(ApiClient):
    def __init__(self, harness: Harness) -> None:
        super().__init__(harness.api.url, request_timeout=2.0, session=harness.api.session())
        self._harness = harness
        self._closed = False

    async def close(self) -> None:
        self._closed = True
        await self._harness.arrive()
        await super().close()

    async def request(self, *words: Any, **options: Any) -> bytes:
        if words[0] == "POST" and words[1].endswith("/jobs"):
            await self._lost(options["body"]["metadata"]["name"])
        if words[0] == "PATCH" and words[1].endswith("/status"):
            await self._lost(words[1].rpartition("/scavengerjobs/")[2])
        if words[0] == "POST":
            options["body"] = self._admitted(options["body"])
        self._harness.under_way += 1
        try:
            return await super().request(*words, **options)
        finally:
            self._harness.under_way -= 1

    def _admitted(self, body: Object | bytes) -> Object | bytes:
        if isinstance(body, bytes):  # a Lease
            return body
        body = patches.copied(body)
        self._harness.admission(body)
        return self._harness.injected_into(body) if body["kind"] == "Pod" else body

    async def _lost(self, name: str) -> None:
        if name not in self._harness.lost:
            return
        async with self._harness.arrivals:
            await self._harness.arrivals.wait_for(lambda: self._closed or name not in self._harness.lost)
        if self._closed:
            raise Unavailable


class Skewed:
    """The clock of a machine whose wall clock is so much ahead."""

    def __init__(self, clock: VirtualClock, skew: timedelta) -> None:
        self._clock = clock
        self.skew = skew
        self.monotonic = clock.monotonic
        self.sleep = clock.sleep

    def now(self) -> datetime:
        return self._clock.now() + self.skew


class Process:
    """A process of a service, as far as it is one."""

    context: ServiceContext[Any]
    task: asyncio.Task[None]

    async def kill(self) -> None:
        """End at once, with nothing finished."""
        await self.context.client.close()
        for _ in range(3):
            self.task.cancel()
            await asyncio.sleep(0)
        await asyncio.gather(self.task, return_exceptions=True)
        await self.context.close()


class Instance(Process):
    """An admitter."""

    def __init__(self, harness: Harness, settings: Mapping[str, Any], clock: Skewed) -> None:
        self.clock = clock
        self.settings = AdmitterSettings(**{**ALONE, "explain_after": 1.0, **settings})
        self.context = _context(harness, names.ADMITTER, self.settings, clock)
        self.admitter = Admitter(self.context)
        self.task = asyncio.create_task(self.context.lead(self.admitter.lead))

    @property
    def admitting(self) -> bool:
        """It leads, and has looked at everything once."""
        return self.admitter.first_pass_done.is_set()


class Neighbour(Process):
    """Another service that writes about the same jobs."""

    def __init__(
        self, harness: Harness, main: Callable[[ServiceContext[Any]], Coroutine[Any, Any, None]], settings: Any
    ) -> None:
        self.context = _context(harness, names.PRIORITIZER, settings, harness.clock)
        self.task = asyncio.create_task(main(self.context))


def _context(harness: Harness, name: str, settings: Any, clock: Clock) -> ServiceContext[Any]:
    return ServiceContext(name, settings, harness.client(), ProbeServer("127.0.0.1", 0), clock)


@asynccontextmanager
async def harness(**settings: Any) -> AsyncIterator[Harness]:
    """A harness of one node with an admitter at work."""
    async with empty_harness() as made:
        made.node()
        made.admitter(**settings)
        yield made


async def runs(c: Harness, name: str, limit: float = 60.0) -> float:
    """Until the job runs; the seconds that took."""
    return await c.until(lambda: c.phase(name) == "Running", limit=limit)


@asynccontextmanager
async def running_job(*jobs: str, **settings: Any) -> AsyncIterator[Harness]:
    """A harness in which these jobs run, each of them submitted when the one before does."""
    async with harness(**settings) as made:
        for name in jobs:
            made.submit(name)
            await runs(made, name)
        yield made


@asynccontextmanager
async def empty_harness() -> AsyncIterator[Harness]:
    """A harness with nothing in it."""
    clock = VirtualClock()
    with structlog.testing.capture_logs():
        async with FakeApi(clock, listens=False) as api:
            made = Harness(api, clock)
            try:
                yield made
            finally:
                await made.close()


def _ended(pod: Object) -> bool:
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def _held(pod: Object) -> bool:
    return names.FINALIZER in pod["metadata"].get("finalizers", [])
