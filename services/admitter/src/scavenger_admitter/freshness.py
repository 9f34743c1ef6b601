"""What informers show may be old news, each of its own age. Where that matters, the API server itself is asked.

Three things would be wrong otherwise. What one informer does not show yet looks like something deleted: pods whose Job
the watch of Jobs has not brought so far are no orphans. Who takes over from another leader must not decide on what
was true before that one's last writes. And what cannot be undone, such as a start or a verdict, must not follow from
old news (docs/designs/0019-confirm-before-what-cannot-be-undone.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import msgspec
from scavenger_api import names
from scavenger_api.job import Phase
from scavenger_kube.client import ApiClient
from scavenger_kube.errors import ApiError, NotFound
from scavenger_kube.kinds import Job, Node, ObjectMeta, Pod, Struct
from scavenger_kube.resources import JOBS, NODES, PODS, Item, Params, Resource
from scavenger_runtime.clock import Clock
from scavenger_runtime.informer import Informer
from scavenger_runtime.logging import get_logger
from scavenger_runtime.paging import PagedList

from scavenger_admitter.core.lifecycle import accounting
from scavenger_admitter.core.lifecycle.observation import Observation, Outcome
from scavenger_admitter.core.lifecycle.pods import deleting, moment
from scavenger_admitter.facts import run_of, version
from scavenger_admitter.writer import SCAVENGERJOBS, metadata_now

AGAIN_SECONDS: Final = 0.5
PATIENCE_SECONDS: Final = 10.0
"""A watch that has not brought by then what the API server has is given up, and everything is listed."""

log = get_logger(__name__)


class _ListMeta(Struct, frozen=True, gc=False, rename={"continue_": "continue"}):
    continue_: str = ""


class _List(Struct, frozen=True, gc=False, rename="camel"):
    metadata: _ListMeta = _ListMeta()
    items: tuple[Item, ...] = ()


class _Pods(msgspec.Struct):
    items: tuple[Pod, ...] = ()


async def metadata_of(client: ApiClient, resource: Resource[Any], labels: str | None = None) -> list[ObjectMeta]:
    """Metadata of all objects of a kind, from the API server. Raises ApiError."""
    found: list[ObjectMeta] = []
    token = ""
    pages = PagedList(client, resource.path(), {"labelSelector": labels})
    while True:
        page = msgspec.json.decode(await pages.page(token or None), type=_List)
        found += [item.metadata for item in page.items]
        token = page.metadata.continue_
        if not token:
            return found


async def caught_up(client: ApiClient, informer: Informer[Any], clock: Clock, labels: str | None = None) -> None:
    """Return once the informer shows every readable object (with these labels) at least as new as the API server had it
    when first asked. It does not give up: an informer that lists and watches cannot stay behind."""
    patience = clock.monotonic() + PATIENCE_SECONDS
    awaited: dict[str, str] | None = None
    while True:
        try:
            there = {m.key: m.resource_version for m in await metadata_of(client, informer.resource, labels)}
        except ApiError as error:
            log.warning("cannot tell whether an informer is up to date", informer=informer.name, error=str(error))
        else:
            wanted = there if awaited is None else {key: awaited[key] for key in awaited.keys() & there.keys()}
            awaited = {key: needed for key, needed in wanted.items() if _behind(informer, key, needed)}
            if not awaited:
                return
            log.info("waiting for an informer to catch up", informer=informer.name, objects=len(awaited))
        if clock.monotonic() >= patience:
            patience = clock.monotonic() + PATIENCE_SECONDS
            log.warning("listing what a watch does not bring", informer=informer.name)
            informer.list_again()
        await clock.sleep(AGAIN_SECONDS)


def _behind(informer: Informer[Any], key: str, needed: str) -> bool:
    if key in informer.unreadable:
        return False
    seen = informer.get(key)
    return seen is None or version(seen.metadata.resource_version) < version(needed)


def doubtful(seen: Observation) -> bool:
    """Whether something is missing that the status, or a pod, says was there: either it is gone, or its informer is
    behind the others, and what follows from the one must not be done for the other."""
    status, run, refused = seen.job.status, run_of(seen.job), seen.refused
    active = seen.was_starting or (status.phase is not None and status.phase.active)
    if any(deleting(pod) and not pod.ended and seen.nodes.get(name) is None for name, pod in _placed(seen)):
        return True
    if seen.batch is None and refused is not None and refused.server_trouble:
        return True  # the Job may have been created all the same, and its informer be behind
    if seen.batch is None:
        mine = any(pod.metadata.annotations.get(names.ANNOTATION_RUN) == run for pod in seen.pods)
        return active or (mine and not (status.phase and status.phase.finished))
    if not active or accounting.run_start(status) is None:
        return False
    uid = seen.batch.metadata.uid
    members = sum((owner := pod.metadata.controller) is not None and owner.uid == uid for pod in seen.pods)
    return members < seen.job.spec.parallelism


def final(seen: Observation, outcome: Outcome) -> bool:
    """Whether there is a verdict that the pods shown do not prove: the job is Completed because its Job says so, or
    finished no longer, or a run that nobody interrupted ends because the job is suspended."""
    before, after = seen.job.status.phase, outcome.status.phase
    if before is not None and before.finished:
        return after is not None and not after.finished
    if before is not None and before.active and after is Phase.SUSPENDED:
        return True
    if after is not Phase.COMPLETED:
        return False
    run = run_of(seen.job)
    succeeded = sum(pod.status.phase == "Succeeded" and _place(pod.metadata) == run for pod in seen.pods)
    return succeeded < seen.job.spec.parallelism


async def overtaken(client: ApiClient, seen: Observation) -> bool:
    """Whether there is a newer version of the ScavengerJob than this, or none any more. The API server is asked where a
    Job or a pod has a later place in line, as another process may have ended a run since. Raises ApiError."""
    job, known = seen.job.metadata, seen.job.status.queued_timestamp
    metas = [pod.metadata for pod in seen.pods] + ([seen.batch.metadata] if seen.batch is not None else [])
    if known is None or not any((place := moment(_place(meta))) is not None and place > known for meta in metas):
        return False
    found = await metadata_now(client, SCAVENGERJOBS, job.namespace, job.name)
    return found is None or version(found.resource_version) > version(job.resource_version)


def _place(meta: ObjectMeta) -> str:
    return meta.annotations.get(names.ANNOTATION_RUN, "")


async def exists(client: ApiClient, key: str) -> bool:
    """Whether there is a ScavengerJob `namespace/name`. That its informer does not show it proves nothing: it leaves
    out what it cannot read, such as what a newer admitter has written, and may be behind. Raises ApiError."""
    namespace, _, name = key.partition("/")
    return await metadata_now(client, SCAVENGERJOBS, namespace, name) is not None


async def confirmed(client: ApiClient, seen: Observation) -> Observation:
    """The same with its Job, its pods and the nodes that are missing as the API server has them. Raises ApiError."""
    batch = await _get(client, JOBS, Job, seen.job.metadata.namespace, seen.job.metadata.name)
    return await with_pods(client, replace(seen, batch=batch))


async def with_pods(client: ApiClient, seen: Observation) -> Observation:
    """The same with its pods and the nodes that are missing as the API server has them. Raises ApiError."""
    meta = seen.job.metadata
    params: Params = {"labelSelector": f"{names.LABEL_JOB}={meta.name}"}
    body = await client.request("GET", PODS.path(meta.namespace), params=params)
    pods = msgspec.json.decode(body, type=_Pods).items
    found = replace(seen, pods=pods)
    nodes = dict(seen.nodes)
    for name, _ in _placed(found):
        if nodes.get(name) is None:
            nodes[name] = await _get(client, NODES, Node, None, name)
    return replace(found, nodes=nodes)


def _placed(seen: Observation) -> Iterator[tuple[str, Pod]]:
    for pod in seen.pods:
        if pod.spec.node_name:
            yield pod.spec.node_name, pod


async def _get(client: ApiClient, resource: Resource[Any], kind: type[Any], namespace: str | None, name: str) -> Any:
    try:
        return msgspec.json.decode(await client.get(resource, namespace, name), type=kind)
    except NotFound:
        return None
