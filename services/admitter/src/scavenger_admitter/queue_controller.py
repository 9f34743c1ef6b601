"""The controller of ScavengerQueues: their status, and the end of those that are deleted. Decides nothing.

One round a second over all queues, so that no queue is written more often than that, and only what has changed is
written. What a round does follows from what is there: when an admitter is killed in the middle, its successor goes on.

A queue carries a finalizer from the first round that sees it. When it is deleted, its jobs are deleted, and when the
last one is gone, the finalizer is taken off and the queue goes. A job that only another client's finalizer holds, and
that has no pods any more, is not waited for.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from typing import Any, Final

from prometheus_client import Gauge
from scavenger_api import names
from scavenger_api.array import ArrayStatus
from scavenger_api.job import Phase, ScavengerJob
from scavenger_api.queue import ScavengerQueue, ScavengerQueueStatus
from scavenger_kube.client import ApiClient
from scavenger_kube.errors import ApiError, Conflict, NotFound
from scavenger_runtime.cache import Change
from scavenger_runtime.clock import Clock
from scavenger_runtime.events import EventRecorder
from scavenger_runtime.logging import get_logger
from scavenger_runtime.metrics import unit_of

from scavenger_admitter import metrics
from scavenger_admitter.admission_loop import AdmissionLoop
from scavenger_admitter.core.admission.queue_status import queue_status
from scavenger_admitter.core.adopted.work import AdoptedJob
from scavenger_admitter.informers import SCAVENGERQUEUES, Informers
from scavenger_admitter.writer import SCAVENGERJOBS

ROUND_SECONDS: Final = 1.0
DELETIONS_AT_ONCE: Final = 32
DELETIONS_A_ROUND: Final = 500
"""The other queues are waiting."""

Series = Mapping[tuple[str, ...], float]
"""Label values → value."""

log = get_logger(__name__)


class QueueController:
    """Keeps the ScavengerQueues.

    Args:
        client: to write with.
        clock: for the rounds.
        events: to say that a queue is being released.
        informers: of queues, jobs and pods.
        admission: what each queue has and deserves, as of the last cycle.
    """

    def __init__(
        self,
        client: ApiClient,
        clock: Clock,
        events: EventRecorder,
        informers: Informers,
        admission: AdmissionLoop,
    ) -> None:
        self._client = client
        self._clock = clock
        self._events = events
        self._queues = informers.queues
        self._jobs = informers.jobs
        self._pods = informers.pods
        self._admission = admission
        self._phases: defaultdict[str, Counter[Phase | None]] = defaultdict(Counter)
        self._unread: dict[str, Counter[Phase | None]] = {}
        self._tasks: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._written: dict[str, tuple[str, ScavengerQueueStatus]] = {}
        self._shown: dict[Gauge, Series] = {}
        self._slots = asyncio.Semaphore(DELETIONS_AT_ONCE)
        self._jobs.add_handler(self._on_job)

    def _on_job(self, change: Change[ScavengerJob]) -> None:
        for job, step in ((change.old, -1), (change.new, +1)):
            if job is not None:
                self._phases[job.spec.queue][job.status.phase] += step
                for state, count in _tasks_of(job).items():
                    self._tasks[job.spec.queue][state] += step * count

    async def run(self) -> None:
        """One round after the other, until cancelled."""
        while True:
            await self.round()
            await self._clock.sleep(ROUND_SECONDS)

    async def round(self) -> None:
        """Bring every queue to where it should be; whatever fails is tried again in the next round."""
        present = {queue.metadata.name: queue for queue in self._queues.items()}
        for gone in self._written.keys() - present.keys():
            del self._written[gone]
        shares = self._admission.shares
        self._show(metrics.QUEUE_ALLOCATED, _amounts({name: share.allocated for name, share in shares.items()}))
        self._show(metrics.QUEUE_DESERVED, _amounts({name: share.deserved for name, share in shares.items()}))
        self._show(metrics.JOBS, _jobs(self._phases, present))
        self._show(metrics.TASKS, _tasks(self._tasks, present))
        self._unread = self._count_unread()
        await asyncio.gather(*(self._keep(queue) for queue in present.values()))

    def _count_unread(self) -> dict[str, Counter[Phase | None]]:
        """Of each queue, the jobs that cannot be read any more, by the phase in which they were read last. The queue of
        a job that could never be read is not known."""
        found = defaultdict[str, Counter[Phase | None]](Counter)
        for key in self._jobs.unreadable:
            if (job := self._jobs.get(key)) is not None:
                found[job.spec.queue][job.status.phase] += 1
        return found

    def _show(self, gauge: Gauge, series: Series) -> None:
        """Have a gauge show these series in place of others. In most rounds nothing has changed, and that is cheap."""
        if self._shown.get(gauge) == series:
            return
        gauge.clear()
        for labels, value in series.items():
            gauge.labels(*labels).set(value)
        self._shown[gauge] = series

    async def _keep(self, queue: ScavengerQueue) -> None:
        """The finalizer first: it is written for the version that is shown, and the status makes a newer one. Where it
        meets a conflict, no status is written, so that the informer catches up before the next round."""
        try:
            if queue.metadata.deletion_timestamp is not None:
                await self._release(queue)
            else:
                await self._hold(queue)
                await self._write_status(queue)
        except (Conflict, NotFound):
            pass  # there is a newer version, or none: the next round sees it
        except ApiError as error:
            log.warning("queue not kept; tried again", queue=queue.metadata.name, error=str(error))

    # --- status ---

    async def _write_status(self, queue: ScavengerQueue) -> None:
        meta, share = queue.metadata, self._admission.shares.get(queue.metadata.name)
        if share is None:  # no admission cycle has seen it yet
            return
        unread = self._unread.get(meta.name, Counter())
        status = queue_status(queue, self._phases[meta.name] - unread, share, unknown=unread.total())
        # The informer may not show yet what was written last.
        if status == queue.status or self._written.get(meta.name) == (meta.resource_version, status):
            return
        body = {
            "apiVersion": names.API_VERSION,
            "kind": SCAVENGERQUEUES.kind,
            "metadata": {"name": meta.name, "uid": meta.uid},
            "status": status.to_dict(),
        }
        await self._client.apply(
            SCAVENGERQUEUES, None, meta.name, body, field_manager=names.ADMITTER, subresource="status"
        )
        self._written[meta.name] = (meta.resource_version, status)

    # --- the end of a queue ---

    async def _hold(self, queue: ScavengerQueue) -> None:
        """See to it that the queue does not go before its jobs."""
        finalizers = queue.metadata.finalizers
        if names.QUEUE_FINALIZER not in finalizers:
            await set_finalizers(self._client, queue.metadata, (*finalizers, names.QUEUE_FINALIZER))

    async def _release(self, queue: ScavengerQueue) -> None:
        """Its jobs go first, then it goes."""
        name, finalizers = queue.metadata.name, queue.metadata.finalizers
        left = [job for job in self._jobs.by_index("queue", name) if self._uses(job)]
        ours = names.QUEUE_FINALIZER in finalizers
        if ours and not left:
            rest = tuple(f for f in finalizers if f != names.QUEUE_FINALIZER)
            await set_finalizers(self._client, queue.metadata, rest)
            log.info("queue released", queue=name)
            return
        await self._write_status(queue)
        if not ours:
            return
        # Jobs of users are theirs to delete: those that wait say that their queue is going.
        mine = (job for job in left if not job.spec.as_written)
        due = [job for job in mine if job.metadata.deletion_timestamp is None][:DELETIONS_A_ROUND]
        if due:
            log.info("releasing queue", queue=name, jobs=len(left), deleting=len(due))
            self._events.record(SCAVENGERQUEUES, queue, "Normal", "Releasing", "its jobs are deleted, then it goes")
        await asyncio.gather(*(self._delete(job) for job in due))

    def _uses(self, job: ScavengerJob) -> bool:
        """Whether the job still needs its queue: nothing of one that is being deleted starts any more."""
        return job.metadata.deletion_timestamp is None or bool(self._pods.by_index("job", job.key))

    async def _delete(self, job: ScavengerJob) -> None:
        meta = job.metadata
        async with self._slots:
            with contextlib.suppress(Conflict):  # another one of that name by now
                await self._client.delete(SCAVENGERJOBS, meta.namespace, meta.name, uid=meta.uid)


async def set_finalizers(client: ApiClient, meta: Any, finalizers: tuple[str, ...]) -> None:
    """Write the finalizers of this very version of a ScavengerQueue.

    Raises:
        Conflict: there is a newer version.
        NotFound: it is gone.
        ApiError: the API server refuses.
    """
    patch = {
        "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version, "finalizers": list(finalizers)},
    }
    await client.merge_patch(SCAVENGERQUEUES, None, meta.name, patch)


def _amounts(found: Mapping[str, Mapping[str, int] | None]) -> Series:
    """By queue, resource and unit."""
    return {
        (queue, resource, unit_of(resource)): value / 1000 if resource == "cpu" else value
        for queue, amounts in found.items()
        for resource, value in (amounts or {}).items()
    }


def _jobs(phases: Mapping[str, Counter[Phase | None]], known: Collection[str]) -> Series:
    """How many jobs there are, by phase and queue. Only who leads says so, or two replicas would count each twice."""
    found = defaultdict[tuple[str, ...], int](int)
    for queue in {names.DEFAULT_QUEUE, *known, *phases}:
        label = metrics.queue_label(queue, known)
        metrics.begin(label)
        for phase, count in phases.get(queue, {}).items():
            if count:
                found[phase or Phase.WAITING, label] += count
    return found


def _tasks_of(job: ScavengerJob) -> dict[str, int]:
    """How many tasks of the array are in each state, as its status says; empty for a job that is no array. The tasks of
    an adopted Job are its completions; the status of one says how many pods are ready, and not which. Tasks of an
    array that is over, and that have not ended, wait for nothing and are left out."""
    if job.spec.array is None:
        return {}
    status = job.status.array or ArrayStatus()
    ended = {"completed": status.completed, "failed": status.failed}
    if (job.status.phase or Phase.WAITING).finished:
        return ended
    running = job.ready if isinstance(job, AdoptedJob) else status.running
    waiting = job.spec.array.tasks - status.completed - status.failed - running
    return {"waiting": max(0, waiting), "running": running, **ended}


def _tasks(tasks: Mapping[str, Counter[str]], known: Collection[str]) -> Series:
    """How many tasks arrays and adopted Jobs have, by queue and state: four series a queue that has had an array."""
    found = defaultdict[tuple[str, ...], int](int)
    for queue, counts in tasks.items():
        for state, count in counts.items():
            found[metrics.queue_label(queue, known), state] += count
    return found
