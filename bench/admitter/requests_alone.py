"""The requests that the design asks for to start jobs, and nothing else, whoever sends them.

A ScavengerJob is created, then the Job that the admitter makes of it and its pod, with the admitter's rights; when the
pod runs, the status that the admitter writes then. Nobody plans, ranks, measures or explains, no webhook is asked, and
the only watch is that of the pods, by which plain Jobs are followed as well. So no implementation of the services takes
less.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec
from scavenger_admitter.core.lifecycle import accounting
from scavenger_admitter.core.lifecycle.confirmed import confirm
from scavenger_admitter.core.lifecycle.observation import Observation, Seen
from scavenger_admitter.core.manifest import job_manifest
from scavenger_admitter.core.pods_of_job import pods_of_job
from scavenger_admitter.settings import AdmitterSettings
from scavenger_admitter.writer import SCAVENGERJOBS, Writer
from scavenger_api import names
from scavenger_api.job import Phase, ScavengerJob
from scavenger_kube.client import ApiClient
from scavenger_kube.kinds import Job, Pod
from scavenger_kube.resources import JOBS, PODS
from scavenger_runtime.cache import Change
from scavenger_runtime.events import EventRecorder
from scavenger_runtime.informer import Informer
from scavenger_runtime.stale_marks import release

from bench.services.harness import TIMEOUT, delete_all, each, followed, pod_runs, scavenger_job

PREFIX: Final = "alone"
NAMESPACE: Final = "default"


async def start_jobs(user: ApiClient, admitter: ApiClient, count: int) -> list[Pod]:
    """Start jobs, and return their pods when each has a status that says Running. `user` creates ScavengerJobs;
    `admitter` has the admitter's rights. Raises TimeoutError when that takes too long."""
    starts = _Starts(user, admitter)
    async with followed(Informer(user, PODS, label_selector=names.LABEL_JOB), starts.on_pod), asyncio.timeout(TIMEOUT):
        await each(count, starts.create)
        return await asyncio.gather(*starts.statuses)


async def remove_jobs(user: ApiClient, admitter: ApiClient, pods: Sequence[Pod]) -> None:
    """Delete these jobs, and let go of their pods, which nobody else does."""
    metas = [pod.metadata for pod in pods]
    await each(len(metas), lambda n: release(admitter, NAMESPACE, metas[n].name, metas[n].uid))
    await delete_all(user, SCAVENGERJOBS, PREFIX, len(metas))


class _Starts:
    def __init__(self, user: ApiClient, admitter: ApiClient) -> None:
        self.statuses: Final = list[asyncio.Task[Pod]]()
        """One for each job that was created; done when its status is written."""
        self._user = user
        self._admitter = admitter
        self._grace = AdmitterSettings().max_termination_grace_period_seconds
        self._writer = Writer(admitter, EventRecorder(admitter, names.ADMITTER), max_grace_seconds=self._grace)
        self._running: defaultdict[str, asyncio.Future[Pod]] = defaultdict(asyncio.get_running_loop().create_future)

    def on_pod(self, change: Change[Pod]) -> None:
        """A pod was seen."""
        if change.new is not None and pod_runs(change.new):
            running = self._running[change.new.metadata.labels[names.LABEL_JOB]]
            if not running.done():
                running.set_result(change.new)

    async def create(self, number: int) -> None:
        """Create a ScavengerJob, its Job and its pod; the status follows when the pod runs."""
        body = await self._user.create(SCAVENGERJOBS, NAMESPACE, scavenger_job(number, PREFIX))
        job = ScavengerJob.model_validate_json(body)
        run = accounting.run_id(datetime.now(UTC))
        manifest = job_manifest(job, restarts=0, run=run, max_grace_seconds=self._grace, burstable=True)
        answer = await self._admitter.create(JOBS, NAMESPACE, manifest)
        (pod,) = pods_of_job(msgspec.json.decode(answer))
        await self._admitter.create(PODS, NAMESPACE, pod)
        batch = msgspec.json.decode(answer, type=Job)
        self.statuses.append(asyncio.create_task(self._write_status(job, batch)))

    async def _write_status(self, job: ScavengerJob, batch: Job) -> Pod:
        pod = await self._running[job.metadata.name]
        seen = Observation(Seen(job=job, batch=batch, pods=[pod], nodes={}, now=datetime.now(UTC)))
        decided = confirm(seen)
        if decided is None or decided.value.status.phase is not Phase.RUNNING:
            raise RuntimeError(f"{job.key} runs, and its status would not say so: {decided and decided.value.status}")
        await self._writer.write_status(job, decided)
        return pod
