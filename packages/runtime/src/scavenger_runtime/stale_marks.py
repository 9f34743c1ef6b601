"""Marks on objects that others act on: they hang drains and deletions while the service that removes them is away.

A budget of the prioritizer refuses every eviction, and a finalizer of the admitter keeps a pod that has ended. So a
service that leads removes them once the Lease of the other has not been renewed for a minute. The prioritizer writes
its budgets again when it returns. The admitter judges a pod that is gone by its last words (`last_words.py`). Without
them it counts an interruption, which the Job proves.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Final

import msgspec
from scavenger_api import names
from scavenger_kube.client import ApiClient
from scavenger_kube.errors import ApiError, Conflict, NotFound
from scavenger_kube.kinds import ObjectMeta, Pod, Struct
from scavenger_kube.resources import LEASES, PODDISRUPTIONBUDGETS, PODS, Lease, Params

from scavenger_runtime import metrics
from scavenger_runtime.clock import Clock
from scavenger_runtime.last_words import LastWords
from scavenger_runtime.logging import get_logger

LOOK_SECONDS: Final = 20.0
"""Between two looks at the Lease."""

REMOVED = metrics.counter(
    "stale_marks_removed_total", "Budgets and finalizers removed for a service whose Lease is stale.", ["lease"]
)

log = get_logger(__name__)


class _Named(Struct, frozen=True, gc=False):
    metadata: ObjectMeta


class _List(Struct, frozen=True, gc=False):
    items: tuple[_Named, ...] = ()


class StaleMarks:
    """Watches the Lease of one service, and removes its marks while it is not renewed.

    Without a Lease nothing is removed: that service is not installed here, or runs without leader election.

    Args:
        client: to read and write with.
        clock: whose monotonic time counts; what the Lease says about times does not.
        namespace: of the Lease.
        service: whose Lease and marks.
        remove: removes the marks, and returns how many there were. May raise ApiError.
    """

    def __init__(
        self, client: ApiClient, clock: Clock, *, namespace: str, service: str, remove: Callable[[], Awaitable[int]]
    ) -> None:
        self._client = client
        self._clock = clock
        self._namespace = namespace
        self._service = service
        self._remove = remove
        self._version: str | None = None
        self._since = 0.0

    async def run(self) -> None:
        """Look every `LOOK_SECONDS`, until cancelled."""
        while True:
            try:
                await self._look()
            except ApiError as error:
                self._version = None  # while the API server was away, no replica could renew a Lease
                log.warning("cannot look for stale marks", service=self._service, error=str(error))
            await self._clock.sleep(LOOK_SECONDS)

    async def _look(self) -> None:
        version, now = await self._lease_version(), self._clock.monotonic()
        if version is None or version != self._version:
            self._version, self._since = version, now
        elif now - self._since >= names.LEADER_SILENT_SECONDS and (count := await self._remove()):
            REMOVED.labels(self._service).inc(count)
            log.warning("removed stale marks", service=self._service, count=count, silent=round(now - self._since))

    async def _lease_version(self) -> str | None:
        try:
            body = await self._client.get(LEASES, self._namespace, self._service)
        except NotFound:
            return None
        return msgspec.json.decode(body, type=Lease).metadata.resource_version


def stale_budgets(client: ApiClient, clock: Clock, namespace: str) -> StaleMarks:
    """The budgets of the prioritizer."""
    remove = partial(remove_budgets, client)
    return StaleMarks(client, clock, namespace=namespace, service=names.PRIORITIZER, remove=remove)


def stale_finalizers(
    client: ApiClient, clock: Clock, namespace: str, pods: Callable[[], Iterable[Pod]], *, by: str
) -> StaleMarks:
    """The finalizers of the admitter on those of the shown pods that have ended and are being deleted. by: the
    component that removes them, which keeps the last words of the pods."""
    words = LastWords(client, namespace, names.LAST_WORDS[by])

    async def remove() -> int:
        return await release_deleted(client, pods(), words)

    return StaleMarks(client, clock, namespace=namespace, service=names.ADMITTER, remove=remove)


async def remove_budgets(client: ApiClient) -> int:
    """Delete the budgets of the prioritizer in all namespaces. Returns how many. Raises ApiError."""
    params: Params = {
        "fieldSelector": f"metadata.name={names.DISRUPTION_BUDGET}",
        "labelSelector": f"{names.LABEL_MANAGED_BY}={names.PRIORITIZER}",
    }
    found = msgspec.json.decode(await client.request("GET", PODDISRUPTIONBUDGETS.path(), params=params), type=_List)
    for meta in (item.metadata for item in found.items):
        with contextlib.suppress(Conflict):
            await client.delete(PODDISRUPTIONBUDGETS, meta.namespace, meta.name, uid=meta.uid)
    return len(found.items)


async def release_deleted(client: ApiClient, pods: Iterable[Pod], words: LastWords) -> int:
    """Take the finalizer off pods that only it keeps, once their last words are written. Returns how many. Raises
    ApiError."""
    held = [pod for pod in pods if names.FINALIZER in pod.metadata.finalizers and _only_kept(pod)]
    if ended := [pod for pod in held if pod.ended]:
        await words.write(ended)
    for pod in held:
        with contextlib.suppress(Conflict):
            await release(client, pod.metadata.namespace, pod.metadata.name, pod.metadata.uid)
    return len(held)


def _only_kept(pod: Pod) -> bool:
    """Whether it is being deleted and nothing of it can run. One on a node that is lost may run on, however it was
    deleted, and the finalizer keeps its job from a second life beside it."""
    return pod.metadata.deletion_timestamp is not None and (pod.ended or not pod.spec.node_name)


async def release(client: ApiClient, namespace: str, pod: str, uid: str) -> None:
    """Take our finalizer off a pod, and only ours; a pod that is gone is released. Raises ApiError."""
    patch = {"metadata": {"uid": uid, "$deleteFromPrimitiveList/finalizers": [names.FINALIZER]}}
    with contextlib.suppress(NotFound):
        await client.strategic_patch(PODS, namespace, pod, patch)
