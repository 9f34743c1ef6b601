"""Leaves a cluster without anything that only the admitter could remove.

The pods of scavenger jobs carry a finalizer that keeps the evidence of an interruption until it is recorded. Without an
admitter nobody would ever take it off. So before the admitter goes for good, the Jobs of all ScavengerJobs are deleted
and their pods released. ScavengerQueues lose their finalizer as well. They and the ScavengerJobs themselves stay, as
data, until the CRDs are deleted.
"""

from __future__ import annotations

import asyncio
import contextlib

from scavenger_api import names
from scavenger_kube.client import ApiClient
from scavenger_kube.errors import Conflict, NotFound
from scavenger_kube.resources import JOBS, PODS
from scavenger_runtime.clock import Clock, SystemClock
from scavenger_runtime.logging import configure_logging, get_logger
from scavenger_runtime.stale_marks import release

from scavenger_admitter.freshness import metadata_of
from scavenger_admitter.informers import SCAVENGERQUEUES
from scavenger_admitter.queue_controller import set_finalizers
from scavenger_admitter.settings import AdmitterSettings

log = get_logger(__name__)

ROUNDS = 30
ROUND_SECONDS = 0.5


async def clean(client: ApiClient, clock: Clock | None = None) -> int:
    """Delete the Jobs and release the pods, until no pod carries the finalizer any more. Returns how many.

    Raises:
        RuntimeError: when pods with the finalizer keep appearing: an admitter still runs.
        ApiError: when the API server refuses.
    """
    clock = clock or SystemClock()
    await _release_queues(client)
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
