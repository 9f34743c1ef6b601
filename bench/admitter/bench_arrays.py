"""What an array of 100,000 tasks costs in a cycle of admission, snapshot included.

2,000 nodes of 50 cores, three queues, one of which has the array; the others have a thousand jobs each.

- arrays.100000_cycle_seconds: a cycle that starts as many as one may (5,000 pods); processor time, the least of five.
- arrays.100000_full_cycle_seconds: a cycle that finds no room.
- arrays.cycle_ratio_to_jobs: the first cycle ÷ the same with 100,000 jobs of one pod in the place of the array.
- arrays.100000_mb: what the admitter allocates for an array whose status is as large as one can be, from its bytes to
  its next status; without pods, which cost what the pods of jobs do.

A look at an array of 12,000 tasks of which 10,000 run and 1,000 have ended and are kept, on 500 nodes. Between two
looks one pod has changed. Processor time, the median of many, without what is written:
- arrays.10000_look_ms: with the pods in buckets.
- arrays.10000_look_ms_reading_all_pods: the same look, at which every pod is read.
- arrays.10000_pod_event_us: what an informer's event costs that moves a pod to another bucket.
- arrays.10000_starting_look_ms, arrays.10000_starting_look_ms_reading_all_pods: the same, where the 10,000 start.
"""

from __future__ import annotations

import asyncio
import json
import random
import statistics
import time
import tracemalloc
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any, Final

import msgspec
from scavenger_admitter.controller import Admitter
from scavenger_admitter.core.admission.cycle.plan import AdmissionPlan, plan_admissions
from scavenger_admitter.core.admission.load import LoadRule
from scavenger_admitter.core.admission.shape import Shape
from scavenger_admitter.core.admission.snapshot import Candidate, Grant, QueueView
from scavenger_admitter.core.admission.view.state import ClusterState
from scavenger_admitter.core.lifecycle.books.tasks import Tasks
from scavenger_admitter.core.lifecycle.confirmed import confirm
from scavenger_admitter.core.lifecycle.observation import Observation, Seen
from scavenger_admitter.core.lifecycle.plan import plan_job
from scavenger_admitter.settings import AdmitterSettings
from scavenger_admitter.writer import SCAVENGERJOBS
from scavenger_api import names, pod_names
from scavenger_api.indexes import all_of
from scavenger_api.job import ScavengerJob
from scavenger_api.times import format_micro_time, format_time
from scavenger_kube import resources
from scavenger_kube.kinds import ContainerState, ContainerStatus, Pod, PodStatus, Running
from scavenger_runtime.probes import ProbeServer
from scavenger_runtime.service import ServiceContext
from scavenger_testing import FakeApi, VirtualClock, builders, node_dict, running, scavengerjob_dict, terminated
from scavenger_testing.clock import START

NODES: Final = 2_000
CORES: Final = 50
TASKS: Final = 100_000
OTHERS: Final = 1_000
QUEUES: Final = ("a", "b", "c")
NOW: Final = 1_800_000_000_000_000
REPEAT: Final = 5
LOOKS: Final = 100
RUNNING: Final = 10_000
KEPT: Final = 1_000
ARRAY: Final = "lab/sweep"
SUFFIX: Final = "xbcdf"
"""Of the names of its pods."""
ONE: Final = Shape.of({"cpu": 1000, "memory": 1 << 30})


def run() -> list[dict[str, Any]]:
    """The figures."""
    seconds = min(_cycle(array=True)[0] for _ in range(REPEAT))
    jobs = min(_cycle(array=False)[0] for _ in range(REPEAT))
    full = min(_cycle(array=True, full=True)[0] for _ in range(REPEAT))
    return [
        {"name": "arrays.100000_cycle_seconds", "value": seconds, "unit": "s", "goal": "<= 0.5"},
        {"name": "arrays.100000_full_cycle_seconds", "value": full, "unit": "s", "goal": "<= 0.5"},
        {"name": "arrays.100000_mb", "value": _megabytes(), "unit": "MB", "goal": "<= 100"},
        *asyncio.run(_looks(starting=False)),
        *asyncio.run(_looks(starting=True)),
        {"name": "arrays.cycle_ratio_to_jobs", "value": seconds / jobs, "unit": "ratio", "goal": None},
    ]


def _cycle(*, array: bool, full: bool = False) -> tuple[float, AdmissionPlan]:
    """Processor time of a cycle, and its plan."""
    state = ClusterState()
    for number in range(NODES):
        state.apply_node(builders.node(f"n{number:04}", cpu=str(CORES), memory="1000Gi"))
    for queue in QUEUES:
        state.apply_queue(QueueView(queue, weight=1))
    for number in range(1 if array else TASKS):
        state.apply_candidate(_job("a", number, TASKS if array else 0))
    for queue in QUEUES[1:]:
        for number in range(OTHERS):
            state.apply_candidate(_job(queue, number))
    if full:
        for number in range(NODES):
            name = f"n{number:04}"
            whole = Shape.of({"cpu": CORES * 1000})
            state.assumed_starts.assume(f"other/{number}", Grant("r", whole, 1, (name,)), queue="a")
    began = time.process_time()
    made = plan_admissions(state.snapshot(now=NOW, rule=LoadRule.fixed(100)))
    return time.process_time() - began, made


def _job(queue: str, number: int, tasks: int = 0) -> Candidate:
    uid = f"{queue}{number:06}"
    return Candidate(f"ns/{queue}-{number}", uid, queue, ONE, queued_at=number + 1, tasks=tasks)


async def _looks(*, starting: bool) -> list[dict[str, Any]]:
    """What looks at a large array cost, whose tasks run or start."""
    async with FakeApi() as api:
        clock = VirtualClock()
        now = format_time(clock.now() - timedelta(minutes=5))
        _fill(api, format_micro_time(clock.now() - timedelta(minutes=10)), now, starting=starting)
        settings = AdmitterSettings(leader_elect=False, health_port=0)
        context = ServiceContext(names.ADMITTER, settings, api.client(), ProbeServer("127.0.0.1", 0), clock)
        admitter = Admitter(context)
        try:
            await context.wait_synced()
            figures = _Looks(admitter, clock)
            buckets = figures.median(LOOKS)
            event = figures.event_seconds / LOOKS
            figures.read_all()
            every = figures.median(LOOKS // 10)
        finally:
            await context.close()
    look = f"arrays.{RUNNING}{'_starting' if starting else ''}_look_ms"
    events = {"name": f"arrays.{RUNNING}_pod_event_us", "value": event * 1e6, "unit": "us", "goal": "<= 100"}
    return [
        {"name": look, "value": buckets * 1e3, "unit": "ms", "goal": "<= 20"},
        {"name": f"{look}_reading_all_pods", "value": every * 1e3, "unit": "ms", "goal": None},
        *([] if starting else [events]),
    ]


class _Looks:
    """Looks at the one array, each after one of its pods has changed."""

    def __init__(self, admitter: Admitter, clock: VirtualClock) -> None:
        self.admitter = admitter
        self.clock = clock
        self.event_seconds = 0.0
        self.number = 0
        self.changed: tuple[str, PodStatus] | None = None

    def median(self, looks: int) -> float:
        """Processor time of one, in seconds."""
        self.look()
        return statistics.median(self.look() for _ in range(looks))

    def read_all(self) -> None:
        """Read every pod from now on."""
        informers, records = self.admitter._informers, self.admitter._records

        def look(job: ScavengerJob, told: Iterable[str]) -> tuple[Sequence[Pod], None]:
            records[job.key].told_as = None
            return informers.pods.by_index("job", job.key), None

        informers.look = look  # type: ignore[method-assign]

    def look(self) -> float:
        """Processor time of one, in seconds."""
        self._change_a_pod()
        admitter = self.admitter
        began = time.process_time()
        job = admitter._informers.job(ARRAY)
        assert job is not None
        found = confirm(admitter._reconciler._observer.observe(ARRAY, job))
        assert found is not None
        admitter._feed.update(ARRAY, job, found.value)
        took = time.process_time() - began
        assert found.value.status.array is not None
        assert found.value.status.array.running in (RUNNING - 1, RUNNING, 0, 1)
        return took

    def _change_a_pod(self) -> None:
        """The container of a task that runs has ended, that of one that starts runs; the one before is as it was."""
        key = pod_names.pod_name(ARRAY, self.number % RUNNING, SUFFIX)
        pod = self.admitter._informers.pods.get(key)
        assert pod is not None
        if self.changed is not None:
            self._change(*self.changed)
        self.changed = key, pod.status
        if pod.status.phase == "Running":
            self._change(key, msgspec.structs.replace(pod.status, phase="Failed"))
        else:
            begun = ContainerStatus("main", ContainerState(running=Running(format_time(self.clock.now()))))
            self._change(key, msgspec.structs.replace(pod.status, phase="Running", container_statuses=(begun,)))
        self.number += 1

    def _change(self, key: str, status: PodStatus) -> None:
        cache = self.admitter._informers.pods._cache
        pod = cache.get(key)
        assert pod is not None
        version = str(int(pod.metadata.resource_version) + 1)
        meta = msgspec.structs.replace(pod.metadata, resource_version=version)
        changed = cache.put(msgspec.structs.replace(pod, metadata=meta, status=status))
        began = time.process_time()
        for change in changed:
            self.admitter._informers._on_pod(change)
        self.event_seconds += (time.process_time() - began) / 2


def _fill(api: FakeApi, queued: str, started: str, *, starting: bool) -> None:
    """The array, its Job and its pods."""
    array = Tasks(12_000, completed=((1 << KEPT) - 1) << RUNNING).status(0 if starting else all_of(RUNNING))
    status = {"queuedTimestamp": queued, "runningTimestamps": [started], "array": array.to_dict(), "jobName": "sweep"}
    namespace, _, name = ARRAY.partition("/")
    job = scavengerjob_dict(
        name, namespace=namespace, array={"tasks": 12_000, "maxRunning": RUNNING}, phase="Running", status=status
    )
    api.put(SCAVENGERJOBS, job)
    uid = api.list(SCAVENGERJOBS)[0]["metadata"]["uid"]
    owner = {"apiVersion": "scavenger.dev/v1alpha1", "kind": "ScavengerJob", "name": name, "uid": uid}
    meta = {"name": name, "namespace": namespace, "annotations": {names.ANNOTATION_RUN: queued}}
    batch = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {**meta, "ownerReferences": [{**owner, "controller": True}]},
        "spec": {"managedBy": names.MANAGED_BY},
    }
    api.put(resources.JOBS, batch)
    job_uid = api.list(resources.JOBS)[0]["metadata"]["uid"]
    for number in range(RUNNING // 20):
        api.put(resources.NODES, node_dict(f"n{number}", cpu="50", memory="1000Gi"))
    for index in range(RUNNING + KEPT):
        pod = _pod(index, job_uid, queued, started)
        if starting and index < RUNNING:
            waiting = {"name": "main", "state": {"waiting": {"reason": "ContainerCreating"}}}
            pod["status"] |= {"phase": "Pending", "containerStatuses": [waiting]}
        api.put(resources.PODS, pod)


def _pod(index: int, owner: str, queued: str, started: str) -> dict[str, Any]:
    namespace, _, name = ARRAY.partition("/")
    runs = index < RUNNING
    state = running(started=started) if runs else terminated(0, finished=started)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod_names.pod_name(name, index, SUFFIX),
            "namespace": namespace,
            "creationTimestamp": started,
            "labels": {names.LABEL_JOB: name, names.LABEL_QUEUE: "default", names.LABEL_TASK: str(index)},
            "annotations": {names.ANNOTATION_RUN: queued, names.ANNOTATION_RUNNING_PRIORITY: "300"},
            "finalizers": [names.FINALIZER] if runs else [],
            "ownerReferences": [
                {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": owner, "controller": True}
            ],
        },
        "spec": {
            "nodeName": f"n{index % (RUNNING // 20)}",
            "containers": [{"name": "main", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}],
        },
        "status": {
            "phase": "Running" if runs else "Succeeded",
            "startTime": started,
            "containerStatuses": [state],
        },
    }


def _megabytes() -> float:
    """The most that is allocated at a time."""
    rng = random.Random(1)
    completed = rng.getrandbits(TASKS)
    failed = all_of(TASKS) & ~completed & rng.getrandbits(TASKS)
    retries = {index: rng.randrange(1, 16) for index in range(TASKS)}
    array = Tasks(TASKS, completed, failed, retries=retries).status(0)
    fields = scavengerjob_dict("a", array={"tasks": TASKS}, phase="Running", status={"array": array.to_dict()})
    body = json.dumps(fields)
    tracemalloc.start()
    seen = Observation(Seen(job=ScavengerJob.model_validate_json(body), batch=None, pods=(), nodes={}, now=START))
    made = plan_job(seen)
    assert made.startable
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most / 2**20
