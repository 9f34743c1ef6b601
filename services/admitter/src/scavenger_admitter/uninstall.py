"""Leaves a cluster without anything that only the admitter could remove.

The pods of scavenger jobs carry a finalizer that keeps the evidence of an interruption until it is recorded. Without an
admitter no component would ever remove it. So before the admitter goes for good, the Jobs of all ScavengerJobs and
their pods are deleted, and the pods released. ScavengerQueues lose their finalizer as well. They and the ScavengerJobs
themselves stay, as data, until the CRDs are deleted. Their statuses say first that nothing of them runs. That is judged
as an admitter would judge it. So one that is installed later counts nothing twice, and books no time without it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec
from pydantic import ValidationError
from scavenger_api import names
from scavenger_api.job import Phase, ScavengerJob
from scavenger_api.ledger import LedgerError
from scavenger_api.reasons import InterruptionReason
from scavenger_domain.pod_ends import moment
from scavenger_kube.client import ApiClient
from scavenger_kube.errors import ApiError, Conflict, NotFound
from scavenger_kube.kinds import Node, ObjectMeta
from scavenger_kube.resources import JOBS, LEASES, PODS, Lease, Resource
from scavenger_runtime.clock import Clock, SystemClock
from scavenger_runtime.logging import configure_logging, get_logger
from scavenger_runtime.stale_marks import release

from scavenger_admitter.core.adopted.plan import left_behind
from scavenger_admitter.core.adopted.work import AdoptedJob
from scavenger_admitter.core.lifecycle.books.book import taken_down
from scavenger_admitter.core.lifecycle.confirmed import confirm
from scavenger_admitter.core.lifecycle.observation import InterruptDecision, Known, Seen
from scavenger_admitter.core.lifecycle.success import SHOWS_LIFE_AFTER, Evidence, Success
from scavenger_admitter.core.recommended import sized
from scavenger_admitter.freshness import active_jobs, adopted_jobs, metadata_of, nodes_by_name, with_run
from scavenger_admitter.informers import SCAVENGERQUEUES
from scavenger_admitter.queue_controller import set_finalizers
from scavenger_admitter.settings import AdmitterSettings
from scavenger_admitter.success_evidence import LOOKS_EVERY, NAMESPACE, shows_life
from scavenger_admitter.writer import ADOPTED_JOBS, SCAVENGERJOBS, merged

log = get_logger(__name__)

PROVEN_SECONDS: Final = 25.0
"""In which a node has shown life after an end that came last, where it lives."""
LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)
ROUNDS = 30
ROUND_SECONDS = 0.5
TRIES = 3
AT_ONCE = 16
"""Statuses that are written at the same time."""
GONE = "the admitter was uninstalled: nothing of it runs"
"""What the message of a job says."""


async def clean(client: ApiClient, clock: Clock | None = None, *, after: float = SHOWS_LIFE_AFTER) -> int:
    """Delete the Jobs and release the pods, until no pod carries the finalizer any more. Returns how many.

    Args:
        client: to read and write with.
        clock: None for that of the machine.
        after: seconds after its end until which the node of a success has to show life. 0: every exit with 0 is final.

    Raises:
        RuntimeError: when pods with the finalizer keep appearing: an admitter still runs.
        ApiError: when the API server refuses.
    """
    clock = clock or SystemClock()
    await _release_queues(client)
    await _write_statuses(client, clock, timedelta(seconds=after))
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
            if pod.deletion_timestamp is None:  # the garbage collector leaves pods whose Job a finalizer holds
                with contextlib.suppress(Conflict):
                    await client.delete(PODS, pod.namespace, pod.name, uid=pod.uid)
            await release(client, pod.namespace, pod.name, pod.uid)
        released += len(held)
        await clock.sleep(ROUND_SECONDS)
    raise RuntimeError("pods with the finalizer keep appearing: scale the admitter to 0 first")


async def _write_statuses(client: ApiClient, clock: Clock, after: timedelta) -> None:
    """Commit that no job runs. Raises ApiError where jobs or nodes cannot be listed."""
    jobs: list[tuple[Resource[Any], ObjectMeta]] = []
    with contextlib.suppress(NotFound):  # the CRD has gone first, and all jobs with it
        jobs += [(SCAVENGERJOBS, meta) for meta in await active_jobs(client)]
    jobs += [(ADOPTED_JOBS, meta) for meta in await adopted_jobs(client)]
    nodes = await nodes_by_name(client) if jobs else {}
    turns, proofs = asyncio.Semaphore(AT_ONCE), _Proofs(client, clock, after)

    async def stop(kind: Resource[Any], meta: ObjectMeta) -> None:
        async with turns:
            await _stop(client, kind, meta, nodes, clock, proofs)

    await asyncio.gather(*(stop(*one) for one in jobs))


class _Proofs:
    """Looks for signs of life of nodes on which programs have just ended with 0. A machine that goes down has them end
    so as well, and what is Completed cannot be taken back.

    Args:
        client: to read Leases with.
        clock: for the looks.
        after: how long after its end the node of a success has to show life.
    """

    def __init__(self, client: ApiClient, clock: Clock, after: timedelta) -> None:
        self._client = client
        self._clock = clock
        self._after = after
        self._until = clock.monotonic() + PROVEN_SECONDS

    @property
    def none(self) -> Evidence:
        """What is known before any lookup."""
        return Evidence(required=bool(self._after))

    async def of(self, unproven: Sequence[Success]) -> Evidence:
        """What is known of these successes in the end. All jobs together wait no longer than kubelets renew Leases."""
        proven, left = set[str](), list(unproven)
        while True:
            for name in {one.node for one in left}:
                signs = await self._renewed(name)
                proven |= {one.uid for one in left if one.node == name and shows_life(one, signs, self._after)}
            left = [one for one in left if one.uid not in proven]
            if not left or self._clock.monotonic() >= self._until:
                return Evidence(required=True, proven=frozenset(proven), given_up=True)
            await self._clock.sleep(LOOKS_EVERY)

    async def _renewed(self, node: str) -> datetime:
        """When a node has renewed its Lease; long ago where that cannot be read."""
        try:
            lease = msgspec.json.decode(await self._client.get(LEASES, NAMESPACE, node), type=Lease)
        except ApiError:
            return LONG_AGO
        return moment(lease.spec.renew_time) or LONG_AGO


async def _stop(
    client: ApiClient,
    kind: Resource[Any],
    meta: ObjectMeta,
    nodes: Mapping[str, Node | None],
    clock: Clock,
    proofs: _Proofs,
) -> None:
    """Commit the end of the present run of a job, or that no task of an array runs any more. A job that has changed
    meanwhile is judged again, as it is then. One whose status cannot be written does not keep the others back."""
    why = "its status changes all the time"
    for _ in range(TRIES):
        try:
            found = await client.get(kind, meta.namespace, meta.name)
            job: ScavengerJob = sized(kind.type.model_validate_json(found))
            status = await _status_after(client, job, nodes, clock, proofs)
            if status is not None:
                patch = {"metadata": {"resourceVersion": job.metadata.resource_version}, "status": status}
                await client.merge_patch(kind, meta.namespace, meta.name, patch, subresource="status")
            return
        except Conflict:
            continue
        except NotFound:
            return
        except (ApiError, ValidationError, LedgerError) as error:  # the latter of a job of a newer version
            why = str(error)
            break
    log.warning("left a status as it is", job=meta.key, why=why)


async def _status_after(
    client: ApiClient, job: ScavengerJob, nodes: Mapping[str, Node | None], clock: Clock, proofs: _Proofs
) -> dict[str, Any] | None:
    """The status of a job whose pods go now, as a merge patch; None where it stays as it is."""
    seen = await with_run(client, Seen(job=job, batch=None, pods=(), nodes=nodes, now=clock.now()))
    observed = taken_down(seen, InterruptDecision(InterruptionReason.JOB_DELETED, GONE))
    observed = replace(observed, known=Known(evidence=proofs.none))
    decided = confirm(observed)
    if decided is not None and decided.value.unproven:
        evidence = await proofs.of(decided.value.unproven)
        seen = replace(observed.seen, now=clock.now())
        decided = confirm(replace(observed, seen=seen, known=Known(evidence=evidence)))
    assert decided is not None, "the API server was asked"
    if isinstance(job, AdoptedJob):
        return left_behind(job, decided.value, GONE, clock.now())
    status = decided.value.status
    if status.phase is None or status.phase.active:  # it had not begun: there is nothing to book
        status = status.model_copy(update={"phase": Phase.WAITING, "message": GONE})
    elif status.phase is Phase.SUSPENDED:
        status = status.model_copy(update={"message": GONE})
    return merged(status) if status != job.status else None


async def _release_queues(client: ApiClient) -> None:
    with contextlib.suppress(NotFound):  # the CRD has gone first, and all queues with it
        for queue in await metadata_of(client, SCAVENGERQUEUES):
            rest = tuple(f for f in queue.finalizers if f != names.QUEUE_FINALIZER)
            if rest != queue.finalizers:
                with contextlib.suppress(NotFound):
                    await set_finalizers(client, queue, rest)


async def _run(settings: AdmitterSettings) -> int:
    async with await ApiClient.connect(kubeconfig=settings.kubeconfig, context=settings.context) as client:
        released = await clean(client, after=settings.success_evidence_after)
    log.info("uninstalled", released_pods=released)
    return 0


def uninstall(settings: AdmitterSettings) -> int:
    """Clean up; returns the exit code."""
    configure_logging(names.ADMITTER, level=settings.log_level, format=settings.log_format)
    return asyncio.run(_run(settings))
