"""Leaves a cluster without anything that only the admitter could remove.

The pods of scavenger jobs carry a finalizer that keeps the evidence of an interruption until it is recorded. Without an
admitter nobody would ever take it off. So before the admitter goes for good, the Jobs of all ScavengerJobs are deleted
and their pods released. ScavengerQueues lose their finalizer as well. They and the ScavengerJobs themselves stay, as
data, until the CRDs are deleted. Their statuses say first that nothing of them runs. That is judged as an admitter
would judge it. So one that is installed later counts nothing twice, and books no time without it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from scavenger_api import names
from scavenger_api.job import Phase, ScavengerJob
from scavenger_api.reasons import InterruptionReason
from scavenger_kube.client import ApiClient
from scavenger_kube.errors import ApiError, Conflict, NotFound
from scavenger_kube.kinds import Node, ObjectMeta
from scavenger_kube.resources import JOBS, PODS
from scavenger_runtime.clock import Clock, SystemClock
from scavenger_runtime.logging import configure_logging, get_logger
from scavenger_runtime.stale_marks import release

from scavenger_admitter.core.lifecycle.books.book import taken_down
from scavenger_admitter.core.lifecycle.confirmed import confirm
from scavenger_admitter.core.lifecycle.observation import InterruptDecision, Seen
from scavenger_admitter.freshness import active_jobs, metadata_of, nodes_by_name, with_run
from scavenger_admitter.informers import SCAVENGERQUEUES
from scavenger_admitter.queue_controller import set_finalizers
from scavenger_admitter.settings import AdmitterSettings
from scavenger_admitter.writer import SCAVENGERJOBS, own_fields

log = get_logger(__name__)

ROUNDS = 30
ROUND_SECONDS = 0.5
TRIES = 3
AT_ONCE = 16
"""Statuses that are written at the same time."""
GONE = "the admitter was uninstalled: nothing of it runs"
"""What the message of a job says."""


async def clean(client: ApiClient, clock: Clock | None = None) -> int:
    """Delete the Jobs and release the pods, until no pod carries the finalizer any more. Returns how many.

    Raises:
        RuntimeError: when pods with the finalizer keep appearing: an admitter still runs.
        ApiError: when the API server refuses.
    """
    clock = clock or SystemClock()
    await _release_queues(client)
    await _write_statuses(client, clock)
    released = 0
    for _ in range(ROUNDS):
        for job in await metadata_of(client, JOBS, names.LABEL_JOB):
            if any(owner.kind == "ScavengerJob" for owner in job.owner_references):
                with contextlib.suppress(Conflict):  # another one of that name by now; the next round sees it
                    await client.delete(JOBS, job.namespace, job.name, uid=job.uid)
        held = [pod for pod in await metadata_of(client, PODS, names.LABEL_JOB) if names.FINALIZER in pod.finalizers]
        if not held:
            return released
        for pod in held:
            await release(client, pod.namespace, pod.name, pod.uid)
        released += len(held)
        await clock.sleep(ROUND_SECONDS)
    raise RuntimeError("pods with the finalizer keep appearing: scale the admitter to 0 first")


async def _write_statuses(client: ApiClient, clock: Clock) -> None:
    """Commit that no job runs. Raises ApiError where jobs or nodes cannot be listed."""
    try:
        jobs = await active_jobs(client)
    except NotFound:  # the CRD has gone first, and all jobs with it
        return
    nodes = await nodes_by_name(client) if jobs else {}
    turns = asyncio.Semaphore(AT_ONCE)

    async def stop(meta: ObjectMeta) -> None:
        async with turns:
            await _stop(client, meta, nodes, clock)

    await asyncio.gather(*map(stop, jobs))


async def _stop(client: ApiClient, meta: ObjectMeta, nodes: Mapping[str, Node | None], clock: Clock) -> None:
    """Commit the end of the present run of a job, or that no task of an array runs any more. A job that has changed
    meanwhile is judged again, as it is then. One whose status cannot be written does not keep the others back."""
    why = "its status changes all the time"
    for _ in range(TRIES):
        try:
            job = ScavengerJob.model_validate_json(await client.get(SCAVENGERJOBS, meta.namespace, meta.name))
            status = await _status_after(client, job, nodes, clock)
            if status is not None:
                patch = {"metadata": {"resourceVersion": job.metadata.resource_version}, "status": status}
                await client.merge_patch(SCAVENGERJOBS, meta.namespace, meta.name, patch, subresource="status")
            return
        except Conflict:
            continue
        except NotFound:
            return
        except (ApiError, ValidationError) as error:  # the latter of a job of a newer version
            why = str(error)
            break
    log.warning("left a status as it is", job=meta.key, why=why)


async def _status_after(
    client: ApiClient, job: ScavengerJob, nodes: Mapping[str, Node | None], clock: Clock
) -> dict[str, Any] | None:
    """The status of a job whose pods go now, in the fields of the admitter; None where it stays as it is."""
    seen = await with_run(client, Seen(job=job, batch=None, pods=(), nodes=nodes, now=clock.now()))
    decided = confirm(taken_down(seen, InterruptDecision(InterruptionReason.JOB_DELETED, GONE)))
    assert decided is not None, "the API server was asked"
    status = decided.value.status
    if status.phase is None or status.phase.active:  # it had not begun: there is nothing to book
        status = status.model_copy(update={"phase": Phase.WAITING, "message": GONE})
    elif status.phase is Phase.SUSPENDED:
        status = status.model_copy(update={"message": GONE})
    return own_fields(status, job.status) if status != job.status else None


async def _release_queues(client: ApiClient) -> None:
    with contextlib.suppress(NotFound):  # the CRD has gone first, and all queues with it
        for queue in await metadata_of(client, SCAVENGERQUEUES):
            rest = tuple(f for f in queue.finalizers if f != names.QUEUE_FINALIZER)
            if rest != queue.finalizers:
                with contextlib.suppress(NotFound):
                    await set_finalizers(client, queue, rest)


async def _run(settings: AdmitterSettings) -> int:
    async with await ApiClient.connect(kubeconfig=settings.kubeconfig, context=settings.context) as client:
        released = await clean(client)
    log.info("uninstalled", released_pods=released)
    return 0


def uninstall(settings: AdmitterSettings) -> int:
    """Clean up; returns the exit code."""
    configure_logging(names.ADMITTER, level=settings.log_level, format=settings.log_format)
    return asyncio.run(_run(settings))
